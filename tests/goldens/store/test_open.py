"""Which store an address opens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradassay.goldens.errors import MissingExtra, UsageError
from gradassay.goldens.settings import Settings
from gradassay.goldens.store.open import open_store


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for variable in ("GRADASSAY_STORE", "GRADASSAY_ARTIFACTS", "GRADASSAY_CACHE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("address", [None, ""])
def test_default_is_sqlite_in_the_working_directory_and_makes_nothing_yet(address: str | None, tmp_path: Path):
    assert str(open_store(address)) == f"sqlite:///{tmp_path}/.gradassay/mlflow.db"
    assert not list(tmp_path.iterdir())


def test_setting_chooses_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("GRADASSAY_STORE", "dir:here")
    assert str(open_store()) == f"dir:{tmp_path}/here"
    assert str(open_store("dir:there")) == f"dir:{tmp_path}/there"


@pytest.mark.parametrize(
    ("address", "opened"),
    [
        ("dir:kept", "dir:{}/kept"),
        ("kept/goldens", "dir:{}/kept/goldens"),
        ("./c", "dir:{}/c"),
        ("sqlite:///m.db", "sqlite:///{}/m.db"),
        ("sqlite:////abs/m.db", "sqlite:////abs/m.db"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("https://ada:secret@mlflow.example/x", "https://***@mlflow.example/x"),
    ],
)
def test_address_says_which_kind(address: str, opened: str, tmp_path: Path):
    assert str(open_store(address)) == opened.format(tmp_path)


def test_folder_with_a_database_is_opened_as_that(tmp_path: Path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mlflow.db").write_bytes(b"")
    assert str(open_store("kept")) == f"sqlite:///{tmp_path}/kept/mlflow.db"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("file:./mlruns", "file stores"),
        ("postgresql://host/db", r"postgresql\+psycopg://"),
        ("ftp://host", "ftp:"),
        ("dir:", "no folder"),
        ("sqlite://", "no database file"),
        ("sqlite:///:memory:", "no database file"),
        ("postgresql+psycopg://ada:secret@host/db", "GRADASSAY_ARTIFACTS"),
        ("plain-file", "is a file"),
    ],
)
def test_address_that_makes_no_sense_is_refused(address: str, text: str, tmp_path: Path):
    (tmp_path / "plain-file").write_text("")
    with pytest.raises(UsageError, match=text) as refused:
        open_store(address)
    assert "secret" not in str(refused.value)


def test_database_with_artifacts_is_opened_without_showing_its_password(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRADASSAY_ARTIFACTS", "s3://bucket/gradassay")
    assert str(open_store("postgresql+psycopg://ada:secret@host/db")) == "postgresql+psycopg://***@host/db"


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert Settings.load().store == ""
    monkeypatch.setenv("GRADASSAY_CACHE", str(tmp_path / "cache"))
    assert Settings.load().cache == tmp_path / "cache"


def test_missing_mlflow_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    for name in [name for name in sys.modules if name.startswith("mlflow.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingExtra, match=r"gradassay\[mlflow\]") as caught:
        open_store("sqlite:///m.db")
    assert "--store dir:PATH" in caught.value.hint
    with pytest.raises(MissingExtra, match=r"gradassay\[mlflow\]") as caught:
        open_store("http://127.0.0.1:5000")
    assert caught.value.hint == "pip install 'gradassay[mlflow]'"
    assert not open_store(f"dir:{tmp_path}").goldens()


def test_opening_imports_no_mlflow():
    program = (
        "import sys; from gradassay.goldens.store.open import open_store\n"
        "open_store('sqlite:///m.db'); open_store('dir:d')\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'mlflow', 'torch', 'fastapi', 'sqlalchemy'}))"
    )
    out = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[]"
