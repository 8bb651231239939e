"""The template's scripts, in the shells that images have."""

from __future__ import annotations

from pathlib import Path

import pytest

from forges.scripts import Done, Sandbox, template_job

SHELLS = ("sh", "bash")


def run(folder: Path, shell: str, **variables: str) -> Done:
    return template_job(Sandbox(folder), "script", variables, shell=shell)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("code", [0, 1, 11])
def test_the_job_ends_with_the_exit_code(tmp_path: Path, shell: str, code: int) -> None:
    done = run(tmp_path, shell, EXIT=str(code), GITLAB_TOKEN="glpat", GRADASSAY_PASS_IF_APPROVED="true")

    (call,) = done.calls
    assert done.code == code
    assert call.arguments == ["ci", "--matrix=matrix.toml", "--out=gradassay-ci", "--comment", "--pass-if-approved"]


@pytest.mark.parametrize("shell", SHELLS)
def test_paths_are_patterns_and_stay_so(tmp_path: Path, shell: str) -> None:
    (tmp_path / "a.toml").touch()
    done = run(tmp_path, shell, GRADASSAY_PATHS="src/** *.toml", CI_MERGE_REQUEST_DIFF_BASE_SHA="abc")
    assert done.calls[0].arguments[-3:] == ["--paths=src/**", "--paths=*.toml", "--base=abc"]


@pytest.mark.parametrize("shell", SHELLS)
def test_it_installs_what_is_asked_for_or_nothing(tmp_path: Path, shell: str) -> None:
    sandbox = Sandbox(tmp_path)
    by_default = template_job(sandbox, "before_script", {}, shell=shell)
    nothing = template_job(sandbox, "before_script", {"GRADASSAY_INSTALL": ""}, shell=shell)

    assert [call.arguments[-1] for call in by_default.calls] == ["gradassay[torch]", "--version"]
    assert [call.program for call in nothing.calls] == ["gradassay"]
