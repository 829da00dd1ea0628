"""Downsampling of a fast stream to slow updates: one value for all samples since the last one. No clock, no network.

A `Thinner` takes blocks and returns, at most ``rate`` times per second, one `Thinned` for everything since the last:
a value, the time of its newest sample, the number of its samples and of missing ones. Samples not returned are carried
into the next, so that ``samples`` and ``missing`` of all outputs add up to the input.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[Any]

#: Statistics of the samples of one output.
METHODS: dict[str, Callable[[Values], Values]] = {
    "last": lambda values: values[-1],
    "mean": lambda values: values.mean(axis=0, dtype=np.float64),
    "min": lambda values: values.min(axis=0),
    "max": lambda values: values.max(axis=0),
}

#: Blocks are folded when this many samples wait, so that memory stays bounded at any rate.
MAX_WAITING_SAMPLES = 1 << 20


@dataclass(frozen=True)
class Thinned:
    """One output."""

    #: None where every sample was missing.
    value: Values | None
    #: Time of the newest sample, UTC.
    t_ns: int
    #: Number of samples.
    samples: int
    #: Samples that are missing among them.
    missing: int


class Thinner:
    """One output of one channel.

    ``rate`` None: every sample is one output.
    """

    def __init__(self, method: str, rate: Fraction | None) -> None:
        self._fold = METHODS[method]
        self._is_mean = method == "mean"
        self._interval_ns = None if rate is None else Fraction(1_000_000_000) / rate
        self._waiting: list[Values] = []
        self._weights: list[int] = []
        self._samples = 0
        self._missing = 0
        self._t_ns = 0
        self._next_ns: Fraction | None = None
        #: Samples, and missing ones, that went into outputs.
        self.told = 0
        self.told_missing = 0

    def lost(self, samples: int, t_ns: int) -> None:
        """Takes a hole that ends at ``t_ns``."""
        self._missing += samples
        self._t_ns = max(self._t_ns, t_ns)

    def offer(self, values: Values, times_ns: npt.NDArray[np.int64]) -> list[Thinned]:
        """Takes samples ``[samples, *sample]``; returns outputs only where every sample is one."""
        if not len(values):
            return []
        if self._interval_ns is None:
            outputs = []
            for value, t_ns in zip(values, times_ns):
                outputs.append(self._tell(Thinned(np.array(value), int(t_ns), 1, self._missing)))
                self._missing = 0
            return outputs
        self._waiting.append(np.array(values))
        self._weights.append(len(values))
        self._samples += len(values)
        self._t_ns = int(times_ns[-1])
        if sum(len(block) for block in self._waiting) > MAX_WAITING_SAMPLES:
            self._shorten()
        return []

    def poll(self, now_ns: int) -> Thinned | None:
        """Returns the output that is due by a monotonic clock, if anything came."""
        if self._interval_ns is None:
            return None
        if self._next_ns is not None and now_ns < self._next_ns:
            return None
        output = self.flush()
        if output is not None:
            # Keeps the previous grid while possible, so that delays of the caller do not add up.
            on_grid = now_ns if self._next_ns is None else self._next_ns
            self._next_ns = max(on_grid + self._interval_ns, Fraction(now_ns) + self._interval_ns / 2)
        return output

    def flush(self) -> Thinned | None:
        """Returns everything that waits, due or not."""
        if not self._samples and not self._missing:
            return None
        output = Thinned(self._value(), self._t_ns, self._samples, self._missing)
        self._waiting, self._weights, self._samples, self._missing = [], [], 0, 0
        return self._tell(output)

    def due_in_ns(self, now_ns: int) -> int:
        """Returns the time to wait before `poll` may return something."""
        if self._next_ns is None:
            return 0
        return max(int(self._next_ns - now_ns), 0)

    def _value(self) -> Values | None:
        if not self._waiting:
            return None
        if self._is_mean:
            total = sum(self._fold(block) * weight for block, weight in zip(self._waiting, self._weights))
            return np.asarray(total / sum(self._weights))
        return np.array(self._fold(np.concatenate(self._waiting)))

    def _shorten(self) -> None:
        value = self._value()
        assert value is not None, "something waits"
        self._waiting, self._weights = [value[np.newaxis]], [sum(self._weights)]

    def _tell(self, output: Thinned) -> Thinned:
        self.told += output.samples
        self.told_missing += output.missing
        return output
