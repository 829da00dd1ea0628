"""Rendezvous of two processes: a folder of this run, unique names, and a page with the reader's progress.

The page is the same for all systems. A sender learns from it that the reader hears it, and, where the system itself would
overwrite or drop what a slow reader has not taken, how far it may go ahead.
"""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

# Maximum time to wait for the other side. Units: seconds.
PATIENCE = 20.0


class Place:
    """Folder of a run, and names derived from it."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.name = self.folder.name

    def port(self, of: int) -> int:
        """Returns a UDP or TCP port for this run, below the system's ephemeral range."""
        return 20_000 + (os.stat(self.folder).st_ino * 4 + of) % 10_000


class Progress:
    """Number of samples delivered to the reader, in shared memory."""

    def __init__(self, place: Place) -> None:
        path = place.folder / "progress"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.ftruncate(descriptor, mmap.PAGESIZE)
            self._memory = mmap.mmap(descriptor, mmap.PAGESIZE)
        finally:
            os.close(descriptor)
        # An aligned word is read and written atomically.
        self.words = memoryview(self._memory).cast("Q")

    def wait_beyond(self, samples: int) -> None:
        """Waits until more than ``samples`` samples were delivered to the reader."""
        deadline = time.monotonic() + PATIENCE
        while self.words[0] <= samples:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the reader has stood still at {self.words[0]} samples for {PATIENCE} s")
            time.sleep(0)
