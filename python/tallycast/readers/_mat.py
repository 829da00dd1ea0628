"""MAT files of MATLAB and Octave: up to version 7 by SciPy, version 7.3, which is HDF5, by h5py.

Vectors of equal length, and the columns of matrices with as many rows, are channels of one stream; fields of a structure are
named `s.x`. A vector `t` or `time` (seconds), or the one that was named, gives the times; else a scalar `fs`, `rate` or `dt` the
rate. SciPy reads a file of versions up to 7 whole: its variables are compressed as one piece each. Of version 7.3 blocks are read.

Source: MathWorks, "MAT-File Format"; SciPy, `scipy.io.loadmat`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tallycast._packages import needed
from tallycast._schema import Channel, stream_dtype
from tallycast.readers import _units_of_time as of_time
from tallycast.readers._group import Column, FileStream, Table, Times, check_room, nanoseconds

if TYPE_CHECKING:
    from tallycast._scaling import Array
    from tallycast.readers import Request


#: Sizes of numbers by class; the contents of structures and cells are not told before they are read.
ITEM_BYTES = {
    "double": 8, "single": 4, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2,
    "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "logical": 1,
}  # fmt: skip


class Variable(NamedTuple):
    """A variable as MATLAB sees it: its shape, its dtype, and how rows of the first axis are read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int], Array]


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    with request.path.open("rb") as file:
        is_hdf5 = b"MATLAB 7.3" in file.read(128)
    variables = dict(_of_hdf5(request) if is_hdf5 else _of_scipy(request))
    series = {name: it for name, it in variables.items() if it.shape[0] > 1 and stream_dtype(it.dtype) is not None}
    numbers = {name.rpartition(".")[2]: it.read(0, 1) for name, it in variables.items() if it.shape == (1,) and it.dtype.kind in "iuf"}
    rate = of_time.rate_in(numbers)
    request.known_time((name for name, it in series.items() if _has_times(it)), "vector")
    lengths = {it.shape[0]: None for it in series.values()}
    for length in lengths:
        alike = {name: it for name, it in series.items() if it.shape[0] == length}
        clock = _clock(alike, request.time)
        columns = [_column(name, it) for name, it in alike.items() if name != clock]
        if columns:
            name = request.path.stem if len(lengths) == 1 else columns[0].channel.name
            yield from Table(name, columns, length, rate, None, None if clock is None else _times(alike[clock], clock)).streams()


def _clock(alike: dict[str, Variable], asked: str | None) -> str | None:
    names = [asked] if asked is not None else of_time.TIME_NAMES
    vectors = {name.lower() if asked is None else name: name for name, it in alike.items() if _has_times(it)}
    return next((vectors[name] for name in names if name in vectors), None)


def _has_times(series: Variable) -> bool:
    return len(series.shape) == 1 and series.dtype.kind in "iuf"


def _times(series: Variable, name: str) -> Callable[[int, int], Times]:
    told = of_time.unit_and_origin("", name)
    assert told is not None, "of no unit it is seconds, or what the name says"
    per_unit = told[0]
    return lambda first, end: nanoseconds(series.read(first, end), per_unit)


def _column(name: str, series: Variable) -> Column:
    dtype = stream_dtype(series.dtype)
    assert dtype is not None, "others were left out"
    return Column(Channel(shape=series.shape[1:], name=name), dtype, series.read)


def _of_scipy(request: Request) -> Iterator[tuple[str, Variable]]:
    scipy_io = needed("scipy.io", "mat")
    check_room(request.path, sum(math.prod(shape) * ITEM_BYTES.get(kind, 0) for _, shape, kind in scipy_io.whosmat(str(request.path))))
    found = scipy_io.loadmat(str(request.path), struct_as_record=False, squeeze_me=False)
    for name, value in found.items():
        if not name.startswith("__"):
            yield from _named(name, value)


def _named(name: str, value: Any) -> Iterator[tuple[str, Variable]]:
    if hasattr(value, "_fieldnames"):
        for field in value._fieldnames:
            yield from _named(f"{name}.{field}", getattr(value, field))
    elif isinstance(value, np.ndarray) and value.dtype == object:
        if value.size == 1 and hasattr(value.reshape(-1)[0], "_fieldnames"):
            yield from _named(name, value.reshape(-1)[0])
    elif isinstance(value, np.ndarray) and value.size:
        array = _rows_first(value)
        yield name, Variable(array.shape, array.dtype, lambda first, end: array[first:end])


def _rows_first(array: Array) -> Array:
    """Returns a vector as `[rows]`, whichever way it lies; other arrays as they are."""
    return array.reshape(-1) if array.ndim == 2 and 1 in array.shape else array


def _of_hdf5(request: Request) -> Iterator[tuple[str, Variable]]:
    h5py = needed("h5py", "hdf5")
    file = h5py.File(request.path, "r")
    found: list[tuple[str, Any]] = []
    file.visititems(lambda name, item: found.append((name, item)) if isinstance(item, h5py.Dataset) else None)
    for name, item in found:
        kind = of_time.text(item.attrs.get("MATLAB_class", b""))
        if name.startswith("#") or not item.size or "MATLAB_empty" in item.attrs or kind in ("char", "cell", "function_handle"):
            continue
        yield name.replace("/", "."), _variable(item, kind == "logical")


def _variable(item: Any, is_logical: bool) -> Variable:
    """Returns a data set with its axes as MATLAB has them: the file has them in the opposite order."""
    dtype, shape = item.dtype, tuple(reversed(item.shape))
    is_complex = dtype.names == ("real", "imag")
    if is_complex:
        dtype = np.result_type(dtype["real"], np.complex64)
    is_vector = len(shape) == 2 and 1 in shape

    def read(first: int, end: int) -> Array:
        if is_vector:
            part = item[0, first:end] if item.shape[0] == 1 else item[first:end, 0]
        else:
            part = np.moveaxis(item[..., first:end], -1, 0)
            part = np.transpose(part, (0, *range(part.ndim - 1, 0, -1)))
        if is_complex:
            # Not by arithmetic: 1j times infinity has a real part that is no number.
            whole: Array = np.empty(part.shape, dtype)
            whole.real, whole.imag = part["real"], part["imag"]
            return whole
        values: Array = part.astype(bool if is_logical else dtype)
        return values

    return Variable((max(shape),) if is_vector else shape, np.dtype(bool) if is_logical else dtype, read)
