"""NeXus files (HDF5): an `NXentry` for each epoch, an `NXdata` for each channel, the gap map as a table.

Source: the NeXus manual, base classes NXroot, NXentry, NXdata and NXcollection; `time` with its `start` is that of NXlog.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._core import VERSION
from tallycast._moments import text_of
from tallycast._names import free_name
from tallycast._packages import needed
from tallycast._scaling import is_scaled, scaled

if TYPE_CHECKING:
    from tallycast._excerpt import Stretch, Rows
    from tallycast._schema import Channel

#: Approximate size of a chunk of a data set in bytes.
CHUNK_BYTES = 1 << 20


def write(rows: Rows, path: Path) -> None:
    """Writes the rows into a file."""
    h5py = needed("h5py", "hdf5")
    with h5py.File(path, "w") as file:
        file.attrs.update({"NX_class": "NXroot", "creator": "tallycast", "creator_version": VERSION})
        for number, stretch in enumerate(rows.stretches, 1):
            name = "entry" if len(rows.stretches) == 1 else f"entry_{number}"
            if number == 1:
                file.attrs["default"] = name
            _entry(h5py, file.create_group(name), stretch)


def _entry(h5py: Any, entry: Any, stretch: Stretch) -> None:
    names = _valid_names([channel.name for channel in stretch.schema.channels])
    entry.attrs.update({"NX_class": "NXentry", "default": names[0]})
    entry["title"] = f"{stretch.stream}, epoch {stretch.epoch}"
    entry["entry_identifier"] = stretch.run
    times = stretch.times
    start_ns = int(times[0]) if len(times) else stretch.recording.t0_ns
    entry["start_time"] = text_of(start_ns)
    entry["end_time"] = text_of(int(times[-1]) if len(times) else start_ns)
    time = _series(entry, "time", times - start_ns)
    time.attrs.update({"units": "ns", "start": text_of(start_ns), "start_ns": np.int64(start_ns), "long_name": "time"})
    index = _series(entry, "index", stretch.index)
    index.attrs["long_name"] = "index of the sample since its epoch began"
    for name, channel in zip(names, stretch.schema.channels):
        _channel(entry.create_group(name), stretch, channel, time, index)
    _record(h5py, entry.create_group("tallycast"), stretch)


def _channel(group: Any, stretch: Stretch, channel: Channel, time: Any, index: Any) -> None:
    axes = ["time", *("." for _ in channel.shape)]
    group.attrs.update({"NX_class": "NXdata", "signal": "value", "axes": axes, "time_indices": np.int64(0)})
    group["title"] = channel.name
    elements, missing = stretch[channel.name], stretch.missing_of(channel.name)
    # A viewer draws values in their unit; the recorded elements stay, bit for bit.
    if is_scaled(channel):
        raw = _series(group, "raw_value", elements)
        raw.attrs.update({"scale": channel.scale, "offset": channel.offset, "long_name": f"{channel.name}, as recorded"})
    shown = scaled(elements, missing, channel) if is_scaled(channel) else elements
    if missing is not None and shown.dtype.kind in "fc":
        shown = np.where(missing, np.asarray(np.nan, dtype=shown.dtype), shown)
    value = _series(group, "value", shown)
    value.attrs.update({"units": channel.unit, "long_name": f"{channel.name} [{channel.unit}]" if channel.unit else channel.name})
    if missing is not None:
        absent = _series(group, "value_missing", missing)
        absent.attrs["long_name"] = "elements that never arrived"
    # The same objects under names of this group: they use no extra space.
    group["time"], group["index"] = time, index


def _record(h5py: Any, group: Any, stretch: Stretch) -> None:
    group.attrs["NX_class"] = "NXcollection"
    group["stream"] = stretch.stream
    group["run"] = stretch.run
    group["epoch"] = stretch.epoch
    group["description"] = json.dumps(stretch.recording._told["description"])
    group["account"] = json.dumps(stretch.account)
    text = h5py.string_dtype()
    kinds = [
        ("first_index", "<u8"), ("samples", "<u8"), ("from_ns", "<i8"), ("to_ns", "<i8"), ("elements", "<u8"),
        ("unexplained", "<u8"), ("unsettled", "<u8"), ("reader_absent", "<u8"), ("stage", text), ("lost", text), ("evidence", text),
    ]  # fmt: skip
    table = np.empty(len(stretch.gaps), dtype=kinds)
    for row, hole in enumerate(stretch.gaps):
        # An unknown end equals the beginning: a hole of no samples.
        end_ns = hole.t0_ns if hole.t1_ns is None else hole.t1_ns
        table[row] = (
            hole.first_index, hole.samples, hole.t0_ns, end_ns, hole.elements, hole.unexplained, hole.unsettled,
            hole.reader_absent, hole.stage or "", json.dumps(hole.lost), "\n".join(hole.evidence),
        )  # fmt: skip
    gaps = group.create_dataset("gaps", data=table)
    gaps.attrs["long_name"] = "gaps: times in ns since 1970 UTC, elements lost by stage as JSON"


def _series(group: Any, name: str, values: Any) -> Any:
    row_bytes = max(1, values[:1].nbytes)
    rows = max(1, min(len(values), CHUNK_BYTES // row_bytes))
    if not len(values):
        return group.create_dataset(name, data=values)
    return group.create_dataset(name, data=values, chunks=(rows, *values.shape[1:]), compression="gzip", compression_opts=1, shuffle=True)


def _valid_names(channels: list[str]) -> list[str]:
    """Returns the channels' names as NeXus allows them, all different."""
    taken = {"time", "index", "title", "entry_identifier", "start_time", "end_time", "tallycast"}
    names = []
    for channel in channels:
        name = re.sub(r"[^A-Za-z0-9_]", "_", channel) or "channel"
        name = free_name(f"_{name}" if name[0].isdigit() else name, taken)
        taken.add(name)
        names.append(name)
    return names
