"""Sessions in which nothing is compared, or with something else: no golden, another problem, no marker at all."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from builders import make_toy
from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from projects import Project

ONE = """
import pytest


@pytest.mark.gradassay(problem="moe-tiny", strategy="ddp", layouts=["dp2"])
def test_ddp():
    pass


def test_plain():
    pass
"""


def test_a_missing_golden_fails_before_any_rank_starts(project: Project) -> None:
    ran = project.write(test_one=ONE).run("--golden-store", "store")

    assert (ran.code, ran.outcomes) == (1, {"test_ddp[ddp-dp2]": "failure", "test_plain": "passed"})
    text = ran.cases["test_ddp[ddp-dp2]"].text
    assert "no golden: golden moe-tiny.float32: no version is approved" in text
    assert ran.cases["test_ddp[ddp-dp2]"].properties["exit"] == "3"


@pytest.mark.parametrize("workers", [(), ("-n", "1")])
def test_a_missing_golden_is_skipped_loudly_where_that_is_asked_for(project: Project, workers: tuple[str, ...]) -> None:
    ran = project.write(test_one=ONE).run("--golden-store", "store", "--golden-missing", "skip", *workers)

    assert (ran.code, ran.outcomes) == (0, {"test_ddp[ddp-dp2]": "skipped", "test_plain": "passed"})
    assert "NOTHING WAS COMPARED in 1 skipped tests: golden moe-tiny.float32" in ran.out
    assert ran.cases["test_ddp[ddp-dp2]"].properties["verdict"] == "skipped"


def test_a_golden_of_something_else_and_a_file_that_is_none_do_not_pass(
    project: Project, golden_file: Path, make_golden: Callable[..., Golden], make_record: Callable[..., Record]
) -> None:
    make_record(make_toy(), layout=Layout(dp=4, accum=3)).write(project.folder / "toy.safetensors")
    make_golden(make_toy()).write(project.folder / "toy_golden.safetensors")
    (project.folder / "golden.safetensors").write_bytes(golden_file.read_bytes())
    project.write(
        test_own="""
def test_right(gradassay):
    gradassay.assert_agrees("toy.safetensors", golden="toy_golden.safetensors")

def test_incomparable(gradassay):
    gradassay.assert_agrees("toy.safetensors", golden="golden.safetensors")

def test_no_file(gradassay):
    gradassay.assert_agrees("toy.safetensors", golden="nowhere.safetensors")

def test_no_record(gradassay):
    gradassay.assert_agrees("nowhere.safetensors", golden="golden.safetensors")

def test_nothing_ran(gradassay):
    gradassay.record
"""
    )
    ran = project.run()

    assert ran.outcomes == {
        "test_right": "passed",
        "test_incomparable": "failure",
        "test_no_file": "failure",
        "test_no_record": "failure",
        "test_nothing_ran": "failure",
    }
    assert "incomparable" in ran.cases["test_incomparable"].text
    assert ran.cases["test_incomparable"].properties["exit"] == "5"
    assert "Traceback" not in ran.out


def test_a_project_without_markers_pays_for_no_import(project: Project) -> None:
    project.write(
        test_plain="def test_plain():\n    pass\n",
        conftest="import sys\n\n\ndef pytest_collection_finish():\n    print('LOADED', sorted(sys.modules))\n",
    )
    ran = project.run("--collect-only", "-q")

    assert ran.code == 0
    loaded = set(re.findall(r"'([\w.]+)'", ran.out.split("LOADED", 1)[1]))
    assert "gradassay.testing.plugin" in loaded
    assert not loaded & {"torch", "numpy", "pydantic", "rich", "mlflow", "httpx2", "gradassay.harness"}


def test_a_marker_without_effect_is_an_error(project: Project) -> None:
    project.write(
        test_class="""
import unittest

import pytest


@pytest.mark.gradassay(problem="moe-tiny", strategy="ddp", layouts=["dp2"])
class TestIt(unittest.TestCase):
    def test_it(self):
        pass
"""
    )
    ran = project.run()

    assert ran.outcomes == {"test_it": "error"}
    assert "had no effect" in ran.cases["test_it"].text


def test_a_session_with_update_never_passes_whatever_it_ran(project: Project) -> None:
    project.write(test_one="def test_plain():\n    pass\n")
    ran = project.run("--golden-store", "store", "--golden-update")
    assert (ran.code, ran.outcomes) == (1, {"test_plain": "passed"})
    assert "this session fails whatever its tests came to" in ran.out
    assert project.run("--golden-store", "store", "--golden-update", "-n", "1").code == 1
    assert project.run("--golden-store", "store").code == 0
