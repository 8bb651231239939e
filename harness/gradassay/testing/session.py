"""One process of a test session: the controller, which is also the only process without xdist, or one of its workers."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradassay.testing.cells import Cells
    from gradassay.testing.golden_store import Goldens
    from gradassay.testing.options import Options
    from gradassay.testing.parts import Parts


class Testing:
    """What the tests of this process share; each part is made when first asked for.

    told: what the controller told this worker, None in the controller itself.
    """

    def __init__(self, options: Options, told: dict[str, str] | None = None) -> None:
        self.options = options
        self.is_worker = told is not None
        self._told = told
        self._ends = ExitStack()

    @cached_property
    def told(self) -> dict[str, str]:
        """What a worker needs to know: `folder` for records and the report, and `run`, the session's id."""
        if self._told is not None:
            return self._told
        from gradassay.testing.scratch import new_run, scratch

        folder = self.options.report
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="gradassay-pytest-"))
            self._ends.callback(shutil.rmtree, folder, ignore_errors=True)
        run = new_run()
        self._ends.enter_context(scratch(folder, run))
        return {"folder": str(folder), "run": run}

    @property
    def folder(self) -> Path:
        """Where records land, and the report: that of --golden-report, or one that goes with the session."""
        return Path(self.told["folder"])

    @property
    def scratch(self) -> Path:
        """What this session's processes alone write to and read."""
        from gradassay.testing.scratch import scratch_of

        return scratch_of(self.folder, self.told["run"])

    @property
    def candidates(self) -> Path:
        """Where goldens are built anew before the controller stores them."""
        return self.scratch / "candidates"

    @cached_property
    def cells(self) -> Cells:
        """The cells of this process, on its own pool of warm ranks."""
        from gradassay.testing.cells import Cells

        cells = Cells(self.folder, self.scratch)
        self._ends.callback(cells.close)
        return cells

    @cached_property
    def goldens(self) -> Goldens:
        """The goldens of the session's store."""
        from gradassay.testing.golden_store import Goldens

        return Goldens(self.options.store)

    @cached_property
    def parts(self) -> Parts:
        """Where this process writes what its tests came to."""
        from gradassay.testing.parts import Parts

        return Parts(self.folder, run=self.told["run"])

    @property
    def was_used(self) -> bool:
        """Whether any test of this session, or any worker of it, may have left something."""
        return "told" in vars(self)

    def end_ranks(self) -> None:
        """Ends the ranks and their fork servers; what they wrote stays."""
        if "cells" in vars(self):
            self.cells.close()

    def close(self) -> None:
        """Ends ranks, and removes what goes with the session."""
        self._ends.close()


def told_by_controller(config: Any) -> dict[str, str] | None:
    """What the controller told this worker, None where this process is no worker."""
    told: dict[str, str] | None = getattr(config, "workerinput", {}).get("gradassay")
    return told
