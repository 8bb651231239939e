"""Maps that come with the package: names and shapes as the frameworks have them, and gradients through their layouts."""

from __future__ import annotations

import pytest
import torch

from gradassay.goldens.errors import Incomplete, InvalidFile, UsageError
from gradassay.goldens.header import Parameter
from gradassay.harness.capture.piece import whole
from gradassay.harness.names import NameMap
from name_shards import assembled

HIDDEN, HEADS, GROUPS, INNER, EXPERTS = 64, 4, 2, 96, 4
HEAD = HIDDEN // HEADS


def parameters(shapes: dict[str, tuple[int, ...]]) -> tuple[Parameter, ...]:
    return tuple(Parameter(name=name, shape=shape, family="dense") for name, shape in shapes.items())


def llama(experts: int = 0) -> tuple[Parameter, ...]:
    """Hugging Face's Llama of one layer, or a Mixtral with its experts one by one."""
    layer = "model.layers.0"
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (96, HIDDEN),
        f"{layer}.self_attn.q_proj.weight": (HIDDEN, HIDDEN),
        f"{layer}.self_attn.k_proj.weight": (GROUPS * HEAD, HIDDEN),
        f"{layer}.self_attn.v_proj.weight": (GROUPS * HEAD, HIDDEN),
        f"{layer}.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        f"{layer}.input_layernorm.weight": (HIDDEN,),
        f"{layer}.post_attention_layernorm.weight": (HIDDEN,),
        "model.norm.weight": (HIDDEN,),
        "lm_head.weight": (96, HIDDEN),
    }
    for prefix in [f"experts.{expert}." for expert in range(experts)] or [""]:
        shapes[f"{layer}.mlp.{prefix}gate_proj.weight"] = (INNER, HIDDEN)
        shapes[f"{layer}.mlp.{prefix}up_proj.weight"] = (INNER, HIDDEN)
        shapes[f"{layer}.mlp.{prefix}down_proj.weight"] = (HIDDEN, INNER)
    if experts:
        shapes[f"{layer}.mlp.gate.weight"] = (experts, HIDDEN)
    return parameters(shapes)


def megatron(*, gated: bool, moe: str = "", local: int = EXPERTS, vocabulary: int = 128) -> dict[str, tuple[int, ...]]:
    """Names and shapes of megatron-core 0.16.1's GPTModel of one layer."""
    layer = "decoder.layers.0"
    up = INNER * (2 if gated else 1)
    shapes: dict[str, tuple[int, ...]] = {
        "embedding.word_embeddings.weight": (vocabulary, HIDDEN),
        f"{layer}.input_layernorm.weight": (HIDDEN,),
        f"{layer}.self_attention.linear_proj.weight": (HIDDEN, HIDDEN),
        f"{layer}.self_attention.linear_qkv.weight": (HIDDEN + 2 * GROUPS * HEAD, HIDDEN),
        f"{layer}.pre_mlp_layernorm.weight": (HIDDEN,),
        "decoder.final_layernorm.weight": (HIDDEN,),
        "output_layer.weight": (vocabulary, HIDDEN),
    }
    if not moe:
        return shapes | {
            f"{layer}.mlp.linear_fc1.weight": (up, HIDDEN),
            f"{layer}.mlp.linear_fc2.weight": (HIDDEN, INNER),
        }
    shapes[f"{layer}.mlp.router.weight"] = (EXPERTS, HIDDEN)
    for expert in range(local):
        one, two = (moe.format(expert=expert, number=number) for number in (1, 2))
        shapes |= {f"{layer}.mlp.experts.{one}": (up, HIDDEN), f"{layer}.mlp.experts.{two}": (HIDDEN, INNER)}
    return shapes


SEQUENTIAL, GROUPED = "local_experts.{expert}.linear_fc{number}.weight", "linear_fc{number}.weight{expert}"


