"""Files of other programs, written by the reference library of each format: values, units, rates, starts, gaps."""

from __future__ import annotations

import importlib
import json
import os
import struct
import sys
import tracemalloc
from datetime import datetime, timezone
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from places import ROOT
from tallycast._errors import FileError, MissingPackage
from tallycast._schema import Channel, Schema, declared
from tallycast.readers import FORMATS
from tallycast.readers import _group as readers_group
from tallycast.readers._group import Column, FileStream, Table, free_bytes, nanoseconds, offsets_of, rate_of_hz, rate_of_period
from tallycast.readers._units_of_time import moment_ns, unit_and_origin

START = datetime(2026, 11, 21, 20, 15, 0, 250_000, tzinfo=timezone.utc)
START_NS = 1_795_292_100_250_000_000
#: A block of few rows, of files of few rows.
FEW_BYTES = 4
MS = 1_000_000


def units(stream: FileStream) -> list[tuple[str, str]]:
    return [(channel.name, channel.unit) for channel in stream.channels]


def only(path: Path, **options: Any) -> FileStream:
    """Returns the only stream of a file."""
    (stream,) = tc.read_file(path, **options).values()
    return stream


@pytest.fixture(params=["usual blocks", "few rows"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads a file in its usual blocks, and again in blocks of few rows."""
    if request.param == "few rows":
        # All are imported before the first is changed: a reader takes its size from `_group` at its import, and would keep the changed one.
        readers = [importlib.import_module(f"tallycast.readers.{module}") for module in {"_group", *FORMATS.values()}]
        for reader in readers:
            monkeypatch.setattr(reader, "BLOCK_BYTES", FEW_BYTES, raising=False)


# What they have in common


def test_the_start_of_these_tests_is_what_it_says() -> None:
    assert int(START.timestamp()) * 10**9 + START.microsecond * 1_000 == START_NS


@pytest.mark.parametrize(
    ("hz", "rate"),
    [
        (48_000.0, Fraction(48_000)),
        (0.1, Fraction(1, 10)),
        (1_000 / 3, Fraction(1_000, 3)),
        (3333.3333333333335, Fraction(10_000, 3)),
        (59.94005994005994, Fraction(60_000, 1_001)),
        (0.0, None),
        (float("nan"), None),
    ],
)
def test_rates_in_binary_are_the_fractions_that_were_meant(hz: float, rate: Fraction | None) -> None:
    assert rate_of_hz(hz) == rate


def test_periods_are_read_as_they_are_written() -> None:
    assert rate_of_period(0.0003) == Fraction(10_000, 3)
    assert rate_of_period(1 / 44_100) == 44_100
    assert rate_of_period(1e-5) == 100_000
    assert rate_of_period(0.0) is None


def test_columns_of_several_types_share_a_stream_that_holds_each_exactly() -> None:
    def column(name: str, values: Any) -> Column:
        array = np.asarray(values)
        return Column(Channel(name=name), array.dtype, lambda first, end: array[first:end])

    large = np.array([2**62 + 1, 2**62 + 3])
    columns = [column("a", np.array([1, 2], "i2")), column("b", [0.5, 0.25]), column("c", large), column("b", [True, False])]
    mixed, whole = Table("t", columns, 2).streams()
    assert (mixed.name, mixed.dtype, [it.name for it in mixed.channels]) == ("t", np.dtype("f8"), ["a", "b", "b_2"])
    assert mixed.array.tolist() == [[1.0, 0.5, 1.0], [2.0, 0.25, 0.0]]
    assert (whole.name, whole.dtype) == ("t/i64", np.dtype("i8")) and whole["c"].tolist() == large.tolist()
    assert mixed.only(["b_2", "a"]).array.tolist() == [[1.0, 1.0], [0.0, 2.0]]
    with pytest.raises(FileError, match="has no channel x"):
        mixed.only(["x"])


def test_times_keep_every_nanosecond_that_the_file_has() -> None:
    assert nanoseconds(np.array([START_NS]), 1).tolist() == [START_NS]
    assert nanoseconds(np.array([1.5, -0.25]), 10**9, 10).tolist() == [1_500_000_010, -249_999_990]
    for wrong in (np.array([np.nan]), np.array([1e30]), np.array([2**62])):
        with pytest.raises(FileError, match="1678"):
            nanoseconds(wrong, 10**9)


def test_times_by_the_rate_are_exact() -> None:
    index = np.array([0, 1, 2, 10**12, 10**12 + 1], dtype=np.uint64)
    for rate in (Fraction(1_000, 3), Fraction(44_100), Fraction(1, 10), Fraction(2**32 - 1, 2**16)):
        near = index[: 3 if rate < 1 else 5]
        assert offsets_of(near, rate).tolist() == [int(it) * rate.denominator * 10**9 // rate.numerator for it in near]


def test_units_of_time_are_those_of_the_conventions() -> None:
    assert unit_and_origin("seconds since 2026-11-21 20:15:0.25 UTC", "time") == (10**9, START_NS)
    assert unit_and_origin("days since 1970-01-01", "time") == (86_400 * 10**9, 0)
    assert unit_and_origin("", "time_ms") == (MS, None)
    assert unit_and_origin("m", "x") is None, "a coordinate that is no time"
    assert moment_ns("2026-11-21T21:15:00.25+01:00", "time") == START_NS
    with pytest.raises(FileError, match="360_day"):
        unit_and_origin("days since 1970-01-01", "time", "360_day")


def test_what_is_no_such_file_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no file"):
        tc.read_file(tmp_path / "a.tdms")
    with pytest.raises(FileError, match=r"unknown file type .*\nsupported are \.h5"):
        tc.read_file(tmp_path / "a.xyz")


@pytest.mark.parametrize("suffix", [it for it in FORMATS if it not in (".hea", ".xdfz")])
def test_a_damaged_file_is_named(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"damaged{suffix}"
    path.write_bytes(b"this is no measurement at all, and long enough to be looked at" * 40)
    with pytest.raises((FileError, MissingPackage)) as refused:
        tc.read_file(path)
    assert str(path) in str(refused.value) or isinstance(refused.value, MissingPackage)


@pytest.mark.parametrize(("suffix", "package", "extra"), [
    (".tdms", "npTDMS", "tdms"), (".mf4", "asammdf", "mdf"), (".mseed", "pymseed", "mseed"), (".hea", "wfdb", "wfdb"),
    (".xdf", "pyxdf", "xdf"), (".mcap", "mcap", "mcap"), (".h5", "h5py", "hdf5"),
    (".mat", "scipy", "mat"),
])  # fmt: skip
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, package: str, extra: str
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(bytes(200))
    for module in list(sys.modules):
        if module.partition(".")[0].lower() == package.lower():
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "path", [str(ROOT / "python"), *(it for it in sys.path if "site-packages" not in it)])
    with pytest.raises(MissingPackage, match=rf"{package} is not installed\ninstall it: pip install 'tallycast\[{extra}\]'"):
        tc.read_file(path)


# Formats


def test_a_stream_of_a_file_describes_a_publisher(tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("u", data=np.ones(3, "f4")).attrs.update({"units": "V", "fs": 1_000})
    stream = only(tmp_path / "a.h5")
    assert stream.schema == Schema(np.dtype("f4"), Fraction(1_000), (Channel("V", name="u"),))
    assert declared(stream.channels, stream.dtype) == ("f4", [Channel("V", name="u")], {})


def test_tdms_has_streams_by_rate_with_units_and_starts(tmp_path: Path) -> None:
    nptdms: Any = pytest.importorskip("nptdms")
    path = tmp_path / "run.tdms"
    wave = {"wf_increment": 1e-4, "wf_start_time": START.replace(tzinfo=None), "wf_start_offset": 0.5, "unit_string": "V"}
    slow = {"wf_increment": 0.0003, "wf_start_time": START.replace(tzinfo=None), "NI_UnitDescription": "Deg C"}
    voltage = np.arange(400_000, dtype="f8") / 7
    raw = np.arange(400_000, dtype="i2")
    with nptdms.TdmsWriter(path) as writer:
        for part in (slice(0, 150_000), slice(150_000, 400_000)):
            writer.write_segment([
                nptdms.ChannelObject("Motor", "u", voltage[part], wave),
                nptdms.ChannelObject("Motor", "raw", raw[part], {**wave, "unit_string": ""}),
            ])  # fmt: skip
        writer.write_segment([
            nptdms.ChannelObject("Motor", "temperature", np.array([20.5, 21.0]), slow),
            nptdms.ChannelObject("Notes", "text", ["a", "b"]),
            nptdms.ChannelObject("Notes", "x", np.array([1, 2], "u4")),
        ])  # fmt: skip
    streams = tc.read_file(path)
    assert list(streams) == ["Motor", "Motor/temperature", "Notes"]
    motor = streams["Motor"]
    assert units(motor) == [("u", "V"), ("raw", "")]
    assert (motor.rate, motor.start_ns, motor.dtype) == (10_000, START_NS + 500 * MS, np.dtype("f8"))
    assert len(list(motor.blocks())) > 1, "bounded in memory"
    assert (motor["u"] == voltage).all() and (motor["raw"] == raw).all()
    assert motor.times[:2].tolist() == [START_NS + 500 * MS, START_NS + 500 * MS + 100_000]
    assert (streams["Motor/temperature"].rate, units(streams["Motor/temperature"])) == (Fraction(10_000, 3), [("temperature", "Deg C")])
    assert streams["Notes"].left_out == ("text",) and streams["Notes"].dtype == np.dtype("u4")
    with pytest.raises(FileError, match="no rate"):
        streams["Notes"].schema


@pytest.mark.usefixtures("blocks")
def test_tdms_without_a_waveform_has_the_time_of_each_sample(tmp_path: Path) -> None:
    nptdms: Any = pytest.importorskip("nptdms")
    path = tmp_path / "run.tdms"
    stamps = np.datetime64(START.replace(tzinfo=None), "us") + np.array([0, 100, 300], "m8[ms]")
    with nptdms.TdmsWriter(path) as writer:
        writer.write_segment([nptdms.ChannelObject("Log", "Time", stamps), nptdms.ChannelObject("Log", "p", np.array([1.0, 2.0, 3.0], "f4"))])
    log = only(path)
    assert log.rate is None and log.has_times and units(log) == [("p", "")]
    # Its fractions of a second are 2^-64, and npTDMS rounds down to microseconds.
    assert np.abs(log.times - (START_NS + np.array([0, 100, 300]) * MS)).max() <= 1_000


@pytest.mark.usefixtures("blocks")
def test_mdf_has_physical_values_and_the_times_of_the_master(tmp_path: Path) -> None:
    asammdf: Any = pytest.importorskip("asammdf")
    times = np.array([0.0, 0.1, 0.2, 0.5])
    linear = {"a": 0.5, "b": -10.0}
    raw = np.array([1, 2, 3, 60_000], dtype="u2")
    file = asammdf.MDF(version="4.10")
    file.start_time = START
    file.append([
        asammdf.Signal(raw, times, name="temperature", unit="K", conversion=linear),
        asammdf.Signal(np.array([-1, 2, -3, 4], "i4"), times, name="count"),
    ], comment="slow")  # fmt: skip
    file.append([asammdf.Signal(np.arange(5, dtype="f4"), np.arange(5) / 1_000, name="u", unit="V")])
    path = Path(file.save(tmp_path / "run.mf4"))
    slow, fast = tc.read_file(path).values()
    assert units(slow) == [("temperature", "K"), ("count", "")] and slow.dtype == np.dtype("f8")
    assert slow["temperature"].tolist() == (raw * 0.5 - 10.0).tolist() and slow["count"].tolist() == [-1, 2, -3, 4]
    assert slow.times.tolist() == [START_NS + ns for ns in (0, 100 * MS, 200 * MS, 500 * MS)]
    assert fast.dtype == np.dtype("f4") and units(fast) == [("u", "V")] and (fast.times[1] - fast.times[0]) == MS


def test_mat_has_vectors_matrices_and_structures(tmp_path: Path) -> None:
    scipy_io: Any = pytest.importorskip("scipy.io")
    path = tmp_path / "run.mat"
    matrix = np.arange(300_000, dtype="i2").reshape(100_000, 3)
    time = np.arange(100_000) / 1_000
    scipy_io.savemat(path, {"t": time[np.newaxis], "u": matrix, "s": {"x": time * 2, "note": "text"}, "other": np.ones((4, 1)), "gain": 3.0})
    streams = tc.read_file(path)
    main = next(it for it in streams.values() if "u" in [channel.name for channel in it.channels])
    assert [(it.name, it.shape) for it in main.channels] == [("u", (3,)), ("s.x", ())]
    assert (main["u"] == matrix).all() and (main["s.x"] == time * 2).all()
    assert main.times[:2].tolist() == [0, MS] and main.has_times
    assert sorted(len(it.array) for it in streams.values()) == [4, 100_000]


@pytest.mark.usefixtures("blocks")
def test_mat_without_times_has_the_rate_of_its_scalar(tmp_path: Path) -> None:
    scipy_io: Any = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "a.mat", {"u": np.ones(8, "c16") * 1j, "Fs": 48_000.0})
    stream = only(tmp_path / "a.mat")
    assert (stream.rate, stream.dtype, stream.name) == (48_000, np.dtype("c16"), "a") and stream["u"][0] == 1j


@pytest.mark.usefixtures("blocks")
def test_mat_7_3_is_read_as_matlab_shows_it(tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    path = tmp_path / "run.mat"
    matrix = np.arange(12.0).reshape(4, 3)
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("u", data=matrix.T).attrs["MATLAB_class"] = np.bytes_("double")
        file.create_dataset("t", data=np.arange(4.0)[np.newaxis] / 100).attrs["MATLAB_class"] = np.bytes_("double")
        flags = file.create_dataset("s/on", data=np.array([[1], [0], [1], [1]], "u1"))
        flags.attrs["MATLAB_class"] = np.bytes_("logical")
        file.create_dataset("note", data=np.array([[65], [66]], "u2")).attrs["MATLAB_class"] = np.bytes_("char")
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + struct.pack("<H2s", 0x0200, b"IM")
    with path.open("r+b") as file:
        file.write(head)
    stream = only(path)
    assert {it.name: it.shape for it in stream.channels} == {"u": (3,), "s.on": ()}
    assert (stream["u"] == matrix).all() and stream["s.on"].tolist() == [1, 0, 1, 1]
    assert stream.times.tolist() == [0, 10 * MS, 20 * MS, 30 * MS]


@pytest.mark.usefixtures("blocks")
def test_mat_7_3_has_complex_numbers_bit_for_bit(tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    numbers = np.array([1 + 2j, complex(3, np.inf), complex(-0.0, 4), complex(np.nan, 5)])
    with h5py.File(tmp_path / "a.mat", "w", userblock_size=512) as file:
        parts = numbers.view([("real", "f8"), ("imag", "f8")])
        file.create_dataset("z", data=parts[np.newaxis]).attrs["MATLAB_class"] = np.bytes_("double")
    with (tmp_path / "a.mat").open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + struct.pack("<H2s", 0x0200, b"IM"))
    assert only(tmp_path / "a.mat")["z"].tobytes() == numbers.tobytes()


def test_miniseed_has_gaps_where_records_are_missing(tmp_path: Path) -> None:
    pymseed: Any = pytest.importorskip("pymseed")
    path = tmp_path / "day.mseed"
    first, second = np.arange(3_000, dtype="i4"), np.arange(500, dtype="i4") * -7
    traces = pymseed.MS3TraceList()

    def add(source: str, values: Any, kind: str, start_ns: int) -> None:
        traces.add_data(sourceid=source, data_samples=values.tolist(), sample_type=kind, sample_rate=40.0, starttime=start_ns)

    # The later part first: records need not be in order.
    add("FDSN:XX_TEST_00_B_H_Z", second, "i", START_NS + 3_100 * 25 * MS)
    add("FDSN:XX_TEST_00_B_H_Z", first, "i", START_NS)
    add("FDSN:XX_TEST__L_D_O", np.array([0.5, 1.5]), "d", START_NS)
    traces.to_file(str(path), format_version=3)
    streams = tc.read_file(path)
    assert sorted(streams) == ["XX.TEST.00.BHZ", "XX.TEST.LDO"]
    trace = streams["XX.TEST.00.BHZ"]
    assert (trace.rate, trace.start_ns, trace.dtype, trace.samples) == (40, START_NS, np.dtype("i4"), 3_500)
    assert trace["BHZ"].tolist() == [*first.tolist(), *second.tolist()]
    assert trace.index[[2_999, 3_000]].tolist() == [2_999, 3_100]
    assert streams["XX.TEST.LDO"]["LDO"].tolist() == [0.5, 1.5]


def test_miniseed_that_has_samples_twice_is_refused(tmp_path: Path) -> None:
    pymseed: Any = pytest.importorskip("pymseed")
    path = tmp_path / "twice.mseed"
    traces = pymseed.MS3TraceList()
    for offset, values in ((0, range(100)), (50, range(500, 600))):
        traces.add_data(
            sourceid="FDSN:XX_TEST_00_B_H_Z", data_samples=list(values), sample_type="i", sample_rate=40.0,
            starttime=START_NS + offset * 25 * MS,
        )  # fmt: skip
    traces.to_file(str(path))
    with pytest.raises(FileError, match="has 50 samples twice"):
        only(path).array


def test_wfdb_has_digits_with_gain_and_gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wfdb: Any = pytest.importorskip("wfdb")
    digits = np.stack([np.arange(100), np.arange(100) * -3], axis=1).astype("i2")
    digits[40:50] = -32_768
    wfdb.wrsamp(
        "ecg", fs=360, units=["mV", "mV"], sig_name=["I", "II"], d_signal=digits.astype("i8"), fmt=["16", "16"], adc_gain=[200.0, 100.0],
        baseline=[0, 1_024], write_dir=str(tmp_path), base_datetime=START.replace(tzinfo=None),
    )  # fmt: skip
    ecg = only(tmp_path / "ecg.hea")
    assert (ecg.name, ecg.rate, ecg.start_ns, ecg.dtype) == ("ecg", 360, START_NS, np.dtype("i2"))
    assert [(it.name, it.unit, it.scale, it.offset) for it in ecg.channels] == [("I", "mV", 0.005, 0.0), ("II", "mV", 0.01, -10.24)]
    there = np.r_[0:40, 50:100]
    assert ecg.index.tolist() == there.tolist() and (ecg.array == digits[there]).all()
    digits[60, 1] = -32_768
    wfdb.wrsamp(
        "part", fs=360, units=["mV", "mV"], sig_name=["I", "II"], d_signal=digits.astype("i8"), fmt=["16", "16"], adc_gain=[200.0, 100.0],
        baseline=[0, 1_024], write_dir=str(tmp_path),
    )  # fmt: skip
    part = only(tmp_path / "part.hea")
    assert part.dtype == np.dtype("f8") and part.index.tolist() == there.tolist()
    assert np.isnan(part["II"]).tolist() == (there == 60).tolist() and part["I"][50] == 60 / 200


def test_edf_has_digits_with_physical_ranges(tmp_path: Path) -> None:
    pyedflib: Any = pytest.importorskip("pyedflib")
    path = tmp_path / "sleep.edf"
    writer = pyedflib.EdfWriter(str(path), 2, file_type=pyedflib.FILETYPE_EDFPLUS)
    head = {"dimension": "uV", "physical_max": 100.0, "physical_min": -100.0, "digital_max": 32_767, "digital_min": -32_768}
    # pyEDFlib writes a microsecond as ten.
    writer.setStartdatetime(START.replace(tzinfo=None, microsecond=25_000))
    writer.setSignalHeaders([{**head, "label": "EEG", "sample_frequency": 200}, {**head, "label": "SpO2", "sample_frequency": 1, "dimension": "%"}])
    fast, slow = np.arange(-1_000, 1_000, dtype="i4"), np.arange(10, dtype="i4")
    writer.writeSamples([fast, slow], digital=True)
    writer.close()
    assert b"+0.25" in path.read_bytes()
    streams = list(tc.read_file(path).values())
    assert [(it.rate, it.start_ns, units(it)) for it in streams] == [(200, START_NS, [("EEG", "uV")]), (1, START_NS, [("SpO2", "%")])]
    eeg = streams[0]
    assert eeg["EEG"].tolist() == fast.tolist() and eeg.dtype == np.dtype("i2")
    assert np.allclose(eeg.values("EEG"), (fast + 32_768) * 200 / 65_535 - 100, rtol=0, atol=1e-10)


@pytest.mark.usefixtures("blocks")
def test_bdf_has_digits_of_24_bits(tmp_path: Path) -> None:
    pyedflib: Any = pytest.importorskip("pyedflib")
    path = tmp_path / "head.bdf"
    writer = pyedflib.EdfWriter(str(path), 1, file_type=pyedflib.FILETYPE_BDFPLUS)
    writer.setStartdatetime(START.replace(tzinfo=None, microsecond=25_000))
    ends = {"physical_max": 262_143.0, "physical_min": -262_144.0, "digital_max": 8_388_607, "digital_min": -8_388_608}
    writer.setSignalHeaders([{**ends, "label": "Fp1", "dimension": "uV", "sample_frequency": 100}])
    digits = np.array([-8_388_608, -1, 0, 1, 8_388_607] * 40, dtype="i4")
    writer.writeSamples([digits], digital=True)
    writer.close()
    stream = only(path)
    assert (stream.dtype, stream.rate, stream.start_ns) == (np.dtype("i4"), 100, START_NS) and stream["Fp1"].tolist() == digits.tolist()
    assert stream.left_out == ("BDF Annotations",)


def edf(kind: str, onsets: list[str], records: int | None = None) -> bytes:
    """An EDF+ file of records of 0.5 s with 4 samples of `u`, 2 of `v`, and their time; `+0.25` of an annotation in the last."""

    def field(text: object, width: int) -> bytes:
        return str(text).encode().ljust(width)

    signals = [("u", "mV", -1, 1, 4), ("v", "%", 0, 100, 2), ("EDF Annotations", "", -1, 1, 16)]
    head = field(0, 8) + field("X X X X", 80) + field("Startdate 21-NOV-2026 X X X", 80) + b"21.11.2620.15.00"
    head += field(256 * 4, 8) + field(kind, 44) + field(len(onsets) if records is None else records, 8) + field("0.5", 8) + field(3, 4)
    for place, width in ((0, 16), (None, 80), (1, 8), (2, 8), (3, 8), ("low", 8), ("high", 8), (None, 80), (4, 8), (None, 32)):
        ends = {"low": -32_768, "high": 32_767}
        head += b"".join(field("" if place is None else ends.get(place, "") if isinstance(place, str) else row[place], width) for row in signals)
    body = b""
    for number, onset in enumerate(onsets):
        tal = f"{onset}\x14\x14\0".encode() + (b"+0.25\x14eyes closed\x14\0" if number == len(onsets) - 1 else b"")
        body += struct.pack("<6h", *range(number * 10, number * 10 + 6)) + tal.ljust(32, b"\0")
    return head + body


def test_edf_with_interruptions_has_holes_between_its_records(tmp_path: Path) -> None:
    path = tmp_path / "night.edf"
    path.write_bytes(edf("EDF+D", ["+0.25", "+0.75", "+3.25", "+3.75", "+10.3"]))
    u, v = tc.read_file(path).values()
    assert (u.name, v.name, u.rate, v.rate, u.start_ns, v.start_ns) == ("night/u", "night/v", 8, 4, START_NS, START_NS)
    assert u["u"].tolist() == [number * 10 + sample for number in range(5) for sample in range(4)]
    assert v["v"].tolist() == [number * 10 + sample for number in range(5) for sample in (4, 5)]
    # Record 2 begins 3 s behind the first, record 4 at 10.05 s, which is sample 80.4.
    assert u.index.tolist() == [*range(8), *range(24, 32), *range(80, 84)]
    assert v.index.tolist() == [*range(4), *range(12, 16), *range(40, 42)]
    assert [block.missing_before for block in u.blocks()] == [0, 16, 48]
    assert u.left_out == ("EDF Annotations",), "annotations are said to be left out"


@pytest.mark.usefixtures("blocks")
def test_edf_without_interruptions_has_no_holes_whatever_its_records_tell(tmp_path: Path) -> None:
    (tmp_path / "a.edf").write_bytes(edf("EDF+C", ["+0.25", "+0.75", "+9"]))
    u, _ = tc.read_file(tmp_path / "a.edf").values()
    assert u.index.tolist() == [*range(12)] and u.start_ns == START_NS


def test_edf_whose_records_go_back_or_tell_no_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.edf"
    path.write_bytes(edf("EDF+D", ["+0", "+1", "+1.2"]))
    with pytest.raises(FileError, match="record 2 of .*a.edf has samples again"):
        next(iter(tc.read_file(path).values())).array
    path.write_bytes(edf("EDF+D", ["+0", "no time"]))
    with pytest.raises(FileError, match="record 1 of .*a.edf does not tell its time"):
        next(iter(tc.read_file(path).values())).array


def test_edf_that_was_cut_gives_its_whole_records_and_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.edf"
    whole = edf("EDF+C", ["+0", "+0.5", "+1"])
    path.write_bytes(whole[:-1])
    u, _ = tc.read_file(path).values()
    blocks = u.blocks()
    assert next(blocks).array[:, 0].tolist() == [0, 1, 2, 3, 10, 11, 12, 13]
    with pytest.raises(FileError, match="has 2 whole records, and by its header 3\n"):
        next(blocks)
    for counts in (b"-4      2       16      ", b"4       -2      16      "):
        path.write_bytes(whole.replace(b"4       2       16      ", counts))
        with pytest.raises(FileError, match="header of .*a.edf is damaged"):
            tc.read_file(path)
    path.write_bytes(edf("EDF+C", ["+0", "+0.5"], records=-1))
    assert len(next(iter(tc.read_file(path).values())).array) == 8, "a recording that was not ended in order"


def xdf_chunk(tag: int, content: bytes) -> bytes:
    """A chunk of XDF 1.0: length of what follows, tag, content."""
    return b"\x04" + struct.pack("<IH", len(content) + 2, tag) + content


def test_xdf_has_streams_with_labels_and_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyxdf: Any = pytest.importorskip("pyxdf")
    load, loaded = pyxdf.load_xdf, []
    path = tmp_path / "session.xdf"
    labels = "".join(f"<channel><label>{label}</label><unit>{unit}</unit></channel>" for label, unit in (("C3", "uV"), ("C4", "uV")))

    def header(name: str, count: int, rate: int, kind: str, desc: str = "") -> bytes:
        return (
            f"<?xml version='1.0'?><info><name>{name}</name><type>EEG</type><channel_count>{count}</channel_count>"
            f"<nominal_srate>{rate}</nominal_srate><channel_format>{kind}</channel_format><source_id>s1</source_id>"
            f"<created_at>1</created_at><desc>{desc}</desc></info>"
        ).encode()

    def samples(stream: int, rows: list[tuple[float, bytes]]) -> bytes:
        body = b"".join(b"\x08" + struct.pack("<d", time) + values for time, values in rows)
        return xdf_chunk(3, struct.pack("<I", stream) + b"\x04" + struct.pack("<I", len(rows)) + body)

    times = [10 + index / 100 for index in [*range(500), *range(800, 1_300)]]
    eeg = [(time, struct.pack("<2f", index, -index)) for index, time in enumerate(times)]
    beats = [(10.0, struct.pack("<i", 7)), (10.73, struct.pack("<i", -8))]
    path.write_bytes(
        b"XDF:" + xdf_chunk(1, b"<?xml version='1.0'?><info><version>1.0</version></info>")
        + xdf_chunk(2, struct.pack("<I", 1) + header("amp", 2, 100, "float32", f"<channels>{labels}</channels>"))
        + xdf_chunk(2, struct.pack("<I", 2) + header("beats", 1, 0, "int32"))
        + samples(1, eeg) + samples(2, beats)
    )  # fmt: skip
    streams = tc.read_file(path)
    amp, beat = streams["amp"], streams["beats"]
    monkeypatch.setattr(pyxdf, "load_xdf", lambda *_, **options: loaded.append(options["select_streams"]) or load(*_, **options))
    assert len(list(amp.blocks())) == 2 and loaded == [[1]], "of the streams one is in memory"
    assert (amp.rate, amp.dtype, units(amp)) == (100, np.dtype("f4"), [("C3", "uV"), ("C4", "uV")])
    assert amp["C4"].tolist() == [-float(index) for index in range(1_000)]
    assert amp.index[[499, 500]].tolist() == [499, 800], "a break of three seconds"
    assert beat.rate is None and beat["ch0"].tolist() == [7, -8] and np.diff(beat.times).tolist() == [730 * MS]


def test_a_file_that_is_read_whole_and_has_no_room_in_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scipy_io: Any = pytest.importorskip("scipy.io")
    pytest.importorskip("pyxdf")
    scipy_io.savemat(tmp_path / "a.mat", {"u": np.zeros(10_000), "v": np.zeros((10, 3), "i2")}, do_compression=True)
    (tmp_path / "a.xdf").write_bytes(b"XDF:" + xdf_chunk(1, b"<info><version>1.0</version></info>"))
    size = (tmp_path / "a.xdf").stat().st_size
    for name, takes in (("a.mat", 80_060), ("a.xdf", size)):
        monkeypatch.setattr(readers_group, "free_bytes", lambda: takes - 1)
        with pytest.raises(FileError, match=f"{name} is read whole, which takes {takes:,} bytes of memory, and {takes - 1:,} are free\n.*HDF5"):
            tc.read_file(tmp_path / name)
    monkeypatch.setattr(readers_group, "free_bytes", lambda: 80_060)
    assert len(tc.read_file(tmp_path / "a.mat")) == 2


def test_a_package_that_gets_no_memory_is_an_error_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scipy_io: Any = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "a.mat", {"u": np.zeros(10)})

    def refused(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(scipy_io, "loadmat", refused)
    with pytest.raises(FileError, match="a.mat needs more memory than this process gets\ndivide it"):
        tc.read_file(tmp_path / "a.mat")


def test_how_much_memory_is_free_is_what_the_kernel_says() -> None:
    free = free_bytes()
    assert free is None or 0 < free < os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_hdf5_has_a_stream_for_the_data_of_one_clock(tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    path = tmp_path / "scan.h5"
    image = np.arange(4 * 6, dtype="u2").reshape(4, 2, 3)
    with h5py.File(path, "w") as file:
        entry = file.create_group("entry")
        time = entry.create_dataset("time", data=np.array([0.0, 0.1, 0.2, 0.5]))
        time.attrs.update({"units": "s", "start": "2026-11-21T20:15:00.25Z"})
        current = entry.create_dataset("current", data=np.array([1.5, 2.5, 3.5, 4.5], ">f8"))
        current.attrs["units"] = "A"
        entry.create_dataset("image", data=image)
        entry.create_dataset("half", data=np.array([0.5, 1, 2, 4], "f2"))
        entry.create_dataset("note", data=np.array([b"a", b"b", b"c", b"d"]))
        sound = file.create_dataset("audio/sound", data=np.arange(300_000, dtype="i2"))
        sound.attrs["sample_rate"] = 48_000
    streams = tc.read_file(path)
    entry = streams["entry"]
    assert {it.name: (it.unit, it.shape) for it in entry.channels} == {"current": ("A", ()), "half": ("", ()), "image": ("", (2, 3))}
    assert entry["current"].tolist() == [1.5, 2.5, 3.5, 4.5] and (entry["image"] == image).all() and entry["half"].tolist() == [0.5, 1, 2, 4]
    assert entry.times.tolist() == [START_NS + ns for ns in (0, 100 * MS, 200 * MS, 500 * MS)] and entry.left_out == ("/entry/note",)
    audio = streams["audio"]
    assert (audio.rate, units(audio), audio.dtype) == (48_000, [("sound", "")], np.dtype("i2"))
    assert (audio["sound"] == np.arange(300_000, dtype="i2")).all()


def test_hdf5_takes_the_data_set_of_times_that_is_named(tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    path = tmp_path / "scan.h5"
    with h5py.File(path, "w") as file:
        file["when"], file["u"] = np.array([START_NS, START_NS + MS]), np.array([1, 2], "i8")
        file["when"].attrs["units"] = "ns"
    stream = only(path, time="/when")
    assert units(stream) == [("u", "")] and stream.times.tolist() == [START_NS, START_NS + MS]
    with pytest.raises(FileError, match="has no data set clock of times\nit has: /u, /when"):
        tc.read_file(path, time="clock")


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("engine", ["h5netcdf", "scipy"])
def test_netcdf_has_coordinates_packed_values_and_fill_values(tmp_path: Path, engine: str) -> None:
    xr: Any = pytest.importorskip("xarray")
    pytest.importorskip(engine)
    path = tmp_path / "weather.nc"
    times = np.datetime64(START.replace(tzinfo=None), "ns") + np.array([0, 10, 20], "m8[s]")
    data = xr.Dataset(
        {
            "temperature": ("time", np.array([20.5, np.nan, 21.0]), {"units": "degC"}),
            "wind": (("time", "axis"), np.array([[1, 2], [3, 4], [5, 6]], "i4"), {"units": "m/s"}),
        },
        coords={"time": times},
    )
    encoding = {"temperature": {"dtype": "i2", "scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -1}}
    encoding["time"] = {"units": "milliseconds since 2026-11-21", "dtype": "f8"}
    data.to_netcdf(path, engine=engine, encoding=encoding, **({"format": "NETCDF3_64BIT"} if engine == "scipy" else {}))
    stream = only(path)
    assert {it.name: (it.unit, it.shape, it.scale, it.offset) for it in stream.channels} == {
        "temperature": ("degC", (), 0.5, 10.0), "wind": ("m/s", (2,), 1.0, 0.0),
    }  # fmt: skip
    assert np.array_equal(stream.values("temperature"), [20.5, np.nan, 21.0], equal_nan=True)
    assert stream["wind"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert stream.times.tolist() == [START_NS + 10 * index * 10**9 for index in range(3)]


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("summary", [True, False])
def test_mcap_has_the_numbers_of_json_messages(tmp_path: Path, summary: bool) -> None:
    writers: Any = pytest.importorskip("mcap.writer")
    path = tmp_path / "robot.mcap"
    with path.open("wb") as file:
        writer = writers.Writer(file, repeat_channels=summary, repeat_schemas=summary, use_summary_offsets=summary)
        writer.start()
        schema = writer.register_schema("Pose", "jsonschema", b"{}")
        pose = writer.register_channel("/pose", "json", schema)
        text = writer.register_channel("/log", "json", schema)
        for index in range(3):
            body = {"position": {"x": index / 3, "y": index}, "joints": [index, 2.5], "frame": "map", "ok": True}
            writer.add_message(pose, START_NS + index * 100 * MS, json.dumps(body).encode(), 0)
        writer.add_message(text, START_NS, b'{"text": "hello"}', 0)
        writer.finish()
    stream = only(path)
    assert (stream.name, [(it.name, it.shape) for it in stream.channels]) == (
        "pose", [("position.x", ()), ("position.y", ()), ("joints", (2,)), ("ok", ())],
    )  # fmt: skip
    assert stream.array.tolist() == [[index / 3, index, index, 2.5, 1] for index in range(3)]
    assert stream.times.tolist() == [START_NS + index * 100 * MS for index in range(3)]


def test_streams_of_one_name_are_told_apart(tmp_path: Path) -> None:
    asammdf: Any = pytest.importorskip("asammdf")
    file = asammdf.MDF(version="4.10")
    for count in (3, 4):
        file.append([asammdf.Signal(np.arange(count), np.arange(count) / 10, name="u")], comment="same")
    path = Path(file.save(tmp_path / "run.mf4"))
    assert {name: len(stream.array) for name, stream in tc.read_file(path).items()} == {"same": 3, "same_2": 4}


@pytest.mark.usefixtures("blocks")
def test_netcdf_has_samples_along_the_axis_of_times(tmp_path: Path) -> None:
    xr: Any = pytest.importorskip("xarray")
    pytest.importorskip("h5netcdf")
    times = np.datetime64(START.replace(tzinfo=None), "ns") + np.array([0, 1, 2], "m8[s]")
    values = np.arange(6.0).reshape(2, 3)
    xr.Dataset({"u": (("station", "time"), values)}, {"time": times, "station": [10, 20]}).to_netcdf(tmp_path / "a.nc", engine="h5netcdf")
    stream = only(tmp_path / "a.nc")
    assert [(it.name, it.shape) for it in stream.channels] == [("u", (2,))] and stream["u"].tolist() == values.T.tolist()
    assert stream.times.tolist() == [START_NS + index * 10**9 for index in range(3)]


@pytest.mark.usefixtures("blocks")
def test_tdms_scales_raw_values_as_the_file_says(tmp_path: Path) -> None:
    nptdms: Any = pytest.importorskip("nptdms")
    scale = {"Scale_Type": "Linear", "Linear_Slope": 0.5, "Linear_Y_Intercept": -10.0}
    properties = {"NI_Number_Of_Scales": 1, "NI_Scaling_Status": "unscaled", **{f"NI_Scale[0]_{key}": value for key, value in scale.items()}}
    with nptdms.TdmsWriter(tmp_path / "a.tdms") as writer:
        writer.write_segment([nptdms.ChannelObject("g", "t", np.array([1, 2, -3], "i2"), properties)])
    stream = only(tmp_path / "a.tdms")
    assert stream.dtype == np.dtype("f8") and stream["t"].tolist() == [-9.5, -9.0, -11.5]


@pytest.mark.usefixtures("blocks")
def test_mdf_has_states_as_numbers_and_invalid_values_as_nan(tmp_path: Path) -> None:
    asammdf: Any = pytest.importorskip("asammdf")
    times = np.array([0.0, 0.1, 0.2])
    texts = {"val_0": 0, "text_0": b"off", "val_1": 1, "text_1": b"on", "default": b"?"}
    file = asammdf.MDF(version="4.10")
    file.append([
        asammdf.Signal(np.array([0, 1, 1], "u1"), times, name="state", conversion=texts),
        asammdf.Signal(np.array([5, 6, 7], "i2"), times, name="x", invalidation_bits=np.array([False, True, False])),
        asammdf.Signal(np.array([b"a", b"b", b"c"]), times, name="note", encoding="utf-8"),
    ])  # fmt: skip
    stream = only(Path(file.save(tmp_path / "run.mf4")))
    assert stream["state"].tolist() == [0, 1, 1] and stream.left_out == ("note",)
    assert np.array_equal(stream["x"], [5, np.nan, 7], equal_nan=True)


@pytest.mark.usefixtures("blocks")
def test_wfdb_of_several_segments_has_gaps_and_missing_channels(tmp_path: Path) -> None:
    wfdb: Any = pytest.importorskip("wfdb")

    def segment(name: str, digits: Any) -> None:
        names, count = ["I", "II"][-digits.shape[1] :], digits.shape[1]
        wfdb.wrsamp(
            name, fs=100, units=["mV"] * count, sig_name=names, d_signal=digits, fmt=["16"] * count, adc_gain=[200.0] * count,
            baseline=[0] * count, write_dir=str(tmp_path),
        )  # fmt: skip

    segment("a", np.arange(20).reshape(10, 2))
    segment("b", np.arange(5).reshape(5, 1))
    (tmp_path / "lay.hea").write_text("lay 2 100 0\n~ 0 200(0)/mV 16 0 0 0 0 I\n~ 0 200(0)/mV 16 0 0 0 0 II\n")
    (tmp_path / "multi.hea").write_text("multi/4 2 100 22\nlay 0\na 10\n~ 7\nb 5\n")
    stream = only(tmp_path / "multi.hea")
    assert stream.index.tolist() == [*range(10), *range(17, 22)]
    assert stream["II"][10:].tolist() == [digit / 200 for digit in range(5)] and np.isnan(stream["I"][10:]).all()


@pytest.mark.usefixtures("blocks")
def test_mcap_has_the_numbers_of_ros_2_messages(tmp_path: Path) -> None:
    writers: Any = pytest.importorskip("mcap_ros2.writer")
    path = tmp_path / "robot.mcap"
    definition = f"Point position\nfloat64[] joints\nstring frame\nbool ok\n{'=' * 80}\nMSG: geometry_msgs/Point\nfloat64 x\nint32 n"
    with path.open("wb") as file:
        writer = writers.Writer(file)
        schema = writer.register_msgdef("geometry_msgs/Pose", definition)
        for index in range(3):
            message = {"position": {"x": index / 3, "n": -index}, "joints": [float(index), 2.5], "frame": "map", "ok": True}
            writer.write_message("/pose", schema, message, START_NS + index * 100 * MS, START_NS, index)
        writer.finish()
    stream = only(path)
    assert [(it.name, it.shape) for it in stream.channels] == [("position.x", ()), ("position.n", ()), ("joints", (2,)), ("ok", ())]
    assert stream.array.tolist() == [[index / 3, -index, index, 2.5, 1] for index in range(3)]
    assert stream.times[2] == START_NS + 200 * MS


def test_wfdb_keeps_a_gap_at_its_end(tmp_path: Path) -> None:
    wfdb: Any = pytest.importorskip("wfdb")
    digits = np.array([[1], [2], [-32_768], [-32_768], [-32_768]])
    wfdb.wrsamp("ecg", fs=250, units=["mV"], sig_name=["II"], d_signal=digits, fmt=["16"], adc_gain=[200.0], baseline=[0], write_dir=str(tmp_path))
    stream = only(tmp_path / "ecg.hea")
    assert [(len(block.array), block.missing_before) for block in stream.blocks()] == [(2, 0), (0, 3)]
    assert stream["II"].tolist() == [1, 2] and stream.index.tolist() == [0, 1]


def test_a_time_column_that_is_not_there_is_refused_with_those_that_are(tmp_path: Path) -> None:
    nptdms: Any = pytest.importorskip("nptdms")
    scipy_io: Any = pytest.importorskip("scipy.io")
    h5py: Any = pytest.importorskip("h5py")
    with nptdms.TdmsWriter(tmp_path / "a.tdms") as writer:
        writer.write_segment([nptdms.ChannelObject("g", name, np.arange(3.0)) for name in ("seconds", "u")])
    scipy_io.savemat(tmp_path / "a.mat", {"seconds": np.arange(3.0), "u": np.arange(3.0), "s": {"clock": np.arange(4.0)}, "m": np.ones((3, 2))})
    with scipy_io.netcdf_file(tmp_path / "a.nc", "w") as file:
        file.createDimension("row", 3)
        for name in ("seconds", "u"):
            file.createVariable(name, "f8", ("row",))[:] = np.arange(3.0)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["g/seconds"], file["g/u"] = np.arange(3.0), np.arange(3.0)
    known = {"tdms": "channel when of times\nit has: seconds, u", "mat": "vector when of times\nit has: seconds, u, s.clock",
             "nc": "variable when of times\nit has: seconds, u", "h5": "data set when of times\nit has: /g/seconds, /g/u"}  # fmt: skip
    for suffix, text in known.items():
        with pytest.raises(FileError, match=f"a.{suffix} has no {text}"):
            tc.read_file(tmp_path / f"a.{suffix}", time="when")
        found = tc.read_file(tmp_path / f"a.{suffix}", time="seconds")
        assert [it.times.tolist() for it in found.values() if it.has_times] == [[0, 10**9, 2 * 10**9]], suffix


def test_a_named_time_column_goes_before_the_rate_of_a_waveform(tmp_path: Path) -> None:
    nptdms: Any = pytest.importorskip("nptdms")
    channels = [("clock", {}), ("u", {"wf_increment": 0.1})]
    with nptdms.TdmsWriter(tmp_path / "a.tdms") as writer:
        writer.write_segment([nptdms.ChannelObject("g", name, np.array([0.0, 0.1, 0.3]), properties) for name, properties in channels])
    assert only(tmp_path / "a.tdms", time="clock").times.tolist() == [0, 100 * MS, 300 * MS]


@pytest.mark.parametrize(("name", "unit", "period_ns"), [("clock", "", 10**9), ("clock_ms", "", MS), ("clock", "ms", MS), ("clock_s", "us", 1_000)])
def test_the_times_of_a_named_tdms_channel_are_in_its_unit(tmp_path: Path, name: str, unit: str, period_ns: int) -> None:
    nptdms: Any = pytest.importorskip("nptdms")
    channels = [nptdms.ChannelObject("g", name, np.array([0, 1, 3]), {"unit_string": unit}), nptdms.ChannelObject("g", "u", np.arange(3.0))]
    with nptdms.TdmsWriter(tmp_path / "a.tdms") as writer:
        writer.write_segment(channels)
    assert only(tmp_path / "a.tdms", time=name).times.tolist() == [0, period_ns, 3 * period_ns]


def test_a_named_tdms_channel_that_is_no_time_is_refused(tmp_path: Path) -> None:
    nptdms: Any = pytest.importorskip("nptdms")
    with nptdms.TdmsWriter(tmp_path / "a.tdms") as writer:
        writer.write_segment([nptdms.ChannelObject("g", name, np.arange(3.0), {"unit_string": "V"}) for name in ("u", "v")])
    with pytest.raises(FileError, match="channel u is in V, which is no unit of time"):
        only(tmp_path / "a.tdms", time="u").times


def test_classic_netcdf_is_read_in_pieces(tmp_path: Path) -> None:
    scipy_io: Any = pytest.importorskip("scipy.io")
    rows = 2_000_000
    with scipy_io.netcdf_file(tmp_path / "a.nc", "w") as file:
        file.createDimension("time", rows)
        file.createVariable("u", "f8", ("time",))[:] = np.arange(rows)
    tracemalloc.start()
    stream = only(tmp_path / "a.nc")
    total = sum(float(block.array.sum()) for block in stream.blocks())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert total == rows * (rows - 1) / 2 and peak < rows * 8 // 2
