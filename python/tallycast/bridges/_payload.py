"""Conversion of message payloads to samples: a number, JSON with paths, or raw little-endian elements. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from tallycast._moments import moment_ns

#: Nanoseconds per unit of a time in a payload; `iso` is text.
TIME_UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}

#: Names of dtypes (docs/reference/glossary.md), and their NumPy types.
DTYPES: dict[str, np.dtype[Any]] = {
    **{f"{kind}{bits}": np.dtype(f"<{kind}{bits // 8}") for kind in "iu" for bits in (8, 16, 32, 64)},
    "f4": np.dtype("<f4"),
    "f8": np.dtype("<f8"),
    "c8": np.dtype("<c8"),
    "c16": np.dtype("<c16"),
    "bool": np.dtype("?"),
}


#: Times that are taken: 1678 to 2261, within 64 bits of nanoseconds. Units: nanoseconds since 1970 UTC.
TIMES_NS = range(-9_214_646_400_000_000_000, 9_214_646_400_000_000_000)
#: Counts that are taken: beyond them a sender's count is none.
COUNTS = range(2**63)
#: A time as text: so many digits that no exponent makes a number of endless length.
_DECIMAL = re.compile(r"[-+]?[0-9]{1,20}(\.[0-9]{0,40})?([eE][-+]?[0-9]{1,3})?")
#: Characters of a payload that a message shows.
_SHOWN = 40


class PayloadError(ValueError):
    """An invalid payload; the text is the reason."""


@dataclass(frozen=True)
class Content:
    """Content of a message."""

    #: Shape: ``[samples, channels]``, or ``[samples]`` of one channel.
    values: npt.NDArray[Any]
    #: Time of the first sample, UTC; None if the message has none.
    t_ns: int | None = None
    #: Place of the first sample in the peer's own count; None where it does not count.
    sequence: int | None = None


@dataclass(frozen=True)
class PayloadFormat:
    """Format of a topic's messages."""

    #: `number`, `json` or `raw`.
    kind: str
    dtype: np.dtype[Any]
    #: Path of each channel in JSON; in `raw` the names only count.
    channels: Mapping[str, str] = field(default_factory=lambda: {"value": "value"})
    time: str | None = None
    time_unit: str = "s"
    sequence: str | None = None
    #: Whether NaN and infinities are samples; numbers beyond the range of the dtype never are.
    allow_nan: bool = False

    def read(self, payload: bytes) -> Content:
        """Reads a message.

        # Errors
        `PayloadError`.
        """
        if self.kind == "raw":
            return self._raw(payload)
        if self.kind == "json":
            return self._json(payload)
        try:
            return Content(self._elements([_number(payload.decode().strip())]))
        except UnicodeDecodeError:
            raise PayloadError('the payload is no text\nsay `payload = "raw"` for binary ones') from None

    def _elements(self, values: list[Any]) -> npt.NDArray[Any]:
        return elements(values, self.dtype, allow_nan=self.allow_nan)

    def _raw(self, payload: bytes) -> Content:
        count = len(self.channels)
        size = self.dtype.itemsize * count
        if not payload or len(payload) % size:
            raise PayloadError(f"{len(payload)} bytes are not whole samples of {size} bytes")
        values = np.frombuffer(payload, self.dtype)
        if self.dtype.kind == "b" and np.frombuffer(payload, "u1").max() > 1:
            raise PayloadError("a byte that is neither 0 nor 1 is not a bool")
        return Content(values if count == 1 else values.reshape(-1, count))

    def _json(self, payload: bytes) -> Content:
        try:
            document = json.loads(payload, parse_float=_float)
        except PayloadError:
            raise
        except (ValueError, RecursionError) as error:
            raise PayloadError(f"the payload is not JSON: {error}") from None
        columns = [self._elements(_listed(_at(document, path), path)) for path in self.channels.values()]
        if len({len(column) for column in columns}) != 1:
            raise PayloadError("the channels have lists of different lengths")
        if not len(columns[0]):
            raise PayloadError("an empty list")
        values = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
        t_ns = None if self.time is None else time_ns(_at(document, self.time), self.time_unit)
        sequence = None if self.sequence is None else _at(document, self.sequence)
        if self.sequence is not None and (isinstance(sequence, bool) or not isinstance(sequence, int) or sequence not in COUNTS):
            raise PayloadError(f"the sequence {_shown(sequence)} is not a count")
        return Content(values, t_ns, sequence)


