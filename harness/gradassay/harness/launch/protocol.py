"""What a pool and its fork servers say to each other: one JSON object a line, over a socket pair."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.launch.outcome import Failure

_PIECE_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """To the server: fork the ranks of a cell. folder: theirs alone, for logs; out: inside it.

    variables: for the environment of the ranks, beside those of the server.
    """

    id: int
    cell: Cell
    function: str
    folder: str
    out: str
    deadline_s: float
    variables: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """From the server: everything is imported. threads: that the process has; more than one makes forking unsafe."""

    pid: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """From the server: the ranks of a cell exist. group: their process group."""

    id: int
    group: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """From the server: no rank of the cell is left."""

    id: int
    seconds: float
    failure: Failure | None = None


Message = Start | Ready | Begun | Ended
_KINDS: dict[str, type[Message]] = {kind.__name__.lower(): kind for kind in (Start, Ready, Begun, Ended)}


def encode(message: Message) -> bytes:
    """The message as one line."""
    return json.dumps({"kind": type(message).__name__.lower(), **asdict(message)}).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message that `encode` made this line of."""
    fields: dict[str, Any] = json.loads(line)
    kind = _KINDS[fields.pop("kind")]
    if "cell" in fields:
        cell = fields["cell"]
        fields["cell"] = Cell(**{**cell, "layout": Layout(**cell["layout"]), "stages": tuple(cell["stages"])})
    if fields.get("failure") is not None:
        fields["failure"] = Failure(**fields["failure"])
    return kind(**fields)


@dataclass(slots=True, kw_only=True)
class Channel:
    """One end of the socket pair; `open` turns False when the other end is gone."""

    socket: socket.socket
    open: bool = True
    _rest: bytes = field(default=b"", repr=False)

    @property
    def is_connected(self) -> bool:
        """Whether the other end is there, for all that can be seen without reading what has arrived."""
        if not self.open:
            return False
        try:
            return self.socket.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def hang_up(self, patience_s: float) -> None:
        """Closes the channel, and waits until the other end has done so too, after whatever it still had to do."""
        if self.open:
            self.socket.settimeout(patience_s)
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
                while self.socket.recv(_PIECE_BYTES):
                    pass
        self.socket.close()
        self.open = False

    def send(self, message: Message) -> None:
        """Sends the message; a lost peer closes the channel and is no error here."""
        try:
            self.socket.sendall(encode(message))
        except OSError:
            self.open = False

    def receive(self) -> list[Message]:
        """The messages that have arrived whole; blocks only where nothing has arrived."""
        try:
            piece = self.socket.recv(_PIECE_BYTES)
        except ConnectionError:
            piece = b""
        if not piece:
            self.open = False
        *lines, self._rest = (self._rest + piece).split(b"\n")
        return [decode(line) for line in lines]
