"""The EPICS bridge against a soft IOC: bit by bit, and with holes exactly where they were planted."""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

for needed in ("softioc", "aioca", "p4p"):
    pytest.importorskip(needed)

import tallycast as tc
from bridge_peers import Bridge, Ioc, Reader, epics_env, holes, new_bus
from places import WATCHDOG, until
from tallycast.bridges._epics_parameters import ParameterPv
from tallycast.bridges._epics_pva import monitor
from tallycast.bridges._feed import MIN_EPOCH_NS

T0 = 1_790_000_000.0
STEP = 1 / 8
NS = 1_000_000_000
T0_NS, STEP_NS = int(T0) * NS, NS // 8
BOTH = pytest.mark.parametrize("protocol", ["ca", "pva"])


@pytest.fixture
def env() -> dict[str, str]:
    return epics_env()


class Pv:
    """A PV of the test's IOC, the stream it becomes, and every update it was given."""

    def __init__(self, pv: str, stream: str, **record: Any) -> None:
        self.pv, self.stream = pv, stream
        self.record = {"pv": pv, **record}
        #: Of the current epoch of the stream: value and time of each sample; None for a hole.
        self.truth: list[tuple[Any, int] | None] = []
        self._k = 0

    def put(self, ioc: Ioc, value: Any, *, bad: bool = False) -> None:
        self._k += 1
        t = T0 + self._k * STEP
        ioc.put(self.pv, value, t, 3 if bad else 0)
        self.truth.append(None if bad else (value, T0_NS + self._k * STEP_NS))

    def put_bad(self, ioc: Ioc, reader: Reader, value: Any) -> None:
        """Updates with a value that is no good, and waits until the reader knows of the hole; for streams of one epoch."""
        self.put(ioc, value, bad=True)
        reader.wait_for_hole(self.stream, len(self.truth) - 1)

    def put_until_read(self, ioc: Ioc, reader: Reader, value: Any) -> None:
        """Updates, and waits until the reader has the sample."""
        self.put(ioc, value)
        reader.wait_for(self.stream, len(self.truth) - 1)

    def check(self, samples: dict[int, tuple[Any, int]], account: Any) -> None:
        """Compares all delivered values with those put to the IOC, from the point where the reader joined."""
        first = account["elements"]["first"]
        expected = {index: it for index, it in enumerate(self.truth) if it is not None and index >= first}
        assert {index: (np.asarray(value).ravel().tolist(), t) for index, (value, t) in samples.items()} == {
            index: (np.atleast_1d(value).tolist(), t) for index, (value, t) in expected.items()
        }
        assert account.delivered == len(expected) * account["elements"]["per_sample"]


def begin(ioc: Ioc, bridge: Bridge, reader: Reader, pv: Pv, value: Callable[[int], Any], epochs: int = 1) -> None:
    """Waits until the bridge follows the PV and the reader the stream.

    The first sample is the value that the PV had when the bridge started; it was put before. Later values are put one by one,
    because an IOC that is faster than its clients skips updates by design.
    """
    bridge.wait_for("began", epochs, stream=pv.stream)
    pv.put(ioc, value(0))
    reader.wait_for(pv.stream, len(pv.truth) - 1, epochs - 1)


def kill(ioc: Ioc, bridge: Bridge, stream: str) -> int:
    """Kills an IOC, and waits until the bridge has seen it; returns how many outages there were before, at a slow beginning."""
    before = len(bridge.of("away", stream=stream))
    ioc.kill()
    bridge.wait_for("away", before + 1, stream=stream)
    return before


