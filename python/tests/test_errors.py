"""Every error of a public function is one of ours, whatever it is called with; and the help lists all of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from places import Place
from tallycast.archive import Archive

#: Arguments that hardly any parameter takes.
JUNK: tuple[Any, ...] = (
    object(), "\0", "no such thing", -1, 1.5, float("nan"), 2**70, b"x", [], {"a": 1}, (None,), np.zeros((2, 2, 2)), len,
)  # fmt: skip

ERRORS = {name: it for name, it in vars(tc).items() if isinstance(it, type) and issubclass(it, tc.Error)}
#: What is data, or is made by the functions below, or begins with what they check.
NOT_CALLED = {
    "Account", "App", "AppReport", "Applied", "Block", "Change", "Channel", "Chunk", "Cycle", "FileStream", "FileStreams", "Gap", "Lease",
    "Listener", "MarkedRun", "Monitor", "News", "Output", "Parameters", "Received", "Recorder", "Remote", "RemoteParameter", "Schema", "Steering",
    "StoredRun", "StreamInfo", "now_ns", *ERRORS,
}  # fmt: skip


def only_ours(call: Callable[..., Any], parameters: list[str], **valid: Any) -> None:
    """Calls with one strange argument at a time; what is opened is closed."""
    for name in parameters:
        for junk in JUNK:
            try:
                made = call(**{**valid, name: junk})
            except tc.Error as error:
                assert "\n" in str(error) or len(str(error)) > 10, (call, name, junk, error)
                continue
            except Exception as error:
                raise AssertionError(f"{call}({name}={junk!r}) raised {type(error).__name__}: {error}") from error
            if hasattr(made, "close"):
                made.close()


def parameters_of(call: Any, *without: str) -> list[str]:
    named = [it for it in inspect.signature(call).parameters.values() if it.kind in (it.POSITIONAL_OR_KEYWORD, it.KEYWORD_ONLY)]
    return [it.name for it in named if it.name not in {"self", "cls", *without}]


def test_errors_are_where_people_of_python_expect_them() -> None:
    for error, expected in {
        tc.ConfigError: ValueError, tc.ArgumentError: TypeError, tc.UnknownChannel: KeyError, tc.UnknownPort: AttributeError,
        tc.NotStored: KeyError, tc.MomentError: ValueError, tc.MissingPackage: ImportError, tc.NoSample: LookupError,
    }.items():  # fmt: skip
        assert issubclass(error, tc.Error) and issubclass(error, expected)
        assert str(error("one\ntwo")) == "one\ntwo"


def test_the_help_lists_every_error_with_what_it_is() -> None:
    lines = inspect.getdoc(tc.Error).splitlines()  # type: ignore[union-attr]
    first, second = (at for at, letter in enumerate(lines[2]) if letter == " " and lines[2][at + 1] == "=")
    rows = [(line[:first].strip(), line[first:second].split(",")) for line in lines[5:-1]]
    told = {name: {it.strip() for it in parents} - {""} for name, parents in rows}
    real = {name: {it.__name__ for it in error.__bases__} - {"Error"} for name, error in ERRORS.items() if name != "Error"}
    assert told == real


def test_every_public_name_is_walked() -> None:
    walked = {
        "Input", "Parameter", "Publisher", "Subscriber", "account", "app", "bus_of", "monitor", "open_archive", "operator", "read_file",
        "record", "run", "steer", "steering", "streams",
    }  # fmt: skip
    assert set(tc.__all__) - {"__version__"} == walked | NOT_CALLED


def test_functions_raise_errors_of_ours_alone(shm: Place, tmp_path: Path) -> None:
    bus = shm.publishers
    publisher = parameters_of(tc.Publisher.__new__, "on_demand", "own_times", "clock")
    only_ours(tc.Publisher, publisher, name="lab/a", rate=1, bus=bus)
    subscriber = parameters_of(tc.Subscriber.__new__, "newest", "until_end", "views")
    only_ours(lambda **given: tc.Subscriber("lab/a", **given), subscriber, bus=bus)
    only_ours(lambda pattern: tc.Subscriber(pattern, bus=bus), ["pattern"])
    only_ours(tc.streams, ["timeout", "bus"], timeout=0.0, bus=bus)
    only_ours(tc.account, ["pattern", "duration", "bus"], pattern="lab/a", duration=0.0, bus=bus)
    only_ours(tc.bus_of, ["bus"])
    only_ours(tc.open_archive, ["path", "run", "damaged"], path=tmp_path)
    only_ours(tc.read_file, ["path", "time"], path=tmp_path / "run.mat")
    only_ours(tc.Input, ["take"], stream="lab/a")
    only_ours(tc.Parameter, parameters_of(tc.Parameter, "administered"), value=1.0)
    only_ours(tc.steer, ["app", "address", "timeout", "bus"], app="lab/a", timeout=0.0, bus=bus)
    begin: dict[str, Any] = {"name": "lab/a", "epoch": "1-0000000000000001", "log": tmp_path / "log", "listen": "127.0.0.1:0", "bus": bus}
    only_ours(lambda it=1.0, **given: tc.steering(parameters={"a": it}, **given), ["it", "name", "epoch", "listen", "bus"], **begin)
    only_ours(lambda it: tc.steering(parameters=it, **begin), ["it"])
    only_ours(lambda pattern: tc.record(pattern, path=tmp_path, bus="http://x"), ["pattern"])
    only_ours(lambda **given: tc.record("lab/*", bus="http://x", **given), ["path", "run", "duration", "reader"])
    only_ours(tc.run, ["id", "labels", "wait"], id="shot-1", wait=0, bus="http://x")
    only_ours(lambda **given: tc.monitor("lab/*", bus="http://x", **given), ["listen", "archive"])


def test_methods_raise_errors_of_ours_alone(shm: Place) -> None:
    with shm.publisher("lab/a", {"u": "V", "v": "A"}, "i2", rate=1_000) as publisher:
        only_ours(publisher.send, ["block", "t0_ns", "times"], block=[[1, 2]])
        only_ours(publisher.send_when_due, ["block"])
        only_ours(publisher.skip, ["samples"])
        only_ours(publisher.set_loss, ["probability"])
        only_ours(publisher.wait_for_readers, ["count", "timeout"], count=0, timeout=0.0)
        only_ours(publisher.schema.channel, ["name"])
        with tc.Subscriber("lab/a", bus=shm.readers) as subscriber:
            only_ours(subscriber.read, ["timeout"])
            only_ours(subscriber.add, ["pattern"])
            only_ours(subscriber.remove, ["pattern"])
            only_ours(subscriber.pull_chunk, ["timeout", "max_samples"])


def test_methods_of_steering_raise_errors_of_ours_alone(shm: Place, tmp_path: Path) -> None:
    begin: dict[str, Any] = {"epoch": "1-0000000000000001", "log": tmp_path / "log", "listen": "127.0.0.1:0", "bus": shm.publishers}
    with tc.steering("lab/a", {"a": 1.0}, **begin) as steering:
        only_ours(steering.step, ["index", "time_ns"], index=0, time_ns=0)
        with tc.steer("lab/a", address=steering.address, bus=shm.publishers) as remote:
            only_ours(remote.set, ["name", "if_revision", "reason", "valid"], name="a", value=1.0, valid=0.01)
            only_ours(lambda value: remote.set("a", value, valid=0.01), ["value"])
            only_ours(remote.stop, ["reason"])
            only_ours(remote.resume, ["reason"])
            only_ours(lambda group: remote.lease(group).__enter__(), ["group"])


def test_methods_of_archives_raise_errors_of_ours_alone(compacted: Archive, tmp_path: Path) -> None:
    stream = compacted["lab/probe-f8"]
    excerpt = stream.between()
    only_ours(compacted.run, ["name"])
    only_ours(lambda name: compacted[name], ["name"])
    only_ours(stream.epoch, ["epoch"])
    only_ours(stream.between, ["t0", "t1", "points", "channel", "element"], points=10, channel="current")
    only_ours(stream.samples, ["first", "end", "epoch"], first=0, end=1)
    only_ours(excerpt.values, ["channel"])
    only_ours(excerpt.line, ["channel", "element"], channel="current")
    only_ours(excerpt.missing_of, ["channel"])
    only_ours(lambda name: excerpt[name], ["name"])


@pytest.mark.parametrize("call", [tc.app, tc.operator])
def test_decorators_raise_errors_of_ours_alone(call: Any) -> None:
    def function(*_: object) -> None:
        return None

    only_ours(lambda **given: call(**given)(function), parameters_of(call, "what"), **({"name": "a"} if call is tc.app else {}))
