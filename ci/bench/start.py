"""Starts a command again and again, and prints seconds and peak memory of each as JSON: for bench.assay.

python -S ci/bench/start.py ROUNDS [--forget FILE]... -- COMMAND...

A process of its own with few imports, because a command begins with the memory of the process that started it.
"""

from __future__ import annotations

import json
import os
import sys
import time


def main(rounds: int, forgotten: list[str], command: list[str]) -> None:
    """Exits with the command's exit code where it is not 0."""
    found = []
    for _ in range(rounds):
        for path in forgotten:
            forget(path)
        silenced = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
        began = time.perf_counter()
        _, status, used = os.wait4(os.posix_spawn(command[0], command, os.environ, file_actions=silenced), 0)
        found.append({"seconds": time.perf_counter() - began, "peak_bytes": used.ru_maxrss * 1024})
        if code := os.waitstatus_to_exitcode(status):
            sys.exit(code)
    print(json.dumps(found))


def forget(path: str) -> None:
    """Drops a file from the system's cache, so that it is read from disk."""
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


if __name__ == "__main__":
    before = sys.argv.index("--")
    main(int(sys.argv[1]), sys.argv[3:before:2], sys.argv[before + 1 :])
