"""Columns that a scored table names itself: what is typed goes first."""

from __future__ import annotations

from typing import Any

import pytest

from metapac import InvalidInput
from metapac.cli.sources import fill_calibration, fill_new
from metapac.provenance import Provenance

COLUMNS = {"task": "task", "label": "label", "score": "score", "columns": "scores", "id": "example"}
CLASSES = Provenance(model="ProtoNet 1", columns=COLUMNS | {"classes_column": "classes"})
GROUPS = Provenance(model="ridge", columns=COLUMNS | {"classes": ["no", "yes"]})
NOTHING: dict[str, Any] = dict.fromkeys(
    ("task", "id", "score", "label", "classes", "classes_column", "prediction", "y", "scale")
)
CALIBRATION = NOTHING | {"columns": "p_*"}
NEW = NOTHING | {"columns": None}


def given(columns: dict[str, Any], start: dict[str, Any]) -> dict[str, Any]:
    """Return the columns that differ from what was not given."""
    return {name: value for name, value in columns.items() if value != start[name]}


def test_calibration_reads_the_lowered_scores() -> None:
    found = given(fill_calibration(CLASSES, CALIBRATION, per_class=False), CALIBRATION)
    assert found == {
        "task": "task",
        "id": "example",
        "score": "score",
        "columns": "scores",
        "classes_column": "classes",
    }
    found = given(fill_calibration(GROUPS, CALIBRATION, per_class=False), CALIBRATION)
    assert found == {"task": "task", "id": "example", "score": "score"}
    found = given(fill_calibration(GROUPS, CALIBRATION, per_class=True), CALIBRATION)
    assert found == {
        "task": "task",
        "id": "example",
        "score": "score",
        "label": "label",
        "classes": ["no", "yes"],
    }


def test_new_tasks_are_read_with_the_scores_of_all_labels() -> None:
    found = given(fill_new(CLASSES, NEW, labelled=True, per_class=False), NEW)
    assert found == {
        "task": "task",
        "id": "example",
        "label": "label",
        "columns": "scores",
        "classes_column": "classes",
    }
    predict = {name: NEW[name] for name in ("columns", "classes", "classes_column", "prediction")}
    found = given(fill_new(CLASSES, predict, labelled=False, per_class=False), NEW)
    assert found == {"columns": "scores", "classes_column": "classes"}
    found = given(fill_new(GROUPS, predict, labelled=False, per_class=False), NEW)
    assert found == {"columns": "scores", "classes": ["no", "yes"]}
    found = given(fill_new(GROUPS, predict, labelled=False, per_class=True), NEW)
    assert found == {"columns": "scores"}


@pytest.mark.parametrize("name", ["score", "label", "classes", "prediction", "columns"])
def test_what_is_typed_goes_first(name: str) -> None:
    start = CALIBRATION | {name: "mine"}
    found = given(fill_calibration(CLASSES, start, per_class=False), CALIBRATION)
    assert found == {"task": "task", "id": "example", name: "mine"}
    found = given(fill_new(CLASSES, NEW | {name: "mine"}, labelled=True, per_class=False), NEW)
    assert found == {"task": "task", "id": "example", name: "mine"}
    start = CALIBRATION | {"task": "site", "id": "row"}
    found = fill_calibration(CLASSES, start, per_class=False)
    assert (found["task"], found["id"]) == ("site", "row")


def test_other_tables_need_a_task_column() -> None:
    assert fill_calibration(None, CALIBRATION | {"task": "site"}, per_class=False)["task"] == "site"
    assert fill_new(None, NEW, labelled=True, per_class=False) == NEW
    with pytest.raises(InvalidInput, match="Missing option '--task', the column with the task of"):
        fill_calibration(None, CALIBRATION, per_class=False)
