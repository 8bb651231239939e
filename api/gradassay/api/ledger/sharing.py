"""Several versions approved with one reason: those that drifted by rounding alone, and for the same cause."""

from __future__ import annotations

from gradassay.api.ledger.version import Version
from gradassay.goldens.assay.drift import DriftKind
from gradassay.goldens.errors import Conflict


def check_shares(version: Version, approved: int, cause: str) -> None:
    """Raises Conflict unless the version differs from v`approved` by no more than rounding, and that for this cause."""
    drift = version.drift
    if drift is None or drift["against"] != approved:
        said = "has not been compared with what is approved"
    elif drift["kind"] not in (DriftKind.NONE, DriftKind.ROUNDING):
        said = f"needs a reason of its own: {drift['sentence']}"
    elif cause != (drift["cause"] or drift["sentence"]):
        said = f"has another cause: {drift['cause'] or drift['sentence']}"
    else:
        return
    raise Conflict(
        f"golden {version.name} v{version.version} {said}",
        hint="approve it alone, with its own reason",
        golden=version.name,
        version=version.version,
    )
