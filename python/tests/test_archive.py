"""Archives: what there is, and what is read of it."""

from __future__ import annotations

import pickle
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

import tallycast as tc
from archive_scene import (
    DTYPES,
    INDEX,
    PARTIAL_ROW,
    PER_SAMPLE,
    PERIOD_NS,
    T0_NS,
    bits,
    query,
    sample_elements,
)
from tallycast._errors import ArchiveError
from tallycast.archive import Archive, ArchiveWarning, GapMap

TIMES = T0_NS + INDEX.astype(np.int64) * PERIOD_NS


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_was_recorded_is_read_bit_for_bit(archive: Archive, dtype: str) -> None:
    excerpt = archive[f"lab/probe-{dtype}"].between()
    assert excerpt.array.dtype == np.dtype(DTYPES[dtype])
    assert excerpt.array.shape == (len(INDEX), PER_SAMPLE)
    assert (bits(excerpt.array) == bits(sample_elements(dtype))).all()
    assert (excerpt.index == INDEX).all() and excerpt.index.dtype == np.uint64
    assert (excerpt.times == TIMES).all() and excerpt.times.dtype == np.int64
    assert (excerpt.datetimes.astype(np.int64) == TIMES).all()
    assert excerpt["current"].shape == (len(INDEX),)
    assert excerpt["image"].shape == (len(INDEX), 2, 3)
    assert (bits(excerpt["image"]) == bits(sample_elements(dtype)[:, 1:])).all()


def test_what_never_arrived_is_masked_and_never_a_value(archive: Archive) -> None:
    excerpt = archive["lab/probe-i32"].between()
    wanted = np.zeros(excerpt.array.shape, dtype=bool)
    wanted[PARTIAL_ROW, 5:] = True
    assert excerpt.missing is not None
    assert (excerpt.missing == wanted).all()
    assert excerpt.missing_of("current") is None
    image = excerpt.missing_of("image")
    assert image is not None and np.argwhere(image).tolist() == [[PARTIAL_ROW, 1, 1], [PARTIAL_ROW, 1, 2]]
    assert (np.isnan(excerpt.values()) == wanted).all()
    assert archive["lab/probe-i32"].samples(0, 70).missing is None


def test_values_are_in_the_units_of_their_channels(archive: Archive) -> None:
    excerpt = archive["lab/probe-i16"].between()
    assert (excerpt.values("current") == excerpt["current"] * 0.5 + 1.0).all()
    image = excerpt.values("image")
    there = ~np.isnan(image)
    assert (image[there] == excerpt["image"][there]).all()
    assert excerpt.values().dtype == np.float64
    assert archive["lab/probe-c8"].between().values().dtype == np.complex128


def test_the_gap_map_is_that_of_the_command_line(root: Path, archive: Archive) -> None:
    told = query(root, "lab/probe-f4", "--run", archive.runs[0], "--gaps")
    gaps = archive["lab/probe-f4"].between().gaps
    assert gaps.json() == told
    (hole,) = gaps
    assert (hole.first_index, hole.samples, hole.next_index) == (40, 10, 50)
    assert hole.lost == {"injected": 10 * PER_SAMPLE} == gaps.lost
    assert hole.elements == 10 * PER_SAMPLE == gaps.elements
    assert (hole.unexplained, hole.unsettled, hole.reader_absent, hole.stage) == (0, 0, 0, "injected")
    assert (hole.t0_ns, hole.t1_ns) == (T0_NS + 40 * PERIOD_NS, T0_NS + 50 * PERIOD_NS)
    assert hole.evidence and gaps.columns()["lost.injected"] == [70]
    assert gaps[:1] == gaps and isinstance(gaps[:1], GapMap)
    # Again without keeping samples, and for a range in the hole.
    assert archive["lab/probe-f4"].gaps.json() == told
    inside = archive["lab/probe-f4"].between(T0_NS + 42 * PERIOD_NS, T0_NS + 43 * PERIOD_NS)
    assert len(inside) == 0 and inside.gaps == gaps


