"""Tables of a report: classes, tasks with sizes or widths, and what became of examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from metapac import Context, MetaPS, Scored, evaluate
from metapac.evaluation import ClassMisses
from metapac.grouping import Row
from metapac.report.findings import list_classes, list_examples, list_tasks, rank_tasks
from metapac.words import Words

WORDS = Words.from_context(Context(unit="hospital", example="patient"))


def test_examples_say_what_became_of_them() -> None:
    rows = [
        Row("a", "cat", ("cat", "dog")),
        Row("b", "cat", ()),
        Row("c", "cat", ("dog",)),
    ]
    table = list_examples(rows, WORDS)
    assert table.head == ["hospital", "right label", "list", ""]
    assert table.rows == [
        ["a", "cat", "cat, dog", "contains it"],
        ["b", "cat", "no label", "empty, so it misses"],
        ["c", "cat", "dog", "misses it"],
    ]
    intervals = [Row("a", 1.0, None, (0.5, 1.5)), Row("a", 3.0, None, (0.5, 1.5))]
    table = list_examples(intervals, WORDS)
    assert table.head == ["hospital", "true number", "interval", ""]
    assert [row[1:] for row in table.rows] == [
        ["1", "0.5 to 1.5", "contains it"],
        ["3", "0.5 to 1.5", "misses it"],
    ]


def test_of_many_classes_the_first_are_listed() -> None:
    classes = [ClassMisses(f"kind {i}", 2000, 1000, 0.4, 0.6) for i in range(51)]
    table = list_classes(classes, WORDS)
    assert table.head == ["class", "missed patients", "share", "95% interval"]
    assert len(table.rows) == 50
    assert table.rows[1] == ["kind 1", "1,000 of 2,000", "50.0%", "40.0% to 60.0%"]


def test_tasks_have_sizes_widths_or_neither(promise: MetaPS, labelled: Scored) -> None:
    evaluation = evaluate(promise, labelled)
    head = ["hospital", "missed", "share", "95% interval"]
    listed = list_tasks(evaluation, WORDS, rank_tasks(evaluation)[:3])
    assert listed.head == [*head, "labels in a list", "empty lists"]
    assert [len(row) for row in listed.rows] == [6, 6, 6]
    plain = replace(evaluation, sets=None, widths=np.full(20, 12345.6))
    wide = list_tasks(plain, WORDS, rank_tasks(plain)[:1])
    assert wide.head == [*head, "width"]
    assert wide.rows[0][-1] == "1.235e+04"
    assert list_tasks(plain, WORDS, []).rows == []
