"""NeXus files (HDF5): an `NXentry` for each epoch, an `NXdata` for each channel, the gap map as a table, written piece by piece.

Source: the NeXus manual, base classes NXroot, NXentry, NXdata and NXcollection; `time` with its `start` is that of NXlog.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._convert.pieces import Outline, outline, pieces
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
    about = outline(stretch)
    names = _valid_names([channel.name for channel in stretch.schema.channels])
    entry.attrs.update({"NX_class": "NXentry", "default": names[0]})
    entry["title"] = f"{stretch.stream}, epoch {stretch.epoch}"
    entry["entry_identifier"] = stretch.run
    time = _series(entry, "time", np.dtype(np.int64), (about.rows,))
    index = _series(entry, "index", np.dtype(np.uint64), (about.rows,))
    index.attrs["long_name"] = "index of the sample since its epoch began"
    channels = [_declared(entry.create_group(name), stretch, channel, about) for name, channel in zip(names, stretch.schema.channels)]
    for name in names:
        # The same objects under names of this group: they use no extra space.
        entry[name]["time"], entry[name]["index"] = time, index
    start_ns = end_ns = stretch.recording.t0_ns
    for rows, piece in pieces(stretch, about.rows):
        start_ns, end_ns = start_ns if rows.start else int(piece.times[0]), int(piece.times[-1])
        time[rows], index[rows] = piece.times - start_ns, piece.index
        for group, channel in channels:
            _put(group, channel, piece, rows)
    time.attrs.update({"units": "ns", "start": text_of(start_ns), "start_ns": np.int64(start_ns), "long_name": "time"})
    entry["start_time"], entry["end_time"] = text_of(start_ns), text_of(end_ns)
    _record(h5py, entry.create_group("tallycast"), stretch)


def _declared(group: Any, stretch: Stretch, channel: Channel, about: Outline) -> tuple[Any, Channel]:
    """Makes the data sets of a channel, without their contents."""
    axes = ["time", *("." for _ in channel.shape)]
    group.attrs.update({"NX_class": "NXdata", "signal": "value", "axes": axes, "time_indices": np.int64(0)})
    group["title"] = channel.name
    shape, dtype = (about.rows, *channel.shape), stretch.dtype
    # A viewer draws values in their unit; the recorded elements stay, bit for bit.
    if is_scaled(channel):
        raw = _series(group, "raw_value", dtype, shape)
        raw.attrs.update({"scale": channel.scale, "offset": channel.offset, "long_name": f"{channel.name}, as recorded"})
        dtype = scaled(np.empty(0, dtype), None, channel).dtype
    value = _series(group, "value", dtype, shape)
    value.attrs.update({"units": channel.unit, "long_name": f"{channel.name} [{channel.unit}]" if channel.unit else channel.name})
    if channel.name in about.partial:
        absent = _series(group, "value_missing", np.dtype(np.bool_), shape)
        absent.attrs["long_name"] = "elements that never arrived"
    return group, channel


def _put(group: Any, channel: Channel, piece: Stretch, rows: slice) -> None:
    """Writes the elements and values of some rows."""
    elements, missing = piece[channel.name], piece.missing_of(channel.name)
    shown = elements
    if is_scaled(channel):
        group["raw_value"][rows] = elements
        shown = scaled(elements, missing, channel)
    if missing is not None and shown.dtype.kind in "fc":
        shown = np.where(missing, np.asarray(np.nan, dtype=shown.dtype), shown)
    group["value"][rows] = shown
    if missing is not None:
        group["value_missing"][rows] = missing


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


def _series(group: Any, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    if not shape[0]:
        return group.create_dataset(name, shape, dtype)
    row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    rows = max(1, min(shape[0], CHUNK_BYTES // row_bytes))
    return group.create_dataset(name, shape, dtype, chunks=(rows, *shape[1:]), compression="gzip", compression_opts=1, shuffle=True)


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
