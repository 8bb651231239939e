"""Errors that a user can act on: a stable code, the facts, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar


class Exit(IntEnum):
    """Exit codes of the command line; documented in docs/cli.md and never renumbered."""

    AGREE = 0
    DIVERGE = 1
    INVALID = 2
    NO_GOLDEN = 3
    INCOMPLETE = 4
    INCOMPARABLE = 5
    INCONCLUSIVE = 6
    UNAUTHORISED = 10
    UNREACHABLE = 11
    SERVICE = 12
    BUG = 70


@dataclass(frozen=True, slots=True)
class Kind:
    """One row of the error table: how a code leaves through the CLI and through HTTP."""

    exit: Exit
    http_status: int
    meaning: str


KINDS: Mapping[str, Kind] = {
    "usage": Kind(Exit.INVALID, 400, "an argument, option or setting that makes no sense"),
    "invalid-file": Kind(Exit.INVALID, 422, "a record, golden or matrix file that cannot be read or is inconsistent"),
    "unknown-format": Kind(Exit.INVALID, 422, "a file written in a format that this release does not read"),
    "missing-extra": Kind(Exit.INVALID, 501, "an optional dependency that is not installed"),
    "store": Kind(Exit.INVALID, 500, "the store could not be read or written"),
    "storage-full": Kind(Exit.SERVICE, 507, "no space left where files are kept"),
    "golden-refused": Kind(Exit.INCONCLUSIVE, 422, "a golden too weak to judge anything by"),
    "no-golden": Kind(Exit.NO_GOLDEN, 404, "no golden to compare with"),
    "not-found": Kind(Exit.INVALID, 404, "a run, golden or version that the store does not hold"),
    "conflict": Kind(Exit.INVALID, 409, "somebody else changed it first"),
    "too-large": Kind(Exit.INVALID, 413, "more bytes than the service accepts"),
    "cell-failed": Kind(Exit.INCOMPLETE, 422, "a rank died or did not finish in time"),
    "incomplete": Kind(Exit.INCOMPLETE, 422, "ranks or parameters are missing"),
    "incomparable": Kind(Exit.INCOMPARABLE, 422, "another problem, dtype profile or stage"),
    "wrong-moment": Kind(
        Exit.INCOMPARABLE, 422, "gradients that are not what is compared: unreduced, clipped, cleared"
    ),
    "unauthorised": Kind(Exit.UNAUTHORISED, 401, "no token, or one that is unknown, expired or revoked"),
    "forbidden": Kind(Exit.UNAUTHORISED, 403, "a token without the scope, or of another project"),
    "unreachable": Kind(Exit.UNREACHABLE, 503, "the service did not answer after retries"),
    "service": Kind(Exit.SERVICE, 500, "the service answered with an error of its own"),
    "bug": Kind(Exit.BUG, 500, "a bug of gradassay"),
}


class GradassayError(Exception):
    """Base of every error that is the caller's to act on.

    message: what happened, with which values. hint: what to do next. facts: the values again, for machines.
    """

    code: ClassVar[str] = "bug"

    def __init__(self, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts: dict[str, object] = facts

    @property
    def kind(self) -> Kind:
        """The row of the error table."""
        return KINDS[self.code]

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(GradassayError):
    """An argument, option or setting that makes no sense."""

    code = "usage"


class InvalidFile(GradassayError):
    """A file that cannot be read, or whose parts contradict each other; names the file, the field and both values."""

    code = "invalid-file"


class UnknownFormat(GradassayError):
    """A file in a format that this release does not read."""

    code = "unknown-format"


class MissingExtra(GradassayError):
    """An optional dependency is not installed. extra: what brings it; otherwise: another way out, or empty."""

    code = "missing-extra"

    def __init__(self, module: str, extra: str, *, otherwise: str = "") -> None:
        install = f"pip install 'gradassay[{extra}]'"
        super().__init__(
            f"this needs {module}, which is not installed",
            hint=f"{install}\n{otherwise}" if otherwise else install,
            module=module,
            extra=extra,
        )


class StoreError(GradassayError):
    """The store could not be read or written."""

    code = "store"


class StorageFull(StoreError):
    """No space left where files are kept; nothing was."""

    code = "storage-full"


class Unreachable(StoreError):
    """The store or service did not answer after retries."""

    code = "unreachable"


class ServiceError(GradassayError):
    """The service answered, but with an error of its own or with something that is no answer of gradassay."""

    code = "service"


class Unauthorised(GradassayError):
    """No token, or one that is unknown, expired or revoked."""

    code = "unauthorised"


class Forbidden(GradassayError):
    """A token without the scope that this needs, or of another project."""

    code = "forbidden"


class TooLarge(GradassayError):
    """More bytes than the service accepts."""

    code = "too-large"


class NotFound(GradassayError):
    """A run, golden or version that the store does not hold."""

    code = "not-found"


class Conflict(GradassayError):
    """Somebody else changed it first (compare-and-set)."""

    code = "conflict"


class NoGolden(GradassayError):
    """Nothing to compare with; never a pass."""

    code = "no-golden"


class GoldenRefused(GradassayError):
    """A golden that is too weak, too noisy or too ill-conditioned to judge anything by."""

    code = "golden-refused"


class CellFailed(GradassayError):
    """A rank of a cell died or did not finish in time; carries that rank's traceback."""

    code = "cell-failed"


class Incomplete(GradassayError):
    """Ranks or parameters are missing."""

    code = "incomplete"


class Incomparable(GradassayError):
    """Another problem, dtype profile or stage."""

    code = "incomparable"


class WrongMoment(GradassayError):
    """Gradients at another moment of the step than the one that is compared; `moment` of its facts names which."""

    code = "wrong-moment"