def test_moments_in_every_form_say_the_same(archive: Archive) -> None:
    pandas = pytest.importorskip("pandas")
    stream = archive["lab/probe-f4"]
    first_ns, end_ns = T0_NS + 10 * PERIOD_NS, T0_NS + 20 * PERIOD_NS
    text = str(np.datetime64(first_ns, "ns"))
    forms = [
        first_ns,
        np.int64(first_ns),
        np.datetime64(first_ns, "ns"),
        f"{text}Z",
        f"{text.replace('T', ' ')}+00:00",
        f"{np.datetime64(first_ns + 3600 * 10**9, 'ns')}+01:00",
        pandas.Timestamp(first_ns, unit="ns", tz="UTC"),
        pandas.Timestamp(first_ns, unit="ns", tz="UTC").tz_convert("Europe/Berlin"),
        "+30ms",
        "+0.03s",
        "+30000us",
    ]
    for form in forms:
        assert stream.between(form, end_ns).index.tolist() == list(range(10, 20)), form
    # A datetime has microseconds.
    rounded = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=first_ns // 1000 + 1)
    assert stream.between(rounded, end_ns).index[0] == 11
    assert stream.between("-30ms").index.tolist() == list(range(90, 100))
    assert stream.between(None, "+30ms").index.tolist() == list(range(10))


@pytest.mark.parametrize(
    "moment",
    [datetime(2026, 1, 1), "2026-01-01T00:00:00", "2026-02-30T00:00:00Z", "now", "", "+10", 1.5, True, 2**63],
)
def test_what_is_no_moment_is_refused_with_what_to_write(archive: Archive, moment: object) -> None:
    with pytest.raises(ArchiveError, match="\n"):
        archive["lab/probe-f4"].between(moment)  # type: ignore[call-overload]


def test_a_range_ends_before_its_end_and_an_empty_one_is_refused(archive: Archive) -> None:
    stream = archive["lab/probe-f4"]
    assert stream.between(T0_NS, T0_NS + 1).index.tolist() == [0]
    assert stream.between(T0_NS + 1, T0_NS + PERIOD_NS).index.tolist() == []
    for first, end in [(T0_NS, T0_NS), (T0_NS + 1, T0_NS)]:
        with pytest.raises(ArchiveError, match="the recording lasts from"):
            stream.between(first, end)
    later = stream.between("2100-01-01T00:00:00Z")
    assert (len(later), later.stretches, later.array.shape, later.array.dtype) == (0, [], (0, 7), np.dtype("<f4"))
    assert later.gaps.json() == [] and later.missing is None and later["image"].shape == (0, 2, 3)


def test_samples_are_read_by_index(archive: Archive) -> None:
    stream = archive["lab/probe-u16"]
    excerpt = stream.samples(35, 55)
    assert excerpt.index.tolist() == [35, 36, 37, 38, 39, 50, 51, 52, 53, 54]
    assert len(excerpt.gaps) == 1
    assert (bits(excerpt.array) == bits(sample_elements("u16")[35:45])).all()
    assert len(stream.samples(42, 43)) == 0
    assert stream.samples(99, 10**12).index.tolist() == [99]
    # Nothing is taken for what is not there: however many indices are asked for, room is made for what is stored.
    assert len(stream.samples(0, 2**64 - 1)) == 90
    for first, end in [(5, 5), (-1, 5), (6, 5)]:
        with pytest.raises(ArchiveError, match="choose indices from 0 up to 100"):
            stream.samples(first, end)


def test_the_catalogue_tells_what_there_is(root: Path, archive: Archive) -> None:
    assert sorted(archive) == sorted(f"lab/probe-{dtype}" for dtype in DTYPES)
    assert len(archive) == len(DTYPES) == len(archive.streams)
    assert "lab/probe-f4" in archive and "lab/probe-f5" not in archive
    (told,) = query(root, "lab/probe-f4", "--run", archive.runs[0])
    stream = archive["lab/probe-f4"]
    (recording,) = stream.recordings
    assert told["epoch"] == recording.epoch == stream.epochs[0]
    assert (told["t0_ns"], told["t1_ns"]) == (stream.t0_ns, stream.t1_ns)
    assert (told["first_index"], told["stored_index"]) == (recording.first_index, recording.next_index)
    assert told["samples"] == recording.samples == stream.samples_stored == 90
    assert told["account"] == recording.account == stream.between().account
    assert (told["state"], told["attended"]) == (recording.state, recording.attended)
    assert told["complete"] == recording.complete == stream.complete
    assert sum(segment.samples for segment in recording.segments) == 90
    assert recording.station == "daq-3"
    assert recording.rate.numerator == 1000 and recording.rate.denominator == 3
    schema = stream.schema
    channels = [(it.name, it.unit, tuple(it.shape)) for it in schema.channels]
    assert channels == [("current", "A", ()), ("image", "V", (2, 3))]
    assert (schema.channels[0].scale, schema.channels[0].offset) == (0.5, 1.0)
    assert schema.labels == {"device": "probe 1"}
    (record,) = [it for it in recording.gap_records if it["lost"]]
    assert record["lost"] == {"injected": 70}


