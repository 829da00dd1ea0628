"""Durations as text."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Union

from tallycast._errors import ConfigError

#: ``"10ms"``, seconds as a number, or a ``timedelta``.
Duration = Union[str, int, float, timedelta]

_NANOS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
}
_WRITTEN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zµ]+)\s*")


def nanoseconds(duration: Duration) -> int:
    """Returns a duration in nanoseconds.

    >>> nanoseconds("10ms"), nanoseconds(0.5), nanoseconds(timedelta(minutes=1))
    (10000000, 500000000, 60000000000)

    Raises:
        ConfigError: if it is not a duration, or below zero.
    """
    help = "write 10ms, 2.5s, 8h, seconds as a number, or a timedelta"
    if isinstance(duration, str):
        written = _WRITTEN.fullmatch(duration)
        factor = _NANOS.get(written[2]) if written else None
        if written is None or factor is None:
            raise ConfigError(f"`{duration}` is not a duration\n{help}")
        # By parts: a float of nanoseconds is not exact beyond some months.
        whole, _, rest = written[1].partition(".")
        return int(whole) * factor + (round(int(rest) * factor / 10 ** len(rest)) if rest else 0)
    if isinstance(duration, timedelta):
        nanos = duration // timedelta(microseconds=1) * 1_000
    elif isinstance(duration, (int, float)) and math.isfinite(duration):
        nanos = round(duration * 1_000_000_000)
    else:
        raise ConfigError(f"{duration!r} is not a duration\n{help}")
    if nanos < 0:
        raise ConfigError(f"{duration!r} is negative\n{help}")
    return nanos
