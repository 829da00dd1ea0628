"""Cyclic apps, unsimulated: streams over shared memory, the clock of this machine, its interpreter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Optional

import numpy as np
import pytest

import tallycast as tc
from places import WATCHDOG, until
from tallycast._duration import nanoseconds

BIN = os.environ.get("TALLYCAST_BIN", str(Path(__file__).parents[2] / "target/debug/tallycast"))


@pytest.fixture
def bus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bus of this test alone, in memory."""
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="tc-app-", dir="/dev/shm")
    yield f"shm://apps?dir={folder}"
    shutil.rmtree(folder)


def accounts_of(stream: str, bus: str, ready: threading.Event, into: list[Any], blocks: list[Any]) -> threading.Thread:
    """Reads a stream to its end in a thread; ``into`` gets its accounts, ``blocks`` its blocks."""

    def read() -> None:
        with tc.Subscriber(stream, bus=bus, until_end=True, timeout=WATCHDOG) as sub:
            ready.set()
            blocks.extend(sub)
            into.extend(sub.close())

    thread = threading.Thread(target=read)
    thread.start()
    assert ready.wait(WATCHDOG)
    return thread


def ramp(
    name: str = "test/source", stream: str = "test/ramp", over: Optional[threading.Event] = None, **options: Any
) -> Any:
    """An app whose output is the number of its cycle, and its negative; it ends when ``over`` is set."""

    @tc.app(name, outputs={"out": tc.Output(stream, {"n": "", "minus": ""}, "f4")}, **options)
    def source(cycle: tc.Cycle) -> None:
        cycle.out = [cycle.index, -cycle.index]
        if over is not None and over.is_set():
            cycle.stop()

    return source


@contextmanager
def running(app: Any, bus: str, over: threading.Event) -> Iterator[None]:
    """Runs an app on a thread for the duration of the block; the app ends when ``over`` is set."""
    thread = threading.Thread(target=lambda: app.run(bus=bus))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(WATCHDOG)


def test_the_counters_close_cycles_are_written_or_left_out(bus: str) -> None:
    ready, accounts, blocks = threading.Event(), [], []  # type: ignore[var-annotated]
    reader = accounts_of("test/even", bus, ready, accounts, blocks)

    @tc.app("test/app", period="5ms", outputs={"even": tc.Output("test/even", {"n": ""}, "i32")})
    def app(cycle: tc.Cycle) -> None:
        if cycle.index % 2 == 0:
            cycle.even = cycle.index
            written.append(cycle.index)

    written: list[int] = []
    report = app.run(cycles=60, bus=bus)
    reader.join(WATCHDOG)
    made = report.outputs["even"]
    assert report.cycles == 60 and not report.interrupted
    assert made.offered == report.cycles + report.skipped, "every cycle that was due has a sample or a hole"
    (account,) = accounts
    elements = account["elements"]
    assert account["state"] == "closed" and account["balanced"] and account["closed"]
    assert made.written == len(written) and elements["next"] == made.offered
    # A reader finds a new stream some moments after it has begun, and its account begins there.
    since = [index for index in written if index >= elements["first"]]
    holes = elements["next"] - elements["first"] - len(since)
    assert elements["delivered"] == len(since) > 0 and elements["lost"].get("source", 0) == holes
    values = np.concatenate([block.array[:, 0] for block in blocks])
    indices = np.concatenate([np.arange(block.first_index, block.next_index) for block in blocks])
    assert np.array_equal(values, indices) and indices.tolist() == since
    assert report.lateness_ns.count == report.run_time_ns.count == report.interpreter_wait_ns.count == 60
    assert report.lateness_ns.p50 <= report.lateness_ns.p99 <= report.lateness_ns.max


