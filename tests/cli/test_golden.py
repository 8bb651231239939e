"""`gradassay golden` on a store in a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from gradassay.cli.verify import verify_golden
from gradassay.goldens.errors import InvalidFile
from gradassay.goldens.golden import Golden
from gradassay.goldens.header import Controls
from gradassay.goldens.store.open import open_store

if TYPE_CHECKING:
    from conftest import Files, Ran

Command = Callable[..., "Ran"]


def test_from_the_store_to_a_verdict(inside: Command, files: Files, tmp_path: Path) -> None:
    open_store(f"dir:{tmp_path / 'store'}").put_golden(files.golden)

    nothing = inside("diff", "golden:toy.float32", files.healthy)
    assert nothing.code == 3
    assert "no version is approved" in nothing.err
    assert inside("golden", "approve", "toy.float32", "1").code == 2
    assert inside("golden", "approve", "toy.float32", "--reason", "because").code == 2
    approved = inside("golden", "approve", "toy.float32", "v1", "--reason", "first", "--who", "ada", "--json")
    assert approved.code == 0
    assert json.loads(approved.out)["channels"] == ["approved"]
    assert inside("golden", "approve", "toy.float32@v1", "--reason", "again", "--expected", "2").code == 2
    (row,) = json.loads(inside("golden", "list", "--json").out)
    assert (row["name"], row["version"], row["channels"]) == ("toy.float32", 1, ["approved"])
    assert "toy.float32" in inside("golden", "list").out
    for reference in ("golden:toy.float32", "golden:toy.float32@approved", "golden:toy.float32@v1"):
        assert inside("diff", reference, files.doubled).code == 1
    shown = inside("golden", "show", "toy.float32")
    assert "ada" in shown.out
    assert "no version" in shown.out
    assert json.loads(inside("golden", "show", "toy.float32", "--json").out)["approvals"][0]["why"] == "first"
    pulled = tmp_path / "pulled.safetensors"
    assert inside("golden", "pull", "toy.float32", "--out", pulled).code == 0
    assert pulled.read_bytes() == files.golden.read_bytes()


def test_show_says_what_a_golden_holds(inside: Command, files: Files) -> None:
    shown = inside("golden", "show", files.golden)
    assert shown.code == 0
    for text in ("toy.float32", "unit-mean", "12, of 512 tokens each", "noise q50", "fsdp2", "dp4"):
        assert text in shown.out
    document = json.loads(inside("golden", "show", files.golden, "--json").out)
    assert document["units"] == [512] * 12
    assert {family["samples"] for family in document["noise"].values()} == {240}


def test_verify_accepts_a_sound_golden_and_refuses_a_damaged_one(inside: Command, files: Files) -> None:
    sound = inside("golden", "verify", files.golden)
    assert sound.code == 0
    assert sound.out.count("✓") == 5
    files.golden.write_bytes(files.golden.read_bytes()[:-8])
    damaged = inside("golden", "verify", files.golden)
    assert (damaged.code, damaged.out) == (2, "")
    assert "truncated" in damaged.err


def test_verify_recomputes_norms_and_asks_for_a_noise_floor(make_golden: Callable[..., Golden], tmp_path: Path) -> None:
    golden = make_golden()
    path = tmp_path / "golden.safetensors"
    golden.write(path)
    assert [name for name, _ in verify_golden(path)] == ["digest", "header", "noise floor", "norms", "truth"]

    basis = golden.bases[1]
    for parameter, factor in ((0, 1.001), (2, 1e-6)):
        norm2 = basis.norm2.copy()
        norm2[3, parameter] *= factor
        replace(golden, bases={1: replace(basis, norm2=norm2)}).write(path)
        with pytest.raises(InvalidFile, match=r"unit 3, (dense|expert)\.0\.weight"):
            verify_golden(path)
    replace(golden, bases={1: replace(basis, norm2=np.where(basis.norm2 > 0, basis.norm2 * 8, 0))}).write(path)
    with pytest.raises(InvalidFile):
        verify_golden(path)

    noise = {family: floor for family, floor in golden.header.noise.items() if family != "norm"}
    replace(golden, header=replace(golden.header, noise=noise)).write(path)
    with pytest.raises(InvalidFile, match="none for norm"):
        verify_golden(path)


def test_references_that_mean_no_golden(inside: Command, files: Files, tmp_path: Path) -> None:
    assert inside("golden", "show", files.healthy).code == 2
    assert inside("golden", "show", "nobody").code == 3
    assert inside("golden", "show", "nobody@v4").code == 2
    assert inside("golden", "show", tmp_path / "no.safetensors").code == 2


def test_show_says_what_became_of_faults_put_into_references(
    inside: Command, make_golden: Callable[..., Golden], tmp_path: Path
) -> None:
    golden = make_golden()
    assert "not tried" in inside("golden", "show", _written(golden, tmp_path)).out
    score = Controls(tried=50, kinds=28, layouts=("dp4.accum3",), unnamed=("linear:all in dp4.accum3",))
    tried = replace(golden, header=replace(golden.header, controls=score))
    shown = inside("golden", "show", _written(tried, tmp_path)).out
    assert "100.0% detected, 98.0% named" in " ".join(shown.split())
    document = json.loads(inside("golden", "show", _written(tried, tmp_path), "--json").out)
    assert document["controls"]["undetected"] == []
    assert document["controls"]["tried"] == 50


def _written(golden: Golden, folder: Path) -> Path:
    path = folder / "golden.safetensors"
    golden.write(path)
    return path


@pytest.mark.dist
def test_build_makes_a_golden_of_real_runs(gradassay: Command, tmp_path: Path) -> None:
    (tmp_path / "matrix.toml").write_text('[[matrix]]\nstrategies = ["ddp", "fsdp2"]\ndp = 2\naccum = [1, 2]\n')
    built = gradassay("golden", "build", "dense-tiny", "--matrix", "matrix.toml", "--out", "golden.safetensors")

    assert built.code == 0, built.err
    assert gradassay("golden", "verify", "golden.safetensors").code == 0
    shown = json.loads(gradassay("golden", "show", "golden.safetensors", "--json").out)
    assert [reference["strategy"] for reference in shown["references"]] == ["ddp", "ddp", "fsdp2", "fsdp2"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "known: dense-tiny"),
        (["dense-tiny", "--dtype", "int3"], "choose from float32"),
        (["dense-tiny", "--matrix", "no.toml"], "cannot be read"),
    ],
)
def test_build_refuses_what_cannot_be_built(inside: Command, arguments: list[str], said: str) -> None:
    ran = inside("golden", "build", *arguments, "--out", "golden.safetensors")

    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
