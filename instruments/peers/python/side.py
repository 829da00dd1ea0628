"""A process that sends, or one that reads; started by `run.py`, which exchanges lines with it.

    python side.py sender|reader FOLDER CASE

Says `ready`; a sender goes at `go`, tells what it did, and ends the stream at `finish`; a reader tells what it was given.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import numpy as np
import numpy.typing as npt

from case import Case
from place import PATIENCE, Place, Progress
from systems import module_of

# Interval of retries while the sender has no reader. Units: seconds.
PRIMER_INTERVAL = 0.01
# Pause after all of those samples have arrived. Units: seconds.
PRIMER_QUIET = 0.1
# Bytes sent between two readings of the clock.
BYTES_PER_CLOCK = 1 << 18
MAX_SENDS_PER_CLOCK = 256
# Messages at the beginning that are not measured.
WARM_UP_MESSAGES = 100


def tell(said: Any) -> None:
    """Sends a message to the parent process."""
    print(json.dumps(said), flush=True)


def hear(expected: str) -> None:
    """Waits for a line."""
    word = sys.stdin.readline().strip()
    if word != expected:
        raise RuntimeError(f"`{expected}` was expected, not `{word}`")


def stand(end: int) -> None:
    """Pins this thread to the first or the last processor, away from the other side; other threads are free.

    Only for delays: what is to go fast goes where the system puts it.
    """
    if len(processors := sorted(os.sched_getaffinity(0))) > 1:
        os.sched_setaffinity(0, {processors[end]})


class Meter:
    """Counts delivered blocks, and sums them if requested."""

    def __init__(self, case: Case, progress: Progress) -> None:
        self._words, self._is_summed = progress.words, case.is_summed
        self.samples, self.blocks, self.sum, self.last = 0, 0, 0, 0.0

    def take(self, array: npt.NDArray[Any], position: int) -> None:
        """Counts a block."""
        self.blocks += 1
        self.samples += len(array)
        if self._is_summed:
            self.sum += int(np.add.reduce(array.ravel().view(np.uint64)))
        self.last = time.perf_counter()
        self._words[0] = position
        self._words[1] = self.samples


class DelayMeter:
    """Records the delay of each message: from before it is sent until its array is available."""

    def __init__(self, case: Case, progress: Progress) -> None:
        self._words, self._elements = progress.words, case.message_bytes // 8
        self.delays_ns: list[int] = []

    def take(self, array: npt.NDArray[Any], position: int) -> None:
        """Records messages; several if they arrived in one block."""
        now = time.perf_counter_ns()
        stamps = array.reshape(-1, self._elements)[:, 0]
        self.delays_ns.extend(now - int(stamp) for stamp in stamps)
        self._words[0] = position
        self._words[1] = len(self.delays_ns)


def send(case: Case, place: Place) -> None:
    """Sends for the duration of the case."""
    progress = Progress(place)
    sender = module_of(case.system).Sender(case, place, progress)
    tell("ready")
    hear("go")
    block = np.zeros(case.message_bytes // 8, np.uint64)[np.newaxis] if case.message_bytes else case.block()
    _prime(sender, block, progress)
    if case.message_bytes:
        stand(0)
        _send_messages(sender, block, case)
        tell({"sent": sender.sent})
    else:
        tell(_send_blocks(sender, block, case, progress) | {"sent": sender.sent})
    hear("finish")
    sender.finish()
    hear("close")
    sender.close()


def _prime(sender: Any, block: npt.NDArray[Any], progress: Progress) -> None:
    """Sends at intervals until the reader receives, and has received everything sent so far."""
    deadline = time.monotonic() + PATIENCE
    while not progress.words[0]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the reader has heard nothing for {PATIENCE} s")
        sender.send(block)
        time.sleep(PRIMER_INTERVAL)
    time.sleep(PRIMER_QUIET)


def _send_blocks(sender: Any, block: npt.NDArray[Any], case: Case, progress: Progress) -> dict[str, Any]:
    sends = range(max(1, min(MAX_SENDS_PER_CLOCK, BYTES_PER_CLOCK // case.block_bytes)))
    send_one, delivered = sender.send, progress.words[1]
    begun = time.perf_counter()
    end = begun + case.seconds
    while time.perf_counter() < end:
        for _ in sends:
            send_one(block)
    return {"begun": begun, "delivered_before": delivered}


def _send_messages(sender: Any, block: npt.NDArray[np.uint64], case: Case) -> None:
    due = time.perf_counter_ns()
    for _ in range(case.messages + WARM_UP_MESSAGES):
        due += case.interval_ns
        while time.perf_counter_ns() < due:
            pass
        block[0, 0] = time.perf_counter_ns()
        sender.send(block)


def read(case: Case, place: Place) -> None:
    """Reads until the stream ends."""
    progress = Progress(place)
    reader = module_of(case.system).Reader(case, place)
    tell("ready")
    if case.message_bytes:
        stand(-1)
        delays = DelayMeter(case, progress)
        account = reader.read(delays.take)
        account.check()
        # Messages before both sides were ready do not count.
        measured = delays.delays_ns[-case.messages :]
        p50, p99 = np.percentile(measured, [50, 99]) / 1e3
        tell({"p50": p50, "p99": p99, "lost": account.lost, "account": vars(account)})
        return
    meter = Meter(case, progress)
    account = reader.read(meter.take)
    account.check()
    if account.delivered != meter.samples:
        raise ArithmeticError(f"{meter.samples} samples were taken of {account.delivered} delivered")
    if case.is_summed and meter.sum % 2**64 != case.sum_of_words() * (meter.samples // case.samples) % 2**64:
        raise ArithmeticError("the sum of what came is not that of what was sent")
    figures = {"samples": meter.samples, "blocks": meter.blocks, "last": meter.last, "lost": account.lost}
    tell(figures | {"account": vars(account)})


if __name__ == "__main__":
    role, folder, text = sys.argv[1:]
    {"sender": send, "reader": read}[role](Case.of_text(text), Place(folder))
