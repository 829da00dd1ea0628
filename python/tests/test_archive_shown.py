"""Excerpts, accounts and lists as a notebook shows them, and as plots with breaks where samples are missing."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from archive_scene import INDEX, PERIOD_NS, T0_NS
from places import Place
from tallycast import _html
from tallycast._account import Account, Accounts
from tallycast.archive import Archive


class Cells(HTMLParser):
    """The texts of a table's cells, and whether every element that was opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert self.open == [], text

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert tag in {"table", "caption", "thead", "tr", "th", "td"}, tag
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_texts_of_others_are_escaped_and_long_tables_end() -> None:
    cells = Cells(_html.table(("<b>",), [("<script>alert(1)</script>",), ("&amp;",)], "a<b"))
    assert cells.texts == ["a<b", "<b>", "<script>alert(1)</script>", "&amp;"]
    long = Cells(_html.table(("n",), [(number,) for number in range(1_000_000, 1_000_000 + 2 * _html.MAX_ROWS)]))
    assert long.texts[1] == "1,000,000" and long.texts[-1] == f"and {_html.MAX_ROWS} more"
    assert len(long.texts) == 2 + _html.MAX_ROWS


def test_excerpts_are_shown_with_their_counts_and_without_reading_samples(compacted: Archive) -> None:
    excerpt = compacted["lab/probe-f8"].between()
    cells = Cells(excerpt._repr_html_()).texts
    assert "90" in cells and "10" in cells and "current" in cells and "2×3" in cells, cells
    assert "_read" not in excerpt.stretches[0].__dict__
    assert Cells(excerpt.gaps._repr_html_()).texts[-5:-3] == ["40", "10"]
    assert Cells(excerpt.gaps._repr_html_()).texts[0] == "1 hole, 10 samples missing"
    assert "lab/probe-f8" in Cells(compacted._repr_html_()).texts
    stream = compacted["lab/probe-f8"]
    assert {stream.epochs[0], "90", "closed", "current", "2×3"} <= set(Cells(stream._repr_html_()).texts)


def test_a_heading_is_where_its_column_is() -> None:
    """Numbers on the right, texts on the left, each in one line."""
    styles = re.findall(r'<(t[hd]) style="text-align:(left|right);white-space:nowrap">', _html.table(("n", "name"), [(1, "a"), (2, "b")]))
    assert styles == [("th", "right"), ("th", "left"), *[("td", "right"), ("td", "left")] * 2]


def test_streams_and_accounts_are_lists_and_tables(shm: Place) -> None:
    with shm.publisher("lab/shown", {"u": "V"}, "f4", rate=1_000) as publisher:
        subscriber = shm.joined("lab/shown", until_end=True)
        listed: Any = tc.streams(0.0, shm.publishers)
        assert isinstance(listed, list) and [it.name for it in listed] == ["lab/shown"]
        row = ["lab/shown", "1", "float32", "1000", listed[0].station, listed[0].reach, "clear"]
        assert Cells(listed._repr_html_()).texts[7:14] == row
        publisher.send(np.zeros(5, "f4"))
        publisher.skip(2)
    list(subscriber)
    accounts: Any = subscriber.close()
    assert isinstance(accounts, Accounts) and accounts == list(accounts)
    assert "source 2" in Cells(accounts._repr_html_()).texts
    account: Account = accounts[0]
    assert {"lost: source", "2", "delivered", "5"} <= set(Cells(account._repr_html_()).texts)


def test_a_line_breaks_at_a_hole_and_its_axes_have_units(compacted: Archive) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    excerpt = compacted["lab/probe-f8"].between()
    plots = excerpt.plot()
    units = [channel.unit for channel in excerpt.schema.channels]
    assert len(plots) == len(set(units)) and plots[0].get_title() == "lab/probe-f8" and plots[-1].get_xlabel() == "time (UTC)"
    for plot, channel in zip(plots, excerpt.schema.channels):
        assert plot.get_ylabel() == f"{channel.name}{'[0]' if channel.shape else ''} [{channel.unit}]"
        (line,) = plot.lines
        times, values = line.get_data()
        breaks = np.flatnonzero(np.isnan(values))
        # One behind sample 39; what never arrived of sample 73 is another element's.
        assert 40 in breaks and len(times) == len(INDEX) + 1
        assert np.asarray(times)[40] == np.datetime64(T0_NS + 40 * PERIOD_NS, "ns")
    (alone,) = excerpt.plot("current", ax=plots[0])
    assert alone is plots[0] and len(alone.lines) == 2
    with pytest.raises(tc.NotStored, match="no channel nothing"):
        excerpt.plot("nothing")
    with pytest.raises(tc.NotStored, match="has no element 6\nchoose one from 0 to 5"):
        excerpt.plot("image", element=6)
    matplotlib.pyplot.close("all")


def test_holes_are_shaded_and_a_sample_between_two_is_a_point(compacted: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    dates: Any = pytest.importorskip("matplotlib.dates")
    excerpt = compacted["lab/probe-i16"].between()
    values = np.full(91, np.nan)
    values[[0, 1, 7]] = 1.0, 2.0, 3.0
    monkeypatch.setattr(type(excerpt), "line", lambda *_: (np.insert(excerpt.times, 40, T0_NS + 40 * PERIOD_NS).view("M8[ns]"), values))
    (plot,) = excerpt.plot("current")
    line, point = plot.lines
    assert point.get_ydata().tolist() == [3.0] and point.get_color() == line.get_color() and plot.get_legend() is None
    (shade,) = plot.patches
    ends = [T0_NS + index * PERIOD_NS for index in (40, 50)]
    wanted = dates.date2num(np.array(ends, "M8[ns]"))
    box = shade.get_window_extent().transformed(plot.transData.inverted())
    assert np.allclose([box.x0, box.x1], wanted, rtol=0, atol=1e-9)
    matplotlib.pyplot.close("all")


def test_the_element_is_that_of_channels_with_a_shape(compacted: Archive) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    excerpt = compacted["lab/probe-i16"].between()
    first, second = excerpt.plot(element=3)
    assert (first.get_ylabel(), second.get_ylabel()) == ("current [A]", "image[3] [V]")
    assert np.array_equal(np.asarray(second.lines[0].get_ydata()), excerpt.line("image", 3)[1], equal_nan=True)
    with pytest.raises(tc.NotStored, match="current of lab/probe-i16 has no element 3"):
        excerpt.plot("current", element=3)
    matplotlib.pyplot.close("all")


def test_downsampled_columns_are_drawn_as_ranges(compacted: Archive) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    dates: Any = pytest.importorskip("matplotlib.dates")
    points = compacted["lab/probe-i2" if "lab/probe-i2" in compacted else "lab/probe-i16"].between(points=20, channel="current")
    (plot,) = points.plot()
    (drawn,) = plot.collections
    ends = [points.times[0], points.times[-1] + points.column_ns]
    assert "current" in plot.get_ylabel() and np.isnan(points.lo).any() and not np.isnan(points.lo[[0, -1]]).any()
    assert np.allclose(plot.dataLim.intervalx, dates.date2num(np.array(ends, "M8[ns]")), rtol=0, atol=1e-9), "the last column has its width"
    assert len(drawn.get_paths()) == 2 and len(plot.patches) == 1, "a hole between"
    with pytest.raises(tc.NotStored):
        points.plot("image")
    matplotlib.pyplot.close("all")


def test_a_missing_matplotlib_is_named(compacted: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(tc.MissingPackage, match=r"matplotlib is not installed\ninstall it: pip install 'tallycast\[plot\]'"):
        compacted["lab/probe-f8"].between().plot()
