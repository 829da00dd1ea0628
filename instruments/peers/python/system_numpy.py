"""NumPy alone: a bare ring mapped by both processes, with one copy in and one copy out.

Two words in the page say how many blocks were written and read; either side looks at them again and again. No records, no
account, no names, one reader that the writer waits for: what is left of a transport when everything is left out.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from case import Case
from place import PATIENCE, Place, Progress
from systems import Account


RING_BYTES = 1 << 24
# Words of the page: blocks written, blocks read, and the total number of blocks at the end.
WRITTEN, READ, END = 8, 16, 24


def _slots(case: Case, place: Place) -> npt.NDArray[np.float32]:
    count = max(RING_BYTES // case.block_bytes, 2)
    descriptor = os.open(place.folder / "ring", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.ftruncate(descriptor, count * case.block_bytes)
        memory = mmap.mmap(descriptor, count * case.block_bytes)
    finally:
        os.close(descriptor)
    return np.frombuffer(memory, np.float32).reshape(count, case.samples)


class Sender:
    """Copies blocks into the ring."""

    def __init__(self, case: Case, place: Place, progress: Progress) -> None:
        self._slots, self._words, self._samples = list(_slots(case, place)), progress.words, case.samples
        self._written = 0

    @property
    def sent(self) -> int:
        """Returns the number of samples sent."""
        return self._written * self._samples

    def send(self, block: npt.NDArray[Any]) -> None:
        """Copies a block in, once there is room."""
        words, slots, written = self._words, self._slots, self._written
        while written - words[READ] >= len(slots):
            pass
        np.copyto(slots[written % len(slots)], block)
        self._written = written + 1
        words[WRITTEN] = self._written

    def finish(self) -> None:
        """Publishes the total number of blocks."""
        self._words[END] = self._written + 1

    def close(self) -> None:
        """Does nothing: the memory is removed with the folder."""


class Reader:
    """Copies blocks out of the ring."""

    def __init__(self, case: Case, place: Place) -> None:
        self._slots, self._words, self._samples = list(_slots(case, place)), Progress(place).words, case.samples

    def read(self, take: Callable[[npt.NDArray[Any], int], None]) -> Account:
        """Passes on a copy of every block."""
        words, slots, samples, read = self._words, self._slots, self._samples, 0
        own = np.empty(samples, np.float32)
        deadline = time.monotonic() + PATIENCE
        while True:
            if words[WRITTEN] == read:
                if words[END] == read + 1:
                    break
                if not read and time.monotonic() > deadline:
                    raise TimeoutError("nothing was written")
                continue
            np.copyto(own, slots[read % len(slots)])
            read += 1
            words[READ] = read
            take(own, read * samples)
        return Account((words[END] - 1) * samples, read * samples)
