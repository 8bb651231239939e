"""The safetensors container of records and goldens: one JSON document and named arrays, checked before use."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from gradassay.goldens.errors import InvalidFile, UnknownFormat

FORMAT = 1
DOCUMENT = "gradassay"
MAX_HEADER_BYTES = 100 * 2**20
_MAX_AXES = 64
_ITEM_BYTES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
    "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """An opened file whose header has been checked against its size; arrays are read on demand."""

    path: Path
    document: Mapping[str, Any]
    shapes: Mapping[str, tuple[int, ...]]
    dtypes: Mapping[str, str]
    _offsets: Mapping[str, tuple[int, int]] = field(repr=False)

    @property
    def names(self) -> frozenset[str]:
        """Names of the arrays in the file."""
        return frozenset(self.shapes)

    def array(self, name: str, *, shape: tuple[int, ...], kinds: tuple[str, ...]) -> NDArray[Any]:
        """The array `name`; raises InvalidFile where it is missing or has another shape or element type."""
        if name not in self.shapes:
            invalid(self.path, name, "an array of this name", "none", hint="the file was written incompletely")
        if self.shapes[name] != shape:
            invalid(self.path, name, f"shape {list(shape)}, as the header implies", f"{list(self.shapes[name])}")
        if self.dtypes[name] not in kinds:
            invalid(self.path, name, f"element type {' or '.join(kinds)}", self.dtypes[name])
        start, stop = self._offsets[name]
        dtype = np.dtype({"F64": "<f8", "F32": "<f4", "I64": "<i8", "U8": "|u1"}[self.dtypes[name]])
        with self.path.open("rb") as file:
            file.seek(start)
            values = np.fromfile(file, dtype=dtype, count=(stop - start) // dtype.itemsize)
        return values.reshape(shape)


def invalid(path: Path, item: str, expected: object, found: object, *, hint: str = "") -> NoReturn:
    """Raises the InvalidFile that names the file, the field and both values."""
    raise InvalidFile(
        f"{path}: {item}: expected {expected}, found {found}",
        hint=hint,
        path=str(path),
        field=item,
        expected=str(expected),
        found=str(found),
    )


def _unique(path: Path) -> Any:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) != len(pairs):
            twice = sorted(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
            invalid(path, "header", "each name once", f"{', '.join(map(repr, twice[:8]))} more than once")
        return document

    return build


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _json(path: Path, item: str, text: object) -> dict[str, Any]:
    if not isinstance(text, bytes | str):
        invalid(path, item, "a JSON object as text", type(text).__name__)
    try:
        document = json.loads(text, object_pairs_hook=_unique(path), parse_constant=_no_number)
        json.dumps(document, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        invalid(path, item, "a JSON object", f"{type(error).__name__}: {error}")
    if not isinstance(document, dict):
        invalid(path, item, "a JSON object", type(document).__name__)
    return document


def open_container(path: Path, kind: str | None = None) -> Container:
    """The file at `path`, its header checked against its bytes before any array is read.

    kind: "record" or "golden" where only one will do. Raises InvalidFile or UnknownFormat.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            prefix = file.read(8)
            length = header_bytes(path, prefix, size)
            header = _json(path, "header", file.read(length))
    except OSError as error:
        raise InvalidFile(f"{path}: cannot be read ({error.strerror or error})", path=str(path)) from error
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or DOCUMENT not in metadata:
        invalid(path, "header metadata", f"a key {DOCUMENT!r}", "none", hint="this file was not written by gradassay")
    document = _json(path, DOCUMENT, metadata[DOCUMENT])
    if document.get("format") != FORMAT or isinstance(document.get("format"), bool):
        raise UnknownFormat(
            f"{path}: format {document.get('format')!r} is not known to this release, which reads format {FORMAT}",
            hint="upgrade gradassay, or write the file again with this release",
            path=str(path),
            found=document.get("format"),
        )
    if document.get("kind") not in ("record", "golden"):
        invalid(path, "kind", "'record' or 'golden'", repr(document.get("kind")))
    if kind is not None and document["kind"] != kind:
        invalid(path, "kind", repr(kind), repr(document["kind"]))
    shapes, dtypes, offsets = _arrays(path, header, start=8 + length, size=size)
    return Container(path=path, document=document, shapes=shapes, dtypes=dtypes, _offsets=offsets)


