"""A named pipe: one write, one read, the kernel's minimum to wake another process with a message."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from case import Case
from place import Place, Progress
from systems import Account


class Sender:
    """Writes messages, which a pipe transfers atomically up to a page."""

    def __init__(self, case: Case, place: Place, progress: Progress) -> None:
        path = place.folder / "pipe"
        os.mkfifo(path)
        # Opened for reading too, so that it does not wait for the reader.
        self._pipe = os.open(path, os.O_RDWR)
        self.sent = 0

    def send(self, block: npt.NDArray[Any]) -> None:
        """Writes a message."""
        os.write(self._pipe, block)
        self.sent += 1

    def finish(self) -> None:
        """Marks the end by a short message."""
        os.write(self._pipe, b"end")

    def close(self) -> None:
        """Closes the pipe."""
        os.close(self._pipe)


class Reader:
    """Reads messages."""

    def __init__(self, case: Case, place: Place) -> None:
        self._pipe = os.open(place.folder / "pipe", os.O_RDONLY)
        self._size_bytes = case.message_bytes

    def read(self, take: Callable[[npt.NDArray[Any], int], None]) -> Account:
        """Passes on every message."""
        count = 0
        while len(message := os.read(self._pipe, self._size_bytes)) == self._size_bytes:
            count += 1
            take(np.frombuffer(message, np.uint64), count)
        os.close(self._pipe)
        return Account(count, count)
