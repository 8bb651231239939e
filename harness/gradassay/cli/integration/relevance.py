"""Whether anything changed that a job is about, as git says."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SHOWN = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance:
    """skip: nothing relevant changed, and that is certain. reason: why the job is skipped, or why it is not."""

    skip: bool
    reason: str


class _Unknown(Exception):
    """git cannot say; its text says why."""


def relevance(paths: Sequence[str], base: str, matrix: Path) -> Relevance:
    """Whether files that match one of the paths, or the matrix file, changed between base and what is checked out.

    paths: patterns from the root of the repository, `*` within a folder, `**` across folders, a folder for all that is
    in it. base: a branch or commit; what counts is what happened since it was left. Wherever git is not certain, as in a
    clone that does not reach back to base, the job is not skipped.
    """
    try:
        root = Path(_git("rev-parse", "--show-toplevel").strip())
        since = _fork_point(base)
        changed = _names("diff", "--name-only", "--no-renames", "-z", since, "--", cwd=root)
        patterns = [f":(top,glob){path}" for path in paths]
        matching = _names("diff", "--name-only", "--no-renames", "-z", since, "--", *patterns, cwd=root)
    except _Unknown as unknown:
        return Relevance(skip=False, reason=f"not skipped: {unknown}")
    own = [name for name in changed if (root / name).resolve() == matrix.resolve()]
    found = [*own, *(name for name in matching if name not in own)]
    if found:
        return Relevance(skip=False, reason=f"not skipped: {_some(found)} changed since {base}")
    count = f"{len(changed)} file{'' if len(changed) == 1 else 's'} changed since {base}"
    return Relevance(skip=True, reason=f"nothing relevant changed ({count}, none matches {_some(paths)})")


def _fork_point(base: str) -> str:
    """The commit from which base and what is checked out went apart."""
    if not base:
        raise _Unknown("--base names no commit to compare with")
    commit = _git(
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        f"{base}^{{commit}}",
        unknown=f"{base} is no commit of this clone; fetch it",
    )
    return _git(
        "merge-base",
        commit.strip(),
        "HEAD",
        unknown=f"the clone does not reach back to where {base} was left; fetch more of it",
    ).strip()


def _names(*arguments: str, cwd: Path) -> list[str]:
    return [name for name in _git(*arguments, cwd=cwd).split("\0") if name]


def _git(*arguments: str, cwd: Path | None = None, unknown: str = "") -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=cwd, capture_output=True, text=True, errors="surrogateescape", check=False
        )
    except OSError as error:
        raise _Unknown(f"git cannot be run ({error.strerror or error})") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise _Unknown(unknown or f"git {arguments[0]}: {said[0] if said else f'exit code {done.returncode}'}")
    return done.stdout


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {rest} more" if rest > 0 else "")