@BOTH
def test_scalars_waveforms_and_menus_arrive_bit_by_bit_with_the_iocs_own_times(
    protocol: str, env: dict[str, str]
) -> None:
    bus = new_bus()
    pvs = {
        "double": Pv("T:DOUBLE", "lab/double", kind="double", unit="mbar"),
        "long": Pv("T:LONG", "lab/long", kind="long", unit="counts"),
        "menu": Pv("T:MENU", "lab/menu", kind="menu", states=["off", "on", "tripped"]),
        **{
            kind: Pv(f"T:{kind.upper()}", f"lab/{kind}", kind=kind, length=7, unit="A")
            for kind in ("uint8", "int16", "int32", "float32", "float64")
        },
    }
    generator, states = np.random.default_rng(7), itertools.count()

    def value_of(kind: str) -> Any:
        if kind == "double":
            return float(generator.standard_normal() * 10.0 ** int(generator.integers(-300, 300)))
        if kind == "long":
            return int(generator.integers(-(2**31), 2**31))
        if kind == "menu":
            # A menu does not notify of its previous state.
            return next(states) % 3
        dtype = np.dtype(kind)
        return (
            (generator.bytes(7 * dtype.itemsize), dtype)
            if dtype.kind == "f"
            else generator.integers(0, 100, 7).tolist()
        )

    def value(kind: str) -> Any:
        made = value_of(kind)
        if isinstance(made, tuple):
            # Any bits but those that JSON cannot carry to the IOC.
            return np.nan_to_num(np.frombuffer(*made), posinf=1, neginf=-1).astype(made[1]).tolist()
        return made

    options = [f"--pv={protocol}://{it.pv}={it.stream}" for it in pvs.values()]
    with Ioc(env, *(it.record for it in pvs.values())) as ioc, Reader(bus, "lab/*") as reader:
        for kind, pv in pvs.items():
            pv.put(ioc, value(kind))
        with Bridge("epics", bus, *options, env=env) as bridge:
            for kind, pv in pvs.items():
                begin(ioc, bridge, reader, pv, lambda _: value(kind))
            for _ in range(20):
                for kind, pv in pvs.items():
                    pv.put_until_read(ioc, reader, value(kind))
            totals = bridge.end()
        accounts = reader.end()
        for kind, pv in pvs.items():
            pv.check(reader.samples_of(pv.stream), accounts[pv.stream][0])
            assert holes(accounts[pv.stream][0]) == []
            counters = totals[f"in {protocol}://{pv.pv}"]
            assert counters["sent"] == counters["updates"] == len(pv.truth) == counters["samples"] and counters["lives"] == 1
            assert counters["totals"][0]["samples"]["offered"] == len(pv.truth)
        schema = {kind: reader.schemas[pv.stream][0] for kind, pv in pvs.items()}
        assert [schema[it].channels[0].unit for it in ("double", "long", "float64")] == ["mbar", "counts", "A"]
        assert schema["menu"].labels["states"] == "off|on|tripped"
        for kind in ("uint8", "int16", "int32", "float32", "float64"):
            assert schema[kind].dtype == np.dtype(kind) and schema[kind].channels[0].shape == (7,)


@BOTH
def test_an_invalid_value_is_a_hole_of_one_sample(protocol: str, env: dict[str, str]) -> None:
    bus, pv = new_bus(), Pv("T:A", "lab/a", kind="double")
    with Ioc(env, pv.record) as ioc, Reader(bus, "lab/*") as reader:
        pv.put(ioc, 1.0)
        with Bridge("epics", bus, f"--pv={protocol}://T:A=lab/a", env=env) as bridge:
            begin(ioc, bridge, reader, pv, float)
            planted = len(pv.truth)
            pv.put_bad(ioc, reader, 100.0)
            pv.put_bad(ioc, reader, 101.0)
            pv.put_until_read(ioc, reader, 102.0)
            counters = bridge.end(signal.SIGTERM)[f"in {protocol}://T:A"]
        account = reader.end()["lab/a"][0]
    assert holes(account) == [(planted, 2)] and account.lost == {"source": 2}
    pv.check(reader.samples_of("lab/a"), account)
    assert counters["bad"] == {"invalid": 2} and counters["skipped"] == {"bad": 2}
    assert len(bridge.of("bad", stream="lab/a")) == 1, "reported once"


