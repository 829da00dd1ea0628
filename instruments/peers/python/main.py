"""`cargo xtask bench python`: arrays from one Python process to another, by Tallycast, eCAL and ZeroMQ.

Begin with `CASES`. `run.py` runs one of them, `side.py` is what each of its two processes does, `system_*.py` are what is
compared, `system_numpy.py` is what NumPy alone can do; `limit.py` is what the machine gives at most to one process.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import platform
from collections.abc import Callable
from typing import Any

import limit
import tallycast
from case import Case
from report import Report
from run import Delay, Rate, measure

RUNS = 5
QUICK_RUNS = 1
KIB = 1 << 10
ALL = ("tallycast", "tallycast-udp", "ecal", "ecal-ack", "pyzmq-ipc", "pyzmq-tcp")
BY_MEMORY = ("tallycast", "tallycast-views", "ecal", "ecal-ack", "pyzmq-ipc", "numpy-ring")
# eCAL calls a function in its own thread, which sleeps.
SPINNING = ("tallycast", "pyzmq-ipc")
# The limit of a bare ring, for blocks so large that Python's overhead does not dominate.
WITH_BARE_RING = ("10,000", "64KiB")
BLOCKS = {"1": 1, "100": 100, "10,000": 10_000, "64KiB": 64 * KIB // 4}
MESSAGES = {"64B": 64, "1KiB": KIB}
LATENCY_MESSAGES = 1_000
# A pipe is the minimum needed to wake a process.
WAKING = ("tallycast", "tallycast-udp", "ecal", "pyzmq-ipc", "pyzmq-tcp", "pipe")
OFTEN_NS = 100_000


def cases() -> dict[str, list[Case]]:
    """Returns the cases, each with the systems that take turns in it."""
    made = {}
    for name, samples in BLOCKS.items():
        systems = (*ALL, "numpy-ring") if name in WITH_BARE_RING else ALL
        made[f"rate/{name}"] = [Case(system, samples) for system in systems]
    made["overwrite/64KiB"] = [Case("tallycast", BLOCKS["64KiB"], is_paced=False)]
    for name, samples in (("64KiB", BLOCKS["64KiB"]), ("256KiB", 4 * BLOCKS["64KiB"])):
        made[f"summed/{name}"] = [Case(system, samples, is_summed=True) for system in BY_MEMORY]
    for name, size_bytes in MESSAGES.items():
        made[f"latency/{name}/asleep"] = [_latency(system, size_bytes) for system in WAKING]
        made[f"latency/{name}/spinning"] = [_latency(system, size_bytes, is_spinning=True) for system in SPINNING]
    often = {"is_spinning": True, "interval_ns": OFTEN_NS}
    made["latency/64B/spinning, 10 kHz"] = [_latency(system, MESSAGES["64B"], **often) for system in SPINNING]
    return made


def _latency(system: str, size_bytes: int, **how: Any) -> Case:
    return Case(system, 0, message_bytes=size_bytes, messages=LATENCY_MESSAGES, **how)


def main() -> None:
    """Runs the measurements requested on the command line."""
    options = _options()
    report = Report(options.json)
    runs = QUICK_RUNS if options.quick else RUNS
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "eclipse-ecal", "pyzmq"))
    report.note(f"Python {platform.python_version()}, tallycast {tallycast.__version__}, {versions}; {runs} runs each")
    report.note("ecal as it comes overwrites what its reader has not taken: its rate is that of what arrived")
    wanted = [name for name in [*cases(), "limit/64KiB"] if options.only in name]
    for name in wanted:
        if name in cases():
            _measure(report, name, cases()[name], runs)
        else:
            _measure_limit(report, name, runs)


def _measure(report: Report, name: str, systems: list[Case], runs: int) -> None:
    """Measures all systems of a case in turn, so that other load on the machine affects all of them."""
    results: list[list[Rate | Delay]] = [[] for _ in systems]
    for _ in range(runs):
        for case, of_system in zip(systems, results):
            of_system.append(measure(case))
    for case, of_system in zip(systems, results):
        if isinstance(of_system[0], Rate):
            _rows(report, name, case, of_system, {"samples": "/s", "data": "GB/s", "lost": "%"}, _rate_values)
        else:
            _rows(report, name, case, of_system, {"p50": "us", "p99": "us", "lost": "%"}, _delay_values)
    ours, *others = zip(systems, results)
    if ours[0].system == "tallycast" and isinstance(ours[1][0], Rate):
        for case, of_system in others:
            pairs = zip(ours[1], of_system)
            report.row(name, case.system, "tallycast_is", "x", [a.samples_per_s / b.samples_per_s for a, b in pairs])


def _rate_values(rate: Rate) -> tuple[float, ...]:
    return rate.samples_per_s, rate.gigabytes_per_s, rate.lost_share * 100


def _delay_values(delay: Delay) -> tuple[float, ...]:
    return delay.p50, delay.p99, delay.lost_share * 100


def _rows(
    report: Report, name: str, case: Case, runs: list, metrics: dict[str, str], values: Callable[..., tuple[float, ...]]
) -> None:
    for (metric, unit), of_runs in zip(metrics.items(), zip(*map(values, runs))):
        report.row(name, case.system, metric, unit, of_runs)


def _measure_limit(report: Report, name: str, runs: int) -> None:
    for among, among_bytes in (("in the cache", 512 * KIB), ("in memory", 256 * KIB * KIB)):
        measured = [limit.rates(64 * KIB, among_bytes) for _ in range(runs)]
        for metric in measured[0]:
            report.row(name, f"numpy, {among}", metric, "GB/s", [run[metric] for run in measured])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print rows, one JSON object a line")
    parser.add_argument("--quick", action="store_true", help="one run each, for trying; such figures are not to be quoted")
    parser.add_argument("--only", default="", help="only cases whose names contain this")
    return parser.parse_args()


if __name__ == "__main__":
    main()
