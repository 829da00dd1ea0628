"""Exports of `tallycast query` that Python's packages write, and times in CSV."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from archive_scene import COMMAND, INDEX, PERIOD_NS, T0_NS
from bridge_peers import PACKAGE
from places import WATCHDOG

TIMES = T0_NS + INDEX.astype(np.int64) * PERIOD_NS


def exported(root: Path, form: str, path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TALLYCAST_PYTHON": sys.executable, "PYTHONPATH": PACKAGE}
    command = [COMMAND, "query", str(root), "lab/probe-i16", "--run", "parquet", "--export", form, str(path), *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=WATCHDOG)


@pytest.mark.parametrize(("form", "package"), [("hdf5", "h5py"), ("mcap", "mcap"), ("mat", "scipy"), ("netcdf", "h5netcdf")])
def test_the_command_exports_what_the_package_writes(root: Path, tmp_path: Path, form: str, package: str) -> None:
    pytest.importorskip(package)
    path = tmp_path / f"probe.{form}"
    told = exported(root, form, path, "--json")
    assert told.returncode == 0, told.stderr
    line = json.loads(told.stdout)
    assert (line["file"], line["samples"], [hole["samples"] for hole in line["holes"]]) == (str(path), 90, [10])
    assert path.stat().st_size > 1_000
    again = exported(root, form, path)
    assert again.returncode == 2 and "already exists" in again.stderr
    assert exported(root, form, path, "--force", "--to", "+90ms").stderr.splitlines()[-1] == f"{path}: 30 samples, 0 missing in 0 holes"
    nothing = exported(root, form, tmp_path / "none", "--from", "+120ms", "--to", "+140ms")
    assert nothing.returncode == 2 and "nothing is stored in this range; 10 samples are missing" in nothing.stderr
    assert not (tmp_path / "none").exists()


def test_the_command_names_a_missing_package_of_an_export(root: Path, tmp_path: Path) -> None:
    (tmp_path / "scipy.py").write_text("raise ModuleNotFoundError(\"No module named 'scipy'\", name='scipy')\n")
    environment = {**os.environ, "TALLYCAST_PYTHON": sys.executable, "PYTHONPATH": f"{tmp_path}:{PACKAGE}"}
    command = [COMMAND, "query", str(root), "lab/probe-i16", "--run", "parquet", "--export", "mat", str(tmp_path / "a.mat")]
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=WATCHDOG)
    assert told.returncode == 2 and "pip install 'tallycast[mat]'" in told.stderr and not (tmp_path / "a.mat").exists()


def test_csv_has_times_of_iso_8601_where_asked(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "probe.csv"
    told = exported(root, "csv", path, "--times", "iso", "--to", "+9ms")
    assert told.returncode == 0, told.stderr
    lines = path.read_text().splitlines()
    assert lines[0].startswith("index,time,current [A],image[0] [V]")
    assert [line.split(",")[1] for line in lines[1:]] == [f"{np.datetime64(int(time), 'ns')}Z" for time in TIMES[:3]]
    refused = exported(root, "parquet", tmp_path / "a.parquet", "--times", "iso")
    assert refused.returncode == 2 and "--times has no effect on parquet" in refused.stderr
