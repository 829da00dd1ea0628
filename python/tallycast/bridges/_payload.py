"""Conversion of message payloads to samples: a number, JSON with paths, or raw little-endian elements. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

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
            return Content(elements([_number(payload.decode().strip())], self.dtype))
        except UnicodeDecodeError:
            raise PayloadError('the payload is no text\nsay `payload = "raw"` for binary ones') from None

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
            document = json.loads(payload)
        except ValueError as error:
            raise PayloadError(f"the payload is not JSON: {error}") from None
        columns = [elements(_listed(_at(document, path), path), self.dtype) for path in self.channels.values()]
        if len({len(column) for column in columns}) != 1:
            raise PayloadError("the channels have lists of different lengths")
        if not len(columns[0]):
            raise PayloadError("an empty list")
        values = columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
        t_ns = None if self.time is None else time_ns(_at(document, self.time), self.time_unit)
        sequence = None if self.sequence is None else _at(document, self.sequence)
        if sequence is not None and (not isinstance(sequence, int) or sequence < 0):
            raise PayloadError(f"the sequence `{sequence}` is not a count")
        return Content(values, t_ns, sequence)


def elements(values: list[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Returns numbers as elements, exactly.

    # Errors
    `PayloadError` for what the dtype cannot hold.
    """
    if dtype.kind in "iu":
        if any(isinstance(it, bool) or not isinstance(it, int) for it in values):
            # 3.0 is a whole number, as programs write it that know no others.
            values = [int(it) if isinstance(it, float) and it.is_integer() else it for it in values]
            if any(not isinstance(it, int) or isinstance(it, bool) for it in values):
                raise PayloadError(f'`{_first(values, int)}` is no whole number\nsay `dtype = "f8"`')
        limits = np.iinfo(dtype)
        if any(not limits.min <= it <= limits.max for it in values):
            raise PayloadError(f"a value does not fit into {dtype.name}\nuse a larger `dtype`")
    elif dtype.kind == "b":
        if any(it not in (0, 1) for it in values):
            raise PayloadError("a value is neither true nor false")
    elif any(isinstance(it, bool) or not isinstance(it, (int, float)) for it in values):
        raise PayloadError(f"`{_first(values, (int, float))}` is not a number")
    return np.array(values, dtype=dtype)


def time_ns(value: Any, unit: str) -> int:
    """Returns a time in UTC, exactly.

    # Errors
    `PayloadError`.
    """
    try:
        if unit == "iso":
            moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
            moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
            since = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
            return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1_000
        if isinstance(value, bool):
            raise ValueError
        # By the digits as they are written: 1.7e9 and a few nanoseconds are more than a float holds.
        return int(Fraction(repr(value) if isinstance(value, float) else str(value)) * TIME_UNITS[unit])
    except (ValueError, ZeroDivisionError, OverflowError):
        raise PayloadError(f"`{value}` is not a time in {unit}") from None


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
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        words = {"true": 1, "false": 0, "on": 1, "off": 0}
        if text.lower() in words:
            return words[text.lower()]
        raise PayloadError(f"`{text[:40]}` is not a number") from None


def _first(values: list[Any], kinds: Any) -> Any:
    return next((it for it in values if not isinstance(it, kinds) or isinstance(it, bool)), None)
