"""Numbers in the addresses of pages."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor

NUMBER = "{number:number}"
"""The number in the path of a route, as its argument `number`; no page is where a path has more digits than databases count."""


class _Number(Convertor[int]):
    regex = "[0-9]{1,9}"

    def convert(self, value: str) -> int:
        return int(value)

    def to_string(self, value: int) -> str:
        return str(value)


register_url_convertor("number", _Number())
