"""The shape that every reader returns: streams of a file, each with channels of one rate, read block by block.

A reader of a format lists columns or blocks; how they become streams of one dtype is here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timezone
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallycast._errors import Error, FileError
from tallycast._names import free_name
from tallycast._scaling import Array, scaled
from tallycast._schema import Channel, Schema, dtype_name, holds_exactly

#: Approximate size of a block in bytes.
BLOCK_BYTES = 1 << 20
#: Way out of a file that is too large for the package that reads it.
IN_PARTS = "divide it, or convert it to HDF5 (of MATLAB: save with -v7.3), which is read in blocks"
#: Relative difference up to which a rate in binary is a fraction of whole numbers.
SAME_RATE = 1e-9
#: Largest numerator and denominator of a rate.
RATE_LIMIT = 2**32 - 1

Times = npt.NDArray[np.int64]


class FileBlock(NamedTuple):
    """Consecutive samples, and how many are missing directly before them; no samples in the last where missing ones end the file."""

    #: `[samples, elements per sample]`, the channels side by side, in the stream's dtype.
    array: Array
    #: Times of the samples, if the file has one for each. Units: nanoseconds since 1970 UTC, or since a zero of the file's own.
    times: Times | None = None
    missing_before: int = 0


@dataclass(frozen=True)
class FileStream:
    """Channels of a file that have one rate: they become one stream.

    ``rate`` is None where the file has only the times of its samples, or nothing. ``samples`` counts stored samples, None if
    that is only known at the end.
    """

    name: str
    channels: tuple[Channel, ...]
    dtype: np.dtype[Any]
    rate: Fraction | None
    #: Time of the first sample, if the file has it. Units: nanoseconds since 1970 UTC.
    start_ns: int | None
    samples: int | None
    read: Callable[[], Iterator[FileBlock]] = field(repr=False)
    #: Every sample has a time in the file.
    has_times: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Channels of the file that are no numbers and were left out.
    left_out: tuple[str, ...] = ()

    def blocks(self) -> Iterator[FileBlock]:
        """Reads the samples from the first to the last, in blocks of about a mebibyte."""
        return self.read()

    @cached_property
    def array(self) -> Array:
        """All samples in memory, `[samples, elements per sample]`, as stored: see `values` for those in their units."""
        blocks = [block.array for block in self.blocks()]
        return np.concatenate(blocks) if blocks else np.empty((0, self.elements), dtype=self.dtype)

    @cached_property
    def index(self) -> npt.NDArray[np.uint64]:
        """Index of each sample; it advances over missing ones."""
        parts, following = [], 0
        for block in self.blocks():
            following += block.missing_before
            parts.append(np.arange(following, following + len(block.array), dtype=np.uint64))
            following += len(block.array)
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint64)

    @cached_property
    def times(self) -> Times:
        """Time of each sample: the file's, or its start, index and rate. Units: nanoseconds."""
        if self.has_times:
            parts = [block.times for block in self.blocks() if block.times is not None]
            return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)
        if self.rate is None:
            raise FileError(f"{self.name} has neither a rate nor times\nuse its array")
        return offsets_of(self.index, self.rate) + (self.start_ns or 0)

    @property
    def elements(self) -> int:
        """Elements per sample."""
        return sum(channel.elements for channel in self.channels)

    @property
    def schema(self) -> Schema:
        """The schema of the stream; an error where the file has no rate."""
        if self.rate is None:
            raise FileError(f"{self.name} has no rate\npublish it with a rate of your own")
        return Schema(self.dtype, self.rate, self.channels, self.labels)

    def __getitem__(self, channel: str) -> Array:
        """Returns the elements of a channel as stored, `[samples, *shape]`."""
        place, of = self._place(channel)
        return self.array[:, place].reshape(len(self.array), *of.shape)

    def values(self, channel: str) -> Array:
        """Returns the values of a channel in its unit: element × scale + offset."""
        return scaled(self[channel], None, self._place(channel)[1])

    def only(self, names: Sequence[str]) -> FileStream:
        """Returns the stream with these channels alone, in their order."""
        places = [self._place(name) for name in names]
        chosen = np.concatenate([np.arange(place.start, place.stop) for place, _ in places])

        def read() -> Iterator[FileBlock]:
            return (block._replace(array=np.ascontiguousarray(block.array[:, chosen])) for block in self.blocks())

        return replace(self, channels=tuple(of for _, of in places), read=read)

    def _place(self, name: str) -> tuple[slice, Channel]:
        start = 0
        for channel in self.channels:
            if channel.name == name:
                return slice(start, start + channel.elements), channel
            start += channel.elements
        names = ", ".join(channel.name for channel in self.channels)
        raise FileError(f"{self.name} has no channel {name}\nits channels are: {names}")


