"""MAT files, version 5: a variable for each channel, columns as MATLAB has them.

Source: MathWorks, "MAT-File Format", version 5: a name has at most 63 characters, a variable fewer than 2^31 bytes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._convert.columns import columns, with_nan
from tallycast._errors import ArchiveError
from tallycast._moments import text_of
from tallycast._names import free_name
from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._excerpt import Rows
    from tallycast._gap_map import Hole

#: The longest name.
NAME_CHARACTERS = 63
#: Names beside the channels.
BESIDE = ("time_ns", "time_s", "index", "units", "gaps", "about")


def write(rows: Rows, path: Path, scaled: bool) -> None:
    """Writes the rows into a file."""
    scipy_io = needed("scipy.io", "mat")
    if len(rows.stretches) != 1:
        raise ArchiveError(
            f"MAT takes one epoch, and the range contains {len(rows.stretches)}\n"
            "export them one by one: for stretch in excerpt.stretches: stretch.to_mat(…)"
        )
    variables: dict[str, Any] = {}
    units, names = {}, {}
    for column in columns(rows, scaled):
        name = free_name(_valid(column.channel.name), {*variables, *BESIDE}, most=NAME_CHARACTERS)
        variables[name] = _column(with_nan(column))
        units[name], names[name] = column.channel.unit, column.channel.name
        if column.missing is not None:
            absent = free_name(name, {*variables, *BESIDE}, "_missing", NAME_CHARACTERS)
            variables[absent] = _column(column.missing)
    times = rows.times
    variables["time_ns"], variables["index"] = _column(times), _column(rows.index)
    variables["time_s"] = _column((times - times[:1]) / 1e9)
    variables["units"] = units
    variables["gaps"] = _gaps(rows.gaps)
    variables["about"] = {
        "stream": rows.stream, "run": rows.run, "epoch": rows.stretches[0].epoch, "rate": float(rows._recording.rate),
        "start": text_of(int(times[0])) if len(times) else "", "names": names,
    }  # fmt: skip
    largest = max(it.nbytes for it in variables.values() if isinstance(it, np.ndarray))
    if largest >= 2**31:
        raise ArchiveError(f"a variable has {largest} bytes, and a MAT file takes fewer than 2^31\nchoose a shorter range, or HDF5")
    with path.open("wb") as file:
        scipy_io.savemat(file, variables, long_field_names=True, do_compression=True)


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


def _gap(hole: Hole) -> tuple[Any, ...]:
    end_ns = hole.t0_ns if hole.t1_ns is None else hole.t1_ns
    numbers = np.uint64(hole.first_index), np.uint64(hole.samples), np.int64(hole.t0_ns), np.int64(end_ns)
    return (*numbers, hole.stage or "")
