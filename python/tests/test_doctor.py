"""The doctor's loop from Python: what it plans, and that it changes nothing without consent."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tallycast as tc
from tallycast import doctor


@pytest.fixture
def reader() -> Iterator[socket.socket]:
    """A socket that nothing reads and that holds a few datagrams."""
    with socket.socket(type=socket.SOCK_DGRAM) as reader:
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
        reader.bind(("127.0.0.1", 0))
        yield reader


@pytest.fixture
def port(reader: socket.socket) -> Iterator[int]:
    """Its port, to which a thread sends without end."""
    over = threading.Event()

    def send() -> None:
        with socket.socket(type=socket.SOCK_DGRAM) as writer:
            while not over.wait(0.001):
                writer.sendto(bytes(1_000), reader.getsockname())

    thread = threading.Thread(target=send)
    thread.start()
    yield reader.getsockname()[1]
    over.set()
    thread.join()


def test_a_change_without_consent_is_planned_and_not_made(reader: socket.socket, port: int, tmp_path: Path) -> None:
    def state() -> tuple[int, int]:
        return reader.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF), os.getpriority(os.PRIO_PROCESS, 0)

    before = state()
    plans: list[doctor.Step] = []
    journal = tmp_path / "doctor.jsonl"
    done = doctor.fix(plans.append, ports=[port], window="1s", journal=journal)
    (plan,) = (plan for plan in plans if str(port) in plan["place"])
    # On a busy machine the reader waits for a processor, and its niceness is what is tried first.
    assert plan["stage"] == "receiver_socket_buffer" and plan["lost"] > 0 and plan["change"]["kind"] in ("receive_buffer", "niceness")
    assert done.steps[0] == {"event": "watching", "sockets": 1, "seconds": 1.0} and plan in done.steps
    assert not done.fixed and "proof" not in {step["event"] for step in done.steps}
    assert state() == before and journal.read_text() == ""


def test_an_exception_of_the_caller_ends_it_before_anything_is_changed(reader: socket.socket, port: int, tmp_path: Path) -> None:
    def consents(plan: doctor.Step) -> bool:
        raise KeyError(plan["event"])

    with pytest.raises(KeyError, match="plan"):
        doctor.fix(consents, ports=[port], window="1s", journal=tmp_path / "doctor.jsonl")


def test_without_a_sound_journal_nothing_is_tried(port: int, tmp_path: Path) -> None:
    journal = tmp_path / "doctor.jsonl"
    journal.write_text("nonsense\n")
    with pytest.raises(tc.DoctorError, match="line 1 of the journal"):
        doctor.fix(lambda plan: True, ports=[port], window="1s", journal=journal)
