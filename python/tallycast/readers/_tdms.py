"""TDMS files of LabVIEW, by npTDMS: a stream for each rate of a group.

Values are those that npTDMS computes: in the channel's unit where the file has a scaling, else as stored. Rate and start are the
properties of a waveform, `wf_increment` and `wf_start_time`; without them a channel of time stamps gives each sample's time.

Source: the manual of npTDMS, "Timestamps and timing"; NI, "The NI TDMS File Format", "Waveform properties".
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._errors import FileError
from tallycast._packages import needed
from tallycast._schema import Channel, stream_dtype
from tallycast.readers import _units_of_time as of_time
from tallycast.readers._group import Column, FileStream, Table, Times, nanoseconds, rate_of_period

if TYPE_CHECKING:
    from tallycast.readers import Request

#: Properties with the unit, of NI's programs in the order of their precedence.
UNITS = ("unit_string", "NI_UnitDescription", "Unit", "unit")


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    nptdms = needed("nptdms", "tdms", "npTDMS")
    file = nptdms.TdmsFile.open(request.path)
    request.known_time((channel.name for group in file.groups() for channel in group.channels() if _has_times(channel)), "channel")
    for group in file.groups():
        yield from _of_group(group, request.time)


def _of_group(group: Any, time: str | None) -> Iterator[FileStream]:
    channels = [channel for channel in group.channels() if len(channel)]
    clock = next((it for it in channels if _is_clock(it, time)), None)
    members: dict[tuple[Fraction | None, int | None, int], list[Any]] = {}
    left_out = []
    for channel in channels:
        if channel is clock:
            continue
        if stream_dtype(np.dtype(channel.dtype)) is None:
            left_out.append(channel.name)
            continue
        members.setdefault((_rate(channel), _start_ns(channel), len(channel)), []).append(channel)
    for number, ((rate, start_ns, rows), alike) in enumerate(members.items()):
        name = group.name if number == 0 else f"{group.name}/{alike[0].name}"
        timed = (rate is None or time is not None) and clock is not None and len(clock) == rows
        yield from Table(
            name,
            [_column(channel) for channel in alike],
            rows,
            rate,
            start_ns,
            (lambda first, end: _times(clock, first, end)) if timed else None,
            left_out=tuple(left_out),
        ).streams()


def _has_times(channel: Any) -> bool:
    return len(channel) > 0 and np.dtype(channel.dtype).kind in "Miuf"


def _is_clock(channel: Any, time: str | None) -> bool:
    return bool(channel.name == time and _has_times(channel)) if time is not None else np.dtype(channel.dtype).kind == "M"


def _rate(channel: Any) -> Fraction | None:
    increment = channel.properties.get("wf_increment")
    return None if increment is None else rate_of_period(float(increment))


def _start_ns(channel: Any) -> int | None:
    start = channel.properties.get("wf_start_time")
    if start is None or "wf_increment" not in channel.properties:
        return None
    offset_ns = round(float(channel.properties.get("wf_start_offset", 0.0)) * 1e9)
    return int(np.datetime64(start, "ns").astype(np.int64)) + offset_ns


def _column(channel: Any) -> Column:
    dtype = stream_dtype(np.dtype(channel.dtype))
    assert dtype is not None, "others were left out"
    return Column(Channel(_unit(channel), name=channel.name), dtype, lambda first, end: channel.read_data(first, end - first))


def _times(clock: Any, first: int, end: int) -> Times:
    stamps = clock.read_data(first, end - first)
    if stamps.dtype.kind == "M":
        times: Times = stamps.astype("datetime64[ns]").astype(np.int64)
        return times
    told = of_time.unit_and_origin(_unit(clock), clock.name)
    if told is None:
        raise FileError(f"channel {clock.name} is in {_unit(clock)}, which is no unit of time\nname another channel, or `none`")
    return nanoseconds(stamps, told[0], told[1] or 0)


def _unit(channel: Any) -> str:
    return next((str(channel.properties[key]) for key in UNITS if channel.properties.get(key)), "")
