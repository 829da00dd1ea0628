"""Operators as nodes of a graph, under the real monitor: what goes wrong in one changes no account beside it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from operator_scene import RATE, Feed, Monitor, Reader, balanced, folder_with, is_gone
from places import until

#: Memory that the operator may have which takes ever more.
MEMORY = "256MiB"
#: A ring that holds all samples of this test: who is late in reading loses nothing.
LARGE_BYTES = 1 << 24
#: A ring that goes round in a second.
SMALL_BYTES = 1 << 14
#: What is computed beside the bad operators, and without them.
GOOD = ("twice", "sum", "slow", "copy")

OPERATORS = """
import os
import numpy as np
import tallycast as tc

kept = []

@tc.operator
def twice(chunk):
    return chunk.array * np.float32(2)

@tc.operator
def of_first(chunk):
    return chunk.array if chunk.stream == "lab/small" else None

@tc.operator
def fails(chunk):
    if chunk.next_index > 100:
        raise ValueError("no filter for that")
    return chunk.array

@tc.operator
def leaves(chunk):
    os._exit(7)

@tc.operator
def eats(chunk):
    kept.append(np.ones(1 << 24, "u1"))
    return chunk.array
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_with(OPERATORS) as made:
        yield made


def good(prefix: str) -> str:
    """Returns the nodes that read ``lab/probe`` and are in order, as tables of the settings."""
    python = node(f"{prefix}/twice", "twice", ["lab/probe"])
    inputs = "inputs = { a = 'lab/probe:index', b = 'lab/probe:one' }"
    return python + "".join(
        f"[[monitor.node]]\nname = '{prefix}/{name}'\n{settings}\n"
        for name, settings in (
            ("sum", f"kind = 'derive'\nexpression = 'a + b'\n{inputs}"),
            ("slow", "kind = 'thin'\ninput = 'lab/probe'\nevery = 100"),
            ("copy", "kind = 'publish'\ninput = 'lab/probe'"),
        )
    )


def node(name: str, function: str, inputs: list[str], more: str = "") -> str:
    return (
        f"[[monitor.node]]\nname = '{name}'\nkind = 'operator'\npython = 'my_ops.py:{function}'\n"
        f"inputs = {json.dumps(inputs)}\n{more}\n"
    )


