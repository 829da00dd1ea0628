"""Recordings of real streams by the real command, with planted losses, read meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tallycast as tc
from archive_scene import WAIT, bits, bus_of_its_own, publish, query, recorder, running, signal_file
from places import until
from tallycast.archive import StoredStream

BUS = bus_of_its_own()
CHANNELS = '[[channels]]\nname = "current"\nunit = "A"\nscale = 0.5\n[[channels]]\nname = "voltage"\nunit = "V"\n'
IMAGE = '[[channels]]\nname = "image"\nunit = ""\nshape = [40, 50]\n'
ROWS = 20_000


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, npt.NDArray[Any]]]]:
    """Records two epochs of a stream, one of images, and one that changes its channels; a tenth of all datagrams is lost."""
    folder = tmp_path_factory.mktemp("recorded")
    root = folder / "archive"
    generator = np.random.default_rng(1042)
    first = generator.integers(-(2**15), 2**15, size=(ROWS, 2), dtype=np.int16)
    second = generator.integers(-(2**15), 2**15, size=(ROWS // 2, 2), dtype=np.int16)
    images = generator.integers(0, 2**16, size=(60, 2_000), dtype=np.uint16)
    floats = generator.standard_normal((ROWS // 4, 2)).astype(np.float32)
    play: list[tuple[str, npt.NDArray[Any], str, str]] = [
        ("arch/probe", first, "20k", CHANNELS),
        ("arch/probe", second, "20k", CHANNELS),
        ("arch/camera", images, "60", IMAGE),
        ("arch/other", first[: ROWS // 4], "20k", CHANNELS),
        ("arch/other", floats, "20k", CHANNELS),
    ]
    for name, elements, rate, channels in play:
        with recorder(root, "live", name, bus=BUS):
            file = signal_file(folder, elements, rate, channels)
            publish(name, "--file", str(file), "--loss", "10%", bus=BUS)
    yield root, {"first": first, "second": second, "images": images, "floats": floats}


def closes(stream: StoredStream) -> None:
    """Checks that every sample of every epoch is there or in the gap map, and every missing element has its reason."""
    per_sample = stream.schema.elements_per_sample
    for recording in stream.recordings:
        stretch = recording.between().stretches[0]
        covered = np.zeros(recording.next_index - recording.first_index + stretch.gaps.samples, dtype=int)
        covered[stretch.index.astype(np.int64) - recording.first_index] += 1
        for hole in stretch.gaps:
            assert hole.elements == hole.samples * per_sample
            covered[hole.first_index - recording.first_index : hole.next_index - recording.first_index] += 1
        end = max([recording.next_index, *(hole.next_index for hole in stretch.gaps)]) - recording.first_index
        assert (covered[:end] == 1).all() and not covered[end:].any()
        # Mostly it is one. A publisher that is kept from its processor for a second leaves another one.
        accounts = [*recording.earlier_accounts, recording.account]
        assert all(account["reader"]["balanced"] and account["reader"]["closed"] for account in accounts)
        parts = [account["reader"]["elements"] for account in accounts]
        missing = 0 if stretch.missing is None else int(stretch.missing.sum())
        lost = sum(sum(part["lost"].values()) + part["unexplained"] for part in parts)
        assert lost == stretch.gaps.elements + missing
        stored = sum(account["elements"]["stored"] for account in accounts)
        assert sum(part["delivered"] for part in parts) == stored == stretch.array.size - missing


def test_what_was_published_is_what_is_read(signals: tuple[Path, dict[str, npt.NDArray[Any]]]) -> None:
    root, wanted = signals
    stream = tc.open_archive(root)["arch/probe"]
    closes(stream)
    assert len(stream.recordings) == 2
    for recording, elements in zip(stream.recordings, (wanted["first"], wanted["second"])):
        stretch = recording.between().stretches[0]
        assert 0 < len(stretch) < len(elements), "a tenth is lost"
        assert (stretch.array == elements[stretch.index]).all()
        assert set(stretch.gaps.lost) == {"injected"} and stretch.gaps.unexplained == 0
        assert (np.diff(stretch.times) > 0).all()
        # 20 kHz: 50 us a sample, and one the datagram's rounding.
        assert abs(np.diff(stretch.times) - np.diff(stretch.index.astype(np.int64)) * 50_000).max() <= 1


def test_a_range_over_several_epochs_is_one_table_in_stretches(signals: tuple[Path, dict[str, npt.NDArray[Any]]]) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    pytest.importorskip("dask")
    root, wanted = signals
    stream = tc.open_archive(root)["arch/probe"]
    excerpt = stream.between()
    one, other = excerpt.stretches
    assert excerpt.epochs == stream.epochs == [one.epoch, other.epoch]
    assert len(excerpt) == len(one) + len(other)
    assert (excerpt.array == np.concatenate([one.array, other.array])).all()
    assert (excerpt.index == np.concatenate([one.index, other.index])).all()
    assert excerpt.gaps.json() == query(root, "arch/probe", "--gaps")
    assert [hole.epoch for hole in excerpt.gaps] == [one.epoch] * len(one.gaps) + [other.epoch] * len(other.gaps)
    frame = excerpt.pandas()
    assert len(frame) == len(excerpt) and frame.index.is_monotonic_increasing
    assert frame.attrs["epoch_rows"] == [len(one), len(other)]
    assert (frame["current"].to_numpy() == excerpt.values("current")).all()
    assert (excerpt.dask().compute() == excerpt.array).all()
    before = excerpt.polars()["missing_before"].to_numpy()
    assert before.sum() == sum(hole.samples for stretch in excerpt.stretches for hole in stretch.gaps if hole.next_index <= stretch.index[-1])
    with pytest.raises(tc.ArchiveError, match="parquet takes one epoch, and the range contains 2"):
        excerpt.to_parquet(root / "both.parquet")
    with pytest.raises(tc.ArchiveError, match="choose one with epoch="):
        stream.samples(0, 10)
    assert (stream.samples(0, 1_000, epoch=one.epoch).array == wanted["first"][stream.samples(0, 1_000, epoch=one.epoch).index]).all()
    times, values = excerpt.line("voltage")
    breaks = len(times) - len(excerpt)
    inner = [hole for stretch in excerpt.stretches for hole in stretch.gaps if stretch.index[0] < hole.first_index < stretch.index[-1]]
    assert breaks == np.isnan(values).sum() == len(inner) + 1, "one for each hole between rows, one between the epochs"
    assert (np.diff(times.astype(np.int64)) > 0).all()


def test_thinning_is_that_of_the_command_line_over_holes(signals: tuple[Path, dict[str, npt.NDArray[Any]]]) -> None:
    root, _ = signals
    stream = tc.open_archive(root)["arch/probe"]
    first_ns = stream.recordings[0].t0_ns
    thinned = stream.between(first_ns, first_ns + 200_000_000, points=300)
    for channel in ("current", "voltage"):
        words = ["--channel", channel, "--from", str(first_ns), "--to", str(first_ns + 200_000_000), "--points", "300"]
        (told,) = query(root, "arch/probe", *words)
        ours = [None if np.isnan(lo) else [lo, hi] for lo, hi in zip(*thinned[channel])]
        assert ours == [None if column is None else column[2:] for column in told["columns"]]
        assert thinned.gaps.json() == told["gaps"]


def test_images_that_arrived_in_part_are_masked(signals: tuple[Path, dict[str, npt.NDArray[Any]]]) -> None:
    pytest.importorskip("xarray")
    root, wanted = signals
    stream = tc.open_archive(root)["arch/camera"]
    closes(stream)
    excerpt = stream.between()
    assert excerpt.array.shape[1:] == (40, 50)
    images = wanted["images"].reshape(-1, 40, 50)[excerpt.index]
    missing = excerpt.missing
    assert missing is not None and missing.any(), "an image is three datagrams; of some only one is lost"
    assert (excerpt.array[~missing] == images[~missing]).all()
    assert (excerpt.array[missing] == 0).all()
    data = excerpt.xarray()
    assert (data["image_missing"].to_numpy() == missing).all()
    lost = {stage for record in stream.recordings[0].gap_records for stage in record["lost"]}
    assert lost == {"injected"}


def test_epochs_of_different_schemas_are_read_one_by_one(signals: tuple[Path, dict[str, npt.NDArray[Any]]]) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    pytest.importorskip("dask")
    root, wanted = signals
    stream = tc.open_archive(root)["arch/other"]
    closes(stream)
    excerpt = stream.between()
    one, other = excerpt.stretches
    assert [schema.dtype for schema in stream.schemas] == [np.int16, np.float32]
    assert (one.array == wanted["first"][one.index]).all()
    assert (bits(other.array) == bits(wanted["floats"][other.index])).all()
    for use in (lambda: excerpt.array, excerpt.pandas, excerpt.arrow, excerpt.dask, lambda: stream.between(points=10)):
        with pytest.raises(tc.ArchiveError, match="different schemas\n"):
            use()
    assert len(excerpt.gaps) == len(one.gaps) + len(other.gaps)
    assert len(stream.epoch(one.epoch).between().pandas()) == len(one)


def test_several_stretches_go_into_one_file_as_entries(signals: tuple[Path, dict[str, npt.NDArray[Any]]], tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    reader: Any = pytest.importorskip("mcap.reader")
    root, _ = signals
    excerpt = tc.open_archive(root)["arch/other"].between()
    with h5py.File(excerpt.to_hdf5(tmp_path / "other.nxs")) as file:
        for number, stretch in enumerate(excerpt.stretches, 1):
            entry = file[f"entry_{number}"]
            assert entry.attrs["NX_class"] == "NXentry" and entry["tallycast/epoch"][()].decode() == stretch.epoch
            assert (bits(entry["voltage/value"][()]) == bits(stretch["voltage"])).all()
            assert len(entry["tallycast/gaps"]) == len(stretch.gaps)
        assert file.attrs["default"] == "entry_1"
    with excerpt.to_mcap(tmp_path / "other.mcap").open("rb") as content:
        summary = reader.make_reader(content).get_summary()
        counts = {summary.channels[number].topic: 0 for number in summary.channels}
        for number, count in summary.statistics.channel_message_counts.items():
            counts[summary.channels[number].topic] += count
    assert counts == {"arch/other": sum(map(len, excerpt.stretches)), "arch/other/gaps": len(excerpt.gaps)}


def test_an_archive_is_read_while_it_is_recorded(tmp_path: Path) -> None:
    root = tmp_path / "archive"
    wave = ["--wave", "ramp", "--rate", "20k", "--dtype", "i32", "--channels", "1", *WAIT]
    with recorder(root, "now", "arch/ramp", bus=BUS), running("pub", "arch/ramp", *wave, bus=BUS):

        def longer_than(samples: int) -> Any:
            if not (root / "tallycast-archive.json").exists():
                return None
            archive = tc.open_archive(root)
            stream = archive.get("arch/ramp")
            return archive if stream is not None and stream.samples_stored > samples else None

        archive = until(lambda: longer_than(0), "the first samples")
        stream = archive["arch/ramp"]
        (recording,) = stream.recordings
        assert recording.state == "open" and recording.attended and not recording.complete
        seen = stream.between()
        stored = stream.samples_stored
        assert len(seen) == stored
        until(lambda: longer_than(stored), "more samples")
        # A list that was read stays as it was; reading again shows more.
        assert len(stream.between()) == stored == len(archive["arch/ramp"].between())
        later = archive.refresh()["arch/ramp"].between()
        assert len(later) > stored
        assert (later.array[:stored] == seen.array).all() and (later.index[:stored] == seen.index).all()
    stream = tc.open_archive(root)["arch/ramp"]
    (recording,) = stream.recordings
    assert recording.state == "closed" and not recording.attended
    assert recording.complete == (stream.gaps.samples == 0)
    closes(stream)
