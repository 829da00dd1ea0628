"""The command `tallycast` as a child process: found, started, heard, and ended in order."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sysconfig
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from tallycast import _open_handles
from tallycast._errors import CommandError

#: Lines of standard error that are kept for the text of an error.
_KEPT_LINES = 20

_log = logging.getLogger("tallycast")


def find_command() -> str:
    """Returns the path of the command: the variable TALLYCAST_BIN, next to this interpreter, or in `PATH`.

    Raises:
        CommandError: if there is none.
    """
    named = os.environ.get("TALLYCAST_BIN")
    beside = Path(sysconfig.get_path("scripts")) / "tallycast"
    found = named or (str(beside) if beside.is_file() else shutil.which("tallycast"))
    if found is None:
        raise CommandError("the command `tallycast` was not found\nput it on PATH, or name it with TALLYCAST_BIN")
    return found


class Child:
    """The command with ``--json``; it ends with this process, however that ends.

    What it says on standard error goes to the logger ``tallycast``.
    """

    def __init__(self, arguments: Sequence[str], began: str) -> None:
        """Starts it, and returns once it has printed the event ``began``."""
        #: Every line that it has printed, but those of progress.
        self.events: list[dict[str, Any]] = []
        self._began = began
        self._ready = threading.Event()
        self._said: deque[str] = deque(maxlen=_KEPT_LINES)
        #: Path of the command.
        self.path = path = find_command()
        try:
            self._process = subprocess.Popen(
                [path, *arguments, "--json", "--with-parent"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
            )  # fmt: skip
        except OSError as error:
            raise CommandError(f"cannot run {path}: {error.strerror}\nname another one with TALLYCAST_BIN") from error
        assert self._process.stdout is not None and self._process.stderr is not None, "both are pipes"
        self._threads = [_reading(self._process.stdout, self._hear, self._ready.set), _reading(self._process.stderr, self._say)]
        _open_handles.opened(self)
        self._ready.wait()
        found = next((event for event in self.events if event.get("event") == began), None)
        if found is None:
            self._join()
            raise CommandError("\n".join(self._said) or f"{path} ended with code {self._process.returncode}")
        #: The event that it began with.
        self.began: dict[str, Any] = found

    @property
    def is_running(self) -> bool:
        """True until it has ended."""
        return self._process.poll() is None

    def wait(self) -> int:
        """Waits until it ends by itself; returns its exit code."""
        self._join()
        return int(self._process.returncode)

    def close(self) -> int:
        """Ends it in order, unless it has ended; returns its exit code."""
        if self.is_running:
            self._process.terminate()
        return self.wait()

    def _join(self) -> None:
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        _open_handles.closed(self)

    def _hear(self, line: str) -> None:
        try:
            event = json.loads(line)
        except ValueError:
            return
        if isinstance(event, dict) and event.get("event") != "progress":
            self.events.append(event)
            if event.get("event") == self._began:
                self._ready.set()

    def _say(self, line: str) -> None:
        self._said.append(line)
        if self._ready.is_set():
            _log.warning("%s", line)


def _reading(pipe: IO[str], take: Callable[[str], None], end: Callable[[], None] = lambda: None) -> threading.Thread:
    """Starts a thread that hands on every line, and notes the end."""

    def read() -> None:
        for line in pipe:
            take(line.rstrip("\n"))
        end()

    thread = threading.Thread(target=read, name="tallycast-command", daemon=True)
    thread.start()
    return thread
