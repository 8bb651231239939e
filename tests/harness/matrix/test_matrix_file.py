"""Matrix files: what they come to, and one clear message for each mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradassay.goldens.errors import InvalidFile
from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.matrix import parse_matrix, read_matrix
from gradassay.harness.matrix.table import EXCLUDABLE, KEYS

ROOT = Path(__file__).parents[3]
HEAD = '[[matrix]]\nproblems = "moe-tiny"\nstrategies = "fsdp2"\n'


def test_a_product_skips_and_counts_what_cannot_exist() -> None:
    matrix = parse_matrix(HEAD + "dp = [1, 2, 5, 10]\nep = [1, 2, 5]\naccum = [1, 3]", Path("m.toml"))
    layouts = {str(cell.layout) for cell in matrix.cells}
    assert layouts == {
        "dp1", "dp1.accum3", "dp2", "dp2.accum3", "dp2.ep2", "dp2.ep2.accum3",
        "dp5", "dp5.accum3", "dp10", "dp10.ep2",
    }  # fmt: skip
    assert matrix.skipped == {
        "ep or replicate does not divide dp": 8,
        "ep does not divide the 12 experts of moe-tiny": 3,
        "dp * accum is more than the 24 units of moe-tiny": 3,
    }
    assert len(matrix.cells) + sum(matrix.skipped.values()) == 4 * 3 * 2


def test_hsdp_needs_replicas_and_the_others_do_without() -> None:
    text = '[[matrix]]\nproblems = "dense-tiny"\nstrategies = ["ddp", "hsdp"]\ndp = 4\nreplicate = [1, 2]'
    matrix = parse_matrix(text, Path("m.toml"))
    assert [str(cell) for cell in matrix.cells] == [
        "dense-tiny ddp dp4 float32",
        "dense-tiny hsdp dp4.replicate2 float32",
    ]
    assert matrix.skipped == {"ddp does not run replicate > 1 (hsdp does)": 1, "hsdp needs replicate > 1": 1}


def test_every_key_reaches_its_cells() -> None:
    text = """
