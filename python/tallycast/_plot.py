"""Plots of stored samples with matplotlib: lines that break where samples are missing, units on the axes, times in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._excerpt import Rows
    from tallycast._points import Points
    from tallycast._schema import Channel


def plot_rows(rows: Rows, names: Sequence[str], element: int, ax: Any) -> list[Any]:
    """Draws channels, those of one unit in one plot; returns the plots."""
    channels = [rows.schema.channel(name) for name in names] or list(rows.schema.channels)
    by_unit: dict[str, list[Channel]] = {}
    for channel in channels:
        by_unit.setdefault(channel.unit, []).append(channel)
    plots = _plots(len(by_unit), ax)
    for plot, (unit, alike) in zip(plots if ax is None else plots * len(by_unit), by_unit.items()):
        for channel in alike:
            times, values = rows.line(channel.name, element)
            name = f"{channel.name}[{element}]" if channel.shape else channel.name
            # Of a complex number its size, as everywhere else.
            is_complex = values.dtype.kind == "c"
            plot.plot(times, np.abs(values) if is_complex else values, label=f"|{name}|" if is_complex else name)
    labels = [_label(unit, alike) for unit, alike in by_unit.items()]
    for plot, label in zip(plots, labels if ax is None else [", ".join(labels)]):
        plot.set_ylabel(label)
    _finish(plots, rows.stream)
    return plots


def plot_points(points: Points, names: Sequence[str], ax: Any) -> list[Any]:
    """Draws the range of each column of channels, those of one unit in one plot; returns the plots."""
    chosen = list(names) or points.channels
    units = dict(zip(points.channels, points.units))
    by_unit: dict[str, list[str]] = {}
    for name in chosen:
        points[name]
        by_unit.setdefault(units[name], []).append(name)
    plots = _plots(len(by_unit), ax)
    for plot, (unit, alike) in zip(plots if ax is None else plots * len(by_unit), by_unit.items()):
        for name in alike:
            lo, hi = points[name]
            # One sample a column is a line without a height.
            plot.fill_between(points.datetimes, lo, hi, step="post", linewidth=0.8, edgecolor="face", label=name)
        plot.set_ylabel(f"{', '.join(alike)} [{unit}]" if unit else ", ".join(alike))
    _finish(plots, points.stream)
    return plots


def _plots(count: int, ax: Any) -> list[Any]:
    if ax is not None:
        return [ax]
    pyplot = needed("matplotlib.pyplot", "plot")
    _, made = pyplot.subplots(max(count, 1), sharex=True, squeeze=False, layout="constrained")
    return list(made[:, 0])


def _label(unit: str, alike: Sequence[Channel]) -> str:
    names = ", ".join(channel.name for channel in alike)
    return f"{names} [{unit}]" if unit else names


def _finish(plots: Sequence[Any], title: str) -> None:
    dates = needed("matplotlib.dates", "plot")
    for plot in plots:
        if len(plot.lines) + len(plot.collections) > 1:
            plot.legend(loc="upper right")
        locator = dates.AutoDateLocator()
        plot.xaxis.set_major_locator(locator)
        plot.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    plots[0].set_title(title)
    plots[-1].set_xlabel("time (UTC)")
