"""The action's scripts, run as GitHub's runner runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from forges.scripts import Done, Sandbox, action_step

INSTALL = "Install gradassay"
RUN = "Record, compare and report"


def install(sandbox: Sandbox, **given: str) -> Done:
    return action_step(sandbox, INSTALL, given=given, contexts={})


def run(sandbox: Sandbox, given: dict[str, str] | None = None, **contexts: str) -> Done:
    return action_step(sandbox, RUN, given=given or {}, contexts={"github.token": "ghs_job", **contexts})


def installed(done: Done) -> str:
    (call,) = [call for call in done.calls if call.program == "pip-recorder"]
    return call.arguments[-1]


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"version": "0.1.0"}, "gradassay[torch]==0.1.0"),
        ({"version": "0.1.0", "extras": ""}, "gradassay==0.1.0"),
        (
            {"wheel": "https://h.example/g.whl", "extras": "torch,mlflow"},
            "gradassay[torch,mlflow] @ https://h.example/g.whl",
        ),
        ({"wheel": "dist/*.whl"}, "dist/gradassay-0.1.0.whl[torch]"),
    ],
)
def test_what_is_asked_for_is_installed(tmp_path: Path, given: dict[str, str], what: str) -> None:
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "gradassay-0.1.0.whl").touch()
    done = install(Sandbox(tmp_path), **given)

    assert (done.code, installed(done)) == (0, what)


def test_one_that_is_there_is_used(tmp_path: Path) -> None:
    done = install(Sandbox(tmp_path))
    assert (done.code, [call.program for call in done.calls]) == (0, ["gradassay"])


def test_where_none_is_there_the_newest_is_installed(tmp_path: Path) -> None:
    done = install(Sandbox(tmp_path, installed=False))
    assert installed(done) == "gradassay[torch]"
    assert done.code != 0


@pytest.mark.parametrize("files", [[], ["a.whl", "b.whl"]])
def test_a_pattern_that_matches_not_one_wheel_ends_the_job(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        (tmp_path / name).touch()
    done = install(Sandbox(tmp_path), wheel="*.whl")

    assert (done.code, done.calls) == (2, [])
    assert f"::error title=gradassay::{len(files)} files match" in done.log


def test_inputs_become_arguments(tmp_path: Path) -> None:
    given = {
        "matrix": "ci/my matrix.toml",
        "paths": "src/**\n\n*.toml\n",
        "pass-if-approved": "true",
        "comment-key": "a b",
        "golden-store": "dir:goldens",
        "args": "--deadline=900\n--against\nv3 $(touch hacked)\n",
        "token": "gat_secret",
        "url": "http://127.0.0.1:1",
    }
    done = run(Sandbox(tmp_path), given, **{"github.event.pull_request.base.sha": "abc"})

    (call,) = done.calls
    assert call.arguments == [
        "ci",
        "--matrix=ci/my matrix.toml",
        "--out=gradassay-ci",
        "--golden-store=dir:goldens",
        "--comment",
        "--comment-key=a b",
        "--pass-if-approved",
        "--paths=src/**",
        "--paths=*.toml",
        "--base=abc",
        "--deadline=900",
        "--against",
        "v3 $(touch hacked)",
    ]
    assert call.variables == {
        "GRADASSAY_URL": "http://127.0.0.1:1",
        "GRADASSAY_TOKEN": "gat_secret",
        "GRADASSAY_AUDIENCE": "gradassay",
        "GITHUB_TOKEN": "ghs_job",
    }
    assert not (tmp_path / "hacked").exists()
    assert "gat_secret" not in done.log


def test_without_inputs_little_is_said(tmp_path: Path) -> None:
    (call,) = run(Sandbox(tmp_path), {"comment": "false"}).calls
    assert call.arguments == ["ci", "--matrix=matrix.toml", "--out=gradassay-ci"]


def test_what_the_jobs_own_environment_says_is_kept(tmp_path: Path) -> None:
    (call,) = run(Sandbox(tmp_path), **{"env.GRADASSAY_URL": "http://h", "env.GRADASSAY_TOKEN": "gat_x"}).calls
    assert (call.variables["GRADASSAY_URL"], call.variables["GRADASSAY_TOKEN"]) == ("http://h", "gat_x")


@pytest.mark.parametrize(("code", "verdict"), [(0, "agree"), (0, "skipped"), (1, "diverge"), (11, "failed"), (2, "")])
def test_outputs_and_exit_code_are_those_of_the_command(tmp_path: Path, code: int, verdict: str) -> None:
    done = run(Sandbox(tmp_path), {"report": "out"}, EXIT=str(code), VERDICT=verdict)

    assert done.code == code
    assert done.outputs == {"verdict": verdict or "failed", "exit-code": str(code), "report": "out"}


def test_what_an_identity_is_asked_for_with_reaches_the_command(tmp_path: Path) -> None:
    (call,) = run(Sandbox(tmp_path), {"audience": "ours"}, ACTIONS_ID_TOKEN_REQUEST_URL="http://h/identity").calls
    assert call.variables["GRADASSAY_AUDIENCE"] == "ours"
    assert call.variables["GRADASSAY_TOKEN"] == ""
    assert call.variables["ACTIONS_ID_TOKEN_REQUEST_URL"] == "http://h/identity"