def test_a_chain_of_two_apps_reads_whatever_type_the_stream_has(bus: str) -> None:
    seen: list[tuple[int, list[float], float, int]] = []
    over = threading.Event()
    source = ramp(period="5ms", over=over)

    @tc.app("test/sink", period="10ms", inputs={"ramp": tc.Input("test/ramp", take="all"), "last": "test/ramp"})
    def sink(cycle: tc.Cycle) -> None:
        ramp, last = cycle.ramp, cycle["last"]
        if not ramp.is_new:
            assert len(ramp.samples) == 0 or ramp.newest is not None
            return
        assert ramp.samples.dtype == np.float32 and ramp.samples.shape == (len(ramp.indices), 2)
        assert np.array_equal(ramp.samples[:, 0], ramp.indices) and np.array_equal(ramp.samples[:, 1], -ramp.samples[:, 0])
        assert np.all(np.diff(ramp.times) > 0) and ramp.newest_time_ns == ramp.times[-1]
        assert not ramp.samples.flags.writeable
        assert last.newest is None or last["n"] == last.newest_index
        seen.extend((int(index), [], float(ramp["minus"]), ramp.age_ns or 0) for index in ramp.indices)
        if len(seen) >= 50:
            cycle.stop()

    with running(source, bus, over):
        report = sink.run(duration=WATCHDOG, bus=bus)
    indices = [index for index, *_ in seen]
    assert indices == sorted(set(indices)) and len(indices) >= 50
    came = report.inputs["ramp"]
    assert came.samples == len(seen) and came.stream == "test/ramp" and came.age_ns.count > 0
    assert all(account["balanced"] for account in report.accounts)
    assert {account["reader"] for account in report.accounts} == {"test/sink"}


def test_an_overrun_is_counted_and_what_it_covered_is_left_out(bus: str) -> None:
    @tc.app("test/busy", period="10ms", outputs={"out": "test/out"})
    def app(cycle: tc.Cycle) -> None:
        cycle.out = cycle.index
        busy.append(cycle.index)
        if len(busy) == 3:
            until = time.monotonic() + 0.1
            while time.monotonic() < until:
                pass

    busy: list[int] = []
    report = app.run(cycles=20, bus=bus)
    # From its beginning on the cycle covers at least nine that were due within 100 ms.
    assert report.overruns >= 1 and report.skipped >= 9
    assert report.run_time_ns.max >= 100_000_000
    assert report.outputs["out"].written == report.cycles
    assert report.outputs["out"].source == report.skipped


def test_another_thread_that_holds_the_interpreter_is_seen_in_the_statistics(bus: str) -> None:
    over = threading.Event()

    def compute() -> None:
        while not over.is_set():
            sum(range(1_000))

    slice_before = sys.getswitchinterval()
    sys.setswitchinterval(0.05)  # Time for which a computing thread may hold the interpreter, like a C extension.
    rival = threading.Thread(target=compute)
    rival.start()
    contended = ramp("test/contended", period="10ms")

    def met() -> Optional[tc.AppReport]:
        # The other one may be kept from its processor, too, and then holds nothing.
        report = contended.run(cycles=50, bus=bus)
        return report if report.interpreter_wait_ns.max >= 20_000_000 else None

    try:
        report = until(met, "a wait for the interpreter")
    finally:
        over.set()
        rival.join(WATCHDOG)
        sys.setswitchinterval(slice_before)
    assert report.run_time_ns.max >= report.interpreter_wait_ns.max
    assert report.overruns > 0 and report.skipped > 0, "a wait beyond the period is an overrun like any other"


def test_an_exception_ends_the_app_in_order_and_comes_out_with_the_report(bus: str) -> None:
    ready, accounts, blocks = threading.Event(), [], []  # type: ignore[var-annotated]
    reader = accounts_of("test/out", bus, ready, accounts, blocks)

    @tc.app("test/failing", outputs={"out": "test/out"})
    def app(cycle: tc.Cycle) -> None:
        cycle.out = 1.0
        if blocks:
            raise LookupError("no such pedal")

    with pytest.raises(LookupError, match="no such pedal") as raised:
        app.run(bus=bus)
    report = raised.value.report  # type: ignore[attr-defined]
    assert isinstance(report, tc.AppReport) and report.cycles >= 1
    assert any(entry.name == "app" for entry in raised.traceback), "the traceback leads to the function"
    reader.join(WATCHDOG)
    (account,) = accounts
    assert account["state"] == "closed" and account["balanced"]
    elements, made = account["elements"], report.outputs["out"]
    assert made.written == report.cycles - 1, "what the failed cycle wrote is not sent"
    assert elements["next"] == made.offered and elements["delivered"] > 0 and account["explained"]


