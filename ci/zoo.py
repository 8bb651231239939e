"""Installs the framework zoo of ci/zoo.toml below .zoo/ in the checkout (or GRADASSAY_ZOO).

1. python ci/zoo.py                      everything that ci/zoo.toml lists
2. python ci/zoo.py --gate               what the demo and the tests of every commit run
3. python ci/zoo.py deepspeed==0.15.4    one release, listed or not
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from gradassay.harness.environments import ROOT_SETTING
from gradassay.harness.zoo import main

CI = Path(__file__).resolve().parent


def listed(key: str = "releases") -> list[str]:
    """The releases of ci/zoo.toml under `key` (releases, gate) as `name==version`."""
    table = tomllib.loads((CI / "zoo.toml").read_text())
    return [f"{name}=={version}" for name, entry in table.items() for version in entry.get(key, ())]


if __name__ == "__main__":
    os.environ.setdefault(ROOT_SETTING, str(CI.parent / ".zoo"))
    constraints = CI / "constraints.txt"
    pins = ["--constraints", str(constraints)] if constraints.exists() else []
    named = listed("gate") if sys.argv[1:] == ["--gate"] else sys.argv[1:] or listed()
    raise SystemExit(main([*pins, *named]))
