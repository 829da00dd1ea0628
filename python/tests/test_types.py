"""Types: the package and typical user code, by two checkers, and the compiled module compared with its stub."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = ROOT / "pyproject.toml"
EXAMPLES = ROOT / "python" / "tests" / "typed_examples.py"
PACKAGE = ROOT / "python" / "tallycast"


def run(*command: str) -> tuple[int, str]:
    """Runs a checker of this environment; returns its exit code and its output."""
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("what", [("-p", "tallycast"), (str(EXAMPLES),)], ids=["package", "examples"])
def test_mypy_has_nothing_to_say(what: tuple[str, ...]) -> None:
    code, said = run("mypy", "--strict", "--config-file", str(SETTINGS), *what)
    assert code == 0, said


def test_the_compiled_module_is_what_its_stub_says() -> None:
    code, said = run("mypy.stubtest", "tallycast._core", "--mypy-config-file", str(SETTINGS))
    assert code == 0, said


@pytest.mark.parametrize("what", [PACKAGE, EXAMPLES], ids=["package", "examples"])
def test_pyright_has_nothing_to_say(what: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("pyright needs Node.js")
    _, said = run("pyright", "--outputjson", "--pythonpath", sys.executable, "--project", str(SETTINGS), str(what))
    report = json.loads(said[said.index("{") :])
    assert report["summary"]["filesAnalyzed"] >= 1
    complaints = [
        f"{entry['file']}:{entry['range']['start']['line'] + 1}: {entry['message']}"
        for entry in report["generalDiagnostics"]
        if entry["severity"] == "error"
    ]
    assert complaints == []
