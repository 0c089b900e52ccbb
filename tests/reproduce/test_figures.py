"""The figures show what the rows hold: boxes, whiskers, limits, and infeasible methods."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex

from metapac.fewshot import draw_images_with_sets, paper_methods, run_study
from metapac.fewshot.study import figures
from metapac.fewshot.study.rows import Rows
from metapac.plots import INK, LIMIT
from tests.helpers.studies import GUARANTEE, SmallStudy

STRICT = replace(GUARANTEE, epsilon=0.1, delta=1e-5)


@pytest.fixture(scope="module")
def rows() -> Rows:
    methods = paper_methods(GUARANTEE, second_delta=0.1)
    return run_study(SmallStudy(tests=6), guarantee=GUARANTEE, methods=methods, draws=22)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The figures that would have been written."""
    result: list[Any] = []
    monkeypatch.setattr(figures, "save", lambda figure, path: result.append(figure))
    return result


def whiskers(axes: Any) -> list[tuple[float, float]]:
    """The ends of the whiskers of each box, from left to right: where their caps are."""
    across = [line for line in axes.lines if line.get_linestyle() == "-" and line.get_lw() == 1]
    ends = [(*line.get_xdata(), *line.get_ydata()) for line in across if len(line.get_xdata()) == 2]
    caps = sorted(((x + y) / 2, low) for x, y, low, high in ends if x != y and low == high)
    return [(low, high) for (_, low), (_, high) in zip(caps[::2], caps[1::2], strict=True)]


def texts(axes: Any) -> list[str]:
    return [text.get_text().replace("\n", " ") for text in axes.texts]


