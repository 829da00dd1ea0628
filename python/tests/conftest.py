"""Places for scenes: a bus of its own for each test, on every way that data can take; and the archive of known content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import tallycast as tc
from archive_scene import sample_archive
from places import WAYS, Place
from tallycast.archive import Archive


@pytest.fixture
def shm() -> Iterator[Place]:
    """A bus within this host."""
    yield from Place.made("shm")


@pytest.fixture
def udp() -> Iterator[Place]:
    """A bus over the loopback interface."""
    yield from Place.made("udp")


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A bus on each way in turn: shared memory, multicast, and multicast through an agent."""
    yield from Place.made(request.param)


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the archive of known content."""
    return sample_archive(tmp_path_factory)


@pytest.fixture(params=["arrow", "parquet"])
def archive(root: Path, request: pytest.FixtureRequest) -> Archive:
    """It as it was recorded, and as it was compacted."""
    return tc.open_archive(root, run=request.param)


@pytest.fixture(scope="session")
def compacted(root: Path) -> Archive:
    """It as it was compacted."""
    return tc.open_archive(root, run="parquet")
