"""Nothing secret is shown."""

from __future__ import annotations

import pytest

from gradassay.api.settings import ServiceSettings
from gradassay.api.web.views.facts import service_facts, without_secret


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("dir:/kept", "dir:/kept"),
        ("sqlite:////kept/service.db", "sqlite:////kept/service.db"),
        ("postgresql+psycopg://ada:hunter2@db:5432/ledger", "postgresql+psycopg://ada:…@db:5432/ledger"),
        ("postgresql+psycopg://db/ledger?password=hunter2", "postgresql+psycopg://db/ledger?…"),
        ("https://user:p@ss@mlflow.example", "https://user:…@mlflow.example"),
        ("https://mlflow.example", "https://mlflow.example"),
    ],
)
def test_passwords_are_left_out(address: str, shown: str):
    assert without_secret(address) == shown


def test_facts_say_what_it_runs_with():
    settings = ServiceSettings(store="dir:/kept", database_url="postgresql+psycopg://a:hunter2@db/x", reviewers=2)
    facts = dict(service_facts(settings, release="1.2.3", file_format=1))
    assert facts["Release"] == "gradassay 1.2.3"
    assert facts["Store"] == "dir:/kept"
    assert facts["Approval needs"] == "2 people"
    assert facts["Largest upload"] == "1,024 MiB"
    assert "hunter2" not in str(facts)
