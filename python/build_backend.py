"""The build backend of the package (PEP 517): maturin's, with the command and the page beside the module.

A wheel carries the module `tallycast._core`, the Python sources, and the command `tallycast`, which itself carries the
page from `web/dist`. So `pip install .` in a checkout does what it does from an index, and a source distribution, which
has the built page in it, needs Rust and no Node. It takes two settings:

    profile=dev          cargo's profile; `release` by default (also TALLYCAST_WHEEL_PROFILE)
    portable=true        tag the wheel for every machine whose C library is new enough, not for this one only

`cargo xtask wheel` sets up what this needs and calls it; its tests are python/tests/test_wheel.py.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import maturin

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "web" / "dist"
#: Scripts of the wheel as packed by maturin; they exist only during packing.
DATA = ROOT / "tallycast._core.data"
#: Folders that are never part of the sources, for when git cannot list these.
OUTPUT_FOLDERS = {".git", "target", "node_modules", "__pycache__"}

Settings = dict[str, Any] | None


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Builds the command, then the module, and packs both."""
    with _command_packed(config_settings) as command, tempfile.TemporaryDirectory() as folder:
        settings = _for_maturin(config_settings, command, out=folder)
        return maturin.build_wheel(wheel_directory, settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """Builds a wheel whose Python sources are those of the checkout."""
    with _command_packed(config_settings) as command, tempfile.TemporaryDirectory() as folder:
        settings = _for_maturin(config_settings, command, out=folder)
        return maturin.build_editable(wheel_directory, settings, metadata_directory)


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: Settings = None) -> str:
    """Writes the package's metadata, without building it."""
    _find_scripts()
    return maturin.prepare_metadata_for_build_wheel(metadata_directory, _for_maturin(config_settings))


prepare_metadata_for_build_editable = prepare_metadata_for_build_wheel
get_requires_for_build_wheel = maturin.get_requires_for_build_wheel
get_requires_for_build_editable = maturin.get_requires_for_build_editable
get_requires_for_build_sdist = maturin.get_requires_for_build_sdist


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Packs every tracked file unchanged, and the built page."""
    _build_missing_page()
    if not PAGE.is_dir():
        raise SystemExit(
            "a source distribution carries the built page, and web/dist is not there\n"
            "  install Node 20 or later and run: cargo xtask page"
        )
    metadata = _metadata(config_settings)
    name = f"tallycast-{_field(metadata, 'Version')}"
    # One time for all, so that the same commit makes the same archive.
    when = int(os.environ.get("SOURCE_DATE_EPOCH") or _commit_time())
    archive = Path(sdist_directory) / f"{name}.tar.gz"
    with (
        archive.open("wb") as file,
        gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=when) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for path in sorted({*_sources(), *_files_below(PAGE)}):
            _add(packed, f"{name}/{path.relative_to(ROOT).as_posix()}", path.read_bytes(), when, _mode(path))
        _add(packed, f"{name}/PKG-INFO", metadata.encode(), when, 0o644)
    return archive.name


# --- the command ---


@contextlib.contextmanager
def _command_packed(settings: Settings) -> Iterator[Path]:
    """Puts the built command where maturin looks for scripts."""
    _find_scripts()
    _build_missing_page()
    command = _build_command(_profile(settings))
    scripts = DATA / "scripts"
    shutil.rmtree(DATA, ignore_errors=True)
    scripts.mkdir(parents=True)
    try:
        _copy_stripped(command, scripts / "tallycast")
        yield scripts / "tallycast"
    finally:
        # Otherwise maturin, called without this file, would pack it at any age.
        shutil.rmtree(DATA, ignore_errors=True)


def _build_command(profile: str) -> Path:
    arguments = ["build", "--locked", "--profile", profile, "--package", "tallycast-cli", "--bins"]
    _say(f"building the command tallycast ({profile})")
    cargo = [os.environ.get("CARGO", "cargo"), *arguments, "--message-format", "json-render-diagnostics"]
    # Cargo reports the program's path: target and target folder are configurable.
    built = subprocess.run(cargo, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    if built.returncode != 0:
        raise SystemExit("the command tallycast could not be built; see the output of cargo")
    messages = (json.loads(line) for line in built.stdout.splitlines())
    return next(Path(message["executable"]) for message in messages if message.get("executable"))


def _copy_stripped(program: Path, to: Path) -> None:
    """Copies a program without its debug information: in a development profile that is most of it."""
    strip = shutil.which("strip")
    if strip and subprocess.run([strip, "--strip-debug", "-o", to, program], check=False).returncode == 0:
        return
    shutil.copy2(program, to)


def _build_missing_page() -> None:
    """Builds the page if it is missing; without Node the command has no page, as when built by cargo."""
    if PAGE.is_dir():
        return
    npm = shutil.which("npm")
    if npm is None:
        _say("web/dist is not there and npm neither: the monitor will have no page (cargo xtask page builds it)")
        return
    _say("building the page")
    for arguments in (["ci", "--no-audit", "--no-fund"], ["run", "build"]):
        # Output of npm goes to standard error: the last line of standard output belongs to the front end.
        done = subprocess.run([npm, *arguments], cwd=ROOT / "web", stdout=sys.stderr, check=False)
        if done.returncode != 0:
            _say(f"npm {arguments[0]} failed: the monitor will have no page (cargo xtask page builds it)")
            return


# --- maturin ---


def _for_maturin(settings: Settings, command: Path | None = None, out: str | None = None) -> dict[str, Any]:
    """The settings, with maturin's arguments for those of this backend."""
    settings = dict(settings or {})
    given = settings.pop("build-args", settings.get("maturin.build-args", []))
    arguments = given.split() if isinstance(given, str) else list(given)
    arguments += ["--locked", "--profile", _profile(settings), "--strip"]
    if command is not None and str(settings.get("portable", "")).lower() in {"1", "true"}:
        arguments += ["--compatibility", _platform(command)]
    if out is not None:
        # Otherwise below the target folder, from which it could not be copied to itself.
        arguments += ["--out", out]
    return settings | {"maturin.build-args": arguments}