def test_what_is_not_there_is_said_with_what_there_is(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="is not a tallycast archive\nrecord one with"):
        tc.open_archive(tmp_path)
    with pytest.raises(ArchiveError, match="is not a tallycast archive"):
        tc.open_archive(tmp_path / "nowhere")
    with pytest.raises(ArchiveError, match="it has: arrow, parquet"):
        tc.open_archive(root, run="night")
    archive = tc.open_archive(root)
    with pytest.raises(ArchiveError, match="choose one: archive.run"):
        archive["lab/probe-f4"]
    assert archive.run("parquet")["lab/probe-f4"].run == "parquet"
    assert len(archive.streams) == 2 * len(archive)
    with pytest.raises(KeyError, match="has no stream lab/nothing\nit has: lab/probe-bool"):
        archive["lab/nothing"]
    assert archive.get("lab/nothing") is None
    stream = archive.run("arrow")["lab/probe-f4"]
    with pytest.raises(ArchiveError, match="it has: 17637"):
        stream.epoch("1-2")
    with pytest.raises(ArchiveError, match="its channels are: current, image"):
        stream.between()["voltage"]
    (tmp_path / "tallycast-archive.json").write_text('{"format":"tallycast-archive","version":2}')
    with pytest.raises(ArchiveError, match="use a newer tallycast"):
        tc.open_archive(tmp_path)


@pytest.mark.parametrize("points", [1, 7, 64])
@pytest.mark.parametrize("dtype", ["f4", "i8", "c8", "bool"])
def test_thinning_is_that_of_the_command_line(root: Path, archive: Archive, dtype: str, points: int) -> None:
    stream = archive[f"lab/probe-{dtype}"]
    for name in ("current", "image"):
        words = ("--run", archive.runs[0], "--points", str(points), "--channel", name)
        (told,) = query(root, stream.name, *words)
        thinned = stream.between(points=points, channel=name)
        assert (told["from"], told["column_ns"]) == (thinned.times[0], thinned.column_ns)
        assert len(thinned) == points == len(told["columns"])
        lo, hi = thinned[thinned.channels[0]]
        for column, first, least, greatest in zip(told["columns"], thinned.times, lo, hi):
            if column is None:
                assert np.isnan(least) and np.isnan(greatest)
            else:
                assert column == [first, first + thinned.column_ns, least, greatest]
        assert thinned.gaps.json() == told["gaps"]
        assert int(thinned.samples.sum()) <= len(INDEX)


def test_thinned_holes_stay_empty_and_peaks_stay(archive: Archive) -> None:
    stream = archive["lab/probe-i32"]
    thinned = stream.between(points=100, channel="image", element=5)
    assert thinned.channels == ["image[5]"] and thinned.units == ["V"]
    assert np.flatnonzero(thinned.samples[:, 0] == 0).tolist() == [*range(40, 50), 73]
    assert np.isnan(thinned.lo[40:50]).all() and np.isnan(thinned.hi[40:50]).all()
    whole = stream.between(points=1, channel="current")
    values = stream.between().values("current")
    assert whole.lo.tolist() == [[values.min()]] and whole.hi.tolist() == [[values.max()]]
    for wrong in ({"channel": "image", "element": 6}, {"channel": "voltage"}, {}):
        with pytest.raises(ArchiveError, match="\n"):
            stream.between(points=10, **wrong)
    for points in (0, 100_001):
        with pytest.raises(ArchiveError, match="request 1 to 100000 points"):
            stream.between(points=points, channel="current")


def test_a_line_is_broken_where_a_hole_begins(archive: Archive) -> None:
    times, values = archive["lab/probe-i32"].between().line("current")
    assert len(times) == len(values) == len(INDEX) + 1
    (broken,) = np.flatnonzero(np.isnan(values))
    assert broken == 40 and times.astype(np.int64)[40] == T0_NS + 40 * PERIOD_NS
    assert (np.diff(times.astype(np.int64)) > 0).all()


