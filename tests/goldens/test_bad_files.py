"""Files that lie: each gives one error that names the file, the field, what was expected and what was found."""

from __future__ import annotations

import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from foreign import Sizes, Stranger
from gradassay.goldens.assay.compare import assay_record
from gradassay.goldens.errors import Exit, GradassayError, InvalidFile, UnknownFormat
from gradassay.goldens.golden import read_golden
from gradassay.goldens.record import read_record

SIZES = Sizes(2, ep=2, accum=2)
PARAMETERS = [
    {"name": "a", "shape": [4], "family": "dense"},
    {"name": "layers.0.experts.0", "shape": [2, 3], "family": "expert"},
]
Edit = Callable[[dict[str, Any], dict[str, Any]], None]


def stranger() -> Stranger:
    return Stranger(1, dtype="float32", objective="unit-mean", units=4, parameters=[dict(item) for item in PARAMETERS])


GOLDEN = stranger().golden()
RECORD = stranger().record(SIZES, owners="copies")
READERS: dict[str, Callable[[Path], Any]] = {"golden": read_golden, "record": read_record}
CONTENT = {"golden": GOLDEN, "record": RECORD}


def rewritten(content: bytes, edit: Edit) -> bytes:
    """The file with its document and arrays changed, consistently written again."""
    length = int.from_bytes(content[:8], "little")
    document = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["gradassay"])
    arrays = {name: array.copy() for name, array in load(content).items()}
    edit(document, arrays)
    return save(arrays, {"gradassay": json.dumps(document)})


