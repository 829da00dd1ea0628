"""Moments as text, numbers or objects, in nanoseconds since 1970 UTC.

A moment is a whole number of nanoseconds, a text (`2026-11-21T20:15:00Z`, `+10s` after the beginning of what is known,
`-30s` before its end), a `numpy.datetime64` (UTC, as NumPy has it), or a `datetime` or `pandas.Timestamp` with a time zone.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias, Union

import numpy as np

from tallycast._core import duration_ns
from tallycast._errors import ArchiveError, ConfigError

Moment: TypeAlias = Union[int, "np.integer[Any]", str, datetime, np.datetime64]

#: The whole of time.
ALWAYS = (-(2**63), 2**63 - 1)

_UTC = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)",
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment_ns(moment: Moment, known_ns: tuple[int, int]) -> int:
    """Returns a moment in nanoseconds since 1970 UTC, for a recording of which `known_ns` is known."""
    if isinstance(moment, str):
        return _of_text(moment, known_ns)
    if isinstance(moment, np.datetime64):
        return _within(int(moment.astype("datetime64[ns]").astype(np.int64)), moment)
    if isinstance(moment, datetime):
        return _of_datetime(moment)
    if isinstance(moment, (int, np.integer)) and not isinstance(moment, bool):
        return _within(int(moment), moment)
    raise ArchiveError(
        f"invalid time {moment!r}\n"
        "give nanoseconds since 1970 as a whole number, a text such as '2026-11-21T20:15:00Z', '+10s' or '-30s', "
        "a numpy.datetime64, or a datetime with a time zone"
    )


def range_ns(t0: Moment | None, t1: Moment | None, known_ns: tuple[int, int], open_ns: tuple[int, int]) -> tuple[int, int]:
    """Returns the range from one moment to another, `open_ns` for those not given."""
    first = open_ns[0] if t0 is None else moment_ns(t0, known_ns)
    end = open_ns[1] if t1 is None else moment_ns(t1, known_ns)
    if (t0 is not None or t1 is not None) and first >= end:
        raise ArchiveError(
            f"the range is empty: it begins at {text_of(first)} and ends at {text_of(end)}\n"
            f"the recording lasts from {text_of(known_ns[0])} to {text_of(known_ns[1])}"
        )
    return first, end


def text_of(time_ns: int) -> str:
    """Returns a time as a text in UTC, to the nanosecond."""
    return f"{np.datetime64(time_ns, 'ns')}Z"


def _of_text(text: str, known_ns: tuple[int, int]) -> int:
    if text[:1] in ("+", "-"):
        return _relative(text, known_ns)
    found = _UTC.fullmatch(text)
    if found is None:
        raise ArchiveError(
            f"invalid time '{text}'\n"
            "write 2026-11-21T20:15:00Z (with Z or an offset such as +01:00), +10s after the beginning or -30s before the end"
        )
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    try:
        time = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), tzinfo=_zone(zone))
    except ValueError as wrong:
        raise ArchiveError(f"invalid time '{text}': {wrong}\nwrite it as 2026-11-21T20:15:00Z") from None
    return _of_datetime(time) + int((fraction or "0").ljust(9, "0"))


def _relative(text: str, known_ns: tuple[int, int]) -> int:
    try:
        duration = duration_ns(text[1:])
    except ConfigError as wrong:
        raise ArchiveError(f"invalid time '{text}': {wrong}\nwrite +10s after the beginning or -30s before the end") from None
    return known_ns[0] + duration if text[0] == "+" else known_ns[1] - duration


def _zone(text: str) -> timezone:
    if text == "Z":
        return timezone.utc
    hours, minutes = text[1:].split(":")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if text[0] == "-" else offset)


def _of_datetime(time: datetime) -> int:
    if time.tzinfo is None:
        raise ArchiveError(
            f"{time!r} has no time zone\n"
            "set one: time.replace(tzinfo=datetime.timezone.utc), or time.tz_localize('UTC') for a pandas.Timestamp"
        )
    since = time - _EPOCH
    # Of pandas alone.
    nanos = int(getattr(since, "nanoseconds", 0))
    return _within(((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1_000 + nanos, time)


def _within(time_ns: int, moment: object) -> int:
    if not ALWAYS[0] <= time_ns <= ALWAYS[1]:
        raise ArchiveError(f"{moment!r} does not fit into 64 bits of nanoseconds\nuse a time between the years 1678 and 2262")
    return time_ns
