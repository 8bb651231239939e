"""What a session says of its settings, before any test runs."""

from __future__ import annotations

import re

import pytest

from projects import Project


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["--golden-store", "goldens"], {"GRADASSAY_URL": "http://service"}, "{here}/goldens"),
        (["--golden-store", "dir:goldens"], {}, "dir:{here}/goldens"),
        (["--golden-store", "sqlite:///goldens/mlflow.db"], {}, "sqlite:///{here}/goldens/mlflow.db"),
        (["--golden-store", "https://ada:secret@mlflow.example"], {}, "https://mlflow.example"),
        ([], {"GRADASSAY_URL": "http://service:8321", "GRADASSAY_STORE": "dir:/x"}, "http://service:8321"),
        ([], {"GRADASSAY_STORE": "dir:/x"}, "dir:/x"),
        ([], {}, "sqlite:///{here}/.gradassay/mlflow.db"),
    ],
)
def test_the_header_names_the_store(
    project: Project, arguments: list[str], variables: dict[str, str], said: str
) -> None:
    ran = project.write(test_plain="def test_plain():\n    pass\n").run(*arguments, "--co", variables=variables)

    (line,) = re.findall(r"^gradassay: store (\S+), channel approved, device (?:cpu|cuda) .*$", ran.out, re.MULTILINE)
    assert line == said.format(here=project.folder)
    assert "secret" not in ran.out.split("rootdir")[0]


def test_an_option_that_is_not_known_is_a_usage_error(project: Project) -> None:
    ran = project.write(test_plain="def test_plain():\n    pass\n").run("--golden-missing", "ignore")

    assert ran.code == pytest.ExitCode.USAGE_ERROR
    assert "--golden-missing: invalid choice: 'ignore'" in ran.out


def test_a_report_of_a_session_without_comparisons_is_no_pass(project: Project) -> None:
    ran = project.write(test_plain="def test_plain():\n    pass\n").run("--golden-report", "a/report", "-n", "1")

    assert ran.code == 0
    assert (project.folder / "a" / "report" / "index.html").is_file()
    assert "report: " in ran.out
    assert "(error)" in ran.out
