"""Commands that do from a terminal what a page shows."""

from __future__ import annotations

import shlex


def diff_command(a: str, b: str, url: str) -> str:
    """The comparison of this page."""
    return shlex.join(["gradassay", "diff", a, b, "--url", url])


def post_commands(url: str) -> tuple[str, str]:
    """How a run gets here: with the command line, and with curl alone."""
    curl = (
        "curl --fail-with-body --data-binary @run.safetensors -H 'Content-Type: application/octet-stream' "
        f'-H "Authorization: Bearer $GRADASSAY_TOKEN" {url}/api/v1/runs'
    )
    return shlex.join(["gradassay", "post", "run.safetensors", "--url", url]), curl


def build_command(url: str) -> str:
    """How a golden is built and proposed here."""
    return shlex.join(["gradassay", "golden", "build", "moe-tiny", "--url", url])
