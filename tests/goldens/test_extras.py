"""Every module that a bare installation does not bring is known by the extra that does."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from gradassay.goldens.errors import MissingExtra
from gradassay.goldens.extras import EXTRAS, missing_extra, require
from gradassay.harness.environments import FAMILIES

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ROOMS = ("harness", "goldens", "api")
OF_OTHERS = {"markupsafe": "jinja2", "llvmlite": "numba", "requests": "mlflow", "starlette": "fastapi"}
"""Modules of distributions that come with one that is required."""
FOR_TESTS = {"dev", "docs"}
HOSTS = {"pytest", "xdist"}
"""What runs the plugin; without it nothing imports the plugin."""
PACKAGES = packages_distributions()
FRAMEWORKS = {name.partition("-")[0] for name in FAMILIES} | {"megatron_fsdp"}


def names(requirements: list[str]) -> set[str]:
    """Normalised names of the distributions that are required."""
    found = {re.match(r"[A-Za-z0-9._-]+", text)[0] for text in requirements}  # type: ignore[index]
    return {re.sub(r"[-_.]+", "-", name).lower() for name in found} - {"gradassay"}


def distributions(module: str) -> set[str]:
    """Normalised names of the distributions that have this module, or that bring one that has it."""
    module = OF_OTHERS.get(module, module)
    return {re.sub(r"[-_.]+", "-", name).lower() for name in PACKAGES.get(module, [])}


BASE = names(PROJECT["dependencies"])
OPTIONAL = {extra: names(listed) for extra, listed in PROJECT["optional-dependencies"].items()}


def imported(source: str) -> set[str]:
    """Top-level modules that this source imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    return {name.partition(".")[0] for name in found}


def unknown(source: str) -> set[str]:
    """Those of them that are neither of Python nor of the package, and that nothing says how to install."""
    foreign = imported(source) - sys.stdlib_module_names - {"gradassay"} - EXTRAS.keys() - FRAMEWORKS - HOSTS
    return {module for module in foreign if not distributions(module) & BASE}


def sources() -> Iterator[Path]:
    for room in ROOMS:
        yield from (ROOT / room / "gradassay").rglob("*.py")


def test_every_import_is_of_the_base_or_of_an_extra():
    assert {str(path.relative_to(ROOT)): found for path in sources() if (found := unknown(path.read_text()))} == {}


def test_an_import_that_nothing_brings_is_found():
    assert unknown("def late():\n    import tornado.web\n    from numpy import abs\n    import torch") == {"tornado"}


@pytest.mark.parametrize(("module", "extra"), EXTRAS.items())
def test_a_module_is_of_the_extra_that_is_named(module: str, extra: str):
    found = distributions(module) or {module}
    assert found & OPTIONAL[extra], f"{extra} brings none of {found}"
    assert not found & BASE


@pytest.mark.parametrize("extra", sorted(OPTIONAL.keys() - FOR_TESTS))
def test_every_requirement_of_an_extra_is_known_by_a_module(extra: str):
    known = {name for module in EXTRAS if EXTRAS[module] == extra for name in distributions(module) or {module}}
    assert OPTIONAL[extra] - known == set()


@pytest.mark.parametrize("extra", sorted(set(EXTRAS.values())))
def test_the_hint_is_one_installation(extra: str):
    for module in (module for module in EXTRAS if EXTRAS[module] == extra):
        missing = missing_extra(ModuleNotFoundError(f"No module named '{module}'", name=f"{module}.inner"))
        assert missing is not None
        assert missing.hint == f"pip install 'gradassay[{extra}]'"
        assert module in missing.message


def test_what_no_extra_brings_is_not_explained_by_one():
    assert missing_extra(ModuleNotFoundError("No module named 'gradassay.cli.gone'", name="gradassay.cli.gone")) is None
    assert missing_extra(ModuleNotFoundError("no name")) is None
    assert missing_extra(ImportError("cannot import name 'x' from 'torch'", name="torch")) is None


def test_what_is_required_is_asked_for_together(monkeypatch: pytest.MonkeyPatch):
    require("numpy", "torch")
    for module in ("torch", "mlflow", "sqlalchemy"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match="needs torch and mlflow, which") as caught:
        require("torch", "uvicorn", "mlflow", otherwise="or do without")
    assert caught.value.hint == "pip install 'gradassay[torch,mlflow]'\nor do without"
