"""The notebook `examples/python/ecg.ipynb`: run as it is, and what it finds checked against the recording of which nothing was lost."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import tallycast as tc
from places import ROOT, WATCHDOG, Place, command

nbformat = pytest.importorskip("nbformat", reason="pip install 'tallycast[notebook]' brings what runs notebooks")
nbclient = pytest.importorskip("nbclient", reason="pip install 'tallycast[notebook]' brings what runs notebooks")
pytest.importorskip("ipykernel", reason="pip install 'tallycast[notebook]' brings what runs notebooks")
pytest.importorskip("matplotlib", reason="pip install 'tallycast[notebook]' brings what draws")

NOTEBOOK = ROOT / "examples/python/ecg.ipynb"

#: Run before the notebook's own cells: a publisher that is delayed for a second leaves a second account, which is not part
#: of the notebook.
PATIENCE = f"""
import sys
sys.path.append({str(ROOT / "python/tests")!r})
import tallycast
from places import as_one

class Patient:
    def __init__(self, *patterns, **options):
        self.subscriber = Subscriber(*patterns, **options)

    def __iter__(self):
        return iter(self.subscriber)

    def close(self):
        return [as_one(self.subscriber.close())]

Subscriber, tallycast.Subscriber = tallycast.Subscriber, Patient
"""
#: The same forty seconds of the heart in more real time: a reader that joins some seconds late has most of them.
PACE, SLOWER = "SPEED, SECONDS = 10, 4", "SPEED, SECONDS = 4, 10"

#: Run behind the notebook's own cells: what they have found.
FINDINGS = """
import json
# The two streams are joined one after the other, and end by the clock: the part that both have is compared.
both_from = int(max(index[0], whole_index[0])) + 2 * APART
both_until = int(min(index[-1], whole_index[-1])) - 2 * APART
in_both = (pairs[:, 0] >= both_from) & (pairs[:, 1] <= both_until)
parted = np.flatnonzero(np.diff(index) != 1)
print(json.dumps({
    "state": account.state, "sent": account.sent, "delivered": account.delivered, "lost": account.lost,
    "unexplained": account.unexplained, "gaps": len(account.gaps), "gaps_seen": len(gaps_seen), "gaps_drawn": gaps_drawn,
    "stored": len(index), "missing_within": [[int(index[at]) + 1, int(index[at + 1] - index[at]) - 1] for at in parted],
    "holes": [[hole.first_index, hole.samples, hole.stage] for hole in holes],
    "beats": beats.tolist(), "true_beats": true_beats.tolist(), "pairs": pairs.tolist(), "true_pairs": true_pairs.tolist(),
    "worst_ms": float(np.abs(errors[in_both]).max()), "worst_ignoring_ms": float(np.abs(joined_errors).max()),
    "folder_is_left": folder.exists(), "both_from": both_from, "both_until": both_until,
}))
"""


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs the notebook once; returns what it found and its cells."""
    with pytest.MonkeyPatch.context() as patch:
        for place in Place.made("udp"):
            # A late recorder has only what it received: a beginning is held for no longer than half a second.
            patch.setenv("TALLYCAST_BUS", f"{place.publishers}&start=now")
            patch.setenv("TALLYCAST_BIN", str(Path(command()).resolve()))
            # The kernel is a separate process, in a separate folder: it must import the same package.
            patch.setenv("PYTHONPATH", str(Path(tc.__file__).parents[1]), prepend=os.pathsep)
            notebook = nbformat.read(NOTEBOOK, as_version=4)
            play = next(cell for cell in notebook.cells if PACE in cell.source)
            play.source = play.source.replace(PACE, SLOWER)
            notebook.cells.insert(0, nbformat.v4.new_code_cell(PATIENCE))
            notebook.cells.append(nbformat.v4.new_code_cell(FINDINGS))
            folder = {"metadata": {"path": str(tmp_path_factory.mktemp("notebook"))}}
            nbclient.NotebookClient(notebook, timeout=2 * WATCHDOG, kernel_name="python3", resources=folder).execute()
    told = json.loads(notebook.cells[-1].outputs[0].text)
    return told, notebook.cells


def test_the_account_of_the_notebook_closes(findings: Any) -> None:
    told, _ = findings
    assert told["state"] == "closed" and told["unexplained"] == 0, told
    assert told["sent"] == told["delivered"] + sum(told["lost"].values()) > 10_000
    assert set(told["lost"]) == {"injected"}


def test_every_hole_is_drawn_in_the_figures(findings: Any) -> None:
    told, cells = findings
    assert told["gaps_drawn"] == len(told["holes"]) > 0
    assert told["gaps_seen"] > 0 and told["gaps"] >= told["gaps_seen"]
    assert {stage for _, _, stage in told["holes"]} == {"injected"}
    # The map names the indices left out; a hole before the first or behind the last sample separates nothing.
    last = told["beats"][-1]
    within = [hole for hole in told["missing_within"] if hole[0] < last]
    assert [hole[:2] for hole in told["holes"] if 0 < hole[0] < last] == within
    pictures = [output for cell in cells for output in cell.get("outputs", []) if "image/png" in output.get("data", {})]
    assert len(pictures) == 2


def test_no_beat_and_no_interval_lies_across_a_hole(findings: Any) -> None:
    told, _ = findings
    both_from, both_until = told["both_from"], told["both_until"]
    beats, true_beats = ({beat for beat in told[name] if both_from <= beat <= both_until} for name in ("beats", "true_beats"))
    pairs, true_pairs = (
        {(first, second) for first, second in told[name] if both_from <= first and second <= both_until}
        for name in ("pairs", "true_pairs")
    )
    assert not beats - true_beats and not pairs - true_pairs
    # Which datagrams are lost is chance: most runs keep four in ten intervals, and one kept two.
    assert len(pairs) > len(true_pairs) // 8
    assert not any(first < hole < second for first, second in told["pairs"] for hole, _, _ in told["holes"])
    assert told["worst_ms"] == 0.0
    # A computation that ignores the holes is wrong, which is the point.
    assert told["worst_ignoring_ms"] > 5.0
    assert not told["folder_is_left"]


def test_the_notebook_is_kept_without_output() -> None:
    cells = nbformat.read(NOTEBOOK, as_version=4).cells
    assert cells and not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
