"""The facts of a golden version in rows."""

from __future__ import annotations

from gradassay.api.web.views.golden import environments, families, noise_plot

FACTS = {
    "families": {"norm": {"parameters": 1, "elements": 16}, "expert": {"parameters": 2, "elements": 2880}},
    "noise": {"expert": {"q50": 1e-7, "q999": 4e-7, "samples": 240}},
    "power": {"expert": 1.00001, "norm": None},
}


def test_families_say_what_is_unknown():
    expert, norm = families(FACTS)
    assert (expert.family, expert.parameters, expert.q999, expert.power) == ("expert", 2, 4e-7, "1.000010")
    assert (norm.family, norm.q50, norm.samples, norm.power) == ("norm", None, 0, "—")
    assert noise_plot((expert, norm)) == [{"family": "expert", "q50": 1e-7, "q999": 4e-7}]
    assert families({}) == ()


def test_environment_shows_what_differs_first():
    rows = environments({"python": "3.12", "torch": "2.9.1"}, {"torch": "2.10.0", "python": "3.12", "nccl": "2.28"})
    assert [(row.name, row.before, row.after, row.differs) for row in rows] == [
        ("torch", "2.9.1", "2.10.0", True),
        ("nccl", "—", "2.28", True),
        ("python", "3.12", "3.12", False),
    ]
