"""The report of a cyclic app that has ended.

The counters are those of ``docs/guide/cyclic.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from tallycast import _core
from tallycast._account import Account
from tallycast._parameters import LAW

__all__ = ["AppReport", "Histogram", "InputReport", "OutputReport", "report_of"]


@dataclass(frozen=True)
class Histogram:
    """Histogram of durations: its quantiles, in nanoseconds, to about 3 %; ``max`` is exact."""

    count: int
    p50: int
    p90: int
    p99: int
    p999: int
    max: int

    def __str__(self) -> str:
        shown = (f"{name} {_core.seconds_text(getattr(self, name) / 1e9)}" for name in ("p50", "p90", "p99", "p999", "max"))
        return ", ".join(shown)


@dataclass(frozen=True)
class InputReport:
    """The counters of an input, with the terms of ``docs/guide/cyclic.md``."""

    stream: str
    samples: int
    lost_elements: int
    missed: int
    late: int
    age_ns: Histogram


@dataclass(frozen=True)
class OutputReport:
    """Totals of an output's samples at this end; ``source`` counts the cycles without a written value."""

    stream: str
    offered: int
    source: int
    numbered: int
    publisher_queue: int
    publisher_paused: int

    @property
    def written(self) -> int:
        """Cycles whose sample was written."""
        return self.offered - self.source


@dataclass(frozen=True)
class AppReport:
    """The counters of an app that has ended."""

    app: str
    period_ns: int
    #: Cycles that ran.
    cycles: int
    #: Cycles that ended after the next one was due.
    overruns: int
    #: Cycles that were left out because of that.
    skipped: int
    #: Alarms of the timer rule.
    alarms: int
    #: From when a cycle was due until it began: the jitter.
    lateness_ns: Histogram
    #: From when a cycle began until its outputs were handed over, the wait for the interpreter included.
    run_time_ns: Histogram
    #: Time that cycles waited for the interpreter because other threads of this process held it.
    interpreter_wait_ns: Histogram
    inputs: Mapping[str, InputReport]
    outputs: Mapping[str, OutputReport]
    #: The accounts of the inputs.
    accounts: Sequence[Account]
    #: The account of the commands to its parameters, as `Steering.totals`; ``None`` without parameters.
    commands: Optional[Mapping[str, Any]]
    #: True if Ctrl-C ended it.
    interrupted: bool

    def __str__(self) -> str:
        lines = [
            f"{self.app}: {self.cycles} cycles of {_core.seconds_text(self.period_ns / 1e9)}, "
            f"{self.overruns} overran, {self.skipped} left out, {self.alarms} alarms",
            f"  lateness          {self.lateness_ns}",
            f"  run time          {self.run_time_ns}",
            f"  interpreter wait  {self.interpreter_wait_ns}",
        ]
        for name, came in self.inputs.items():
            lines.append(
                f"  input {name} ({came.stream}): {came.samples} samples, {came.lost_elements} elements lost, "
                f"{came.missed} missed, {came.late} late; age {came.age_ns}"
            )
        for name, made in self.outputs.items():
            lines.append(f"  output {name} ({made.stream}): {made.written} written, {made.source} left out")
        if self.commands is not None:
            terms = (term for term in LAW if self.commands[term])
            told = (f"{self.commands[term]} {term}" for term in terms)
            lines.append(f"  commands: {', '.join(told) or 'none'}")
        return "\n".join(lines)


def report_of(told: Mapping[str, Any], inputs: Iterable[str], outputs: Iterable[str], interrupted: bool) -> AppReport:
    """Returns the report as the core tells it, with the names of the app's inputs and outputs."""
    def histogram(name: str) -> Histogram:
        return Histogram(**told[name])

    inputs_of = {
        name: InputReport(**{**came, "age_ns": Histogram(**came["age_ns"])})
        for name, came in zip(inputs, told["inputs"])
    }
    return AppReport(
        app=told["app"],
        period_ns=told["period_ns"],
        cycles=told["cycles"],
        overruns=told["overruns"],
        skipped=told["skipped"],
        alarms=told["alarms"],
        lateness_ns=histogram("lateness_ns"),
        run_time_ns=histogram("run_time_ns"),
        interpreter_wait_ns=histogram("interpreter_wait_ns"),
        inputs=inputs_of,
        outputs={name: OutputReport(**made) for name, made in zip(outputs, told["outputs"])},
        accounts=[Account(account) for account in told["accounts"]],
        commands=told["commands"],
        interrupted=interrupted,
    )
