"""A running dashboard over an approved golden of a toy, runs to post to it, and clients that have logged in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx2

from builders import Toy, make_golden, make_record, make_toy
from gradassay.api.auth.scope import Scope
from gradassay.api.ledger.deciding import Decision
from gradassay.goldens.layout import Layout
from gradassay.goldens.record import Record
from served import Service, mint, serving

_seeds = count(1000)
HOSTILE = "dense.<script>alert(1)</script>\u202e.weight"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """The service, and clients of browsers that have logged in: one that may review, and one that may only read."""

    service: Service
    reviewer: httpx2.Client
    reader: httpx2.Client
    toy: Toy

    def run(self, **options: object) -> str:
        """The id of a new run of the toy, made with these options; see builders.make_record."""
        chosen: dict[str, Any] = {"layout": Layout(dp=4, ep=2, accum=2), "seed": next(_seeds), **options}
        return self.post(make_record(self.toy, **chosen))

    def post(self, record: Record) -> str:
        """The id of the run of this record."""
        answer = self.service.client.post("/api/v1/runs", content=record.to_bytes())
        answer.raise_for_status()
        return str(answer.json()["id"])

    def decide(self, path: str, **fields: str) -> httpx2.Response:
        """What the browser shows after it sent a decision form from the page at `path`."""
        token = re.search(r'name="csrf" value="([^"]+)"', self.reviewer.get(path).text)
        assert token is not None, f"{path} has no form"
        where = "/inbox/decisions" if path == "/" else f"{path}/decisions"
        return self.reviewer.post(where, data={"csrf": token[1], **fields}, headers={"Origin": self.service.url})


@contextmanager
def opened(folder: Path) -> Iterator[Dashboard]:
    """The dashboard over a store with one approved golden and no run."""
    toy = _named(make_toy(families={"dense": [(24, 16)] * 3, "expert": [(40, 30)] * 2}, units=8))
    path = folder / "golden.safetensors"
    make_golden(toy).write(path)
    with serving(folder, uploads=folder, max_upload_bytes=10_000_000) as service:
        ledger = service.parts.ledger
        version = ledger.propose(path, who="ada", project="default", why="first")
        ledger.decide(version.name, 1, Decision.APPROVE, who="ada", why="checked", expected_version=0)
        with browser(service, Scope.REVIEW) as reviewer, browser(service, Scope.POST) as reader:
            yield Dashboard(service=service, reviewer=reviewer, reader=reader, toy=toy)


@contextmanager
def browser(service: Service, scope: Scope) -> Iterator[httpx2.Client]:
    """A client that logged in with a token of this scope."""
    secret = mint(service, scope, name=f"{scope}er")["Authorization"].removeprefix("Bearer ")
    with httpx2.Client(
        base_url=service.url, timeout=30, follow_redirects=True, headers={"Accept": "text/html"}
    ) as client:
        client.post("/login", data={"token": secret}, headers={"Origin": service.url}).raise_for_status()
        yield client


def _named(toy: Toy) -> Toy:
    """The toy with a parameter whose name would be markup and turns its direction."""
    old = toy.parameters[0].name
    parameters = (replace(toy.parameters[0], name=HOSTILE), *toy.parameters[1:])
    terms = {
        term: {HOSTILE if name == old else name: values for name, values in gradients.items()}
        for term, gradients in toy.terms.items()
    }
    return replace(toy, parameters=parameters, terms=terms)
