"""Empty virtual environments, other Pythons, and the commands of the pages: for the tests of installations."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Maximum time of one command; installing waits for the network. Seconds.
WATCHDOG = 300.0
#: The Python that runs the tests.
OWN = f"{sys.version_info.major}.{sys.version_info.minor}"
#: The Pythons that the package is for.
VERSIONS = ("3.10", "3.11", "3.12", "3.13")


def interpreter(version: str) -> str | None:
    """Returns a Python of that version: this one, one on the PATH, or one of pyenv's."""
    if version == OWN:
        return getattr(sys, "_base_executable", sys.executable)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    return next((str(path) for path in candidates if path and _is(version, str(path))), None)


def _is(version: str, path: str) -> bool:
    # pyenv has a program of every version on the PATH, and most of them only print which to choose.
    ask = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    answer = subprocess.run([path, "-c", ask], capture_output=True, text=True, check=False)
    return answer.returncode == 0 and answer.stdout.strip() == version


@dataclass(frozen=True)
class Environment:
    """A virtual environment in which nothing is installed but what is asked for."""

    folder: Path

    @classmethod
    def made(cls, folder: Path, python: str, *packages: str) -> Environment:
        """Makes one with ``packages`` and what those depend on."""
        made = cls(folder)
        _run([python, "-m", "venv", str(folder)], folder.parent, {})
        install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--only-binary=:all:", *packages]
        made.run(made.python, *install)
        return made

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.folder / "bin" / "python")

    def run(self, *command: str, where: Path | None = None, **variables: str) -> str:
        """Runs a command with the environment first on the PATH; returns what it printed, or fails with that."""
        return _run([*command], where or self.folder, self.variables(**variables))

    def variables(self, **more: str) -> dict[str, str]:
        """The environment variables of a user who has activated the environment."""
        path = os.pathsep.join([str(self.folder / "bin"), os.environ.get("PATH", os.defpath)])
        return {"PATH": path, "VIRTUAL_ENV": str(self.folder), **more}


def _run(command: list[str], where: Path, variables: dict[str, str]) -> str:
    # A user's shell does not have the tests' own sources and settings either.
    hidden = {"PYTHONPATH", "PYTHONHOME", "TALLYCAST_BUS"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | variables
    output = where / "output.txt"
    with output.open("w+") as file:
        process = subprocess.Popen(
            command, cwd=where, env=environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(WATCHDOG)
        finally:
            # Whatever it left in the background, too: the group still exists there.
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
    text = output.read_text()
    assert code == 0, f"{' '.join(command)}: exit code {code}\n{text}"
    return text


@dataclass(frozen=True)
class Example:
    """A fenced block of a page."""

    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        """The file named in its own first line; others run it."""
        first = re.match(r"# (\w+\.py)\n", self.text)
        return first[1] if first else None

    def run(self, environment: Environment, folder: Path, bus: str) -> str:
        """Saves it under its name, or runs it as it is; returns what it printed."""
        if self.file_name is not None:
            (folder / self.file_name).write_text(self.text)
            return ""
        script = folder / f"line-{self.line}.{self.language}"
        script.write_text(self.text)
        program = [environment.python] if self.language == "python" else ["sh", "-e"]
        return environment.run(*program, str(script), where=folder, TALLYCAST_BUS=bus)


def examples(page: Path) -> list[Example]:
    """Returns the blocks of a page that are marked as Python or shell, in order."""
    text = page.read_text()
    found = re.finditer(r"^```(python|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Example(match[1], match[2], text.count("\n", 0, match.start()) + 1) for match in found]