@BOTH
def test_an_ioc_that_is_killed_and_restarted_leaves_one_mark_and_the_word_that_nobody_counted(
    protocol: str, env: dict[str, str]
) -> None:
    bus, pv = new_bus(), Pv("T:A", "lab/a", kind="double", unit="V")
    with Reader(bus, "lab/*") as reader:
        with Ioc(env, pv.record) as ioc:
            pv.put(ioc, 0.5)
            bridge = Bridge("epics", bus, f"--pv={protocol}://T:A=lab/a", env=env)
            with bridge:
                begin(ioc, bridge, reader, pv, float)
                planted = len(pv.truth)
                before = kill(ioc, bridge, "lab/a")
                with Ioc(env, pv.record) as again:
                    # The mark, and what comes first: a record that has no value yet is invalid, a hole.
                    bridge.wait_for("back", before + 1, stream="lab/a")
                    bridge.wait_for("bad", stream="lab/a")
                    pv.truth += [None, None]
                    pv.put_until_read(again, reader, 7.0)
                    pv.put_until_read(again, reader, 8.0)
                    counters = bridge.end()[f"in {protocol}://T:A"]
        account = reader.end()["lab/a"][0]
    assert holes(account) == [(planted, 2)]
    pv.check(reader.samples_of("lab/a"), account)
    assert counters["outages"] == before + 1 and counters["uncounted"] == 1 and counters["skipped"] == {"away": 1, "bad": 1}
    assert counters["outage_list"][-1]["samples"] is None
    assert "unknown" in bridge.of("back")[-1]["text"]


@BOTH
def test_at_an_expected_rate_an_outage_is_counted_by_the_iocs_time_stamps(protocol: str, env: dict[str, str]) -> None:
    bus, pv = new_bus(), Pv("T:A", "lab/a", kind="double")
    rate = round(1 / STEP)
    with Reader(bus, "lab/*") as reader, Ioc(env, pv.record) as ioc:
        pv.put(ioc, 0.5)
        with Bridge("epics", bus, f"--pv={protocol}://T:A=lab/a", f"--expect={rate}", env=env) as bridge:
            begin(ioc, bridge, reader, pv, float)
            planted = len(pv.truth)
            # The IOC continues without sending: as with an unplugged cable.
            pv._k += 5
            pv.truth += [None] * 5
            pv.put_until_read(ioc, reader, 7.0)
            pv.put_until_read(ioc, reader, 8.0)
            counters = bridge.end()[f"in {protocol}://T:A"]
        account = reader.end()["lab/a"][0]
    assert holes(account) == [(planted, 5)] and counters["skipped"] == {"missed": 5} and counters["uncounted"] == 0
    pv.check(reader.samples_of("lab/a"), account)


@BOTH
def test_another_type_after_a_restart_is_a_new_epoch_and_said_once(protocol: str, env: dict[str, str]) -> None:
    bus, pv = new_bus(), Pv("T:A", "lab/a", kind="double", unit="V")
    with Reader(bus, "lab/*") as reader, Ioc(env, pv.record) as ioc:
        pv.put(ioc, 0.5)
        with Bridge("epics", bus, f"--pv={protocol}://T:A=lab/a", env=env) as bridge:
            begin(ioc, bridge, reader, pv, float)
            # An earlier update would be a hole in the epoch that has just begun, and no other update follows.
            old_enough_ns = time.monotonic_ns() + MIN_EPOCH_NS
            kill(ioc, bridge, "lab/a")
            until(lambda: time.monotonic_ns() > old_enough_ns)
            old = pv.truth
            pv.truth = []
            with Ioc(env, {**pv.record, "kind": "long", "unit": "counts"}) as again:
                bridge.wait_for("form", stream="lab/a")
                # The record has no value when it begins: invalid, a hole.
                bridge.wait_for("bad", stream="lab/a")
                pv.truth.append(None)
                begin(again, bridge, reader, pv, lambda k: 2**30 + k, epochs=2)
                counters = bridge.end()[f"in {protocol}://T:A"]
        before, after = reader.end()["lab/a"]
    assert [it.dtype for it in reader.schemas["lab/a"]] == [np.dtype("f8"), np.dtype("i4")]
    assert reader.schemas["lab/a"][1].channels[0].unit == "counts"
    pv.check(reader.samples_of("lab/a", 1), after)
    pv.truth = old
    pv.check(reader.samples_of("lab/a", 0), before)
    assert holes(before) == []
    assert counters["lives"] == 2 and len(bridge.of("form")) == 1


