"""A stream's samples on their way out: reads, thins, and hands each output to a sink.

Runs on its own thread, so that a slow sink does not delay others. Samples that a sink does not take stay in the thinner and
becomes part of the next output, so that the counts of all outputs add up to what was read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

import tallycast as tc

from ._run import Direction
from ._thinner import Thinned, Thinner

#: Maximum wait of the reader for a block while no output is due. Units: seconds.
IDLE = 0.05
#: Interval at which it checks whether streams have ended. Units: seconds.
POLL_INTERVAL = 0.5


class Sink(Protocol):
    """Destination of outputs."""

    #: Name at the peer, for the account.
    name: str

    def ready(self) -> bool:
        """Returns whether it can take an output now."""
        ...

    def put(self, output: Thinned, unit: str, why: str) -> None:
        """Takes an output; ``why`` is the reason of the gap before it, empty if there is none."""
        ...

    def gone(self, why: str) -> None:
        """Handles the end of the stream."""
        ...

    def account(self) -> dict[str, Any]:
        """Returns what it adds to the account of its route."""
        ...


@dataclass
class Route:
    """One channel of one stream to one sink."""

    stream: str
    channel: str | None
    thinner: Thinner
    sink: Sink
    read: int = 0
    missing: int = 0
    outputs: int = 0
    refused: str | None = None
    unit: str = ""
    _next: tuple[str, int] | None = None
    _why: dict[str, int] = field(default_factory=dict)

    def take(self, block: Any, now_ns: int) -> None:
        """Takes a block."""
        before = 0 if self._next is None or self._next[0] != block.epoch else max(block.first_index - self._next[1], 0)
        self._next = (str(block.epoch), block.next_index)
        channel = self._choose(block.schema)
        if channel is None:
            return
        self.unit = channel.unit
        values, times = np.asarray(block[channel.name]), np.asarray(block.times)
        whole = _whole(block, channel.name)
        if whole is not None:
            before += int(len(whole) - whole.sum())
            values, times = values[whole], times[whole]
        if before:
            self.missing += before
            for gap in block.gaps:
                for stage in [
                    *gap.lost,
                    *(["unexplained"] if gap.unexplained else []),
                    *(["unsettled"] if gap.unsettled else []),
                ]:
                    self._why[stage] = self._why.get(stage, 0) + 1
            self.thinner.lost(before, int(block.t0_ns))
        self.read += len(values)
        for output in self.thinner.offer(values, times):
            self._put(output)
        self.poll(now_ns)

    def poll(self, now_ns: int) -> None:
        """Hands over what is due, if the sink can take it."""
        if self.sink.ready() and (output := self.thinner.poll(now_ns)) is not None:
            self._put(output)

    def finish(self, why: str) -> None:
        """Hands over what still waits; the stream has ended."""
        if self.sink.ready() and (output := self.thinner.flush()) is not None:
            self._put(output)
        self.sink.gone(why)

    def account(self) -> dict[str, Any]:
        """Returns the totals."""
        waiting = self.read - self.thinner.told
        return {
            "way": "out",
            "stream": self.stream,
            "channel": self.channel,
            "peer": self.sink.name,
            "read": self.read,
            "missing": self.missing,
            "outputs": self.outputs,
            "told": self.thinner.told,
            "told_missing": self.thinner.told_missing,
            "waiting": waiting,
            "refused": self.refused,
            "balanced": waiting >= 0 and self.missing >= self.thinner.told_missing,
            **self.sink.account(),
        }

    def _choose(self, schema: Any) -> Any:
        """Returns the channel, or None, reported once, if none fits."""
        channels = list(schema.channels)
        fitting = [it for it in channels if self.channel in (None, it.name)]
        if fitting:
            self.refused = None
            return fitting[0]
        if self.refused is None:
            names = ", ".join(it.name for it in channels)
            self.refused = f"the stream has no channel `{self.channel}`; it has {names}"
            self.sink.gone(self.refused)
        return None

    def _put(self, output: Thinned) -> None:
        why = f"{output.missing} samples missing" if output.missing else ""
        if why and self._why:
            why += f": {', '.join(self._why)}"
        self._why = {}
        self.outputs += 1
        self.sink.put(output, self.unit, why)


def _whole(block: Any, channel: str) -> Any:
    """Returns which samples of a channel are complete; None if all are."""
    mask = block.missing
    if mask is None:
        return None
    per_sample = np.asarray(mask).reshape(len(block.times), -1)
    offset = 0
    for each in block.schema.channels:
        size = int(np.prod(each.shape, dtype=np.int64))
        if each.name == channel:
            return ~per_sample[:, offset : offset + size].any(axis=1)
        offset += size
    return None


class Outflow(threading.Thread):
    """Reads streams until it is stopped, and feeds the routes of each.

    ``expand`` makes the routes of a stream that is met for the first time; without it there are those that were given.
    """

    def __init__(
        self,
        routes: Sequence[Route],
        *,
        bus: str | None,
        when_failed: Callable[[], None],
        patterns: Sequence[str] = (),
        expand: Callable[[str, Any], list[Route]] | None = None,
    ) -> None:
        super().__init__(name="tallycast-outflow")
        self.routes = list(routes)
        self._expand = expand
        self._when_failed = when_failed
        #: Error that ended it early.
        self.failure: BaseException | None = None
        self._stopping = threading.Event()
        self._met: set[str] = set()
        #: Newest epoch of each stream, and whether its end was reported.
        self._epochs: dict[str, str] = {}
        self._ended: set[str] = set()
        self._looked = 0.0
        self._subscriber = tc.Subscriber(*sorted({*patterns, *(it.stream for it in routes)}), bus=bus)

    def run(self) -> None:
        """Reads until `stop`."""
        try:
            while not self._stopping.is_set():
                self._turn()
        except Exception as error:
            self.failure = error
            self._when_failed()

    def stop(self) -> list[Any]:
        """Ends the thread; returns the reader's accounts."""
        self._stopping.set()
        self.join()
        for route in self.routes:
            route.finish("the bridge has ended")
        return list(self._subscriber.close())

    def _turn(self) -> None:
        now = time.monotonic_ns()
        waits = [it.thinner.due_in_ns(now) / 1e9 for it in self.routes]
        block = self._subscriber.read(min([IDLE, *(wait for wait in waits if wait > 0)]))
        now = time.monotonic_ns()
        if block is not None:
            self._meet(block)
        for route in self.routes:
            if block is not None and block.stream == route.stream:
                route.take(block, now)
            else:
                route.poll(now)
        if now / 1e9 - self._looked >= POLL_INTERVAL:
            self._looked = now / 1e9
            self._look_for_ends()

    def _meet(self, block: Any) -> None:
        """Makes the routes of a new stream, and notes its epoch."""
        if self._epochs.get(block.stream) != block.epoch:
            self._epochs[block.stream] = block.epoch
            self._ended.discard(block.stream)
        if self._expand is not None and block.stream not in self._met:
            self._met.add(block.stream)
            self.routes += self._expand(block.stream, block.schema)

    def _look_for_ends(self) -> None:
        """Notifies the sinks of streams whose publisher has ended or fallen silent."""
        open_now = {(it.stream, it.epoch) for it in self._subscriber.accounts() if it.state == "open"}
        for stream, epoch in self._epochs.items():
            if (stream, epoch) not in open_now and stream not in self._ended:
                self._ended.add(stream)
                for route in self.routes:
                    if route.stream == stream:
                        route.finish("the stream has ended")


class Outgoing(Direction):
    """All channels that go out, by one reader of their streams."""

    def __init__(self, outflow: Outflow) -> None:
        self._outflow = outflow
        self._readers: list[Any] = []
        outflow.start()

    def finish(self) -> None:
        """Hands over what still waits."""
        self._readers = self._outflow.stop()

    def accounts(self) -> list[dict[str, Any]]:
        """Returns the accounts of the routes."""
        return [route.account() for route in self._outflow.routes]

    def readers(self) -> list[Any]:
        """Returns the accounts of the reader."""
        return self._readers

    def failure(self) -> BaseException | None:
        """Returns what ended the reading before its time."""
        return self._outflow.failure