def header_bytes(path: Path, prefix: bytes, size: int) -> int:
    """How long the header is that a file of `size` bytes begins with, by its first 8 bytes.

    Raises InvalidFile where that is more than the file holds, or than is ever read into memory.
    """
    length = int.from_bytes(prefix, "little")
    if len(prefix) == 8 and 2 <= length <= min(size - 8, MAX_HEADER_BYTES):
        return length
    # As a number, what a pickle begins with is beyond any header; the length of a header may well begin with that byte.
    is_pickle = prefix[:1] == b"\x80" and (len(prefix) < 8 or length > MAX_HEADER_BYTES)
    if is_pickle or prefix[:4] == b"PK\x03\x04":
        invalid(path, "file", "safetensors", "a pickle or zip archive", hint="pickles are never read")
    found = f"{size} bytes, of which the header claims {length}" if len(prefix) == 8 else f"{size} bytes"
    invalid(path, "file", "safetensors", found, hint="the file is truncated or of another type")


def _arrays(
    path: Path, header: dict[str, Any], *, start: int, size: int
) -> tuple[dict[str, tuple[int, ...]], dict[str, str], dict[str, tuple[int, int]]]:
    shapes: dict[str, tuple[int, ...]] = {}
    dtypes: dict[str, str] = {}
    offsets: dict[str, tuple[int, int]] = {}
    for name, entry in header.items():
        if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= entry.keys():
            invalid(path, name, "dtype, shape and data_offsets", repr(entry)[:100])
        shape, bounds = entry["shape"], entry["data_offsets"]
        if not isinstance(entry["dtype"], str) or entry["dtype"] not in _ITEM_BYTES:
            invalid(path, f"{name}: dtype", f"one of {', '.join(_ITEM_BYTES)}", repr(entry["dtype"])[:100])
        if not _whole(shape) or not _whole(bounds) or len(bounds) != 2:
            invalid(path, name, "whole numbers as shape and data_offsets", f"{shape!r}, {bounds!r}"[:100])
        if len(shape) > _MAX_AXES:
            invalid(path, f"{name}: shape", f"at most {_MAX_AXES} axes", len(shape))
        expected = _ITEM_BYTES[entry["dtype"]] * prod(shape)
        if bounds[1] - bounds[0] != expected:
            invalid(path, name, f"{expected} bytes for shape {shape}", f"{bounds[1] - bounds[0]} bytes")
        if start + bounds[1] > size:
            invalid(path, name, f"{start + bounds[1]} bytes of file", f"{size}", hint="the file is truncated")
        shapes[name], dtypes[name] = tuple(shape), entry["dtype"]
        offsets[name] = (start + bounds[0], start + bounds[1])
    end = start
    for name, (first, stop) in sorted(offsets.items(), key=lambda item: item[1]):
        if first != end:
            invalid(path, f"{name}: data_offsets", f"to begin at {end - start}", f"{first - start}")
        end = stop
    if end != size:
        invalid(path, "file", f"{end} bytes, as the header implies", f"{size}")
    return shapes, dtypes, offsets


def _whole(values: object) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 2**63 for value in values)


def to_bytes(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """The file's bytes: the same document and arrays always give the same bytes."""
    from safetensors.numpy import save

    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {DOCUMENT: text}))


def digest_of(content: bytes) -> str:
    """The content's name: `sha256:` and 64 hexadecimal digits."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def digest_of_file(path: Path) -> str:
    """The digest of a file's bytes, read in pieces."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
