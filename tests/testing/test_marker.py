"""What a marker may say, and how it is told what it may not."""

from __future__ import annotations

import re

import pytest

from projects import Project

WRONG = {
    "keyword": ('problem="moe-tiny", stratgy="ddp", layouts=["dp2"]', "no keyword is called 'stratgy'", "'strategy'"),
    "strategy": ('problem="moe-tiny", strategy="fsdp3", layouts=["dp2"]', "strategy: expected", "'fsdp2'"),
    "several": ('problem="moe-tiny", strategies=["ddp", "fsdp3"], layouts=["dp2"]', "strategies: expected", "'fsdp2'"),
    "layout": ('problem="moe-tiny", strategy="ddp", layouts=["dp2.gp3"]', "layouts: expected", "dp4.ep2.accum3"),
    "division": ('problem="moe-tiny", strategy="ddp", layouts=["dp3.ep2"]', "layouts: expected", "choose ep from 1, 3"),
    "misfit": ('problem="moe-tiny", strategy="hsdp", layout="dp2"', "layout: expected", "needs replicate > 1"),
    "dtype": ('problem="moe-tiny", strategy="ddp", layouts=["dp2"], dtype="float23"', "dtype: expected", "'float32'"),
    "family": (
        'problem="moe-tiny", framework="deepsped==0.19.8", layouts=["dp2"]',
        "framework: expected",
        "'deepspeed'",
    ),
    "release": ('problem="moe-tiny", framework="deepspeed", layouts=["dp2"]', "framework: expected", "deepspeed==0.1"),
    "problem": ('problem="moe-tony", strategy="ddp", layouts=["dp2"]', "problem: expected", "moe-tiny"),
    "fault": ('problem="moe-tiny", strategy="ddp", layouts=["dp2"], fault="unifrom"', "fault: expected", "'uniform'"),
    "nothing": ('problem="moe-tiny", strategy="ddp"', "layout: expected", "nothing"),
    "positional": ('"moe-tiny"', "takes keywords only", "golden"),
    "matrix": ('matrix="nowhere.toml"', "nowhere.toml: cannot be read", "give a TOML file"),
    "both": ('matrix="m.toml", strategy="ddp"', "both a matrix and strategy", "the matrix file says"),
    "twice": ('problem="moe-tiny", strategy="ddp", strategies=["ddp"], layouts=["dp2"]', "given twice", "a list"),
    "deadline": (
        'problem="moe-tiny", strategy="ddp", layouts=["dp2"], deadline_s=0',
        "deadline_s: expected",
        "above 0",
    ),
    "golden": ('problem="moe-tiny", strategy="ddp", layouts=["dp2"], golden=3', "golden: expected", "NAME@vN"),
}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a session says of each wrong marker."""
    project = Project(folder=tmp_path_factory.mktemp("wrong"))
    for name, (marker, _, _) in WRONG.items():
        text = f"import pytest\n\n\n@pytest.mark.gradassay({marker})\ndef test_it():\n    pass\n"
        project.write(**{f"test_{name}": text})
    ran = project.run("--golden-store", "store")
    assert ran.code == pytest.ExitCode.INTERRUPTED
    assert "Traceback" not in ran.out
    parts = re.split(r"^_+ ERROR collecting test_(\w+)\.py _+$", ran.out, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_told_with_file_line_and_the_nearest_known_word(said: dict[str, str], name: str) -> None:
    _, what, hint = WRONG[name]

    assert what in said[name]
    assert hint in said[name]
    assert "site-packages" not in said[name]
    if name != "matrix":
        assert f"test_{name}.py:4: @pytest.mark.gradassay:" in said[name]


def test_tests_are_named_by_their_cells(project: Project) -> None:
    project.write(
        test_many="""
import pytest

pytestmark = pytest.mark.gradassay(problem="moe-tiny", golden="v3")


@pytest.mark.gradassay(strategies=["ddp", "fsdp2"], layouts=["dp2", "dp4.ep2.accum3"], dtypes=("float32", "bfloat16"))
def test_product():
    pass


@pytest.mark.gradassay(frameworks=["deepspeed==0.19.8", "megatron-fsdp==0.2.3"], layout="dp2", options={"x": "1"})
def test_frameworks():
    pass


@pytest.mark.gradassay(strategy="ddp", layouts=["dp2"], fault="uniform:expert:scale=1/dp")
@pytest.mark.parametrize("number", [1, 2])
def test_fault(number):
    pass


@pytest.mark.gradassay(problem="dense-tiny", strategy="ddp", layout="dp2")
class TestClass:
    def test_method(self, gradassay):
        pass
"""
    )
    ran = project.run("--collect-only", "-q")
    names = re.findall(r"^test_many\.py::(\S+)$", ran.out, re.MULTILINE)

    assert ran.code == 0, ran.out
    assert names == [
        "test_product[ddp-dp2-float32]",
        "test_product[ddp-dp4.ep2.accum3-float32]",
        "test_product[ddp-dp2-bfloat16]",
        "test_product[ddp-dp4.ep2.accum3-bfloat16]",
        "test_product[fsdp2-dp2-float32]",
        "test_product[fsdp2-dp4.ep2.accum3-float32]",
        "test_product[fsdp2-dp2-bfloat16]",
        "test_product[fsdp2-dp4.ep2.accum3-bfloat16]",
        "test_frameworks[deepspeed-zero2-deepspeed==0.19.8-dp2-x=1]",
        "test_frameworks[megatron-fsdp-megatron-fsdp==0.2.3-dp2-x=1]",
        "test_fault[ddp-dp2-uniform:expert:scale=1overdp-1]",
        "test_fault[ddp-dp2-uniform:expert:scale=1overdp-2]",
        "TestClass::test_method[ddp-dp2]",
    ]
