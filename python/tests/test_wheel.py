"""The wheel as users install it: its contents, and that it works with nothing else installed but NumPy.

`cargo xtask wheel` builds it; the newest in target/wheels is tested.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from environments import OWN, ROOT, VERSIONS, WATCHDOG, Environment, examples, interpreter

WHEELS = ROOT / "target" / "wheels"
PAGE = ROOT / "web" / "dist" / "index.html"
GUIDE = ROOT / "docs/guide/python.md"


def newest(pattern: str, how: str) -> Path:
    """Returns the package built last, or skips: which one to test is not known otherwise."""
    found = sorted(WHEELS.glob(pattern), key=lambda path: path.stat().st_mtime)
    if not found:
        pytest.skip(f"no {pattern} in target/wheels: {how}")
    return found[-1]


@pytest.fixture(scope="module")
def wheel() -> Path:
    return newest("*.whl", "cargo xtask wheel --profile dev")


@pytest.fixture(scope="module")
def empty(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with the wheel, and NumPy, which it depends on."""
    python = interpreter(OWN)
    assert python is not None
    return Environment.made(tmp_path_factory.mktemp("empty") / "venv", python, str(wheel))


@pytest.fixture
def bus() -> str:
    """A bus of this test alone."""
    return f"shm://docs-{os.getpid()}-{os.urandom(3).hex()}?access=owner"


def test_the_wheel_carries_the_module_its_types_and_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name.split("/", 1)[1] if ".dist-info/" in name else name for name in archive.namelist()}
        (command,) = (entry for entry in archive.infolist() if entry.filename.endswith(".data/scripts/tallycast"))
        metadata = archive.read(next(name for name in archive.namelist() if name.endswith("/METADATA"))).decode()
        tags = archive.read(next(name for name in archive.namelist() if name.endswith("/WHEEL"))).decode()
    assert {"tallycast/__init__.py", "tallycast/py.typed", "tallycast/_core.pyi", "tallycast/_core.abi3.so"} <= names
    assert {"licenses/LICENSE-APACHE", "licenses/LICENSE-MIT", "licenses/data/README.md"} <= names
    strangers = [name for name in names if "test" in name or "build_backend" in name or name.endswith(".pyc")]
    assert strangers == []
    assert (command.external_attr >> 16) & stat.S_IXUSR
    assert "\nRequires-Dist: numpy>=1.26\n" in metadata
    assert "\nProvides-Extra: archive\n" in metadata
    assert re.search(r"^Tag: cp310-abi3-", tags, re.MULTILINE)


def test_all_that_is_compiled_starts_where_the_tag_of_the_wheel_says(wheel: Path) -> None:
    # Somebody else's look at module and command: which symbols of the C library they ask for.
    audit = [sys.executable, "-m", "auditwheel", "show", str(wheel)]
    told = subprocess.run(audit, capture_output=True, text=True, check=True).stdout
    found = re.search(r'following platform\s+tag:\s+"manylinux_2_(\d+)_', told)
    tag = re.search(r"manylinux_2_(\d+)_", wheel.name)
    assert found and tag, told
    assert int(found[1]) <= int(tag[1]), told


