"""One run of a case: a sender and a reader, each each in its own process."""

from __future__ import annotations

import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from case import ELEMENT_BYTES, Case

# Maximum silence of a process before it counts as hung. Units: seconds.
WATCHDOG = 60.0


@dataclass(frozen=True)
class Rate:
    """Rate of the samples that arrived, and the losses."""

    samples_per_s: float
    gigabytes_per_s: float
    lost_share: float


@dataclass(frozen=True)
class Delay:
    """Delays of messages. Units: microseconds."""

    p50: float
    p99: float
    lost_share: float


class Side:
    """One of the two processes."""

    def __init__(self, role: str, folder: str, case: Case) -> None:
        script = Path(__file__).with_name("side.py")
        command = [sys.executable, str(script), role, folder, case.to_text()]
        self._role, self._case = role, case
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def hear(self) -> Any:
        """Returns its next message."""
        while True:
            try:
                line = self._lines.get(timeout=WATCHDOG)
            except queue.Empty:
                raise TimeoutError(f"the {self._role} of {self._case} says nothing") from None
            if not line:
                raise RuntimeError(f"the {self._role} of {self._case} has ended")
            try:
                return json.loads(line)
            except ValueError:
                # Libraries print to standard output, too.
                print(line, end="", file=sys.stderr)

    def tell(self, word: str) -> None:
        """Sends it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()

    def end(self) -> None:
        """Waits until it has exited successfully."""
        if self._process.wait(WATCHDOG) != 0:
            raise RuntimeError(f"the {self._role} of {self._case} failed")

    def kill(self) -> None:
        """Kills it."""
        self._process.kill()
        self._process.wait()


def measure(case: Case) -> Rate | Delay:
    """Runs a case once."""
    folder = tempfile.mkdtemp(prefix="tallycast-bench-")
    sides: list[Side] = []
    try:
        sender = Side("sender", folder, case)
        sides.append(sender)
        sender.hear()
        reader = Side("reader", folder, case)
        sides.append(reader)
        reader.hear()
        sender.tell("go")
        sent = sender.hear()
        sender.tell("finish")
        reader.tell(str(sent["sent"]))
        came = reader.hear()
        sender.tell("close")
        for side in sides:
            side.end()
    finally:
        for side in sides:
            side.kill()
        shutil.rmtree(folder, ignore_errors=True)
    account = came["account"]
    lost_share = sum(came["lost"].values()) / account["sent"]
    if case.message_bytes:
        return Delay(came["p50"], came["p99"], lost_share)
    per_second = (came["samples"] - sent["delivered_before"]) / (came["last"] - sent["begun"])
    return Rate(per_second, per_second * ELEMENT_BYTES / 1e9, lost_share)
