"""What labelled new tasks show: verdict, warnings, charts and tables."""

from __future__ import annotations

import numpy as np
import pytest

from metapac import Context, MetaPS, Scored, evaluate
from metapac.evaluation import Evaluation
from metapac.guarantee import format_share
from metapac.report.findings import LISTED, WORST, Findings, find_findings
from metapac.words import Words

WORDS = Words.from_context(Context(unit="hospital", example="patient"))


def judge(data: Scored, promise: MetaPS) -> tuple[Evaluation, Findings]:
    evaluation = evaluate(promise, data)
    return evaluation, find_findings(evaluation, WORDS, data.rows(promise, ["new 1"]))


def test_tables_have_the_numbers_of_the_evaluation(labelled: Scored, promise: MetaPS) -> None:
    evaluation, found = judge(labelled, promise)
    assert evaluation.verdict is not None
    assert found.status == evaluation.verdict.status
    assert found.verdict == evaluation.verdict.sentence()
    assert len(found.worst.rows) == WORST
    assert len(found.tasks.rows) == found.number == 20
    for cells, row in zip(found.tasks.rows, evaluation.worst(20), strict=True):
        assert cells[0] == row["task"]
        assert cells[1] == f"{row['missed']} of {row['examples']}"
        assert cells[2] == format_share(row["error"])
        assert cells[3] == f"{format_share(row['low'])} to {format_share(row['high'])}"
        assert cells[4] == f"{row['set_size']:.2f}"
        assert cells[5] == str(row["empty"])
    assert found.worst.head[0] == "hospital"
    assert found.class_table is not None
    assert {row[0] for row in found.class_table.rows} == {*map(str, labelled.classes or ())}
    lows = [float(row[3].split("%")[0]) for row in found.class_table.rows]
    assert lows == sorted(lows, reverse=True)


def test_a_guarantee_that_holds_trivially_is_not_called_good(labelled: Scored) -> None:
    method = MetaPS(epsilon=0.2, alpha=0.2, delta=0.1, on_infeasible="trivial")
    _, found = judge(labelled, method.calibrate([0.5] * 10, ["a"] * 10))
    assert found.status == "nothing to check"
    assert found.verdict.startswith("Nothing to check: every label is kept, so none is missed.")


def test_the_summary_counts_by_hand(labelled: Scored, promise: MetaPS) -> None:
    evaluation, found = judge(labelled, promise)
    within = int(np.sum(evaluation.missed / evaluation.examples <= 0.2))
    assert found.summary.startswith("20 new hospitals with 1,000 patients. At ")
    share = "all" if within == 20 else str(within)
    assert f"At {share} of them, at most 20% of the patients were missed" in found.summary


def test_with_a_guarantee_per_class_each_class_has_its_rows(
    labelled: Scored, per_class: MetaPS
) -> None:
    evaluation, found = judge(labelled, per_class)
    assert evaluation.by_class is not None
    assert [panel.label for panel in found.errors] == [*evaluation.by_class]
    assert found.number == sum(len(part.tasks) for part in evaluation.by_class.values())
    assert found.worst.head[:2] == ["hospital", "class"]
    assert found.worst.names == 2


def test_a_neglected_class_is_a_warning() -> None:
    rng = np.random.default_rng(0)
    scores, tasks = rng.random(6000), np.repeat(np.arange(60), 100)
    promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1).calibrate(0.5 + scores / 2, tasks)

    def find_at(share: float) -> Findings:
        rare = rng.random(6000) < share
        new, labels = [f"new {task}" for task in tasks], np.where(rare, "yes", "no")
        judged = evaluate(promise, np.where(rare, 0.1, 0.9 + scores / 100), new, labels)
        return find_findings(judged, WORDS, [])

    found = find_at(0.02)
    assert len(found.warnings) == 1
    assert found.warnings[0].endswith(" A guarantee for each class would.")
    violated = find_at(0.4)
    assert violated.status == "violated"
    assert violated.warnings[0].endswith(" patients (100%).")
    assert found.warnings[0].startswith("A class is missed far more often than 10%: yes in ")
    assert found.sizes is None
    assert found.shares is None


def test_lists_that_rule_nothing_out_are_a_warning(promise: MetaPS) -> None:
    def warn(full: int) -> list[str]:
        scores = np.where(np.arange(200)[:, None] < full, [1.0, 1.0, 1.0], [1.0, 0.0, 0.0])
        tasks, labels = np.repeat(["new 1", "new 2"], 100), np.full(200, "cat")
        data = Scored(scores, tasks, labels, ("cat", "dog", "</script><b>owl"))
        return judge(data, promise)[1].warnings

    assert warn(100) == []
    assert warn(101) == [
        "50.5% of the lists hold every label and rule nothing out: a person decides on these "
        "patients."
    ]


def test_the_summary_has_the_share_of_each_class(labelled: Scored, per_class: MetaPS) -> None:
    evaluation, found = judge(labelled, per_class)
    shares = sorted(
        (-part.error, f"{format_share(part.error)} of {part.label}")
        for part in evaluation.classes or ()
    )
    text = ", ".join(share for _error, share in shares)
    assert found.summary.endswith(f"Missed in each class, over all of them: {text}.")


def test_the_order_of_the_worst_is_said(promise: MetaPS) -> None:
    tasks = np.repeat(["new 1", "new 2"], 100)
    assert find_findings(evaluate(promise, np.ones(200), tasks), WORDS, []).order.startswith(
        "By the share"
    )
    assert "few patients" in find_findings(evaluate(promise, np.zeros(200), tasks), WORDS, []).order


def test_tasks_that_are_not_new_are_named(
    promise: MetaPS, calibration: Scored, labelled: Scored
) -> None:
    both = Scored(
        np.concatenate([labelled.scores, calibration.scores[:50]]),
        np.concatenate([labelled.tasks, calibration.tasks[:50]]),
        np.concatenate([labelled.labels, calibration.labels[:50]]),
        labelled.classes,
    )
    found = judge(both, promise)[1]
    assert any("because they are not new: old 0." in warning for warning in found.warnings)


@pytest.mark.parametrize("tasks", [60, 61])
def test_the_caption_fits_the_chart(tasks: int, promise: MetaPS) -> None:
    scores = np.random.default_rng(0).random(tasks * 20) / 2 + 0.5
    names = [f"new {i}" for i in np.repeat(np.arange(tasks), 20)]
    found = find_findings(evaluate(promise, scores, names), WORDS, [])
    assert ("Clopper-Pearson" in found.errors[0].caption) == (tasks == 60)


def test_of_very_many_tasks_the_worst_are_listed(promise: MetaPS) -> None:
    tasks = np.repeat(np.arange(LISTED + 7), 5)
    scores = np.random.default_rng(0).random(len(tasks))
    found = find_findings(evaluate(promise, scores, tasks), WORDS, [])
    assert len(found.tasks.rows) == LISTED
    assert found.number == LISTED + 7
