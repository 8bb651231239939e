"""Remarks on lines of the matrix file as GitLab's code quality report."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from gradassay.forges.annotations import remark_of
from gradassay.forges.outcome import CiResult
from gradassay.goldens.errors import Exit

FILE = "gl-code-quality-report.json"
"""Its name in a report folder, as GitLab's own tools call it."""


def code_quality(result: CiResult, *, job: str) -> str:
    """The JSON: an issue for every cell that did not agree, an empty list where all did.

    An issue is the same one in the next pipeline as long as the cell and its law are: that is what its fingerprint is
    made of, and the job, so that GitLab tells new ones from those that were there before and from another job's.
    """
    issues = []
    seen: Counter[tuple[str, ...]] = Counter()
    for line in result.lines:
        if line.exit == Exit.AGREE and not line.accepted:
            continue
        identity = (job, result.matrix or "", line.cell, line.verdict, line.law)
        seen[identity] += 1
        digest = hashlib.sha256("\0".join((*identity, str(seen[identity]))).encode(errors="backslashreplace"))
        issues.append(
            {
                "description": f"{line.cell}: {remark_of(line)}".replace("\n", " "),
                "check_name": f"gradassay-{line.verdict}",
                "fingerprint": digest.hexdigest(),
                "severity": _severity(line.exit, accepted=line.accepted),
                "location": {
                    "path": (result.matrix or "matrix").removeprefix("./"),
                    "lines": {"begin": line.line or 1},
                },
            }
        )
    return json.dumps(issues, indent=2) + "\n"


def _severity(exit: int, *, accepted: bool) -> str:
    if accepted:
        return "info"
    return "critical" if exit == Exit.DIVERGE else "major"
