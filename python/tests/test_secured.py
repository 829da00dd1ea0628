"""Streams of a bus with keys: read by members alone, never in clear, never from a forked child."""

from __future__ import annotations

import json
import logging
import multiprocessing
import subprocess
import urllib.error
import urllib.request
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tallycast as tc
from places import WATCHDOG, Place, check_in_order, command, joined_elements, until, wait_until_joined


def keys(folder: Path, station: str = "daq-1") -> Path:
    """Makes a laboratory with one station; returns its file of keys."""
    subprocess.run([command(), "keys", "new", str(folder), "--station", station], check=True, capture_output=True)
    return folder / f"{station}.keys"


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """The file of keys of a station."""
    return keys(tmp_path / "keys")


def secured(place: Place, file: Path) -> str:
    """The bus of a place, with keys."""
    return f"{place.publishers}&keys={file}"


def joined(bus: str, name: str) -> tc.Subscriber:
    subscriber = tc.Subscriber(name, bus=bus, until_end=True, timeout=WATCHDOG)
    wait_until_joined(subscriber)
    return subscriber


def test_a_secured_stream_arrives_whole_and_outsiders_get_nothing(udp: Place, lab: Path, tmp_path: Path) -> None:
    bus = secured(udp, lab)
    other = secured(udp, keys(tmp_path / "other"))
    outsiders = [tc.Subscriber("**", bus=outside) for outside in (udp.readers, other)]
    values = np.arange(20_000, dtype="f4")
    with udp.publisher("lab/probe", {"u": "V"}, dtype="f4", rate=100_000, bus=bus) as publisher:
        subscriber = joined(bus, "lab/probe")
        publisher.send(values)
    np.testing.assert_array_equal(joined_elements(list(subscriber))[:, 0], values)
    check_in_order(subscriber.close(), len(values))
    for outsider in outsiders:
        assert outsider.read(0.1) is None and outsider.close() == []


def test_the_level_of_streams_is_listed(udp: Place, lab: Path) -> None:
    for bus, level in ((udp.readers, "clear"), (secured(udp, lab), "group")):
        with udp.publisher("lab/probe", rate=1_000, bus=bus):
            (stream,) = until(partial(tc.streams, 1.2, bus), "the stream")
            assert (stream.name, stream.level) == ("lab/probe", level)


@pytest.mark.parametrize("said", ["publisher", "bus"])
def test_a_recording_of_a_stream_published_with_proof_is_proven(said: str, udp: Place, lab: Path, tmp_path: Path) -> None:
    bus, archive = secured(udp, lab), tmp_path / "archive"
    record = [command(), "record", "lab/probe", "--run", "r", "--archive", str(archive), "--until-end", "--json", "--bus", bus]
    with subprocess.Popen(record, stdout=subprocess.PIPE, text=True) as recorder:
        try:
            assert recorder.stdout is not None and json.loads(recorder.stdout.readline())["event"] == "recording"
            options: dict[str, Any] = {"proof": True} if said == "publisher" else {"bus": f"{bus}&proof=on"}
            with udp.publisher("lab/probe", {"u": "V"}, **{"dtype": "f4", "rate": 100_000, "bus": bus, **options}) as publisher:
                publisher.wait_for_readers(timeout=WATCHDOG)
                # Three intervals of a second, of which the last is not full.
                for first in range(0, 250_000, 10_000):
                    publisher.send_when_due(np.arange(first, first + 10_000, dtype="f4"))
            told = [json.loads(line) for line in recorder.communicate(timeout=WATCHDOG)[0].splitlines()]
        finally:
            recorder.kill()
    assert [line["state"] for line in told if line["event"] == "account"] == ["closed"], told

    def verified(authority: Path) -> tuple[int, list[dict[str, Any]]]:
        ask = [command(), "query", str(archive), "lab/probe", "--run", "r", "--verify", "--json", "--authority", str(authority)]
        answer = subprocess.run(ask, capture_output=True, text=True)
        return answer.returncode, [json.loads(line) for line in answer.stdout.splitlines()]

    code, lines = verified(lab)
    summary = lines.pop()
    assert code == 0 and summary["whole"] and summary["end_stated"] and summary["station"] == "daq-1", summary
    assert (summary["proven"], summary["refused"]) == (3, 0), summary
    # By the authority of another laboratory nothing is.
    code, lines = verified(keys(tmp_path / "other"))
    assert code == 1 and not lines[-1]["whole"] and lines[-1]["proven"] == 0, lines


