"""Where a report comes from: checksums, dates, versions, and what files say of themselves."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import numpy as np
import pytest

from metapac import PS, Context, MetaPS
from metapac._version import __version__
from metapac.provenance import Provenance, write_scores
from metapac.report import wording


def test_a_file_has_its_size_its_date_and_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_bytes(b"task,score\n" * 100)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    first, second = wording.describe_files("Labelled data", [path, tmp_path / "absent", tmp_path])
    assert first.value == "scores.csv, 1,100 bytes, last changed 2023-11-14"
    assert second.value == hashlib.sha256(path.read_bytes()).hexdigest()
    assert second.is_code


def test_of_many_files_the_first_are_listed(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.csv" for i in range(23)]
    for path in paths:
        path.touch()
    facts = wording.describe_files("Labelled data", paths)
    assert len(facts) == 41
    assert facts[-1].value == "and 3 more files"


def test_a_scored_table_says_which_model_gave_its_scores(tmp_path: Path) -> None:
    path = tmp_path / "scores.parquet"
    about = Provenance(model="ProtoNet", score="margin", details={"weights_checksum": "abc"})
    write_scores(path, {"task": ["a"], "score": [0.5]}, about)
    facts = {fact.name: fact.value for fact in wording.describe_files("Labelled data", [path])}
    assert facts["Labelled data: model"] == "ProtoNet"
    assert facts["Labelled data: score function"] == "margin"
    assert facts["Labelled data: weights checksum"] == "abc"


def test_the_date_can_be_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert wording.find_date() == "14 November 2023"
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    assert re.fullmatch(r"\d{1,2} [A-Z][a-z]+ 20\d\d", wording.find_date())


def test_what_a_promise_says() -> None:
    scores, tasks = np.random.default_rng(0).random(6000), np.repeat(np.arange(60), 100)
    about = Context(model="triage", trained_on=["x", "y"], unit="hospital")
    method = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(scores, tasks, context=about)
    facts = {fact.name: fact.value for fact in wording.describe_promise(method)}
    assert facts["Kind of guarantee"] == "MetaPS"
    assert facts["Model"] == "triage"
    assert facts["Trained on"] == "2 named"
    assert "Unit" not in facts
    assert facts["Precision of the scores"] == "float64"
    nameless = wording.describe_promise(PS(epsilon=0.1, delta=0.1).calibrate(scores))
    assert wording.Fact("Model", "not named") in nameless


def test_versions() -> None:
    facts = wording.describe_software("0.1.0")
    assert facts[0].value == "metapac 0.1.0"
    assert facts[1].value.startswith(f"metapac {__version__} (Python ")
    assert f"numpy {np.__version__}" in facts[1].value
    assert len(wording.describe_software(None)) == 1
