"""Exports larger than memory: files made piece by piece are those made at once, and several epochs come back apart."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from archive_scene import bus_of_its_own, publish, recorder, signal_file
from tallycast._convert import pieces, to_mat
from tallycast._excerpt import Stretch
from tallycast.archive import Archive, ArchiveWarning, Excerpt

#: Rows of a piece in these tests: less than a segment of the archive has, and no divisor of it.
ROWS = 7
LARGE = 2**60 + 1
COUNTERS = np.array([[LARGE, 1], [-LARGE, 2], [LARGE + 2, 3], [0, 4]], dtype="i8")
LEVELS = np.array([[0, 2], [1, 3], [2, 4]], dtype="i2")


class Seen:
    """The rows of each piece that was read, and how many were in memory at once."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.most = 0
        self._pieces: weakref.WeakSet[Stretch] = weakref.WeakSet()

    def note(self, piece: Stretch, rows: int) -> None:
        self.rows.append(rows)
        self._pieces.add(piece)
        self.most = max(self.most, len(self._pieces))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Small pieces, which are watched."""
    seen, read = Seen(), Stretch.__dict__["_read"].func

    def watched(stretch: Stretch) -> Any:
        found = read(stretch)
        seen.note(stretch, len(found[0]))
        return found

    monkeypatch.setattr(Stretch.__dict__["_read"], "func", watched)
    monkeypatch.setattr(pieces, "PIECE_BYTES", (8 * 7 + 16) * ROWS)
    return seen


@pytest.fixture(scope="module")
def epochs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    """Two epochs of a stream of large integers, and of a scaled one."""
    folder, bus = tmp_path_factory.mktemp("epochs"), bus_of_its_own()
    plain = '[[channels]]\nname = "count"\n[[channels]]\nname = "n"\n'
    scaled = '[[channels]]\nname = "level"\nunit = "m"\nscale = 0.5\noffset = 1.0\n[[channels]]\nname = "n"\n'
    with recorder(folder / "archive", "live", "lab/*", bus=bus):
        for part in (slice(0, 3), slice(1, 4)):
            publish("lab/counters", "--file", str(signal_file(folder, COUNTERS[part], "100", plain)), bus=bus)
        for part in (slice(0, 2), slice(0, 3)):
            publish("lab/levels", "--file", str(signal_file(folder, LEVELS[part], "100", scaled)), bus=bus)
    yield tc.open_archive(folder / "archive")


def between(archive: Archive, name: str) -> Excerpt:
    return archive[name].between()


def needs(form: str) -> None:
    """Skips a test without the packages of a format."""
    for package in {"hdf5": ("h5py",), "netcdf": ("xarray", "h5netcdf", "h5py"), "mcap": ("mcap.writer",)}[form]:
        pytest.importorskip(package)


def values_of(path: Path) -> dict[str, Any]:
    """Returns every data set of an HDF5 file, and the attributes of each object."""
    h5py: Any = pytest.importorskip("h5py")
    found: dict[str, Any] = {}

    def keep(name: str, item: Any) -> None:
        found[f"{name}@"] = str({key: value for key, value in item.attrs.items() if key not in ("REFERENCE_LIST", "DIMENSION_LIST")})
        if isinstance(item, h5py.Dataset):
            found[name] = item[()]

    with h5py.File(path) as file:
        found["/@"] = str(dict(file.attrs))
        file.visititems(keep)
    return found


@pytest.mark.parametrize("form", ["hdf5", "netcdf"])
@pytest.mark.parametrize("dtype", ["i16", "u64", "f8", "c8", "bool"])
def test_a_file_made_in_pieces_is_the_file_made_at_once(compacted: Archive, tmp_path: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch, form: str, dtype: str) -> None:
    needs(form)
    excerpt = between(compacted, f"lab/probe-{dtype}")
    in_pieces = values_of(getattr(excerpt, f"to_{form}")(tmp_path / "pieces"))
    assert sum(seen.rows) == 90 and max(seen.rows) == ROWS and seen.most <= 3, "however many there are"
    monkeypatch.undo()
    at_once = values_of(getattr(excerpt, f"to_{form}")(tmp_path / "once"))
    assert in_pieces.keys() == at_once.keys()
    for name, wanted in at_once.items():
        assert np.array_equal(in_pieces[name], wanted, equal_nan=getattr(wanted, "dtype", np.dtype("O")).kind in "fc"), name


def test_mcap_made_in_pieces_has_the_messages_of_one_made_at_once(compacted: Archive, tmp_path: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: Any = pytest.importorskip("mcap.reader")

    def messages(name: str) -> list[Any]:
        with between(compacted, "lab/probe-i16").to_mcap(tmp_path / name).open("rb") as file:
            return [(channel.topic, it.log_time, it.sequence, it.data) for _, channel, it in readers.make_reader(file).iter_messages()]

    in_pieces = messages("pieces")
    assert sum(seen.rows) == 90 and max(seen.rows) == ROWS and seen.most <= 3 and len(in_pieces) == 91
    monkeypatch.undo()
    assert in_pieces == messages("once")


@pytest.mark.parametrize("form", ["hdf5", "netcdf", "mcap"])
def test_a_range_that_holds_fewer_samples_than_were_counted_is_refused(compacted: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    needs(form)
    looked = Stretch.__dict__["_looked"].func
    monkeypatch.setattr(Stretch.__dict__["_looked"], "func", lambda stretch: (looked(stretch)[0] + 1, *looked(stretch)[1:]))
    with pytest.raises(tc.ArchiveError, match="had 91 samples in the range, and has 90\n"):
        getattr(between(compacted, "lab/probe-f4"), f"to_{form}")(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["hdf5", "netcdf", "mcap"])
def test_a_damaged_segment_is_no_file_without_its_samples(root: Path, tmp_path: Path, form: str) -> None:
    needs(form)
    copy = shutil.copytree(root, tmp_path / "copy")
    (epoch,) = (copy / "run=parquet" / "stream=lab%2Fprobe-f4").iterdir()
    segment = min(epoch.glob("segment-*.parquet"))
    segment.write_bytes(segment.read_bytes()[:-20] + b"damaged".ljust(20))
    with pytest.warns(ArchiveWarning, match="damaged"):
        archive = tc.open_archive(copy, run="parquet")
    with pytest.raises(tc.DamagedArchive, match=segment.name):
        getattr(between(archive, "lab/probe-f4"), f"to_{form}")(tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.usefixtures("seen")
def test_a_long_hole_is_no_longer_to_walk_than_a_short_one(compacted: Archive) -> None:
    stretch = between(compacted, "lab/probe-f4").stretches[0]
    hole = max(stretch.gaps, key=lambda it: it.samples)
    begins = [piece._indices[0] for piece in pieces._of_stretch(stretch)]
    assert hole.samples > 0 and not [begin for begin in begins if hole.first_index <= begin < hole.next_index]


def test_mcap_of_several_epochs_has_a_stream_for_each(epochs: Archive, tmp_path: Path) -> None:
    pytest.importorskip("mcap_protobuf")
    first, second = tc.read_file(between(epochs, "lab/counters").to_mcap(tmp_path / "a.mcap")).values()
    assert (first.name, second.name) == ("lab/counters", "lab/counters_2")
    assert first.array.tolist() == COUNTERS[:3].tolist() and second.array.tolist() == COUNTERS[1:].tolist()
    assert first.dtype == second.dtype == np.dtype("i8") and first.rate == Fraction(100)
    assert first.index.tolist() == second.index.tolist() == [0, 1, 2] and first.start_ns != second.start_ns


def test_mcap_comes_back_as_elements_or_as_values(epochs: Archive, tmp_path: Path) -> None:
    pytest.importorskip("mcap_protobuf")
    excerpt = between(epochs, "lab/levels").stretches[1]
    raw, shown = (tc.read_file(excerpt.to_mcap(tmp_path / f"{scaled}.mcap", scaled=scaled))["lab/levels"] for scaled in (False, True))
    assert raw.dtype == np.dtype("i2") and raw.array.tolist() == LEVELS.tolist()
    assert [(it.unit, it.scale, it.offset) for it in raw.channels] == [("m", 0.5, 1.0), ("", 1.0, 0.0)]
    assert shown.dtype == np.dtype("f8") and [(it.unit, it.scale, it.offset) for it in shown.channels] == [("m", 1.0, 0.0), ("", 1.0, 0.0)]
    assert raw.values("level").tolist() == shown["level"].tolist() == [1.0, 1.5, 2.0]


@pytest.mark.parametrize("dtype", ["i64", "u64"])
def test_integers_of_our_own_mcap_are_exact_or_refused(compacted: Archive, tmp_path: Path, dtype: str) -> None:
    """Of the known content one sample is there in part, and a channel is scaled: the elements need floats."""
    pytest.importorskip("mcap_protobuf")
    path = between(compacted, f"lab/probe-{dtype}").to_mcap(tmp_path / "a.mcap", scaled=False)
    (stream,) = tc.read_file(path).values()
    assert stream.dtype == np.dtype("f8") and np.isnan(stream["image"]).sum() == 2
    assert [it.scale for it in stream.channels] == [0.5, 1.0]


def test_integers_of_our_own_mcap_that_need_a_nan_and_more_digits_than_f8_are_refused(epochs: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcap_protobuf")
    looked = Stretch.__dict__["_looked"].func
    monkeypatch.setattr(Stretch.__dict__["_looked"], "func", lambda stretch: (*looked(stretch)[:2], [1]))
    path = between(epochs, "lab/counters").stretches[0].to_mcap(tmp_path / "a.mcap", scaled=False)
    with pytest.raises(tc.FileError, match="sample 0 of lab/counters has an integer that float64 does not hold exactly"):
        tc.read_file(path)["lab/counters"].array


def test_complex_numbers_of_our_own_mcap_come_back(compacted: Archive, tmp_path: Path) -> None:
    pytest.importorskip("mcap_protobuf")
    excerpt = between(compacted, "lab/probe-c8")
    (stream,) = tc.read_file(excerpt.to_mcap(tmp_path / "a.mcap", scaled=False)).values()
    assert stream.dtype == np.dtype("c8") and stream.index.tolist() == excerpt.index.tolist()
    for name in ("current", "image"):
        assert np.array_equal(stream.values(name), excerpt.values(name), equal_nan=True)


@pytest.mark.parametrize("dtype", ["i16", "u64", "f8", "c8", "bool"])
def test_mat_of_more_than_version_5_takes_is_version_7_3(compacted: Archive, tmp_path: Path, seen: Seen, monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    h5py: Any = pytest.importorskip("h5py")
    monkeypatch.setattr(to_mat, "VERSION_5_BYTES", 1)
    excerpt = between(compacted, f"lab/probe-{dtype}")
    path = excerpt.to_mat(tmp_path / "a.mat", scaled=False)
    assert path.read_bytes()[:19] == b"MATLAB 7.3 MAT-file" and path.read_bytes()[124:128] == b"\x00\x02IM"
    assert max(seen.rows) == ROWS and seen.most <= 3
    with h5py.File(path) as file:
        assert file["image"].shape == (3, 2, 90) and file["current"].shape == (1, 90), "axes reversed"
        classes = {name: file[name].attrs["MATLAB_class"] for name in ("current", "image_missing", "time_ns", "about", "gaps")}
        kind = {"i16": b"int16", "u64": b"uint64", "f8": b"double", "c8": b"single", "bool": b"logical"}[dtype]
        assert list(classes.values()) == [kind, b"logical", b"int64", b"struct", b"struct"]
        gaps = file["gaps"]
        assert (gaps["first_index"][()], gaps["samples"][()]) == ([[40]], [[10]])
        stage = file[gaps["stage"][0, 0]]
        assert bytes(stage[()].astype("<u2")).decode("utf-16-le") == "injected" and stage.attrs["MATLAB_class"] == b"char"
        assert bytes(file["units/current"][()].astype("<u2")).decode("utf-16-le") == "A"
    stream = next(it for it in tc.read_file(path, time="time_s").values() if it.has_times)
    assert np.array_equal(stream["current"], excerpt["current"], equal_nan=dtype[0] in "fc")
    there = ~excerpt.missing_of("image")
    assert np.array_equal(stream["image"][there], excerpt["image"][there], equal_nan=dtype[0] in "fc")


def test_mat_is_of_one_size_in_both_versions(epochs: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last size of version 5, and the first of 7.3: three rows of 24 bytes of times and index, a value of f8, an i2."""
    pytest.importorskip("scipy"), pytest.importorskip("h5py")
    stretch = between(epochs, "lab/levels").stretches[1]
    for limit, begin in ((3 * (24 + 8 + 2) + 1, b"MATLAB 5.0"), (3 * (24 + 8 + 2), b"MATLAB 7.3")):
        monkeypatch.setattr(to_mat, "VERSION_5_BYTES", limit)
        path = stretch.to_mat(tmp_path / "a.mat", overwrite=True)
        assert path.read_bytes().startswith(begin)
        found = {channel.name: stream[channel.name].tolist() for stream in tc.read_file(path).values() for channel in stream.channels}
        assert (found["level"], found["n"], found["index"]) == ([1.0, 1.5, 2.0], [2, 3, 4], [0, 1, 2])


def test_netcdf_of_several_epochs_has_their_rows_one_behind_the_other(epochs: Archive, tmp_path: Path, seen: Seen) -> None:
    xr: Any = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    with xr.open_dataset(between(epochs, "lab/counters").to_netcdf(tmp_path / "a.nc"), engine="h5netcdf") as data:
        assert data["count"].values.tolist() == [*COUNTERS[:3, 0], *COUNTERS[1:, 0]] and data["count"].dtype == np.dtype("i8")
        assert data["index"].values.tolist() == [0, 1, 2] * 2 and data.attrs["epoch_rows"] == "[3, 3]"
    assert seen.rows == [3, 3]
