"""Operators in separate processes, under the real monitor: results, holes, death, lag, and the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from operator_scene import RATE, Feed, Monitor, Reader, balanced, folder_with, is_gone
from places import WATCHDOG, Place, as_one, until
from tallycast._operating import Operating
from tallycast._operator import load

OPERATORS = """
import os, time
import numpy as np
import tallycast as tc

@tc.operator(every=100, channels={"rms": "V"}, dtype="f4")
def rms(chunk):
    return np.sqrt(np.square(chunk.windows, dtype="f8").mean(axis=(1, 2)))

@tc.operator
class Scaled:
    def __init__(self, factor=1):
        self.factor = factor

    def __call__(self, chunk):
        print("not for the monitor")
        return chunk.array * np.float32(self.factor)

@tc.operator
def odd(chunk):
    whole = np.arange(chunk.first_index, chunk.next_index) % 2 == 1
    return np.ma.masked_array(chunk.array, np.repeat(~whole[:, None], chunk.array.shape[1], axis=1))

@tc.operator
def slow(chunk, gate):
    while not os.path.exists(gate):
        time.sleep(0.01)
    return chunk.array

@tc.operator
def fails(chunk):
    if chunk.next_index > 100:
        raise ValueError("no filter for that")
    return chunk.array
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_with(OPERATORS) as made:
        yield made


@pytest.fixture
def bus(folder: Path) -> str:
    return f"shm://operators?dir={folder}"


@pytest.fixture
def monitors(folder: Path, bus: str) -> Iterator[Callable[[str], Monitor]]:
    started: list[Monitor] = []

    def start(operators: str) -> Monitor:
        started.append(Monitor(folder, bus, operators))
        return started[-1]

    yield start
    for monitor in started:
        monitor.close()


def operator(name: str, function: str, more: str = "") -> str:
    return (
        f"[[monitor.operator]]\nname = '{name}'\npython = 'my_ops.py:{function}'\n"
        f"inputs = ['lab/probe']\noutput = 'made/{name}'\n{more}\n"
    )


