"""Recording and serving the page from Python, by the command `tallycast` in a process of its own.

So a recording has no part in the interpreter's lock, and ends in order however the program does.
"""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import Any

from tallycast._account import Account, Accounts
from tallycast._command import Child
from tallycast._duration import Duration, nanoseconds
from tallycast._errors import ArgumentError, CommandError
from tallycast.archive import Archive, open_archive


class _Running:
    """A verb of the command that runs until `stop`."""

    def __init__(self, arguments: list[str], began: str) -> None:
        self._child = Child(arguments, began)
        self._told: dict[str, Any] = self._child.began

    def _said(self, name: str) -> Any:
        """Returns what the command said at its beginning; one that does not say it is ended."""
        if name in self._told:
            return self._told[name]
        self._child.close()
        raise CommandError(
            f"the command {self._child.path} does not say its `{name}`: it is older than this package\n"
            "install the version of this package, or name it with TALLYCAST_BIN"
        )

    @property
    def is_running(self) -> bool:
        """True until it was stopped, or has ended by itself."""
        return self._child.is_running

    @property
    def accounts(self) -> list[Account]:
        """The accounts of everything that was read, once it has ended; empty before."""
        return Accounts(Account(event) for event in self._child.events if event.get("event") == "account")

    def stop(self) -> list[Account]:
        """Ends it in order; returns the accounts, the same again when called again."""
        self._child.close()
        return self.accounts

    def __exit__(self, *_: object) -> None:
        self.stop()


class Recorder(_Running):
    """A recording that runs; made by `tallycast.record`."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(arguments, "recording")
        #: Folder of the archive.
        self.path = Path(str(self._said("root"))).absolute()
        #: Name of the run.
        self.run = str(self._said("run"))

    @property
    def archive(self) -> Archive:
        """The run as it is now, also while it is being recorded."""
        return open_archive(self.path, run=self.run)

    def wait(self) -> list[Account]:
        """Waits until it ends by itself (`duration`, `until_end`); returns the accounts."""
        self._child.wait()
        return self.accounts

    def __enter__(self) -> Recorder:
        return self

    def __repr__(self) -> str:
        return f"<Recorder of run {self.run} in {self.path}, {'running' if self.is_running else 'ended'}>"


class Monitor(_Running):
    """A monitor that serves the page; made by `tallycast.monitor`."""

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(arguments, "listening")
        #: Address of the page; beyond loopback it is encrypted.
        self.url = str(self._said("page"))
        #: SHA-256 fingerprint of the host's own certificate authority, by which browsers know the page; None without it.
        self.fingerprint: str | None = self._told.get("fingerprint")

    def open(self) -> Monitor:
        """Shows the page in the user's browser; returns the monitor itself."""
        webbrowser.open(self.url)
        return self

    def __enter__(self) -> Monitor:
        return self

    def __repr__(self) -> str:
        return f"<Monitor at {self.url}, {'running' if self.is_running else 'ended'}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank">{self.url}</a>' if self.is_running else "the monitor has ended"


def record(
    *patterns: str,
    path: str | os.PathLike[str] | None = None,
    run: str | None = None,
    duration: Duration | None = None,
    until_end: bool = False,
    reader: str | None = None,
    bus: str | None = None,
) -> Recorder:
    """Records the streams that match, as ``tallycast record`` does; returns once streams that begin now are recorded from their start.

    ``path`` is the folder of the archive, made if it is missing; ``run`` names the run, by default after time and station.
    It ends with ``stop()`` or the ``with`` block, after ``duration``, or with ``until_end`` once every joined stream has ended.
    What the recorder warns of goes to the logger ``tallycast``.

        with tc.record("lab/**", path="data", run="shot-1042") as recorder:
            ...
        print(recorder.accounts, recorder.archive["lab/probe"].gaps)

    Raises:
        CommandError: if the command is missing, or cannot record; its text says why.
    """
    arguments = ["record", *_texts(patterns, "a pattern"), *_options(("--archive", path), ("--run", run), ("--reader", reader), ("--bus", bus))]
    if duration is not None:
        arguments += ["--duration", f"{nanoseconds(duration)}ns"]
    return Recorder([*arguments, *(["--until-end"] if until_end else [])])


def monitor(
    *patterns: str,
    listen: str = "127.0.0.1:0",
    archive: str | os.PathLike[str] | None = None,
    access: str | os.PathLike[str] | None = None,
    tls: str | tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
    insecure: bool = False,
    open_browser: bool = False,
    bus: str | None = None,
) -> Monitor:
    """Serves the page, as ``tallycast monitor`` does, until ``stop()`` or the end of the ``with`` block.

    Without patterns every stream is shown. ``listen`` is the address, by default a free port of this host; ``archive`` the folder
    whose recordings are shown too; ``access`` that of users, tokens and rules.

    Beyond loopback the page is encrypted. ``tls`` is ``"auto"`` (by the host's own certificate authority, on loopback too), a pair of
    files ``(certificate, key)``, or ``"off"``, which beyond loopback needs ``insecure=True``: then every host on the way can read and
    change everything.

        with tc.monitor("lab/**", archive="data", open_browser=True) as monitor:
            print(monitor.url)
            ...

    Raises:
        CommandError: if the command is missing, or cannot serve; its text says why.
    """
    options = _options(("--listen", listen), ("--archive", archive), ("--access", access), ("--tls", _tls(tls)), ("--bus", bus))
    made = Monitor(["monitor", *_texts(patterns, "a pattern"), *options, *(["--insecure"] if insecure else [])])
    return made.open() if open_browser else made


def _tls(tls: str | tuple[str | os.PathLike[str], str | os.PathLike[str]] | None) -> str | None:
    """Returns how the page is encrypted, as the command line has it."""
    if tls is None or tls in ("auto", "off"):
        return tls
    if isinstance(tls, tuple) and len(tls) == 2:
        certificate, key = _texts(tls, "a file of PEM")
        if "," not in certificate:
            return f"{certificate},{key}"
        raise ArgumentError(f"{certificate!r} has a comma, by which the command line parts the two files\nrename it")
    raise ArgumentError(f"{tls!r} is no encryption\nwrite 'auto', 'off', or a pair of files: (certificate, key)")


def _options(*options: tuple[str, str | os.PathLike[str] | None]) -> list[str]:
    """Returns the options that are given, each in one word: a value may begin with a dash."""
    given = [(option, value) for option, value in options if value is not None]
    return [f"{option}={_texts([value], option)[0]}" for option, value in given]


def _texts(values: Any, what: str) -> list[str]:
    try:
        texts = [os.fspath(value) for value in values]
    except TypeError as error:
        raise ArgumentError(f"{what} is a text: {error}") from None
    for text in texts:
        if not isinstance(text, str) or "\0" in text or (what == "a pattern" and text.startswith("-")):
            raise ArgumentError(f"{text!r} is not {what}\nwrite one such as 'lab/*'")
    return texts
