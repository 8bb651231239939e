"""`gradassay diff` as a process."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as Tree

import pytest

from gradassay.goldens.golden import Golden
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]


def test_agreement_exits_0_and_says_so_on_stdout(gradassay: Command, files: Files) -> None:
    ran = gradassay("diff", files.golden, files.healthy)

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("✓ agree: all 5 parameters")
    assert "power" in ran.out


def test_divergence_exits_1_and_names_the_law_first(gradassay: Command, files: Files) -> None:
    ran = gradassay("diff", files.golden, files.doubled)

    assert ran.code == 1
    assert ran.out.startswith("✗ diverge: 2 of 2 expert parameters")
    assert "w[r,m] = ep" in ran.out.split("\n\n")[0]
    assert "\x1b" not in ran.out


def test_record_and_golden_may_stand_in_either_order(inside: Command, files: Files) -> None:
    one = json.loads(inside("diff", files.golden, files.doubled, "--format", "json").out)
    two = json.loads(inside("diff", files.doubled, files.golden, "--json").out)

    assert one == two
    assert one["a"]["kind"] == "golden"
    assert one["b"]["ref"] == str(files.doubled)


def test_several_records_are_explained_by_one_law(inside: Command, files: Files) -> None:
    ran = inside("diff", files.golden, files.doubled, files.quadrupled, "--format", "json")

    document = json.loads(ran.out)
    assert ran.code == document["exit"] == 1
    assert [law["law"]["formula"] for law in document["joint"]] == ["w[r,m] = ep"]
    assert len(document["assays"]) == 2


def test_a_folder_stands_for_all_its_records(inside: Command, files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    shutil.copy(files.healthy, folder)
    shutil.copy(files.doubled, folder)
    ran = inside("--json", "diff", files.golden, folder)

    assert ran.code == 1
    assert {assay["verdict"] for assay in json.loads(ran.out)["assays"]} == {"agree", "diverge"}


def test_what_a_folder_holds_beside_them_is_said(inside: Command, files: Files, tmp_path: Path) -> None:
    ran = inside("diff", files.healthy, tmp_path, "--json")

    assert len(json.loads(ran.out)["assays"]) == 3
    assert f"not compared: golden {files.golden}" in ran.err


def test_two_records_are_compared_with_each_other(inside: Command, files: Files) -> None:
    assert inside("diff", files.healthy, files.doubled).code == 1
    assert inside("diff", files.healthy, files.healthy).code in (0, 6)


def test_reports_are_written_whole_to_a_file(gradassay: Command, files: Files, tmp_path: Path) -> None:
    page = tmp_path / "deep" / "report.html"
    ran = gradassay("diff", files.golden, files.doubled, "--format", "html", "--output", page)

    assert (ran.code, ran.out) == (1, "")
    assert "report: " in ran.err
    assert page.read_text().rstrip().endswith("</html>")
    assert [path.name for path in page.parent.iterdir()] == ["report.html"]


def test_junit_and_markdown(inside: Command, files: Files) -> None:
    root = Tree.fromstring(inside("diff", files.golden, files.doubled, "-f", "junit").out.encode())
    assert int(root.get("failures") or 0) == 3
    assert inside("diff", files.golden, files.doubled, "-f", "markdown").out.startswith("### ❌")


def test_quiet_leaves_stderr_empty(gradassay: Command, files: Files, tmp_path: Path) -> None:
    ran = gradassay("diff", files.golden, files.doubled, "-f", "html", "-o", tmp_path / "report.html", "--quiet")

    assert (ran.code, ran.out, ran.err) == (1, "", "")


def test_another_problem_is_incomparable(
    inside: Command,
    files: Files,
    tmp_path: Path,
    make_toy: Callable[..., object],
    make_record: Callable[..., Record],
) -> None:
    make_record(make_toy(name="other")).write(tmp_path / "other.safetensors")
    ran = inside("diff", files.golden, tmp_path / "other.safetensors")

    assert ran.code == 5
    assert ran.out.startswith("! incomparable")


def test_more_units_than_the_golden_has_is_incomparable(
    inside: Command,
    tmp_path: Path,
    make_toy: Callable[..., object],
    make_golden: Callable[..., Golden],
    make_record: Callable[..., Record],
) -> None:
    make_golden(make_toy(units=8)).write(tmp_path / "golden.safetensors")
    make_record(make_toy(), layout=Layout(dp=4, accum=3)).write(tmp_path / "record.safetensors")

    assert inside("diff", "golden.safetensors", "record.safetensors").code == 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "expected safetensors"),
        (b"\x80\x04\x95 a pickle of some length", "pickle"),
        (b"\xff" * 64, "expected safetensors"),
    ],
)
def test_files_that_are_none_exit_2_with_one_message(
    inside: Command, files: Files, tmp_path: Path, content: bytes, said: str
) -> None:
    (tmp_path / "bad.safetensors").write_bytes(content)
    ran = inside("diff", files.golden, "bad.safetensors")

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_a_truncated_record_exits_2(inside: Command, files: Files, tmp_path: Path) -> None:
    content = files.doubled.read_bytes()
    (tmp_path / "cut.safetensors").write_bytes(content[: len(content) // 2])
    ran = inside("diff", files.golden, "cut.safetensors")

    assert ran.code == 2
    assert "truncated" in ran.err


def test_references_that_lead_nowhere(inside: Command, files: Files, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    missing = inside("diff", files.golden, "nowhere.safetensors")
    assert (missing.code, missing.out) == (2, "")
    assert "there is no such file" in missing.err
    assert "golden:NAME" in missing.err
    assert inside("diff", files.golden, "empty").code == 2
    assert inside("diff", "golden:nobody@approved", files.healthy).code == 3
    assert inside("diff", files.golden, "run:0123456789abcdef").code == 2
    assert inside("diff", files.golden, "run:").code == 2
    ambiguous = inside("diff", tmp_path, files.golden)
    assert ambiguous.code in (0, 1)
    assert inside("diff", files.golden, files.golden).code == 2


def test_two_files_need_neither_torch_nor_mlflow_nor_fastapi(files: Files) -> None:
    script = (
        "import sys\n"
        "from gradassay.cli.main import run\n"
        "try:\n"
        "    run()\n"
        "except SystemExit as end:\n"
        "    heavy = {'torch', 'mlflow', 'fastapi'} & set(sys.modules)\n"
        "    sys.exit(f'imported {heavy}' if heavy else 40 + int(end.code or 0))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "diff", files.golden, files.doubled, "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (41, "")
