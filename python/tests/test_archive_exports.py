"""Exports as MAT and NetCDF, and files of our own, read back with the forms' own libraries."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from archive_scene import INDEX, PARTIAL_ROW, PERIOD_NS, T0_NS, sample_elements
from tallycast.archive import Archive

TIMES = T0_NS + INDEX.astype(np.int64) * PERIOD_NS
THERE = np.arange(90) != PARTIAL_ROW


@pytest.mark.parametrize("dtype", ["i16", "u64", "f8", "c8", "bool"])
def test_mat_has_every_element_and_the_gaps(compacted: Archive, tmp_path: Path, dtype: str) -> None:
    scipy_io: Any = pytest.importorskip("scipy.io")
    excerpt = compacted[f"lab/probe-{dtype}"].between()
    found = scipy_io.loadmat(excerpt.to_mat(tmp_path / "a.mat", scaled=False), simplify_cells=True)
    wanted = sample_elements(dtype)
    assert (found["time_ns"] == TIMES).all() and (found["index"] == INDEX).all()
    assert np.array_equal(found["current"], wanted[:, 0], equal_nan=dtype[0] in "fc")
    image = wanted[:, 1:].reshape(90, 2, 3)
    assert np.array_equal(found["image"][THERE], image[THERE], equal_nan=dtype[0] in "fc")
    assert (found["image_missing"] == excerpt.missing_of("image")).all()
    gaps = found["gaps"]
    assert (gaps["first_index"], gaps["samples"], gaps["stage"]) == (40, 10, "injected")
    assert found["units"] == {"current": "A", "image": "V"} and found["about"]["stream"] == f"lab/probe-{dtype}"


@pytest.mark.parametrize("dtype", ["i16", "u64", "f8", "c8", "bool"])
def test_netcdf_has_every_element_the_times_and_the_gaps(compacted: Archive, tmp_path: Path, dtype: str) -> None:
    xr: Any = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    excerpt = compacted[f"lab/probe-{dtype}"].between()
    path = excerpt.to_netcdf(tmp_path / "a.nc", scaled=False)
    wanted = sample_elements(dtype)[:, 0]
    with xr.open_dataset(path, engine="h5netcdf") as data:
        assert (data["time"].values.astype("M8[ns]").astype(np.int64) == TIMES).all()
        found = data["current_re"].values + 1j * data["current_im"].values if dtype == "c8" else data["current"].values
        assert np.array_equal(found, wanted, equal_nan=dtype[0] in "fc")
        assert data[("current_re" if dtype == "c8" else "current")].attrs["units"] == "A"
        assert json.loads(data.attrs["gaps"])[0]["lost"] == {"injected": 70}


@pytest.mark.parametrize("dtype", ["i16", "f8", "bool"])
def test_nexus_and_mcap_of_our_own_come_back(compacted: Archive, tmp_path: Path, dtype: str) -> None:
    pytest.importorskip("h5py"), pytest.importorskip("mcap_protobuf")
    excerpt = compacted[f"lab/probe-{dtype}"].between()
    for path in (excerpt.to_hdf5(tmp_path / "a.nxs"), excerpt.to_mcap(tmp_path / "a.mcap")):
        (stream,) = tc.read_file(path).values()
        assert [(it.name, it.unit, it.shape) for it in stream.channels] == [("current", "A", ()), ("image", "V", (2, 3))]
        assert stream.rate == Fraction(1_000, 3) and stream.start_ns == T0_NS
        assert (stream.index == INDEX).all() or (stream.times == TIMES).all()
        for channel in ("current", "image"):
            assert np.array_equal(stream.values(channel), excerpt.values(channel), equal_nan=True)
