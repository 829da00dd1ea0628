"""Typical user code, with the types that a checker must see; checked by `test_types.py`, never run."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import assert_type

import tallycast as tc


def publish(block: npt.NDArray[np.float32]) -> None:
    with tc.Publisher("lab/probe", {"current": "A", "voltage": "V"}, dtype="f4", rate=100_000) as pub:
        assert_type(pub, tc.Publisher)
        pub.send(block)
        pub.send({"current": block[:, 0], "voltage": block[:, 1]}, t0_ns=tc.now_ns())
        pub.send([[0.1, 2.0]], times=np.array([0], np.int64))
        pub.send_when_due(block)
        pub.skip(3)
        assert_type(pub.next_index, int)
        assert_type(pub.schema, tc.Schema)
        assert_type(pub.totals(), dict[str, Any])
        assert_type(pub.close(), dict[str, Any])
    tc.Publisher("lab/camera", {"image": tc.Channel("ADU", shape=(48, 64))}, np.uint16, rate="48k")
    tc.Publisher("lab/level", ["a", "b"], np.dtype([("a", "f4"), ("b", "f4")]), Fraction(1000, 3))


def read() -> None:
    with tc.Subscriber("lab/*", timeout=1.0) as sub:
        assert_type(sub, tc.Subscriber)
        for block in sub:
            assert_type(block, tc.Block)
            assert_type(block.array, npt.NDArray[Any])
            assert_type(block["current"], npt.NDArray[Any])
            assert_type(block.times, npt.NDArray[np.int64])
            assert_type(block.first_index, int)
            assert_type(block.rate, Fraction)
            assert_type(block.missing, npt.NDArray[np.bool_] | None)
            assert_type(block.gaps, list[tc.Gap])
            assert_type(block.account, tc.Account | None)
            assert_type(block.schema.channels, tuple[tc.Channel, ...])
        assert_type(sub.read(timeout=0.1), tc.Block | None)
        assert_type(sub.pull_chunk(), tuple[npt.NDArray[Any], npt.NDArray[np.float64]])
        assert_type(sub.on_block(print), tc.Listener)
        assert_type(sub.close(), list[tc.Account])


async def read_beside_others() -> None:
    async with tc.Subscriber("lab/*", timeout=1.0) as sub:
        async for block in sub:
            assert_type(block, tc.Block)


def steered() -> None:
    @tc.app("lab/rod", parameters={"gain": tc.Parameter(1.0, unit="V", range=(0, None), greatest_step=0.5), "on": False})
    def rod(cycle: tc.Cycle) -> None:
        assert_type(cycle.parameters, tc.Parameters)
        for change in cycle.changes:
            assert_type(change, tc.Change)
            change.read_back(change.before)

    rod.parameter("limits", np.zeros(4), lease="limits")
    with tc.steering("lab/loop", {"gain": 1.0}, epoch="1-0000000000000001") as steering:
        assert_type(steering, tc.Steering)
        for change in steering.step(0, tc.now_ns()):
            change.failed("no answer")
        steering.done()
        assert_type(steering.totals(), dict[str, Any])


def steer() -> None:
    with tc.steer("lab/rod") as rod:
        assert_type(rod, tc.Remote)
        rod["gain"] = 2.0
        with rod.lease("limits") as lease:
            assert_type(lease.held, bool)
            assert_type(rod.set("gain", 2.0, reason="warmer", if_revision=1, valid="500ms"), tc.Applied)
        assert_type(rod.parameters, dict[str, tc.RemoteParameter])
        for news in rod.watch(timeout=1.0):
            assert_type(news.parameter, tc.RemoteParameter | None)


def look() -> None:
    assert_type(tc.streams(), list[tc.StreamInfo])
    for account in tc.account("lab/*", duration=1.0):
        assert_type(account, tc.Account)
        assert_type(account.lost, dict[str, int])
        assert_type(account["stream"], Any)


def refused() -> None:
    tc.Publisher(1, rate=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    tc.Subscriber("a", timeout="soon")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
