"""Recording and serving the page from Python: the command as a child, which is heard and ends in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import tallycast as tc
from bridge_peers import PACKAGE
from places import Place, command, until


@pytest.fixture(autouse=True)
def the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYCAST_BIN", str(Path(command()).resolve()))


def test_a_recording_has_the_first_sample_and_gives_its_account(place: Place, tmp_path: Path) -> None:
    samples = np.arange(1_000.0)
    with tc.record("lab/*", path=tmp_path, run="shot-7", bus=place.readers) as recorder:
        assert recorder.is_running and (recorder.run, recorder.path) == ("shot-7", tmp_path)
        with place.publisher("lab/recorded", {"u": "V"}, "f8", rate=10_000) as publisher:
            publisher.send(samples)
        until(lambda: "lab/recorded" in recorder.archive and recorder.archive["lab/recorded"].recordings[0].state == "closed")
        assert recorder.accounts == []
    assert not recorder.is_running
    (account,) = recorder.stop()
    assert (account.stream, account.delivered, account.unexplained) == ("lab/recorded", len(samples), 0)
    stored = recorder.archive["lab/recorded"].between()
    assert stored.array[:, 0].tolist() == samples.tolist() and len(stored.gaps) == 0
    assert recorder.archive["lab/recorded"].recordings[0].first_index == 0


def test_a_recording_ends_by_itself_with_its_streams(shm: Place, tmp_path: Path) -> None:
    recorder = tc.record("lab/*", path=tmp_path, run="r", until_end=True, bus=shm.readers)
    with shm.publisher("lab/ends", rate=1_000) as publisher:
        publisher.send([1.0, 2.0])
    assert [account.delivered for account in recorder.wait()] == [2]
    assert not recorder.is_running and recorder.stop() == recorder.accounts


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"run": "no/such name"}, "no/such name"),
        ({"path": "/proc/nowhere"}, "/proc/nowhere"),
        ({"bus": "shm://x?speed=3"}, "speed"),
    ],
)
def test_what_cannot_be_recorded_is_told_in_the_words_of_the_command(
    shm: Place, tmp_path: Path, arguments: dict[str, str], text: str
) -> None:
    with pytest.raises(tc.CommandError, match=text):
        tc.record("lab/*", **{"path": str(tmp_path), "run": "r", "bus": shm.readers, **arguments})


def test_a_missing_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYCAST_BIN", "/nowhere/tallycast")
    with pytest.raises(tc.CommandError, match="cannot run /nowhere/tallycast"):
        tc.record("lab/*")
    for patterns in ((1,), ("--help",), (None,)):
        with pytest.raises(tc.ArgumentError):
            tc.record(*patterns)  # type: ignore[arg-type]


def test_the_page_is_served_until_the_block_is_left(shm: Place) -> None:
    with tc.monitor("lab/*", bus=shm.readers) as monitor:
        with shm.publisher("lab/seen", rate=1_000) as publisher:
            publisher.send([1.0])

            def listed() -> bool:
                with urllib.request.urlopen(f"{monitor.url}api/streams") as answer:
                    return "lab/seen" in json.dumps(json.load(answer))

            until(listed)
        assert monitor.url in monitor._repr_html_()
    assert not monitor.is_running and [account.stream for account in monitor.accounts] == ["lab/seen"]


def test_beyond_loopback_the_page_is_encrypted(shm: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with tc.monitor(listen="0.0.0.0:0", bus=shm.readers) as monitor:
        assert monitor.url.startswith("https://localhost:")


def test_the_page_has_users_and_a_certificate_when_asked_for(
    shm: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    access = tmp_path / "access"
    access.mkdir()
    (access / "access").write_text("deny anyone read **\n")
    (access / "access").chmod(0o644)
    with tc.monitor(bus=shm.readers, access=access) as monitor:
        assert monitor.url.startswith("http://127.0.0.1:") and monitor.fingerprint is None
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{monitor.url}api/streams")
    with tc.monitor(bus=shm.readers, tls="auto") as monitor:
        assert monitor.url.startswith("https://127.0.0.1:")
        assert monitor.fingerprint is not None and len(monitor.fingerprint) == 95
    # Of one file with both, as the authority's own is.
    authority = next((tmp_path / "state").rglob("authority.pem"))
    with tc.monitor(bus=shm.readers, tls=(authority, authority)) as monitor:
        assert monitor.url.startswith("https://") and monitor.fingerprint is None


def test_an_open_page_in_clear_must_be_asked_for(shm: Place) -> None:
    with pytest.raises(tc.CommandError, match="--insecure"):
        tc.monitor(listen="0.0.0.0:0", tls="off", bus=shm.readers)
    with tc.monitor(listen="0.0.0.0:0", tls="off", insecure=True, bus=shm.readers) as monitor:
        assert monitor.url.startswith("http://localhost:")
    for wrong in ("on", ("a.crt",), ("a,b.crt", "a.key"), (1, 2)):
        with pytest.raises(tc.ArgumentError):
            tc.monitor(tls=wrong, bus=shm.readers)  # type: ignore[arg-type]


def test_an_older_command_is_told_apart_from_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    older = tmp_path / "tallycast"
    older.write_text("""#!/bin/sh\necho '{"event": "listening", "address": "127.0.0.1:1"}'\nexec cat\n""")
    older.chmod(0o755)
    monkeypatch.setenv("TALLYCAST_BIN", str(older))
    with pytest.raises(tc.CommandError, match="older than this package"):
        tc.monitor()


def test_a_browser_is_opened_when_asked_for(shm: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with tc.monitor(bus=shm.readers, open_browser=True) as monitor:
        assert opened == [monitor.url]


def test_a_recording_ends_with_a_program_that_is_killed(shm: Place, tmp_path: Path) -> None:
    script = f"""
import os, signal, tallycast as tc
recorder = tc.record("lab/*", path={str(tmp_path)!r}, run="r", bus={shm.readers!r})
print(recorder._child._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    told = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": PACKAGE}, stdout=subprocess.PIPE, check=False
    )
    recorder = int(told.stdout)
    until(lambda: not Path(f"/proc/{recorder}").exists() or "Z" in Path(f"/proc/{recorder}/stat").read_text().split(")")[1])
