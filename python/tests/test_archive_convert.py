"""Excerpts as objects of other libraries: every element, every hole, and nothing across."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archive_scene import DTYPES, INDEX, PARTIAL_ROW, PERIOD_NS, T0_NS, bits, sample_elements
from tallycast._errors import MissingPackage
from tallycast.archive import Archive, Excerpt

pd: Any = pytest.importorskip("pandas")
pl: Any = pytest.importorskip("polars")
pa: Any = pytest.importorskip("pyarrow")
xr: Any = pytest.importorskip("xarray")

TIMES = T0_NS + INDEX.astype(np.int64) * PERIOD_NS
PARTS = {"c8": "<f4", "c16": "<f8"}


@pytest.fixture(params=DTYPES)
def dtype(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def excerpt(compacted: Archive, dtype: str) -> Excerpt:
    return compacted[f"lab/probe-{dtype}"].between()


def test_numpy_has_every_channel_as_a_field(excerpt: Excerpt, dtype: str) -> None:
    table = excerpt.numpy()
    assert table.dtype.names == ("index", "time_ns", "current", "image")
    assert (table["index"] == INDEX).all() and (table["time_ns"] == TIMES).all()
    assert table["image"].shape == (90, 2, 3)
    wanted = sample_elements(dtype)
    assert (bits(table["current"]) == bits(wanted[:, 0])).all()
    assert (bits(table["image"]) == bits(wanted[:, 1:])).all()


def test_pandas_has_every_element_and_the_gap_map(excerpt: Excerpt, dtype: str) -> None:
    frame = excerpt.pandas(scaled=False)
    wanted = sample_elements(dtype)
    names = ["current", *(f"image[{element}]" for element in range(6))]
    assert list(frame.columns) == ["index", *names]
    index: Any = frame.index
    assert (index.asi8 == TIMES).all() and str(index.tz) == "UTC" and index.name == "time"
    assert (frame["index"].to_numpy() == INDEX).all()
    for place, name in enumerate(names):
        column = frame[name]
        partial = place >= 5
        there = np.ones(90, dtype=bool)
        there[PARTIAL_ROW] = not partial
        if partial:
            assert column.isna().to_numpy()[PARTIAL_ROW] and (dtype[0] in "fc" or str(column.dtype) != str(np.dtype(DTYPES[dtype])))
        kept = column.to_numpy()[there] if dtype[0] in "fc" or not partial else column.array._data[there]
        assert kept.dtype == np.dtype(DTYPES[dtype])
        assert (bits(kept) == bits(wanted[:, place][there])).all(), name
    assert frame.attrs["gaps"] == excerpt.gaps.json() and frame.attrs["gaps"][0]["lost"] == {"injected": 70}
    assert frame.attrs["scale"] == {"current": 0.5, "image": 1.0}
    # The map goes along, and what pandas does with it costs nothing.
    assert frame.iloc[3:].attrs["gaps"] is frame.attrs["gaps"]
    assert copy.deepcopy(frame.attrs)["gaps"] is frame.attrs["gaps"]
    assert json.loads(json.dumps(frame.attrs))["gaps"] == excerpt.gaps.json()


def test_pandas_is_scaled_unless_told_otherwise(compacted: Archive) -> None:
    excerpt = compacted["lab/probe-i16"].between()
    frame = excerpt.pandas()
    assert (frame["current"].to_numpy() == excerpt.values("current")).all()
    assert frame["image[0]"].dtype == np.int16, "one without a scale stays as it was recorded"
    assert frame.attrs["units"] == {"current": "A", "image": "V"} and "scale" not in frame.attrs


def test_polars_has_every_element_and_tells_of_holes_in_the_rows(excerpt: Excerpt, dtype: str) -> None:
    frame = excerpt.polars(scaled=False)
    wanted = sample_elements(dtype)
    assert frame.columns == ["time", "index", "missing_before", "current", "image"]
    assert (frame["time"].to_physical().to_numpy() == TIMES).all()
    assert frame.schema["time"] == pl.Datetime("ns", "UTC")
    assert (frame["index"].to_numpy() == INDEX).all()
    before = frame["missing_before"].to_numpy()
    assert np.flatnonzero(before).tolist() == [40] and before[40] == 10
    values = 2 if dtype in PARTS else 1
    flat = frame["image"].explode()
    while flat.dtype.base_type() == pl.Array:
        flat = flat.explode()
    absent = np.flatnonzero(flat.is_null().to_numpy())
    assert absent.tolist() == list(range((PARTIAL_ROW * 6 + 4) * values, (PARTIAL_ROW * 6 + 6) * values))
    filled = flat.fill_null(False if dtype == "bool" else 0).to_numpy()
    assert (bits(filled) == bits(wanted[:, 1:])).all()
    current = frame["current"].explode() if dtype in PARTS else frame["current"]
    assert (bits(current.to_numpy()) == bits(wanted[:, 0])).all()


def test_xarray_has_every_element_with_names_units_and_the_gap_map(excerpt: Excerpt, dtype: str) -> None:
    data = excerpt.xarray(scaled=False)
    wanted = sample_elements(dtype)
    assert data["image"].dims == ("time", "image_0", "image_1") and data["image"].shape == (90, 2, 3)
    assert (data["time"].to_numpy().astype(np.int64) == TIMES).all()
    assert (data["index"].to_numpy() == INDEX).all()
    assert (bits(data["current"].to_numpy()) == bits(wanted[:, 0])).all()
    image, there = data["image"].to_numpy(), ~data["image_missing"].to_numpy()
    assert np.argwhere(~there).tolist() == [[PARTIAL_ROW, 1, 1], [PARTIAL_ROW, 1, 2]]
    assert (bits(image[there]) == bits(wanted[:, 1:].reshape(image.shape)[there])).all()
    assert "current_missing" not in data
    if dtype[0] in "fc":
        assert np.isnan(image[~there]).all()
    assert data["current"].attrs == {"units": "A", "scale": 0.5, "offset": 1.0}
    assert json.loads(data.attrs["gaps"]) == excerpt.gaps.json()
    assert all(isinstance(value, str) for value in data.attrs.values())
    # A hole is not filled, and not drawn across by position either.
    assert int(data["time"].diff("time").max()) == 11 * PERIOD_NS


def test_arrow_is_a_segment_of_the_archive(compacted: Archive, excerpt: Excerpt, dtype: str) -> None:
    table = excerpt.arrow()
    (segment, *_) = sorted(compacted.path.glob(f"run=arrow/stream=lab%2Fprobe-{dtype}/*/segment-*.arrows"))
    with pa.memory_map(str(segment)) as file, pa.ipc.open_stream(file) as reader:
        stored = reader.read_all()
    assert table.schema.remove_metadata() == stored.schema.remove_metadata()
    metadata = dict(table.schema.metadata)
    assert json.loads(metadata.pop(b"tallycast.gaps")) == excerpt.gaps.json()
    assert json.loads(metadata.pop(b"tallycast.epochs")) == [excerpt.stretches[0].epoch]
    assert metadata == stored.schema.metadata
    assert [field.metadata for field in table.schema] == [field.metadata for field in stored.schema]
    segments = sorted(segment.parent.glob("segment-*.arrows"))
    stored = pa.concat_tables(pa.ipc.open_stream(pa.memory_map(str(it))).read_all() for it in segments)
    for name in table.column_names:
        # NaN is equal to itself by its bits: compared as bytes below; here nulls and everything else.
        assert table[name].null_count == stored[name].null_count
        if dtype[0] not in "fc":
            assert table[name].to_pylist() == stored[name].to_pylist()
    flat = table["image"].combine_chunks().flatten()
    assert [place for place, value in enumerate(flat.is_valid().to_pylist()) if not value] == [PARTIAL_ROW * 6 + 4, PARTIAL_ROW * 6 + 5]
    if dtype[0] == "f":
        assert (bits(np.frombuffer(table["current"].combine_chunks().buffers()[1], dtype=DTYPES[dtype])[:90]) == bits(sample_elements(dtype)[:, 0])).all()


def test_nothing_lies_where_samples_are_missing(compacted: Archive) -> None:
    excerpt = compacted["lab/probe-f8"].between()
    hole_from, hole_to = T0_NS + 40 * PERIOD_NS, T0_NS + 50 * PERIOD_NS
    for times in (
        excerpt.numpy()["time_ns"],
        excerpt.pandas().index.to_numpy("datetime64[ns]").astype(np.int64),
        excerpt.polars()["time"].to_physical().to_numpy(),
        excerpt.xarray()["time"].to_numpy().astype(np.int64),
        excerpt.arrow()["time_ns"].to_numpy(),
    ):
        assert len(times) == 90
        assert not ((times >= hole_from) & (times < hole_to)).any()


def test_an_empty_excerpt_has_the_same_columns(compacted: Archive) -> None:
    for dtype in DTYPES:
        whole, empty = compacted[f"lab/probe-{dtype}"].between(), compacted[f"lab/probe-{dtype}"].between("2100-01-01T00:00:00Z")
        assert list(empty.pandas().columns) == list(whole.pandas().columns)
        assert empty.polars().schema == whole.polars().schema
        assert empty.arrow().schema.remove_metadata() == whole.arrow().schema.remove_metadata()
        assert empty.xarray()["image"].shape == (0, 2, 3)
        assert len(empty.numpy()) == 0 and empty.numpy().dtype == whole.numpy().dtype


@pytest.mark.parametrize(
    ("package", "extra", "use"),
    [
        ("pandas", "archive", lambda it, _: it.pandas()),
        ("polars", "archive", lambda it, _: it.polars()),
        ("xarray", "archive", lambda it, _: it.xarray()),
        ("pyarrow", "archive", lambda it, _: it.arrow()),
        ("dask", "dask", lambda it, _: it.dask()),
        ("h5py", "hdf5", lambda it, path: it.to_hdf5(path / "a.h5")),
        ("mcap.writer", "mcap", lambda it, path: it.to_mcap(path / "a.mcap")),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    compacted: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, extra: str, use: Any
) -> None:
    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingPackage, match=rf"{package.partition('.')[0]} is not installed\n.*tallycast\[{extra}\]"):
        use(compacted["lab/probe-f4"].between(), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_points_are_a_frame_too(compacted: Archive) -> None:
    points = compacted["lab/probe-i32"].between(points=100, channel="image", element=5)
    frame = points.pandas()
    assert frame["image[5] lo"].isna().sum() == 11 and (frame["image[5] samples"] == points.samples[:, 0]).all()
    assert frame.attrs["gaps"] == points.gaps.json() and frame.attrs["units"] == {"image[5]": "V"}