def samples(reader: Reader, stream: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Returns the times and values of all samples of a stream."""
    blocks = reader.of(stream)
    return np.concatenate([it.times for it in blocks]), np.concatenate([it.array for it in blocks])


def test_an_operator_that_is_frozen_crashes_or_eats_memory_changes_no_account_and_no_sample_of_another(folder: Path) -> None:
    bus = f"shm://nodes?dir={folder}"
    bad = {
        "frozen": node("bad/frozen", "of_first", ["lab/small", "lab/probe"]),
        "fails": node("bad/fails", "fails", ["lab/probe"]),
        "leaves": node("bad/leaves", "leaves", ["lab/probe"]),
        "eats": node("bad/eats", "eats", ["lab/probe"], f"memory = '{MEMORY}'"),
    }
    reader = Reader(bus, "lab/probe", "good/*", "bad/frozen", "alone/*")
    beside = Monitor(folder, bus, good("good") + "".join(bad.values()), "beside")
    alone = Monitor(folder, bus, good("alone"), "alone")
    feeds: list[Feed] = []
    accounts: list[Any] = []
    try:
        # All of them wait for the first sample, so that all begin with it.
        for monitor, names in ((beside, ["good/twice", *(f"bad/{name}" for name in bad)]), (alone, ["alone/twice"])):
            for name in names:
                until(lambda: monitor.made(name)["state"] == "running", f"{name} to run")  # noqa: B023
        feeds += [Feed(bus, queue_bytes=LARGE_BYTES), Feed(bus, "lab/small", queue_bytes=SMALL_BYTES)]
        for name, end in (
            ("fails", "exit status: 1: ValueError: no filter for that"),
            ("leaves", "exit status: 7"),
            ("eats", "MemoryError"),
        ):
            made = until(lambda: (it := beside.made(f"bad/{name}"))["starts"] > 1 and it or None, f"the end of {name}")  # noqa: B023
            assert end in made["last_end"], made

        frozen = until(lambda: (it := beside.made("bad/frozen"))["offered_samples"] > 0 and it or None, "results")
        os.kill(frozen["pid"], signal.SIGSTOP)
        until(lambda: beside.made("bad/frozen")["state"] == "silent", "silence")
        at, of_small = feeds[0].publisher.next_index, feeds[1].publisher.next_index
        until(lambda: feeds[1].publisher.next_index > of_small + SMALL_BYTES // 8, "a round of its input's ring")
        until(lambda: beside.made("good/twice")["offered_samples"] > at + RATE, "what is computed beside it to go on")
        of_nodes = {it["name"]: it for it in json.loads(beside.get("/api/graph"))["nodes"]}
        assert of_nodes["bad/frozen"]["process"]["state"] == "silent" and of_nodes["good/twice"]["process"]["state"] == "running"
        os.kill(frozen["pid"], signal.SIGCONT)
        lost = until(lambda: beside.made("bad/frozen")["lost_elements"], "its loss")
        assert lost.keys() == {"reader_lag"}, lost
        metric = 'tallycast_monitor_operator_elements_lost_total{operator="bad/frozen",stage="reader_lag"} '
        assert metric in beside.get("/metrics")
        gaps = until(lambda: json.loads(beside.get("/api/gaps?stream=bad/frozen")), "the hole in its results")
        assert {stage for it in gaps for stage in it["lost"]} == {"source"}, gaps

        # It is stopped until the monitor ends, which does not wait for it.
        os.kill(frozen["pid"], signal.SIGSTOP)
        totals = [feed.close() for feed in feeds]

        def wait_for_ends(*names: str) -> None:
            for name in names:
                until(lambda: [it["state"] for it in reader.accounts(name)] == ["closed"], f"the end of {name}")

        # An operator ends with its input, and the other nodes with their monitor.
        wait_for_ends("good/twice", "alone/twice")
        ended = {"good": beside.end(), "alone": alone.end()}
        until(lambda: is_gone(frozen["pid"]), "its end")
        wait_for_ends(*(f"{prefix}/{name}" for prefix in ("good", "alone") for name in GOOD))
        until(lambda: reader.accounts("bad/frozen")[-1]["state"] == "unconfirmed", "the end of what was frozen")
    finally:
        for feed in feeds:
            feed.close()
        for monitor in (beside, alone):
            monitor.close()
        accounts = reader.close()

    published = totals[0]["samples"]["offered"]
    times, values = samples(reader, "lab/probe")
    assert len(values) == published and np.array_equal(values[:, 0], np.arange(published) % 1000)
    for name in GOOD:
        (here,), (there,) = (balanced(accounts, f"{prefix}/{name}") for prefix in ("good", "alone"))
        assert here["elements"] == there["elements"] and not here["elements"]["lost"], (here, there)
        (here_at, here_values), (there_at, there_values) = (samples(reader, f"{prefix}/{name}") for prefix in ("good", "alone"))
        assert np.array_equal(here_at, there_at) and np.array_equal(here_values, there_values), name
        assert len(here_values) == (-(-published // 100) if name == "slow" else published)
    assert np.array_equal(samples(reader, "good/twice")[1], 2 * values)
    # What the monitor read and made closes beside them, too.
    for name in ("lab/probe", "good/sum", "good/slow", "good/copy"):
        (account,) = balanced(ended["good"], name)
        assert account["state"] == "closed" and not account["elements"]["lost"], account
    # What it lost is named: its own output ends without a final tally, and its holes are of stage `source`.
    of_frozen = balanced(accounts, "bad/frozen")
    assert of_frozen[-1]["state"] == "unconfirmed" and {stage for it in of_frozen for stage in it["elements"]["lost"]} == {"source"}
