"""Tables of Arrow, with the columns and metadata of a segment of the archive."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallycast._convert.columns import columns, parts
from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._excerpt import Rows
    from tallycast._scaling import Array


def table(rows: Rows) -> Any:
    """Returns the rows as a table, bit for bit."""
    pyarrow = needed("pyarrow", "archive")
    about, about_fields = rows._recording._core.arrow_metadata()
    fields = [pyarrow.field("index", pyarrow.uint64(), False), pyarrow.field("time_ns", pyarrow.int64(), False)]
    arrays = [pyarrow.array(rows.index), pyarrow.array(rows.times)]
    for column, metadata in zip(columns(rows, scaled=False), about_fields):
        array = _channel(pyarrow, column.values, column.missing, bool(column.channel.shape))
        arrays.append(array)
        fields.append(pyarrow.field(column.name, array.type, True, metadata))
    gaps = {"tallycast.gaps": json.dumps(rows.gaps.json()), "tallycast.epochs": json.dumps([it.epoch for it in rows.stretches])}
    return pyarrow.table(arrays, schema=pyarrow.schema(fields, {**about, **gaps}))


def _channel(pyarrow: Any, values: Array, missing: npt.NDArray[np.bool_] | None, has_shape: bool) -> Any:
    width = int(np.prod(values.shape[1:], dtype=np.int64))
    flat = np.ascontiguousarray(values).reshape(-1)
    absent = None if missing is None else np.ascontiguousarray(missing).reshape(-1)
    elements = _elements(pyarrow, flat, absent)
    return pyarrow.FixedSizeListArray.from_arrays(elements, type=_list(pyarrow, elements.type, width)) if has_shape else elements


def _elements(pyarrow: Any, flat: Array, absent: npt.NDArray[np.bool_] | None) -> Any:
    if flat.dtype.kind != "c":
        return pyarrow.array(flat, mask=absent, from_pandas=False)
    numbers = pyarrow.array(parts(flat).reshape(-1), from_pandas=False)
    kind = _list(pyarrow, numbers.type, 2)
    if absent is None:
        return pyarrow.FixedSizeListArray.from_arrays(numbers, type=kind)
    return pyarrow.FixedSizeListArray.from_arrays(numbers, type=kind, mask=pyarrow.array(absent))


def _list(pyarrow: Any, element: Any, size: int) -> Any:
    return pyarrow.list_(pyarrow.field("item", element, True), size)
