"""Frames of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallycast._convert.columns import FRAME_LEADING, columns, facts, with_nan
from tallycast._gap_map import PlainGaps
from tallycast._names import free_name
from tallycast._packages import needed

if TYPE_CHECKING:
    import pandas as pd

    from tallycast._excerpt import Rows
    from tallycast._points import Points
    from tallycast._scaling import Array


def frame(rows: Rows, scaled: bool) -> pd.DataFrame:
    """Returns the rows as a frame."""
    pandas: Any = needed("pandas", "archive")
    data: dict[str, Any] = {"index": rows.index}
    for column in columns(rows, scaled, FRAME_LEADING):
        shape = len(rows), column.channel.elements
        flat: Array = with_nan(column).reshape(shape)
        missing = None if column.missing is None else column.missing.reshape(shape)
        for element in range(column.channel.elements):
            name = f"{column.name}[{element}]" if column.channel.shape else column.name
            mask = None if missing is None else missing[:, element]
            data[free_name(name, data)] = _nullable(pandas, flat[:, element], mask)
    made: pd.DataFrame = pandas.DataFrame(data, index=times(rows.datetimes), copy=False)
    made.attrs.update(facts(rows, scaled))
    made.attrs["gaps"] = PlainGaps(rows.gaps.json())
    return made


def points_frame(points: Points) -> pd.DataFrame:
    """Returns columns of least and greatest values as a frame."""
    pandas: Any = needed("pandas", "archive")
    data: dict[str, Any] = {}
    for place, channel in enumerate(points.channels):
        data[f"{channel} lo"] = points.lo[:, place]
        data[f"{channel} hi"] = points.hi[:, place]
        data[f"{channel} samples"] = points.samples[:, place]
    made: pd.DataFrame = pandas.DataFrame(data, index=times(points.datetimes))
    made.attrs.update({"stream": points.stream, "units": dict(zip(points.channels, points.units))})
    made.attrs["gaps"] = PlainGaps(points.gaps.json())
    return made


def times(datetimes: npt.NDArray[np.datetime64]) -> Any:
    """Returns an index of times in UTC."""
    return needed("pandas", "archive").DatetimeIndex(datetimes, name="time").tz_localize("UTC")


def _nullable(pandas: Any, values: Array, missing: npt.NDArray[np.bool_] | None) -> Any:
    if missing is None or values.dtype.kind not in "iub" or not missing.any():
        return values
    kind = pandas.arrays.BooleanArray if values.dtype.kind == "b" else pandas.arrays.IntegerArray
    return kind(np.ascontiguousarray(values), np.ascontiguousarray(missing))
