"""Places of ranks, names without wrappers, and copies numbered over all ranks; without starting any."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gradassay.goldens.layout import Layout
from gradassay.harness.capture.fingerprint import fingerprint
from gradassay.harness.capture.models import recognise
from gradassay.harness.capture.models.place import Place
from gradassay.harness.capture.models.plain import named
from gradassay.harness.capture.moment.reductions import Reductions
from gradassay.harness.problems.families import guess_family


@pytest.mark.parametrize("stride", [1, 4])
def test_places_of_tensor_parallel_ranks(stride: int):
    layout = Layout(dp=4, tp=2, ep=2)
    places = [Place(layout=layout, rank=rank, tp_stride=stride) for rank in range(8)]
    assert sorted((place.dp_rank, place.tp_rank) for place in places) == [
        (dp, tp) for dp in range(4) for tp in range(2)
    ]
    neighbours = (0, 1) if stride == 1 else (0, 4)
    assert [places[rank].dp_rank for rank in neighbours] == [0, 0]
    assert [place.ep_rank for place in places] == [place.dp_rank % 2 for place in places]


def test_names_are_those_of_the_model_alone():
    inner = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    inner[1].weight.requires_grad_(False)
    compiled = torch.compile(inner, backend="eager")
    outer = nn.ModuleDict({"net": compiled})
    assert [name for name, _ in named(outer)] == ["net.0.weight", "net.0.bias", "net.1.bias"]
    model = recognise(compiled, Layout(), Reductions())
    assert model.module is inner
    assert [own.name for own in model.parameters()] == ["0.weight", "0.bias", "1.bias"]


@pytest.mark.parametrize("bit", [0, 13, 31])
@pytest.mark.parametrize("apart", [1, 2, 16, 32, 160])
def test_a_fingerprint_tells_bits_that_changed_twice(apart: int, bit: int):
    values = np.random.default_rng(1).standard_normal(4096).astype(np.float32)
    own = fingerprint(values)
    for place in (0, 1, 2048, 4096 - apart - 1):
        other = values.copy()
        other.view(np.uint32)[[place, place + apart]] ^= np.uint32(1 << bit)
        assert fingerprint(other) != own, place


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 4096])
def test_a_fingerprint_tells_any_single_bit(size: int):
    values = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    own = fingerprint(values)
    assert own == fingerprint(values.copy())
    assert -(2**63) <= own < 2**63
    for place in {0, size // 2, size - 1}:
        for bit in (0, 13, 31):
            other = values.copy()
            other.view(np.uint32)[place] ^= np.uint32(1 << bit)
            assert fingerprint(other) != own, (place, bit)
    swapped = values[::-1]
    assert size == 1 or fingerprint(swapped) != own


@pytest.mark.parametrize(
    ("name", "shape", "family"),
    [
        ("model.layers.0.mlp.experts.3.w1.weight", (4, 4), "expert"),
        ("layers.0.mlp.deepspeed_experts.1.up.weight", (4, 4), "expert"),
        ("model.layers.0.mlp.shared_experts.up_proj.weight", (4, 4), "dense"),
        ("model.layers.0.mlp.shared_expert.up_proj.weight", (4, 4), "dense"),
        ("layers.1.router.weight", (8, 4), "router"),
        ("transformer.h.0.ln_1.weight", (4,), "norm"),
        ("layers.0.input_layernorm.bias", (4,), "norm"),
        ("model.embed_tokens.weight", (9, 4), "embedding"),
        ("transformer.wte.weight", (9, 4), "embedding"),
        ("layers.0.q_proj.bias", (4,), "bias"),
        ("layers.0.q_proj.weight", (4, 4), "dense"),
        ("scale", (4,), "norm"),
    ],
)
def test_families_are_guessed_from_names(name: str, shape: tuple[int, ...], family: str):
    assert guess_family(name, shape) == family


def test_a_mark_of_its_own_goes_before_the_name():
    assert guess_family("layers.0.up.weight", (4, 4), expert=True) == "expert"
