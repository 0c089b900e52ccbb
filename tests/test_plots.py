"""Figures: their files, and what the axes of each hold."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from metapac import MetaPS, MissingExtra, Plan, evaluate, plan, plots
from metapac.evaluation import ClassMisses, Evaluation
from metapac.fewshot.reproduce.figures import draw_boxes


def save_figure(path: Path) -> bytes:
    figure, (axes,) = plots.create_figure(1, width=3, height=2)
    draw_boxes(axes, [np.arange(11)], whiskers=(10, 90), colours=["#123456"])
    axes.plot([0, 1], [0, 1], clip_path=axes.patch)  # SVG gives clip paths random names
    plots.save(figure, path)
    return path.read_bytes()


def test_an_svg_depends_on_the_figure_alone(tmp_path: Path) -> None:
    first = save_figure(tmp_path / "first.svg")
    assert first == save_figure(tmp_path / "second.svg")
    assert b"<dc:date>" not in first
    assert b"#123456" in first


def test_the_extension_selects_the_format(tmp_path: Path) -> None:
    assert save_figure(tmp_path / "a.png").startswith(b"\x89PNG")
    assert save_figure(tmp_path / "a.pdf").startswith(b"%PDF")
    assert save_figure(tmp_path / "a").startswith(b"\x89PNG")


def test_boxes_have_colours_positions_and_whiskers() -> None:
    _, (axes,) = plots.create_figure(1, width=3, height=2)
    values = [np.arange(11.0), np.arange(101.0)]
    colours = ["#ff0000", "#0000ff"]
    draw_boxes(axes, values, whiskers=(10, 90), colours=colours, positions=[2, 5], width=0.5)
    assert [box.get_facecolor()[:3] for box in axes.patches] == [(1, 0, 0), (0, 0, 1)]
    ends = np.concatenate([np.ravel(line.get_ydata()) for line in axes.lines])
    assert set(ends.tolist()) >= {1, 9, 10, 90}
    assert axes.get_xticks().tolist() == [2, 5]


def test_axes_of_several_rows_share_their_scales() -> None:
    _, (top, bottom) = plots.create_figure(1, rows=2, width=3, height=2)
    top.set_ylim(0, 7)
    assert bottom.get_ylim() == (0, 7)
    _, (left, right) = plots.create_figure(2, width=3, height=2)
    left.set_ylim(0, 7)
    assert right.get_ylim() != (0, 7)


def test_a_missing_matplotlib_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    message = r"a figure needs matplotlib. Install it with: pip install 'metapac\[plot\]'"
    with pytest.raises(MissingExtra, match=message):
        plots.create_figure(1, width=1, height=1)


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
    axes = plots.draw_evaluation(evaluation).axes[2]
    within, above = axes.lines
    red = [i for i, part in enumerate(classes) if part.is_above(0.1)]
    assert red == [1, 2]
    assert classes[1].low < 0.1  # although its two-sided interval holds epsilon
    assert above.get_color() == plots.LIMIT
    assert ([*np.ravel(within.get_xdata())], [*np.ravel(above.get_xdata())]) == ([0], red)
    assert [*np.ravel(above.get_ydata())] == [classes[i].error for i in red]
    bars = [(part.low, part.high) for part in classes]
    drawn = [collection.get_segments() for collection in axes.collections[:2]]  # type: ignore[attr-defined]
    ends = [tuple(segment[:, 1].tolist()) for segments in drawn for segment in segments]
    assert ends == [pytest.approx(bar) for bar in bars]


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


@pytest.mark.parametrize("parameter", ["alpha", "delta", "split"])
def test_needs_are_drawn_for_every_split(parameter: str, tmp_path: Path) -> None:
    curves = {}
    for split in ("tight", "even"):
        planned = plan(epsilon=0.1, alpha=0.1, delta=0.05, split=split)
        assert isinstance(planned, Plan)
        curves[split] = planned.curve(parameter, [0.1, 0.2, 0.4])
    path = tmp_path / "needs.svg"
    plots.draw_needs(curves, title="Needs", path=path, mark=0.2)
    content = path.read_text(encoding="utf-8")
    for text in ("Needs", "tight", "even", "minimum tasks", "minimum examples per task"):
        assert f"<!-- {text} -->" in content
