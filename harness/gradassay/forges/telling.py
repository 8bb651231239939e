"""Everything that a job leaves behind for people, told to whatever runs it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gradassay.forges.annotations import annotate, warning
from gradassay.forges.capped import SUMMARY, Limit
from gradassay.forges.detect import Forge, Kind
from gradassay.forges.junit import junit
from gradassay.forges.outcome import CiResult
from gradassay.forges.quality import FILE, code_quality
from gradassay.forges.summary import summarise
from gradassay.goldens.atomic import write_atomically
from gradassay.goldens.errors import GradassayError
from gradassay.goldens.report.printable import printable

if TYPE_CHECKING:
    from gradassay.forges.comment import Discussion

WHOLE = Limit(most=1 << 24, length=len)
"""Of a file in the report folder, which nobody limits."""


def tell(
    result: CiResult,
    forge: Forge | None,
    folder: Path,
    *,
    comment: bool,
    key: str = "",
    retry_s: float = 60.0,
    emit: Callable[[str], None],
    say: Callable[[str], None],
) -> tuple[str, ...]:
    """Notes on what could not be told, none of which changes what the job came to.

    Writes summary.md, junit.xml and, for GitLab, the code quality report into the folder. On GitHub it adds to the step's
    summary and outputs (verdict, exit-code), and gives annotations, line by line, to emit. comment: also writes the
    change's one comment, known by key, by default that of the job and the matrix. say: told about tries that are repeated.
    Raises StoreError where the folder cannot be written.
    """
    notes: list[str] = []
    link = forge.job_url if forge else ""
    annotations = annotate(result)
    if forge and forge.kind is Kind.GITHUB:
        for command in annotations.commands:
            emit(command)
        if annotations.note:
            notes.append(annotations.note)
    told = replace(result, notes=(*result.notes, *notes))
    if comment:
        notes += _comment(told, forge, key, retry_s=retry_s, say=say)
        told = replace(result, notes=(*result.notes, *notes))
    write_atomically(folder / "summary.md", summarise(told, WHOLE, job_url=link).encode())
    write_atomically(folder / "junit.xml", junit(told).encode())
    if forge and forge.kind is Kind.GITLAB:
        write_atomically(folder / FILE, code_quality(result, job=forge.job).encode())
    if forge and forge.summary is not None:
        notes += _step_summary(told, forge.summary, link)
    if forge and forge.outputs is not None:
        notes += _outputs(result, forge.outputs)
    if forge and forge.kind is Kind.GITHUB:
        for note in notes:
            emit(warning(note))
    return tuple(notes)


def _comment(
    result: CiResult, forge: Forge | None, key: str, *, retry_s: float, say: Callable[[str], None]
) -> list[str]:
    """Why there is no comment, where there is none."""
    if forge is None:
        return ["no comment: this is neither GitHub Actions nor GitLab CI"]
    if forge.change is None:
        return []
    if not forge.token:
        name = "GITHUB_TOKEN" if forge.kind is Kind.GITHUB else "GITLAB_TOKEN"
        return [f"no comment: {name} is not set"]
    from gradassay.forges.comment import upsert

    key = key or f"{forge.job}/{result.matrix or ''}"
    try:
        with _discussion(forge) as discussion:
            upsert(
                discussion,
                key,
                lambda limit: summarise(result, limit, job_url=forge.job_url),
                create=not result.skipped,
                retry_s=retry_s,
                say=say,
            )
    except GradassayError as error:
        fork = "; the change comes from a fork, whose jobs may not comment" if forge.from_fork else ""
        return [f"no comment: {error.message}{fork}" + (f" ({error.hint})" if error.hint and not fork else "")]
    return []


def _discussion(forge: Forge) -> AbstractContextManager[Discussion]:
    if forge.kind is Kind.GITHUB:
        from gradassay.forges.github import GithubDiscussion

        return GithubDiscussion(forge)
    from gradassay.forges.gitlab import GitlabDiscussion

    return GitlabDiscussion(forge)


def _outputs(result: CiResult, file: Path) -> list[str]:
    verdict = "skipped" if result.skipped else printable(result.verdict)
    try:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"verdict={verdict}\nexit-code={result.exit}\n")
    except OSError as error:
        return [f"no step outputs: {file.name} cannot be written ({error.strerror or error})"]
    return []


def _step_summary(result: CiResult, file: Path, link: str) -> list[str]:
    """Adds to the file, within what other commands of the step have left of the limit."""
    try:
        used = file.stat().st_size if file.exists() else 0
        text = summarise(result, SUMMARY.less(used), job_url=link)
        with file.open("a", encoding="utf-8") as opened:
            opened.write(text)
    except OSError as error:
        return [f"no step summary: {file.name} cannot be written ({error.strerror or error})"]
    return [] if text else ["no step summary: the step has used up what GitHub shows"]
