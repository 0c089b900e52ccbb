"""Columns that a scored table names itself: what is typed goes first."""

from __future__ import annotations

from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from metapac.cli.sources import fill_calibration, fill_new

from metapac import Columns, InvalidInput, open_table
from metapac.provenance import Provenance
from metapac.tables import Table

COLUMNS = {"task": "task", "label": "label", "score": "score", "columns": "scores", "id": "example"}
CLASSES = Provenance(model="ProtoNet 1", columns=COLUMNS | {"classes_column": "classes"})
GROUPS = Provenance(model="ridge", columns=COLUMNS | {"classes": ["no", "yes"]})
NOTHING: dict[str, Any] = {field.name: None for field in fields(Columns)} | {"columns": "p_*"}
TOGETHER, EACH = SimpleNamespace(classes_=None), SimpleNamespace(classes_=("no", "yes"))


@pytest.fixture(scope="module")
def table() -> Table:
    return open_table(pd.DataFrame({"task": [0]}))


def named(table: Table) -> dict[str, Any]:
    """Return the columns that are not as if nothing was given."""
    columns = {field.name: getattr(table.columns, field.name) for field in fields(Columns)}
    return {name: value for name, value in columns.items() if value not in (None, "p_*")}


def test_calibration_reads_the_lowered_scores(table: Table) -> None:
    start = {"task": "task", "id": "example", "score": "score"}
    found = fill_calibration(table, CLASSES, NOTHING, per_class=False)
    assert named(found) == start | {"columns": "scores", "classes_column": "classes"}
    found = fill_calibration(table, GROUPS, NOTHING, per_class=False)
    assert named(found) == start
    found = fill_calibration(table, GROUPS, NOTHING, per_class=True)
    assert named(found) == start | {"label": "label", "classes": ["no", "yes"]}


def test_new_tasks_are_read_with_the_scores_of_all_labels(table: Table) -> None:
    new = NOTHING | {"columns": None}
    assert named(fill_new(table, CLASSES, new, TOGETHER)) == {
        "task": "task",
        "id": "example",
        "label": "label",
        "columns": "scores",
        "classes_column": "classes",
    }
    predict = {name: new[name] for name in ("columns", "classes", "classes_column", "prediction")}
    for origin, predictor, more in (
        (CLASSES, TOGETHER, {"classes_column": "classes"}),
        (GROUPS, TOGETHER, {"classes": ["no", "yes"]}),
        (GROUPS, EACH, {}),
    ):
        found = fill_new(table, origin, predict, predictor, labelled=False)
        assert named(found) == {"columns": "scores"} | more


@pytest.mark.parametrize("name", ["score", "label", "classes", "prediction", "columns"])
def test_what_is_typed_goes_first(table: Table, name: str) -> None:
    value = ["mine"] if name == "classes" else "mine"
    typed = NOTHING | {name: value}
    for found in (
        fill_calibration(table, CLASSES, typed, per_class=False),
        fill_new(table, CLASSES, typed, TOGETHER),
    ):
        assert named(found) == {"task": "task", "id": "example", name: value}
    found = fill_calibration(
        table, CLASSES, NOTHING | {"task": "site", "id": "row"}, per_class=False
    )
    assert (found.columns.task, found.columns.id) == ("site", "row")


def test_other_tables_need_a_task_column(table: Table) -> None:
    found = fill_calibration(table, None, NOTHING | {"task": "site"}, per_class=False)
    assert named(found) == {"task": "site"}
    assert named(fill_new(table, None, NOTHING, TOGETHER)) == {}
    with pytest.raises(InvalidInput, match="--task"):
        fill_calibration(table, None, NOTHING, per_class=False)
