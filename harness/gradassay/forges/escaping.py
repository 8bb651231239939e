"""Texts of others (names of parameters, branches, files, errors) made harmless where a forge renders Markdown."""

from __future__ import annotations

import re
from urllib.parse import quote, urlsplit

from gradassay.goldens.report.printable import printable

LONGEST = 300
"""Characters of one name or sentence that are shown."""
LONGEST_ADDRESS = 1_000
_MARKUP = re.compile(r"[&<>\\`*_{}\[\]|~$]")
_BLOCK = re.compile(r"^(\d*)([#=+.)-])")
"""What would begin a heading or a list where the text begins a line."""
_REFERENCE = re.compile(r"([@#!%^~&$]|GH-)(?=\w)")
_IN_CODE = re.compile(r"[^A-Za-z0-9 .,/()=+-]", re.ASCII)
_BREAK = "&#8203;"
"""A space of no width: the forges look for mentions and references in rendered text, where a backslash is gone."""


def prose(text: str) -> str:
    """The text as Markdown that shows it in one line: no markup, no HTML, no mention and no reference to an issue."""
    parted = _REFERENCE.sub(lambda match: f"{match[1]}\0", shortened(text))
    inline = _MARKUP.sub(_entity, parted).replace("\0", _BREAK)
    return _BLOCK.sub(lambda match: f"{match[1]}&#{ord(match[2])};", inline)


def code(text: str) -> str:
    """The text as inline code, in a table or outside: an element instead of backticks, which a `|` would tear apart."""
    return f"<code>{_IN_CODE.sub(_entity, shortened(text))}</code>" if text else "—"


def link(label: str, address: str) -> str:
    """A link with a harmless label, or the label alone where the address is none of a web page or endless."""
    try:
        parts = urlsplit(address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    quoted = quote(address, safe=_IN_ADDRESS, errors="replace")
    return f"[{label}](<{quoted}>)" if usable and len(quoted) <= LONGEST_ADDRESS else label


def shortened(text: str, longest: int = LONGEST) -> str:
    """The text in one line, control characters written out, cut with an ellipsis where it is longer than that."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


_IN_ADDRESS = "/:?#@!$&'()*+,;=%~-._[]"


def _entity(match: re.Match[str]) -> str:
    return f"&#{ord(match[0])};" if match[0].isascii() else match[0]
