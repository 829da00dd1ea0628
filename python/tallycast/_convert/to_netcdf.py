"""NetCDF 4 files (HDF5): the data set of xarray, with names and types that the format has, written piece by piece.

Source: CF conventions 1.11, section 4.4: times are whole nanoseconds since 1970.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._convert.pieces import outline, pieces
from tallycast._convert.to_xarray import attributes, series
from tallycast._names import free_name
from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._excerpt import Rows

TIME = {"units": "nanoseconds since 1970-01-01T00:00:00", "dtype": "int64", "calendar": "proleptic_gregorian"}
#: Approximate size of a chunk of a variable in bytes.
CHUNK_BYTES = 1 << 20


def write(rows: Rows, path: Path, scaled: bool) -> None:
    """Writes the rows into a file: xarray declares it with the first piece, whose variables then grow."""
    h5netcdf: Any = needed("h5netcdf", "netcdf")
    about = outline(rows)
    parts = ((place, _valid(series(piece, scaled, about.partial))) for place, piece in pieces(rows, about.rows))
    _, first = next(parts, (None, None))
    if first is None:
        first = _valid(series(rows, scaled))
    _declare(first.assign_attrs(attributes(rows, about.counts)), about.rows, path)
    del first
    with h5netcdf.File(path, "r+") as file:
        file.resize_dimension("time", about.rows)
        for place, part in parts:
            for name, variable in part.variables.items():
                file.variables[name][place] = _stored(variable.values)


def _declare(made: Any, rows: int, path: Path) -> None:
    """Writes a data set, in chunks of which a part of the rows may follow."""
    encoding: dict[str, Any] = {name: {"chunksizes": _chunks(it, rows)} for name, it in made.variables.items()} if rows else {}
    encoding["time"] = {**encoding.get("time", {}), **TIME}
    made.to_netcdf(path, engine="h5netcdf", encoding=encoding, unlimited_dims=["time"])


def _chunks(variable: Any, rows: int) -> tuple[int, ...]:
    row_bytes = variable.dtype.itemsize * int(np.prod(variable.shape[1:], dtype=np.int64))
    return (max(1, min(rows, CHUNK_BYTES // max(1, row_bytes))), *variable.shape[1:])


def _stored(values: Any) -> Any:
    """Returns values as xarray writes them: times as nanoseconds, flags as small integers."""
    if values.dtype.kind == "M":
        return values.astype("M8[ns]").astype(np.int64)
    return values.astype("i1") if values.dtype.kind == "b" else values


def _valid(made: Any) -> Any:
    """Renames what NetCDF does not allow, and writes complex numbers as their parts."""
    taken = {str(name) for name in made.variables}
    for name in list(made.data_vars):
        variable = made[name]
        valid = str(name)
        if not re.fullmatch(r"[^\W\d][\w.@+\-]*", valid):
            taken.discard(valid)
            valid = re.sub(r"[^\w.@+\-]", "_", valid)
            valid = free_name(valid if re.match(r"[^\W\d]", valid) else f"_{valid}", taken)
            taken.add(valid)
            variable.attrs.setdefault("long_name", str(name))
        if variable.dtype.kind != "c" and valid == name:
            continue
        made = made.drop_vars(name)
        parts = {"": variable} if variable.dtype.kind != "c" else {"_re": variable.real, "_im": variable.imag}
        for ending, part in parts.items():
            told = free_name(f"{valid}{ending}", taken) if ending else valid
            taken.add(told)
            part.attrs.update(variable.attrs)
            made[told] = part
    dimensions = {name: re.sub(r"[^\w.@+\-]", "_", str(name)) for name in made.dims}
    return made.rename_dims({name: valid for name, valid in dimensions.items() if valid != name})