def test_an_array_is_of_its_own_memory(archive: Archive) -> None:
    stream = archive["lab/probe-i32"]
    excerpt = stream.between()
    array = excerpt.array
    assert array.flags.writeable and array.flags.aligned and array.flags.c_contiguous
    assert excerpt.array is array, "read once"
    kept = array[10:20]
    wanted = kept.copy()
    array[0] = 7
    del excerpt, array, stream
    assert (kept == wanted).all()
    assert (archive["lab/probe-i32"].between().array[0] == sample_elements("i32")[0]).all()


def test_recordings_and_stretches_are_pickled_as_where_they_are(archive: Archive) -> None:
    stretch = archive["lab/probe-f8"].samples(10, 60).stretches[0]
    again = pickle.loads(pickle.dumps(stretch))
    assert (bits(again.array) == bits(stretch.array)).all()
    assert again.gaps == stretch.gaps and (again.index == stretch.index).all()


def test_a_damaged_segment_is_an_error_or_a_hole_and_the_rest_is_read(root: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(root, tmp_path / "copy")
    (epoch,) = (copy / "run=parquet" / "stream=lab%2Fprobe-c16").iterdir()
    segments = sorted(epoch.glob("segment-*.parquet"))
    lost = tc.open_archive(copy, run="parquet")["lab/probe-c16"].segments[0]
    assert lost.samples < 90
    damaged = bytearray(segments[0].read_bytes())
    damaged[-20] ^= 1
    segments[0].write_bytes(damaged)
    with pytest.warns(ArchiveWarning, match="1 files of .* are damaged.*\n.*archive_write"):
        strict = tc.open_archive(copy, run="parquet")
    with pytest.raises(tc.DamagedArchive, match="segment-000001.parquet"):
        strict["lab/probe-c16"].between().array
    with pytest.raises(tc.DamagedArchive, match="damaged='holes'"):
        strict["lab/probe-c16"].between().array
    # Intact data are read as before, and so is the gap map.
    behind = strict["lab/probe-c16"].samples(lost.next_index, strict["lab/probe-c16"].segments[-1].next_index)
    assert len(behind) == 90 - lost.samples and "archive_write" not in behind.gaps.lost
    assert strict["lab/probe-c16"].gaps.lost["archive_write"] == lost.samples * PER_SAMPLE
    with pytest.warns(ArchiveWarning):
        archive = tc.open_archive(copy, run="parquet", damaged="holes")
    stream = archive["lab/probe-c16"]
    excerpt = stream.between()
    assert stream.recordings[0].damaged and excerpt.index[0] == lost.next_index
    assert len(excerpt) == 90 - lost.samples
    assert excerpt.gaps.lost["archive_write"] == lost.samples * PER_SAMPLE
    assert any("segment-000001.parquet" in line for line in excerpt.gaps[0].evidence)
    assert excerpt.gaps.json() == query(copy, "lab/probe-c16", "--run", "parquet", "--gaps")
    assert (bits(excerpt.array) == bits(sample_elements("c16")[lost.samples :])).all()


def test_an_epoch_that_cannot_be_read_takes_no_other_with_it(root: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(root, tmp_path / "copy")
    (epoch,) = (copy / "run=arrow" / "stream=lab%2Fprobe-f8").iterdir()
    (epoch / "stream.json").write_text('{"format":"tallycast-stream","version":9}')
    with pytest.warns(ArchiveWarning, match="1 epochs of"):
        archive = tc.open_archive(copy, run="arrow")
    assert "lab/probe-f8" not in archive and len(archive) == len(DTYPES) - 1
    (unreadable,) = archive.unreadable
    assert "lab%2Fprobe-f8" in unreadable.folder and "newer tallycast" in unreadable.cause
    assert len(archive["lab/probe-f4"].between()) == 90


def test_threads_read_at_the_same_time(archive: Archive) -> None:
    def read(dtype: str) -> bool:
        excerpt = archive[f"lab/probe-{dtype}"].between()
        return bool((bits(excerpt.array) == bits(sample_elements(dtype))).all()) and len(excerpt.gaps) == 1

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(read, list(DTYPES) * 8))
