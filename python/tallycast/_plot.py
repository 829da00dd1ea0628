"""Plots of stored samples with matplotlib: lines that break where samples are missing, units on the axes, times in UTC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tallycast._packages import needed

if TYPE_CHECKING:
    from tallycast._excerpt import Rows
    from tallycast._gap_map import GapMap
    from tallycast._points import Points
    from tallycast._schema import Channel


#: Maximum number of holes that are shaded: more would be one grey area, and slow. Lines break at all of them.
SHADED_HOLES = 500
SHADE = "0.93"


def plot_rows(rows: Rows, names: Sequence[str], element: int, ax: Any) -> list[Any]:
    """Draws channels, those of one unit in one plot; returns the plots."""
    channels = [rows.schema.channel(name) for name in names] or list(rows.schema.channels)
    # The element is that of channels with a shape, if there are any.
    has_shapes = any(channel.shape for channel in channels)
    by_unit: dict[str, list[tuple[Channel, int]]] = {}
    for channel in channels:
        by_unit.setdefault(channel.unit, []).append((channel, element if channel.shape or not has_shapes else 0))
    plots = _plots(len(by_unit), ax)
    for plot, alike in zip(plots if ax is None else plots * len(by_unit), by_unit.values()):
        for channel, place in alike:
            _draw(plot, rows, channel, place)
    labels = [_label(unit, [_name(*it) for it in alike]) for unit, alike in by_unit.items()]
    for plot, label in zip(plots, labels if ax is None else [", ".join(labels)]):
        plot.set_ylabel(label)
        if len(rows):
            _shade(plot, rows.gaps, rows.times[[0, -1]])
    _finish(plots, rows.stream)
    return plots


def _draw(plot: Any, rows: Rows, channel: Channel, element: int) -> None:
    times, values = rows.line(channel.name, element)
    # Of a complex number its size, as everywhere else.
    is_complex = values.dtype.kind == "c"
    name, shown = _name(channel, element), np.abs(values) if is_complex else values
    (line,) = plot.plot(times, shown, label=f"|{name}|" if is_complex else name)
    # A sample between two holes is no line.
    there = np.isfinite(shown)
    alone = there & ~np.append(False, there[:-1]) & ~np.append(there[1:], False)
    if alone.any():
        plot.plot(times[alone], shown[alone], ".", color=line.get_color())


def _name(channel: Channel, element: int) -> str:
    return f"{channel.name}[{element}]" if channel.shape else channel.name


def _shade(plot: Any, gaps: GapMap, ends: Any) -> None:
    """Shades holes between two times."""
    holes = [hole for hole in gaps if hole.samples and hole.t1_ns is not None]
    for hole in holes if len(holes) <= SHADED_HOLES else ():
        first, end = (np.clip(np.array([hole.t0_ns, hole.t1_ns], np.int64), *ends)).view("datetime64[ns]")
        if first < end:
            plot.axvspan(first, end, color=SHADE, linewidth=0, zorder=0)


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
            # From its beginning to its end, each column; of one sample it is a line without a height.
            times = (points.times[:, np.newaxis] + np.array([0, points.column_ns])).reshape(-1).view("datetime64[ns]")
            lo, hi = (np.repeat(values, 2) for values in points[name])
            plot.fill_between(times, lo, hi, linewidth=0.8, edgecolor="face", label=name)
        plot.set_ylabel(_label(unit, alike))
        if len(points):
            _shade(plot, points.gaps, points.times[[0, -1]] + np.array([0, points.column_ns]))
    _finish(plots, points.stream)
    return plots


def _plots(count: int, ax: Any) -> list[Any]:
    if ax is not None:
        return [ax]
    pyplot = needed("matplotlib.pyplot", "plot")
    _, made = pyplot.subplots(max(count, 1), sharex=True, squeeze=False, layout="constrained")
    return list(made[:, 0])


def _label(unit: str, names: Sequence[str]) -> str:
    return f"{', '.join(names)} [{unit}]" if unit else ", ".join(names)


def _finish(plots: Sequence[Any], title: str) -> None:
    dates = needed("matplotlib.dates", "plot")
    for plot in plots:
        if len(plot.get_legend_handles_labels()[0]) > 1:
            plot.legend(loc="upper right")
        locator = dates.AutoDateLocator()
        plot.xaxis.set_major_locator(locator)
        plot.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    plots[0].set_title(title)
    plots[-1].set_xlabel("time (UTC)")
