"""EDF and BDF files, also EDF+ and BDF+: a stream for each number of samples in a record.

Samples are the file's digits, with the physical range of each signal as scale and offset. In a file with interruptions (EDF+D)
each record tells its time, and the samples between two records are missing. Annotations are left out, except these times.
Packages that read EDF refuse interruptions, or ignore them; the format is small enough to be read here.

Source: Kemp et al. (1992), "A simple format for exchange of digitized polygraphic recordings"; Kemp and Olivan (2003), "European
data format 'plus' (EDF+)", sections 2.1 and 2.2; BioSemi, "Which file format does BioSemi use" (24 bits).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallycast._errors import FileError
from tallycast._schema import Channel
from tallycast.readers._group import BLOCK_BYTES, RATE_LIMIT, FileBlock, FileStream, distinct, utc_ns

if TYPE_CHECKING:
    from tallycast._scaling import Array
    from tallycast.readers import Request

#: Bytes of the header, and as many more for each signal.
HEADER_BYTES = 256
#: Widths of the fields of the header, and of those that each signal has.
FIELDS = {
    "version": 8, "patient": 80, "recording": 80, "date": 8, "time": 8, "bytes": 8, "kind": 44, "records": 8, "duration": 8, "signals": 4,
}  # fmt: skip
OF_SIGNAL = {
    "label": 16, "transducer": 80, "unit": 8, "least": 8, "most": 8, "low": 8, "high": 8, "filter": 80, "samples": 8, "reserved": 32,
}  # fmt: skip
ANNOTATIONS = ("EDF Annotations", "BDF Annotations")
#: Time of a record: its first annotation, without a text.
ONSET = re.compile(rb"([+-]\d+(?:\.\d+)?)(?:\x15[\d.]*)?\x14")
#: The year 84 is 2084, 85 is 1985.
FIRST_YEAR = 85


class Signal(NamedTuple):
    """One signal of every record."""

    channel: Channel
    samples: int
    #: Its first byte in a record.
    offset: int


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    request.no_time("EDF")
    file = _File(request.path)
    alike: dict[int, list[Signal]] = {}
    for signal in file.signals:
        alike.setdefault(signal.samples, []).append(signal)
    for signals in alike.values():
        yield file.stream(signals, request.path.stem if len(alike) == 1 else f"{request.path.stem}/{signals[0].channel.name}")


class _File:
    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            head = _fields(file.read(HEADER_BYTES), FIELDS)
            if head["version"] not in (b"0", b"\xffBIOSEMI"):
                raise FileError(f"{path} is no EDF or BDF file")
            count = int(head["signals"])
            told = _columns(file.read(HEADER_BYTES * count), count)
        self._width = 2 if head["version"] == b"0" else 3
        ends = list(accumulate((int(row["samples"]) * self._width for row in told), initial=0))
        signals = [_signal(row, offset) for row, offset in zip(told, ends) if int(row["samples"])]
        self.signals = [it for it in signals if it.channel.name not in ANNOTATIONS]
        self._annotations = [it for it in signals if it.channel.name in ANNOTATIONS]
        self._duration = Fraction(head["duration"].decode())
        is_negative = self._duration < 0 or any(int(row["samples"]) < 0 for row in told)
        if is_negative or int(head["bytes"]) < HEADER_BYTES * (count + 1):
            raise FileError(f"the header of {path} is damaged: a negative length, or samples that begin inside the header")
        self._has_breaks = head["kind"][3:5] == b"+D"
        self._record_bytes = ends[-1]
        self._whole = (path.stat().st_size - int(head["bytes"])) // max(1, self._record_bytes)
        # While a recording runs, its header says -1.
        self._records = self._whole if int(head["records"]) < 0 else int(head["records"])
        if not (self.signals and self._whole and self._records):
            raise FileError(f"{path} has no samples")
        self._raw = np.memmap(path, np.uint8, "r", int(head["bytes"]), (min(self._whole, self._records), self._record_bytes))
        is_timed = head["kind"][3:4] == b"+" and self._annotations
        self._start_ns = _start_ns(head) + int((self._onset(0) if is_timed else 0) * 10**9)

    def stream(self, signals: list[Signal], name: str) -> FileStream:
        """Returns signals with equally many samples in a record as a stream."""
        rate = signals[0].samples / self._duration if self._duration else None
        if rate is not None and max(rate.numerator, rate.denominator) > RATE_LIMIT:
            raise FileError(f"{name} has {signals[0].samples} samples in {self._duration} s, which is no rate")
        dtype = np.dtype("<i2" if self._width == 2 else "<i4")
        left_out = tuple(dict.fromkeys(it.channel.name for it in self._annotations))
        return FileStream(
            name, distinct([it.channel for it in signals]), dtype, rate, self._start_ns, signals[0].samples * len(self._raw),
            lambda: self._blocks(signals, rate), left_out=left_out,
        )  # fmt: skip

    def _blocks(self, signals: list[Signal], rate: Fraction | None) -> Iterator[FileBlock]:
        step = max(1, BLOCK_BYTES // self._record_bytes)
        following = 0
        for first in range(0, len(self._raw), step):
            end = min(first + step, len(self._raw))
            for begin, behind, index in self._unbroken(first, end, signals[0].samples, rate):
                index = following if index is None else index
                if index < following:
                    raise FileError(f"record {begin} of {self._path} has samples again that an earlier one has\ndivide the file there")
                rows = np.stack([self._digits(begin, behind, signal) for signal in signals], axis=1)
                yield FileBlock(rows, None, index - following)
                following = index + len(rows)
        if self._whole != self._records:
            raise FileError(
                f"{self._path} has {self._whole} whole records, and by its header {self._records}\n"
                "the file was cut, or is still written"
            )

    def _unbroken(self, first: int, end: int, samples: int, rate: Fraction | None) -> Iterator[tuple[int, int, int | None]]:
        """Divides records where samples are missing: first, one behind the last, and the index of the sample that begins them."""
        if not self._has_breaks or rate is None:
            yield first, end, None
            return
        zero = self._onset(0)
        places = [round((self._onset(record) - zero) * rate) for record in range(first, end)]
        edges = [0, *(np.flatnonzero(np.diff(places) != samples) + 1).tolist(), len(places)]
        for begin, behind in zip(edges, edges[1:]):
            yield first + begin, first + behind, places[begin]

    def _onset(self, record: int) -> Fraction:
        """Returns the time of a record since the start in the header. Units: seconds."""
        for signal in self._annotations[:1]:
            content = self._raw[record, signal.offset : signal.offset + signal.samples * self._width].tobytes()
            if (found := ONSET.match(content)) is not None:
                return Fraction(found[1].decode())
        raise FileError(f"record {record} of {self._path} does not tell its time, which EDF+ and BDF+ demand")

    def _digits(self, first: int, end: int, signal: Signal) -> Array:
        raw = self._raw[first:end, signal.offset : signal.offset + signal.samples * self._width]
        if self._width == 2:
            return np.ascontiguousarray(raw).view("<i2").reshape(-1)
        # Into the upper bytes, so that the sign comes along.
        wide = np.zeros((raw.size // 3, 4), np.uint8)
        wide[:, 1:] = raw.reshape(-1, 3)
        digits: Array = wide.view("<i4").reshape(-1) >> 8
        return digits


def _fields(content: bytes, widths: dict[str, int]) -> dict[str, bytes]:
    fields, at = {}, 0
    for name, width in widths.items():
        fields[name] = content[at : at + width].strip()
        at += width
    return fields


def _columns(content: bytes, count: int) -> list[dict[str, bytes]]:
    """Returns the fields of each signal: the header has the first field of all signals, then the second."""
    columns, at = {}, 0
    for name, width in OF_SIGNAL.items():
        columns[name] = [content[at + place * width : at + (place + 1) * width].strip() for place in range(count)]
        at += width * count
    return [{name: column[place] for name, column in columns.items()} for place in range(count)]


def _signal(told: dict[str, bytes], offset: int) -> Signal:
    # ASCII by the standard; Latin-1 by many writers, which have a degree or a micro sign.
    label, unit = told["label"].decode("latin-1"), told["unit"].decode("latin-1")
    samples = int(told["samples"])
    if label in ANNOTATIONS:
        return Signal(Channel(name=label), samples, offset)
    # As written, in decimals: between floats the offset is a difference of rounded numbers.
    least, most = (Fraction(told[name].decode()) for name in ("least", "most"))
    low, high = (int(told[name]) for name in ("low", "high"))
    if low == high:
        raise FileError(f"signal {label} has an empty digital range, {low} to {high}")
    scale = (most - least) / (high - low)
    return Signal(Channel(unit, (), float(scale), float(least - scale * low), label), samples, offset)


def _start_ns(head: dict[str, bytes]) -> Any:
    day, month, year = (int(part) for part in head["date"].split(b"."))
    hour, minute, second = (int(part) for part in head["time"].replace(b":", b".").split(b"."))
    return utc_ns(datetime(year + (1900 if year >= FIRST_YEAR else 2000), month, day, hour, minute, second))
