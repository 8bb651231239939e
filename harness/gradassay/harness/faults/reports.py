"""Public reports by their ids, and the injection that leaves the same gradients behind."""

from __future__ import annotations

from collections.abc import Mapping

REPORTS: Mapping[str, str] = {
    "deepspeed-6545": "uniform:expert:scale=ep",
    "megatron-lm-3023": "geometric:all:base=dp,scale=dp",
    "megatron-lm-6660": "geometric:expert:base=1/2,scale=1",
    "deepspeed-4957": "uniform:expert:scale=1/edp",
    "deepspeed-7724": "uniform:all:scale=1/accum",
    "torchtitan-1733": "geometric:all:base=2,scale=1",
    "torchtitan-1551": "uniform:expert:scale=ep",
    "torchtitan-2318": "uniform:all:scale=1/dp",
    "nanogpt-30": "partly-unreduced:all:group=rank,reduced=0",
    "transformers-34191": "token-weighting:all",
    "transformers-35207": "uniform:all:scale=accum",
    "torchtitan-3575": "last-only:all",
    "primus-1046": "first-only:all",
    "horovod-3719": "uniform:dense:scale=dp",
    "deepspeed-7839": "uniform:all:scale=2**-16",
    "torchtitan-3174": "uniform:tied:scale=2",
    "megatron-lm-aux-loss": "term:all:term=aux,scale=1/dp",
    "fairseq-4220": "unreduced:expert",
    "deepspeed-545": "permuted:dense",
    "deepspeed-5150": "clipped:all",
    "pytorch-190627": "precision:all",
}
"""Id of the catalogue -> fault as text. The family may be replaced where the report is of some parameters."""

ELSEWHERE: Mapping[str, str] = {
    "deepspeed-5555": "it needs context parallelism, which no strategy here runs",
    "megatron-lm-2564": "it needs tensor parallelism, which no strategy here runs",
    "colossalai-9b9b76bdc": "its factor differs from expert to expert; inject uniform:expert instead",
}
"""Ids of the catalogue that cannot be injected, with the reason."""
