"""Times of data sets and variables: their units as text, their origin, and where a rate may stand.

Source: CF conventions 1.11, section 4.4 "Time Coordinate"; NeXus, NXlog `start`.
"""

from __future__ import annotations

import re
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

import numpy as np

from tallycast._errors import FileError
from tallycast._schema import rate_text
from tallycast.readers._group import rate_of_hz, rate_of_period

#: Nanoseconds per unit.
PER_UNIT = {
    "ns": 1, "nanosecond": 1, "nanoseconds": 1, "nsec": 1,
    "us": 10**3, "µs": 10**3, "μs": 10**3, "microsecond": 10**3, "microseconds": 10**3, "usec": 10**3,
    "ms": 10**6, "millisecond": 10**6, "milliseconds": 10**6, "msec": 10**6, "millisec": 10**6,
    "s": 10**9, "sec": 10**9, "secs": 10**9, "second": 10**9, "seconds": 10**9,
    "min": 60 * 10**9, "minute": 60 * 10**9, "minutes": 60 * 10**9,
    "h": 3_600 * 10**9, "hr": 3_600 * 10**9, "hour": 3_600 * 10**9, "hours": 3_600 * 10**9,
    "d": 86_400 * 10**9, "day": 86_400 * 10**9, "days": 86_400 * 10**9,
}  # fmt: skip
#: Names of a series of times.
TIME_NAMES = ("time", "t", "timestamp", "timestamps", "time_ns", "time_us", "time_ms", "time_s", "times")
#: Names of a rate in hertz, and of a period in seconds, in lower case.
RATE_NAMES = ("sample_rate", "sampling_rate", "samplerate", "samplingrate", "sampling_frequency", "rate", "fs")
PERIOD_NAMES = ("dt", "sample_interval", "sampling_interval", "sample_period", "sampling_period", "wf_increment", "delta_t")

_SINCE = re.compile(r"\s*(\S+)\s+since\s+(\d{1,4}-\d{1,2}-\d{1,2})(?:[T ]\s*(\S+))?(?:\s+(\S+))?\s*", re.IGNORECASE)
_MOMENT = re.compile(
    r"(\d+)-(\d+)-(\d+)T(\d+)(?::(\d+))?(?::(\d+))?(?:\.(\d{1,9})\d*)?(Z|UTC|[+-]\d\d:?\d\d|[+-]\d)?"
)
_CALENDARS = ("", "standard", "gregorian", "proleptic_gregorian")


def unit_and_origin(units: str, name: str, calendar: str = "") -> tuple[int, int | None] | None:
    """Returns nanoseconds per unit, and the moment that times count from if the unit tells it; None of other quantities.

    >>> unit_and_origin("milliseconds since 1970-01-02", "time")
    (1000000, 86400000000000)
    """
    found = _SINCE.fullmatch(units)
    if found is None:
        ending = name.lower().rpartition("_")[2]
        per_unit = PER_UNIT.get(units.strip()) if units.strip() else PER_UNIT.get(ending if ending in ("ns", "us", "ms") else "s")
        return None if per_unit is None else (per_unit, None)
    unit, day, clock, zone = found.groups()
    if unit.lower() not in PER_UNIT or calendar.lower() not in _CALENDARS:
        raise FileError(f"the times of {name} are '{units}' {calendar}\nname another time variable, or `none`")
    return PER_UNIT[unit.lower()], moment_ns(f"{day}T{clock or '00:00:00'}{zone or ''}", name)


def moment_ns(text: str, name: str) -> int:
    """Returns a moment of ISO 8601 in nanoseconds; one without a zone is UTC."""
    found = _MOMENT.fullmatch(text.strip().replace(" ", "T", 1))
    if found is None:
        raise FileError(f"the time '{text}' of {name} is not understood\nname another time, or `none`")
    year, month, day, hour, minute, second = (int(it or 0) for it in found.groups()[:6])
    fraction, zone = found[7] or "", found[8] or "Z"
    seconds = int(datetime(year, month, day, hour, minute, second, tzinfo=timezone.utc).timestamp())
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "").zfill(2).ljust(4, "0")
        offset = int(digits[:2]) * 3_600 + int(digits[2:]) * 60
        seconds += offset if zone[0] == "-" else -offset
    return seconds * 10**9 + int(fraction.ljust(9, "0"))


def rate_in(values: dict[str, Any]) -> Fraction | None:
    """Returns the rate among attributes or variables, by the usual names."""
    by_name = {name.lower(): value for name, value in values.items()}
    for names, read in ((RATE_NAMES, rate_of_hz), (PERIOD_NAMES, rate_of_period)):
        for name in names:
            value = by_name.get(name)
            if isinstance(value, str) and value:
                try:
                    return Fraction(rate_text(value))
                except ValueError:
                    continue
            if value is not None and np.size(value) == 1 and np.asarray(value).dtype.kind in "iuf":
                if (rate := read(float(np.asarray(value).reshape(-1)[0]))) is not None:
                    return rate
    return None


def text(value: Any) -> str:
    """Returns an attribute as text: files have it as bytes, as text, or as an array of one of them."""
    if isinstance(value, np.ndarray):
        value = value.reshape(-1)[0] if value.size else ""
    return value.decode(errors="replace") if isinstance(value, bytes) else value if isinstance(value, str) else ""
