"""Goldens: their versions, proposed and decided about."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response, status
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from gradassay.api.auth.caller import EVERY_PROJECT
from gradassay.api.auth.guard import Poster, Reader, Reviewer
from gradassay.api.ledger.deciding import Decision
from gradassay.api.ledger.known import KnownEntry, KnownGolden, KnownVersion, Outcome, Outcomes, Refusal, VersionDetails
from gradassay.api.ledger.sharing import check_shares
from gradassay.api.ledger.visible import visible_golden, visible_version
from gradassay.api.routes.runs import DIGEST, FILE
from gradassay.api.runs.run import DEFAULT_PROJECT
from gradassay.api.runs.upload import received
from gradassay.api.service import Service, ServiceDependency
from gradassay.goldens.errors import GradassayError
from gradassay.goldens.store.approval import DEFAULT_CHANNEL

LARGEST_NUMBER = 2**31 - 1
MOST_AT_ONCE = 200
Name = Annotated[str, Path(description="problem and dtype, as in moe-tiny.float32")]
Number = Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]
Reason = Annotated[str, Field(min_length=1, max_length=4000, description="why; it stays in the ledger")]
EXPECTED = Field(
    ge=0,
    le=LARGEST_NUMBER,
    description="what the reviewer believes the channel points to, 0: no version, null: whatever it is; 409 where it is "
    "another",
)

router = APIRouter(prefix="/api/v1/goldens", tags=["goldens"])


class Approval(BaseModel):
    """What a channel should point to, if it still points to `expected_version`."""

    version: int = Field(ge=1, le=LARGEST_NUMBER)
    expected_version: Annotated[int | None, EXPECTED]
    why: Reason


class Rejection(BaseModel):
    """Why a version is not to be used."""

    why: Reason
    channel: str = DEFAULT_CHANNEL
    expected_version: Annotated[int | None, EXPECTED] = None


class Shared(BaseModel):
    """One of several versions that are approved with the same reason."""

    name: str = Field(min_length=1, max_length=200)
    version: int = Field(ge=1, le=LARGEST_NUMBER)
    expected_version: Annotated[int, EXPECTED]


class Approvals(BaseModel):
    """Versions that drifted by rounding alone, for the same cause."""

    cause: str = Field(min_length=1, max_length=2000, description="the `cause` that the drift of each of them names")
    why: Reason
    channel: str = DEFAULT_CHANNEL
    items: list[Shared] = Field(min_length=1, max_length=MOST_AT_ONCE)


@router.get("")
def list_goldens(caller: Reader, service: ServiceDependency) -> list[KnownGolden]:
    """The goldens of the caller's project, by name."""
    return [KnownGolden.of(golden) for golden in service.ledger.goldens(caller.project)]


@router.post("/approvals")
def approve_goldens(caller: Reviewer, service: ServiceDependency, wanted: Approvals) -> Outcomes:
    """Approves several versions that share a cause, each on its own: what becomes of one does not touch the others."""
    return Outcomes(items=[_outcome(service, caller, wanted, item) for item in wanted.items])


def _outcome(service: Service, caller: Reviewer, wanted: Approvals, item: Shared) -> Outcome:
    try:
        check_shares(
            visible_version(service.ledger, caller, item.name, item.version), item.expected_version, wanted.cause
        )
        entry = service.ledger.decide(
            item.name,
            item.version,
            Decision.APPROVE,
            channel=wanted.channel,
            who=caller.who,
            why=wanted.why,
            expected_version=item.expected_version,
            cause=wanted.cause,
        )
    except GradassayError as error:
        refused = Refusal(code=error.code, detail=error.message, hint=error.hint)
        return Outcome(name=item.name, version=item.version, refused=refused)
    return Outcome(name=item.name, version=item.version, entry=KnownEntry.of(entry))


@router.get("/{name:path}/versions/{version}")
def show_version(caller: Reader, service: ServiceDependency, name: Name, version: Number) -> VersionDetails:
    """One version, with its facts and its drift."""
    return VersionDetails.of(visible_version(service.ledger, caller, name, version))


@router.get("/{name:path}/versions")
def list_versions(caller: Reader, service: ServiceDependency, name: Name) -> list[KnownVersion]:
    """All versions of a golden, newest first."""
    golden = visible_golden(service.ledger, caller, name)
    return [KnownVersion.of(version) for version in reversed(service.ledger.versions(golden.name))]


@router.post(
    "/{name:path}/versions",
    status_code=status.HTTP_201_CREATED,
    responses={status.HTTP_200_OK: {"model": KnownVersion, "description": "this content was there already"}},
    openapi_extra={"requestBody": FILE, "parameters": [DIGEST]},
)
async def propose_version(
    request: Request,
    response: Response,
    caller: Poster,
    service: ServiceDependency,
    name: Name,
    why: Annotated[str, Query(max_length=4000, description="why it is proposed; it stays in the ledger")] = "",
) -> KnownVersion:
    """Proposes the golden file in the body as the next version. The same content twice is one version.

    Nothing is compared with it before a reviewer points a channel at it. 400 where the file is of another golden.
    """
    project = DEFAULT_PROJECT if caller.project == EVERY_PROJECT else caller.project
    async with received(request, limit=service.settings.max_upload_bytes) as upload:
        version, new = await run_in_threadpool(
            service.ledger.post, upload.path, who=caller.who, project=project, why=why, name=name
        )
    service.assays.nudge()
    response.status_code = status.HTTP_201_CREATED if new else status.HTTP_200_OK
    response.headers["Location"] = f"{request.url.path}/{version.version}"
    return KnownVersion.of(version)


@router.put("/{name:path}/channels/{channel}")
def approve_version(
    caller: Reviewer, service: ServiceDependency, name: Name, channel: str, approval: Approval
) -> KnownEntry:
    """Points the channel at a version; the first of two reviewers endorses it (GRADASSAY_REVIEWERS).

    409 where the channel points elsewhere than expected, or somebody else decided about the version first; `detail` says
    who, when and why.
    """
    visible_version(service.ledger, caller, name, approval.version)
    entry = service.ledger.decide(
        name,
        approval.version,
        Decision.APPROVE,
        channel=channel,
        who=caller.who,
        why=approval.why,
        expected_version=approval.expected_version,
    )
    service.assays.nudge()
    return KnownEntry.of(entry)


@router.post("/{name:path}/versions/{version}/rejection", status_code=status.HTTP_201_CREATED)
def reject_version(
    caller: Reviewer, service: ServiceDependency, name: Name, version: Number, rejection: Rejection
) -> KnownEntry:
    """Says that a version is not to be used, and why. 409 where somebody else decided about it first."""
    visible_version(service.ledger, caller, name, version)
    entry = service.ledger.decide(
        name,
        version,
        Decision.REJECT,
        channel=rejection.channel,
        who=caller.who,
        why=rejection.why,
        expected_version=rejection.expected_version,
    )
    return KnownEntry.of(entry)


# A golden's name may hold slashes, so this comes after whatever goes on behind one.
@router.get("/{name:path}")
def show_golden(caller: Reader, service: ServiceDependency, name: Name) -> KnownGolden:
    """One golden: where its channels point, and its newest version."""
    return KnownGolden.of(visible_golden(service.ledger, caller, name))
