"""Carries out the actions of a `Feed`: opens, feeds and closes the publishers of one stream, and keeps their totals."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

import tallycast as tc
from tallycast import _core

from ._feed import Action, Begin, End, Feed, Say, Send, Skip, Times, Values
from ._run import Reporter, Stopping

#: Before all times.
_NEVER_NS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Declaration:
    """Settings of a published stream, apart from its samples."""

    stream: str
    #: Samples per second; the expected rate if each sample has its own time.
    rate: Fraction
    bus: str | None = None
    station: str | None = None
    #: Whether the peer waits when the queue is full, or samples are overwritten.
    on_full: str = "overwrite"
    #: Time that small blocks wait to be sent together. Units: seconds.
    linger: float = 0.0
    #: Maximum time the first sample is held until there is a reader. Units: seconds.
    wait: float = 0.0
    #: Ends that waiting.
    stopping: Stopping = field(default_factory=Stopping)
    #: Each sample has its own time, because they come at no rate.
    own_times: bool = False
    labels: dict[str, str] = field(default_factory=dict)


class FeedPublisher:
    """Publishes one stream according to its feed."""

    def __init__(self, feed: Feed, declaration: Declaration, reporter: Reporter) -> None:
        _check(declaration.stream, declaration.bus)
        self.feed = feed
        self.declaration = declaration
        self._reporter = reporter
        self._publisher: Any = None
        #: Newest time sent in this epoch, for samples with individual times.
        self._newest_ns = _NEVER_NS
        #: The final totals of the publishers of all epochs.
        self.totals: list[dict[str, Any]] = []
        self.offered = 0
        #: Samples and holes for which there was no publisher, because none could be opened.
        self._unoffered = 0
        #: Reason why the publisher of this epoch could not be opened.
        self._unopened = ""

    def do(self, actions: Iterable[Action]) -> None:
        """Does one action after the other; what cannot be published is refused, and the next action is done.

        # Errors
        Those of `tc.Publisher` that are no fault of what the peer sent.
        """
        for action in actions:
            match action:
                case Begin():
                    self._begin(action)
                case Send():
                    self._send_or_refuse(action)
                case Skip(samples):
                    self._skip(samples)
                case End():
                    self._end()
                case Say(event, text):
                    self.say(event, text)

    def say(self, event: str, text: str) -> None:
        """Prints a message about this stream."""
        self._reporter.say(event, text, stream=self.declaration.stream, peer=self.feed.peer)

    def close(self, wall_ns: int) -> dict[str, Any]:
        """Ends the stream and returns its account."""
        self.do(self.feed.end(wall_ns))
        counters = self.feed.counters
        told = counters.samples + sum(counters.skipped.values())
        return {
            "way": "in",
            "stream": self.declaration.stream,
            "peer": self.feed.peer,
            **counters.as_dict(),
            "balanced": counters.balanced and told == self.offered + self._unoffered,
            "totals": self.totals,
        }

    def _begin(self, action: Begin) -> None:
        it, form = self.declaration, action.form
        channels = {name: tc.Channel(unit, shape=form.shape) for name, unit in form.channels}
        try:
            self._publisher = tc.Publisher(
                it.stream,
                channels=channels,
                dtype=form.dtype,
                rate=it.rate,
                labels={**dict(form.labels), **it.labels},
                own_times=it.own_times,
                on_full=it.on_full,
                linger=it.linger,
                bus=it.bus,
                station=it.station,
            )
        except tc.ConfigError as error:
            self._unopened = f"{form} cannot be a stream: {error}"
            self.feed.unopened()
            return
        self._newest_ns = _NEVER_NS
        self.say("began", str(form))
        deadline = time.monotonic() + it.wait
        while not self._publisher.wait_for_readers(timeout=0.0) and (left := deadline - time.monotonic()) > 0:
            if it.stopping.wait(min(left, 0.05)):
                break

    def _skip(self, samples: int) -> None:
        if self._publisher is None:
            self._unoffered += samples
        else:
            self._publisher.skip(samples)
            self.offered += samples

    def _send_or_refuse(self, action: Send) -> None:
        """Publishes samples; those that no stream takes are a hole."""
        why = self._unopened
        if self._publisher is not None:
            try:
                self._send(action.values, action.t0_ns, action.times_ns)
                self.offered += len(action.values)
                return
            except tc.ConfigError as error:
                why = str(error)
        self.do(self.feed.unpublished(len(action.values), why, time.monotonic_ns()))

    def _send(self, values: Values, t0_ns: int | None, times_ns: Times | None) -> None:
        if not self.declaration.own_times:
            if t0_ns is not None and self._publisher._would_begin_anew(t0_ns):
                # More than a publisher makes up for, such as of a peer that is much faster than its rate.
                self.say("clock", "a second before the newest sample by the rate: a new epoch")
                self.totals.append(self._publisher.begin_anew())
            self._publisher.send(values, t0_ns)
            return
        if times_ns is None:
            assert t0_ns is not None, "own times are given by t0_ns or times_ns"
            # Of several samples with one time the nominal rate is all that is known.
            period_ns = Fraction(1_000_000_000) / self.declaration.rate
            times_ns = np.array([t0_ns + int(place * period_ns) for place in range(len(values))], dtype=np.int64)
        # Samples of one time may have been given later times than the update behind them has.
        times_ns = np.maximum(times_ns, self._newest_ns)
        self._newest_ns = max(self._newest_ns, int(times_ns.max(initial=_NEVER_NS)))
        self._publisher.send(values, times=times_ns)

    def _end(self) -> None:
        if self._publisher is None:
            return
        self.totals.append(self._publisher.close())
        self._publisher = None


def _check(stream: str, bus: str | None) -> None:
    """Refuses what the user has asked for and cannot be, before a peer sends anything."""
    _core.check_stream_name(stream)
    _check_bus(bus)


@lru_cache(maxsize=8)
def _check_bus(bus: str | None) -> None:
    tc.streams(0.0, bus)
