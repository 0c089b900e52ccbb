"""Every pair of parameters is served or refused, as docs/understand/combinations.md shows it."""

from __future__ import annotations

import functools
import re
from dataclasses import fields
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac import Guarantee, InvalidInput, MetaPS, load
from metapac.guarantee import REFUSED

PAGE = Path(__file__).parent.parent / "docs" / "understand" / "combinations.md"
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.4, "delta": 0.2}
VALUES: dict[str, Any] = {
    "new_tasks": 20,
    "shift": 0.02,
    "dishonest": 1,
    "per_class": True,
    "offsets": {0: 0.5, 1: 0.5},
    "delta": None,
    "sampling": "iid",
    "randomise": 3,
    "min_examples": 2,
}
TASKS, EXAMPLES = 64, 28
names = np.repeat([f"site {i}" for i in range(TASKS)], EXAMPLES)
DATA: dict[str, Any] = {"clusters": np.repeat(np.arange(TASKS // 2), 2 * EXAMPLES)}
DATA["within"] = np.arange(len(names)) // 2


def read_table() -> dict[tuple[str, str], str]:
    """Return what the page says of each pair."""
    rows = [line.strip("|\n").split("|") for line in PAGE.read_text().splitlines()]
    start = next(i for i, row in enumerate(rows) if row[1:2] == [" new_tasks "])
    columns, cells = [name.strip() for name in rows[start][1:]], {}
    for row in rows[start + 2 : start + 2 + len(columns)]:
        for column, cell in zip(columns, row[1:], strict=True):
            if cell.strip():
                cells[column, row[0].strip()] = cell.strip()
    return cells


TABLE = read_table()
SHOWN = [*dict.fromkeys(name for pair in TABLE for name in pair)]


@functools.cache
def draw() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, len(names))
    logits = rng.normal(size=(len(names), 2))
    logits[np.arange(len(names)), labels] += rng.normal(1, 0.5, TASKS).repeat(EXAMPLES)
    scores = np.exp(logits)
    return scores / scores.sum(axis=1, keepdims=True), labels


def ask(*shown: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of the guarantee, and the data beside the scores."""
    stated, data = dict(LEVELS), {}
    for name in shown:
        key, _, value = name.partition("=")
        if key in DATA:
            data[key] = DATA[key]
        else:
            stated[key] = value or VALUES[key]
            stated[key] = None if value == "None" else stated[key]
    if stated.get("per_class") == "together":
        stated["offsets"] = VALUES["offsets"]
    return stated, data


def test_the_table_has_every_pair() -> None:
    assert set(TABLE) == set(combinations(SHOWN, 2))
    parameters = {name.partition("=")[0] for name in SHOWN}
    stated = {field.name for field in fields(Guarantee)}
    assert parameters == stated - {"epsilon", "alpha", "offsets"} | {*DATA}
    one = {("split=tight", "split=even"), ("per_class", "per_class=together")}
    assert {pair for pair, cell in TABLE.items() if cell == "-"} == one
    refused = {tuple(sorted(pair)) for pair, cell in TABLE.items() if cell == "no"}
    assert refused == {tuple(sorted(p)) for p in REFUSED if "sampling=capped" not in p}


def test_the_page_gives_every_reason() -> None:
    reasons = re.findall(r"^- `(.+)` and `(.+)`: (.+)\.$", PAGE.read_text(), re.M)
    assert {(one, other): reason for one, other, reason in reasons} == REFUSED


@pytest.mark.parametrize("pair", [pair for pair, x in TABLE.items() if x not in ("no", "-")])
def test_a_pair_that_is_served_works_throughout(pair: tuple[str, str], tmp_path: Path) -> None:
    (scores, labels), (stated, data) = draw(), ask(*pair)
    predictor = MetaPS(**stated).calibrate(scores, names, labels, **data)
    predictor.save(tmp_path / "promise.json")
    again = load(tmp_path / "promise.json")
    for one in (predictor, again):
        assert 0 < one.predict_set(scores).mean() < 1
        assert len(one.explain().split("\n\n")) == 6  # the paragraphs of a report
    assert (again.promise_, again.explain()) == (predictor.promise_, predictor.explain())
    assert np.array_equal(again.predict_set(scores), predictor.predict_set(scores))


@pytest.mark.parametrize("pair", REFUSED)
def test_a_pair_that_is_refused_names_both(pair: tuple[str, str]) -> None:
    given = dict(part.partition("=")[::2] for part in pair)
    stated = {name: text or VALUES[name] for name, text in given.items()}
    stated = {name: None if x == "None" else x for name, x in stated.items()}
    with pytest.raises(InvalidInput) as caught:
        MetaPS(**{**LEVELS, **stated}).calibrate(draw()[0][:, 0], names)
    assert caught.value.parameters == tuple(given)
    assert all(name in str(caught.value) for name in given)