def test_results_stand_at_their_windows_and_every_account_closes(
    bus: str, monitors: Callable[[str], Monitor]
) -> None:
    feed, reader = Feed(bus), Reader(bus, "lab/probe", "made/*")
    monitor = monitors(operator("rms", "rms") + operator("twice", "Scaled", "settings = { factor = 2 }"))
    until(lambda: len(reader.of("made/rms")) > 5 and len(reader.of("made/twice")) > 5, "results")
    feed.skip(250)
    at = feed.publisher.next_index
    until(lambda: monitor.made("made/rms")["source_samples"] > 0 or None, "results behind the gap")
    until(lambda: feed.publisher.next_index > at + 1_000 or None, "samples behind it")
    streams = until(lambda: (it := monitor.streams()).keys() >= {"made/rms", "made/twice"} and it or None, "the streams that are made")
    assert streams["made/rms"]["derived"] and streams["made/rms"]["labels"]["operator"] == "my_ops.py:rms"
    assert streams["made/rms"]["rate"] == {"numerator": RATE // 100, "denominator": 1}
    gaps = until(lambda: [it for it in json.loads(monitor.get("/api/gaps?stream=made/twice")) if it.get("inherited")], "the gap")
    assert gaps[-1]["inherited"][0] == {"stream": "lab/probe", "lost": {"source": 500}, "unexplained": 0, "unsettled": 0}
    feed.close()
    # Both end with their input, and by themselves.
    until(lambda: all(
        [it["state"] for it in reader.accounts(f"made/{name}")] == ["closed"] for name in ("rms", "twice")
    ), "the ends")
    accounts = reader.close()
    (probe,), (twice,), (rms,) = (balanced(accounts, name) for name in ("lab/probe", "made/twice", "made/rms"))
    # An operator that was delayed by a second is behind, and reports that once.
    until(lambda: (it := monitor.made("made/twice"))["state"] == "running" and it["error"] is None, "it to keep up")
    assert monitor.made("made/twice")["starts"] == 1
    assert twice["elements"]["lost"] == {"source": 500} and rms["elements"]["lost"]["source"] in (3, 4)

    # Index by index: the time of a result is that of its first sample.
    samples: dict[int, list[float]] = {}
    for block in reader.of("lab/probe"):
        samples.update(zip(block.times.tolist(), block.array.tolist()))
    doubled = 0
    for block in reader.of("made/twice"):
        for time_ns, row in zip(block.times.tolist(), block.array.tolist()):
            if time_ns in samples:
                assert row == [2 * value for value in samples[time_ns]]
                doubled += 1
    assert doubled > 500
    ordered = sorted(samples)
    compared = 0
    for block in reader.of("made/rms"):
        for time_ns, (value,) in zip(block.times.tolist(), block.array.tolist()):
            if time_ns not in samples:
                continue
            first = ordered.index(time_ns)
            window = np.array([samples[it] for it in ordered[first : first + 100]])
            assert window.shape == (100, 2) and np.isclose(value, np.sqrt((window**2).mean()), rtol=1e-5)
            compared += 1
    assert compared > 5
    ended = monitor.end()
    assert {account["stream"] for account in ended} >= {"lab/probe", "made/rms", "made/twice"}
    assert "not for the monitor" not in "".join(map(json.dumps, ended))


def test_masked_results_are_holes(bus: str, monitors: Callable[[str], Monitor]) -> None:
    feed, reader = Feed(bus), Reader(bus, "made/*")
    monitors(operator("odd", "odd"))
    until(lambda: sum(len(block.array) for block in reader.of("made/odd")) > 50, "results")
    feed.close()
    until(lambda: [it["state"] for it in reader.accounts("made/odd")] == ["closed"], "the end")
    (account,) = balanced(reader.close(), "made/odd")
    elements = account["elements"]
    # Two channels; a reader that came later may have one more of those with an odd number, or one less.
    first, samples = elements["first"], (elements["lost"]["source"] + elements["delivered"]) // 2
    assert elements["delivered"] == 2 * ((first + samples) // 2 - first // 2), "every other one"
    values = np.concatenate([block.array[:, 0] for block in reader.of("made/odd")])
    assert np.all(values % 2 == 1)


def test_an_operator_that_is_killed_is_told_of_once_and_started_again_and_the_others_go_on(
    bus: str, monitors: Callable[[str], Monitor]
) -> None:
    feed, reader = Feed(bus), Reader(bus, "made/*")
    monitor = monitors(
        operator("rms", "rms")
        + operator("twice", "Scaled", "settings = { factor = 2 }")
        + "[[monitor.derive]]\nname = 'made/sum'\nexpression = 'a + b'\n"
        + "inputs = { a = 'lab/probe:index', b = 'lab/probe:one' }\n"
    )
    before = until(lambda: (it := monitor.made("made/rms"))["offered_samples"] > 0 and it or None, "results")
    sums = until(lambda: (it := monitor.made("made/sum"))["offered_samples"] > 0 and it or None, "sums")
    twice = until(lambda: (it := monitor.made("made/twice"))["offered_samples"] > 0 and it or None, "doubles")
    os.kill(before["pid"], signal.SIGKILL)
    after = until(
        lambda: (it := monitor.made("made/rms"))["starts"] == 2
        and it["state"] == "running"
        and it["offered_samples"] > before["offered_samples"]
        and it
        or None,
        "another start",
    )
    assert after["last_end"] == f"its process {before['pid']} ended with signal: 9 (SIGKILL)" and after["error"] is None
    assert after["pid"] != before["pid"] and is_gone(before["pid"])
    assert len(monitor.said("the operator `rms`", "SIGKILL")) == 1, monitor.said()
    assert monitor.said("everything else continues")
    until(lambda: monitor.made("made/sum")["offered_samples"] > sums["offered_samples"] + RATE or None, "sums behind it")
    until(lambda: monitor.made("made/twice")["offered_samples"] > twice["offered_samples"], "doubles behind it")
    assert monitor.made("made/twice")["starts"] == 1
    assert 'tallycast_monitor_operator_starts_total{operator="rms"} 2' in monitor.get("/metrics")
    feed.close()
    until(lambda: [it["state"] for it in reader.accounts("made/twice")] == ["closed"], "the ends")
    until(lambda: sorted(it["state"] for it in reader.accounts("made/rms")) == ["closed", "unconfirmed"], "both epochs' ends")
    accounts = reader.close()
    assert len(balanced(accounts, "made/rms")) == 2, "each start has its own epoch"
    (account,) = balanced(accounts, "made/twice")
    assert account["state"] == "closed" and account["explained"]
    ended = monitor.end()
    balanced(ended, "made/sum")
    balanced(ended, "made/twice")


def test_an_operator_that_does_not_keep_up_loses_by_itself_alone(
    bus: str, folder: Path, monitors: Callable[[str], Monitor]
) -> None:
    # Some seconds of the feed: an operator that stalls for longer is lapped, and no other.
    ring_bytes = 1 << 17
    feed, gate = Feed(bus, queue_bytes=ring_bytes), folder / "gate"
    monitor = monitors(operator("slow", "slow", f"settings = {{ gate = '{gate}' }}") + operator("rms", "rms"))

    def overtaken(by: int) -> dict[str, Any]:
        """Waits until the ring has wrapped around while `slow` stalls, and until it has lost more than this."""
        at = feed.publisher.next_index
        until(lambda: feed.publisher.next_index > at + ring_bytes // 8, "a round of the ring")
        gate.touch()
        return until(lambda: (it := monitor.made("made/slow"))["lost_elements"].get("reader_lag", 0) > by and it or None, "loss")

    lagging = until(lambda: (it := monitor.made("made/slow"))["state"] == "lagging" and it or None, "lag")
    assert "it does not keep up" in lagging["error"]
    lost = overtaken(by=0)
    assert lost["unexplained_elements"] == 0
    metrics = monitor.get("/metrics")
    assert 'tallycast_monitor_operator_elements_lost_total{operator="slow",stage="reader_lag"}' in metrics
    gate.unlink()
    overtaken(by=lost["lost_elements"]["reader_lag"])
    other = until(lambda: (it := monitor.made("made/rms"))["state"] == "running" and it or None, "the other to keep up")
    assert other["starts"] == 1 and other["lost_elements"].get("reader_lag", 0) == 0
    assert len(monitor.said("the operator `slow`", "does not keep up")) == 1, monitor.said()
    feed.close()
    # The sums are those of an account that closes: everything since it joined reached it or was lost at a stage.
    slow = until(lambda: (it := monitor.made("made/slow"))["behind_ns"] == 0 and it or None, "the last sums")
    assert slow["source_samples"] >= slow["lost_elements"]["reader_lag"] // 2, "what it lost is a hole of what it makes"
    balanced(monitor.end(), "lab/probe")


def test_an_exception_is_told_with_its_words(bus: str, monitors: Callable[[str], Monitor]) -> None:
    feed = Feed(bus)
    monitor = monitors(operator("fails", "fails") + operator("nothing", "nothing"))
    failed = until(lambda: (it := monitor.made("made/fails"))["starts"] > 1 and it or None, "failure")
    assert failed["last_end"].endswith("ended with exit status: 1: ValueError: no filter for that")
    nothing = until(lambda: (it := monitor.made("made/nothing"))["starts"] > 1 and it or None, "refusal")
    assert nothing["last_end"].endswith("name a function or class that it contains"), nothing
    feed.close()


def test_no_operator_outlives_a_monitor_that_is_killed(bus: str, monitors: Callable[[str], Monitor]) -> None:
    feed, reader = Feed(bus), Reader(bus, "made/*")
    monitor = monitors(operator("rms", "rms"))
    pid = until(lambda: (it := monitor.made("made/rms"))["offered_samples"] > 0 and it["pid"], "results")
    monitor.process.kill()
    monitor.process.wait()
    until(lambda: is_gone(pid), "its end")
    until(lambda: [it["state"] for it in reader.accounts("made/rms")] == ["closed"], "its final tally")
    balanced(reader.close(), "made/rms")
    feed.close()


def test_by_hand_an_operator_prints_its_accounts_at_ctrl_c(folder: Path, bus: str) -> None:
    feed, reader = Feed(bus), Reader(bus, "made/*")
    command = [sys.executable, "-m", "tallycast.run_operator", str(folder / "my_ops.py:rms")]
    command += ["--input", "lab/probe", "--output", "made/rms", "--bus", bus]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: reader.of("made/rms"), "results")
        process.send_signal(signal.SIGINT)
        told, _ = process.communicate(timeout=WATCHDOG)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    (account,) = balanced([json.loads(line) for line in told.splitlines()], "lab/probe")
    assert account["reader"] == "operator/rms"
    until(lambda: [it["state"] for it in reader.accounts("made/rms")] == ["closed"], "its end")
    feed.close()
    reader.close()


def test_an_input_that_falls_silent_and_comes_back_is_made_of_once_more_and_its_sums_go_on(folder: Path, udp: Place) -> None:
    program = (
        "import sys, numpy as np, tallycast as tc\n"
        "pub = tc.Publisher('lab/probe', rate=2_000, dtype='f4', bus=sys.argv[1])\n"
        "print('open', flush=True)\n"
        "while True:\n"
        "    pub.send_when_due(np.ones(40, 'f4'))\n"
    )
    loaded = load(f"{folder / 'my_ops.py'}:rms", {})
    operating = Operating(
        loaded, loaded.declaration, name="rms", place="my_ops.py:rms", inputs=["lab/probe"], output="made/rms",
        bus=udp.readers, station=None,
    )  # fmt: skip
    arguments = [sys.executable, "-c", program, udp.publishers]
    epochs = set()

    def turned(condition: Callable[[], bool]) -> bool:
        operating.turn()
        if operating._making is not None:
            epochs.add(operating._making.publisher.epoch)
        return condition()

    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as publisher:
        try:
            until(lambda: turned(lambda: operating.sums.offered_samples > 0), "results")
            publisher.send_signal(signal.SIGSTOP)
            until(lambda: turned(lambda: operating._making is None), "the end of what it makes")
            publisher.send_signal(signal.SIGCONT)
            # Its accounts are read several times meanwhile: the one that has ended stays among them.
            at = operating.sums.delivered_elements
            until(lambda: turned(lambda: operating.sums.delivered_elements > at + 3 * RATE), "three seconds more")
        finally:
            publisher.kill()
    accounts = operating.close()
    assert len(accounts) > 1 and as_one(accounts).delivered == operating.sums.delivered_elements
    assert 1 < len(epochs) <= len(accounts)
