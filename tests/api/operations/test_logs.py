"""Log lines of a process, as a collector reads them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from gradassay.api.operations.logs import configure_logs


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_both_kinds_of_logger_write_one_json_object_a_line():
    stream = io.StringIO()
    configure_logs(stream)
    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger("gradassay.here").info("posted", run="é")
        logging.getLogger("a.library").warning("slow: %s", "very")
    first, second = lines(stream)
    assert first | {"timestamp": None} == {
        "event": "posted",
        "run": "é",
        "request_id": "r1",
        "level": "info",
        "logger": "gradassay.here",
        "timestamp": None,
    }
    assert str(first["timestamp"]).endswith("Z")
    assert (second["event"], second["level"], second["request_id"]) == ("slow: very", "warning", "r1")


def test_traceback_stays_within_its_line():
    stream = io.StringIO()
    configure_logs(stream)
    try:
        raise ValueError("broken")
    except ValueError:
        structlog.get_logger("gradassay").exception("unexpected error")
    (line,) = lines(stream)
    assert line["level"] == "error"
    assert "ValueError: broken" in str(line["exception"])


def test_terminal_gets_text():
    stream = Terminal()
    configure_logs(stream)
    structlog.get_logger("gradassay").info("posted", run="r")
    assert "posted" in stream.getvalue()
    assert not stream.getvalue().startswith("{")


def test_talk_of_libraries_is_left_out():
    stream = io.StringIO()
    configure_logs(stream)
    logging.getLogger("alembic.runtime.migration").info("Context impl SQLiteImpl.")
    logging.getLogger("alembic.runtime.migration").warning("kept")
    assert [line["event"] for line in lines(stream)] == ["kept"]


def test_local_variables_stay_out_of_tracebacks():
    for stream in (Terminal(), io.StringIO()):
        configure_logs(stream)
        secret = "hunter" + "2"
        try:
            raise ValueError(f"broken, {len(secret)} characters")
        except ValueError:
            structlog.get_logger("gradassay").exception("unexpected error")
        assert "broken, 7 characters" in stream.getvalue()
        assert secret not in stream.getvalue()
