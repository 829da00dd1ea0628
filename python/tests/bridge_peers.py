"""Support for the tests of the bridges: the bridge as a process, a reader, and the real peers."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tallycast as tc
from places import WATCHDOG, as_one, free_ports, until

PACKAGE = str(Path(tc.__file__).parent.parent)
_numbers = itertools.count()


def new_bus(transport: str = "shm") -> str:
    """Returns a bus without other users: within this host, or over the loopback interface."""
    if transport == "udp":
        # A reader begins with the first data it receives: a beginning is held for half a second, and it may be later.
        return f"udp://239.84.0.0:{free_ports(1)[0]}?iface=lo&start=now"
    return f"shm://bridge-{os.getpid()}-{next(_numbers)}"


class Bridge:
    """A bridge that runs, with everything it has printed."""

    def __init__(self, name: str, bus: str, *arguments: str, env: dict[str, str] | None = None) -> None:
        environment = {**os.environ, **(env or {}), "PYTHONPATH": PACKAGE, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", f"tallycast.bridges.{name}", "--bus", bus, "--json", *arguments]
        self.events: list[dict[str, Any]] = []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def of(self, event: str, **fields: Any) -> list[dict[str, Any]]:
        """Returns the events of a kind so far."""
        return [
            it
            for it in list(self.events)
            if it["event"] == event and all(it.get(key) == value for key, value in fields.items())
        ]

    def wait_for(self, event: str, count: int = 1, **fields: Any) -> dict[str, Any]:
        """Waits until an event has come so often; returns the last of them."""

        def come() -> Any:
            found = self.of(event, **fields)
            assert len(found) >= count or self.process.poll() is None, (
                f"ended with {self.process.returncode}: {self.events}"
            )
            return found[count - 1] if len(found) >= count else None

        found: dict[str, Any] = until(come, lambda: (event, fields, self.events))
        return found

    def end(self, number: int = signal.SIGINT, code: int = 0) -> dict[str, dict[str, Any]]:
        """Ends the bridge in order; returns its accounts by stream."""
        self.process.send_signal(number)
        assert self.process.wait(WATCHDOG) == code, self.events
        self._thread.join(WATCHDOG)
        accounts = {f"{it['way']} {it['peer']}": it for it in self.of("bridged")}
        assert all(it["balanced"] for it in accounts.values()), accounts
        return accounts

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Reader:
    """A reader that keeps every sample by epoch and index."""

    def __init__(self, bus: str, *patterns: str) -> None:
        #: Samples of each epoch of each stream, epochs in order of arrival: index → (value, time).
        self.samples: dict[str, list[dict[int, tuple[Any, int]]]] = {}
        self.schemas: dict[str, list[Any]] = {}
        self._epochs: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        self._subscriber = tc.Subscriber(*patterns, bus=bus)
        self._listener = self._subscriber.on_block(self._take)

    def _take(self, block: Any) -> None:
        with self._lock:
            epochs = self.samples.setdefault(block.stream, [])
            key = (block.stream, block.epoch)
            if key not in self._epochs:
                self._epochs[key] = len(epochs)
                epochs.append({})
                self.schemas.setdefault(block.stream, []).append(block.schema)
            samples = epochs[self._epochs[key]]
            for place, (value, time_ns) in enumerate(zip(np.array(block.array), np.array(block.times))):
                samples[block.first_index + place] = (value, int(time_ns))

    def samples_of(self, stream: str, number: int = -1) -> dict[int, tuple[Any, int]]:
        """Returns the samples received so far of one epoch."""
        with self._lock:
            epochs = self.samples.get(stream, [])
            return dict(epochs[number]) if -len(epochs) <= number < len(epochs) else {}

    def wait_for(self, stream: str, index: int, number: int = -1) -> None:
        """Waits for a sample."""
        until(lambda: index in self.samples_of(stream, number), lambda: (stream, index, self.samples))

    def wait_for_hole(self, stream: str, index: int) -> None:
        """Waits until a sample of a stream of one epoch is known to be missing."""
        known = lambda: [it["elements"]["next"] for it in self._subscriber.accounts() if it.stream == stream]  # noqa: E731
        until(lambda: max(known(), default=0) > index, lambda: (stream, index, known()))
        assert index not in self.samples_of(stream)

    def _has_all(self) -> bool:
        """Returns whether it has every sample delivered so far: an account may end before the last block is taken from the queue."""
        delivered: Counter[tuple[str, str]] = Counter()
        for it in self._subscriber.accounts():
            delivered[it.stream, it.epoch] += it.delivered // it["elements"]["per_sample"]
        with self._lock:
            taken = {key: len(self.samples[key[0]][number]) for key, number in self._epochs.items()}
        return all(taken.get(key, 0) >= samples for key, samples in delivered.items())

    def end(self) -> dict[str, list[Any]]:
        """Leaves; returns the account of each epoch by stream, oldest first. Each of them is closed, balanced and explained."""
        # The publisher's last data may still be in flight.
        newest = lambda: {(it.stream, it.epoch): it.state for it in self._subscriber.accounts()}  # noqa: E731
        until(lambda: set(newest().values()) <= {"closed"} and self._has_all(), self._subscriber.accounts)
        self._listener.close()
        of_epochs: dict[tuple[str, str], list[Any]] = {}
        for account in self._subscriber.close():
            of_epochs.setdefault((account.stream, account.epoch), []).append(account)
        accounts: dict[str, list[Any]] = {}
        for (stream, _), of_epoch in sorted(of_epochs.items()):
            account = as_one(of_epoch)
            assert account.explained, dict(account)
            accounts.setdefault(stream, []).append(account)
        return accounts

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._subscriber.close()


def holes(account: Any) -> list[tuple[int, int]]:
    """Returns the holes of an account as (first index, samples), gaps side by side as one; all of them are the source's."""
    assert set(account.lost) <= {"source"}, account.lost
    found: list[tuple[int, int]] = []
    for gap in account.gaps:
        if gap.kind != "missing":
            continue
        if found and sum(found[-1]) == gap.first_index:
            found[-1] = (found[-1][0], found[-1][1] + gap.samples)
        else:
            found.append((gap.first_index, gap.samples))
    return found


