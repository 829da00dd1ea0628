"""Common parts of the scenarios: their buses, readers that have joined, and the account that must close."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tallycast as tc

#: Longest wait of a test for something that must happen: a test that reaches it has failed, under any load. Seconds.
WATCHDOG = 120.0
#: Reaches under test: the publisher's shared memory, multicast, and multicast through an agent's shared memory.
TRANSPORTS = ("shm", "udp", "agent")
ROOT = Path(__file__).resolve().parents[2]


def free_ports(count: int) -> list[int]:
    """Returns ports that neither TCP nor UDP uses now, and that this process was not given before."""
    found = (port for port in _ports if _is_free(port))
    return list(itertools.islice(found, count))


def _ports_of_this_process() -> Iterator[int]:
    # Below those that the kernel chooses from (net.ipv4.ip_local_port_range): one of these could be taken between this check and
    # its use. Each of several processes of pytest-xdist has its own ports; other suites begin elsewhere.
    first, count = 12_000, 18_000
    workers, worker = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    ports = range(first + int(worker.removeprefix("gw")), first + count, workers)
    return (ports[number % len(ports)] for number in itertools.count(os.getpid() * 97))


_ports = _ports_of_this_process()


def _is_free(port: int) -> bool:
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        try:
            tcp.bind(("0.0.0.0", port))
            udp.bind(("0.0.0.0", port))
        except OSError:
            return False
    return True


def command() -> str:
    """Returns where the command `tallycast` is."""
    return os.environ.get("TALLYCAST_BIN", str(ROOT / "target/debug/tallycast"))


def until(condition: Callable[[], Any], what: object = "a condition") -> Any:
    """Looks at a condition until it holds; returns what it returned. ``what`` may be a function that tells what there was instead."""
    deadline = time.monotonic() + WATCHDOG
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still waiting for {what() if callable(what) else what} after {WATCHDOG} s"
        time.sleep(0.005)
    return found


class Place:
    """A bus of one test on which data take one way."""

    def __init__(self, transport: str) -> None:
        self.transport = transport
        # An unused port distinguishes buses, on the network and in the names of rings.
        (port,) = free_ports(1)
        network = f"udp://239.84.0.0:{port}?iface=lo"
        within = f"shm://python-{port}-{os.getpid()}?access=owner"
        shared = f"{network}&shm=on&access=owner"
        self.publishers, self.readers = {
            "shm": (within, within), "udp": (network, network), "agent": (network, shared),
        }[transport]  # fmt: skip
        self._agent: subprocess.Popen[bytes] | None = None

    @classmethod
    def made(cls, transport: str) -> Iterator[Place]:
        """A place for a fixture, cleared in the end."""
        place = cls(transport)
        try:
            if transport == "agent":
                place._agent = subprocess.Popen(
                    [command(), "agent", "--bus", place.readers], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            yield place
        finally:
            if place._agent is not None:
                place._agent.terminate()
                place._agent.wait()

    def publisher(self, name: str, *arguments: Any, **options: Any) -> tc.Publisher:
        """Opens a publisher here; it waits for room, so that only what a scene loses on purpose is lost."""
        return tc.Publisher(name, *arguments, **{"on_full": "block", "bus": self.publishers, **options})

    def joined(self, name: str, **options: Any) -> tc.Subscriber:
        """Opens a reader of one stream that is there, and waits until it has joined."""
        if self.transport == "agent":
            by_agent = lambda: [s for s in tc.streams(0.0, self.readers) if (s.name, s.reach) == (name, "shm")]  # noqa: E731
            # A reader would receive for itself what the agent has not joined yet.
            until(by_agent, f"the agent receives {name}")
        subscriber = tc.Subscriber(name, **{"timeout": WATCHDOG, "bus": self.readers, **options})
        wait_until_joined(subscriber)
        return subscriber


def wait_until_joined(subscriber: tc.Subscriber, streams: int = 1) -> None:
    """Waits until this number of streams is read; nothing may have been published before."""

    def has_joined() -> bool:
        assert subscriber.read(0.01) is None, "published before all readers had joined"
        return len({account.stream for account in subscriber.accounts()}) >= streams

    until(has_joined, "joined")


def joined_elements(blocks: list[tc.Block]) -> npt.NDArray[Any]:
    """Returns all samples of blocks as one array."""
    return np.concatenate([block.array for block in blocks])


def as_one(accounts: Sequence[tc.Account]) -> tc.Account:
    """Returns a reader's accounts of one epoch as one; each of them closes, and begins where the one before it ended.

    Mostly it is one. A publisher or a reader that is kept from its processor for a second leaves another one.
    """
    assert accounts, "no account"
    for account in accounts:
        assert account.balanced and account.closed, account
    for before, after in itertools.pairwise(accounts):
        assert (before.state, before.epoch, before["account"]) == ("unconfirmed", after.epoch, after["follows"]), accounts
        assert before["elements"]["next"] == after["elements"]["first"], accounts
    last = accounts[-1]
    sums = {name: _sum_of([it[name] for it in accounts]) for name in ("datagrams", "elements") if last[name] is not None}
    gaps = [gap for account in accounts for gap in account["gaps"]]
    return tc.Account({**last, **sums, "gaps": gaps, "explained": all(account.explained for account in accounts)})


def _sum_of(parts: list[dict[str, Any]]) -> dict[str, Any]:
    rows = [row for row in parts[-1] if row not in ("first", "next", "per_sample", "lost")]
    sums = {row: sum(part[row] for part in parts) for row in rows}
    lost = sum((Counter(part["lost"]) for part in parts), Counter[str]())
    return {**parts[-1], **sums, "first": parts[0]["first"], "lost": dict(lost)}


def check_in_order(accounts: list[tc.Account], delivered: int) -> tc.Account:
    """Checks that a reader's accounts of one epoch close, and deliver this much; returns them as one."""
    account = as_one(accounts)
    assert account.explained, account
    assert account["elements"]["unsettled"] == account["elements"]["in_flight"] == 0, account
    assert account.sent == account.delivered + sum(account.lost.values()), account
    assert account.delivered == delivered, account
    return account
