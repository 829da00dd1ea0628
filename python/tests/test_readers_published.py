"""Files of other programs as streams of `tallycast pub --file`, which starts Python for them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge_peers import PACKAGE, Reader, new_bus
from places import WATCHDOG, command


def environment(bus: str, path: str = PACKAGE) -> dict[str, str]:
    return {**os.environ, "TALLYCAST_PYTHON": sys.executable, "TALLYCAST_BUS": bus, "PYTHONPATH": path}


def published(path: Path, *words: str, name: str = "lab/file", expect: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    """Publishes a file by the command; returns a reader's samples, schemas and holes by stream, and what was printed."""
    bus = new_bus()
    names = expect or (name,)
    with Reader(bus, f"{name}/*" if expect else name) as reader:
        told = subprocess.run(
            [command(), "pub", name, "--file", str(path), "--speed", "1000", "--wait", "50s", *words],
            env=environment(bus), capture_output=True, text=True, timeout=2 * WATCHDOG,
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
        accounts = reader.end()
        found = {it: (reader.samples_of(it), reader.schemas[it][0], accounts[it][0]) for it in names}
    return found, told.stderr


def test_a_file_is_published_with_its_holes_and_units(tmp_path: Path) -> None:
    wfdb: Any = pytest.importorskip("wfdb")
    digits = np.arange(100)[:, np.newaxis].copy()
    digits[40:50] = -32_768
    wfdb.wrsamp("ecg", fs=360, units=["mV"], sig_name=["II"], d_signal=digits, fmt=["16"], adc_gain=[200.0], baseline=[0], write_dir=str(tmp_path))
    found, _ = published(tmp_path / "ecg.hea")
    samples, schema, account = found["lab/file"]
    assert [(it.name, it.unit, it.scale) for it in schema.channels] == [("II", "mV", 0.005)] and schema.rate == 360_000
    assert {index: int(value[0]) for index, (value, _) in samples.items()} == {index: index for index in range(100) if not 40 <= index < 50}
    assert account.lost == {"source": 10}


def test_several_streams_of_a_file_are_streams_under_its_name(tmp_path: Path) -> None:
    nptdms: Any = pytest.importorskip("nptdms")
    path = tmp_path / "run.tdms"
    channels = [
        nptdms.ChannelObject(group, "u", np.arange(count, dtype="i4"), {"wf_increment": 1 / rate})
        for group, count, rate in (("Fast part", 200, 1_000), ("Slow", 20, 100))
    ]
    with nptdms.TdmsWriter(path) as writer:
        writer.write_segment([*channels, nptdms.ChannelObject("Slow", "note", ["text"])])
    found, told = published(path, expect=("lab/file/Fast_part", "lab/file/Slow"))
    assert [len(samples) for samples, _, _ in found.values()] == [200, 20]
    assert [schema.rate for _, schema, _ in found.values()] == [1_000_000, 100_000] and "left out" in told


def test_times_of_a_file_give_its_rate_and_holes(tmp_path: Path) -> None:
    h5py: Any = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["time"], file["u"], file["v"] = np.array([0, 0.01, 0.02, 0.05]), np.arange(4.0), np.arange(4.0) * 2
    found, _ = published(tmp_path / "a.h5", "--columns", "v")
    samples, schema, _ = found["lab/file"]
    assert {index: value.tolist() for index, (value, _) in samples.items()} == {0: [0], 1: [2], 2: [4], 5: [6]}
    assert schema.rate == 100_000 and [it.name for it in schema.channels] == ["v"]


def test_a_file_that_ends_early_is_an_error_of_the_command(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    (tmp_path / "a.h5").write_bytes(b"no HDF5")
    told = subprocess.run([command(), "pub", "lab/a", "--file", str(tmp_path / "a.h5")], env=environment(new_bus()), capture_output=True, text=True, timeout=WATCHDOG)
    assert told.returncode == 2 and "a.h5 cannot be read" in told.stderr and "Traceback" not in told.stderr


def test_the_command_names_a_missing_package(tmp_path: Path) -> None:
    path = tmp_path / "a.tdms"
    path.write_bytes(b"TDSm")
    (tmp_path / "nptdms.py").write_text("raise ModuleNotFoundError(\"No module named 'nptdms'\", name='nptdms')\n")
    variables = environment(new_bus(), f"{tmp_path}:{PACKAGE}")
    told = subprocess.run([command(), "pub", "lab/a", "--file", str(path)], env=variables, capture_output=True, text=True, timeout=WATCHDOG)
    assert told.returncode == 2 and "npTDMS is not installed\n" in told.stderr and "pip install 'tallycast[tdms]'" in told.stderr
