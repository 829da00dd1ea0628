"""Rows of medians and spread, as in the project's other benches: for people, or one JSON object per line."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence


class Report:
    """Prints the results."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def note(self, text: str) -> None:
        """Prints a note on the figures; as an object if programs read the rows."""
        print(json.dumps({"bench": "python", "note": text}) if self.as_json else text, flush=True)

    def row(self, case: str, system: str, metric: str, unit: str, runs: Sequence[float]) -> None:
        """Prints one figure of one case, with a value for each run."""
        median, least, most = statistics.median(runs), min(runs), max(runs)
        if self.as_json:
            row = {"bench": "python", "case": case, "system": system, "metric": metric, "unit": unit}
            print(json.dumps(row | {"median": median, "min": least, "max": most, "runs": len(runs)}), flush=True)
            return
        value = f"{_short(median)}{'' if unit.startswith('/') else ' '}{unit}"
        print(
            f"{case:<22} {system:<16} {metric:<20} {value:>14}  ({_short(least)} – {_short(most)}, {len(runs)} runs)",
            flush=True,
        )


def _short(value: float) -> str:
    """Formats a number with three digits and, if it is large, an SI prefix."""
    for scale, prefix in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= scale:
            return f"{_three_digits(value / scale)}{prefix}"
    return _three_digits(value)


def _three_digits(value: float) -> str:
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"