def test_a_sample_that_does_not_fit_says_so(bus: str) -> None:
    def run(value: Any, dtype: str = "f8") -> Optional[BaseException]:
        @tc.app("test/unfit", outputs={"out": tc.Output("test/out", {"a": "", "b": ""}, dtype)})
        def app(cycle: tc.Cycle) -> None:
            cycle.out = value
            cycle.stop()

        try:
            app.run(bus=bus)
        except Exception as error:
            return error
        return None

    assert run([1, 2]) is None
    assert run({"b": 2, "a": 1}) is None
    assert run(None) is None
    assert "of shape [3], not [samples, 2]" in str(run([1, 2, 3]))
    assert "2 samples were written to `out`" in str(run([[1, 2], [3, 4]]))
    assert "the channels are a, b, not a" in str(run({"a": 1}))
    assert "convert the samples" in str(run([1.5, 2.5], "i16"))


def test_names_that_are_wrong_are_told(bus: str) -> None:
    @tc.app("test/names", inputs={"pedal": "a/b"}, outputs={"torque": "c/d"})
    def app(cycle: tc.Cycle) -> None:
        with pytest.raises(AttributeError, match="`brake` is not an input of this app\nits inputs are `pedal`"):
            cycle.brake
        with pytest.raises(AttributeError, match="`pedal` is not an output of this app\nits outputs are `torque`"):
            cycle.pedal = 1
        with pytest.raises(KeyError):
            cycle["force"] = 1
        with pytest.raises(LookupError, match="no sample has arrived yet"):
            cycle.pedal["x"]
        assert cycle.pedal.newest is None and cycle.pedal.freshness == "missed"
        cycle.stop()

    assert app.run(bus=bus).cycles == 1
    with pytest.raises(tc.ConfigError, match="`stop` is a reserved name"):
        tc.app("a", inputs={"stop": "x"})(lambda cycle: None)
    with pytest.raises(tc.ConfigError, match="`x` is an input and an output"):
        tc.app("a", inputs={"x": "x"}, outputs={"x": "y"})(lambda cycle: None)
    with pytest.raises(tc.ConfigError, match="not a duration"):
        tc.app("a", period="10 parsecs")(lambda cycle: None)
    with pytest.raises(tc.ConfigError, match="shorter than 50"):
        tc.app("a", period="1us")(lambda cycle: None).run(bus=bus)
    with pytest.raises(tc.ConfigError, match="invalid stream name"):
        tc.app("a b")(lambda cycle: None).run(bus=bus)
    with pytest.raises(tc.ConfigError, match="unsupported dtype"):
        tc.app("a", outputs={"x": tc.Output("x", dtype="g")})(lambda cycle: None)
    with pytest.raises(tc.ConfigError, match='choose "newest" or "all"'):
        tc.Input("x", take="some")


SCRIPT = """
import signal, sys, tallycast as tc
def hear(*of):
    global heard
    try:
        signal.default_int_handler(*of)
    finally:
        heard += 1
signal.signal(signal.SIGINT, hear)
@tc.app("test/endless", outputs={{"out": "test/out"}})
def app(cycle):
    global cycles
    cycle.out = 1.0
    cycles += 1
    if cycles == 3:
        print("running", flush=True)
    {more}
cycles = heard = 0
try:
    report = app.run(bus=sys.argv[1])
    print(report.interrupted, report.cycles == report.outputs["out"].written, flush=True)
except KeyboardInterrupt as error:
    print("raised", error.report.cycles > 0, flush=True)
"""

#: Never returns. A signal during the handling of the first one would merge with it, so the first one is confirmed by another
#: thread than the one that handles them: this one, of the app.
ENDLESS = """
    while cycles == 3 and heard == 0: pass
    if cycles == 3: print("heard", flush=True)
    while cycles == 3: pass
"""


