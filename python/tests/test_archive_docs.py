"""The page `docs/guide/python-archive.md`: its examples run as they are written, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from archive_scene import bus_of_its_own, publish, recorder
from places import ROOT

PAGE = ROOT / "docs/guide/python-archive.md"


def test_the_examples_of_the_page_run_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("pandas", "polars", "xarray", "pyarrow", "h5py", "h5netcdf", "scipy", "mcap", "dask"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    bus = bus_of_its_own()
    with recorder(tmp_path / "tallycast-archive", "night", "signal/ecg", bus=bus):
        publish("signal/ecg", "--signal", "ecg", "--loss", "5%", "--duration", "6s", bus=bus)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) > 5
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert {it.name for it in tmp_path.glob("ecg.*")} == {"ecg.parquet", "ecg.csv", "ecg.nxs", "ecg.nc", "ecg.mat", "ecg.mcap"}
    assert len(names["gaps"]) > 0, "a hole to be shown"
