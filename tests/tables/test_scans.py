"""No command asks an engine more often than it did before arrays and tables shared their code."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac.tables import data_checks, output, table
from metapac.tables.sources import Source
from tests.helpers.commands import LEVELS, metapac
from tests.helpers.engines import as_if_large

PER_CLASS = ["--alpha", "0.4", "--delta", "0.4", "--per-class", "--label", "y"]
CLASSES = ["cat", "dog", "owl"]


def make(path: Path, word: str, sites: int = 40, size: int = 100) -> Path:
    rng = np.random.default_rng(len(word))
    rows = sites * size
    label = rng.integers(3, size=rows)
    scores = np.exp(rng.normal(size=(rows, 3)) + 2 * np.eye(3)[label])
    scores /= scores.sum(axis=1, keepdims=True)
    frame = pd.DataFrame(scores, columns=[f"p_{name}" for name in CLASSES])
    frame["site"] = np.repeat([f"{word} {i:02}" for i in range(sites)], size)
    frame["y"] = np.array(CLASSES)[label]
    frame["true"] = scores[np.arange(rows), label]
    frame = frame.assign(
        probs=scores.tolist(), home=frame.site, guess=rng.normal(size=rows), sd=1.0
    )
    frame = frame.assign(truth=frame.guess + rng.normal(size=rows), id=range(rows))
    frame.sample(frac=1, random_state=0).to_parquet(path)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scans")
    make(path / "known.parquet", "site")
    make(path / "new.parquet", "new")
    make(path / "one.parquet", "one", sites=1)
    return path


BY_LABEL = ["--task", "site", "--label", "y"]
CALIBRATE: dict[str, list[Any]] = {
    "score": ["--task", "site", "--score", "true", *LEVELS],
    "label": [*BY_LABEL, *LEVELS],
    "classes": [*BY_LABEL, "--classes", "cat,dog,owl", *LEVELS],
    "id": [*BY_LABEL, "--id", "id", *LEVELS],
    "lists": [*BY_LABEL, "--columns", "probs", "--classes", "cat,dog,owl", *LEVELS],
    "per-class": ["--task", "site", *PER_CLASS, "--epsilon", "0.2"],
    "per-class score": ["--task", "site", "--score", "true", *PER_CLASS, "--epsilon", "0.2"],
    "cluster": ["--task", "site", "--score", "true", "--cluster", "home", *LEVELS],
    "numbers": [
        "--task",
        "site",
        "--prediction",
        "guess",
        "--y",
        "truth",
        "--scale",
        "sd",
        *LEVELS,
    ],
}
# Queries, and tables written, of a small table and of one that is treated as large.
QUERIES = {
    "calibrate score": (2, 5), "calibrate label": (5, 10), "calibrate classes": (4, 9),
    "calibrate id": (6, 10), "calibrate lists": (5, 10), "calibrate per-class": (4, 9),
    "calibrate per-class score": (3, 6), "calibrate cluster": (3, 6), "calibrate numbers": (4, 7),
    "predict score": (1, 1), "predict label": (1, 1), "predict per-class": (1, 1),
    "predict lists": (3, 3), "predict numbers": (3, 3),
    "evaluate score": (3, 3), "evaluate label": (3, 5), "evaluate per-class": (3, 5),
    "evaluate lists": (4, 6), "evaluate cluster": (4, 4), "evaluate numbers": (4, 4),
    "monitor score": (3, 3), "monitor label": (3, 5), "monitor per-class": (3, 5),
    "monitor lists": (4, 6), "monitor cluster": (4, 4), "monitor numbers": (4, 4),
    "drift score": (5, 5), "drift lists": (7, 7), "drift numbers": (5, 5),
    "report score": (3, 3), "report label": (3, 5), "report numbers": (4, 4),
    "explore": (9, 17), "site score": (2, 5), "site label": (3, 8),
    "plan": (1, 1), "plan each class": (1, 1),
}  # fmt: skip


def words(command: str, folder: Path) -> list[Any]:
    """Return a command as it is typed."""
    verb, _, how = command.partition(" ")
    known, new, promise = (folder / name for name in ("known.parquet", "new.parquet", how))
    if verb == "calibrate":
        return [verb, known, *CALIBRATE[how], "-o", promise]
    own: dict[str, list[Any]] = {
        "predict": [verb, promise, new, "-o", folder / "sets.parquet"],
        "evaluate": [verb, promise, new],
        "monitor": [verb, promise, new, "--state", folder / "state.json"],
        "drift": ["monitor", promise, new, "--reference", known],
        "report": [verb, promise, new, "-o", folder / "report.html"],
        "explore": [verb, known, *BY_LABEL],
        "plan": [verb, *LEVELS, known, "--task", "site"],
        "site": [verb, folder / "one.parquet", "--name", "a", *LEVELS, "-o", folder / "a.json"],
    }
    more = {"site score": ["--score", "true"], "site label": ["--label", "y"]}
    more["plan each class"] = ["--label", "y", "--per-class"]
    return own[verb] + more.get(command, [])


@pytest.mark.parametrize("size", ["small", "large"])
@pytest.mark.parametrize("command", QUERIES)
def test_queries_are_counted(
    command: str, size: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb, _, how = command.partition(" ")
    if verb not in ("calibrate", "site", "plan", "explore") and not (folder / how).exists():
        assert not metapac(*words(f"calibrate {how}", folder)).exit_code
    (folder / "state.json").unlink(missing_ok=True)
    asked: list[str] = []

    def run(self: Source, query: Any, run: Any = Source.run) -> Any:
        asked.append("query")
        return run(self, query)

    def write(*arguments: Any, write: Any = output.write) -> None:
        asked.append("table")
        write(*arguments)

    monkeypatch.setattr(Source, "run", run)
    monkeypatch.setattr(table, "write", write)
    if size == "large":
        monkeypatch.setattr(data_checks, "_is_small", lambda *_: False)
    with as_if_large() if size == "large" else nullcontext():
        result = metapac(*words(command, folder))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert asked.count("query") == QUERIES[command][size == "large"]
    assert asked.count("table") == (verb == "predict")
