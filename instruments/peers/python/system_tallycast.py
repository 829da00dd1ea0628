"""Tallycast: `tallycast` over a ring in shared memory, `tallycast-udp` over datagrams on the loopback interface.

`tallycast-views` reads blocks where they lie in the ring instead of copying them, and asks of each whether it was still there.

A ring overwrites what its readers have not taken, and they count it: no reader holds up a writer. Where nothing is to be lost
the sender stays within half a ring of its reader; over UDP within so many bytes and datagrams as the receive buffer holds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.typing as npt

import tallycast as tc
from case import Case
from place import Place, Progress
from systems import Account


# Half of it exceeds the private caches of one processor; both processors share the third-level cache.
RING_BYTES = 1 << 24
# Maximum overhead of a record in the ring.
RECORD_BYTES = 128
# Part of the 4 MiB receive buffer: the kernel's overhead per datagram counts too.
DATAGRAMS_BYTES = 1 << 20
# Maximum number of small datagrams, limited by the kernel's overhead for each.
DATAGRAMS = 4096
NAME = "bench/python"
# Maximum time that a reader busy-polls for the lowest delay. Units: seconds.
SPIN = 1.0


def _bus(case: Case, place: Place) -> str:
    if case.system == "tallycast-udp":
        # The kernel cuts trains of up to 64 datagrams: one call for a large block, as with the other systems.
        return f"udp://239.84.0.0:{place.port(0)}?iface=lo&train=64"
    return f"shm://{place.name}"


class Sender:
    """Publishes blocks."""

    def __init__(self, case: Case, place: Place, progress: Progress) -> None:
        is_latency = case.message_bytes > 0
        channels = {"stamp": tc.Channel(shape=(case.message_bytes // 8,))} if is_latency else {"value": "V"}
        self._publisher = tc.Publisher(
            NAME,
            channels,
            dtype="u64" if is_latency else "f4",
            # A publisher that sends a block whenever it has one needs no rate of samples. The rate here sets the
            # queue size, the time after which samples count as late, and the maximum send rate: higher than any
            # system reaches.
            rate=1_000 if is_latency else 4_000_000_000,
            on_full="block" if case.is_paced else "overwrite",
            linger=0.0 if is_latency else 0.005,
            queue_bytes=None if case.system == "tallycast-udp" else RING_BYTES,
            bus=_bus(case, place),
        )
        self._progress, self._words = progress, progress.words
        self.sent = 0
        self._samples = 1 if is_latency else case.samples
        if case.system == "tallycast-udp":
            ahead = min(DATAGRAMS_BYTES // max(case.block_bytes, 1), DATAGRAMS)
        else:
            ahead = RING_BYTES // 2 // (case.block_bytes + RECORD_BYTES)
        self._ahead = ahead * self._samples
        if not case.is_paced or is_latency:
            self._ahead = 1 << 62

    def send(self, block: npt.NDArray[Any]) -> None:
        """Publishes a block as soon as it overwrites nothing unread."""
        # A reader without any sample has not joined yet, so nothing is unread.
        if self.sent - (self._words[0] or self.sent) > self._ahead:
            self._progress.wait_beyond(self.sent - self._ahead)
        self._publisher.send(block)
        self.sent += self._samples

    def finish(self) -> None:
        """Ends the epoch."""
        self._publisher.close()

    def close(self) -> None:
        """Does nothing: nothing is left open."""


class Reader:
    """Reads blocks."""

    def __init__(self, case: Case, place: Place) -> None:
        spin = SPIN if case.is_spinning else 0.0
        self._has_views = case.system == "tallycast-views"
        self._subscriber = tc.Subscriber(NAME, until_end=True, spin=spin, views=self._has_views, bus=_bus(case, place))
        self._elements = max(case.message_bytes // 8, 1)

    def read(self, take: Callable[[npt.NDArray[Any], int], None]) -> Account:
        """Passes on every block."""
        has_views = self._has_views
        for block in self._subscriber:
            take(block.array, block.next_index)
            if has_views and not block.valid():
                raise RuntimeError("a view was overtaken: the run does not count")
        (account,) = self._subscriber.close()
        if not (account.closed and account.balanced):
            raise ArithmeticError(f"the account does not close: {account}")
        lost = account.lost | ({"unexplained": account.unexplained} if account.unexplained else {})
        per_sample = self._elements
        lost = {stage: count // per_sample for stage, count in lost.items()}
        return Account(account.sent // per_sample, account.delivered // per_sample, lost)
