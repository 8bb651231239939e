"""Containers that strangers wrote: what they claim costs no more than what they are."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gradassay.goldens.container import MAX_HEADER_BYTES, header_bytes, open_container
from gradassay.goldens.errors import InvalidFile

NAMES = 300_000


def test_one_name_twice_among_many_is_found_without_comparing_all_of_them(tmp_path: Path):
    path = tmp_path / "many.safetensors"
    text = "{" + ",".join(f'"{number}":0' for number in range(NAMES)) + ',"7":0}'
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode())
    started = time.process_time()
    with pytest.raises(InvalidFile, match="'7' more than once"):
        open_container(path)
    assert time.process_time() - started < 20


@pytest.mark.parametrize("length", [0, 1, 93, 2**30, 2**63, 2**64 - 1])
def test_claimed_header_is_compared_with_the_file_before_it_is_read(length: int):
    with pytest.raises(InvalidFile, match=f"of which the header claims {length}"):
        header_bytes(Path("x"), length.to_bytes(8, "little"), 100)


def test_header_has_a_limit_however_large_the_file():
    assert header_bytes(Path("x"), MAX_HEADER_BYTES.to_bytes(8, "little"), 2**40) == MAX_HEADER_BYTES
    with pytest.raises(InvalidFile):
        header_bytes(Path("x"), (MAX_HEADER_BYTES + 1).to_bytes(8, "little"), 2**40)


def test_deep_header_is_refused(tmp_path: Path):
    path = tmp_path / "deep.safetensors"
    text = json.dumps({"__metadata__": {"gradassay": "[" * 50_000 + "]" * 50_000}})
    path.write_bytes(len(text).to_bytes(8, "little") + text.encode())
    with pytest.raises(InvalidFile, match="RecursionError"):
        open_container(path)
