"""Steering, unsimulated: apps of this process and another one, real connections on loopback. Nothing here measures time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from places import WATCHDOG, Place, command, until
from tallycast import _remote

#: Anyone may steer the gain and the heater and administer the app; the limit is for the app alone.
RULES = """
allow anyone read,steer test/rod/gain
allow anyone steer test/rod/heater
allow anyone steer test/rod/count
allow anyone steer,administer test/rod
"""
#: Terms of the law, whose sum is what was received.
TERMS = ("applied", "refused", "expired", "superseded", "failed", "uncertain", "pending")
PARAMETERS = {
    "gain": tc.Parameter(1.0, unit="V", range=(0, 10), greatest_step=4.0),
    "heater": tc.Parameter(False, lease="heating"),
    "count": tc.Parameter(3, dtype="u16", range=(0, None)),
    "limit": tc.Parameter([3, 4], dtype="i32"),
}


def closes(totals: Any) -> dict[str, int]:
    """Checks the law; returns the terms that are not zero."""
    assert totals["received"] == sum(totals[term] for term in TERMS), totals
    assert totals["refused"] == sum(totals["refused_by_rule"].values()), totals
    return {term: totals[term] for term in ("received", *TERMS) if totals[term]}


def connected(bus: str, app: str = "test/rod") -> tc.Remote:
    """Connects to an app as soon as it is there."""

    def attempt() -> Any:
        try:
            return tc.steer(app, timeout=0.1, bus=bus)
        except tc.SteeringError:
            return None

    remote: tc.Remote = until(attempt, f"the app {app}")
    return remote


def refused(call: Callable[[], object]) -> str:
    """Returns the rule that refuses a command."""
    with pytest.raises(tc.SteeringRefused) as raised:
        call()
    assert raised.value.rule in str(raised.value) and "\n" in str(raised.value) and len(raised.value.id) == 32
    return raised.value.rule


class Rod:
    """An app in a thread of this process, whose samples are its gain and its heater."""

    def __init__(self, bus: str, folder: Path, about: Callable[[tc.Cycle], None] = lambda cycle: None) -> None:
        self.bus = bus
        self._over = threading.Event()

        @tc.app("test/rod", period="5ms", outputs={"out": tc.Output("test/temperature", {"gain": "V", "heater": ""})})
        def app(cycle: tc.Cycle) -> None:
            about(cycle)
            cycle.out = [cycle.parameters["gain"], cycle.parameters["heater"]]
            if self._over.is_set():
                cycle.stop()

        for name, it in PARAMETERS.items():
            app.parameter(name, it.value, dtype=it.dtype, unit=it.unit, range=it.range, greatest_step=it.greatest_step, lease=it.lease)
        self._pool = ThreadPoolExecutor(1)
        self._report = self._pool.submit(lambda: app.run(log=folder / "rod.log", listen="127.0.0.1:0", bus=bus))

    def connect(self) -> tc.Remote:
        assert not self._report.done(), self._report.result()
        return connected(self.bus)

    def end(self) -> dict[str, Any]:
        """Ends it; returns the account of its commands."""
        self._over.set()
        report = self._report.result(WATCHDOG)
        self._pool.shutdown()
        assert report.commands is not None and report.commands["pending"] == 0
        return dict(report.commands)


@pytest.fixture
def logs() -> Iterator[Path]:
    """A folder for logs in memory: an answer waits until its record is on disk, however busy that is."""
    with tempfile.TemporaryDirectory(prefix="tc-steering-", dir="/dev/shm") as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules of access, and no file of this user."""
    (tmp_path / "access").write_text(RULES)
    monkeypatch.setenv("TALLYCAST_ACCESS", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def rod(shm: Place, logs: Path) -> Iterator[Rod]:
    """The app in a thread."""
    rod = Rod(shm.publishers, logs)
    yield rod
    closes(rod.end())


class Samples:
    """Everything that a stream had, read by a thread until its end."""

    def __init__(self, stream: str, bus: str) -> None:
        self._sub = tc.Subscriber(stream, bus=bus, until_end=True, timeout=WATCHDOG)
        self._begun = threading.Event()
        self._pool = ThreadPoolExecutor(1)
        self._blocks = self._pool.submit(self._take)

    def _take(self) -> list[tc.Block]:
        blocks = []
        for block in self._sub:
            blocks.append(block)
            self._begun.set()
        return blocks

    def wait_for_the_first(self) -> None:
        """Waits until a sample has come: those from then on are read."""
        assert self._begun.wait(WATCHDOG)

    def read(self) -> dict[int, Any]:
        """Returns the samples by index."""
        blocks = self._blocks.result(WATCHDOG)
        self._pool.shutdown()
        (account,) = self._sub.close()
        assert account["balanced"]
        return {index: sample for block in blocks for index, sample in zip(range(block.first_index, block.next_index), block.array)}


def begins_at(samples: dict[int, Any], index: int, before: float, after: float) -> None:
    """Checks that a change is in the samples from an index on, and in none before it."""
    assert index in samples and len(samples) > 1
    for at, sample in samples.items():
        assert sample[0] == (before if at < index else after), (at, index)


def test_the_change_is_in_the_samples_from_the_index_of_the_answer(shm: Place, logs: Path) -> None:
    samples = Samples("test/temperature", shm.publishers)
    rod = Rod(shm.publishers, logs)
    with rod.connect() as remote:
        samples.wait_for_the_first()
        assert remote["gain"] == 1.0 and remote["heater"] is np.False_ and remote["limit"].tolist() == [3, 4]
        applied = remote.set("gain", 2, reason="warmer")
        assert (applied.revision, applied.readback, applied.epoch) == (1, 2.0, remote.epoch)
        assert isinstance(applied.readback, np.float64) and remote["gain"] == 2.0
        assert closes(remote.totals()) == {"received": 1, "applied": 1}
    assert closes(rod.end()) == {"received": 1, "applied": 1}
    begins_at(samples.read(), applied.index, 1.0, 2.0)


def test_an_app_in_another_process_is_steered(shm: Place, logs: Path) -> None:
    program = textwrap.dedent(
        f"""
        import tallycast as tc

        @tc.app("test/rod", period="5ms", outputs={{"out": "test/temperature"}}, parameters={{"gain": 1.0}})
        def app(cycle):
            cycle.out = cycle.parameters["gain"]

        report = app.run(log={str(logs / "rod.log")!r}, listen="127.0.0.1:0", bus={shm.publishers!r})
        assert "commands: 1 received, 1 applied" in str(report), report
        """
    )
    samples = Samples("test/temperature", shm.publishers)
    app = subprocess.Popen([sys.executable, "-c", program], env=dict(os.environ), stderr=subprocess.PIPE, text=True)
    try:
        with connected(shm.publishers) as remote:
            samples.wait_for_the_first()
            remote["gain"] = 2.0
            gain = remote.parameters["gain"]
            assert (gain.value, gain.revision) == (2.0, 1)
    finally:
        app.send_signal(signal.SIGINT)
        _, said = app.communicate(timeout=WATCHDOG)
    assert app.returncode == 0, said
    values = [float(sample[0]) for _, sample in sorted(samples.read().items())]
    assert values == sorted(values) and set(values) == {1.0, 2.0}


def test_what_is_refused_names_its_rule_and_is_counted(rod: Rod) -> None:
    with rod.connect() as remote:
        assert refused(lambda: remote.set("gain", float("nan"))) == "not_finite"
        assert refused(lambda: remote.set("gain", 11)) == "range"
        assert refused(lambda: remote.set("gain", 9)) == "step"
        assert refused(lambda: remote.set("gain", 2, if_revision=7)) == "revision"
        assert refused(lambda: remote.set("limit", [1, 2])) == "read_only"
        assert refused(lambda: remote.set("heater", True)) == "lease"
        assert refused(lambda: remote.set("gain", 2, reason="x" * 257)) == "text"
        with pytest.raises(tc.ConfigError, match="at most 2s"):
            remote.set("gain", 2, valid=2.001)
        assert remote["gain"] == 1.0
        totals = remote.totals()
    assert closes(totals) == {"received": 7, "refused": 7} and set(totals["refused_by_rule"].values()) == {1}


def test_a_value_is_converted_exactly_or_never_sent(rod: Rod) -> None:
    with rod.connect() as remote:
        cases: list[tuple[str, Any]] = [
            ("count", 2.5), ("count", 2.0), ("count", -1), ("count", 70_000), ("count", True), ("count", [1]), ("count", "1"), ("count", None),
            ("gain", 2**70), ("gain", 2**60 + 1), ("gain", 1j), ("gain", [1.0, 2.0]), ("heater", 1), ("limit", [1]), ("limit", [1, 2.5]), ("limit", 1),
        ]  # fmt: skip
        for name, value in cases:
            with pytest.raises(tc.ConfigError, match=name):
                remote[name] = value
        with pytest.raises(tc.UnknownParameter, match=r"'gian'.*\n.*`gain`, `heater`"):
            remote["gian"] = 2.0
        with pytest.raises(tc.UnknownParameter):
            remote["gian"]
        assert closes(remote.totals()) == {}
        remote["count"] = np.int64(65_535)
        assert remote["count"] == 65_535 and remote["count"].dtype == np.uint16
        # Only the digits of a float are rounded.
        remote["gain"] = np.float32(0.1)
        assert remote["gain"] == float(np.float32(0.1))


def test_a_lease_has_one_holder_and_is_renewed(rod: Rod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_remote, "_RENEW_EVERY", 0.01)
    with rod.connect() as ada, rod.connect() as grace:
        with ada.lease("heating") as lease:
            ada["heater"] = True
            assert lease.held and ada.parameters["heater"].holder == ada.principal
            with pytest.raises(tc.SteeringDenied, match="holds the lease"), grace.lease("heating"):
                pass
            assert refused(lambda: grace.set("heater", False)) == "lease"
            until(lambda: lease.renewals >= 3, "renewals of the lease")
        assert not lease.held and ada.parameters["heater"].holder is None
        with grace.lease("heating"):
            grace["heater"] = False
            with ada.lease("heating", take_over="the shift has ended") as taken:
                assert refused(lambda: grace.set("heater", True)) == "lease"
                ada["heater"] = True
        assert not taken.held
        with pytest.raises(tc.SteeringDenied, match="no parameter"), ada.lease("cooling"):
            pass
        assert rod.connect()["heater"]


def test_a_lease_that_an_administrator_took_over_is_not_held(rod: Rod, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_remote, "_RENEW_EVERY", 0.01)
    with rod.connect() as ada, rod.connect() as grace, ada.lease("heating") as lease:
        with grace.lease("heating", take_over="smoke"):
            until(lambda: not lease.held, "the loss of the lease")


def test_a_kill_switch_stops_commands_until_it_is_released(rod: Rod) -> None:
    with rod.connect() as remote:
        assert not remote.stopped
        with pytest.raises(tc.SteeringDenied):
            remote.stop("")
        remote.stop("smoke")
        assert remote.stopped and refused(lambda: remote.set("gain", 2)) == "stopped"
        remote.resume("no smoke")
        remote["gain"] = 2
        assert not remote.stopped


def test_an_app_says_what_became_of_a_change(shm: Place, logs: Path) -> None:
    seen: list[tuple[str, Any, Any, Any]] = []
    gains: list[Any] = []

    def about(cycle: tc.Cycle) -> None:
        if not gains or cycle.parameters["gain"] != gains[-1]:
            gains.append(cycle.parameters["gain"])
        for change in cycle.changes:
            seen.append((change.parameter, change.before, change.value, cycle.parameters[change.parameter]))
            if change.value == 2:
                change.failed("the device does not answer")
            elif change.value == 3:
                change.read_back(2.75)
            elif change.value == 4:
                change.uncertain()

    rod = Rod(shm.publishers, logs, about)
    with rod.connect() as remote:
        until(lambda: gains == [1.0], "the first cycle")
        with pytest.raises(tc.SteeringFailed, match="does not answer") as failed:
            remote["gain"] = 2
        assert failed.value.reason == "the device does not answer" and remote["gain"] == 1.0
        until(lambda: gains[-1] == 1.0, "the cycle after the failed change")
        applied = remote.set("gain", 3)
        assert applied.readback == 2.75 and remote["gain"] == 2.75
        until(lambda: gains[-1] == 2.75, "the cycle after the change")
        with pytest.raises(tc.SteeringUncertain) as uncertain:
            remote["gain"] = 4
        assert not isinstance(uncertain.value, tc.NotApplied) and uncertain.value.parameter == "gain"
        assert not remote.parameters["gain"].known
        with pytest.raises(tc.SteeringError, match="not known"):
            remote["gain"]
    assert closes(rod.end()) == {"received": 3, "applied": 1, "failed": 1, "uncertain": 1}
    assert seen == [("gain", 1.0, 2.0, 2.0), ("gain", 1.0, 3.0, 3.0), ("gain", 2.75, 4.0, 4.0)]
    assert gains == [1.0, 2.0, 1.0, 3.0, 2.75, 4.0], "in the cycle of a change its value, then what became of it"


def test_parameters_of_a_cycle_are_a_mapping_that_stays(rod: Rod) -> None:
    kept = tc.Parameters({"gain": np.float64(1.0)})
    assert dict(kept) == {"gain": 1.0} and len(kept) == 1 and "gain" in kept and "gian" not in kept
    with pytest.raises(tc.UnknownParameter):
        kept["gian"]
    with pytest.raises(TypeError):
        kept["gain"] = 2.0  # type: ignore[index]
    with rod.connect() as remote, pytest.raises(ValueError, match="read-only"):
        remote["limit"][0] = 1


def test_news_begin_with_everything_and_go_on_with_changes(rod: Rod) -> None:
    with rod.connect() as remote:
        news = remote.watch(timeout=WATCHDOG)
        first = [next(news) for _ in range(len(PARAMETERS) + 1)]
        assert [it.parameter.name for it in first[:-1] if it.parameter] == list(PARAMETERS)
        assert first[-1].totals is not None and first[-1].stopped is False
        gain = next(it.parameter for it in first if it.parameter and it.parameter.name == "gain")
        assert (gain.unit, gain.min, gain.max, gain.greatest_step, gain.dtype) == ("V", 0.0, 10.0, 4.0, np.dtype("f8"))
        remote["gain"] = 2
        changed = next(it.parameter for it in news if it.parameter and it.parameter.revision == 1)
        assert (changed.name, changed.value) == ("gain", 2.0)
        totals = next(it.totals for it in news if it.totals and it.totals["applied"] == 1)
        assert closes(totals) == {"received": 1, "applied": 1}
        news.close()  # type: ignore[attr-defined]


class Loop:
    """A program with a loop of its own, which takes steps when a test asks for them."""

    def __init__(self, bus: str, folder: Path) -> None:
        self.pub = tc.Publisher("test/temperature", rate=100, bus=bus)
        self.steering = tc.steering(
            "test/rod", PARAMETERS, epoch=self.pub.epoch, log=folder / "rod.log", listen="127.0.0.1:0", bus=bus
        )
        self.bus = bus

    def step(self) -> list[tc.Change]:
        now = tc.now_ns()
        changes = list(self.steering.step(self.pub.next_index, now))
        self.pub.send([self.steering["gain"]], t0_ns=now)
        self.steering.done()
        return changes

    def steps_until(self, done: Callable[[], bool]) -> None:
        until(lambda: self.step() is not None and done())


@pytest.fixture
def loop(shm: Place, logs: Path) -> Iterator[Loop]:
    """The program with its loop."""
    loop = Loop(shm.publishers, logs)
    with loop.pub:
        yield loop
        # A test that has closed it has its totals.
        totals = loop.steering.close()
        assert totals == {} or closes(totals) is not None


def test_a_plain_loop_takes_changes_at_its_steps(loop: Loop) -> None:
    assert list(loop.steering) == list(PARAMETERS) and len(loop.steering) == 4 and loop.steering["gain"] == 1.0
    kept = loop.steering.parameters
    samples = Samples("test/temperature", loop.bus)
    loop.pub.wait_for_readers(timeout=WATCHDOG)
    for _ in range(3):
        assert loop.step() == []
    with ThreadPoolExecutor(1) as pool, connected(loop.bus) as remote:
        sent = pool.submit(lambda: remote.set("gain", 2))
        loop.steps_until(sent.done)
        applied = sent.result()
    assert applied.epoch == loop.pub.epoch and loop.steering["gain"] == 2.0 and kept["gain"] == 1.0
    assert closes(loop.steering.close()) == {"received": 1, "applied": 1} and loop.steering.close() == {}
    loop.pub.close()
    begins_at(samples.read(), applied.index, 1.0, 2.0)
    with pytest.raises(tc.Closed):
        loop.steering.step(0, 0)


def test_a_command_that_finds_no_step_expires_and_a_later_one_takes_its_place(loop: Loop) -> None:
    with ThreadPoolExecutor(2) as pool, connected(loop.bus) as ada, connected(loop.bus) as grace:
        with pytest.raises(tc.SteeringExpired):
            ada.set("gain", 2, valid=0.01)
        assert closes(loop.steering.totals()) == {"received": 1, "expired": 1}

        def one_is_superseded() -> bool:
            sent = [pool.submit(it.set, "gain", 2) for it in (ada, grace)]
            until(lambda: loop.steering.totals()["pending"] == 2 or any(it.done() for it in sent))
            loop.steps_until(lambda: all(it.done() for it in sent))
            errors = [it.exception() for it in sent]
            # On a machine that stands still for two seconds one of them may have expired.
            assert all(it is None or isinstance(it, (tc.SteeringSuperseded, tc.SteeringExpired)) for it in errors)
            return any(isinstance(it, tc.SteeringSuperseded) for it in errors)

        until(one_is_superseded)
        assert closes(loop.steering.totals())["superseded"] == 1


def test_a_value_that_was_read_back_is_the_present_one(loop: Loop) -> None:
    loop.steering.read_back("gain", 7)
    with ThreadPoolExecutor(1) as pool, connected(loop.bus) as remote:
        until(lambda: remote["gain"] == 7.0 or None, "the value that was read")
        assert loop.steering["gain"] == 7.0 and remote.parameters["gain"].revision == 1
        sent = pool.submit(lambda: refused(lambda: remote.set("gain", 2)))
        loop.steps_until(sent.done)
        assert sent.result() == "step", "one from the first value, five from the one that was read"
        for name, value, error in (("gain", [1, 2], tc.ConfigError), ("gain", "x", tc.ArgumentError), ("gian", 1, tc.UnknownParameter)):
            with pytest.raises(error):
                loop.steering.read_back(name, value)
    assert closes(loop.steering.close()) == {"received": 1, "refused": 1}


def test_an_app_that_keeps_a_value_goes_on_with_its_revision(loop: Loop, logs: Path) -> None:
    kept: list[str] = []
    with ThreadPoolExecutor(1) as pool, connected(loop.bus) as remote:
        sent = pool.submit(lambda: remote.set("gain", 2))

        def stepped() -> bool:
            kept.extend(it.kept for it in loop.step())
            return sent.done()

        until(stepped)
        applied = sent.result()
    assert kept == [f"{applied.id} 1 {applied.epoch} {applied.index}"]
    loop.steering.close()
    again: dict[str, Any] = {"epoch": loop.pub.epoch, "bus": loop.bus, "listen": "127.0.0.1:0", "log": logs / "other.log"}
    with tc.steering("test/rod", {"gain": tc.Parameter(2.0, kept=kept[0])}, **again), connected(loop.bus) as remote:
        assert remote.parameters["gain"].revision == 1, "also with another log"
    with pytest.raises(tc.ConfigError, match="was not kept"):
        tc.steering("test/rod", {"gain": tc.Parameter(2.0, kept="junk")}, **again)


def test_an_app_with_keys_is_steered_by_the_listed_stations_alone(shm: Place, logs: Path, tmp_path: Path) -> None:
    folder = tmp_path / "keys"

    def make(*words: str) -> None:
        subprocess.run([command(), "keys", *words], check=True, capture_output=True)

    make("new", str(folder), "--station", "rod")
    for name in ("desk", "guest"):
        make("add", name, "--authority", str(folder / "lab.authority"), "--like", str(folder / "rod.keys"))
    make("peers", *(str(folder / f"{name}.keys") for name in ("rod", "desk", "guest")))
    make("new", str(tmp_path / "other"), "--station", "stranger")
    bus = shm.publishers
    with pytest.raises(tc.ConfigError, match="lists no peer"):
        tc.steering("test/rod", {"gain": 1.0}, epoch="1-1", bus=bus, key=tmp_path / "other" / "stranger.keys", log=logs / "other.log")
    (tmp_path / "access").write_text("allow key:desk read,steer test/rod/gain\n")
    over = threading.Event()

    @tc.app("test/rod", period="5ms", parameters={"gain": 1.0}, outputs={"out": tc.Output("test/temperature", {"gain": "V"})})
    def app(cycle: tc.Cycle) -> None:
        cycle.out = [cycle.parameters["gain"]]
        if over.is_set():
            cycle.stop()

    with ThreadPoolExecutor(1) as pool:
        report = pool.submit(lambda: app.run(log=logs / "rod.log", listen="127.0.0.1:0", key=folder / "rod.keys", bus=bus))

        def attempt(name: str) -> Any:
            try:
                return tc.steer("test/rod", key=folder / f"{name}.keys", timeout=0.1, bus=bus)
            except tc.SteeringError:
                assert not report.done(), report.result()
                return None

        try:
            with until(lambda: attempt("desk"), "the app") as desk, attempt("guest") as guest:
                assert (desk.principal, guest.principal) == ("key:desk", "key:guest")
                desk["gain"] = 2.0
                assert refused(lambda: guest.set("gain", 3.0)) == "read_only"
                news = desk.watch(timeout=WATCHDOG)
                assert next(it.parameter.value for it in news if it.parameter) == 2.0, "over another secured connection"
                news.close()
            with pytest.raises(tc.SteeringError, match="secured connections only"):
                tc.steer("test/rod", timeout=WATCHDOG, bus=bus)
            with pytest.raises(tc.ConfigError, match="lists no peer"):
                tc.steer("test/rod", key=tmp_path / "other" / "stranger.keys", timeout=WATCHDOG, bus=bus)
        finally:
            over.set()
        commands = report.result(WATCHDOG).commands
    assert commands is not None and closes(commands) == {"received": 2, "applied": 1, "refused": 1}


def test_the_app_itself_stops_steering(loop: Loop) -> None:
    with connected(loop.bus) as remote:
        loop.steering.stop("interlock")
        assert refused(lambda: remote.set("gain", 2)) == "stopped"
        loop.steering.resume("repaired")
        assert not remote.stopped
        with pytest.raises(tc.SteeringDenied):
            loop.steering.stop("")


def test_what_cannot_be_steered_says_why(loop: Loop, logs: Path) -> None:
    begin: dict[str, Any] = {"epoch": loop.pub.epoch, "bus": loop.bus, "listen": "127.0.0.1:0", "log": logs / "other.log"}
    for parameters in (
        {"a b": 1.0}, {"a": tc.Parameter(1.0, range=(2, 3))}, {"a": tc.Parameter(True, range=(0, 1))},
        {"a": tc.Parameter(1.0, range=(0, float("nan")))}, {"a": np.zeros(200)},
    ):  # fmt: skip
        with pytest.raises(tc.ConfigError):
            tc.steering("test/other", parameters, **begin)
    for junk in ({"value": "x"}, {"value": 1, "range": 3}, {"value": 1, "range": (0.5, None)}, {"value": 2.5, "dtype": "i32"}, {"value": 1, "unit": 1}):
        with pytest.raises(tc.ConfigError):
            tc.Parameter(**junk)
    app = tc.app("test/other", parameters={"a": 1.0})(lambda cycle: None)
    with pytest.raises(tc.ConfigError, match="two parameters"):
        app.parameter("a", 2.0)
    with pytest.raises(tc.ArgumentError, match="name"):
        app.parameter(1, 2.0)  # type: ignore[arg-type]
    with pytest.raises(tc.SteeringError, match="another process"):
        app.run(log=logs / "rod.log", bus=loop.bus)
    with pytest.raises(tc.ConfigError, match="secured"):
        tc.steering("test/other", {"a": 1.0}, **{**begin, "listen": "0.0.0.0:0"})
    with pytest.raises(tc.ConfigError, match="listen"):
        tc.steering("test/other", {"a": 1.0}, **{**begin, "listen": "here"})
    with pytest.raises(tc.SteeringError, match="another process"):
        tc.steering("test/rod", PARAMETERS, **{**begin, "log": logs / "rod.log"})
    with pytest.raises(tc.SteeringError, match="no app"):
        tc.steer("test/nothing", timeout=0.0, bus=loop.bus)
    with pytest.raises(tc.SteeringError, match="is `test/rod`"):
        tc.steer("test/nothing", address=loop.steering.address, bus=loop.bus)
    with connected(loop.bus) as remote:
        pass
    with pytest.raises(tc.Closed):
        remote["gain"]