def elements(values: list[Any], dtype: np.dtype[Any], *, allow_nan: bool = False) -> npt.NDArray[Any]:
    """Returns numbers as elements, exactly: only digits behind a decimal point are rounded, to the nearest float.

    # Errors
    `PayloadError` for what the dtype cannot hold.
    """
    if dtype.kind == "b":
        if any(it not in (0, 1) for it in values):
            raise PayloadError("a value is neither true nor false")
        return np.array(values, dtype=dtype)
    for it in values:
        if isinstance(it, bool) or not isinstance(it, (int, float)):
            raise PayloadError(f"{_shown(it)} is not a number")
    return _integers(values, dtype) if dtype.kind in "iu" else _floats(values, dtype, allow_nan)


def _integers(values: list[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    # 3.0 is a whole number, as programs write it that know no others.
    whole = [int(it) if isinstance(it, float) and it.is_integer() else it for it in values]
    for it in whole:
        if not isinstance(it, int):
            raise PayloadError(f'{_shown(it)} is no whole number\nsay `dtype = "f8"`')
    limits = np.iinfo(dtype)
    if any(not limits.min <= it <= limits.max for it in whole):
        raise PayloadError(f"a value does not fit into {dtype.name}\nuse a larger `dtype`")
    return np.array(whole, dtype=dtype)


def _floats(values: list[Any], dtype: np.dtype[Any], allow_nan: bool) -> npt.NDArray[Any]:
    try:
        exact = np.array([float(it) for it in values])
    except OverflowError:
        raise PayloadError(f"a value goes beyond the range of {dtype.name}") from None
    if not (allow_nan or np.isfinite(exact).all()):
        raise PayloadError("NaN or an infinity is no sample\nsay --allow-nan if it is")
    with np.errstate(over="ignore"):
        made = exact.astype(dtype)
    if (np.isinf(made) & ~np.isinf(exact)).any():
        raise PayloadError(f"a value goes beyond the range of {dtype.name}\nuse a larger `dtype`")
    for it, held in zip(values, np.real(made).tolist()):
        if isinstance(it, int) and it != held:
            raise PayloadError(f'{dtype.name} does not hold the whole number {_shown(it)} exactly\nsay `dtype = "i64"`')
    return made


def time_ns(value: Any, unit: str) -> int:
    """Returns a time in UTC, exactly.

    # Errors
    `PayloadError`, also for times that 64 bits of nanoseconds do not hold.
    """
    try:
        t_ns = _iso_ns(value) if unit == "iso" else _decimal_ns(value, TIME_UNITS[unit])
    except (ValueError, ZeroDivisionError, OverflowError):
        why = "\nwrite it as 2026-11-21T20:15:00Z, with Z or an offset" if unit == "iso" else ""
        raise PayloadError(f"{_shown(value)} is not a time in {unit}{why}") from None
    if t_ns not in TIMES_NS:
        raise PayloadError(f"{_shown(value)} in {unit} is outside the years 1678 to 2261\ncheck the unit of the time")
    return t_ns


def _iso_ns(value: Any) -> int:
    # Without a calendar's dash it would be a count of nanoseconds.
    if not isinstance(value, str) or "-" not in value[1:]:
        raise ValueError
    return moment_ns(value)


def _decimal_ns(value: Any, unit_ns: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value * unit_ns
    # By the digits as they are written: 1.7e9 and a few nanoseconds are more than a float holds.
    text = repr(value) if isinstance(value, float) else str(value).strip()
    if isinstance(value, bool) or not _DECIMAL.fullmatch(text):
        raise ValueError
    return int(Fraction(text) * unit_ns)


def _at(document: Any, path: str) -> Any:
    """Returns what is at a path such as ``flow.0.value``; the empty path is the document."""
    found = document
    for word in path.split(".") if path else []:
        try:
            found = found[int(word)] if isinstance(found, list) else found[word]
        except (KeyError, IndexError, ValueError, TypeError):
            raise PayloadError(f"the message has no `{path}`") from None
    return found


def _listed(value: Any, path: str) -> list[Any]:
    if value is None:
        raise PayloadError(f"`{path}` is null")
    return value if isinstance(value, list) else [value]


def _number(text: str) -> Any:
    words = {"true": 1, "false": 0, "on": 1, "off": 0}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return _float(text)
    except PayloadError:
        raise
    except ValueError:
        raise PayloadError(f"{_shown(text)} is not a number") from None


def _float(text: str) -> float:
    """Reads digits: a number beyond all floats is refused, where Python would make it infinite."""
    value = float(text)
    if abs(value) == float("inf") and "inf" not in text.lower():
        raise PayloadError(f"{_shown(text)} goes beyond the range of f8")
    return value


def _shown(value: Any) -> str:
    """Returns what a peer sent in a form that a terminal can show: in one line, not endless, without control characters."""
    try:
        text = value if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):
        # Python writes no integer of thousands of digits, and no list that is nested deeply.
        text = type(value).__name__
    return f"`{text[:_SHOWN].encode('unicode_escape').decode()}{'…' if len(text) > _SHOWN else ''}`"