def test_another_unit_is_a_new_epoch(env: dict[str, str]) -> None:
    bus, pv = new_bus(), Pv("T:A", "lab/a", kind="double", unit="V")
    with Reader(bus, "lab/*") as reader, Ioc(env, pv.record) as ioc:
        pv.put(ioc, 0.5)
        with Bridge("epics", bus, "--pv=T:A=lab/a", env=env) as bridge:
            begin(ioc, bridge, reader, pv, float)
            until(lambda: len(bridge.of("began")) == 1)
            ioc.unit("T:A", "mV")
            values = itertools.count()
            until(lambda: pv.put(ioc, next(values)) or bridge.of("form"))
            counters = bridge.end()["in T:A"]
        reader.end()
    assert counters["lives"] == 2 and "[mV]" in bridge.of("form")[0]["text"]


def test_strings_are_refused_in_words_and_nothing_breaks(env: dict[str, str]) -> None:
    bus, pv = new_bus(), Pv("T:A", "lab/a", kind="double")
    text = {"pv": "T:TEXT", "kind": "string"}
    with Reader(bus, "lab/*") as reader, Ioc(env, pv.record, text) as ioc:
        pv.put(ioc, 0.5)
        ioc.put("T:TEXT", "hello", T0)
        with Bridge(
            "epics", bus, "--pv=T:TEXT=lab/ca", "--pv=pva://T:TEXT=lab/pva", "--pv=T:A=lab/a", env=env
        ) as bridge:
            assert "only numbers" in bridge.wait_for("refused", stream="lab/ca")["text"]
            assert "only numbers" in bridge.wait_for("refused", stream="lab/pva")["text"]
            begin(ioc, bridge, reader, pv, float)
            accounts = bridge.end()
        assert set(reader.end()) == {"lab/a"}
    assert accounts["in T:TEXT"]["refused"] == accounts["in T:TEXT"]["updates"] >= 1


