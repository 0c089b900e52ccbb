"""The figure of an evaluation: its panels, names and colours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from metapac import MetaPS, evaluate, plots
from metapac.evaluation import ClassMisses, Evaluation


def assess(tasks: int, classes: int, *, per_class: bool = False) -> Evaluation:
    """Return an evaluation of tasks with awkward names, of thirty examples each."""
    rng = np.random.default_rng(0)
    labels = np.arange(30 * 40) % classes
    options = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3, "per_class": per_class}
    promise = MetaPS(**options)  # type: ignore[arg-type]
    old = np.repeat([f"old {i}" for i in range(12)], 100)
    promise.calibrate(rng.random(1200), old, labels[:1200] if per_class else None)
    names = np.repeat([f"$\\alpha {i} " + "x" * 20 for i in range(tasks)], 30)
    labels = np.arange(30 * tasks) % classes
    return evaluate(promise, rng.random((30 * tasks, classes)), names, labels, allow=["labels"])


@pytest.mark.parametrize("tasks", [1, 2, 40, 41, 500])
@pytest.mark.parametrize("classes", [2, 30])
def test_an_evaluation_is_drawn(tasks: int, classes: int, tmp_path: Path) -> None:
    evaluation = assess(tasks, classes)
    figure = plots.draw_evaluation(evaluation, path=tmp_path / "tasks.png")
    errors, sets, by_class = figure.axes
    ordered = np.sort(evaluation.errors)
    assert errors.lines[0].get_ydata() == pytest.approx(ordered)
    assert len(errors.get_xticklabels()) == tasks or tasks > 40
    heights = [float(bar.get_height()) for bar in sets.patches]  # type: ignore[attr-defined]
    shares = evaluation.set_shares
    assert shares is not None
    assert (heights[0], heights[1], heights[3]) == pytest.approx(tuple(shares.values()))
    assert sum(heights) == pytest.approx(1)
    assert sum(len(np.ravel(line.get_xdata())) for line in by_class.lines) == min(classes, 20)
    assert evaluation.verdict is not None
    assert figure.get_suptitle().startswith(f"guarantee: {evaluation.verdict.status}")


def test_a_neglected_class_is_named_and_red() -> None:
    promise = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    promise.calibrate(np.random.default_rng(0).random(1200), np.repeat(np.arange(12), 100))
    labels = np.tile([0, 0, 0, 0, 1], 400)
    scores = np.where(labels[:, None] == 0, [0.9, 0.0], [0.8, 0.0])
    tasks = np.repeat([f"new {i}" for i in range(20)], 100)
    figure = plots.draw_evaluation(evaluate(promise, scores, tasks, labels, allow=["duplicates"]))
    assert figure.get_suptitle() == "guarantee: holds (class 1: 100% missed)"
    within, above = figure.axes[2].lines
    assert (within.get_xdata(), above.get_xdata()) == ([0], [1])
    assert above.get_color() == plots.LIMIT


def test_a_class_is_red_by_the_rule_of_verdicts() -> None:
    counts = {"a": (60, 9), "b": (60, 11), "c": (60, 20)}
    classes = tuple(
        ClassMisses(name, n, missed, *stats.binomtest(missed, n).proportion_ci())
        for name, (n, missed) in counts.items()
    )
    evaluation = replace(assess(1, 2), classes=classes, epsilon=0.1)
    within, above = plots.draw_evaluation(evaluation).axes[2].lines
    red = [i for i, part in enumerate(classes) if part.is_above(0.1)]
    assert red == [1, 2]
    assert classes[1].low < 0.1  # although its two-sided interval holds epsilon
    assert above.get_color() == plots.LIMIT
    assert ([*np.ravel(within.get_xdata())], [*np.ravel(above.get_xdata())]) == ([0], red)


def test_classes_with_a_guarantee_have_their_colours() -> None:
    figure = plots.draw_evaluation(assess(20, 2, per_class=True))
    errors = figure.axes[0]
    legend = errors.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["epsilon", "0", "1"]


def test_only_true_labels_give_one_panel() -> None:
    promise = MetaPS(epsilon=0.3, alpha=0.4, delta=0.3)
    rng = np.random.default_rng(0)
    promise.calibrate(rng.random(1200), np.repeat(np.arange(12), 100))
    evaluation = evaluate(promise, rng.random(60), np.repeat(["a", "b"], 30))
    assert len(plots.draw_evaluation(evaluation).axes) == 1
