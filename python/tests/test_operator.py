"""Declarations of operators, and their lookup."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tallycast as tc
from tallycast._operator import Declaration, load

FILE = """
from os import system
import tallycast as tc
from beside import FACTOR

@tc.operator(every=10, dtype="f4", channels={"rms": "V"}, incomplete="give")
def rms(chunk, gain=FACTOR):
    return gain

class State:
    class Inner:
        def __init__(self, share):
            self.share, self.calls = share, 0
        def __call__(self, chunk):
            self.calls += 1
            return self.calls

class Silent:
    pass

number = 3
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_operators.py").write_text(FILE)
    (tmp_path / "beside.py").write_text("FACTOR = 7\n")
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("my_operators", "beside"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return str(tmp_path / "my_operators.py")


def test_a_function_is_found_in_its_file_and_in_its_module(place: str) -> None:
    found = load(f"{place}:rms", {})
    assert found.begin()(None) == 7  # type: ignore[arg-type]
    declared = found.declaration
    assert (declared.every, declared.dtype, declared.incomplete) == (10, "f4", "give")
    assert declared.channels == {"rms": "V"}
    # Modules next to the file can be imported, so the file itself can too.
    assert load("my_operators:rms", {"gain": 2}).begin()(None) == 2  # type: ignore[arg-type]


def test_a_class_is_instantiated_for_each_epoch(place: str) -> None:
    found = load(f"{place}:State.Inner", {"share": 0.5})
    one, other = found.begin(), found.begin()
    assert [one(None), one(None), other(None)] == [1, 2, 1]  # type: ignore[arg-type]
    assert found.declaration == Declaration()


@pytest.mark.parametrize(
    ("function", "settings", "words"),
    [
        ("missing", {}, "has no `missing`\nname a function or class"),
        ("number", {}, "is a int and cannot be called"),
        ("rms", {"gian": 1}, "does not take these settings: got an unexpected keyword argument 'gian'"),
        ("State.Inner", {}, "does not take these settings: missing a required argument: 'share'"),
    ],
)
def test_what_cannot_be_called_is_told(place: str, function: str, settings: dict[str, object], words: str) -> None:
    with pytest.raises(tc.ConfigError) as raised:
        load(f"{place}:{function}", settings)
    assert words in str(raised.value)


def test_a_graph_that_is_sent_runs_what_its_file_declares_and_nothing_else(place: str) -> None:
    assert load(f"{place}:rms", {}, only_declared=True).declaration.every == 10
    for function in ("State", "system"):
        with pytest.raises(tc.ConfigError, match="is not declared as an operator\nwrite @tc.operator"):
            load(f"{place}:{function}", {"share": 1} if function == "State" else {}, only_declared=True)


def test_memory_beyond_the_limit_fails_in_the_process_that_asks_for_it() -> None:
    program = """
from tallycast.run_operator import _limit_memory
_limit_memory(256 << 20)
whole = bytearray(16 << 20)
try:
    bytearray(1 << 30)
except MemoryError:
    print("refused")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "refused\n"


def test_what_is_not_there_is_told(place: str) -> None:
    with pytest.raises(tc.ConfigError, match="file not found"):
        load("nowhere/x.py:f", {})
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        load("no_such_module:f", {})
    with pytest.raises(tc.ConfigError, match="does not name a function"):
        load(place, {})
    with pytest.raises(tc.ConfigError, match="instances of .* cannot be called"):
        load(f"{place}:Silent", {}).begin()


def test_a_file_named_like_a_module_does_not_take_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import signal

    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "signal.py").write_text("def f(chunk):\n    return chunk\n")
    load(f"{tmp_path}/signal.py:f", {})
    assert sys.modules["signal"] is signal


def test_settings_go_over_the_declaration() -> None:
    declared = Declaration(dtype="f4", every=10)
    assert declared.over(every=None, dtype="f8") == Declaration(dtype="f8", every=10)
    with pytest.raises(tc.ConfigError, match="invalid every=0"):
        declared.over(every=0)
    with pytest.raises(tc.ConfigError, match='choose "hole" or "give"'):
        tc.operator(incomplete="drop")
    with pytest.raises(tc.ConfigError, match="unsupported dtype"):
        tc.operator(dtype="g")


def test_a_decorated_function_stays_what_it_is() -> None:
    @tc.operator
    def twice(chunk: np.ndarray) -> np.ndarray:
        return chunk * 2

    assert twice(np.array([1, 2])).tolist() == [2, 4]
