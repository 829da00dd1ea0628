"""Names, contents and metadata of columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tallycast._scaling import is_scaled

if TYPE_CHECKING:
    from tallycast._excerpt import Rows
    from tallycast._scaling import Array
    from tallycast._schema import Channel


class Column(NamedTuple):
    """The elements or values of a channel, `[rows, *shape]`, and which of them never arrived."""

    channel: Channel
    name: str
    values: Array
    missing: npt.NDArray[np.bool_] | None


#: Leading columns of tables, and of frames and data sets, which may be named after their axis as well.
LEADING = ("index", "time_ns")
FRAME_LEADING = (*LEADING, "time", "missing_before")


def columns(
    rows: Rows, scaled: bool, leading: tuple[str, ...] = LEADING, partial: frozenset[str] = frozenset()
) -> Iterator[Column]:
    """Returns the channels: as values in their units where they are scaled and that is asked for, else as recorded.

    Those named `partial` have a mask also where it is empty: other rows of the same file lack elements.
    """
    for channel in rows.schema.channels:
        missing = rows.missing_of(channel.name)
        is_value = scaled and is_scaled(channel)
        values = rows.values(channel.name) if is_value else rows[channel.name]
        if missing is None and channel.name in partial:
            missing = np.zeros(values.shape, dtype=np.bool_)
        yield Column(channel, column_name(channel.name, leading), values, missing)


def column_name(channel: str, leading: tuple[str, ...] = LEADING) -> str:
    """Returns the column's name: the channel's, unless that would hide one of the leading columns."""
    return f"channel:{channel}" if channel in leading else channel


def with_nan(column: Column) -> Array:
    """Returns floats or complex numbers with NaN where one never arrived; other elements as they are."""
    if column.missing is None or column.values.dtype.kind not in "fc":
        return column.values
    values: Array = column.values.copy()
    values[column.missing] = np.nan
    return values


def facts(rows: Rows, scaled: bool, counts: list[int] | None = None) -> dict[str, Any]:
    """Returns the metadata of rows: plain strings, numbers, lists and dictionaries. The rows of each stretch may be counted."""
    channels = rows.schema.channels
    told: dict[str, Any] = {
        "stream": rows.stream,
        "run": rows.run,
        "epochs": [stretch.epoch for stretch in rows.stretches],
        "epoch_rows": counts or [len(stretch) for stretch in rows.stretches],
        "station": rows._recording.station,
        "rate": f"{rows._recording.rate.numerator}/{rows._recording.rate.denominator}",
        "labels": dict(rows.schema.labels),
        "units": {column_name(channel.name, FRAME_LEADING): channel.unit for channel in channels},
    }
    if not scaled:
        told["scale"] = {column_name(channel.name, FRAME_LEADING): channel.scale for channel in channels}
        told["offset"] = {column_name(channel.name, FRAME_LEADING): channel.offset for channel in channels}
    return told


def parts(values: Array) -> Array:
    """Returns complex numbers as real and imaginary parts, `[…, 2]`, bit for bit."""
    part = np.dtype(f"<f{values.dtype.itemsize // 2}")
    return np.ascontiguousarray(values).view(part).reshape(*values.shape, 2)
