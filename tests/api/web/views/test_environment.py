"""What differs between two environments."""

from __future__ import annotations

from gradassay.api.web.views.environment import Setting, environment_settings


def test_changes_stand_first_and_nothing_is_left_out():
    a = {"torch": "2.8", "gpu": "H100", "flags": ["x", "y"], "load": None}
    b = {"torch": "2.9", "gpu": "H100", "host": "n1", "versions": {"nccl": 2, "cuda": "12"}}
    assert environment_settings(a, b) == (
        Setting(name="torch", a="2.8", b="2.9"),
        Setting(name="flags", a="x, y", b="—"),
        Setting(name="gpu", a="H100", b="H100"),
        Setting(name="host", a="—", b="n1"),
        Setting(name="load", a="—", b="—"),
        Setting(name="versions", a="—", b="nccl 2, cuda 12"),
    )


def test_what_one_side_does_not_say_is_no_change():
    assert [setting.changed for setting in environment_settings({"torch": "2.8"}, {"cuda": "12"})] == [False, False]
