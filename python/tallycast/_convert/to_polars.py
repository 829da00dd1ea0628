"""Frames of Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tallycast._convert.columns import FRAME_LEADING, columns, parts
from tallycast._packages import needed

if TYPE_CHECKING:
    import polars as pl

    from tallycast._excerpt import Rows
    from tallycast._scaling import Array


def frame(rows: Rows, scaled: bool) -> pl.DataFrame:
    """Returns the rows as a frame. Polars has no place for a gap map, so `missing_before` marks holes in the rows."""
    polars: Any = needed("polars", "archive")
    time = polars.Series("time", rows.datetimes).dt.replace_time_zone("UTC")
    series = [time, polars.Series("index", rows.index), polars.Series("missing_before", missing_before(rows))]
    for column in columns(rows, scaled, FRAME_LEADING):
        values, missing, shape = column.values, column.missing, tuple(column.channel.shape)
        if values.dtype.kind == "c":
            values = parts(values)
            shape = (*shape, 2)
            missing = None if missing is None else np.repeat(missing[..., np.newaxis], 2, axis=-1)
        series.append(_series(polars, column.name, values, missing, shape))
    made: pl.DataFrame = polars.DataFrame(series)
    return made


def missing_before(rows: Rows) -> npt.NDArray[np.uint64]:
    """Returns how many samples are missing directly before each row."""
    before = np.zeros(len(rows), dtype=np.uint64)
    row = 0
    for stretch in rows.stretches:
        index = stretch.index
        if len(index):
            holes = {hole.next_index: hole.samples for hole in stretch.gaps if hole.samples}
            before[row] = holes.get(int(index[0]), 0)
            before[row + 1 : row + len(index)] = index[1:] - index[:-1] - np.uint64(1)
        row += len(index)
    return before


def _series(
    polars: Any, name: str, values: Array, missing: npt.NDArray[np.bool_] | None, shape: tuple[int, ...]
) -> Any:
    flat = polars.Series(name, np.ascontiguousarray(values).reshape(-1))
    if missing is not None:
        absent = polars.Series("missing", np.ascontiguousarray(missing).reshape(-1))
        flat = polars.select(polars.when(absent).then(None).otherwise(flat).alias(name)).to_series()
    if not shape:
        return flat
    kind = flat.dtype
    for extent in reversed(shape):
        kind = polars.Array(kind, extent)
    if not len(values):
        return polars.Series(name, [], dtype=kind)
    return flat.reshape((len(values), *shape))
