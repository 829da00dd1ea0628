"""MDF files, versions 3 and 4, by asammdf: a stream for each channel group.

Values are those that the conversions give, in the channel's unit, as f8 where they are no stored numbers; channels whose
conversion gives text are the numbers before it. Each sample has the time of the group's master channel, from the start of the
measurement in the header. A value that its invalidation bit marks is NaN.

Source: ASAM MDF 4.2; the manual of asammdf, `MDF.get`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._packages import needed
from tallycast._schema import Channel, stream_dtype
from tallycast.readers._group import Column, FileStream, Table, Times, nanoseconds, utc_ns

if TYPE_CHECKING:
    from tallycast._scaling import Array
    from tallycast.readers import Request


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    request.no_time("MDF")
    asammdf = needed("asammdf", "mdf")
    file = asammdf.MDF(request.path)
    start_ns = utc_ns(file.start_time)
    alone = len([group for group in file.groups if group.channel_group.cycles_nr]) == 1
    for place, group in enumerate(file.groups):
        if group.channel_group.cycles_nr:
            name = _name(group, place)
            yield from _Group(file, place, start_ns).streams(request.path.stem if alone and not name else name or f"group{place}")


def _name(group: Any, place: int) -> str:
    told = getattr(group.channel_group, "acq_name", None) or getattr(group.channel_group, "comment", None)
    return told if isinstance(told, str) and "\n" not in told and "<" not in told else ""


class _Group:
    def __init__(self, file: Any, place: int, start_ns: int) -> None:
        self._file, self._place, self._start_ns = file, place, start_ns
        self._rows = file.groups[place].channel_group.cycles_nr

    def streams(self, name: str) -> Iterator[FileStream]:
        """Divides the channels into streams."""
        columns, left_out = [], []
        master = self._file.masters_db.get(self._place)
        for place, channel in enumerate(self._file.groups[self._place].channels):
            if place == master:
                continue
            column = self._column(place)
            if column is None:
                left_out.append(channel.name)
            else:
                columns.append(column)
        times = None if master is None else self._times
        yield from Table(name, columns, self._rows, None, self._start_ns, times, left_out=tuple(left_out)).streams()

    def _column(self, place: int) -> Column | None:
        first = self._signal(place, 0, 1, False)
        raw = first.samples.dtype.kind not in "iufb"
        if raw:
            first = self._signal(place, 0, 1, True)
        samples = first.samples
        if samples.dtype.names is not None or stream_dtype(samples.dtype) is None:
            return None
        has_invalid = first.invalidation_bits is not None
        dtype = np.dtype("<f8") if has_invalid else stream_dtype(samples.dtype)
        assert dtype is not None, "checked above"

        def read(begin: int, end: int) -> Array:
            signal = self._signal(place, begin, end - begin, raw)
            values: Array = signal.samples
            if has_invalid:
                values = values.astype(np.float64)
                if signal.invalidation_bits is not None:
                    values[signal.invalidation_bits.astype(bool)] = np.nan
            return values

        return Column(Channel(first.unit or "", samples.shape[1:], name=first.name), dtype, read)

    def _signal(self, place: int, offset: int, count: int, raw: bool) -> Any:
        return self._file.get(
            group=self._place, index=place, raw=raw, record_offset=offset, record_count=count, ignore_invalidation_bits=True
        )

    def _times(self, first: int, end: int) -> Times:
        seconds = self._file.get_master(self._place, record_offset=first, record_count=end - first)
        return nanoseconds(np.asarray(seconds), 10**9, self._start_ns)
