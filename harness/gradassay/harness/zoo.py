"""Installs framework releases beside the main environment.

1. python -m gradassay.harness.zoo deepspeed==0.15.3
2. python -m gradassay.harness.zoo --constraints ci/constraints.txt deepspeed==0.15.3 deepspeed==0.19.8
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gradassay.goldens.errors import GradassayError, UsageError
from gradassay.goldens.extras import require
from gradassay.harness.environments import (
    FAMILIES,
    MANIFEST,
    ROOT_SETTING,
    Environment,
    environment,
    installed,
    parse,
    zoo_folder,
)


def install(framework: str, *, root: Path | None = None, constraints: Path | None = None) -> Path:
    """The folder of `framework` (`name==version`) below `root`, installed now where it was not.

    A folder appears whole or not at all; of two installers at once the second waits and then finds it done.
    constraints: a pip constraints file that pins what comes with it. Raises UsageError with pip's last words, or where
    the folder cannot be written.
    """
    from filelock import FileLock

    name, version = parse(framework)
    root = zoo_folder() if root is None else root
    folder = root / f"{name}-{version}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f".{folder.name}.lock"):
            if not installed(folder):
                _install(framework, folder, constraints)
    except OSError as error:
        raise UsageError(
            f"{framework} cannot be installed in {folder} ({error})",
            hint=f"check space and permissions, or name another folder by the setting {ROOT_SETTING}",
        ) from error
    return folder


def _install(framework: str, folder: Path, constraints: Path | None) -> None:
    for remains in folder.parent.glob(f".{folder.name}.*.partial"):
        shutil.rmtree(remains)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".partial"))
    try:
        _pip(framework, partial, constraints)
        manifest = {"framework": framework, "python": sys.implementation.cache_tag}
        (partial / MANIFEST).write_text(json.dumps(manifest) + "\n")
        partial.chmod(0o755)
        if folder.exists():
            shutil.rmtree(folder)
        partial.rename(folder)
    finally:
        if partial.exists():
            shutil.rmtree(partial)


def _pip(framework: str, target: Path, constraints: Path | None) -> None:
    family = FAMILIES[parse(framework)[0]]
    for module in ("pip", "setuptools"):
        if importlib.util.find_spec(module) is None:
            raise UsageError(
                f"{framework} is built from source, which needs {module} in {sys.executable}",
                hint=f"install {module} into this environment and try again",
            )
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-input"]
    command += ["--disable-pip-version-check", "--target", str(target)]
    command += ["--constraint", str(constraints)] if constraints else []
    done = subprocess.run(
        [*command, *family.installs, framework, *family.requires],
        env={**os.environ, **family.builds},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        last = "\n".join(done.stdout.strip().splitlines()[-12:])
        raise UsageError(
            f"{framework} could not be installed (pip exit {done.returncode}):\n{last}",
            hint="check the release number and the package index",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Installs what is named on the command line; exit code 0, or 2 with the reason on stderr."""
    parser = argparse.ArgumentParser(prog="python -m gradassay.harness.zoo", description="install framework releases")
    parser.add_argument("frameworks", nargs="+", metavar="NAME==VERSION")
    parser.add_argument("--constraints", type=Path, help="pip constraints that pin what comes with them")
    parser.add_argument("--root", type=Path, help="folder of environments (default: GRADASSAY_ZOO, .zoo, user cache)")
    given = parser.parse_args(arguments)
    try:
        require("filelock")
        for framework in given.frameworks:
            parse(framework)
        for framework in given.frameworks:
            began = time.monotonic()
            print(f"{framework}: ", end="", file=sys.stderr, flush=True)
            folder = install(framework, root=given.root, constraints=given.constraints)
            print(f"in {folder} ({time.monotonic() - began:.0f} s)", file=sys.stderr)
    except GradassayError as error:
        print(error, file=sys.stderr)
        return int(error.kind.exit)
    return 0


def ensure(framework: str, *, constraints: Path | None = None) -> Environment:
    """The environment of `framework`, installed first where it is missing."""
    if framework:
        install(framework, constraints=constraints)
    return environment(framework)


if __name__ == "__main__":
    raise SystemExit(main())
