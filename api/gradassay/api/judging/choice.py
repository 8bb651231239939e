"""Which version of a golden a run is compared with, why, and what was passed over: a pure function."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradassay.goldens.errors import UsageError
from gradassay.goldens.store.approval import DEFAULT_CHANNEL

_VERSION = re.compile(r"v([1-9]\d{0,8})")
_LIKE_A_VERSION = re.compile(r"v\d+")
_CHANNEL = re.compile(r"[a-z][a-z0-9-]{0,63}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """What a run is to be compared with: a version, or what a channel points to."""

    version: int | None = None
    channel: str = DEFAULT_CHANNEL

    @classmethod
    def parse(cls, text: str) -> Against:
        """Reads `v3` or the name of a channel; raises UsageError for anything else."""
        match = _VERSION.fullmatch(text)
        if match:
            return cls(version=int(match[1]))
        if _CHANNEL.fullmatch(text) is None or _LIKE_A_VERSION.fullmatch(text):
            raise UsageError(f"against {text[:80]!r} is neither a version nor a channel", hint="write v3, or approved")
        return cls(channel=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a golden must be of to judge a run: its name, problem digest and dtype profile."""

    golden: str
    problem_digest: str
    dtype_profile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A version that exists. approved_in: channels that it was approved in, by the number of the newest such entry
    that nobody undid. state: what the ledger last said of it.
    """

    version: int
    digest: str
    problem_digest: str
    dtype_profile: str
    state: str
    approved_in: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The version that a run is compared with, None where there is none. channel: by which it was found.

    reasons: why this one, or why none. skipped: versions that were passed over, each with the reason.
    """

    golden: str
    version: int | None
    channel: str | None
    reasons: tuple[str, ...]
    skipped: tuple[str, ...]


def choose(request: Against, wanted: Wanted, versions: Sequence[Known], channels: Mapping[str, int]) -> Choice:
    """The version that answers the request: the one asked for, else the one that the channel approves for this problem
    and dtype profile. channels: where each points now, 0 for nowhere.

    A golden is of one problem digest and dtype profile: where the channel has moved on to another, what it last approved
    for the run's own is still the golden of that. Nothing that was not approved is ever chosen unasked.
    """
    by_number = {known.version: known for known in versions}
    if request.version is not None:
        return _explicit(request.version, wanted, by_number)
    channel, pointed = request.channel, channels.get(request.channel, 0)
    if not pointed:
        return Choice(
            golden=wanted.golden,
            version=None,
            channel=channel,
            reasons=(_nowhere(channel, wanted.golden, by_number),),
            skipped=tuple(f"v{known.version}: {known.state}, not {channel}" for known in _newest_first(by_number)),
        )
    earlier = sorted(
        (known for known in versions if channel in known.approved_in and known.version != pointed),
        key=lambda known: known.approved_in[channel],
        reverse=True,
    )
    passed: dict[int, str] = {}
    chosen: Known | None = None
    for known in [*(known for known in versions if known.version == pointed), *earlier]:
        unfit = _unfit(known, wanted)
        if not unfit:
            chosen = known
            break
        passed[known.version] = unfit
    for known in _newest_first(by_number):
        newer = chosen is None or known.version > chosen.version
        if newer and known is not chosen and known.version not in passed:
            passed[known.version] = f"{known.state}, not {channel}"
    skipped = tuple(f"v{number}: {why}" for number, why in sorted(passed.items(), reverse=True))
    reasons = [f"channel {channel} points to v{pointed}"]
    if chosen is None:
        reasons.append(f"nothing that was {channel} is of the run's problem and dtype profile")
    elif chosen.version == pointed:
        reasons.append(f"v{pointed} is of the run's problem and of dtype profile {wanted.dtype_profile}")
    else:
        reasons.append(f"v{chosen.version} is what {channel} last approved for the run's problem and dtype profile")
    return Choice(
        golden=wanted.golden,
        version=chosen.version if chosen else None,
        channel=channel,
        reasons=tuple(reasons),
        skipped=skipped,
    )


def _explicit(version: int, wanted: Wanted, by_number: Mapping[int, Known]) -> Choice:
    known = by_number.get(version)
    reason = f"v{version} was asked for" if known else f"golden {wanted.golden} has no v{version}"
    unfit = _unfit(known, wanted) if known else ""
    return Choice(
        golden=wanted.golden,
        version=version if known else None,
        channel=None,
        reasons=(reason, *([f"v{version}: {unfit}"] if unfit else [])),
        skipped=(),
    )


def _nowhere(channel: str, golden: str, by_number: Mapping[int, Known]) -> str:
    if by_number:
        return f"channel {channel} of golden {golden} points to no version"
    return f"there is no golden {golden}"


def _unfit(known: Known, wanted: Wanted) -> str:
    if known.problem_digest != wanted.problem_digest:
        return f"is of problem {known.problem_digest}, the run of {wanted.problem_digest}"
    if known.dtype_profile != wanted.dtype_profile:
        return f"has dtype profile {known.dtype_profile}, the run {wanted.dtype_profile}"
    return ""


def _newest_first(by_number: Mapping[int, Known]) -> list[Known]:
    return [by_number[number] for number in sorted(by_number, reverse=True)]
