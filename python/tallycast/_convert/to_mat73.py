"""MAT files, version 7.3, for more than version 5 takes: HDF5 as MATLAB lays it out, written piece by piece.

HDF5 has the axes in the opposite order, a header of MATLAB before its own, and the class of each variable as an attribute.

Source: MathWorks, "MAT-File Versions"; the headers and attributes of files that MATLAB R2006b and later save with `-v7.3`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._scaling import Array

#: Room for the header.
USER_BLOCK_BYTES = 512
#: Approximate size of a chunk of a variable in bytes.
CHUNK_BYTES = 1 << 20
#: Group of what cells refer to.
REFERRED = "#refs#"
CLASSES = {
    "f4": "single", "f8": "double", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "b1": "logical", "c8": "single", "c16": "double",
}  # fmt: skip


def write(path: Path, count: int, parts: Iterator[tuple[slice, dict[str, Array]]], beside: dict[str, Any]) -> None:
    """Writes variables of so many rows, of which each part has some, and what stands beside them."""
    with needed("h5py", "mat").File(path, "w", userblock_size=USER_BLOCK_BYTES) as file:
        for place, series in parts:
            for name, values in series.items():
                _put(file, name, values, place, count)
        for name, value in beside.items():
            _store(file, file, name, value)
    with path.open("r+b") as written:
        written.write(b"MATLAB 7.3 MAT-file, Platform: tallycast".ljust(116) + bytes(8) + b"\x00\x02IM")


def _put(file: Any, name: str, values: Array, place: slice, count: int) -> None:
    """Writes some rows of a variable, and makes it before the first of them."""
    part = _of_matlab(values if values.ndim > 1 else values[:, np.newaxis])
    if name not in file:
        row_bytes = part.dtype.itemsize * int(np.prod(part.shape[:-1], dtype=np.int64))
        chunk = max(1, min(count, CHUNK_BYTES // row_bytes))
        shape = part.shape[:-1]
        file.create_dataset(name, (*shape, count), part.dtype, chunks=(*shape, chunk), compression="gzip", compression_opts=1, shuffle=True)
        _classify(file[name], values.dtype)
    file[name][..., place] = part


def _of_matlab(values: Array) -> Array:
    """Returns values with their axes reversed, complex numbers and flags in the types of the format."""
    turned: Array = np.ascontiguousarray(values.T)
    if turned.dtype.kind == "c":
        part = f"<f{turned.dtype.itemsize // 2}"
        return turned.view(np.dtype([("real", part), ("imag", part)]))
    return turned.astype("u1") if turned.dtype.kind == "b" else turned


def _classify(item: Any, dtype: np.dtype[Any]) -> None:
    item.attrs["MATLAB_class"] = np.bytes_(CLASSES[dtype.str[1:]])
    if dtype.kind == "b":
        item.attrs["MATLAB_int_decode"] = np.int32(1)


def _store(file: Any, group: Any, name: str, value: Any) -> None:
    """Writes a structure, a text, a cell array of texts, or a column of numbers."""
    if isinstance(value, dict):
        made = group.create_group(name)
        made.attrs["MATLAB_class"] = np.bytes_("struct")
        for field, content in value.items():
            _store(file, made, field, content)
    elif isinstance(value, str):
        codes = np.frombuffer(value.encode("utf-16-le"), "<u2")[:, np.newaxis]
        _whole(group, name, codes, "char").attrs["MATLAB_int_decode"] = np.int32(2)
    elif isinstance(value, list):
        referred = file.require_group(REFERRED)
        places = []
        for text in value:
            places.append(f"t{len(referred)}")
            _store(file, referred, places[-1], text)
        h5py = needed("h5py", "mat")
        cells = np.array([[referred[place].ref for place in places]], dtype=h5py.ref_dtype)
        _whole(group, name, cells, "cell")
    else:
        numbers = np.atleast_1d(np.asarray(value))[np.newaxis]
        _whole(group, name, numbers, CLASSES[numbers.dtype.str[1:]])


def _whole(group: Any, name: str, stored: Array, kind: str) -> Any:
    """Writes an array that is in memory; of an empty one its extents, in the order of MATLAB."""
    extents = np.array(stored.shape[::-1], dtype=np.uint64)
    item = group.create_dataset(name, data=stored if stored.size else extents)
    item.attrs["MATLAB_class"] = np.bytes_(kind)
    if not stored.size:
        item.attrs["MATLAB_empty"] = np.uint8(1)
    return item
