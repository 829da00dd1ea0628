"""Where two processes meet: a folder of this run, names nobody else has, and a page that says how far the reader has come.

The page is the same for all systems. A sender learns from it that the reader hears it, and, where the system itself would
overwrite or drop what a slow reader has not taken, how far it may go ahead.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

# Whoever has heard nothing for so long is told so. Units: seconds.
PATIENCE = 20.0


class Place:
    """The folder of a run, and what is named after it."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.name = self.folder.name

    def port(self, of: int) -> int:
        """Returns a UDP or TCP port of this run's own: below those that a system gives to anybody."""
        return 20_000 + (os.stat(self.folder).st_ino * 4 + of) % 10_000


class Progress:
    """How many samples the reader has been given, in memory that both processes see."""

    def __init__(self, place: Place) -> None:
        path = place.folder / "progress"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            self._memory = mmap.mmap(descriptor, mmap.PAGESIZE)
        finally:
            os.close(descriptor)
        # An aligned word is written and read whole.
        self.words = memoryview(self._memory).cast("Q")

    def wait_beyond(self, samples: int) -> None:
        """Waits until the reader has been given more than so many samples."""
        deadline = time.monotonic() + PATIENCE
        while self.words[0] <= samples:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the reader has stood still at {self.words[0]} samples for {PATIENCE} s")
            time.sleep(0)
