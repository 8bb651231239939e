from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from gradassay.goldens.errors import UsageError
from gradassay.harness.environments import FAMILIES, MANIFEST, ROOT_SETTING, environment, parse, zoo_folder


def install_by_hand(root: Path, name: str, *, python: str = sys.implementation.cache_tag or "") -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / MANIFEST).write_text(json.dumps({"framework": name, "python": python}))
    return folder


@pytest.fixture
def zoo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(ROOT_SETTING, str(tmp_path / "zoo"))
    return tmp_path / "zoo"


def test_an_installed_release_comes_first_on_the_path(zoo: Path) -> None:
    folder = install_by_hand(zoo, "deepspeed-0.15.3")
    found = environment("deepspeed==0.15.3")
    assert (found.name, found.version, found.paths) == ("deepspeed", "0.15.3", (folder,))
    assert found.variables["DS_ACCELERATOR"] == "cpu"
    assert found.preload == FAMILIES["deepspeed"].preload


def test_the_main_environment_adds_nothing_to_the_path(zoo: Path) -> None:
    found = environment("")
    assert found.paths == ()
    assert found.variables["OMP_NUM_THREADS"] == "1"


def test_ranks_on_gpus_keep_their_threads_and_interfaces(zoo: Path) -> None:
    install_by_hand(zoo, "deepspeed-0.15.3")
    variables = environment("deepspeed==0.15.3", device="cuda").variables
    assert variables["DS_ACCELERATOR"] == "cuda"
    assert "GLOO_SOCKET_IFNAME" not in variables


def test_a_missing_release_names_the_command_that_installs_it(zoo: Path) -> None:
    with pytest.raises(UsageError, match=r"deepspeed==0\.15\.3 is not installed") as caught:
        environment("deepspeed==0.15.3")
    assert caught.value.hint.endswith("-m gradassay.harness.zoo deepspeed==0.15.3")


@pytest.mark.parametrize("manifest", ["", "[]", "{", '{"python": "cpython-27"}'])
def test_a_folder_without_a_manifest_for_this_python_is_no_environment(zoo: Path, manifest: str) -> None:
    folder = install_by_hand(zoo, "deepspeed-0.15.3")
    environment("deepspeed==0.15.3")
    (folder / MANIFEST).write_text(manifest)
    with pytest.raises(UsageError, match="not installed"):
        environment("deepspeed==0.15.3")


@pytest.mark.parametrize(
    "text", ["deepspeed", "deepspeed=0.15.3", "deepspeed==", "deepspeed==../0.15", "DeepSpeed==0.1"]
)
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="not of the form name==version"):
        parse(text)


def test_an_unknown_framework_is_refused_with_those_known() -> None:
    with pytest.raises(UsageError, match="'torchlight' is not known") as caught:
        parse("torchlight==1.0")
    assert "deepspeed" in caught.value.hint


def test_the_setting_wins_over_the_project_and_the_project_over_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = tmp_path / "project" / "inner"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    monkeypatch.delenv(ROOT_SETTING, raising=False)
    assert zoo_folder() == user_cache_path("gradassay") / "zoo"
    (tmp_path / "project" / ".zoo").mkdir()
    assert zoo_folder() == tmp_path / "project" / ".zoo"
    monkeypatch.setenv(ROOT_SETTING, str(tmp_path / "elsewhere"))
    assert zoo_folder() == tmp_path / "elsewhere"