@pytest.mark.parametrize(
    ("more", "said", "wanted"),
    [("", [], "True True"), (ENDLESS.strip(), ["heard"], "raised True")],
    ids=["between cycles", "in a function that does not return"],
)
def test_ctrl_c_ends_an_app_in_order(bus: str, more: str, said: list[str], wanted: str) -> None:
    script = textwrap.dedent(SCRIPT).format(more=more)
    process = subprocess.Popen([sys.executable, "-c", script, bus], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    watchdog = threading.Timer(WATCHDOG, process.kill)
    watchdog.start()
    try:
        for line in ["running", *said]:
            assert process.stdout.readline().strip() == line
            process.send_signal(signal.SIGINT)
        assert process.stdout.readline().strip() == wanted
        process.wait(WATCHDOG)
    finally:
        watchdog.cancel()
        process.kill()
        process.wait()


def test_apps_are_shown_by_the_command(bus: str) -> None:
    over, is_fed = threading.Event(), threading.Event()

    @tc.app("test/shown", inputs={"ramp": "test/ramp"}, outputs={"out": "test/out"})
    def shown(cycle: tc.Cycle) -> None:
        cycle.out = 1.0
        if cycle.ramp.newest is not None:
            is_fed.set()
        if over.is_set():
            cycle.stop()

    source = ramp(period="10ms", over=over)
    ends: list[Any] = []
    threads = [
        threading.Thread(target=lambda: ends.append(shown.run(bus=bus))),
        threading.Thread(target=lambda: ends.append(source.run(bus=bus))),
    ]
    for thread in threads:
        thread.start()
    try:
        assert is_fed.wait(WATCHDOG), "both are running"
        told = subprocess.run(
            [BIN, "apps", "--json", "--bus", bus], capture_output=True, text=True, timeout=WATCHDOG, check=False
        )
    finally:
        over.set()
        for thread in threads:
            thread.join(WATCHDOG)
    import json

    apps = {app["app"]: app for app in map(json.loads, told.stdout.splitlines())}
    assert set(apps) == {"test/shown", "test/source"}, told.stderr
    assert apps["test/shown"]["pid"] == os.getpid() and apps["test/shown"]["period_ns"] == 10_000_000
    assert apps["test/shown"]["inputs"][0]["feeder"] == "test/source"
    assert len(ends) == 2


def test_a_duration_is_so_many_periods(bus: str) -> None:
    report = ramp(period="10ms").run(duration="200ms", bus=bus)
    assert report.cycles + report.skipped >= 20 and report.cycles <= 20


def test_durations_are_written_as_people_do() -> None:
    assert nanoseconds("50us") == nanoseconds("50µs") == 50_000
    assert nanoseconds("2.5s") == nanoseconds(2.5) == nanoseconds(timedelta(seconds=2.5)) == 2_500_000_000
    assert nanoseconds("0.1ms") == 100_000 and nanoseconds("8h") == 8 * 3_600_000_000_000
    assert nanoseconds("10 min") == nanoseconds("10m") == 600_000_000_000 and nanoseconds(".5s") == 500_000_000
    for wrong in ("10", "ms", "10 parsecs", "-1s", float("nan"), -1, None, "1.5.2s"):
        with pytest.raises(ValueError):
            nanoseconds(wrong)  # type: ignore[arg-type]


def test_images_and_channels_of_several_shapes_go_through_an_app(bus: str) -> None:
    image = {"image": tc.Channel("", (2, 3))}
    several = {"image": tc.Channel("", (2, 3)), "gain": "dB"}
    over = threading.Event()
    seen: list[Any] = []

    @tc.app(
        "test/camera",
        period="5ms",
        outputs={"one": tc.Output("cam/one", image, "u16"), "both": tc.Output("cam/both", several, np.uint16)},
    )
    def camera(cycle: tc.Cycle) -> None:
        if over.is_set():
            cycle.stop()
        cycle.one = np.arange(6).reshape(2, 3)
        cycle.both = {"gain": 7, "image": np.arange(6).reshape(2, 3)}

    @tc.app("test/viewer", inputs={"one": "cam/one", "both": "cam/both"})
    def viewer(cycle: tc.Cycle) -> None:
        if cycle.one.newest is not None and cycle.both.newest is not None:
            seen.extend([cycle.one.newest, cycle.both.newest, cycle.both["image"], cycle.both["gain"], cycle.both.schema])
            cycle.stop()

    with running(camera, bus, over):
        viewer.run(duration=WATCHDOG, bus=bus)
    one, both, picture, gain, schema = seen
    assert one.dtype == np.uint16 and one.tolist() == picture.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert both.tolist() == [0, 1, 2, 3, 4, 5, 7] and gain == 7 and schema.channel("gain").unit == "dB"
