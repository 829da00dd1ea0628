"""XDF files of LabStreamingLayer, by pyxdf: a stream for each stream of numbers.

pyxdf reads the file whole, and puts the clocks of the streams on one; of a stream with a nominal rate it also smooths the time
stamps and finds breaks, which are gaps here. Streams without a rate have a time for each sample. Times count from a zero of
LabStreamingLayer's clock.

Source: the specification of XDF, version 1.0; the manual of pyxdf, `load_xdf`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._errors import FileError
from tallycast._packages import needed
from tallycast._schema import Channel, stream_dtype
from tallycast.readers._group import BLOCK_BYTES, FileBlock, FileStream, Times, distinct, nanoseconds, periods_between, rate_of_hz

if TYPE_CHECKING:
    from tallycast._scaling import Array
    from tallycast.readers import Request

#: A distance of time stamps that is no jitter but a break: pyxdf's own bound of 500 samples would smooth five seconds at 100 Hz.
BREAK_SECONDS, BREAK_SAMPLES = 1.0, 2


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    request.no_time("XDF")
    pyxdf = needed("pyxdf", "xdf")
    found, _ = pyxdf.load_xdf(
        str(request.path),
        jitter_break_threshold_seconds=BREAK_SECONDS,
        jitter_break_threshold_samples=BREAK_SAMPLES,
    )
    for stream in found:
        series = stream["time_series"]
        if not isinstance(series, np.ndarray) or not len(series) or stream_dtype(series.dtype) is None:
            continue
        yield _stream(_text(stream["info"], "name") or "stream", stream, series)


def _stream(name: str, stream: dict[str, Any], series: Array) -> FileStream:
    info = stream["info"]
    dtype = stream_dtype(series.dtype)
    assert dtype is not None, "others were left out"
    rows = series.reshape(len(series), -1).astype(dtype, copy=False)
    rate = rate_of_hz(float(_text(info, "nominal_srate") or 0))
    times = nanoseconds(np.asarray(stream["time_stamps"], dtype=np.float64), 10**9)
    segments = [(int(first), int(last) + 1) for first, last in info.get("segments", [])] if rate else []
    segments = segments or [(0, len(rows))]

    def read() -> Iterator[FileBlock]:
        step = max(1, BLOCK_BYTES // (dtype.itemsize * rows.shape[1]))
        for number, (begin, end) in enumerate(segments):
            missing = 0
            if number and rate is not None:
                missing = periods_between(rate, int(times[begin] - times[begin - 1])) - 1
                if missing < 0:
                    raise FileError(f"times of {name} go back at sample {begin}\ndivide the session there")
            for first in range(begin, end, step):
                part = slice(first, min(first + step, end))
                own: Times | None = None if rate else times[part]
                yield FileBlock(np.ascontiguousarray(rows[part]), own, missing if first == begin else 0)

    labels = {key: text for key in ("type", "source_id", "hostname") if (text := _text(info, key))}
    return FileStream(name, _channels(info, rows.shape[1]), dtype, rate, None, len(rows), read, rate is None, labels)


def _channels(info: dict[str, Any], count: int) -> tuple[Channel, ...]:
    described: list[Any] = [{}] * count
    for desc in info.get("desc") or []:
        for channels in (desc or {}).get("channels") or []:
            found = (channels or {}).get("channel") or []
            described = found if len(found) == count else described
    return distinct([
        Channel(_text(channel, "unit") or "", name=_text(channel, "label") or f"ch{place}")
        for place, channel in enumerate(described)
    ])  # fmt: skip


def _text(element: dict[str, Any], key: str) -> str | None:
    """Returns the text of an element: pyxdf has a list of those of one name."""
    found = element.get(key)
    first = found[0] if isinstance(found, list) and found else found
    return first if isinstance(first, str) else None