def names(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


SPLITS = ["Meta-PS even", "Meta-PS tight", "Meta-PS joint"]
SHOWN = ["PS", "PS-Test", "Meta-CP", *SPLITS, "oracle"]


def test_boxes_show_errors_and_sizes_of_all_tasks(rows: Rows, drawn: list[Any]) -> None:
    for alpha, places, label in ((0.4, [10, 90], "10th and 90th"), (0.03, [3, 97], "3rd and 97th")):
        figures.draw_error(rows, replace(GUARANTEE, alpha=alpha), title="a title", path="e.png")
        figure = drawn.pop()
        (axes,) = figure.axes
        assert names(axes) == [name.replace(" ", "\n") for name in SHOWN]
        expected = [tuple(np.percentile(rows.select(name).error, places)) for name in SHOWN]
        np.testing.assert_allclose(whiskers(axes), expected)
        assert f"whiskers: {label} percentile of tasks" in axes.get_xlabel()
        (limit,) = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert limit.get_ydata() == [0.3, 0.3]
        assert figure.get_suptitle() == "a title"
        for name in SHOWN:
            assert f"{np.mean(rows.select(name).error <= 0.3):.1%}" in texts(axes)
    figures.draw_size(rows, GUARANTEE, title="", path="size.png")
    (axes,) = drawn[0].axes
    sizes = [rows.select(name).size for name in SHOWN]
    np.testing.assert_allclose(whiskers(axes), [(size.min(), size.max()) for size in sizes])
    assert {f"{np.mean(size):.2f}" for size in sizes} <= {*texts(axes)}


def test_a_violated_guarantee_is_red(drawn: list[Any]) -> None:
    rows = run_study(SmallStudy(tests=6), guarantee=GUARANTEE, draws=2)
    violating = replace(rows, error=np.where(rows.method == "PS", 0.9, 0.0))
    figures.draw_error(violating, GUARANTEE, title="", path="error.png")
    colours = {text.get_text(): text.get_color() for text in drawn[0].axes[0].texts}
    assert (colours["0.0%"], colours["100.0%"]) == (LIMIT, INK)
    assert drawn[0].axes[0].get_xlabel().endswith("\nred: below 1 - alpha = 0.6")
    figures.draw_error(replace(rows, error=0 * rows.error), GUARANTEE, title="", path="error.png")
    assert "red" not in drawn[1].axes[0].get_xlabel()


def legend(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.get_legend().get_texts()]


def legend_colours(axes: Any) -> list[str]:
    return [to_hex(patch.get_facecolor()) for patch in axes.get_legend().get_patches()]


def test_errors_per_set_are_those_of_each_set(rows: Rows, drawn: list[Any]) -> None:
    figures.draw_error_per_set(rows, GUARANTEE, title="", path="sets.png")
    for axes, meta in zip(drawn[0].axes, SPLITS, strict=True):
        assert legend(axes) == [meta, "Meta-CP"]
        assert legend_colours(axes) == [figures.COLOURS[meta], figures.COLOURS["Meta-CP"]]
        result = whiskers(axes)
        assert len(result) == 2 * 20
        for number in range(20):
            for name, ends in zip((meta, "Meta-CP"), result[2 * number :], strict=False):
                selected = rows.select(name).error[rows.select(name).draw == number]
                assert ends == pytest.approx(tuple(np.percentile(selected, [10, 90])))
    assert names(drawn[0].axes[-1])[-1] == "20"


def test_sets_with_a_threshold_of_zero_are_counted(rows: Rows, drawn: list[Any]) -> None:
    zero = (rows.method == "Meta-PS even") & np.isin(rows.draw, [1, 2, 21])
    one_task = (rows.method == "Meta-CP") & (rows.task == 0)
    kept = replace(rows, threshold=np.where(zero | one_task, 0.0, rows.threshold))
    figures.draw_error_per_set(kept, GUARANTEE, title="", path="sets.png")
    name = "Meta-PS even (keeps every label in 2 of 20 sets: threshold zero)"
    assert legend(drawn[0].axes[0]) == [name, "Meta-CP"]
    alone = rows.take(rows.method != "Meta-CP")
    figures.draw_error_per_set(alone, GUARANTEE, title="", path="sets.png")
    assert [legend(axes) for axes in drawn[1].axes] == [[name] for name in SPLITS]


def test_errors_per_delta_are_those_of_each_delta(rows: Rows, drawn: list[Any]) -> None:
    figures.draw_error_per_delta(rows, GUARANTEE, title="", path="deltas.png", sets=3)
    *both, joint = drawn[0].axes
    assert legend(joint) == ["Meta-PS joint, delta = 0.2"]  # which was run at one delta
    assert legend_colours(joint) == [figures.COLOURS["Meta-PS joint"]]
    for axes, meta in zip(both, SPLITS[:2], strict=True):
        assert legend(axes) == [f"{meta}, delta = 0.1", f"{meta}, delta = 0.2"]
        assert legend_colours(axes) == [figures._LOOSE, figures.COLOURS[meta]]
        expected = [
            tuple(np.percentile(selected.error[selected.draw == number], [10, 90]))
            for number in range(3)
            for selected in (rows.select(meta, 0.1), rows.select(meta, 0.2))
        ]
        np.testing.assert_allclose(whiskers(axes), expected)


def test_an_infeasible_method_says_what_it_needs(drawn: list[Any]) -> None:
    rows = run_study(SmallStudy(), guarantee=STRICT, draws=2)
    for draw in (figures.draw_error, figures.draw_size):
        draw(rows, STRICT, title="", path="some.png")
        result = texts(drawn.pop().axes[0])
        assert "keeps every label: needs 110 labels" in result  # PS-Test
        assert "keeps every label: needs 52 tasks of 16 examples" in result  # Meta-PS even
        assert "keeps every label: needs more tasks or examples" in result  # Meta-CP
        assert sum(text.startswith("keeps") for text in result) == 5
    figures.draw_error_per_set(rows, STRICT, title="", path="some.png")
    assert "keeps every label: needs 52 tasks of 16" in legend(drawn[0].axes[0])[0]


def test_a_figure_is_the_same_twice(rows: Rows, tmp_path: Path) -> None:
    for name in "ab":
        path = tmp_path / f"{name}.svg"
        figures.draw_error_per_set(rows, GUARANTEE, title="a <b> & c", path=path)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_seeds_are_shown_together(rows: Rows, drawn: list[Any], tmp_path: Path) -> None:
    """The draws of seeds are not mixed: those of the first are shown first."""
    hidden = replace(rows, method=np.where(rows.method == "oracle", "HCP", rows.method))
    other = replace(hidden, error=rows.error / 2)
    few, third = hidden.take(rows.draw < 2), hidden.take(rows.draw == 21)
    figures.draw_figures([few, other, third], GUARANTEE, tmp_path, title="")
    error, _, _, _, per_set, *_ = drawn
    assert names(error.axes[0]) == [name.replace(" ", "\n") for name in SHOWN[:-1]]
    seeds = [each.select("Meta-PS even") for each in (few, other, third)]
    everything = np.percentile(np.concatenate([seed.error for seed in seeds]), [10, 90])
    assert whiskers(error.axes[0])[3] == pytest.approx(tuple(everything))
    found = whiskers(per_set.axes[0])[::2]
    for number, (seed, draw) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        own = seeds[seed].error[seeds[seed].draw == draw]
        assert found[number] == pytest.approx(tuple(np.percentile(own, [10, 90])))


def test_a_missed_label_is_marked(tmp_path: Path) -> None:
    images = np.zeros((3, 4, 4), dtype=np.uint8)
    sets = np.array([[True, False], [True, True], [False, False]])
    path = tmp_path / "sets.svg"
    draw_images_with_sets(images, [0, 1, 0], sets, "ab", title="Sets", path=path)
    content = path.read_text(encoding="utf-8")
    for text in ("{ a }", "{ a b }", "{ none }"):
        assert f"<!-- {text} -->" in content
    assert content.count(LIMIT) == 2  # label and set of the third image
