"""Archives larger than memory: a chunk for each segment, read when it is computed."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from archive_scene import DTYPES, PERIOD_NS, T0_NS, bits, sample_elements
from tallycast.archive import Archive

dask: Any = pytest.importorskip("dask")
dask_array: Any = pytest.importorskip("dask.array")


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_chunk_is_a_segment_and_all_of_them_are_the_array(archive: Archive, dtype: str) -> None:
    stream = archive[f"lab/probe-{dtype}"]
    lazy = stream.between().dask()
    assert lazy.chunks[0] == tuple(segment.samples for segment in stream.segments) and len(lazy.chunks[0]) > 1
    assert lazy.shape == (90, 7) and lazy.dtype == np.dtype(DTYPES[dtype])
    assert (bits(lazy.compute()) == bits(sample_elements(dtype))).all()


def test_sums_are_those_of_numpy(archive: Archive) -> None:
    for dtype in ("i8", "i64", "u32", "bool"):
        stream = archive[f"lab/probe-{dtype}"]
        assert stream.between().dask().sum().compute() == stream.between().array.sum()
        image = stream.between().dask("image")
        assert image.shape == (90, 2, 3)
        assert (image.sum(axis=0).compute() == stream.between()["image"].sum(axis=0)).all()
    excerpt = archive["lab/probe-i32"].between()
    values = excerpt.dask(scaled=True)
    assert values.dtype == np.float64
    assert dask_array.isnan(values).sum().compute() == 2, "what never arrived is no number"
    assert np.isclose(dask_array.nansum(values).compute(), np.nansum(excerpt.values()), rtol=1e-12)


def test_a_range_takes_parts_of_segments(archive: Archive) -> None:
    stream = archive["lab/probe-i32"]
    first, end = T0_NS + 13 * PERIOD_NS, T0_NS + 77 * PERIOD_NS + 1
    excerpt = stream.between(first, end)
    assert (excerpt.dask().compute() == excerpt.array).all()
    assert sum(excerpt.dask().chunks[0]) == len(excerpt) == 77 - 13 + 1 - 10
    indices = stream.samples(33, 66)
    assert (indices.dask().compute() == indices.array).all()
    assert stream.samples(42, 44).dask().shape == (0, 7)
    assert stream.between("2100-01-01T00:00:00Z").dask("image").shape == (0, 2, 3)


def test_segments_are_tasks_with_times_and_gaps(archive: Archive) -> None:
    stream = archive["lab/probe-f4"]
    tasks = stream.between().delayed()
    assert len(tasks) == len(stream.segments)
    stretches = dask.compute(*tasks)
    assert np.concatenate([stretch.index for stretch in stretches]).tolist() == stream.between().index.tolist()
    assert [stretch.times[0] for stretch in stretches] == [segment.t0_ns for segment in stream.segments]
    assert {hole for stretch in stretches for hole in stretch.gaps} == set(stream.gaps)


def test_tasks_go_to_other_processes(archive: Archive) -> None:
    excerpt = archive["lab/probe-i32"].between()
    elsewhere = pickle.loads(pickle.dumps(excerpt.dask()))
    assert elsewhere.sum().compute(scheduler="synchronous") == excerpt.array.sum()


def test_a_segment_that_is_damaged_meanwhile_is_said(root: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(root, tmp_path / "copy")
    lazy = tc.open_archive(copy, run="parquet")["lab/probe-i32"].between().dask()
    (epoch,) = (copy / "run=parquet" / "stream=lab%2Fprobe-i32").iterdir()
    segment = sorted(epoch.glob("segment-*.parquet"))[0]
    damaged = bytearray(segment.read_bytes())
    damaged[-20] ^= 1
    segment.write_bytes(damaged)
    with pytest.raises(tc.ArchiveError, match="segment-000001.parquet: its end is damaged"):
        lazy.compute()
