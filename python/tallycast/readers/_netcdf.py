"""NetCDF files: version 4 is HDF5 and read as such by h5py, the classic forms by SciPy; a stream for each first dimension.

Times are the coordinate variable of the dimension, with its unit `… since …`; packed variables keep `scale_factor` and
`add_offset` as scale and offset, and values of `_FillValue` are NaN.

Source: CF conventions 1.11, sections 4.4, 8.1 and 2.5.1; Unidata, "NetCDF Classic Format Specification".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._packages import needed
from tallycast._schema import Channel, stream_dtype
from tallycast.readers import _hdf5
from tallycast.readers import _units_of_time as of_time
from tallycast.readers._group import Column, FileStream, Table, Times, nanoseconds

if TYPE_CHECKING:
    from tallycast._scaling import Array
    from tallycast.readers import Request


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    with request.path.open("rb") as file:
        is_classic = file.read(3) == b"CDF"
    yield from _classic(request) if is_classic else _hdf5.streams(request)


def _classic(request: Request) -> Iterator[FileStream]:
    netcdf = _mapped(request)
    request.known_time((name for name, it in netcdf.variables.items() if _may_be_times(it)), "variable")
    by_dimension: dict[str, list[str]] = {}
    for name, variable in netcdf.variables.items():
        if variable.dimensions and stream_dtype(np.dtype(variable.data.dtype)) is not None:
            by_dimension.setdefault(variable.dimensions[0], []).append(name)
    for dimension, names in by_dimension.items():
        clock = request.time if request.time in names else dimension if _is_time(netcdf, dimension, names) else None
        names = [name for name in names if name != clock]
        if names:
            name = request.path.stem if len(by_dimension) == 1 else dimension
            yield from _table(name, netcdf, names, clock).streams()


def _mapped(request: Request) -> Any:
    """Opens a file so that rows are in memory when they are read, and while arrays refer to them."""
    base = needed("scipy.io", "netcdf").netcdf_file

    class Mapped(base):  # type: ignore[misc,valid-type]
        def __del__(self) -> None:
            # Not `close`, which warns of arrays that still refer to the map: they keep it.
            if hasattr(self, "fp"):
                self.fp.close()

    return Mapped(str(request.path), "r", mmap=True)


def _may_be_times(variable: Any) -> bool:
    return len(variable.dimensions) == 1 and np.dtype(variable.data.dtype).kind in "iuf"


def _is_time(netcdf: Any, dimension: str, names: list[str]) -> bool:
    """Returns whether the coordinate variable of a dimension has times."""
    if dimension not in names:
        return False
    units = _attributes(netcdf.variables[dimension]).get("units", "")
    return dimension.lower() in of_time.TIME_NAMES if not units else _unit(netcdf.variables[dimension], dimension) is not None


def _table(name: str, netcdf: Any, names: list[str], clock: str | None) -> Table:
    variables = {name: netcdf.variables[name] for name in names}
    columns = [_column(name, variable) for name, variable in variables.items()]
    attributes = [_attributes(it) for it in [*variables.values(), netcdf]]
    rate = next((rate for it in attributes if (rate := of_time.rate_in(it)) is not None), None)
    rows = len(next(iter(variables.values())).data)
    told = None if clock is None else _unit(netcdf.variables[clock], clock)
    if clock is None or told is None:
        return Table(name, columns, rows, rate)
    series, (per_unit, origin) = netcdf.variables[clock], told

    def times(first: int, end: int) -> Times:
        return nanoseconds(_native(series.data[first:end]), per_unit, origin or 0)

    return Table(name, columns, rows, rate, None if origin is None else int(times(0, 1)[0]), times)


def _attributes(item: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = item._attributes
    return {key: of_time.text(value) if isinstance(value, bytes) else value for key, value in attributes.items()}


def _unit(variable: Any, name: str) -> tuple[int, int | None] | None:
    attributes = _attributes(variable)
    return of_time.unit_and_origin(str(attributes.get("units", "")), name, str(attributes.get("calendar", "")))


def _column(name: str, variable: Any) -> Column:
    attributes = _attributes(variable)
    fill = attributes.get("_FillValue", attributes.get("missing_value"))
    dtype = stream_dtype(np.dtype(variable.data.dtype))
    assert dtype is not None, "others were left out"
    if fill is not None and dtype.kind in "iu":
        dtype = np.dtype("<f8")

    def read(first: int, end: int) -> Array:
        stored = _native(variable.data[first:end])
        values = stored.astype(dtype)
        return values if fill is None else np.where(np.isin(stored, np.asarray(fill)), dtype.type(np.nan), values)

    packing = (("scale_factor", 1.0), ("add_offset", 0.0))
    scale, offset = (float(np.asarray(attributes.get(key, default)).reshape(-1)[0]) for key, default in packing)
    return Column(Channel(str(attributes.get("units", "")), variable.shape[1:], scale, offset, name), dtype, read)


def _native(values: Array) -> Array:
    return np.array(values, dtype=values.dtype.newbyteorder("="))