def raw(header: bytes, data: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + data


def reheaded(content: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    """The file with another safetensors header before the same data."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    edit(header)
    return raw(json.dumps(header).encode(), content[8 + length :])


def refused(kind: str, content: bytes, folder: Path, name: str = "file.safetensors") -> GradassayError:
    path = folder / name
    path.write_bytes(content)
    with pytest.raises(GradassayError) as caught:
        READERS[kind](path)
    assert str(path) in caught.value.message
    assert caught.value.kind.exit is Exit.INVALID
    return caught.value


@pytest.mark.parametrize("kind", READERS)
def test_the_untouched_files_are_read(kind: str, tmp_path: Path) -> None:
    """Negative control of everything below."""
    path = tmp_path / "file"
    path.write_bytes(rewritten(CONTENT[kind], lambda document, arrays: None))
    READERS[kind](path)


@pytest.mark.parametrize("kind", READERS)
def test_truncated_anywhere(kind: str, tmp_path: Path) -> None:
    content = CONTENT[kind]
    length = int.from_bytes(content[:8], "little")
    places = {
        *range(12),
        8 + length // 2,
        8 + length - 1,
        8 + length,
        8 + length + 1,
        len(content) // 2,
        len(content) - 1,
    }
    for place in sorted(places):
        refused(kind, content[:place], tmp_path)
    refused(kind, content + b"\0", tmp_path)


@pytest.mark.parametrize("claim", [0, 1, 2**31, 2**63, 2**64 - 1, 2**64 - 8, len(GOLDEN), len(GOLDEN) - 7])
def test_the_length_of_the_header_lies(claim: int, tmp_path: Path) -> None:
    error = refused("golden", struct.pack("<Q", claim) + GOLDEN[8:], tmp_path)
    assert str(claim) in error.message or "JSON" in error.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (pickle.dumps({"a": np.zeros(3)}), "pickle"),
        (b"PK\x03\x04" + bytes(64), "zip"),
        (b"", "0 bytes"),
        (b"\x93NUMPY" + bytes(128), "safetensors"),
        (raw(b"{}"), "gradassay"),
        (raw(b"[]"), "JSON object"),
        (raw(b'"' + b"x" * 20 + b'"'), "JSON object"),
        (raw(b"\xff\xfe{}" * 5), "JSON"),
        (raw(b"{" * 100_000), "JSON"),
        (raw(b'{"a":' * 100_000), "JSON"),
        (raw(b'{"__metadata__": {"gradassay": 7}}'), "as text"),
        (raw(b'{"__metadata__": {"gradassay": "[]"}}'), "JSON object"),
        (raw(b'{"__metadata__": {"gradassay": "{"}}'), "JSON object"),
        (raw(b'{"__metadata__": {"gradassay": "{}", "gradassay": "{}"}}'), "more than once"),
        (raw(b'{"__metadata__": {"gradassay": "{\\"format\\": 1, \\"format\\": 1}"}}'), "more than once"),
        (raw(b'{"__metadata__": {"gradassay": "{\\"format\\": NaN}"}}'), "no JSON number"),
        (raw(b'{"__metadata__": {"gradassay": "{\\"format\\": 1, \\"kind\\": \\"\\\\ud800\\"}"}}'), "JSON"),
        (raw(b'{"__metadata__": ["gradassay"]}'), "gradassay"),
        (raw(b'{"__metadata__": {"gradassay": "{\\"format\\": ' + b"9" * 5000 + b'}"}}'), "JSON"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_ours(content: bytes, words: str, tmp_path: Path) -> None:
    for kind in READERS:
        assert words in refused(kind, content, tmp_path).message


def test_a_zip_under_another_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.writestr("data.pkl", pickle.dumps([1]))
    error = refused("record", (tmp_path / "model.zip").read_bytes(), tmp_path)
    assert "pickle" in error.message
    assert "never read" in error.hint


@pytest.mark.parametrize("kind", READERS)
def test_no_file_at_all(kind: str, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing", tmp_path / "a" / "b"):
        with pytest.raises(InvalidFile, match="cannot be read"):
            READERS[kind](path)


@pytest.mark.parametrize("found", [0, 2, "1", None, True, [1]])
def test_unknown_formats(found: object, tmp_path: Path) -> None:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        document["format"] = found

    error = refused("record", rewritten(RECORD, edit), tmp_path)
    assert isinstance(error, UnknownFormat)
    assert "format 1" in error.message
    assert error.hint


def test_kinds_are_not_mixed_up(tmp_path: Path) -> None:
    assert "'record'" in refused("golden", RECORD, tmp_path).message
    assert "'golden'" in refused("record", GOLDEN, tmp_path).message


@pytest.mark.parametrize("key", ["problem", "framework", "strategy", "layout", "dtype", "stages", "parameters"])
def test_missing_fields_of_a_record(key: str, tmp_path: Path) -> None:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        del document[key]

    assert key in refused("record", rewritten(RECORD, edit), tmp_path).message


@pytest.mark.parametrize("key", ["problem", "dtype", "parameters", "objective", "units", "noise"])
def test_missing_fields_of_a_golden(key: str, tmp_path: Path) -> None:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        del document[key]

    assert key in refused("golden", rewritten(GOLDEN, edit), tmp_path).message


def put(*path: str | int, value: object) -> Edit:
    """Sets one field of the document."""

    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        place: Any = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "field", "found"),
    [
        (put("problem", value="moe"), "problem", "moe"),
        (put("problem", "digest", value=None), "problem.digest", "None"),
        (put("layout", "dp", value=-2), "dp", "-2"),
        (put("layout", "dp", value=0), "dp", "0"),
        (put("layout", "dp", value="many"), "layout.dp", "many"),
        (put("layout", "dp", value=2.5), "layout.dp", "2.5"),
        (put("layout", "ep", value=3), "layout", "does not divide"),
        (put("layout", "replicate", value=3), "layout", "does not divide"),
        (put("layout", value={"dp": 10**15, "ep": 7}), "layout", "does not divide"),
        (put("parameters", value=[]), "parameters", "none"),
        (put("parameters", value={}), "parameters", "{}"),
        (put("parameters", 0, "name", value="layers.0.experts.0"), "layers.0.experts.0", "twice"),
        (put("parameters", 0, "name", value=""), "parameters", "''"),
        (put("parameters", 0, "family", value=""), "parameters", "'a'"),
        (put("parameters", 0, "shape", value=[-4]), "shape", "-4"),
        (put("parameters", 0, "shape", value="4"), "parameters.0.shape", "4"),
        (put("parameters", 0, "shape", value=[4.5]), "parameters.0.shape.0", "4.5"),
        (put("parameters", 0, "shards", value=[[2, 0, 4]]), "shards", "2"),
        (put("parameters", 0, "shards", value=[[-1, 0, 4]]), "shards", "-1"),
        (put("parameters", 0, "shards", value=[[0, 0, 5]]), "shards", "[0, 5)"),
        (put("parameters", 0, "shards", value=[[0, 3, 1]]), "shards", "[3, 1)"),
        (put("parameters", 0, "shards", value=[[0, 1]]), "parameters.0.shards.0.2", "nothing"),
        (put("stages", value=[]), "stages", "[]"),
        (put("stages", 0, "step", value=0), "stages", "reduced.0"),
        (put("stages", 0, "stage", value=""), "stages", ".1"),
        (put("stages", 0, "step", value=2), "reduced.2", "none"),
        (put("stages", value=[{"stage": "reduced", "step": 1}] * 2), "stages", "reduced.1"),
        (put("convention", value="ep"), "convention", "ep"),
    ],
)  # fmt: skip
def test_fields_of_a_record_that_make_no_sense(edit: Edit, field: str, found: str, tmp_path: Path) -> None:
    error = refused("record", rewritten(RECORD, edit), tmp_path)
    assert field in error.message
    assert found in error.message


@pytest.mark.parametrize(
    ("edit", "field", "found"),
    [
        (put("objective", value="sum"), "objective", "sum"),
        (put("units", value=[]), "units", "[]"),
        (put("units", 0, "tokens", value=-1), "units", "-1"),
        (put("units", 0, value=512), "units.0", "512"),
        (put("noise", "dense", "q50", value=1.0), "noise: dense", "1.0"),
        (put("noise", "dense", "q999", value=-1.0), "noise: dense", "-1.0"),
        (put("noise", "dense", "samples", value=0), "noise: dense", "samples=0"),
        (put("noise", "dense", value=None), "noise.dense", "None"),
        (put("terms", value=["main", "main"]), "terms", "main"),
        (put("terms", value=["main"]), "basis.1.sketch.main", "none"),
        (put("references", value=[{"strategy": "ddp"}]), "references.0.layout", "nothing"),
    ],
)  # fmt: skip
def test_fields_of_a_golden_that_make_no_sense(edit: Edit, field: str, found: str, tmp_path: Path) -> None:
    error = refused("golden", rewritten(GOLDEN, edit), tmp_path)
    assert field in error.message
    assert found in error.message


def array(name: str, value: Any) -> Edit:
    """Sets one array, or removes it."""

    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        if value is None:
            del arrays[name]
        else:
            arrays[name] = value(arrays[name]) if callable(value) else value

    return edit


def with_first(value: float) -> Callable[[Any], Any]:
    def edit(values: Any) -> Any:
        values.flat[0] = value
        return values

    return edit


@pytest.mark.parametrize(
    ("kind", "edit", "field", "words"),
    [
        ("golden", array("basis.1.sketch", None), "basis.1.sketch", "none"),
        ("golden", array("basis.1.norm2", None), "basis.1.norm2", "none"),
        ("golden", array("basis.1.sketch", lambda a: a[:2]), "basis.1.sketch", "[2, 2, 1024]"),
        ("golden", array("basis.1.sketch", lambda a: a[:, :, :64]), "basis.1.sketch", "[4, 2, 64]"),
        ("golden", array("basis.1.norm2", lambda a: a.T.copy()), "basis.1.norm2", "[2, 4]"),
        ("golden", array("basis.1.sketch", lambda a: a.astype(np.float16)), "basis.1.sketch", "F16"),
        ("golden", array("basis.1.sketch", with_first(np.nan)), "unit 0, a", "NaN"),
        ("golden", array("basis.1.sketch", with_first(np.inf)), "unit 0, a", "infinity"),
        ("golden", array("basis.1.sketch", with_first(-1e200)), "unit 0, a", "or more"),
        ("golden", array("basis.1.norm2", with_first(np.nan)), "basis.1.norm2", "NaN"),
        ("record", array("reduced.1.sketch", None), "reduced.1.sketch", "none"),
        ("record", array("reduced.1.present", None), "reduced.1.present", "none"),
        ("record", array("reduced.1.sketch", lambda a: a[:1]), "reduced.1.sketch", "[1, 1024]"),
        ("record", array("reduced.1.norm2", lambda a: a[:1]), "reduced.1.norm2", "[1]"),
        ("record", array("reduced.1.norm2", lambda a: a.astype(np.int64)), "reduced.1.norm2", "I64"),
        ("record", array("reduced.1.nonfinite", lambda a: a.astype(np.float64)), "reduced.1.nonfinite", "F64"),
        ("record", array("reduced.1.nonfinite", with_first(-3)), "reduced.1.nonfinite: a", "-3"),
        ("record", array("reduced.1.present", with_first(2)), "reduced.1.present: a", "2"),
        ("record", array("reduced.1.norm2", with_first(-1)), "reduced.1.norm2: a", "-1"),
        ("record", array("reduced.1.absmax", with_first(-1)), "reduced.1.absmax: a", "-1"),
        ("record", array("reduced.1.rank_sketch", lambda a: a[:1]), "reduced.1.rank_sketch", "[1, 2, 1024]"),
    ],
)  # fmt: skip
def test_arrays_that_disagree(kind: str, edit: Edit, field: str, words: str, tmp_path: Path) -> None:
    error = refused(kind, rewritten(CONTENT[kind], edit), tmp_path)
    assert field in error.message
    assert words in error.message
    assert {"path", "field", "expected", "found"} <= error.facts.keys()


def entry(name: str, key: str, value: object) -> Callable[[dict[str, Any]], None]:
    def edit(header: dict[str, Any]) -> None:
        header[name][key] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (entry("basis.1.sketch", "shape", [10**12, 2, 1024]), "bytes for shape"),
        (entry("basis.1.sketch", "shape", [2**62, 2**62]), "bytes for shape"),
        (entry("basis.1.sketch", "shape", [10**4000] * 60), "whole numbers"),
        (entry("basis.1.sketch", "shape", [2**62] * 60), "bytes for shape"),
        (entry("basis.1.sketch", "shape", [1] * 100_000), "axes"),
        (entry("basis.1.sketch", "shape", [-1, 2, 1024]), "whole numbers"),
        (entry("basis.1.sketch", "shape", "4"), "whole numbers"),
        (entry("basis.1.sketch", "shape", None), "whole numbers"),
        (entry("basis.1.sketch", "data_offsets", [0]), "whole numbers"),
        (entry("basis.1.sketch", "data_offsets", [0, 2**70]), "whole numbers"),
        (entry("basis.1.sketch", "data_offsets", [0, 2**60]), "bytes for shape"),
        (entry("basis.1.sketch", "data_offsets", [65536, 0]), "bytes for shape"),
        (entry("basis.1.sketch", "data_offsets", [32, 65568]), "data_offsets"),
        (entry("basis.1.norm2", "data_offsets", [64, 128]), "data_offsets"),
        (entry("basis.1.sketch", "dtype", "PICKLE"), "dtype"),
        (entry("basis.1.sketch", "dtype", ["F64"]), "dtype"),
        (lambda header: header.update(extra=7), "dtype, shape and data_offsets"),
        (lambda header: header["basis.1.sketch"].pop("shape"), "dtype, shape and data_offsets"),
        (lambda header: header.pop("__metadata__"), "gradassay"),
    ],
)  # fmt: skip
def test_headers_that_lie_about_arrays(edit: Callable[[dict[str, Any]], None], words: str, tmp_path: Path) -> None:
    """Before any memory is taken: the largest of them claims more than there is in the world."""
    assert words in refused("golden", reheaded(GOLDEN, edit), tmp_path).message


@pytest.mark.parametrize(
    "name", ["basis.².sketch", "basis.00.sketch", "basis.01.sketch", "basis.x.sketch", f"basis.{'9' * 5000}.sketch"]
)
def test_arrays_of_no_step_are_ignored(name: str, tmp_path: Path) -> None:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = np.zeros(1)

    path = tmp_path / "file"
    path.write_bytes(rewritten(GOLDEN, edit))
    assert list(read_golden(path).bases) == [1]


def test_giant_layouts_are_incomparable_without_taking_memory(tmp_path: Path) -> None:
    (tmp_path / "golden").write_bytes(GOLDEN)
    plain = stranger().record(SIZES)
    (tmp_path / "record").write_bytes(rewritten(plain, put("layout", value={"dp": 10**12, "accum": 10**6})))
    assay = assay_record(read_record(tmp_path / "record"), read_golden(tmp_path / "golden"))
    assert assay.exit is Exit.INCOMPARABLE


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(["golden", "record"]),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6),
    in_header=st.booleans(),
    cut=st.one_of(st.none(), st.floats(0, 1)),
)
def test_bytes_changed_at_random(
    kind: str, changes: list[tuple[float, int]], in_header: bool, cut: float | None, tmp_path: Path
) -> None:
    """Only errors of ours come out, of reading and of assaying what could be read."""
    content = bytearray(CONTENT[kind])
    length = int.from_bytes(content[:8], "little")
    for place, value in changes:
        content[int(place * (8 + length if in_header else len(content)))] = value
    if cut is not None:
        del content[int(cut * len(content)) :]
    for name, untouched in CONTENT.items():
        (tmp_path / name).write_bytes(bytes(content) if name == kind else untouched)
    try:
        assay_record(read_record(tmp_path / "record"), read_golden(tmp_path / "golden"))
    except GradassayError as error:
        message = error.message
    else:
        message = "read"
    assert message


numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(["golden", "record"]), data=st.data(), value=json_values)
def test_fields_replaced_at_random(kind: str, data: st.DataObject, value: Any, tmp_path: Path) -> None:
    def edit(document: dict[str, Any], arrays: dict[str, Any]) -> None:
        place: Any = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(st.sampled_from(keys))
            if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
                break
            place = place[key]
        place[key] = value

    for name, untouched in CONTENT.items():
        (tmp_path / name).write_bytes(rewritten(untouched, edit) if name == kind else untouched)
    try:
        assay_record(read_record(tmp_path / "record"), read_golden(tmp_path / "golden"))
    except GradassayError as error:
        message = error.message
    else:
        message = "read"
    assert message


@pytest.mark.parametrize("length", [0x80, 0x280, 0x2E80, 0x40480])
def test_a_truncated_file_is_no_pickle_whatever_its_header_is_long(tmp_path: Path, length: int) -> None:
    path = tmp_path / "cut.safetensors"
    path.write_bytes(length.to_bytes(8, "little") + b'{"__metadata__"')
    with pytest.raises(InvalidFile, match=f"header claims {length}"):
        read_record(path)
