"""`gradassay faults`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Ran

Command = Callable[..., "Ran"]


def test_public_reports_are_listed_with_their_law(inside: Command) -> None:
    listed = inside("faults", "list")
    assert listed.code == 0
    assert "deepspeed-6545" in listed.out
    assert "w[r,m] = dp**(m-M+2)" in listed.out
    assert "token-weighting" in listed.out
    document = json.loads(inside("faults", "list", "--json").out)
    rows = {row["id"]: row for row in document["reports"]}
    assert rows["deepspeed-6545"]["laws"] == ["ep"]
    assert rows["megatron-lm-3023"]["inject"].startswith("geometric")
    assert {"uniform", "unreduced", "stale"} <= {kind["name"] for kind in document["injectable"]}


def test_one_report_is_shown_and_an_unknown_one_is_guessed(inside: Command) -> None:
    shown = inside("faults", "show", "deepspeed-6545")
    assert shown.code == 0
    assert "0.15.4" in shown.out
    unknown = inside("faults", "show", "deepspeed-6544")
    assert (unknown.code, unknown.out) == (2, "")
    assert "did you mean deepspeed-6545" in unknown.err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["sing", "--dp", "2"], 2, "did you mean 'sign'"),
        (["uniform:nobody", "--dp", "2"], 2, "no parameters of family 'nobody'"),
        (["uniform:expert:scale=ep", "--problem", "moe-tiny", "--dp", "2"], 2, "changes nothing"),
        (["sign", "--dp", "2", "--golden", "golden:nobody"], 3, "no version is approved"),
        (["sign", "--dp", "2", "--golden", "no.safetensors"], 2, "no such file"),
    ],
)
def test_what_cannot_be_injected_ends_before_any_rank_starts(
    inside: Command, arguments: list[str], code: int, said: str
) -> None:
    ran = inside("faults", "inject", *arguments)

    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


@pytest.mark.dist
@pytest.mark.slow
def test_an_injected_fault_is_seen_and_named(gradassay: Command, tmp_path: Path) -> None:
    (tmp_path / "matrix.toml").write_text('[[matrix]]\nstrategies = ["ddp", "fsdp2"]\ndp = 2\naccum = [1, 3]\n')
    golden = tmp_path / "golden.safetensors"
    assert gradassay("golden", "build", "dense-tiny", "--matrix", "matrix.toml", "--out", golden).code == 0
    laws = {
        "megatron-lm-3023": "w[r,m] = dp**(m-M+2) (same signature as Megatron-LM",
        "stale:dense": "g = g[step] + g[step-1]",
    }
    for fault, law in laws.items():
        ran = gradassay(
            *("faults", "inject", fault, "--problem", "dense-tiny", "--strategy", "ddp"),
            *("--layout", "dp4.accum3", "--golden", golden),
        )
        assert ran.code == 1, ran.err
        assert law in " ".join(ran.out.split())
        assert "seen, and called by its name" in ran.err
