"""Places for scenes: a bus of its own for each test, on every way that data can take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from places import WAYS, Place


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