class FileStreams(Mapping[str, FileStream]):
    """Streams of a file by name; iteration gives the names."""

    def __init__(self, path: Path, streams: Callable[[], Iterable[FileStream]]) -> None:
        self.path = path
        with in_words(path):
            self._streams: dict[str, FileStream] = {}
            for stream in streams():
                # Two groups of a file may have one name.
                name = free_name(stream.name, self._streams)
                self._streams[name] = replace(stream, name=name, read=self._guarded(stream.read))
        if not self._streams:
            raise FileError(f"{path} has no series of numbers")

    def _guarded(self, read: Callable[[], Iterator[FileBlock]]) -> Callable[[], Iterator[FileBlock]]:
        def guarded() -> Iterator[FileBlock]:
            with in_words(self.path):
                yield from read()

        return guarded

    def __getitem__(self, name: str) -> FileStream:
        try:
            return self._streams[name]
        except KeyError:
            raise FileError(f"{self.path} has no stream {name}\nits streams are: {', '.join(self)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    def __repr__(self) -> str:
        return f"<FileStreams of {self.path}: {', '.join(self)}>"


def check_room(path: Path, needed_bytes: int) -> None:
    """Refuses a file that a package reads whole, and for which there is certainly no room: Linux would end the process."""
    free = free_bytes()
    if free is not None and needed_bytes > free:
        raise FileError(f"{path} is read whole, which takes {needed_bytes:,} bytes of memory, and {free:,} are free\n{IN_PARTS}")


def free_bytes() -> int | None:
    """Returns how much memory programs may still take; None where that is not told (proc(5), `MemAvailable`)."""
    try:
        with open("/proc/meminfo") as told:
            return next((int(line.split()[1]) * 1024 for line in told if line.startswith("MemAvailable:")), None)
    except OSError:
        return None


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Turns what a format's package raises of a damaged file into a `FileError` that names the file."""
    try:
        yield
    except Error:
        raise
    except MemoryError:
        raise FileError(f"{path} needs more memory than this process gets\n{IN_PARTS}") from None
    except Exception as wrong:
        reason = str(wrong) or type(wrong).__name__
        raise FileError(f"{path} cannot be read: {reason}") from wrong


@dataclass(frozen=True)
class Column:
    """One channel of a file, of which any rows can be read: `read(first, end)` returns `[rows, *shape]`."""

    channel: Channel
    dtype: np.dtype[Any]
    read: Callable[[int, int], Array]


@dataclass(frozen=True)
class Table:
    """Columns of equal length and rate."""

    name: str
    columns: Sequence[Column]
    rows: int
    rate: Fraction | None = None
    start_ns: int | None = None
    #: Reads the times of rows. Units: nanoseconds.
    times: Callable[[int, int], Times] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def streams(self) -> Iterator[FileStream]:
        """Divides the columns into streams whose dtype holds each exactly: usually one."""
        for number, (dtype, columns) in enumerate(_divided(self.columns)):
            name = self.name if number == 0 else f"{self.name}/{dtype_name(dtype)}"
            yield self._stream(name, dtype, columns)

    def _stream(self, name: str, dtype: np.dtype[Any], columns: Sequence[Column]) -> FileStream:
        channels = distinct([column.channel for column in columns])
        row_bytes = dtype.itemsize * sum(channel.elements for channel in channels)
        step = max(1, BLOCK_BYTES // row_bytes)

        def read() -> Iterator[FileBlock]:
            for first in range(0, self.rows, step):
                end = min(first + step, self.rows)
                parts = [_exactly(column, first, end, dtype) for column in columns]
                times = None if self.times is None else self.times(first, end)
                yield FileBlock(np.ascontiguousarray(np.concatenate(parts, axis=1)), times)

        has_times = self.times is not None
        return FileStream(
            name, channels, dtype, self.rate, self.start_ns, self.rows, read, has_times, self.labels, self.left_out
        )


def _exactly(column: Column, first: int, end: int, dtype: np.dtype[Any]) -> Array:
    values = column.read(first, end)
    if not holds_exactly(dtype, values.dtype):
        raise FileError(f"{column.channel.name} has {values.dtype} from sample {first} on, which {dtype} does not hold exactly")
    return values.reshape(end - first, -1).astype(dtype, copy=False)


def _divided(columns: Sequence[Column]) -> list[tuple[np.dtype[Any], list[Column]]]:
    """Puts each column into the first part whose dtype then holds all of its members exactly, or into a new one."""
    parts: list[tuple[np.dtype[Any], list[Column]]] = []
    for column in columns:
        for place, (dtype, members) in enumerate(parts):
            common = np.result_type(dtype, column.dtype)
            # A real number is exact as a complex one, but users expect it to stay real.
            if (dtype.kind == "c") == (column.dtype.kind == "c") and all(holds_exactly(common, member.dtype) for member in [*members, column]):
                parts[place] = (common, [*members, column])
                break
        else:
            parts.append((column.dtype, [column]))
    return parts


def distinct(channels: Sequence[Channel]) -> tuple[Channel, ...]:
    """Returns channels whose names differ: the second `u` becomes `u_2`."""
    renamed: dict[str, Channel] = {}
    for channel in channels:
        name = free_name(channel.name or "value", renamed)
        renamed[name] = replace(channel, name=name)
    return tuple(renamed.values())


def rate_of_hz(hz: float) -> Fraction | None:
    """Returns a rate in hertz as the fraction that was meant: 3333.3333333333335 is 10000/3; None of what is no rate."""
    if not (math.isfinite(hz) and 1 / RATE_LIMIT <= hz <= RATE_LIMIT):
        return None
    written = Fraction(repr(float(hz)))
    if max(written.numerator, written.denominator) <= RATE_LIMIT:
        return written
    for digits in range(1, 10):
        near = written.limit_denominator(10**digits)
        if near.numerator > RATE_LIMIT:
            break
        if abs(near / written - 1) <= SAME_RATE:
            return near
    return None


def rate_of_period(seconds: float) -> Fraction | None:
    """Returns the rate of a period in seconds, as a fraction."""
    if not (math.isfinite(seconds) and seconds > 0):
        return None
    written = 1 / Fraction(repr(float(seconds)))
    if max(written.numerator, written.denominator) <= RATE_LIMIT:
        return written
    return rate_of_hz(float(written))


def offsets_of(index: npt.NDArray[np.uint64], rate: Fraction) -> Times:
    """Returns the times of samples since index 0, rounded down to nanoseconds.

    In two steps of whole numbers, which stay within 64 bits for samples of centuries.
    """
    seconds, parts = np.divmod(index.astype(np.uint64) * np.uint64(rate.denominator), np.uint64(rate.numerator))
    nanos = parts * np.uint64(10**9) // np.uint64(rate.numerator)
    offsets: Times = (seconds * np.uint64(10**9) + nanos).astype(np.int64)
    return offsets


def utc_ns(moment: Any) -> Any:
    """Returns a `datetime` in nanoseconds, one without a zone as UTC; None of None."""
    if moment is None:
        return None
    moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
    return int(moment.replace(microsecond=0).timestamp()) * 10**9 + moment.microsecond * 1_000


def periods_between(rate: Fraction, nanoseconds: int) -> int:
    """Returns the number of sample periods nearest to a span of time."""
    return round(Fraction(nanoseconds, 10**9) * rate)


def nanoseconds(numbers: Array, per_unit: int, origin_ns: int = 0) -> Times:
    """Returns times in a unit of `per_unit` nanoseconds as nanoseconds; whole numbers exactly."""
    if numbers.dtype.kind in "iu":
        limit = (2**63 - 1 - abs(origin_ns)) // per_unit
        if numbers.size and (int(numbers.max()) > limit or int(numbers.min()) < -limit):
            raise FileError("a time is outside the years 1678 to 2262\ncheck the unit of the times")
        return numbers.astype(np.int64) * per_unit + origin_ns
    whole = np.floor(numbers.astype(np.float64))
    span = (2**63 - 1 - abs(origin_ns)) / per_unit
    if not np.isfinite(whole).all() or (whole.size and np.abs(whole).max() >= span):
        raise FileError("a time is no number, or outside the years 1678 to 2262\ncheck the unit of the times")
    parts = np.rint((numbers.astype(np.float64) - whole) * per_unit)
    return whole.astype(np.int64) * per_unit + parts.astype(np.int64) + origin_ns
