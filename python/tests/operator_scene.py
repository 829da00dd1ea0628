"""Operators under the real monitor: a feed, a reader, the monitor with its settings, and accounts that must close."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tallycast as tc
from places import WATCHDOG, command

RATE = 2_000


@contextlib.contextmanager
def folder_with(operators: str) -> Iterator[Path]:
    """Makes a folder in memory with these operators in ``my_ops.py``, for the monitor and its bus."""
    with tempfile.TemporaryDirectory(prefix="tc-operator-", dir="/dev/shm") as made:
        (Path(made) / "my_ops.py").write_text(operators)
        yield Path(made)


class Feed:
    """Publishes two channels, the index and one, at a rate until it is closed."""

    def __init__(self, bus: str, name: str = "lab/probe", **options: Any) -> None:
        self.publisher = tc.Publisher(
            name, channels={"index": "V", "one": "V"}, dtype="f4", rate=RATE, bus=bus, **options
        )
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(0.02):
            with self._lock:
                first = self.publisher.next_index
                indices = np.arange(first, first + RATE // 50, dtype="f4")
                self.publisher.send(np.stack([indices % 1000, np.ones_like(indices)], axis=1))

    def skip(self, samples: int) -> None:
        with self._lock:
            self.publisher.skip(samples)

    def close(self) -> Any:
        self._over.set()
        self._thread.join(WATCHDOG)
        return self.publisher.close()


class Reader:
    """Reads streams to their ends in a thread."""

    def __init__(self, bus: str, *patterns: str) -> None:
        self._sub = tc.Subscriber(*patterns, bus=bus)
        self._over = threading.Event()
        self.blocks: list[Any] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            block = self._sub.read(0.1)
            if block is not None:
                self.blocks.append(block)

    def of(self, stream: str) -> list[Any]:
        return [block for block in list(self.blocks) if block.stream == stream]

    def accounts(self, stream: str) -> list[Any]:
        return [account for account in self._sub.accounts() if account["stream"] == stream]

    def close(self) -> list[Any]:
        self._over.set()
        self._thread.join(WATCHDOG)
        return list(self._sub.close())


class Monitor:
    """The real monitor with these operators, and its output; files of several monitors have different names."""

    def __init__(self, folder: Path, bus: str, operators: str, name: str = "tallycast") -> None:
        settings = folder / f"{name}.toml"
        settings.write_text(f"[monitor]\npython = '{sys.executable}'\n{textwrap.dedent(operators)}")
        checked = subprocess.run([command(), "config", "check", str(settings)], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr
        started = [command(), "monitor", "--config", str(settings), "--bus", bus, "--listen", "127.0.0.1:0", "--json"]
        # The package under test, be it that of the checkout or an installed one.
        paths = os.pathsep.join([str(Path(tc.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        self.errors = (folder / f"{name}.stderr").open("w+")
        self.process = subprocess.Popen(
            started,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            # Threads that NumPy does not need here would take a part of the memory that an operator may have.
            env={**os.environ, "PYTHONPATH": paths, "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        assert self.process.stdout is not None
        self.address = json.loads(self.process.stdout.readline())["address"]

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=WATCHDOG) as answer:
            text: str = answer.read().decode()
            return text

    def made(self, name: str) -> dict[str, Any]:
        """Returns how the stream of that name fares."""
        found: dict[str, Any] = next(it for it in json.loads(self.get("/api/derived")) if it["name"] == name)
        return found

    def streams(self) -> dict[str, dict[str, Any]]:
        """Returns the streams that it reads, by name."""
        return {it["stream"]: it for it in json.loads(self.get("/api/streams"))["streams"]}

    def said(self, *words: str) -> list[str]:
        """Returns the lines on standard error that have all these words."""
        self.errors.flush()
        return [line for line in Path(self.errors.name).read_text().splitlines() if all(word in line for word in words)]

    def end(self) -> list[dict[str, Any]]:
        """Ends it in order; returns its accounts."""
        self.process.send_signal(signal.SIGINT)
        told, _ = self.process.communicate(timeout=WATCHDOG)
        return [json.loads(line) for line in told.splitlines()]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.errors.close()


def is_gone(pid: int) -> bool:
    """Returns whether there is no such process, or only a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def balanced(accounts: list[Any], stream: str) -> list[Any]:
    """Returns the accounts of a stream, all of which close."""
    found = [account for account in accounts if account["stream"] == stream]
    assert found, f"no account of {stream}"
    for account in found:
        elements = account["elements"]
        assert account["balanced"] and elements["unexplained"] == 0, account
        spanned = (elements["next"] - elements["first"]) * elements["per_sample"]
        assert spanned == elements["delivered"] + sum(elements["lost"].values()) + elements["unsettled"] + elements["in_flight"]
    return found
