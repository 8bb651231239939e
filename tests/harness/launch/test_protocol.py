"""Messages between a pool and its servers."""

from __future__ import annotations

import socket

import pytest

from gradassay.goldens.layout import Layout
from gradassay.harness.cell import Cell
from gradassay.harness.launch.outcome import Failure
from gradassay.harness.launch.protocol import Begun, Channel, Ended, Message, Ready, Start, decode, encode

CELL = Cell(
    problem="moe-tiny",
    strategy="fsdp2",
    layout=Layout(dp=4, ep=2, accum=3),
    framework="x==1",
    fault="zero:expert",
    options={"sync": "all"},
    full=True,
)
MESSAGES = [
    Start(id=7, cell=CELL, function="module:function", folder="here", out="here/out", deadline_s=2.5),
    Ready(pid=1, threads=1),
    Begun(id=7, group=3),
    Ended(id=7, seconds=0.1),
    Ended(id=7, seconds=0.1, failure=Failure(rank=1, reason="ValueError: ü\n", traceback="a\nb", log="c")),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_the_wire(message: Message) -> None:
    line = encode(message)
    assert line.count(b"\n") == 1
    assert decode(line) == message


def test_messages_in_pieces_and_together() -> None:
    here, there = socket.socketpair()
    with here, there:
        channel = Channel(socket=there)
        line = encode(MESSAGES[0])
        here.sendall(line[:5])
        assert channel.receive() == []
        here.sendall(line[5:] + encode(MESSAGES[1]) + encode(MESSAGES[2])[:3])
        assert channel.receive() == MESSAGES[:2]
        here.sendall(encode(MESSAGES[2])[3:])
        assert channel.receive() == [MESSAGES[2]]
        assert channel.open


def test_a_lost_peer_closes_the_channel() -> None:
    here, there = socket.socketpair()
    here.close()
    channel = Channel(socket=there)
    assert channel.receive() == []
    assert not channel.open
    another = Channel(socket=there)
    another.send(MESSAGES[1])
    assert not another.open
    there.close()
