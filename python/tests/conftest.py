"""Places for scenarios: a separate bus for each test, over every reach; and the archive of known content."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tallycast as tc
from archive_scene import sample_archive
from places import TRANSPORTS, Place
from tallycast.archive import Archive

#: Files whose tests need something slow that is made once: a recording, a notebook's run, an environment.
MADE_ONCE = ("test_archive_recorded.py", "test_notebook.py", "test_wheel.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Gives pytest-xdist, where it is used, such a file as a whole, and every other test to whichever process is free."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return file if file.endswith(MADE_ONCE) else nodeid

    return Scheduling(config, log)


@pytest.fixture
def shm() -> Iterator[Place]:
    """A bus within this host."""
    yield from Place.made("shm")


@pytest.fixture
def udp() -> Iterator[Place]:
    """A bus over the loopback interface."""
    yield from Place.made("udp")


@pytest.fixture(params=TRANSPORTS)
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