class Ioc:
    """A soft IOC that runs."""

    def __init__(self, env: dict[str, str], *records: dict[str, Any]) -> None:
        path = Path(__file__).with_name("peer_ioc.py")
        self.process = subprocess.Popen(
            [sys.executable, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **env},
        )
        self._tell(list(records), "ready")

    def _tell(self, what: Any, answer: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == answer

    def put(self, pv: str, value: Any, t: float, severity: int = 0) -> None:
        """Updates a record, and waits until it is done. Times are multiples of 2⁻⁸ s, which both ends hold exactly."""
        self._tell({"pv": pv, "value": value, "t": t, "severity": severity}, "done")

    def unit(self, pv: str, unit: str) -> None:
        """Changes a record's unit."""
        self._tell({"pv": pv, "unit": unit}, "done")

    def kill(self) -> None:
        """Ends it as a crash does."""
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Ioc:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


def epics_env() -> dict[str, str]:
    """Returns settings of EPICS that keep to this host and to ports of our own."""
    ca, repeater, pva, broadcast = (str(port) for port in free_ports(4))
    here = "127.0.0.1"
    return {
        "EPICS_CA_ADDR_LIST": here,
        "EPICS_CA_AUTO_ADDR_LIST": "NO",
        "EPICS_CAS_INTF_ADDR_LIST": here,
        "EPICS_CAS_BEACON_ADDR_LIST": here,
        "EPICS_CAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_CA_SERVER_PORT": ca,
        "EPICS_CA_REPEATER_PORT": repeater,
        "EPICS_PVA_ADDR_LIST": here,
        "EPICS_PVA_AUTO_ADDR_LIST": "NO",
        "EPICS_PVAS_INTF_ADDR_LIST": here,
        "EPICS_PVAS_BEACON_ADDR_LIST": here,
        "EPICS_PVAS_AUTO_BEACON_ADDR_LIST": "NO",
        "EPICS_PVA_SERVER_PORT": pva,
        "EPICS_PVAS_SERVER_PORT": pva,
        "EPICS_PVA_BROADCAST_PORT": broadcast,
        "EPICS_PVAS_BROADCAST_PORT": broadcast,
    }


class Mosquitto:
    """A broker that runs."""

    #: Accepted user and password; None: everyone.
    login: tuple[str, str] | None = None
    #: Issuer of its certificate; None: it has none.
    ca: Path | None = None

    def __init__(self, program: str, directory: Path, port: int, settings: str = "allow_anonymous true\n") -> None:
        self.port = port
        self._program = program
        self._config = directory / f"mosquitto-{port}.conf"
        self._config.write_text(f"listener {port} 127.0.0.1\npersistence false\n{settings}")
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [self._program, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until(lambda: self._answers())
        return process

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """Ends it as a crash does."""
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        """Starts it again."""
        self.process = self._start()

    def __enter__(self) -> Mosquitto:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class SecureMosquitto(Mosquitto):
    """A broker that accepts clients with a password, over TLS only."""

    def __init__(self, program: str, directory: Path, port: int) -> None:
        self._passwords = directory / "passwords"
        self.set_login("lab", "right")
        self.ca, key = certificate(directory, "broker")
        # As root it would become another user, who may not read what a test writes.
        settings = f"allow_anonymous false\npassword_file {self._passwords}\ncertfile {self.ca}\nkeyfile {key}\nuser root\n"
        super().__init__(program, directory, port, settings)

    def set_login(self, user: str, password: str) -> None:
        """Sets the accepted clients for its next start."""
        self.login = (user, password)
        subprocess.run(["mosquitto_passwd", "-b", "-c", self._passwords, user, password], check=True)


def certificate(directory: Path, name: str) -> tuple[Path, Path]:
    """Makes a self-signed certificate of 127.0.0.1; returns it and its key."""
    path, key = directory / f"{name}.pem", directory / f"{name}.key"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", key, "-out", path),
        ],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    return path, key


def arguments(option: str, values: Sequence[str]) -> list[str]:
    """Returns an option given several times."""
    return [word for value in values for word in (option, value)]
