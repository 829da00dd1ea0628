"""The rows of a CSV file that grows: lines as they are completed, columns, times. Pure: bytes in, rows out.

Comma, semicolon or tab, whichever the first line has most of; `#` begins a comment; the first line names the columns, with
units as in ``current [A]``, unless it is numbers. The conventions are those of ``tallycast pub --file`` (docs/reference/cli.md).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

import tallycast as tc

from ._payload import PayloadError, elements, time_ns

#: The longest line: more is binary data, not lines.
MAX_LINE_BYTES = 1 << 20

#: Default names of the time column.
TIMES = {"t", "time", "timestamp"}
TIMES_IN_NS = {"t_ns", "time_ns", "timestamp_ns"}


class TableError(tc.BridgeError):
    """A table that cannot be read as requested; the text is the reason."""


@dataclass(frozen=True)
class TableOptions:
    """Options of a table."""

    dtype: np.dtype[Any]
    #: Name of the time column; "none": there is none; None: the one that looks like a time.
    time: str | None = None
    time_unit: str | None = None
    columns: Sequence[str] = ()
    unit: str = ""
    allow_nan: bool = False


@dataclass(frozen=True)
class Columns:
    """Roles of a table's columns."""

    delimiter: str
    count: int
    #: Place, name and unit of each channel.
    channels: tuple[tuple[int, str, str], ...]
    time: int | None
    time_unit: str


@dataclass
class Rows:
    """Rows that were completed."""

    #: ``[rows, channels]``, or ``[rows]`` of one channel.
    values: npt.NDArray[Any]
    #: Time of each row as given in the table. Units: nanoseconds; None without a time column.
    times_ns: npt.NDArray[np.int64] | None
    #: Lines that are no rows: how many rows above are before it, and why.
    refused: list[tuple[int, str]] = field(default_factory=list)


class CsvTail:
    """One file, from its beginning or from any line on."""

    def __init__(self, options: TableOptions) -> None:
        self._options = options
        self._partial = b""
        self.columns: Columns | None = None
        #: Lines completed so far, with header and comments.
        self.lines = 0
        #: Bytes of completed lines.
        self.position = 0

    @property
    def partial_bytes(self) -> int:
        """Bytes of a last line that is not complete."""
        return len(self._partial)

    def feed(self, data: bytes) -> Rows | None:
        """Takes bytes; returns the rows that they complete, None if there are none.

        # Errors
        `TableError` where the table cannot be read at all.
        """
        whole, newline, self._partial = (self._partial + data).rpartition(b"\n")
        if len(self._partial) > MAX_LINE_BYTES:
            raise TableError("a line is longer than 1 MiB\ncheck that it is a text file")
        if not newline:
            return None
        self.position += len(whole) + 1
        lines = whole.split(b"\n")
        first, self.lines = self.lines, self.lines + len(lines)
        return self._rows(lines, first)

    def skip_to(self, position: int, header: str | None) -> None:
        """Continues behind the part read before: ``header`` is the first line, which defines the columns."""
        self.position = position
        if header is not None:
            self._choose(header)

    def _rows(self, lines: list[bytes], first: int) -> Rows | None:
        kept: list[list[Any]] = []
        times: list[int] = []
        refused: list[tuple[int, str]] = []
        for number, raw in enumerate(lines, first + 1):
            try:
                line = raw.decode().split("#", 1)[0].strip()
            except UnicodeDecodeError:
                refused.append((len(kept), f"line {number} is not UTF-8 text"))
                continue
            if not line:
                continue
            if self.columns is None and self._choose(line):
                continue
            try:
                row, at = self._row(line)
            except (PayloadError, TableError) as error:
                refused.append((len(kept), f"line {number}: {error}"))
                continue
            kept.append(row)
            times.append(at)
        if self.columns is None or (not kept and not refused):
            return None
        width = len(self.columns.channels)
        values = np.array(kept, dtype=self._options.dtype).reshape(len(kept), width)
        stamps = None if self.columns.time is None else np.array(times, dtype=np.int64)
        return Rows(values[:, 0] if width == 1 else values, stamps, refused)

    def _choose(self, line: str) -> bool:
        """Reads the columns from the first line; returns whether it is a header rather than a row."""
        delimiter = max(",;\t", key=line.count)
        if not line.count(delimiter) and " " in line and "[" not in line:
            delimiter = " "
        fields = _fields(line, delimiter)
        is_header = not all(_is_number(text) for text in fields if text)
        headings = [_heading(text) if is_header else (f"channel{place}", "") for place, text in enumerate(fields)]
        names = [name for name, _ in headings]
        time = self._time_column(names) if is_header else None
        wanted = list(self._options.columns) or [name for place, name in enumerate(names) if place != time]
        for name in wanted:
            if name not in names:
                raise TableError(f"unknown column `{name}`; the columns are {', '.join(names)}")
        if not wanted:
            raise TableError("the table has a time column but no values\nkeep the time as a channel with --time none")
        channels = tuple(
            (names.index(name), name, headings[names.index(name)][1] or self._options.unit) for name in wanted
        )
        unit = "s"
        if time is not None:
            named_in_ns = names[time].lower() in TIMES_IN_NS
            unit = self._options.time_unit or ("ns" if named_in_ns else headings[time][1] or "s")
            if unit not in {"s", "ms", "us", "µs", "ns", "iso"}:
                raise TableError(
                    f"unknown unit `{unit}` of the time column `{names[time]}`; use s, ms, us, ns or iso"
                )
        self.columns = Columns(delimiter, len(fields), channels, time, unit.replace("µ", "u"))
        self.header = line
        return is_header

    #: The first line that is no comment.
    header: str | None = None

    def _time_column(self, names: list[str]) -> int | None:
        asked = self._options.time
        if asked == "none":
            return None
        if asked is not None:
            if asked not in names:
                raise TableError(f"unknown column `{asked}`; the columns are {', '.join(names)}")
            return names.index(asked)
        return next((place for place, name in enumerate(names) if name.lower() in TIMES | TIMES_IN_NS), None)

    def _row(self, line: str) -> tuple[list[Any], int]:
        columns = self.columns
        assert columns is not None
        fields = _fields(line, columns.delimiter)
        if len(fields) != columns.count:
            raise TableError(f"{len(fields)} fields where the first line has {columns.count}")
        at = 0 if columns.time is None else time_ns(fields[columns.time], columns.time_unit)
        return [self._element(fields[place], name) for place, name, _ in columns.channels], at

    def _element(self, text: str, name: str) -> Any:
        kind = self._options.dtype.kind
        try:
            value: Any = int(text) if kind in "iu" else float(text or "nan")
        except ValueError:
            raise TableError(f"column `{name}`: `{text}` is not a number") from None
        if kind in "iu":
            elements([value], self._options.dtype)
        elif not math.isfinite(value) and not self._options.allow_nan:
            raise TableError(f"column `{name}`: `{text}` is not a finite number\naccept it with --allow-nan")
        return value


def _fields(line: str, delimiter: str) -> list[str]:
    return line.split() if delimiter == " " else [text.strip().strip('"') for text in line.split(delimiter)]


def _heading(text: str) -> tuple[str, str]:
    found = re.fullmatch(r"(.*?)\s*[\[(]([^\])]*)[\])]", text)
    return (text, "") if found is None else (found[1], found[2])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