@BOTH
def test_waveforms_that_are_runs_of_samples_are_flattened_and_lost_ones_counted(
    protocol: str, env: dict[str, str]
) -> None:
    length = 32
    rate = round(length / STEP)
    bus, pv = new_bus(), Pv("T:W", "lab/w", kind="int16", length=length)

    def wave(k: int) -> list[int]:
        return [(k * length + place) % 30_000 for place in range(length)]

    with Reader(bus, "lab/*") as reader, Ioc(env, pv.record) as ioc:
        pv.put(ioc, wave(0))
        with Bridge("epics", bus, f"--pv={protocol}://T:W=lab/w", f"--flatten={rate}", env=env) as bridge:
            bridge.wait_for("began")
            pv.put(ioc, wave(1))
            reader.wait_for("lab/w", 2 * length - 1)
            pv._k += 2
            k = 4
            pv.put(ioc, wave(k))
            reader.wait_for("lab/w", (k + 1) * length - 1)
            counters = bridge.end()[f"in {protocol}://T:W"]
        account = reader.end()["lab/w"][0]
    assert holes(account) == [((k - 2) * length, 2 * length)]
    for index, (value, t_ns) in reader.samples_of("lab/w").items():
        assert int(value.item()) == index % 30_000
        assert abs(t_ns - T0_NS - STEP_NS - index * NS // rate) <= 1
    assert counters["skipped"] == {"missed": 2 * length}


def test_the_severity_can_be_a_channel_and_major_can_be_a_hole(env: dict[str, str]) -> None:
    bus = new_bus()
    with Ioc(env, {"pv": "T:A", "kind": "double"}) as ioc, Reader(bus, "lab/*") as reader:
        ioc.put("T:A", 0.0, T0)
        with Bridge("epics", bus, "--pv=T:A=lab/a", "--severity", "--bad=major", env=env) as bridge:
            bridge.wait_for("began")
            for k, severity in enumerate((0, 1, 2, 0), 1):
                ioc.put("T:A", float(k), T0 + k * STEP, severity)
                if severity == 2:
                    reader.wait_for_hole("lab/a", k)
                else:
                    reader.wait_for("lab/a", k)
            bridge.end()
        account = reader.end()["lab/a"][0]
    assert holes(account) == [(3, 1)]
    values = {index: value.tolist() for index, (value, _) in reader.samples_of("lab/a").items()}
    assert values == {0: [0.0, 0.0], 1: [1.0, 0.0], 2: [2.0, 1.0], 4: [4.0, 0.0]}


@pytest.fixture
def pva(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A PV Access client that looks at what the bridge serves."""
    from p4p.client.thread import Context

    for key, value in env.items():
        monkeypatch.setenv(key, value)
    context = Context("pva", nt=False)
    yield context
    context.close()


@pytest.mark.parametrize("server", ["ioc", "pva"])
def test_every_sample_of_a_stream_is_an_update_of_a_pv_of_ours(
    server: str, env: dict[str, str], pva: Any, tmp_path: Path
) -> None:
    bus, config = new_bus(), tmp_path / "out.toml"
    config.write_text(
        '[[out]]\nstream = "lab/a"\nchannel = "u"\npv = "OUT:U"\nrate = "all"\n'
        '[[out]]\nstream = "lab/w"\npv = "OUT:W"\nrate = "all"\nlength = 5\ntype = "long"\n'
    )
    seen: dict[str, list[Any]] = {"OUT:U": [], "OUT:W": []}

    def look(name: str) -> Callable[[Any], None]:
        def heard(value: Any) -> None:
            seen[name].append(value)

        return heard

    with Bridge("epics", bus, "--config", str(config), f"--server={server}", env=env) as bridge:
        bridge.wait_for("serving", 2)
        # Dropping a subscription ends it.
        watching = [monitor(pva, name, look(name), "record[queueSize=1000]field()") for name in seen]
        until(lambda: all(seen.values()) and watching)
        assert [it["alarm.severity"] for it in seen["OUT:U"]] == [3], "without a stream it is invalid"
        t0 = T0_NS
        with (
            tc.Publisher("lab/a", {"i": "A", "u": "mV"}, "f8", rate=8, bus=bus) as a,
            tc.Publisher("lab/w", {"w": tc.Channel("V", shape=(5,))}, "i4", rate=8, bus=bus) as w,
        ):
            # One after the other: a server that is faster than its clients leaves updates out, and means to.
            for k in range(5):
                a.send([[-1.0, k + 0.1]], t0 + k * NS // 8)
                w.send([[k, 1, 2, 3, 2**31 - 1]], t0 + k * NS // 8)
                until(lambda: min(map(len, seen.values())) > k + 1, lambda: (bridge.events, seen))  # noqa: B023
            a.skip(3)
            a.send([[-1.0, 77.5]], t0 + NS)
            until(lambda: seen["OUT:U"][-1]["value"] == 77.5, lambda: seen["OUT:U"][-1])
        until(lambda: seen["OUT:U"][-1]["alarm.severity"] == 3 and seen["OUT:W"][-1]["alarm.severity"] == 3)
        accounts = bridge.end()
    values = [it for it in seen["OUT:U"] if it["alarm.severity"] == 0]
    for value in values:
        k = round((value["timeStamp.secondsPastEpoch"] - T0) * 8 + value["timeStamp.nanoseconds"] * 8 / NS)
        assert value["value"] == k + 0.1
    marked = [it for it in seen["OUT:U"] if it["alarm.severity"] == 1]
    assert [it["value"] for it in marked] == [77.5], "a hole before it is a minor alarm"
    if server == "pva":
        assert marked[0]["alarm.message"] == "3 samples missing: source"
    assert seen["OUT:U"][-1]["display.units"] == "mV" and seen["OUT:U"][-1]["value"] == 77.5, (
        "what is left keeps its value"
    )
    waves = [it["value"].tolist() for it in seen["OUT:W"] if it["alarm.severity"] == 0]
    assert waves and all(it[1:] == [1, 2, 3, 2**31 - 1] for it in waves)
    out = accounts["out OUT:U"]
    assert out["read"] == out["told"] == len(values) + len(marked) and out["missing"] == out["told_missing"] == 3
    reader = bridge.of("account", stream="lab/a")[0]
    assert reader["closed"] and reader["balanced"] and reader["elements"]["lost"] == {"source": 6}
    assert out["read"] * 2 == reader["elements"]["delivered"]


def text_of(path: Path) -> str:
    """Returns the content of a thread's or process's file, empty if that has ended meanwhile."""
    try:
        return path.read_text()
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    """Returns the processes that a process has started, from whichever of its threads."""
    return [int(it) for task in Path(f"/proc/{pid}/task").iterdir() for it in text_of(task / "children").split()]


def test_a_soft_ioc_of_ours_that_dies_is_started_again_with_the_newest_value(env: dict[str, str], pva: Any) -> None:
    bus = new_bus()
    with Bridge("epics", bus, "--serve=lab/a=OUT:A", "--out-rate=1000", env=env) as bridge:
        bridge.wait_for("serving")
        with tc.Publisher("lab/a", rate=100, bus=bus) as publisher:
            k = 0

            def served() -> float:
                nonlocal k
                publisher.send([float(k := k + 1)])
                try:
                    return float(pva.get("OUT:A", timeout=0.5)["value"])
                except TimeoutError:
                    return 0.0

            until(served)
            (ioc,) = [pid for pid in children(bridge.process.pid) if "_softioc" in text_of(Path(f"/proc/{pid}/cmdline"))]
            os.kill(ioc, signal.SIGKILL)
            before = k
            bridge_restarted = lambda: served() > before and bridge.of("restarted")  # noqa: E731
            until(bridge_restarted)
        accounts = bridge.end()
    assert accounts["out OUT:A"]["read"] == accounts["out OUT:A"]["told"]


def test_a_stream_is_written_to_a_pv_of_others_by_both_protocols(env: dict[str, str]) -> None:
    bus = new_bus()
    with Ioc(env, {"pv": "T:CA", "kind": "out"}, {"pv": "T:PVA", "kind": "out"}), Reader(bus, "back/*") as reader:
        options = [
            "--put=lab/a=T:CA",
            "--put=lab/a=pva://T:PVA",
            "--out-rate=50",
            "--pv=T:CA=back/ca",
            "--pv=pva://T:PVA=back/pva",
        ]
        with Bridge("epics", bus, *options, env=env) as bridge:
            with tc.Publisher("lab/a", rate=100, bus=bus) as publisher:
                k = 0

                def came_back() -> bool:
                    nonlocal k
                    publisher.send([float(k := k + 1)])
                    return len(reader.samples_of("back/ca")) > 5 and len(reader.samples_of("back/pva")) > 5

                until(came_back)
                publisher.send([12345.678])
                for stream in ("back/ca", "back/pva"):
                    until(lambda: 12345.678 in [it[0].item() for it in reader.samples_of(stream).values()])
            accounts = bridge.end()
        reader.end()
    for peer in ("T:CA", "pva://T:PVA"):
        out = accounts[f"out {peer}"]
        assert out["told"] == out["read"] and out["outputs"] <= out["read"]


def test_what_cannot_be_is_said_before_anything_begins() -> None:
    for arguments, word in (
        ([], "nothing to do"),
        (["--pv", "xyz://A=lab/a"], "no PV"),
        (["--config", "/nonexistent.toml"], "cannot read"),
    ):
        bridge = Bridge("epics", new_bus(), *arguments)
        assert bridge.process.wait(60) == 2, word


PARAMETER = """
[[parameter]]
pv = "{protocol}://T:SET"
app = "lab/magnet"
name = "current"
unit = "A"
min = -5
max = 5
greatest_step = 3
"""


@pytest.fixture
def logs() -> Iterator[Path]:
    """A folder for logs in memory: an answer waits until its record is on disk, however busy that is."""
    with tempfile.TemporaryDirectory(prefix="tc-epics-", dir="/dev/shm") as folder:
        yield Path(folder)


def steered(bus: str, protocol: str, env: dict[str, str], folder: Path, logs: Path) -> Bridge:
    """Starts a bridge with a parameter."""
    (folder / "access").write_text("allow anyone read,steer lab/magnet/current\nallow anyone steer lab/magnet\n")
    (folder / "epics.toml").write_text(PARAMETER.format(protocol=protocol))
    own = {"TALLYCAST_ACCESS": str(folder), "XDG_STATE_HOME": str(logs)}
    return Bridge("epics", bus, "--config", str(folder / "epics.toml"), env={**env, **own})


@BOTH
def test_a_parameter_is_written_to_its_pv_and_answered_with_what_that_has(
    protocol: str, env: dict[str, str], tmp_path: Path, logs: Path
) -> None:
    bus = new_bus("udp")
    stream = "lab/magnet/parameters"
    with (
        Ioc(env, {"pv": "T:SET", "kind": "out", "unit": "A"}),
        steered(bus, protocol, env, tmp_path, logs) as bridge,
    ):
        bridge.wait_for("steered", app="lab/magnet")
        reader = Reader(bus, stream)
        with tc.steer("lab/magnet", timeout=WATCHDOG, bus=bus) as remote:
            until(lambda: reader.samples_of(stream), "a sample before the change")
            applied = remote.set("current", 2.5)
            assert applied.readback == 2.5
            with pytest.raises(tc.SteeringRefused) as refused:
                remote.set("current", 7)
            assert refused.value.rule == "range"
        reader.wait_for(stream, applied.index)
        values = {index: float(np.ravel(value)[0]) for index, (value, _) in reader.samples_of(stream).items()}
        assert {value for index, value in values.items() if index < applied.index} == {0.0}
        assert {value for index, value in values.items() if index >= applied.index} == {2.5}
        account = bridge.end()["steer lab/magnet"]
        assert (account["received"], account["applied"], account["refused"]) == (2, 1, 1)
        reader.end()


@BOTH
def test_the_greatest_step_is_measured_from_the_value_that_another_client_wrote(
    protocol: str, env: dict[str, str], tmp_path: Path, logs: Path
) -> None:
    bus = new_bus("udp")
    with (
        Ioc(env, {"pv": "T:SET", "kind": "out", "unit": "A"}) as ioc,
        steered(bus, protocol, env, tmp_path, logs) as bridge,
    ):
        bridge.wait_for("steered", app="lab/magnet")
        with tc.steer("lab/magnet", timeout=WATCHDOG, bus=bus) as remote:
            remote.set("current", 1.0)
            ioc.put("T:SET", -4.0, T0)
            until(lambda: remote["current"] == -4.0 or None, "the value of the other client")
            with pytest.raises(tc.SteeringRefused) as refused:
                remote.set("current", 2.0)
            assert refused.value.rule == "step", "three from the last command, six from the present value"
            with pytest.raises(tc.SteeringRefused) as refused:
                remote.set("current", -3.0, if_revision=1)
            assert refused.value.rule == "revision", "it was changed since"
            assert remote.set("current", -2.0).readback == -2.0
        account = bridge.end()["steer lab/magnet"]
        assert (account["received"], account["applied"], account["refused"]) == (4, 2, 2)


@BOTH
def test_a_command_whose_ioc_is_gone_is_uncertain_and_the_app_goes_on(
    protocol: str, env: dict[str, str], tmp_path: Path, logs: Path
) -> None:
    bus = new_bus("udp")
    with (
        Ioc(env, {"pv": "T:SET", "kind": "out"}) as ioc,
        steered(bus, protocol, env, tmp_path, logs) as bridge,
    ):
        bridge.wait_for("steered", app="lab/magnet")
        with tc.steer("lab/magnet", timeout=WATCHDOG, bus=bus) as remote:
            remote.set("current", 1.0)
            ioc.kill()
            with pytest.raises(tc.SteeringError):
                remote.set("current", 2.0)
        account = bridge.end()["steer lab/magnet"]
        assert account["received"] == 2 and account["applied"] == 1, account


@BOTH
def test_a_pv_that_is_no_number_is_no_parameter_and_the_bridge_says_so(
    protocol: str, env: dict[str, str], tmp_path: Path, logs: Path
) -> None:
    with (
        Ioc(env, {"pv": "T:SET", "kind": "string"}) as ioc,
        steered(new_bus("udp"), protocol, env, tmp_path, logs) as bridge,
    ):
        ioc.put("T:SET", "on", T0)
        assert bridge.process.wait(WATCHDOG) == 2


def test_the_value_that_is_no_number_is_named() -> None:
    class Switch:
        def get(self, pv: str) -> Any:
            return f"{pv} is on"

        def put(self, pv: str, value: Any, done: Callable[[str | None], None]) -> None:
            raise AssertionError("nothing is written")

    with pytest.raises(tc.ConfigError, match=r"pva://T:SET has the value 'T:SET is on', which is no number\n"):
        ParameterPv({"pv": "pva://T:SET", "name": "on"}, Switch(), "T:SET").read()
