"""Archives for the tests: one of known content, and what the real command records."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from places import ROOT, WATCHDOG, command, free_ports

COMMAND = command()
#: Maximum time a publisher holds its first sample until there is a reader.
WAIT = ("--wait", f"{WATCHDOG:.0f}s")
SAMPLE_ARCHIVE = ROOT / "target/debug/examples/sample_archive"

# Content written by `crates/app/archive/examples/sample_archive.rs`: every element's bits are its position times a constant; samples 40
# to 50 are lost on purpose, and the last two elements of sample 73 never arrived.
DTYPES = {
    "i8": "<i1", "i16": "<i2", "i32": "<i4", "i64": "<i8", "u8": "<u1", "u16": "<u2", "u32": "<u4", "u64": "<u8",
    "f4": "<f4", "f8": "<f8", "c8": "<c8", "c16": "<c16", "bool": "?",
}  # fmt: skip
T0_NS = 1_763_756_051_123_456_789
PERIOD_NS = 3_000_000
PER_SAMPLE = 7
INDEX = np.array([index for index in range(100) if not 40 <= index < 50], dtype=np.uint64)
PARTIAL_ROW = int(np.flatnonzero(INDEX == 73)[0])


def sample_archive(factory: pytest.TempPathFactory) -> Path:
    """Returns the archive of known content, made once: run `arrow` as recorded and run `parquet` compacted."""
    folder = factory.getbasetemp() / "sample-archive"
    if not folder.exists():
        assert SAMPLE_ARCHIVE.exists(), "make it: cargo build -p tallycast-archive --example sample_archive"
        subprocess.run([SAMPLE_ARCHIVE, folder], check=True)
    return folder


def sample_elements(dtype: str) -> npt.NDArray[Any]:
    """Returns the elements that were stored, `[rows, 7]`; those that never arrived are 0."""
    positions = (INDEX[:, np.newaxis] * np.uint64(PER_SAMPLE) + np.arange(PER_SAMPLE, dtype=np.uint64)).reshape(-1)
    bits = positions * np.uint64(2_654_435_761)
    kind = np.dtype(DTYPES[dtype])
    raw = np.stack([bits, bits], axis=1).view(np.uint8)[:, : kind.itemsize]
    if dtype == "bool":
        raw = raw & np.uint8(1)
    elements = np.ascontiguousarray(raw).view(kind).reshape(len(INDEX), PER_SAMPLE)
    elements[PARTIAL_ROW, 5:] = 0
    return elements


def bits(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Returns an array's bytes: NaN is equal to itself there."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def query(root: Path, *words: str) -> list[dict[str, Any]]:
    """Asks the command line, which prints an object a line."""
    told = subprocess.run([COMMAND, "query", str(root), *words, "--json"], capture_output=True, text=True, check=False)
    assert told.returncode in (0, 1), told.stderr
    return [json.loads(line) for line in told.stdout.splitlines()]


def bus_of_its_own() -> str:
    """Returns a bus over the loopback interface that no other test uses."""
    return f"udp://239.84.0.0:{free_ports(1)[0]}?iface=lo"


@contextmanager
def running(*words: str, bus: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a verb of the command; it is ended in order when it is left."""
    environment = {**os.environ, "TALLYCAST_BUS": bus}
    process = subprocess.Popen([COMMAND, *words], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=WATCHDOG)


def publish(name: str, *words: str, bus: str) -> None:
    """Publishes something to its end, from when the recorder has joined: a beginning is held for no longer than half a second."""
    environment = {**os.environ, "TALLYCAST_BUS": bus}
    words = ("pub", name, *words, *WAIT)
    subprocess.run([COMMAND, *words], env=environment, check=True, timeout=2 * WATCHDOG, stderr=subprocess.DEVNULL)


@contextmanager
def recorder(root: Path, run: str, pattern: str, *, bus: str) -> Iterator[subprocess.Popen[str]]:
    """Records until it is left and every stream that was joined has ended.

    With `--until-end` the end could come while a publisher is delayed for some seconds.
    """
    with running("record", "--run", run, "--archive", str(root), pattern, "--patience", "50s", bus=bus) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("recording run"), line
        yield process


def signal_file(folder: Path, elements: npt.NDArray[Any], rate: str, channels: str) -> Path:
    """Writes an array with its description, as `pub --file` plays it."""
    path = folder / "signal.npy"
    np.save(path, elements)
    path.with_suffix(".toml").write_text(f'rate = "{rate}"\n{channels}')
    return path
