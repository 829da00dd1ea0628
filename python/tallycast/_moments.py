"""Moments as text, numbers or objects, in nanoseconds since 1970 UTC.

A moment is a whole number of nanoseconds, a text as on the command line (`2026-11-21T20:15:00Z`, `+10s` after the beginning of
what is known, `-30s` before its end), a `numpy.datetime64` (UTC, as NumPy has it), or a `datetime` or `pandas.Timestamp` with a
time zone.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, TypeAlias, Union

import numpy as np

from tallycast._core import moment_ns as moment_text_ns
from tallycast._errors import MomentError

Moment: TypeAlias = Union[int, "np.integer[Any]", str, datetime, np.datetime64]

#: The whole of time.
ALWAYS = (-(2**63), 2**63 - 1)

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def moment_ns(moment: Moment, known_ns: tuple[int, int] | None = None) -> int:
    """Returns a moment in nanoseconds since 1970 UTC; of a recording, of which `known_ns` is known, also a relative one."""
    if isinstance(moment, str):
        return moment_text_ns(moment, known_ns)
    if isinstance(moment, np.datetime64):
        return _of_datetime64(moment)
    if isinstance(moment, datetime):
        return _of_datetime(moment)
    if isinstance(moment, (int, np.integer)) and not isinstance(moment, bool):
        return _within(int(moment), moment)
    raise MomentError(
        f"invalid time {moment!r}\n"
        "give nanoseconds since 1970 as a whole number, a text such as '2026-11-21T20:15:00Z', '+10s' or '-30s', "
        "a numpy.datetime64, or a datetime with a time zone"
    )


def range_ns(t0: Moment | None, t1: Moment | None, known_ns: tuple[int, int], open_ns: tuple[int, int]) -> tuple[int, int]:
    """Returns the range from one moment to another, `open_ns` for those not given."""
    first = open_ns[0] if t0 is None else moment_ns(t0, known_ns)
    end = open_ns[1] if t1 is None else moment_ns(t1, known_ns)
    if (t0 is not None or t1 is not None) and first >= end:
        raise MomentError(
            f"the range is empty: it begins at {text_of(first)} and ends at {text_of(end)}\n"
            f"the recording lasts from {text_of(known_ns[0])} to {text_of(known_ns[1])}"
        )
    return first, end


def text_of(time_ns: int) -> str:
    """Returns a time as a text in UTC, to the nanosecond."""
    return f"{np.datetime64(time_ns, 'ns')}Z"


def _of_datetime64(moment: np.datetime64) -> int:
    if np.isnat(moment):
        raise MomentError("NaT is no time\nleave it out, or give a time")
    # To nanoseconds only what fits: NumPy would wrap it round.
    _within(int(moment.astype("datetime64[s]").astype(np.int64)) * 10**9, moment)
    return int(moment.astype("datetime64[ns]").astype(np.int64))


def _of_datetime(time: datetime) -> int:
    if time.tzinfo is None:
        raise MomentError(
            f"{time!r} has no time zone\n"
            "set one: time.replace(tzinfo=datetime.timezone.utc), or time.tz_localize('UTC') for a pandas.Timestamp"
        )
    since = time - _EPOCH
    # Of pandas alone.
    nanos = int(getattr(since, "nanoseconds", 0))
    return _within(((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) * 1_000 + nanos, time)


def _within(time_ns: int, moment: object) -> int:
    if not ALWAYS[0] <= time_ns <= ALWAYS[1]:
        raise MomentError(f"{moment!r} does not fit into 64 bits of nanoseconds\nuse a time between the years 1678 and 2262")
    return time_ns
