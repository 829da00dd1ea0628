"""Frames by which the command reads a file: their layout is that of `source::Frames`."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tallycast._errors import FileError
from tallycast.readers.__main__ import parse, run


def told(path: Path, *words: str) -> tuple[dict[str, Any], bytes]:
    """Returns the first line and the frames."""
    output = io.BytesIO()
    run(parse([str(path), *words]), output)
    line, _, frames = output.getvalue().partition(b"\n")
    return json.loads(line), frames


def head(kind: bytes, count: int) -> bytes:
    return struct.pack("<cQ", kind, count)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    h5py: Any = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["time_ms"], file["u"], file["v"] = np.array([5, 6, 9]), np.array([1, 2, 3], ">i2"), np.array([7, 8, 9], "i2")
        file["u"].attrs["units"] = "V"
    return path


def test_samples_with_times_come_behind_the_description(file: Path) -> None:
    line, frames = told(file)
    assert (line["dtype"], line["rate"], line["start_ns"], line["left_out"]) == ("i16", None, None, [])
    assert line["channels"][0] == {"name": "u", "unit": "V", "shape": [], "scale": 1.0, "offset": 0.0}
    times = struct.pack("<3q", 5_000_000, 6_000_000, 9_000_000)
    assert frames == head(b"T", 3) + times + struct.pack("<6h", 1, 7, 2, 8, 3, 9) + head(b"E", 0)


def test_channels_are_chosen_and_times_are_left_out_where_asked(file: Path) -> None:
    line, frames = told(file, "--column", "v", "--time", "none")
    assert [channel["name"] for channel in line["channels"]] == ["v"]
    assert frames == head(b"S", 3) + struct.pack("<3h", 7, 8, 9) + head(b"E", 0)


def test_holes_lie_between_the_samples(tmp_path: Path) -> None:
    wfdb: Any = pytest.importorskip("wfdb")
    digits = np.array([[1], [-32_768], [-32_768], [4]])
    wfdb.wrsamp("ecg", fs=250, units=["mV"], sig_name=["II"], d_signal=digits, fmt=["16"], adc_gain=[200.0], baseline=[0], write_dir=str(tmp_path))
    line, frames = told(tmp_path / "ecg.hea")
    assert line["rate"] == "250/1"
    assert frames == head(b"S", 1) + struct.pack("<h", 1) + head(b"H", 2) + head(b"S", 1) + struct.pack("<h", 4) + head(b"E", 0)


def test_a_hole_may_end_the_file(tmp_path: Path) -> None:
    wfdb: Any = pytest.importorskip("wfdb")
    digits = np.array([[1], [-32_768], [-32_768]])
    wfdb.wrsamp("ecg", fs=250, units=["mV"], sig_name=["II"], d_signal=digits, fmt=["16"], adc_gain=[200.0], baseline=[0], write_dir=str(tmp_path))
    assert told(tmp_path / "ecg.hea")[1] == head(b"S", 1) + struct.pack("<h", 1) + head(b"H", 2) + head(b"E", 0)


def test_several_streams_are_named_and_one_is_chosen(tmp_path: Path) -> None:
    scipy_io: Any = pytest.importorskip("scipy.io")
    scipy_io.savemat(tmp_path / "a.mat", {"u": np.ones(3), "v": np.ones(4)})
    line, frames = told(tmp_path / "a.mat")
    assert sorted(line["streams"]) == ["u", "v"] and frames == b""
    assert told(tmp_path / "a.mat", "--stream", "v")[1].startswith(head(b"S", 4))
    line, frames = told(tmp_path / "a.mat", "--column", "u")
    assert line["name"] == "u" and frames.startswith(head(b"S", 3)), "the only stream with that column"
    with pytest.raises(FileError, match="no channel x\nits channels are: u, v"):
        told(tmp_path / "a.mat", "--column", "x")


def test_an_error_behind_samples_ends_the_frames(tmp_path: Path) -> None:
    writers: Any = pytest.importorskip("mcap.writer")
    path = tmp_path / "a.mcap"
    with path.open("wb") as file:
        writer = writers.Writer(file)
        writer.start()
        channel = writer.register_channel("/u", "json", writer.register_schema("U", "jsonschema", b"{}"))
        for body in (b'{"x": 1}', b'{"y": 1}'):
            writer.add_message(channel, 0, body, 0)
        writer.finish()
    _, frames = told(path)
    assert frames[:1] == b"X" and frames[9:].startswith(b"messages of /u change: x is no longer a number\n")