@pytest.mark.parametrize("moe", ["", SEQUENTIAL, GROUPED])
@pytest.mark.parametrize("ep", [1, 2])
def test_megatron_becomes_llama(moe: str, ep: int) -> None:
    names, canonical = NameMap.shipped("megatron-llama", values={"query_groups": GROUPS}), llama(EXPERTS if moe else 0)
    found: list[str] = []
    for ep_rank in range(ep):
        shapes = megatron(gated=True, moe=moe, local=EXPERTS // ep)
        binding = names.bind(shapes, canonical, ep_rank=ep_rank, ep=ep)
        targets = [target for name in shapes for target in binding.targets(f"module.module.{name}")]
        assert len(targets) == len(set(targets))
        found += [target for target in targets if ep_rank == 0 or ".experts." in target]
    assert sorted(found) == sorted(parameter.name for parameter in canonical)


def test_phi_and_mixtral_become_llama() -> None:
    layer = "model.layers.0"
    same = {parameter.name: parameter.shape for parameter in llama() if "_proj" not in parameter.name}
    same[f"{layer}.self_attn.o_proj.weight"] = (HIDDEN, HIDDEN)
    names = NameMap.shipped("huggingface")
    phi = same | {
        f"{layer}.self_attn.qkv_proj.weight": (HIDDEN + 2 * GROUPS * HEAD, HIDDEN),
        f"{layer}.mlp.gate_up_proj.weight": (2 * INNER, HIDDEN),
        f"{layer}.mlp.down_proj.weight": (HIDDEN, INNER),
    }
    mixtral = same | {
        **{f"{layer}.self_attn.{part}_proj.weight": (GROUPS * HEAD, HIDDEN) for part in "kv"},
        f"{layer}.self_attn.q_proj.weight": (HIDDEN, HIDDEN),
        f"{layer}.mlp.gate.weight": (EXPERTS, HIDDEN),
        f"{layer}.mlp.experts.gate_up_proj": (EXPERTS, 2 * INNER, HIDDEN),
        f"{layer}.mlp.experts.down_proj": (EXPERTS, HIDDEN, INNER),
    }
    for shapes, canonical in ((phi, llama()), (mixtral, llama(EXPERTS))):
        binding = names.bind(shapes, canonical)
        found = [target for name in shapes for target in binding.targets(name)]
        assert sorted(found) == sorted(parameter.name for parameter in canonical)


def test_torchtitan_experts() -> None:
    shapes = {
        "layers.1.moe.experts.w1": (EXPERTS, INNER, HIDDEN),
        "layers.1.moe.experts.w2": (EXPERTS, HIDDEN, INNER),
        "layers.1.moe.router.gate.weight": (EXPERTS, HIDDEN),
    }
    canonical = parameters(
        {f"layers.1.moe.experts.{expert}.w1.weight": (INNER, HIDDEN) for expert in range(EXPERTS)}
        | {f"layers.1.moe.experts.{expert}.w2.weight": (HIDDEN, INNER) for expert in range(EXPERTS)}
        | {"layers.1.moe.router.gate.weight": (EXPERTS, HIDDEN)}
    )
    own = {name: torch.randn(shape) for name, shape in shapes.items()}
    pieces = [whole(name, values, numel=values.numel()) for name, values in own.items()]
    found = assembled(NameMap.shipped("torchtitan").canonical(pieces, shapes, canonical), canonical)
    for expert in range(EXPERTS):
        assert torch.equal(found[f"layers.1.moe.experts.{expert}.w2.weight"], own["layers.1.moe.experts.w2"][expert])


def test_a_megatron_map_wants_to_know_its_groups() -> None:
    with pytest.raises(InvalidFile, match=r"megatron.toml: rule '.*linear_qkv.weight': 'query_groups' has no value"):
        NameMap.shipped("megatron")
    with pytest.raises(InvalidFile, match="no rule names the value 'query_group'"):
        NameMap.shipped("megatron", values={"query_groups": 4, "query_group": 4})


def test_a_wrong_map_for_a_model_is_refused() -> None:
    names = NameMap.shipped("megatron-llama", values={"query_groups": GROUPS})
    with pytest.raises(UsageError, match=r"linear_fc1.weight \[96, 64\], by rule .*: axis 0 has 96 rows, .* 96 \+ 96"):
        names.bind(megatron(gated=False), llama())
    with pytest.raises(Incomplete, match=r"'decoder.layers.0.mlp.linear_fc1.bias' \[192\]"):
        names.bind(megatron(gated=True) | {"decoder.layers.0.mlp.linear_fc1.bias": (192,)}, llama())


def test_unknown_maps() -> None:
    with pytest.raises(UsageError, match="no map is called 'megatrn'") as caught:
        NameMap.shipped("megatrn")
    assert "megatron-llama" in caught.value.hint
