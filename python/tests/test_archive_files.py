"""Excerpts as files of other formats, read back with their own libraries."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from archive_scene import COMMAND, DTYPES, INDEX, PARTIAL_ROW, PERIOD_NS, T0_NS, bits, sample_elements
from tallycast.archive import Archive

h5py: Any = pytest.importorskip("h5py")
pyarrow: Any = pytest.importorskip("pyarrow", minversion="17")
parquet: Any = pytest.importorskip("pyarrow.parquet")
mcap_reader: Any = pytest.importorskip("mcap.reader")

TIMES = T0_NS + INDEX.astype(np.int64) * PERIOD_NS
THERE = np.arange(90) != PARTIAL_ROW


def default_plot(file: Any) -> Any:
    """Finds the default plot of a NeXus reader: along the attributes `default`, as in the manual."""
    group = file
    while "default" in group.attrs:
        group = group[group.attrs["default"]]
    assert group.attrs["NX_class"] == "NXdata"
    return group


@pytest.mark.parametrize("dtype", DTYPES)
def test_hdf5_has_every_element_bit_for_bit(compacted: Archive, tmp_path: Path, dtype: str) -> None:
    excerpt = compacted[f"lab/probe-{dtype}"].between()
    path = excerpt.to_hdf5(tmp_path / "probe.nxs")
    wanted = sample_elements(dtype)
    with h5py.File(path) as file:
        entry = file["entry"]
        raw, image = entry["current/raw_value"][()], entry["image/value"][()]
        assert raw.dtype == image.dtype == np.dtype(DTYPES[dtype])
        assert (bits(raw) == bits(wanted[:, 0])).all()
        absent = entry["image/value_missing"][()]
        assert (absent == excerpt.missing_of("image")).all()
        assert (bits(image[~absent]) == bits(wanted[:, 1:].reshape(image.shape)[~absent])).all()
        if dtype[0] in "fc":
            assert np.isnan(image[absent]).all()
        value = entry["current/value"][()]
        scaled = excerpt.values("current")
        assert ((value == scaled) | (np.isnan(value) & np.isnan(scaled))).all()


def test_hdf5_is_nexus_and_plots_by_default(compacted: Archive, tmp_path: Path) -> None:
    excerpt = compacted["lab/probe-f8"].between()
    path = excerpt.to_hdf5(tmp_path / "probe.nxs")
    with h5py.File(path) as file:
        assert file.attrs["NX_class"] == "NXroot"
        entry = file[file.attrs["default"]]
        assert entry.attrs["NX_class"] == "NXentry"
        plot = default_plot(file)
        assert plot.name == "/entry/current"
        for name, unit in (("current", "A"), ("image", "V")):
            data = entry[name]
            assert data.attrs["NX_class"] == "NXdata"
            signal, axes = data[data.attrs["signal"]], list(data.attrs["axes"])
            assert axes == ["time"] + ["."] * (signal.ndim - 1) and data.attrs["time_indices"] == 0
            assert len(data["time"]) == len(signal) == 90
            assert signal.attrs["units"] == unit
            assert data["time"] == entry["time"], "one data set under two names"
        time = entry["time"]
        assert time.attrs["units"] == "ns"
        assert (time[()] + time.attrs["start_ns"] == TIMES).all()
        assert time.attrs["start"] == f"{np.datetime64(T0_NS, 'ns')}Z" == entry["start_time"][()].decode()
        assert (entry["index"][()] == INDEX).all()


def test_hdf5_has_the_gap_map_as_a_table(compacted: Archive, tmp_path: Path) -> None:
    excerpt = compacted["lab/probe-f4"].between()
    path = excerpt.to_hdf5(tmp_path / "probe.nxs")
    with h5py.File(path) as file:
        record = file["entry/tallycast"]
        assert record.attrs["NX_class"] == "NXcollection"
        (row,) = record["gaps"][()]
        (hole,) = excerpt.gaps
        assert (row["first_index"], row["samples"], row["elements"]) == (40, 10, 70)
        assert (row["from_ns"], row["to_ns"]) == (hole.t0_ns, hole.t1_ns)
        assert json.loads(row["lost"]) == {"injected": 70} and row["stage"] == b"injected"
        assert row["evidence"].decode().splitlines() == hole.evidence
        assert json.loads(record["account"][()]) == excerpt.account
        assert json.loads(record["description"][()])["stream"] == "lab/probe-f4" == record["stream"][()].decode()


@pytest.mark.parametrize("dtype", DTYPES)
def test_mcap_has_every_sample_and_every_hole(compacted: Archive, tmp_path: Path, dtype: str) -> None:
    protobuf: Any = pytest.importorskip("mcap_protobuf.decoder")
    stream = f"lab/probe-{dtype}"
    excerpt = compacted[stream].between()
    path = excerpt.to_mcap(tmp_path / "probe.mcap", scaled=False)
    samples, raw, holes = [], [], []
    with path.open("rb") as file:
        reader = mcap_reader.make_reader(file, decoder_factories=[protobuf.DecoderFactory()])
        for _, _, message in reader.iter_messages(topics=[stream]):
            raw.append(message)
        for decoded in reader.iter_decoded_messages(topics=[stream]):
            samples.append(decoded.decoded_message)
        for schema, channel, message in reader.iter_messages(topics=[f"{stream}/gaps"]):
            assert schema.encoding == "jsonschema" and channel.message_encoding == "json"
            holes.append((message.log_time, json.loads(message.data)))
        order = [(message.log_time, channel.topic) for _, channel, message in reader.iter_messages()]
        (metadata,) = reader.iter_metadata()
    assert [message.log_time for message in raw] == TIMES.tolist()
    assert [sample.index for sample in samples] == INDEX.tolist()
    assert holes == [(hole.t0_ns, hole.json()) for hole in excerpt.gaps]
    assert order.index((T0_NS + 40 * PERIOD_NS, f"{stream}/gaps")) == 40, "in its place between the samples"
    assert json.loads(metadata.metadata["account"]) == excerpt.account
    assert [list(sample.missing_elements) for sample in samples] == [[] if there else [5, 6] for there in THERE]
    wanted = sample_elements(dtype)
    for sample, row in zip(samples, wanted):
        if dtype[0] == "c":
            found = [complex(it.re, it.im) for it in [sample.current, *sample.image]]
        else:
            found = [sample.current, *sample.image]
        kept = np.array(found).astype(DTYPES[dtype])
        # Through Python's numbers a signalling NaN becomes a quiet one.
        assert np.array_equal(np.nan_to_num(kept), np.nan_to_num(row)) and (np.isnan(kept) == np.isnan(row)).all()
    if dtype[0] == "f":
        assert all(message.data[-row[1:].nbytes :] == row[1:].tobytes() for message, row in zip(raw[:PARTIAL_ROW], wanted))


def test_mcap_values_are_in_their_units(compacted: Archive, tmp_path: Path) -> None:
    protobuf: Any = pytest.importorskip("mcap_protobuf.decoder")
    excerpt = compacted["lab/probe-i16"].between()
    path = excerpt.to_mcap(tmp_path / "probe.mcap")
    with path.open("rb") as file:
        reader = mcap_reader.make_reader(file, decoder_factories=[protobuf.DecoderFactory()])
        found = [it.decoded_message for it in reader.iter_decoded_messages(topics=[excerpt.stream])]
    assert [sample.current for sample in found] == excerpt.values("current").tolist()
    assert [list(sample.image) for sample in found] == excerpt["image"].reshape(90, 6).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_parquet_is_what_the_command_line_exports(compacted: Archive, tmp_path: Path, dtype: str) -> None:
    if dtype[0] == "c" and int(pyarrow.__version__.split(".")[0]) < 26:
        pytest.skip("older pyarrow does not read lists of fixed size with nulls among them from Parquet")
    excerpt = compacted[f"lab/probe-{dtype}"].between("+30ms", "-30ms")
    path = excerpt.to_parquet(tmp_path / "probe.parquet")
    table = parquet.read_table(path)
    assert table["index"].to_pylist() == excerpt.index.tolist() == [*range(10, 40), *range(50, 90)]
    assert table["time_ns"].to_pylist() == excerpt.times.tolist()
    assert json.loads(parquet.read_metadata(path).metadata[b"tallycast.holes"]) == excerpt.gaps.json()
    theirs = tmp_path / "theirs.parquet"
    words = ["query", str(compacted.path), excerpt.stream, "--run", "parquet", "--from", "+30ms", "--to", "-30ms"]
    subprocess.run([COMMAND, *words, "--export", "parquet", str(theirs)], check=True, capture_output=True)
    theirs_table = parquet.read_table(theirs)
    for name in table.column_names:
        ours, other = table[name].combine_chunks(), theirs_table[name].combine_chunks()
        assert ours.type == other.type and ours.null_count == other.null_count
        assert [str(value) for value in ours.to_pylist()] == [str(value) for value in other.to_pylist()]


def test_csv_is_what_the_command_line_exports(compacted: Archive, tmp_path: Path) -> None:
    path = compacted["lab/probe-i16"].between().to_csv(tmp_path / "probe.csv")
    theirs = tmp_path / "theirs.csv"
    words = ["query", str(compacted.path), "lab/probe-i16", "--run", "parquet", "--export", "csv", str(theirs)]
    subprocess.run([COMMAND, *words], check=True, capture_output=True)
    assert path.read_text() == theirs.read_text() and "# hole:" in path.read_text()


@pytest.mark.parametrize("form", ["hdf5", "mcap", "parquet", "csv"])
def test_a_file_that_is_there_stays_unless_told_otherwise(compacted: Archive, tmp_path: Path, form: str) -> None:
    excerpt = compacted["lab/probe-i8"].between()
    path = tmp_path / "file"
    path.write_text("precious")
    with pytest.raises(tc.ArchiveError, match="already exists\n.*overwrite=True"):
        getattr(excerpt, f"to_{form}")(path)
    assert path.read_text() == "precious"
    assert getattr(excerpt, f"to_{form}")(path, overwrite=True) == path
    assert path.read_bytes() != b"precious"
    with pytest.raises(tc.ArchiveError, match="cannot write"):
        getattr(excerpt, f"to_{form}")(tmp_path / "nowhere" / "file")
    assert [it.name for it in tmp_path.iterdir()] == ["file"], "no draft is left"


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_nothing_is_exported_of_nothing(compacted: Archive, tmp_path: Path, form: str) -> None:
    stream = compacted["lab/probe-i8"]
    with pytest.raises(tc.ArchiveError, match="10 samples are missing"):
        getattr(stream.samples(42, 44), f"to_{form}")(tmp_path / "file")
    with pytest.raises(tc.ArchiveError, match="the range contains 0"):
        getattr(stream.between("2100-01-01T00:00:00Z"), f"to_{form}")(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_range_in_a_hole_goes_into_files_as_the_hole(compacted: Archive, tmp_path: Path) -> None:
    excerpt = compacted["lab/probe-c8"].samples(42, 44)
    with h5py.File(excerpt.to_hdf5(tmp_path / "hole.nxs")) as file:
        assert default_plot(file)["value"].shape == (0,) and len(file["entry/tallycast/gaps"]) == 1
    with excerpt.to_mcap(tmp_path / "hole.mcap").open("rb") as content:
        messages = list(mcap_reader.make_reader(content).iter_messages())
    assert [json.loads(message.data) for _, _, message in messages] == excerpt.gaps.json()
    nothing = compacted["lab/probe-c8"].between("2100-01-01T00:00:00Z")
    with h5py.File(nothing.to_hdf5(tmp_path / "nothing.nxs")) as file:
        assert file.attrs["NX_class"] == "NXroot" and len(file) == 0
