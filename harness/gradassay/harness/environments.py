"""Framework environments: releases that run beside the main one, each in a folder of its own, sharing its torch."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gradassay.goldens.errors import UsageError
from gradassay.goldens.extras import require

ROOT_SETTING = "GRADASSAY_ZOO"
"""Setting that names the folder of environments."""

MANIFEST = "environment.json"
"""Written last into an environment's folder; a folder without it is no environment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What all releases of one framework need.

    strategies: what it runs, the default first. requires: distributions that go into its folder beside it; torch, numpy
    and pydantic come from the main environment.
    installs: further options of pip. builds: variables during installation. variables: what its ranks run with.
    preload: modules that a fork server imports before the ranks.
    """

    name: str
    strategies: tuple[str, ...]
    requires: tuple[str, ...] = ()
    installs: tuple[str, ...] = ()
    builds: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()


FAMILIES: Mapping[str, Family] = {
    "deepspeed": Family(
        name="deepspeed",
        strategies=("deepspeed-zero2", "deepspeed-zero1", "deepspeed-zero0", "deepspeed-zero3"),
        requires=("einops", "hjson", "msgpack", "packaging", "psutil", "py-cpuinfo", "tqdm"),
        builds={"DS_BUILD_OPS": "0"},
        variables={"TORCHDYNAMO_DISABLE": "1"},
        preload=("gradassay.harness.strategies.deepspeed_module",),
    ),
    "megatron-fsdp": Family(
        name="megatron-fsdp",
        strategies=("megatron-fsdp",),
        requires=("einops", "packaging"),
        preload=("gradassay.harness.strategies.megatron_fsdp_module",),
    ),
    "accelerate": Family(
        name="accelerate",
        strategies=("accelerate-ddp", "accelerate-fsdp2"),
        requires=("huggingface_hub", "packaging", "psutil", "PyYAML"),
        preload=("accelerate", "accelerate.utils"),
    ),
    "lightning": Family(
        name="lightning",
        strategies=("lightning-ddp", "lightning-fsdp2"),
        requires=("lightning-utilities", "packaging", "PyYAML", "torchmetrics", "tqdm"),
        preload=("gradassay.harness.strategies.lightning_module",),
    ),
    "torchtitan": Family(
        name="torchtitan",
        strategies=("torchtitan-fsdp2", "torchtitan-ddp"),
        requires=("docstring-parser", "einops", "rich", "spmd-types==0.2.3", "tokenizers", "typeguard", "tyro"),
        preload=("gradassay.harness.strategies.torchtitan_module",),
    ),
    "transformers": Family(
        name="transformers",
        # No strategy: public reports of its Trainer are run by a script of their own.
        strategies=(),
        requires=(
            "accelerate",
            "huggingface-hub<1",
            "packaging",
            "psutil",
            "PyYAML",
            "regex",
            "tokenizers<0.22",
            "tqdm",
        ),
        preload=("transformers",),
    ),
    "megatron-core": Family(
        name="megatron-core",
        strategies=("megatron-ddp",),
        requires=("einops", "packaging"),
        # Newer releases declare Python 3.12; their wheels for 3.11 are published and run.
        installs=("--ignore-requires-python",),
        variables={"TORCHDYNAMO_DISABLE": "1"},
        preload=("gradassay.harness.strategies.megatron_core_module",),
    ),
    # No framework, but what sketches gradients on GPUs; torch for CPUs comes without it, and others look whether it is there.
    "triton": Family(name="triton", strategies=()),
}
"""Frameworks that gradassay can run, by distribution name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Where and how the ranks of one framework release run.

    paths: folders to put first on PYTHONPATH. variables: to set before python starts. preload: modules for a fork
    server to import. Every cell needs freshly forked ranks: frameworks keep groups and settings for the whole process.
    """

    name: str
    version: str
    paths: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[str, ...] = ()


def environment(framework: str, *, device: str = "cpu") -> Environment:
    """The environment of `framework` (`name==version`, or "" for the main one) for ranks on `device` (cpu, cuda).

    Raises UsageError, with the command that installs it, where it is not installed, MissingExtra where torch is not.
    """
    require("torch")
    common = {} if device == "cuda" else {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": loopback()}
    if not framework:
        return Environment(name="torch", version="", variables=common, preload=("torch", "torch.distributed"))
    name, version = parse(framework)
    folder = zoo_folder() / f"{name}-{version}"
    if not installed(folder):
        raise UsageError(
            f"{framework} is not installed: {folder} holds no environment for {sys.implementation.cache_tag}",
            hint=f"install it with: {sys.executable} -m gradassay.harness.zoo {framework}",
            framework=framework,
            folder=str(folder),
        )
    family = FAMILIES[name]
    accelerator = {"DS_ACCELERATOR": device} if name == "deepspeed" else {}
    return Environment(
        name=name,
        version=version,
        paths=(folder,),
        variables={**common, **family.variables, **accelerator},
        preload=family.preload,
    )


def parse(framework: str) -> tuple[str, str]:
    """Name and version of `name==version`. Raises UsageError for another form or an unknown framework."""
    match = re.fullmatch(r"([a-z0-9-]+)==([0-9][0-9A-Za-z.+!]*)", framework)
    if match is None:
        raise UsageError(f"framework {framework!r} is not of the form name==version", hint="as in deepspeed==0.15.3")
    if match[1] not in FAMILIES:
        raise UsageError(f"framework {match[1]!r} is not known", hint=f"choose from {', '.join(FAMILIES)}")
    return match[1], match[2]


def zoo_folder() -> Path:
    """The folder of environments: the setting GRADASSAY_ZOO, else `.zoo` in the current folder or the nearest one
    above that has it, else the user's cache folder.
    """
    setting = os.environ.get(ROOT_SETTING)
    if setting:
        return Path(setting).expanduser().resolve()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".zoo").is_dir():
            return folder / ".zoo"
    from platformdirs import user_cache_path

    return user_cache_path("gradassay") / "zoo"


def installed(folder: Path) -> bool:
    """Whether `folder` holds a whole environment made for this Python."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text())
    except (OSError, ValueError):
        return False
    return isinstance(manifest, dict) and manifest.get("python") == sys.implementation.cache_tag


def loopback() -> str:
    """Name of the loopback interface, for gloo ranks of one machine."""
    return "lo0" if sys.platform == "darwin" else "lo"
