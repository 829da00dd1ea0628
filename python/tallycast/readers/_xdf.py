"""XDF files of LabStreamingLayer, by pyxdf: a stream for each stream of numbers.

pyxdf reads a stream whole, because it puts the stream's clock on that of the recorder by all of the file's offsets; so one stream
at a time is in memory, again when its samples are read. Of a stream with a nominal rate it also smooths the time stamps and
finds breaks, which are gaps here. Streams without a rate have a time for each sample. Times count from a zero of
LabStreamingLayer's clock.

Source: the specification of XDF, version 1.0; the manual of pyxdf, `load_xdf`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._errors import FileError
from tallycast._packages import needed
from tallycast._schema import Channel, stream_dtype
from tallycast.readers._group import (
    BLOCK_BYTES,
    FileBlock,
    FileStream,
    Times,
    check_room,
    distinct,
    nanoseconds,
    periods_between,
    rate_of_hz,
)

if TYPE_CHECKING:
    from tallycast._scaling import Array
    from tallycast.readers import Request

#: A distance of time stamps that is no jitter but a break: pyxdf's own bound of 500 samples would smooth five seconds at 100 Hz.
BREAK_SECONDS, BREAK_SAMPLES = 1.0, 2


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    request.no_time("XDF")
    pyxdf = needed("pyxdf", "xdf")
    check_room(request.path, request.path.stat().st_size)
    for told in pyxdf.resolve_streams(str(request.path)):
        loaded = _Loaded(pyxdf, request.path, told["stream_id"])
        if loaded.dtype is not None and len(loaded.rows):
            yield loaded.described()


class _Loaded:
    """A stream in memory."""

    def __init__(self, pyxdf: Any, path: Path, number: int) -> None:
        self._again = partial(_Loaded, pyxdf, path, number)
        ((stream,), _) = pyxdf.load_xdf(
            str(path),
            select_streams=[number],
            jitter_break_threshold_seconds=BREAK_SECONDS,
            jitter_break_threshold_samples=BREAK_SAMPLES,
        )
        info, series = stream["info"], stream["time_series"]
        self._info: dict[str, Any] = info
        # A stream of texts is a list.
        self.rows: Array = series.reshape(len(series), -1) if isinstance(series, np.ndarray) else np.empty((0, 1), object)
        self.dtype = stream_dtype(self.rows.dtype)
        self.rate = rate_of_hz(float(_text(info, "nominal_srate") or 0))
        self.times = nanoseconds(np.asarray(stream["time_stamps"], dtype=np.float64), 10**9)
        self.name = _text(info, "name") or "stream"

    def described(self) -> FileStream:
        """Returns it as a stream that reads it again."""
        assert self.dtype is not None, "others are left out"
        labels = {key: text for key in ("type", "source_id", "hostname") if (text := _text(self._info, key))}
        count, width = self.rows.shape
        again = self._again
        return FileStream(
            self.name, _channels(self._info, width), self.dtype, self.rate, None, count, lambda: again().blocks(), self.rate is None, labels
        )

    def blocks(self) -> Iterator[FileBlock]:
        """Returns the samples, with a gap before each segment but the first."""
        segments = [(int(first), int(last) + 1) for first, last in self._info.get("segments", [])] if self.rate else []
        step = max(1, BLOCK_BYTES // (self.rows.dtype.itemsize * self.rows.shape[1]))
        for begin, end in segments or [(0, len(self.rows))]:
            missing = 0
            if begin and self.rate is not None:
                missing = periods_between(self.rate, int(self.times[begin] - self.times[begin - 1])) - 1
            if missing < 0:
                raise FileError(f"times of {self.name} go back at sample {begin}\ndivide the session there")
            for first in range(begin, end, step):
                part = slice(first, min(first + step, end))
                own: Times | None = None if self.rate else self.times[part]
                yield FileBlock(np.ascontiguousarray(self.rows[part].astype(self.dtype, copy=False)), own, missing if first == begin else 0)


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