[[matrix]]
problems = ["moe-tiny"]
strategies = ["fsdp2"]
dtypes = ["bfloat16"]
frameworks = "deepspeed==0.15.3"
faults = ["zero:expert"]
layouts = ["dp4.ep2.accum3"]
options = { reshard = "false" }
full = true
capture = { stages = ["reduced", "update"], steps = 2, learning_rate = 0.5, max_norm = 1 }
"""
    assert parse_matrix(text, Path("m.toml")).cells == (
        Cell(
            problem="moe-tiny",
            strategy="fsdp2",
            layout=Layout(dp=4, ep=2, accum=3),
            dtype="bfloat16",
            framework="deepspeed==0.15.3",
            fault="zero:expert",
            options={"reshard": "false"},
            full=True,
            stages=("reduced", "update"),
            steps=2,
            learning_rate=0.5,
            max_norm=1,
        ),
    )


def test_exclude_and_repeated_cells() -> None:
    text = HEAD + "dp = [1, 2, 4]\naccum = [1, 2]\nexclude = [{ dp = [2, 4], accum = 2 }, { dp = 1 }]\n"
    matrix = parse_matrix(text + HEAD + 'layouts = ["dp2", "dp1.accum2"]', Path("m.toml"))
    assert [str(cell.layout) for cell in matrix.cells] == ["dp2", "dp4", "dp1.accum2"]
    assert matrix.excluded == 4


def test_every_cell_knows_its_line() -> None:
    text = (
        f'# cells\n{HEAD}layouts = [\n  "dp2",\n  "dp4",\n]\n'
        f'[[matrix]]\nproblems = "moe-tiny"\nstrategies = ["fsdp2", "ddp"]\ndp = [2, 3]\n'
    )
    matrix = parse_matrix(text, Path("m.toml"))
    assert matrix.lines == {
        "moe-tiny fsdp2 dp2 float32": 5,
        "moe-tiny fsdp2 dp4 float32": 5,
        "moe-tiny fsdp2 dp3 float32": 9,
        "moe-tiny ddp dp2 float32": 9,
        "moe-tiny ddp dp3 float32": 9,
    }
    assert matrix.lines.keys() == {str(cell) for cell in matrix.cells}


def test_defaults_fill_what_a_table_leaves_out() -> None:
    text = '[[matrix]]\nstrategies = "ddp"\ndp = 2\n[[matrix]]\nproblems = "dense-tiny"\nstrategies = "ddp"\ndp = 1'
    matrix = parse_matrix(text, Path("m.toml"), defaults={"problems": "moe-tiny", "dtypes": "bfloat16"})
    assert [str(cell) for cell in matrix.cells] == ["moe-tiny ddp dp2 bfloat16", "dense-tiny ddp dp1 bfloat16"]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[[matrix]", "m.toml: not valid TOML: .*line 1", "docs/matrix.md"),
        ("", "at least one table .*, found none", ""),
        ("[matrix]\ndp = 1", "found a single \\[matrix\\]", ""),
        ("[[matrx]]\ndp = 1", "nothing else, found 'matrx'", "did you mean 'matrix'"),
        (HEAD + "acum = 3", "m.toml:4: .*number 1: acum: expected a key", "did you mean 'accum'"),
        ('[[matrix]]\nproblem = "moe-tiny"', "m.toml:2: .*problem", "did you mean 'problems'"),
        ('[[matrix]]\nproblems = "moe-tiny"', "m.toml:1: .*strategies: expected one name", ""),
        (HEAD.replace("fsdp2", "fdsp2"), "m.toml:3: .*strategies: .*'fdsp2'", "did you mean 'fsdp2'"),
        (HEAD.replace("moe-tiny", "moe-tinny"), "m.toml:2: .*problems: .*'moe-tinny'", "moe-tiny"),
        (HEAD + 'dtypes = "float31"', "dtypes: .*'float31'", "did you mean 'float32'"),
        (HEAD + "dtypes = []", "dtypes: expected one name or a list", ""),
        (HEAD + 'dp = "4"', "dp: expected whole numbers of at least 1, found '4'", ""),
        (HEAD + "dp = [2, 0]", "dp: expected whole numbers of at least 1, found \\[2, 0\\]", ""),
        (HEAD + "dp = true", "dp: expected whole numbers", ""),
        (HEAD + "dp = 4.0", "dp: expected whole numbers", ""),
        (HEAD + 'layouts = "dp4"', "layouts: expected a list", ""),
        (HEAD + 'layouts = ["dp4.pe2"]', "layouts: .*cannot read 'pe2'", "dp4.ep2.accum3"),
        (HEAD + 'layouts = ["dp4.ep3"]', "layouts: .*ep = 3 does not divide dp = 4", "choose ep from 1, 2, 4"),
        (HEAD + 'layouts = ["dp5.ep5"]', "layouts: .*'dp5.ep5', but ep does not divide the 12 experts", ""),
        (HEAD + 'layouts = ["dp6.accum5"]', "'dp6.accum5', but dp \\* accum is more than the 24 units", ""),
        (HEAD + 'layouts = ["dp4.replicate2"]', "'dp4.replicate2', but fsdp2 does not run replicate > 1", ""),
        (HEAD.replace("fsdp2", "hsdp") + 'layouts = ["dp4"]', "'dp4', but hsdp needs replicate > 1", ""),
        (HEAD + 'layouts = ["dp4"]\ndp = 4', "either layouts or sizes, found both layouts and dp", ""),
        (HEAD + "options = { reshard = false }", "options: expected a table of texts", ""),
        (HEAD + 'frameworks = "deepspeed"', "frameworks: expected releases .*'deepspeed'", "deepspeed==0.15.3"),
        (HEAD + 'frameworks = "deepsped==1.0"', "frameworks: .*'deepsped==1.0'", "choose from deepspeed"),
        (HEAD + 'faults = "zro:expert"', "faults: expected faults .*'zro:expert'", "did you mean 'zero'"),
        (HEAD + "full = 1", "full: expected true or false", ""),
        (
            HEAD + 'capture = "local"',
            "capture: expected a table",
            "",
        ),
        (HEAD + 'capture = { stage = ["local"] }', "capture: stage: expected part of what", "did you mean 'stages'"),
        (HEAD + 'capture = { steps = "two" }', "capture: steps: expected a whole number, found 'two'", ""),
        (HEAD + 'capture = { stages = ["locl"] }', "capture: expected what a run can capture, found no stage", "local"),
        (HEAD + "capture = { steps = 2 }", "found an update of the parameters needs a learning rate", "learning-rate"),
        (HEAD + "exclude = { dp = 1 }", "exclude: expected a list", ""),
        (HEAD + 'exclude = [{ stratgy = "ddp" }]', "m.toml:4: .*exclude: stratgy", "did you mean 'strategy'"),
        (HEAD + 'exclude = [{ dp = "1" }]', "exclude: dp: expected whole numbers", ""),
        (HEAD + "ep = 5", "no cell is left \\(1 x ep or replicate does not divide dp\\)", ""),
        (HEAD + "[[matrix]]\ndp = 1", "m.toml:4: \\[\\[matrix\\]\\] number 2: problems", ""),
    ],
)
def test_mistakes_are_named(text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidFile, match=message) as caught:
        parse_matrix(text, Path("m.toml"))
    assert hint in caught.value.hint


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"nowhere\.toml: cannot be read"):
        read_matrix(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidFile, match=r"binary\.toml: cannot be read"):
        read_matrix(tmp_path / "binary.toml")


def test_reading_imports_no_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from gradassay.harness.matrix import read_matrix, demo_matrix\n"
        "read_matrix(Path(sys.argv[1])); demo_matrix(); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, ROOT / "ci/matrix/reference.toml"], check=True)


def test_every_key_is_documented() -> None:
    page = (ROOT / "docs/matrix.md").read_text()
    assert [key for key in (*KEYS, *EXCLUDABLE) if f"`{key}`" not in page] == []


def test_the_example_of_the_page_is_a_matrix() -> None:
    page = (ROOT / "docs/matrix.md").read_text()
    example = page.partition("```toml\n")[2].partition("```")[0]
    assert parse_matrix(example, Path("docs/matrix.md")).excluded > 0
