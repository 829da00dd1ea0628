"""Durations as text."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Union

from tallycast._core import duration_ns
from tallycast._errors import ConfigError

#: ``"10ms"`` as in the command (`units::text`), seconds as a number, or a ``timedelta``.
Duration = Union[str, int, float, timedelta]


def nanoseconds(duration: Duration) -> int:
    """Returns a duration in nanoseconds.

    >>> nanoseconds("10ms"), nanoseconds(0.5), nanoseconds(timedelta(minutes=1))
    (10000000, 500000000, 60000000000)

    Raises:
        ConfigError: if it is not a duration, or below zero.
    """
    if isinstance(duration, str):
        return duration_ns(duration)
    if isinstance(duration, timedelta):
        nanos = duration // timedelta(microseconds=1) * 1_000
    elif isinstance(duration, (int, float)) and math.isfinite(duration):
        nanos = round(duration * 1_000_000_000)
    else:
        raise ConfigError(f"{duration!r} is not a duration\nwrite 10ms, 2.5s, 8h, seconds as a number, or a timedelta")
    if nanos < 0:
        raise ConfigError(f"{duration!r} is negative\ngive a duration of 0 or more")
    return nanos
