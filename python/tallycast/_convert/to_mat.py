"""MAT files: a variable for each channel, columns as MATLAB has them. Version 5, or 7.3 where that has no room.

Source: MathWorks, "MAT-File Format", version 5: a name has at most 63 characters, a variable fewer than 2^31 bytes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._convert import to_mat73
from tallycast._convert.columns import columns, with_nan
from tallycast._convert.pieces import Outline, outline, pieces
from tallycast._errors import ArchiveError
from tallycast._moments import text_of
from tallycast._names import free_name
from tallycast._packages import needed
from tallycast._scaling import is_scaled

if TYPE_CHECKING:
    from tallycast._excerpt import Rows
    from tallycast._gap_map import Hole

#: The longest name.
NAME_CHARACTERS = 63
#: Rows of this size or more are written as version 7.3: one variable may be all of them, and they do not have to be in memory.
VERSION_5_BYTES = 2**31
#: Names beside the channels.
BESIDE = ("time_ns", "time_s", "index", "units", "gaps", "about")


def write(rows: Rows, path: Path, scaled: bool) -> None:
    """Writes the rows into a file."""
    if len(rows.stretches) != 1:
        raise ArchiveError(
            f"MAT takes one epoch, and the range contains {len(rows.stretches)}\n"
            "export them one by one: for stretch in excerpt.stretches: stretch.to_mat(…)"
        )
    about, names = outline(rows), _names(rows)
    first_ns = next((int(piece.times[0]) for _, piece in pieces(rows, about.rows)), 0)

    def series(part: Rows) -> dict[str, Any]:
        found: dict[str, Any] = {"time_ns": part.times, "time_s": (part.times - first_ns) / 1e9, "index": part.index}
        for column in columns(part, scaled, partial=about.partial):
            name, absent = names[column.channel.name]
            found[name] = with_nan(column)
            if column.missing is not None:
                found[absent] = column.missing
        return found

    beside = _beside(rows, names, text_of(first_ns) if about.rows else "")
    if about.rows * _row_bytes(rows, scaled, about) >= VERSION_5_BYTES:
        parts = ((place, series(piece)) for place, piece in pieces(rows, about.rows))
        to_mat73.write(path, about.rows, parts, {**beside, "gaps": _gap_columns(rows.gaps)})
        return
    scipy_io = needed("scipy.io", "mat")
    stored = {name: _column(values) for name, values in series(rows).items()}
    with path.open("wb") as file:
        scipy_io.savemat(file, {**stored, **beside, "gaps": _gaps(rows.gaps)}, long_field_names=True, do_compression=True)


def _names(rows: Rows) -> dict[str, tuple[str, ...]]:
    """Returns the name of each channel's variable, and of that for its missing elements."""
    taken: set[str] = set(BESIDE)
    names: dict[str, tuple[str, ...]] = {}
    for ending in ("", "_missing"):
        for channel in rows.schema.channels:
            name = free_name(_valid(channel.name), taken, ending, NAME_CHARACTERS)
            taken.add(name)
            names[channel.name] = (*names.get(channel.name, ()), name)
    return names


def _row_bytes(rows: Rows, scaled: bool, about: Outline) -> int:
    """Returns the size of a row over all variables."""
    sizes = [24]
    for channel in rows.schema.channels:
        element = rows.dtype.itemsize
        if scaled and is_scaled(channel):
            element = 16 if rows.dtype.kind == "c" else 8
        sizes.append(channel.elements * (element + (channel.name in about.partial)))
    return sum(sizes)


def _beside(rows: Rows, names: dict[str, tuple[str, ...]], start: str) -> dict[str, Any]:
    """Returns the structures beside the series."""
    units = {names[channel.name][0]: channel.unit for channel in rows.schema.channels}
    about = {
        "stream": rows.stream, "run": rows.run, "epoch": rows.stretches[0].epoch, "rate": float(rows._recording.rate),
        "start": start, "names": {name: channel for channel, (name, _) in names.items()},
    }  # fmt: skip
    return {"units": units, "about": about}


def _column(values: Any) -> Any:
    """Returns samples along the first axis: `[rows, 1]`, or `[rows, *shape]`."""
    return values.reshape(len(values), 1) if values.ndim == 1 else values


def _valid(channel: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", channel)
    return name if name[:1].isalpha() else f"ch_{name}"


def _gaps(gaps: Any) -> Any:
    """Returns a structure array of the holes: first index, samples, times, stages."""
    fields = ("first_index", "samples", "from_ns", "to_ns", "stage")
    table = np.empty((len(gaps), 1), dtype=[(field, object) for field in fields])
    for row, hole in enumerate(gaps):
        table[row, 0] = _gap(hole)
    return table


def _gap_columns(gaps: Any) -> dict[str, Any]:
    """Returns the same as columns: in version 7.3 an array of structures would be as many groups."""
    rows = [_gap(hole) for hole in gaps]
    kinds = (("first_index", "u8"), ("samples", "u8"), ("from_ns", "i8"), ("to_ns", "i8"))
    numbers = {name: np.array([row[place] for row in rows], dtype=kind) for place, (name, kind) in enumerate(kinds)}
    return {**numbers, "stage": [row[4] for row in rows]}


def _gap(hole: Hole) -> tuple[Any, ...]:
    end_ns = hole.t0_ns if hole.t1_ns is None else hole.t1_ns
    numbers = np.uint64(hole.first_index), np.uint64(hole.samples), np.int64(hole.t0_ns), np.int64(end_ns)
    return (*numbers, hole.stage or "")
