"""Structured arrays of NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallycast._convert.columns import column_name

if TYPE_CHECKING:
    from tallycast._excerpt import Rows


def structured(rows: Rows) -> npt.NDArray[np.void]:
    """Returns `index`, `time_ns` and the channels as fields."""
    fields: list[Any] = [("index", np.uint64), ("time_ns", np.int64)]
    channels = rows.schema.channels
    fields += [(column_name(channel.name), rows.dtype, tuple(channel.shape)) for channel in channels]
    table = np.empty(len(rows), dtype=fields)
    table["index"] = rows.index
    table["time_ns"] = rows.times
    for channel in channels:
        # Bytes, so that no payload of a NaN is touched.
        table[column_name(channel.name)].view(np.dtype(rows.dtype))[...] = rows[channel.name]
    return table
