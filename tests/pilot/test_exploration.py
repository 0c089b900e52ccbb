"""The results on pilot tasks, and the file that keeps them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from metapac import BadArtefact, Exploration, read_pilot
from metapac.exploration import least_tasks


def test_what_is_saved_is_read(pilot: Exploration, tmp_path: Path) -> None:
    pilot.save(tmp_path / "pilot.json")
    again = read_pilot(tmp_path / "pilot.json")
    assert again.tasks == pilot.tasks
    assert again.to_json() == pilot.to_json()
    assert (again.split, again.min_examples) == (0.05, 7)
    assert again.find(0.05, 0.1, per_class=True).thresholds == (-math.inf, 0.3)
    with pytest.raises(KeyError):
        again.find(0.07, 0.1)


def test_damaged_and_other_files_are_refused(pilot: Exploration, tmp_path: Path) -> None:
    path = tmp_path / "pilot.json"
    pilot.save(path)
    path.write_text(path.read_text().replace("utah", "iowa"))
    with pytest.raises(BadArtefact, match="edited or damaged"):
        read_pilot(path)
    path.write_text(json.dumps({"format": "metapac promise"}))
    with pytest.raises(BadArtefact, match="not a metapac pilot file"):
        read_pilot(path)


def test_tasks_needed_are_those_of_the_split(pilot: Exploration) -> None:
    expected = {delta: least_tasks(0.1, delta, split=0.05) for delta in (0.05, 0.01, None)}
    assert pilot.tasks_needed == {0.1: expected}


def test_frame(pilot: Exploration) -> None:
    frame = pilot.to_pandas()
    assert frame.shape == (4, 9)
    assert frame["missed_no"].tolist() == [0.5] * 4
    assert repr(pilot) == ("<Exploration of 2 pilot tasks with 40 examples of 2 classes: 4 cells>")