def test_keys_that_others_may_read_or_of_no_use_are_refused_with_the_remedy(udp: Place, lab: Path) -> None:
    lab.chmod(0o640)
    with pytest.raises(tc.ConfigError, match="chmod 600"):
        tc.Publisher("lab/probe", rate=1_000, bus=secured(udp, lab))
    lab.chmod(0o600)
    with pytest.raises(tc.ConfigError, match="authority"):
        tc.Subscriber("lab/*", bus=secured(udp, lab.with_name("lab.authority")))
    for broken, words in ((lab.with_name("none.keys"), "none.keys"), (lab, "line")):
        if broken.exists():
            broken.write_text("format = 1\nlaboratory = \n")
        with pytest.raises(tc.ConfigError, match=words) as refused:
            tc.Publisher("lab/probe", rate=1_000, bus=secured(udp, broken))
        assert "\n" in str(refused.value), "a second line says what to do"


def test_a_clear_stream_of_the_same_name_is_refused_and_told_once(
    udp: Place, lab: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bus = secured(udp, lab)
    caplog.set_level(logging.WARNING, "tallycast")
    subscriber = tc.Subscriber("lab/probe", bus=bus)
    told = lambda: [it for it in caplog.messages if "are refused (clear): this bus is secured" in it]  # noqa: E731
    with udp.publisher("lab/probe", rate=1_000) as publisher:

        def is_told() -> bool:
            publisher.send([1.0])
            assert subscriber.read(0.05) is None
            return bool(told())

        until(is_told, "the refusal")
        assert subscriber.read(1.5) is None, "announcements come once a second"
    assert len(told()) == 1 and "bus option keys=FILE" in told()[0]
    assert subscriber.close() == []


def in_child(publisher: tc.Publisher, told: Connection) -> None:
    """What a child does with its parent's stream."""
    try:
        publisher.send(np.full(1_000, 7.0))
        told.send("sent")
    except tc.ForkError as error:
        told.send(str(error))


def test_a_forked_child_sends_nothing_on_its_parents_secured_stream(udp: Place, lab: Path) -> None:
    bus = secured(udp, lab)
    publisher = udp.publisher("lab/probe", rate=100_000, bus=bus)
    subscriber = joined(bus, "lab/probe")
    publisher.send(np.zeros(1_000))
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    child = context.Process(target=in_child, args=(publisher, there))
    child.start()
    assert here.poll(WATCHDOG) and "open it in the child" in here.recv()
    child.join(WATCHDOG)
    assert child.exitcode == 0
    publisher.send(np.zeros(1_000))
    assert publisher.close()["samples"]["offered"] == 2_000
    assert not joined_elements(list(subscriber)).any()
    account = check_in_order(subscriber.close(), 2_000)
    assert "unauthentic" not in account


def test_a_monitor_of_a_secured_bus_shows_its_streams_to_who_signs_in(udp: Place, lab: Path, tmp_path: Path) -> None:
    bus, access = secured(udp, lab), tmp_path / "access"
    access.mkdir(mode=0o700)
    (access / "access").write_text("allow token:desk read **\n")
    (access / "access").chmod(0o600)
    new = [command(), "access", "--access", str(access), "token", "new", "desk", "--may", "read"]
    token = subprocess.run(new, check=True, capture_output=True, text=True).stdout.strip()
    with tc.monitor("lab/*", bus=bus, access=access) as monitor, udp.publisher("lab/probe", rate=1_000, bus=bus):
        ask = urllib.request.Request(f"{monitor.url}api/streams", headers={"Authorization": f"Bearer {token}"})

        def listed() -> list[tuple[str, str]]:
            with urllib.request.urlopen(ask) as answer:
                return [(it["stream"], it["level"]) for it in json.load(answer)["streams"]]

        assert until(listed, "the stream") == [("lab/probe", "group")]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{monitor.url}api/streams")
