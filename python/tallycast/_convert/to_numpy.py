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
    # Of a structured dtype the fields that were published, which the stream's dtype holds exactly.
    published = rows.schema.record_dtype
    fields += [(column_name(it.name), published[it.name].base, it.shape) for it in channels]
    table = np.empty(len(rows), dtype=fields)
    table["index"] = rows.index
    table["time_ns"] = rows.times
    for channel in channels:
        table[column_name(channel.name)] = rows[channel.name]
    return table