def test_the_extras_ask_for_what_the_tests_are_run_with(wheel: Path) -> None:
    # Without an index: a package that is not here in the requested version is not found.
    wanted = f"{wheel}[all,notebook,test]"
    ask = ["-m", "pip", "install", "--disable-pip-version-check", "--no-index", "--dry-run"]
    asked = subprocess.run([sys.executable, *ask, wanted], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stdout + asked.stderr


def test_a_source_distribution_has_all_that_is_tracked_and_the_page() -> None:
    package = newest("*.tar.gz", "cargo xtask wheel --profile dev --sdist")
    with tarfile.open(package) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
        top = {name.split("/", 1)[0] for name in archive.getnames()}
        told = archive.extractfile(f"{package.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert told is not None
        metadata = told.read().decode()
    assert top == {package.name.removesuffix(".tar.gz")}
    assert {"pyproject.toml", "Cargo.lock", "python/build_backend.py", "web/dist/index.html"} <= names
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    tracked = {path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file()}
    # One that was added since it was packed is not missing from it.
    packed = package.stat().st_mtime
    missing = {path for path in tracked - names if (ROOT / path).stat().st_mtime < packed}
    assert missing == set()
    assert not [name for name in names if name.startswith("target/") or "node_modules" in name]
    assert metadata.startswith("Metadata-Version: ") and "\nName: tallycast\n" in metadata


def test_an_empty_environment_has_the_module_and_the_command(empty: Environment) -> None:
    listed = json.loads(empty.run(empty.python, "-m", "pip", "list", "--format=json", "--disable-pip-version-check"))
    versions = {package["name"]: package["version"] for package in listed}
    assert versions.keys() - {"pip", "setuptools"} == {"numpy", "tallycast"}
    imported = empty.run(empty.python, "-c", "import tallycast; print(tallycast.__version__)")
    assert imported.strip() == versions["tallycast"]
    assert empty.run("tallycast", "--version").split() == ["tallycast", versions["tallycast"]]
    assert Path(empty.run("sh", "-c", "command -v tallycast").strip()).parent == empty.folder / "bin"


@pytest.fixture
def monitor(empty: Environment, bus: str) -> Iterator[str]:
    """The installed command's monitor; gives its address."""
    command = ["tallycast", "monitor", "--json", "--listen", "127.0.0.1:0"]
    environment = os.environ | empty.variables(TALLYCAST_BUS=bus)
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        events = (json.loads(line) for line in process.stdout)
        yield next(event["address"] for event in events if event["event"] == "listening")
    finally:
        process.terminate()
        process.wait(WATCHDOG)


def test_the_installed_command_serves_the_built_page(monitor: str) -> None:
    if not PAGE.is_file():
        pytest.skip("the page is not built: cargo xtask page")
    with urllib.request.urlopen(f"http://{monitor}/", timeout=WATCHDOG) as answer:
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert answer.read() == PAGE.read_bytes()


def test_the_examples_of_the_guide_run_as_written(empty: Environment, tmp_path: Path, bus: str) -> None:
    blocks = examples(GUIDE)
    assert {block.language for block in blocks} == {"python", "sh"}
    commands = "".join(block.text for block in blocks if block.language == "sh")
    unused = [block.file_name for block in blocks if block.file_name and block.file_name not in commands]
    assert unused == [], "a file that no command of the guide runs"
    for block in blocks:
        block.run(empty, tmp_path, bus)


def quick_start(environment: Environment, folder: Path, bus: str) -> None:
    """Runs the guide up to its first commands, and sees whether every sample came."""
    blocks = examples(GUIDE)
    first = next(index for index, block in enumerate(blocks) if block.language == "sh")
    *_, told = (block.run(environment, folder, bus) for block in blocks[: first + 1])
    account = r"<Account of \S+: closed, (\d+) elements sent, (\d+) delivered, lost nothing, 0 unexplained>"
    sent, delivered = re.findall(account, told)[-1]
    assert sent == delivered and int(sent) > 0, told


@pytest.mark.parametrize("version", VERSIONS)
def test_every_python_runs_the_quick_start(
    version: str, wheel: Path, empty: Environment, tmp_path: Path, bus: str
) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not on this machine")
    environment = empty if version == OWN else Environment.made(tmp_path / "venv", python, str(wheel))
    assert environment.run(environment.python, "--version").startswith(f"Python {version}.")
    quick_start(environment, tmp_path, bus)


def test_the_oldest_numpy_runs_the_quick_start(wheel: Path, tmp_path: Path, bus: str) -> None:
    # NumPy 1.26 is for Python up to 3.12.
    python = next(filter(None, map(interpreter, ("3.11", "3.12", "3.10"))), None)
    if python is None:
        pytest.skip("no Python from 3.10 to 3.12 is on this machine")
    environment = Environment.made(tmp_path / "venv", python, str(wheel), "numpy==1.26.*")
    assert environment.run(environment.python, "-c", "import numpy; print(numpy.__version__)").startswith("1.26.")
    quick_start(environment, tmp_path, bus)
