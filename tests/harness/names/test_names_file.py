"""Map files: what they say, and one clear message for each mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradassay.goldens.errors import InvalidFile
from gradassay.harness.names import SHIPPED, NameMap
from gradassay.harness.names.file import KEYS
from gradassay.harness.names.pattern import Pattern
from gradassay.harness.names.rule import Part, Rule, Stack

PAGE = Path(__file__).parents[3] / "docs/names.md"
RULE = '[[rule]]\nfrom = "a.{n}"\n'


def read(folder: Path, text: str, **values: int) -> NameMap:
    path = folder / "map.toml"
    path.write_text(text)
    return NameMap.read(path, values=values)


def test_every_key_reaches_its_rule(tmp_path: Path) -> None:
    text = """
prefixes = ["module."]
ignore = ["x.{n}"]
tied = [["a", "b"]]
values = { groups = 2, heads = 3 }
rename = { "c" = "d" }
[[rule]]
from = "e.{n}"
parts = [{ to = "q.{n}.{i}", size = "heads" }, { size = 1 }]
axis = 1
groups = "groups"
stack = { of = "i", axis = 2, joined = true }
local = "i"
transpose = [1, 0]
optional = true
[[rule]]
from = "f"
to = "g"
cut = 1
"""
    names = read(tmp_path, text, groups=4)
    assert names.prefixes == ("module.",)
    assert names.ignore == (Pattern("x.{n}"),)
    assert names.tied == (("a", "b"),)
    assert names.rules == (
        Rule(source=Pattern("c"), parts=(Part(to=Pattern("d")),)),
        Rule(
            source=Pattern("e.{n}"),
            parts=(Part(to=Pattern("q.{n}.{i}"), size=3), Part(to=None, size=1)),
            axis=1,
            groups=4,
            stack=Stack(of="i", axis=2, joined=True),
            local="i",
            transpose=(1, 0),
            optional=True,
        ),
        Rule(source=Pattern("f"), parts=(Part(to=Pattern("g")),), cut=1),
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("[[rule]", r"map.toml: not valid TOML: .*line 1", "docs/names.md"),
        ("prefix = []", "map.toml: prefix: no such key", "did you mean 'prefixes'?"),
        ("[[rules]]\nfrom = 1", "rules: no such key", "did you mean 'rule'?"),
        ("[[rule]]\nto = 'b'", "rule.1.from: Field required", ""),
        (RULE + "to = 'b.{n}'\n" + RULE + "tranpose = [1, 0]", "rule.2.tranpose: no such key", "'transpose'?"),
        (RULE + "parts = [{ to = 'b.{n}', sise = 1 }, {}]", "rule.1.parts.1.sise: no such key", "'size'?"),
        (RULE + "to = 3", "rule.1.to: Input should be a valid string, found 3", ""),
        (RULE + "cut = -1", "rule.1.cut: Input should be greater than or equal to 0, found -1", ""),
        (RULE + "cut = true", "rule.1.cut: Input should be a valid integer, found True", ""),
        (RULE + "parts = [{ to = 'b.{n}' }]", "rule.1.parts: List should have at least 2 items", ""),
        (RULE, r"map.toml: rule 'a.\{n\}': neither of `to` and `parts`", "give one"),
        (RULE + "to = 'b.{n}'\nparts = [{ size = 1 }, { size = 1 }]", "both of `to` and `parts`", ""),
        (RULE + "to = 'b.{m}'", r"map.toml: rule 'a.\{n\}': \{m\} stands in only one", "every placeholder"),
        (RULE + "groups = 'g'\nparts = [{ to = 'b.{n}' }, { to = 'c.{n}' }]", "'g' has no value", "under [values]"),
        ("[values]\ng = 3", "no rule names the value 'g'", "they name: none"),
        ("[values]\ng = 0", "values.g: Input should be greater than or equal to 1, found 0", ""),
        ("[rename]\na = 'b'\n[[rule]]\nfrom = 'a'\nto = 'c'", "two rules for 'a'", ""),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidFile, match=message) as caught:
        read(tmp_path, text)
    assert hint in caught.value.hint
    assert caught.value.facts["path"] == str(tmp_path / "map.toml")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"nowhere.toml: cannot be read"):
        NameMap.of(tmp_path / "nowhere.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidFile, match=r"binary.toml: cannot be read"):
        NameMap.read(tmp_path / "binary.toml")


def test_reading_imports_no_torch() -> None:
    code = (
        "import sys; from gradassay.harness.names import NameMap\n"
        "NameMap.shipped('torchtitan'); sys.exit('torch' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_page_names_every_key_and_every_map() -> None:
    page = PAGE.read_text()
    assert [key for key in (*KEYS, *SHIPPED) if f"`{key}`" not in page] == []


def test_the_example_of_the_page_is_a_map(tmp_path: Path) -> None:
    names = read(tmp_path, PAGE.read_text().partition("```toml\n")[2].partition("```")[0])
    assert len(names.rules) > 3
