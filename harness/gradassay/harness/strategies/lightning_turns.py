"""A function that runs in a thread of its own and stops at places, so that its caller takes turns with it."""

from __future__ import annotations

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class Turns:
    """Runs `function(pause)` from one `pause(place)` to another; only one of the two threads runs at any time.

    What calls the callers back (a fit loop with hooks) becomes what the caller steps through. A function that is left at
    a pause stays there, and does not keep the process from ending.
    """

    def __init__(self, function: Callable[[Callable[[str], None]], None]) -> None:
        self._function = function
        self._reached: SimpleQueue[str | BaseException] = SimpleQueue()
        self._resume: SimpleQueue[None] = SimpleQueue()
        self._thread: Thread | None = None

    def until(self, place: str) -> None:
        """Lets the function go on to `place`, past others. Raises what it raises, RuntimeError where it ends before."""
        reached = ""
        while reached != place:
            self._go()
            outcome = self._reached.get()
            if isinstance(outcome, BaseException):
                raise outcome
            reached = outcome

    def _go(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, daemon=True)
            self._thread.start()
        else:
            self._resume.put(None)

    def _pause(self, place: str) -> None:
        self._reached.put(place)
        self._resume.get()

    def _run(self) -> None:
        try:
            self._function(self._pause)
            self._reached.put(RuntimeError("it ended before the place that its caller waits for"))
        # Whatever it raises belongs to the caller's thread.
        except BaseException as error:
            self._reached.put(error)
