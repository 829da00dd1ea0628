"""Turns a peer's updates into the samples, holes and epochs of one stream.

A `Feed` takes updates of the peer and returns actions: begin an epoch, send, skip, end it, notify the user. It has no clock, no
network and no publisher (`_feed_publisher` carries out its actions), so that every decision about a hole can be tested alone.

Rules:

- An update that the peer itself marks as bad is a hole of as many samples as it carries.
- While the peer is away its updates are unknown. If it returns with the update that was seen last, none was missed. Otherwise,
  with updates at a known rate, the peer's own time stamps give the number of missing ones; without a rate the hole is
  *one* sample, a mark, and the message and the account state that the count is unknown (``uncounted``).
- Another dtype, shape or unit begins a new epoch of the publisher. So does a clock that is set back by more than
  `SMALL_STEP_NS`; after a smaller step, updates older than the newest sample are a hole: within an epoch times never go back.
- Refused or older updates are holes as well; at a known rate the next time stamp counts them, so that they are not counted twice.
- A time stamp or a count that leaves out more than `MAX_MISSED` samples is no count of missing ones: the former begins a new epoch,
  the latter is a mark.
- An update that cannot be published (a name, a size, a time that a stream cannot have) is refused like one that cannot be read.
- An epoch lasts `MIN_EPOCH_NS` at least: updates that do not fit into it meanwhile are holes. So a peer that changes its form
  with every update costs no more than one epoch a second.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Union

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]
Times = npt.NDArray[np.int64]

#: Steps back of the peer's clock up to this are waited out; larger ones begin an epoch.
SMALL_STEP_NS = 1_000_000_000
#: An epoch lasts at least this long before another form begins the next.
MIN_EPOCH_NS = 1_000_000_000
#: Longest hole that a peer's count or clock makes, in samples: twelve days at a megahertz, more is a broken counter.
MAX_MISSED = 1 << 40
#: Minimum interval between messages about a condition that repeats with every update.
SAY_AGAIN_NS = 10_000_000_000
#: Maximum number of outages listed in the account, the newest ones; all are counted.
MAX_OUTAGES = 100

NS = 1_000_000_000


@dataclass(frozen=True)
class Form:
    """The form of the samples of one epoch."""

    #: Name and unit of each channel.
    channels: tuple[tuple[str, str], ...]
    #: Type of every element, as NumPy has it.
    dtype: np.dtype[Any]
    #: Shape of one sample of one channel.
    shape: tuple[int, ...] = ()
    #: Free text about the stream; a change does not begin a new epoch.
    labels: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        shape = "×".join(str(n) for n in self.shape)
        units = ", ".join(f"{name} [{unit}]" if unit else name for name, unit in self.channels)
        return f"{self.dtype.name}{' ' + shape if shape else ''} ({units})"


@dataclass(frozen=True)
class Begin:
    """Open a publisher."""

    form: Form


@dataclass(frozen=True)
class Send:
    """Publish samples, the first of which has the time ``t0_ns``; None: times follow from count and rate.

    ``times_ns``: time of each of them, for streams without a rate.
    """

    values: Values
    t0_ns: int | None
    times_ns: Times | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Skip:
    """Say that the source does not have the next samples."""

    samples: int


@dataclass(frozen=True)
class End:
    """Close the publisher."""


@dataclass(frozen=True)
class Say:
    """Tell the user, once."""

    event: str
    text: str


Action = Union[Begin, Send, Skip, End, Say]


@dataclass
class Counters:
    """Counts of everything that came from the peer.

    The law, which `balanced` checks:
    ``updates = sent + bad + repeated + behind + unfitting + refused``; each is counted where it happens.
    """

    updates: int = 0
    #: Updates whose samples were published.
    sent: int = 0
    #: Updates that the peer called bad, by its reason.
    bad: dict[str, int] = field(default_factory=dict)
    #: Updates that had been received before.
    repeated: int = 0
    #: Updates with a time before the newest sample's.
    behind: int = 0
    #: Updates that did not fit into an epoch that had just begun.
    unfitting: int = 0
    #: Updates that cannot be samples, such as strings.
    refused: int = 0
    #: Samples published.
    samples: int = 0
    #: Samples published as holes of stage ``source``, by reason.
    skipped: dict[str, int] = field(default_factory=dict)
    #: Holes of one sample that represent an unknown number.
    uncounted: int = 0
    epochs: int = 0
    outages: int = 0
    #: Newest outages: wall times of their start and end, and the number of samples known to be missing.
    outage_list: list[dict[str, Any]] = field(default_factory=list)

    @property
    def balanced(self) -> bool:
        """Returns whether every update is counted exactly once."""
        placed = self.sent + sum(self.bad.values()) + self.repeated + self.behind + self.unfitting + self.refused
        return self.updates == placed

    def as_dict(self) -> dict[str, Any]:
        """Returns the counters for JSON."""
        return {
            "updates": self.updates,
            "sent": self.sent,
            "bad": dict(self.bad),
            "repeated": self.repeated,
            "behind": self.behind,
            "unfitting": self.unfitting,
            "refused": self.refused,
            "samples": self.samples,
            "skipped": dict(self.skipped),
            "uncounted": self.uncounted,
            "lives": self.epochs,
            "outages": self.outages,
            "outage_list": list(self.outage_list),
            "balanced": self.balanced,
        }


class Feed:
    """Decides about one stream.

    ``rate`` is that of samples where the peer is known to keep one: of the updates of a scalar, or of the samples in a
    waveform that is a run of them. None: updates are irregular, and only the peer can report that one is missing.
    """

    def __init__(self, peer: str, rate: Fraction | None = None) -> None:
        self.peer = peer
        self.counters = Counters()
        self._sample_ns = None if rate is None else Fraction(NS) / rate
        self._form: Form | None = None
        self._began_ns = 0
        #: Time, values and count of the newest update that was looked at.
        self._last: tuple[int, Values] | None = None
        #: Time at which the next sample is due by the peer's clock.
        self._due_ns: Fraction | None = None
        #: Samples in the newest update.
        self._block = 1
        #: The current epoch has no sample yet.
        self._is_fresh = True
        self._away: str | None = None
        self._away_since_ns = 0
        self._bad: str | None = None
        self._bad_run = 0
        self._said_ns: dict[str, int] = {}

    @property
    def form(self) -> Form | None:
        """The form of the current epoch."""
        return self._form

    def update(
        self,
        form: Form,
        values: Values,
        t_ns: int | None,
        now_ns: int,
        *,
        bad: str | None = None,
        times_ns: Times | None = None,
    ) -> Iterator[Action]:
        """Takes what came.

        Shape of ``values``: ``[samples, *sample]``. ``t_ns``: time of the first by the peer's clock, UTC; None where
        the peer gives none: then it follows from count and rate. ``now_ns``: any monotonic clock. ``bad``: the peer's reason
        for marking these samples as bad. ``times_ns``: time of each, in order; see `rows`.
        """
        counters, count = self.counters, len(values)
        counters.updates += 1
        if t_ns is not None and self._was_seen(t_ns, values):
            counters.repeated += 1
            if self._away is not None:
                yield from self._back(t_ns, 0, "no samples were missed")
            return
        if form != self._form:
            if self._form is not None and now_ns - self._began_ns < MIN_EPOCH_NS:
                counters.unfitting += 1
                yield from self._skip_untimed(count, "unfitting")
                yield from self._sometimes(
                    "unfitting", now_ns, f"{form} does not fit into an epoch that has just begun; a hole"
                )
                return
            yield from self._begin(form, now_ns)
        if t_ns is None and bad is not None and self._sample_ns is not None:
            # Without a time it has no place among samples at a rate: the next good one gives the number of missing samples.
            counters.bad[bad] = counters.bad.get(bad, 0) + 1
            yield from self._sometimes("bad", now_ns, f"{bad}: not counted among the samples")
            return
        if t_ns is not None and self._last is not None and t_ns < self._last[0]:
            step_ns = self._last[0] - t_ns
            if step_ns <= SMALL_STEP_NS:
                counters.behind += 1
                yield from self._skip_untimed(count, "behind")
                yield from self._sometimes("behind", now_ns, f"{step_ns / NS:.3g} s before the newest sample; a hole")
                return
            yield Say("clock", f"the clock was set back by {step_ns / NS:.6g} s: a new epoch")
            yield from self._begin(form, now_ns)
        if self._missed_by(t_ns) > MAX_MISSED:
            yield Say("clock", "the clock went forward by more than a hole can be long: a new epoch")
            yield from self._begin(form, now_ns)
        yield from self._missing_before(t_ns, now_ns)
        self._is_fresh = False
        if t_ns is not None:
            newest_ns = t_ns if times_ns is None else int(times_ns[-1])
            self._last = (newest_ns, values)
            if self._sample_ns is not None:
                self._block = count if times_ns is None else 1
                self._due_ns = newest_ns + self._block * self._sample_ns
        if bad is not None:
            counters.bad[bad] = counters.bad.get(bad, 0) + 1
            yield from self._skip(count, "bad")
            if bad != self._bad:
                yield Say("bad", f"{bad}: a hole from here on")
            self._bad, self._bad_run = bad, self._bad_run + count
            return
        if self._bad is not None:
            yield Say("good", f"good again after {self._bad_run} samples")
            self._bad, self._bad_run = None, 0
        counters.sent += 1
        counters.samples += count
        yield Send(values, t_ns, times_ns)

    def rows(self, form: Form, values: Values, times_ns: Times, now_ns: int) -> Iterator[Action]:
        """Takes samples with individual times, such as the rows of a table: in runs without a hole."""
        steps = np.diff(times_ns)
        breaks = steps < 0
        if self._sample_ns is not None:
            breaks |= steps >= float(self._sample_ns) * 1.5
        edges = [0, *(int(it) + 1 for it in np.flatnonzero(breaks)), len(values)]
        for first, end in zip(edges, edges[1:]):
            times = times_ns[first:end]
            yield from self.update(form, values[first:end], int(times[0]), now_ns, times_ns=times)

    def seen_again(self) -> Iterator[Action]:
        """Takes an update that the peer marks as repeated."""
        self.counters.updates += 1
        self.counters.repeated += 1
        yield from ()

    def restarted(self, why: str) -> Iterator[Action]:
        """Handles the peer's loss of its count: a hole of one sample marks it."""
        if self._form is not None:
            self.counters.uncounted += 1
            yield from self._skip(1, "restarted")
            yield Say("restarted", f"{why}; the number of missed samples is unknown")

    def refuse(self, why: str, now_ns: int) -> Iterator[Action]:
        """Takes an update that cannot be a sample of any epoch."""
        self.counters.updates += 1
        self.counters.refused += 1
        if self._form is not None:
            yield from self._skip_untimed(1, "refused")
        yield from self._sometimes("refused", now_ns, why)

    def unpublished(self, samples: int, why: str, now_ns: int) -> Iterator[Action]:
        """Takes back a `Send` that no publisher could take: its update counts as refused."""
        self.counters.sent -= 1
        self.counters.samples -= samples
        self.counters.refused += 1
        if self._form is not None:
            yield from self._skip(samples, "refused")
        yield from self._sometimes("refused", now_ns, why)

    def unopened(self) -> None:
        """Takes back a `Begin` for which no publisher could be opened: the next update begins again."""
        self.counters.epochs -= 1
        self._form = None

    def lost(self, samples: int, why: str, now_ns: int) -> Iterator[Action]:
        """Takes the peer's count of samples missing before the next."""
        if samples > MAX_MISSED:
            yield from self.restarted(f"{samples} samples are more than a hole can be long: {why}")
            return
        if samples > 0 and self._form is not None:
            yield from self._skip_told(samples, "missed")
            yield from self._sometimes("missed", now_ns, f"{samples} samples missing: {why}")

    def away(self, why: str, wall_ns: int) -> Iterator[Action]:
        """Handles the absence of the peer."""
        if self._away is None:
            self._away, self._away_since_ns = why, wall_ns
            self.counters.outages += 1
            yield Say("away", why)

    def back(self, wall_ns: int, samples: int = 0) -> Iterator[Action]:
        """Notes that the peer is back, and how many samples were missed."""
        if samples > MAX_MISSED:
            yield from self.lost(samples, "by the peer's count", wall_ns)
            samples = 0
        if self._away is not None:
            if self._form is not None:
                yield from self._skip_told(samples, "away")
            yield from self._back(
                wall_ns, samples, f"{samples} samples were missed" if samples else "no samples were missed"
            )

    @property
    def is_away(self) -> bool:
        """True while the peer is absent."""
        return self._away is not None

    def end(self, wall_ns: int) -> Iterator[Action]:
        """Ends the stream. Who is away then leaves a mark."""
        if self._away is not None and self._form is not None:
            self.counters.uncounted += 1
            yield from self._skip(1, "away")
            yield from self._back(wall_ns, None, "away until the end; the number of missed samples is unknown")
        if self._form is not None:
            self._form = None
            yield End()

    def _was_seen(self, t_ns: int, values: Values) -> bool:
        if self._last is None or self._last[0] != t_ns:
            return False
        before = self._last[1]
        return before.dtype == values.dtype and before.shape == values.shape and before.tobytes() == values.tobytes()

    def _begin(self, form: Form, now_ns: int) -> Iterator[Action]:
        if self._form is not None:
            if form != self._form:
                yield Say("form", f"{self._form} is now {form}: a new epoch")
            yield End()
        self._form, self._began_ns = form, now_ns
        self._last = self._due_ns = None
        self._is_fresh = True
        self.counters.epochs += 1
        yield Begin(form)

    def _missing_before(self, t_ns: int | None, now_ns: int) -> Iterator[Action]:
        """Reports the missing samples between the newest one and the one at ``t_ns``."""
        counted = self._missed_by(t_ns) if t_ns is not None and self._due_ns is not None else None
        if self._away is None:
            if counted:
                yield from self._skip(counted, "missed")
                yield from self._sometimes("missed", now_ns, f"{counted} samples missing by the time stamps")
            return
        if counted is not None:
            yield from self._skip(counted, "away")
            yield from self._back(t_ns, counted, f"{counted} samples missing by the time stamps")
        elif self._is_fresh:
            # An epoch that begins after an outage has no samples before it: readers see the time as one without publisher.
            yield from self._back(t_ns, None, "back in a new epoch")
        else:
            self.counters.uncounted += 1
            yield from self._skip(1, "away")
            yield from self._back(t_ns, None, "the number of missed samples is unknown; a hole of one sample marks it")

    def _missed_by(self, t_ns: int | None) -> int:
        """Returns the number of samples missing before the one at ``t_ns``, by the rate; 0 where it is not known."""
        if t_ns is None or self._due_ns is None or self._sample_ns is None:
            return 0
        blocks = round((t_ns - self._due_ns) / (self._block * self._sample_ns))
        return max(blocks, 0) * self._block

    def _back(self, t_ns: int | None, counted: int | None, text: str) -> Iterator[Action]:
        outage = {"from_ns": self._away_since_ns, "to_ns": t_ns, "why": self._away, "samples": counted}
        self.counters.outage_list = [*self.counters.outage_list, outage][-MAX_OUTAGES:]
        self._away = None
        yield Say("back", text)

    def _skip_untimed(self, samples: int, why: str) -> Iterator[Action]:
        """Skips, unless the next time stamp will give the number of missing samples."""
        if self._due_ns is None:
            yield from self._skip(samples, why)

    def _skip_told(self, samples: int, why: str) -> Iterator[Action]:
        """Skips the peer's count; the next time stamp must not count the same samples again."""
        if self._due_ns is not None and self._sample_ns is not None:
            self._due_ns += samples * self._sample_ns
        yield from self._skip(samples, why)

    def _skip(self, samples: int, why: str) -> Iterator[Action]:
        if samples > 0:
            self.counters.skipped[why] = self.counters.skipped.get(why, 0) + samples
            yield Skip(samples)

    def _sometimes(self, event: str, now_ns: int, text: str) -> Iterator[Action]:
        said = self._said_ns.get(event)
        if said is None or now_ns - said >= SAY_AGAIN_NS:
            self._said_ns[event] = now_ns
            yield Say(event, text)
