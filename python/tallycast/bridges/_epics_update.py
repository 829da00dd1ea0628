"""Conversion of a process variable's updates to samples: types, time stamps, severity. Pure.

Both protocols are brought to `Meta` (what the PV is) and `Reading` (one update); `Pv` turns them into what a `Feed` takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

import tallycast as tc
from tallycast._samples import exact

from ._feed import Action, Feed, Form
from ._payload import TIMES_NS

#: EPICS counts from 1990; a stamp within its first day was never set.
UNDEFINED_BEFORE_NS = (631_152_000 + 86_400) * 1_000_000_000

#: Names of alarm severities, by their number on both protocols.
SEVERITIES = ("no alarm", "minor", "major", "invalid")

#: From which severity on a value is no sample.
BAD_FROM = {"invalid": 3, "major": 2, "minor": 1, "never": 4}

#: Separator of the names of menu states in one label.
STATE_DIVIDER = "|"


@dataclass(frozen=True)
class Meta:
    """Metadata of a PV, from its server."""

    #: Type of an element; None where there is no number in it.
    dtype: np.dtype[Any] | None
    #: Elements of one value; None for a scalar.
    length: int | None
    unit: str = ""
    #: Names of the states of a menu.
    states: tuple[str, ...] = ()
    #: Type in the protocol's own terms, for the message that refuses it.
    kind: str = ""


@dataclass(frozen=True)
class Reading:
    """One update."""

    value: npt.NDArray[Any]
    t_ns: int
    severity: int


@dataclass(frozen=True)
class Unreadable:
    """An update that is not what its protocol says."""

    why: str


class Pv:
    """Decides what the updates of one PV are as samples of one stream."""

    def __init__(
        self,
        feed: Feed,
        *,
        channel: str,
        flatten: Fraction | None = None,
        bad_from: int = 3,
        with_severity: bool = False,
        stamp_at_end: bool = False,
        unit: str | None = None,
    ) -> None:
        self.feed = feed
        self._channel = channel
        self._flatten = flatten
        self._bad_from = bad_from
        self._with_severity = with_severity
        self._stamp_at_end = stamp_at_end
        self._unit = unit
        self._meta: Meta | None = None

    def meta(self, meta: Meta) -> None:
        """Takes the server's metadata of the PV; later updates are read with them."""
        self._meta = meta

    def reading(self, reading: Reading, now_ns: int) -> Iterator[Action]:
        """Takes an update."""
        meta = self._meta
        if meta is None or meta.dtype is None:
            kind = "not known" if meta is None else meta.kind
            yield from self.feed.refuse(f"the type is {kind}: only numbers and menus can be samples", now_ns)
            return
        values = np.atleast_1d(np.asarray(reading.value))
        if values.dtype.kind not in "biuf" or (meta.length is None and values.size != 1):
            yield from self.feed.refuse(
                f"a value of {values.dtype} [{values.size}] contradicts the description of the PV", now_ns
            )
            return
        try:
            values = exact(values, meta.dtype)
        except tc.ConfigError:
            yield from self.feed.refuse(f"a value of {values.dtype} is not exact as {meta.dtype}, the type of the PV", now_ns)
            return
        if not values.size:
            yield from self.feed.refuse("an empty waveform", now_ns)
            return
        # A severity that no version of EPICS has is as good as none.
        severity = reading.severity if 0 <= reading.severity < len(SEVERITIES) else len(SEVERITIES) - 1
        is_run = meta.length is None or self._flatten is not None
        shape = () if is_run else (values.size,)
        if self._with_severity:
            if not is_run:
                yield from self.feed.refuse(
                    "`severity` is not possible with whole waveforms\nomit it, or use `flatten`", now_ns
                )
                return
            values = np.stack([values, np.full_like(values, severity)], axis=1)
        elif not is_run:
            values = values[np.newaxis]
        bad = SEVERITIES[severity] if severity >= self._bad_from else None
        t_ns: int | None = reading.t_ns
        if reading.t_ns < UNDEFINED_BEFORE_NS or reading.t_ns not in TIMES_NS:
            # A record that was never processed. A sample without its time would be a guess.
            t_ns, bad = None, bad or "no time stamp"
        elif self._flatten is not None and self._stamp_at_end:
            t_ns = reading.t_ns - int(len(values) * 1_000_000_000 / self._flatten)
        yield from self.feed.update(self._form(meta, shape), values, t_ns, now_ns, bad=bad)

    def _form(self, meta: Meta, shape: tuple[int, ...]) -> Form:
        assert meta.dtype is not None
        unit = meta.unit if self._unit is None else self._unit
        channels: tuple[tuple[str, str], ...] = ((self._channel, unit),)
        if self._with_severity:
            channels += (("severity", ""),)
        labels: tuple[tuple[str, str], ...] = (("pv", self.feed.peer),)
        if meta.states:
            labels += (("states", STATE_DIVIDER.join(meta.states)),)
        return Form(channels, meta.dtype, shape, labels)
