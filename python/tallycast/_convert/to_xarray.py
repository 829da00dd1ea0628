"""Data sets of xarray."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tallycast._convert.columns import FRAME_LEADING, columns, facts, with_nan
from tallycast._names import free_name
from tallycast._packages import needed
from tallycast._scaling import is_scaled

if TYPE_CHECKING:
    import xarray as xr

    from tallycast._excerpt import Rows


def dataset(rows: Rows, scaled: bool) -> xr.Dataset:
    """Returns the rows as a data set with its metadata."""
    made: xr.Dataset = series(rows, scaled).assign_attrs(attributes(rows))
    return made


def series(rows: Rows, scaled: bool, partial: frozenset[str] = frozenset()) -> xr.Dataset:
    """Returns the variables; those of the channels named `partial` with masks of missing elements."""
    xarray: Any = needed("xarray", "archive")
    variables: dict[str, Any] = {}
    taken = {channel.name for channel in rows.schema.channels}
    for column in columns(rows, scaled, FRAME_LEADING, partial):
        channel = column.channel
        dimensions = ("time", *(f"{column.name}_{axis}" for axis in range(len(channel.shape))))
        about: dict[str, Any] = {"units": channel.unit}
        if not scaled and is_scaled(channel):
            about.update(scale=channel.scale, offset=channel.offset)
        variables[column.name] = (dimensions, with_nan(column), about)
        if column.missing is not None:
            told = {"long_name": f"whether an element of {channel.name} never arrived"}
            variables[free_name(f"{column.name}_missing", taken)] = (dimensions, column.missing, told)
    coordinates = {
        "time": ("time", rows.datetimes, {"long_name": "time of the sample, UTC"}),
        "index": ("time", rows.index, {"long_name": "index of the sample in its epoch"}),
    }
    made: xr.Dataset = xarray.Dataset(variables, coords=coordinates)
    return made


def attributes(rows: Rows, counts: list[int] | None = None) -> dict[str, str]:
    """Returns the metadata: strings, which every form that xarray writes can hold."""
    told = {**facts(rows, True, counts), "gaps": rows.gaps.json()}
    told.pop("units")
    return {key: value if isinstance(value, str) else json.dumps(value) for key, value in told.items()}
