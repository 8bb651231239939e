#!/bin/sh
# Installs the Debian packages that tests start for real, where they are missing: Postgres, Chromium, and what docs/ci.md calls.
set -eu

missing=""
set -- /usr/lib/postgresql/*/bin/initdb
[ -x "$1" ] || command -v initdb >/dev/null || missing="$missing postgresql"
command -v chromium >/dev/null || missing="$missing chromium"
for command in curl jq openssl; do
    command -v "$command" >/dev/null || missing="$missing $command"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "The tests need$missing. Install it: sudo apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
echo "Installing$missing (once)"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing
