"""The process of an operator: reads, calls the function, publishes, and keeps the sums.

It is a subscriber and a publisher like any other. Start with ``Operating``; the command is ``run_operator``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

import numpy as np

from tallycast._errors import ConfigError
from tallycast._operator import Declaration, Loaded, rows
from tallycast._chunks import Chunk, Cutter, Hole
from tallycast._publisher import Publisher
from tallycast._samples import runs
from tallycast._schema import Schema
from tallycast._subscriber import Subscriber

#: Wait for samples before the request to end is checked. Units: seconds.
PATIENCE = 0.1
#: Interval at which its accounts are read. Units: seconds.
ACCOUNTS_EVERY = 0.5


@dataclass
class Sums:
    """Totals of its samples since it began, with the terms of the monitor's API."""

    offered_samples: int = 0
    source_samples: int = 0
    delivered_elements: int = 0
    lost_elements: dict[str, int] = field(default_factory=dict)
    unexplained_elements: int = 0


class Lag:
    """Additional age of the input relative to the best so far, so that recorded data with their own times do not lag.

    Read from another thread while the function runs, it grows with that time.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._least: Optional[int] = None
        self._behind = 0
        self._since: Optional[int] = None

    def began(self, newest_ns: int) -> None:
        """Notes that samples are handed over, the newest of which was taken then."""
        delay = time.time_ns() - newest_ns
        with self._lock:
            self._least = delay if self._least is None else min(self._least, delay)
            self._behind = delay - self._least
            self._since = time.monotonic_ns()

    def ended(self) -> None:
        """Notes that they have been worked on."""
        with self._lock:
            self._since = None

    def caught_up(self) -> None:
        """Notes that nothing waits."""
        with self._lock:
            self._behind = 0

    def behind_ns(self) -> int:
        with self._lock:
            running = 0 if self._since is None else time.monotonic_ns() - self._since
            return self._behind + running


class Operating:
    """An operator in operation."""

    def __init__(
        self,
        loaded: Loaded,
        declaration: Declaration,
        *,
        name: str,
        place: str,
        inputs: Sequence[str],
        output: str,
        bus: Optional[str],
        station: Optional[str],
    ) -> None:
        self._loaded = loaded
        self._declaration = declaration
        self._inputs = inputs
        self._output = output
        self._place = place
        self._bus = bus
        self._station = station
        self._making: Optional[_Making] = None
        self._accounts: dict[tuple[str, str], Mapping[str, Any]] = {}
        self._accounts_at = time.monotonic()
        self.lag = Lag()
        self.sums = Sums()
        # The function is made before any data arrive, so that its errors are reported at once.
        self._function = loaded.begin()
        self._subscriber = Subscriber(*inputs, reader=_reader_name(name), bus=bus)

    def turn(self) -> None:
        """Takes what has come, or waits for it a little."""
        block = self._subscriber.read(PATIENCE)
        if block is None:
            self.lag.caught_up()
        else:
            self.lag.began(block.t0_ns + round((len(block.array) - 1) * 1_000_000_000 / block.rate))
            try:
                self._take(block)
            finally:
                self.lag.ended()
        if time.monotonic() - self._accounts_at >= ACCOUNTS_EVERY:
            self._accounts_at = time.monotonic()
            self._know(self._subscriber.accounts())

    def close(self) -> list[Any]:
        """Ends the output with its final tally; returns the accounts of the inputs."""
        self._end()
        accounts = self._subscriber.close()
        self._know(accounts)
        return list(accounts)

    def _take(self, block: Any) -> None:
        if block.stream != self._inputs[0]:
            # Another input: the function must handle it, and its results have no position.
            chunk = Chunk(block, 1, block.array, block.first_index, block.missing, block, block.gaps)
            if self._function(chunk) is not None:
                raise ConfigError(
                    f"it returned results for a chunk of {block.stream}, which does not give the grid\n"
                    f"return None for it, and results for chunks of {self._inputs[0]}"
                )
            return
        if self._making is not None and self._making.epoch != block.epoch:
            self._end()
        if self._making is None:
            self._making = _Making(self, block)
        making = self._making
        for item in making.cutter.feed(block):
            if isinstance(item, Hole):
                making.skip(item.samples)
            else:
                making.send(item, self._function(item))

    def _end(self, next_index: Optional[int] = None) -> None:
        """Ends the output: its input has ended, or another epoch of it begins."""
        if self._making is not None:
            if next_index is not None:
                for hole in self._making.cutter.finish(next_index):
                    self._making.skip(hole.samples)
            self._making.publisher.close()
            self._making = None
            # State of one epoch is of no use in another.
            self._function = self._loaded.begin()

    def _know(self, accounts: Sequence[Any]) -> None:
        # An input that fell silent and came back has another account in the same epoch.
        self._accounts.update({(it["stream"], it["account"]): it["elements"] for it in accounts})
        if self._making is not None:
            newest = {(it["stream"], it["epoch"]): it for it in accounts}
            grid = newest.get((self._inputs[0], self._making.epoch))
            if grid is not None and grid["state"] != "open":
                self._end(grid["elements"]["next"])
        lost: dict[str, int] = {}
        for elements in self._accounts.values():
            for stage, count in elements["lost"].items():
                lost[stage] = lost.get(stage, 0) + count
        self.sums.lost_elements = lost
        self.sums.delivered_elements = sum(elements["delivered"] for elements in self._accounts.values())
        self.sums.unexplained_elements = sum(elements["unexplained"] for elements in self._accounts.values())


class _Making:
    """The output during one epoch of the first input."""

    def __init__(self, operating: Operating, block: Any) -> None:
        declaration = operating._declaration
        self.epoch: str = block.epoch
        self.cutter = Cutter(declaration.every, give=declaration.incomplete == "give")
        self._give = declaration.incomplete == "give"
        self._sums = operating.sums
        schema: Schema = block.schema
        labels = {"operator": operating._place}
        labels.update({f"input.{place}": f"{stream}:*" for place, stream in enumerate(operating._inputs)})
        self.publisher = Publisher(
            operating._output,
            channels={it.name: it for it in schema.channels} if declaration.channels is None else declaration.channels,
            dtype=schema.dtype if declaration.dtype is None else declaration.dtype,
            rate=block.rate / declaration.every,
            labels=labels,
            bus=operating._bus,
            station=operating._station,
        )

    def send(self, chunk: Chunk, result: Any) -> None:
        """Publishes the results of a chunk; samples without a result are a hole."""
        array, there = rows(result, chunk, self.publisher.schema)
        if array is None:
            self.skip(len(chunk))
            return
        whole = None if self._give else chunk._has_all()
        if there is None or whole is None:
            there = whole if there is None else there
        else:
            there = there & whole
        for first, to, is_there in [(0, len(array), True)] if there is None else runs(there):
            if is_there:
                at = chunk.t0_ns if first == 0 else int(chunk.times[first * chunk.every])
                self.publisher.send(array[first:to], t0_ns=at)
                self._sums.offered_samples += to - first
            else:
                self.skip(to - first)

    def skip(self, samples: int) -> None:
        """Publishes a hole."""
        self.publisher.skip(samples)
        self._sums.offered_samples += samples
        self._sums.source_samples += samples


def _reader_name(name: str) -> str:
    """Returns the name under which its accounts are kept, within the 32 bytes that a reader's name may have."""
    return f"operator/{name}".encode()[:32].decode(errors="ignore")
