"""A process that asks for a golden as a worker of a test session does, to be interrupted and killed.

`python candidate_worker.py FOLDER PROBLEM`, in a folder where the problem's module is: prints the golden's digest. What it
ran itself is a line in FOLDER/ran.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from gradassay.goldens.container import digest_of_file
from gradassay.goldens.errors import GradassayError
from gradassay.harness.launch import Outcome, Pool, Task
from gradassay.testing import candidates


class TellingPool(Pool):
    """A pool that leaves a line in a file when it is used."""

    def __init__(self, told: Path) -> None:
        super().__init__()
        self._told = told

    def run(self, tasks: Iterable[Task]) -> Iterator[Outcome]:
        """The outcomes."""
        with self._told.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return super().run(tasks)


def main(folder: Path, problem: str) -> int:
    """0, 1 where the golden cannot be built, 130 where it was interrupted."""
    try:
        with TellingPool(folder / "ran") as pool:
            print(digest_of_file(candidates.build(problem, "float32", folder / "candidates", pool=pool)))
    except GradassayError as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
