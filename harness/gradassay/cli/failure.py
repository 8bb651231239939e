"""How a command ends that could not do what it was asked for: one message, its exit code, no traceback."""

from __future__ import annotations

import os
import sys
import tempfile
import traceback

from gradassay.goldens.errors import Exit, GradassayError


def report_error(error: GradassayError) -> int:
    """Says on stderr what happened and what to do next; returns the exit code."""
    print(f"gradassay: {error.message}", file=sys.stderr)
    if error.hint:
        print("\n".join(f"  {line}" for line in error.hint.splitlines()), file=sys.stderr)
    return int(error.kind.exit)


def report_bug(error: Exception, *, debug: bool) -> int:
    """Says on stderr that this is our bug and where its traceback is; returns the exit code."""
    text = "".join(traceback.format_exception(error))
    print(f"gradassay: this is a bug of gradassay ({type(error).__name__}: {error})", file=sys.stderr)
    if debug:
        print(text, file=sys.stderr)
        return int(Exit.BUG)
    descriptor, path = tempfile.mkstemp(prefix="gradassay-bug-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{sys.argv}\n{text}")
    print(f"  its traceback is in {path}; please send it with a report, or print it with --debug", file=sys.stderr)
    return int(Exit.BUG)
