"""Common parts of the bridges: rates, settings in TOML, the inbox, the order at the end, and missing packages."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import threading
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import tallycast as tc
from places import WATCHDOG
from tallycast.bridges import _entries, _run, epics, files, mqtt, stdin


def test_rates_are_read_as_everywhere() -> None:
    assert [_entries.rate(it) for it in ("360", "48k", "2.5M", "1000/3", 10, 0.5)] == [
        360,
        48_000,
        2_500_000,
        Fraction(1000, 3),
        10,
        Fraction(1, 2),
    ]
    for text in ("", "k", "fast", "1/0", "0", "-1"):
        with pytest.raises(argparse.ArgumentTypeError):
            _entries.rate(text)


def test_settings_say_which_key_nobody_knows(tmp_path: Path) -> None:
    known = {"in": frozenset({"pv"})}
    path = tmp_path / "bridge.toml"
    path.write_text('[[in]]\npv = "A"\n')
    assert _entries.settings(str(path), known) == {"in": [{"pv": "A"}]}
    for text, word in (
        ('[[in]]\npvs = "A"\n', "pvs"),
        ("[[out]]\n", "out"),
        ("[in]\n", "in"),
        ("in = 1\n", "in"),
        ("[[in\n", "TOML"),
    ):
        path.write_text(text)
        with pytest.raises(tc.ConfigError, match=word):
            _entries.settings(str(path), known)


def test_what_does_not_fit_into_the_inbox_is_counted_for_its_sender() -> None:
    inbox: _run.Inbox[str] = _run.Inbox(bound=2)
    for sender, event in ((1, "a"), (2, "b"), (1, "lost"), (1, "lost"), (2, "lost")):
        inbox.put(sender, event)
    assert [inbox.get(0), inbox.get(0), inbox.get(0)] == [(1, 0, "a"), (2, 0, "b"), False]
    inbox.put(1, "c")
    inbox.put(2, "d")
    inbox.stop()
    assert [inbox.get(0), inbox.get(0), inbox.get(0)] == [(1, 2, "c"), (2, 1, "d"), None]


def test_a_signal_may_stop_what_waits_at_any_moment() -> None:
    program = (
        "import random, signal\n"
        "from tallycast.bridges._run import Stopping\n"
        "signal.signal(signal.SIGALRM, lambda *_: stopping.set())\n"
        "for _ in range(5_000):\n"
        "    stopping = Stopping()\n"
        "    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-6, 2e-4))\n"
        "    while not stopping.wait(1e-5):\n"
        "        pass\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=WATCHDOG)


class Direction(_run.Direction):
    """A direction that records its calls."""

    def __init__(self, log: list[str], name: str, *, fails: bool = False, balanced: bool = True) -> None:
        self._log, self._name, self._fails, self._balanced = log, name, fails, balanced

    def finish(self) -> None:
        self._log.append(f"{self._name} finishes")
        if self._fails:
            raise tc.BridgeError(f"{self._name} cannot")

    def accounts(self) -> list[dict[str, Any]]:
        self._log.append(f"{self._name} reports")
        return [{"way": "in", "peer": self._name, "balanced": self._balanced}]


def test_every_way_ends_and_has_its_account_whatever_fails(capsys: pytest.CaptureFixture[str]) -> None:
    def accounts() -> list[str]:
        return [json.loads(line)["peer"] for line in capsys.readouterr().out.splitlines()]

    def work() -> None:
        log.append("work")

    def broken() -> None:
        raise tc.BridgeError("no peer")

    reporter, log = _run.Reporter("test", as_json=True), list[str]()
    in_order = ["out finishes", "in finishes", "out reports", "in reports"]
    assert _run.conclude(work, [Direction(log, "out"), Direction(log, "in")], reporter) == 0
    assert log == ["work", *in_order] and accounts() == ["out", "in"]
    assert _run.conclude(work, [Direction(log, "in", balanced=False)], reporter) == 1
    for end, directions, message in (
        (broken, [Direction(log, "out", fails=True), Direction(log, "in")], "no peer"),
        (work, [Direction(log, "out", fails=True), Direction(log, "in")], "out cannot"),
    ):
        log.clear(), accounts()
        with pytest.raises(tc.BridgeError, match=message):
            _run.conclude(end, directions, reporter)
        assert [it for it in log if it != "work"] == in_order and accounts() == ["out", "in"]


def test_a_duration_ends_a_bridge_as_a_signal_does() -> None:
    for bridge, entry in ((files, "a.csv=lab/a"), (epics, "--pv=A=lab/a"), (mqtt, "--topic=a=lab/a")):
        assert [bridge.parse([*words, entry]).duration for words in ((), ("-t", "1.5s"), ("--duration=2min",))] == [
            None,
            1.5,
            120.0,
        ]
        with pytest.raises(SystemExit) as ended:
            bridge.parse(["--duration=soon", entry])
        assert ended.value.code == 2
    before = [signal.getsignal(it) for it in (signal.SIGINT, signal.SIGTERM)]
    ended_now = threading.Event()
    try:
        _run.on_end(ended_now.set, 1e-3)
        assert ended_now.wait(WATCHDOG)
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before):
            signal.signal(number, handler)


def test_words_of_an_entry_are_those_that_are_known() -> None:
    assert _entries.one_of({}, "qos", (0, 1, 2), 1) == 1 and _entries.one_of({"qos": 0}, "qos", (0, 1, 2), 1) == 0
    with pytest.raises(tc.ConfigError, match='invalid qos = "3"\nuse one of 0, 1, 2'):
        _entries.one_of({"qos": 3}, "qos", (0, 1, 2), 1)
    for entry in ({"rate": "fast"}, {"rate": 0}, {"thin": "median"}):
        with pytest.raises(tc.ConfigError):
            _entries.thinner(entry)


def test_a_package_that_is_not_there_is_named_with_its_extra() -> None:
    with pytest.raises(tc.MissingPackage, match=r"tallycast\[epics\]"):
        _run.needed("a_module_that_nobody_has", "epics")


def test_what_is_in_the_file_and_on_the_command_line_comes_together(tmp_path: Path) -> None:
    path = tmp_path / "bridge.toml"
    path.write_text('[[in]]\npv = "A"\nstream = "lab/a"\nexpect = 5\n')
    words = ["--pv=B=lab/b", "--rate=2k", "--serve=lab/c:u=C", "--out-rate=3", "--steer=D=lab/magnet:current"]
    incoming, outgoing, parameters = epics.entries(epics.parse(["--config", str(path), *words]))
    assert incoming == [{"pv": "A", "stream": "lab/a", "expect": 5}, {"pv": "B", "stream": "lab/b", "rate": 2_000}]
    assert outgoing == [{"stream": "lab/c", "channel": "u", "pv": "C", "rate": 3}]
    assert parameters == [{"pv": "D", "app": "lab/magnet", "name": "current"}]


def test_a_parameter_has_an_app_and_a_name_of_its_own() -> None:
    for words, said in ((["--steer=A=current"], "write it as APP:NAME"), (["--steer=A=lab/m:u", "--steer=B=lab/m:u"], "two parameters")):
        with pytest.raises(tc.ConfigError, match=said):
            epics.entries(epics.parse(words))


def test_every_command_refuses_what_cannot_be() -> None:
    for bridge, arguments in ((epics, ["--pv=x=lab/a", "--flatten=0"]), (mqtt, ["--qos=3"])):
        with pytest.raises(SystemExit) as ended:
            bridge.main(arguments)
        assert ended.value.code == 2
    assert files.main([]) == 2
    assert files.main(["a.h5=lab/a"]) == 2


def test_standard_input_is_lines_unless_a_dtype_says_that_it_is_raw() -> None:
    assert stdin.arguments(["--rate", "1", "lab/a"]) == ["pub", "--stdin", "lines", "--rate", "1", "lab/a"]
    assert stdin.arguments(["--dtype=i16", "lab/a"]) == ["pub", "--stdin", "raw", "--dtype=i16", "lab/a"]
    assert stdin.arguments(["--stdin", "lines", "--dtype", "i16", "lab/a"]) == [
        "pub",
        "--stdin",
        "lines",
        "--dtype",
        "i16",
        "lab/a",
    ]
    assert stdin.arguments(["lab/a", "--help"]) == ["pub", "--help"]