def _profile(settings: Settings) -> str:
    return (settings or {}).get("profile") or os.environ.get("TALLYCAST_WHEEL_PROFILE") or "release"


def _platform(program: Path) -> str:
    """The oldest platform on which a program starts, by the newest version of the C library that it asks for.

    maturin looks at the module only, and refuses one that asks for more.
    """
    asked = re.findall(rb"\0GLIBC_2\.(\d+)", program.read_bytes())
    return f"manylinux_2_{max(map(int, asked))}" if asked else "linux"


def _find_scripts() -> None:
    """Lets maturin be found where the front end installed it, which need not be on the PATH."""
    scripts = str(Path(sys.executable).parent)
    paths = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if scripts not in paths:
        os.environ["PATH"] = os.pathsep.join([scripts, *paths])


# --- the source distribution ---


def _metadata(settings: Settings) -> str:
    with tempfile.TemporaryDirectory() as folder:
        written = prepare_metadata_for_build_wheel(folder, settings)
        return (Path(folder) / written / "METADATA").read_text("utf-8")


def _field(metadata: str, name: str) -> str:
    found = re.search(rf"^{name}: (.+)$", metadata, re.MULTILINE)
    if found is None:
        raise SystemExit(f"the metadata have no {name}")
    return found[1]


def _sources() -> list[Path]:
    """Files tracked by git; in an unpacked source distribution, all except build products."""
    top = _git("rev-parse", "--show-toplevel")
    if top is not None and Path(top.strip()).resolve() == ROOT:
        listed = _git("ls-files", "-z") or ""
        paths = [ROOT / path for path in listed.split("\0") if path]
        return [path for path in paths if path.is_file()]
    return [path for path in _files_below(ROOT) if path.name != "PKG-INFO" and path.suffix != ".so"]


def _commit_time() -> str:
    return (_git("log", "-1", "--format=%ct") or str(int(time.time()))).strip()


def _git(*arguments: str) -> str | None:
    try:
        answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.decode()


def _files_below(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in OUTPUT_FOLDERS]
        yield from (Path(place) / name for name in names)


def _mode(path: Path) -> int:
    return 0o755 if path.stat().st_mode & 0o100 else 0o644


def _add(packed: tarfile.TarFile, name: str, content: bytes, when: int, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime, entry.mode = len(content), when, mode
    packed.addfile(entry, io.BytesIO(content))


def _say(words: str) -> None:
    print(f"tallycast: {words}", file=sys.stderr, flush=True)
