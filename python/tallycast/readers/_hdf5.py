"""HDF5 files that are complete, by h5py: a stream for the data sets that share their times, or their group, length and rate.

The first axis is that of the samples, unless a dimension scale of times is at another. Times are the axis that NeXus names
(`axes`), a dimension scale, the data set that was named, or one called `time` next to the data; otherwise a rate is looked for
among the attributes of data set, groups and file. Files that Tallycast wrote come back as they were recorded.

Source: the NeXus manual, NXdata and NXlog; HDF5, "Dimension Scales Specification". Files that grow: `bridges.files`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._errors import FileError
from tallycast._packages import needed
from tallycast._schema import Channel, stream_dtype
from tallycast.readers import _units_of_time as of_time
from tallycast.readers._group import Column, FileStream, Table, Times, nanoseconds

if TYPE_CHECKING:
    from tallycast._scaling import Array
    from tallycast.readers import Request

#: Data sets beside the values in files of our own.
OWN_BESIDE = ("index", "raw_value", "value_missing")


@dataclass(frozen=True)
class Clock:
    """A data set of times."""

    name: str
    rows: int
    read: Callable[[int, int], Times]
    #: Times are moments, not counted from a zero of the file's.
    is_absolute: bool
    #: The times themselves are this data set.
    address: Any


def streams(request: Request) -> Iterator[FileStream]:
    """Lists the streams of a file."""
    h5py = needed("h5py", "hdf5")
    file = h5py.File(request.path, "r")
    with_own = of_time.text(file.attrs.get("creator", "")) == "tallycast"
    found: list[Any] = []
    file.visititems(lambda _, item: found.append(item) if isinstance(item, h5py.Dataset) else None)
    series = [item for item in found if item.ndim and item.shape[0] and not _is_scale(item)]
    yield from Series(file, request, with_own).streams(series)


def _is_scale(item: Any) -> bool:
    return of_time.text(item.attrs.get("CLASS", b"")) == "DIMENSION_SCALE"


class Series:
    """Data sets of a file, put together to streams."""

    def __init__(self, file: Any, request: Request, is_own: bool) -> None:
        self._file, self._request, self._is_own = file, request, is_own
        self._clocks: dict[Any, Clock | None] = {}

    def streams(self, series: list[Any]) -> Iterator[FileStream]:
        """Puts data sets of one clock, or of one group, length and rate, together."""
        alike: dict[Any, list[Any]] = {}
        clocks, rates, left_out = {}, {}, []
        for item in series:
            if self._is_beside(item):
                continue
            if stream_dtype(item.dtype) is None:
                left_out.append(item.name)
                continue
            clock, rate = self._clock(item), self._rate(item)
            if clock is not None and clock.address == _address(item):
                continue
            key = ("clock", clock.address) if clock else (item.parent.name, item.shape[_axis(item)], rate)
            alike.setdefault(key, []).append(item)
            clocks[key], rates[key] = clock, rate
        bases = {key: _common([item.parent.name for item in items]) for key, items in alike.items()}
        for key, items in alike.items():
            is_only = list(bases.values()).count(bases[key]) == 1
            name = bases[key] if is_only else f"{bases[key]}/{self._name(items[0], bases[key])}"
            yield from self._table(name, bases[key], items, clocks[key], rates[key], left_out).streams()

    def _table(self, name: str, base: str, items: list[Any], clock: Clock | None, rate: Fraction | None, left_out: list[str]) -> Table:
        columns = [Column(self._channel(item, base), _dtype(item), _reader(item)) for item in items]
        start_ns = int(clock.read(0, 1)[0]) if clock is not None and clock.is_absolute else None
        return Table(
            name.strip("/") or self._request.path.stem,
            columns,
            items[0].shape[_axis(items[0])],
            rate,
            start_ns,
            None if clock is None else clock.read,
            left_out=tuple(left_out),
        )

    def _is_beside(self, item: Any) -> bool:
        if not self._is_own:
            return False
        words = item.name.split("/")
        return words[-1] in OWN_BESIDE or "tallycast" in words[2:]

    def _channel(self, item: Any, base: str) -> Channel:
        units = of_time.text(item.attrs.get("units", item.attrs.get("unit", "")))
        scale, offset = (_number(item.attrs.get(key), default) for key, default in (("scale_factor", 1.0), ("add_offset", 0.0)))
        shape = list(item.shape)
        del shape[_axis(item)]
        return Channel(units, tuple(shape), scale, offset, self._name(item, base))

    def _name(self, item: Any, base: str) -> str:
        if self._is_own:
            return of_time.text(item.parent.attrs.get("title", "")) or str(item.parent["title"].asstr()[()])
        name: str = item.name.removeprefix(base).strip("/")
        # Of an NXdata group the signal is what the group is called after.
        is_signal = of_time.text(item.parent.attrs.get("signal", "")) == item.name.rpartition("/")[2]
        return name.rpartition("/")[0] or name if is_signal and "/" in name else name

    def _rate(self, item: Any) -> Fraction | None:
        if self._is_own:
            rate = json.loads(item.parent.parent["tallycast/description"].asstr()[()])["rate"]
            return Fraction(rate["numerator"], rate["denominator"])
        places = [item, item.parent, self._file]
        return next((rate for place in places if (rate := of_time.rate_in(dict(place.attrs))) is not None), None)

    def _clock(self, item: Any) -> Clock | None:
        found = self._named(item) if self._request.time is not None else self._beside(item)
        if found is None or not _is_vector(found) or len(found) != item.shape[_axis(item)]:
            return None
        address = _address(found)
        if address not in self._clocks:
            self._clocks[address] = _clock(found, address)
        return self._clocks[address]

    def _named(self, item: Any) -> Any:
        name = self._request.time
        if name in self._file:
            return self._file[name]
        if name in item.parent:
            return item.parent[name]
        vectors = _vectors(self._file)
        if not any(found.rpartition("/")[2] == name for found in vectors):
            self._request.known_time(vectors, "data set")
        return None

    def _beside(self, item: Any) -> Any:
        parent = item.parent
        axes = parent.attrs.get("axes")
        first = of_time.text(axes) if axes is not None else ""
        if first in parent:
            return parent[first]
        if (scale := _time_scale(item, _axis(item))) is not None:
            return scale
        by_name = {name.lower(): name for name in parent}
        name = next((by_name[name] for name in of_time.TIME_NAMES if name in by_name), None)
        return None if name is None or not hasattr(parent[name], "shape") else parent[name]


def _axis(item: Any) -> int:
    """Returns the axis of the samples."""
    return next((axis for axis in range(item.ndim) if _time_scale(item, axis) is not None), 0)


def _time_scale(item: Any, axis: int) -> Any:
    """Returns the dimension scale of an axis, if it is one of times."""
    if axis >= len(item.dims) or not len(item.dims[axis]):
        return None
    scale = item.dims[axis][0]
    units = of_time.text(scale.attrs.get("units", ""))
    is_named = scale.name.rpartition("/")[2].lower() in of_time.TIME_NAMES
    is_time = is_named if not units else of_time.unit_and_origin(units, scale.name) is not None
    return scale if is_time else None


def _clock(item: Any, address: Any) -> Clock | None:
    units = of_time.text(item.attrs.get("units", item.attrs.get("unit", "")))
    told = of_time.unit_and_origin(units, item.name, of_time.text(item.attrs.get("calendar", "")))
    if told is None:
        return None
    per_unit, origin = told
    if origin is None and "start_ns" in item.attrs:
        origin = int(item.attrs["start_ns"])
    if origin is None and (start := of_time.text(item.attrs.get("start", ""))):
        origin = of_time.moment_ns(start, item.name)
    return Clock(
        item.name, len(item), lambda first, end: nanoseconds(item[first:end], per_unit, origin or 0), origin is not None, address
    )


def _reader(item: Any) -> Callable[[int, int], Array]:
    absent_in, dtype, axis = _absent(item), _dtype(item), _axis(item)

    def read(first: int, end: int) -> Array:
        rows = (slice(None),) * axis + (slice(first, end),)
        stored = np.moveaxis(item[rows], axis, 0)
        values: Array = stored.astype(dtype, copy=False)
        absent = None if absent_in is None else absent_in(stored, first, end)
        if absent is None or not absent.any():
            return values
        if dtype.kind not in "fc":
            raise FileError(f"{item.name} lacks values from row {first} on, which {dtype} cannot tell\nread the file with h5py")
        return np.where(absent, dtype.type(np.nan), values)

    return read


def _absent(item: Any) -> Callable[[Array, int, int], Array] | None:
    """Returns what tells absent values: a fill value, or the mask that Tallycast writes beside them; None if all are there."""
    fill = item.attrs.get("_FillValue", item.attrs.get("missing_value"))
    if fill is not None:
        return lambda stored, first, end: np.isin(stored, np.asarray(fill))
    if item.name.endswith("/value") and "value_missing" in item.parent:
        mask = item.parent["value_missing"]
        return lambda stored, first, end: mask[first:end]
    return None


def _dtype(item: Any) -> np.dtype[Any]:
    dtype = stream_dtype(item.dtype)
    assert dtype is not None, "others were left out"
    # A number that stands for none becomes NaN, which floats alone have.
    is_small = dtype.kind in "iub" and dtype.itemsize < 8
    return np.dtype("<f8") if is_small and _absent(item) is not None else dtype


def _number(value: Any, default: float) -> float:
    return default if value is None else float(np.asarray(value).reshape(-1)[0])


def _address(item: Any) -> Any:
    h5o = needed("h5py.h5o", "hdf5")
    return h5o.get_info(item.id).addr


def _vectors(file: Any) -> list[str]:
    """Returns the names of the data sets that may be times."""
    names: list[str] = []
    file.visititems(lambda name, item: names.append(f"/{name}") if _is_vector(item) else None)
    return names


def _is_vector(item: Any) -> bool:
    return getattr(item, "ndim", 0) == 1 and item.dtype.kind in "iuf"


def _common(paths: list[str]) -> str:
    """Returns the group that all of them are in."""
    split = [path.split("/") for path in paths]
    common: list[str] = []
    for words in zip(*split):
        if len(set(words)) > 1:
            break
        common.append(words[0])
    return "/".join(common)
