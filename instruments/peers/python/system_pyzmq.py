"""ZeroMQ with pyzmq: a PUSH and a PULL socket, over a Unix socket (`pyzmq-ipc`) or TCP on loopback (`pyzmq-tcp`).

Of ZeroMQ's patterns this is the one that loses nothing: PUSH waits where 1,000 messages, the default, lie at either end. PUB
and SUB, which serve many readers, drop there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import zmq

from case import Case
from place import Place, Progress
from systems import Account

# Maximum time to send the rest at the end; after it the other side is gone. Units: milliseconds.
LINGER_MS = 5_000


def _address(case: Case, place: Place) -> str:
    if case.system == "pyzmq-tcp":
        return f"tcp://127.0.0.1:{place.port(1)}"
    return f"ipc://{place.folder / 'zmq'}"


class Sender:
    """Sends blocks."""

    def __init__(self, case: Case, place: Place, progress: Progress) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PUSH)
        self._socket.setsockopt(zmq.LINGER, LINGER_MS)
        self._socket.bind(_address(case, place))
        self._samples = case.samples or 1
        self.sent = 0

    def send(self, block: npt.NDArray[Any]) -> None:
        """Sends a block as soon as there is room."""
        self._socket.send(block)
        self.sent += self._samples

    def finish(self) -> None:
        """Sends the number of samples after an empty message."""
        self._socket.send_multipart([b"", str(self.sent).encode()])

    def close(self) -> None:
        """Waits until the reader has received everything."""
        self._socket.close()
        self._context.term()


class Reader:
    """Receives messages."""

    def __init__(self, case: Case, place: Place) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PULL)
        self._socket.connect(_address(case, place))
        self._samples = case.samples or 1
        self._dtype = np.uint64 if case.message_bytes else np.float32
        self._is_spinning = case.is_spinning

    def read(self, take: Callable[[npt.NDArray[Any], int], None]) -> Account:
        """Passes on every message until the empty one."""
        count, samples, dtype = 0, self._samples, self._dtype
        receive = self._receive_spinning if self._is_spinning else self._socket.recv
        while message := receive():
            count += samples
            take(np.frombuffer(message, dtype), count)
        sent = int(self._socket.recv())
        self._socket.close()
        self._context.term()
        return Account(sent, count, {"after the last": sent - count} if sent != count else {})

    def _receive_spinning(self) -> bytes:
        receive = self._socket.recv
        while True:
            try:
                return receive(zmq.NOBLOCK)
            except zmq.Again:
                pass
