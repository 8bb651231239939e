"""The problem behind a record of one's own, for building its golden."""

from __future__ import annotations

from gradassay.goldens.errors import Incomparable, NoGolden
from gradassay.goldens.header import RecordHeader
from gradassay.testing.candidates import build_command

OWN = "MODULE:FUNCTION"


def buildable(header: RecordHeader, problem: str = "") -> tuple[str, str]:
    """The problem and the dtype profile, by the names that `gradassay golden build` takes, whose golden judges the record.

    problem: what the test says of it, a name or module:function; else it is the record's own, where that is installed.
    Raises NoGolden, which says how to build it elsewhere, for a problem or profile that is not known here, and Incomparable
    where the problem of this name is another one here.
    """
    from gradassay.harness.cell import DTYPES
    from gradassay.harness.problems import known_problems, load_problem

    name = header.problem.name
    profile = next((key for key, value in DTYPES.items() if value == header.dtype), None)
    if profile is None:
        dtype = header.dtype
        raise NoGolden(
            f"golden {name}.{dtype}: no dtype profile has parameters in {dtype.parameter}, gradients in {dtype.gradient} "
            f"and reduction in {dtype.reduce}, as the record has",
            hint=f"goldens are built in {', '.join(DTYPES)}",
        )
    if not problem and name not in known_problems():
        raise NoGolden(
            f"golden {name}.{profile}: the record is of problem {name!r}, which is not known here, so that its golden "
            "cannot be built",
            hint=f"build it with the function that returns the problem: {build_command(OWN, profile)}\n"
            f'or name that function in the test: problem="{OWN}"',
        )
    here = load_problem(problem or name)
    if (here.name, here.digest) != (name, header.problem.digest):
        raise Incomparable(
            f"the record is of problem {name} {header.problem.digest}, and {problem or name} here is {here.name} "
            f"{here.digest}: a golden of it could not judge the record",
            hint="record again with the problem as it is here, or build its golden with the release that made the record",
        )
    return problem or name, profile
