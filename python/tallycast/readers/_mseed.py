"""miniSEED files, versions 2 and 3, by pymseed: a stream for each source identifier.

libmseed joins the records of a source to segments in the order of their times; between two segments samples are missing. A file
is indexed first, and unpacked segment by segment.

Source: FDSN, "miniSEED 3"; the manual of pymseed, `MS3TraceList`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._errors import FileError
from tallycast._packages import needed
from tallycast._schema import Channel
from tallycast.readers._group import BLOCK_BYTES, FileBlock, FileStream, periods_between, rate_of_hz, rate_of_period

if TYPE_CHECKING:
    from tallycast.readers import Request

#: NumPy's dtypes of the types of samples; others are text.
DTYPES: dict[str, np.dtype[Any]] = {"i": np.dtype("<i4"), "f": np.dtype("<f4"), "d": np.dtype("<f8")}


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    request.no_time("miniSEED")
    pymseed = needed("pymseed", "mseed")
    traces = pymseed.MS3TraceList.from_file(str(request.path), record_list=True)
    for trace in traces:
        segments = [segment for segment in trace if segment.samplecnt]
        if segments:
            yield _stream(traces, trace, segments)


def _stream(traces: Any, trace: Any, segments: list[Any]) -> FileStream:
    name = _name(trace.sourceid)
    rates = {_rate(segment) for segment in segments}
    types = {_type(segment) for segment in segments}
    if len(rates) > 1 or len(types) > 1:
        raise FileError(f"{name} changes its rate or its type within the file\ndivide it where that happens")
    (rate,), (dtype,) = rates, types
    if rate is None or dtype is None:
        raise FileError(f"{name} is no series of numbers at a rate")

    def read() -> Iterator[FileBlock]:
        # The list owns the segments' memory.
        assert traces is not None
        end_ns: int | None = None
        for segment in segments:
            missing = 0 if end_ns is None else periods_between(rate, segment.starttime - end_ns)
            if missing < 0:
                time = np.datetime64(segment.starttime, "ns")
                raise FileError(f"{name} has {-missing} samples twice, from {time}Z on\nremove the records of one of them")
            end_ns = segment.starttime + int(segment.samplecnt * 10**9 / rate)
            yield from _blocks(segment, dtype, missing)

    samples = sum(segment.samplecnt for segment in segments)
    channel = Channel(name=name.rpartition(".")[2])
    labels = {"source": trace.sourceid}
    return FileStream(name, (channel,), dtype, rate, segments[0].starttime, samples, read, labels=labels)


def _blocks(segment: Any, dtype: np.dtype[Any], missing: int) -> Iterator[FileBlock]:
    values = segment.create_numpy_array_from_recordlist().astype(dtype, copy=False).reshape(-1, 1)
    step = BLOCK_BYTES // dtype.itemsize
    for first in range(0, len(values), step):
        yield FileBlock(values[first : first + step], None, missing if first == 0 else 0)


def _rate(segment: Any) -> Fraction | None:
    rate = float(segment.samprate)
    # A negative one is a period, in the format and in libmseed.
    return rate_of_period(-rate) if rate < 0 else rate_of_hz(rate)


def _type(segment: Any) -> np.dtype[Any] | None:
    size, kind = segment.sample_size_type
    return DTYPES.get(kind)


def _name(source: str) -> str:
    """Returns `IU.COLA.00.BHZ` of `FDSN:IU_COLA_00_B_H_Z`; other identifiers as they are."""
    words = source.removeprefix("FDSN:").split("_")
    if len(words) != 6:
        return source.replace(":", "_")
    network, station, location, *channel = words
    return ".".join(word for word in (network, station, location, "".join(channel)) if word)
