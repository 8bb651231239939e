"""Goldens built anew by a run of tests: once each, whichever worker asks first, and stored by the controller alone."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.goldens.atomic import unwritten, write_atomically
from gradassay.goldens.errors import CellFailed, GoldenRefused, GradassayError, InvalidFile, StoreError, UsageError
from gradassay.goldens.golden import Golden, read_golden
from gradassay.goldens.store.lock import locked
from gradassay.testing.parts import error_of

if TYPE_CHECKING:
    from gradassay.goldens.store.keeper import Keeper
    from gradassay.goldens.store.protocol import GoldenVersion
    from gradassay.harness.launch import Pool
    from gradassay.harness.progress import Progress

_REMEMBERED: Mapping[str, type[GradassayError]] = {kind.code: kind for kind in (CellFailed, GoldenRefused, UsageError)}
"""Why a golden cannot be built at all, which no other worker needs to find out again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """A version that holds what a run built. new: this run stored it; else it was there before."""

    version: GoldenVersion
    new: bool

    def sentence(self, where: Sequence[str] = ()) -> str:
        """What exists now, and how to approve it. where: the global options that name the store on the command line."""
        version = self.version
        name = f"{version.name} v{version.version}"
        if version.channels:
            return f"{name} ({', '.join(version.channels)}) already holds what was built; nothing was stored"
        said = "is stored and not approved" if self.new else "already holds what was built and is not approved"
        return f"{name} {said}; approve it with: {approve_command(version, where)}"


def build(
    problem: str,
    dtype: str,
    folder: Path,
    *,
    pool: Pool,
    progress: Progress | None = None,
) -> Path:
    """The file of a golden built from this problem's reference cells in this run, as `gradassay golden build` does.

    problem: a name or module:function. folder: of this run alone; one process at a time builds a golden there, the others
    wait for it and take what it built, and where that process is killed the next one builds. A golden is there whole, with
    the records of its references, or not at all. Raises what building raises; that a golden cannot be built is found out
    once.
    """
    own = folder / _key(problem, dtype)
    with locked(folder / f"{own.name}.lock"):
        if not own.exists():
            _raise_known(own)
            try:
                _build(own, problem, dtype, pool=pool, progress=progress)
            except tuple(_REMEMBERED.values()) as error:
                write_atomically(_failure_of(own), json.dumps(error_of(error)).encode())
                raise
            except OSError as error:
                raise unwritten(error, str(own), hint="make room, or name another folder (--golden-report)") from error
    return own / "golden"


def publish(folder: Path, store: Keeper) -> tuple[Proposed, ...]:
    """The versions that hold what this run built, each put into the store unless it was there; none is approved.

    Only whole goldens are, with the records of their references before them. What says the same as the newest version or as
    one that a channel points to is that version: two builds of one golden differ in their dates. Two runs that publish at
    the same moment may each store theirs. Raises StoreError where one could not be stored, which says those that were.
    """
    from gradassay.harness.build import Built, keep

    done: list[Proposed] = []
    for own in sorted(path for path in folder.glob("*") if path.is_dir() and not path.name.startswith(".")):
        built = Built(folder=own)
        golden = read_golden(built.golden)
        try:
            known = _known(golden, store)
            done.append(Proposed(version=known or keep(built, store), new=known is None))
        except StoreError as error:
            stored = ", ".join(f"{item.version.name} v{item.version.version}" for item in done if item.new) or "none"
            raise type(error)(
                f"{golden.name}: {error.message}", hint=f"{error.hint}\nstored before that: {stored}".lstrip()
            ) from error
    return tuple(done)


def build_command(problem: str, dtype: str, where: Sequence[str] = ()) -> str:
    """The command that builds this golden outside of tests; problem: a name or module:function."""
    return shlex.join(["gradassay", *where, "golden", "build", problem, "--dtype", dtype])


def approve_command(version: GoldenVersion, where: Sequence[str] = ()) -> str:
    """The command that approves a version, but for the reason."""
    words = ["gradassay", *where, "golden", "approve", version.name, f"v{version.version}"]
    return f"{shlex.join(words)} --reason WHY"


def _build(own: Path, problem: str, dtype: str, *, pool: Pool, progress: Progress | None) -> None:
    from gradassay.harness.build import build_in

    temporary = Path(tempfile.mkdtemp(dir=own.parent, prefix=".building-"))
    try:
        build_in(temporary, problem, dtype, pool=pool, progress=progress)
        os.rename(temporary, own)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _known(golden: Golden, store: Keeper) -> GoldenVersion | None:
    versions = store.goldens(golden.name)
    for version in reversed(versions):
        if version.channels or version is versions[-1]:
            try:
                same = read_golden(store.golden_path(version.name, version.version)).says_the_same(golden)
            except InvalidFile:  # damaged since: then it does not hold what was built
                same = False
            if same:
                return version
    return None


def _key(problem: str, dtype: str) -> str:
    return hashlib.sha256(json.dumps([problem, dtype]).encode()).hexdigest()[:16]


def _failure_of(own: Path) -> Path:
    return own.with_name(f"{own.name}.json")


def _raise_known(own: Path) -> None:
    path = _failure_of(own)
    if path.exists():
        document = json.loads(path.read_text())
        raise _REMEMBERED[document["code"]](document["message"], hint=document["hint"])
