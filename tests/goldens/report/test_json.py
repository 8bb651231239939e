"""The JSON object is an interface that stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gradassay.goldens.assay.result import Assay, JointFinding
from gradassay.goldens.errors import UsageError
from gradassay.goldens.report import render, render_joint
from gradassay.goldens.report.json import from_json


def _strict(text: str) -> Any:
    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_keys_are_those_of_the_interface(expert: Assay) -> None:
    document = _strict(render(expert, "json"))

    interface = {"format", "verdict", "exit", "a", "b", "power", "findings", "parameters", "unmatched", "notes"}
    assert interface <= document.keys()
    assert document["format"] == 1
    assert (document["verdict"], document["exit"]) == ("diverge", 1)
    assert document["a"]["kind"] == "golden"
    assert document["b"]["ref"].endswith(".safetensors")
    (finding,) = document["findings"]
    assert finding["families"] == ["expert"]
    assert (finding["count"], finding["of"], len(finding["parameters"])) == (24, 24, 24)
    law = finding["law"]
    assert (law["pattern"], law["scale"], law["value"], law["formula"]) == ("uniform", "ep", 2.0, "w[r,m] = ep")
    assert (law["ties"], law["confidence"]) == (["dp/2", "edp"], 0.999)
    assert finding["weights"] == [[2.0] * 3] * 4
    assert finding["segments"] is None
    assert finding["known_faults"] == ["deepspeed-6545"]
    parameter = document["parameters"][0]
    assert {"name", "family", "verdict", "ratio", "residual", "tolerance"} == parameter.keys()
    assert document["unmatched"] == {"a": [], "b": []}


def test_owners_stand_only_where_they_differ(geometric: Assay) -> None:
    decayed, unreduced = _strict(render(geometric, "json"))["findings"]

    assert "owners" not in decayed
    assert [owner["rank"] for owner in unreduced["owners"]] == [0, 1]
    assert decayed["weights"][2][1] is None
    assert decayed["segments"][15] == 0.5


def test_what_is_not_finite_is_null(broken: Assay) -> None:
    document = _strict(render(broken, "json"))

    assert document["power"] == {"dense": None}
    assert document["findings"][0]["weights"] == [[None], [None]]
    assert document["parameters"][0]["ratio"] is None
    assert document["b"]["environment"] == {"load": None}
    assert document["parameters"][1]["name"] == "a|b`c`\x1b[31m\x00\ufffe.weight"


def test_several_assays_stand_under_the_gravest_verdict(
    joint: tuple[tuple[Assay, ...], tuple[JointFinding, ...]], agreeing: Assay
) -> None:
    assays, findings = joint
    document = _strict(render_joint((agreeing, *assays), findings, "json"))

    assert (document["verdict"], document["exit"]) == ("diverge", 1)
    assert [assay["verdict"] for assay in document["assays"]] == ["agree", "diverge", "diverge"]
    assert document["joint"][0]["law"]["formula"] == "w[r,m] = ep"


def test_an_unknown_format_is_refused(agreeing: Assay) -> None:
    with pytest.raises(ValueError, match="pdf"):
        render(agreeing, "pdf")


@pytest.mark.parametrize("name", ["expert", "agreeing", "geometric", "broken", "incomparable"])
@pytest.mark.parametrize("format", ["json", "markdown", "html", "junit", "text"])
def test_a_document_read_again_renders_the_same(name: str, format: str, request: pytest.FixtureRequest) -> None:
    written = from_json(_strict(render(request.getfixturevalue(name), "json")))

    again = from_json(_strict(render(written, "json")))
    assert render(again, format) == render(written, format)
    assert render(written, "json") == render(request.getfixturevalue(name), "json")


@pytest.mark.parametrize(
    ("change", "named"),
    [({"format": 2}, "format 2"), ({"verdict": "fine"}, "verdict"), ({"power": {"dense": "much"}}, "power.dense")],
)
def test_a_document_of_another_shape_is_refused(change: dict[str, Any], named: str, agreeing: Assay) -> None:
    document = _strict(render(agreeing, "json")) | change
    with pytest.raises(UsageError, match=named):
        from_json(document)
