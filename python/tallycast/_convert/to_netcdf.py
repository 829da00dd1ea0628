"""NetCDF 4 files (HDF5): the data set of xarray, with names and types that the format has.

Source: CF conventions 1.11, section 4.4: times are whole nanoseconds since 1970.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tallycast._convert.to_xarray import dataset
from tallycast._names import free_name
from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._excerpt import Rows


def write(rows: Rows, path: Path, scaled: bool) -> None:
    """Writes the rows into a file."""
    needed("h5netcdf", "netcdf")
    made = _valid(dataset(rows, scaled))
    time = {"units": "nanoseconds since 1970-01-01T00:00:00", "dtype": "int64", "calendar": "proleptic_gregorian"}
    made.to_netcdf(path, engine="h5netcdf", encoding={"time": time})


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
