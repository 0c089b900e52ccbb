"""Summaries: plain loops, closed forms, verdicts that noise cannot fake; tables and figures."""

from __future__ import annotations

import csv
import statistics
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee, InvalidInput
from metapac.fewshot import summarise
from metapac.fewshot.study import summary as study_summary
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import Summary, explained_by_noise, mean_interval, share_interval
from metapac.verdict import clopper_pearson_interval
from tests.helpers.oracles import binomial_cdf
from tests.helpers.studies import method_rows as table

G = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)
numbers = st.sampled_from([0.0, 0.05, 0.1, 0.100001, 0.3])
draws = st.integers(1, 5).flatmap(
    lambda tasks: st.lists(
        st.lists(st.tuples(numbers, st.integers(0, 5)), min_size=tasks, max_size=tasks),
        min_size=1,
        max_size=6,
    )
)


@given(draws)
def test_a_summary_is_what_plain_loops_count(cells: list[list[tuple[float, int]]]) -> None:
    errors = [[error for error, _ in draw] for draw in cells]
    sizes = [[float(size) for _, size in draw] for draw in cells]
    flat, all_sizes = np.ravel(errors).tolist(), np.ravel(sizes).tolist()
    (result,) = summarise(table(errors, sizes), G)
    assert (result.method, result.delta, result.feasible) == ("PS", 0.05, True)
    assert result.size == pytest.approx(statistics.fmean(all_sizes))
    assert result.size_median == statistics.median(all_sizes)
    assert result.error_mean == pytest.approx(statistics.fmean(flat))
    within = sum(error <= 0.1 for error in flat)
    assert result.tasks_within == within / len(flat)
    assert result.satisfied == (5 * (len(flat) - within) <= len(flat))  # alpha is one fifth
    assert result.satisfied == (result.error_quantile <= 0.1)
    good = [5 * sum(error > 0.1 for error in draw) <= len(draw) for draw in errors]
    assert result.draws_within == sum(good) / len(good)
    for value, (low, high) in (
        (result.tasks_within, result.tasks_within_interval),
        (result.draws_within, result.draws_within_interval),
        (result.error_quantile, result.error_quantile_interval),
    ):
        assert 0 <= low <= value <= high <= 1
    assert result.satisfied or not result.holds
    _, high = share_interval([table(errors)], [np.ravel(errors) > 0.1])
    assert result.holds == (high <= 0.2)


@given(draws, st.data())
def test_too_few_data_count_as_above_epsilon(
    cells: list[list[tuple[float, int]]], data: st.DataObject
) -> None:
    rows = table([[error for error, _ in draw] for draw in cells])
    lists = st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))
    feasible = np.array(data.draw(lists))
    (line,) = summarise(replace(rows, feasible=feasible), G)
    (worst,) = summarise(replace(rows, error=np.where(feasible, rows.error, 1.0)), G)
    (seen,) = summarise(rows, G)
    assert (line.holds, line.violated) == (worst.holds, seen.violated)
    decides = (seen.holds and not worst.holds) or (seen.satisfied and not worst.satisfied)
    assert line.too_few == decides
    assert line.holds + line.violated + line.too_few <= 1


def test_verdicts_rest_on_intervals_and_on_tasks_with_enough_data() -> None:
    # errors above epsilon among ten tasks, draws, tasks without enough data
    for above, count, short, verdict in (
        (0, 1, 0, "cannot tell yet"),  # ten tasks: up to 31 % may be above epsilon
        (0, 2, 0, "observed within"),  # twenty: up to 17 %
        (1, 10, 0, "observed within"),  # 10 % of the tasks, at most 18 %
        (2, 10, 0, "cannot tell yet"),  # 20 % are allowed, and their share may be larger
        (0, 500, 1, "observed within"),  # one task of 5000 decides nothing
        (0, 2, 1, "too few data"),  # of twenty it does: up to 25 % are above
        (0, 1, 1, "cannot tell yet"),  # nor would nine tasks of ten decide
        (0, 1, 3, "too few data"),  # more than alpha: more tasks do not help
        (10, 2, 1, "violated"),  # although one task cannot be missed
    ):
        rows = table([[0.3] * above + [0.0] * (10 - above)] * count)
        (line,) = summarise(replace(rows, feasible=np.arange(len(rows)) >= short), G)
        assert (line.feasible, line.verdict) == (not short, verdict)
        words = ("observed within", "violated", "too few data")
        said = (line.holds, line.violated, line.too_few)
        assert said == tuple(verdict == word for word in words)


def test_a_violation_is_seen_and_noise_is_none() -> None:
    rng, g = np.random.default_rng(0), replace(G, alpha=0.1)
    rates = np.where(rng.random((10, 50)) < 0.4, 0.2, 0.05)
    rows = table(rng.binomial(500, rates) / 500, examples=500)
    assert summarise(rows, g)[0].verdict == "violated"
    # The same errors with few examples could be noise.
    few = replace(rows, examples=np.full(len(rows), 10))
    assert summarise(few, g)[0].verdict == "cannot tell yet"
    # Every task just keeps epsilon; nearly half are seen above it.
    rows = table(rng.binomial(500, 0.1, size=(10, 50)) / 500, examples=500)
    (line,) = summarise(rows, g)
    assert (line.satisfied, line.verdict) == (False, "cannot tell yet")
    assert line.tasks_above < 0.1


def test_a_verdict_is_about_the_learners_that_were_evaluated() -> None:
    # Of three learners one is bad: the interval over seeds is wide, and yet it was seen to fail.
    good, bad = np.zeros((20, 10)), np.full((20, 10), 0.3)
    (line,) = summarise([table(good), table(good), table(bad)], G)
    assert line.tasks_within == pytest.approx(2 / 3)
    assert line.tasks_within_interval[1] == 1
    assert line.verdict == "violated"


alphas = st.floats(0.001, 0.999) | st.sampled_from([0.1, 0.2, 0.3, 0.7, 0.9, 1 / 3])


@given(st.integers(1, 400), alphas, st.lists(numbers, min_size=1, max_size=40))
def test_shares_and_quantiles_agree(tasks: int, alpha: float, errors: list[float]) -> None:
    allowed = study_summary.allowed_tasks(tasks, alpha)
    assert allowed / tasks <= alpha < (allowed + 1) / tasks
    quantile = study_summary.error_quantile(np.array(errors), alpha)
    assert quantile in errors  # not interpolated
    for epsilon in (0.0, 0.04, 0.05, 0.1, 0.3):
        assert (quantile <= epsilon) == (np.mean(np.array(errors) > epsilon) <= alpha)


def test_a_task_is_flagged_when_so_many_misses_are_improbable() -> None:
    for examples in (1, 20, 60):
        missed = np.arange(examples + 1)
        rows = table([(missed / examples).tolist()], examples=examples)
        for epsilon in (0.05, 0.1, 0.3):
            flagged = study_summary.flag_tasks(rows, epsilon)
            for k in missed.tolist():
                tail = 1 - binomial_cdf(k - 1, examples, epsilon) if k else 1
                assert flagged[k] == (tail < Fraction("0.05")), (k, float(tail))
    rows = table([[0.1, np.nextafter(0.1, 1), 0.3]])  # exact errors need no limit
    assert study_summary.flag_tasks(rows, 0.1).tolist() == [False, True, True]
    assert explained_by_noise(rows, 0.2) == 0.2
    assert explained_by_noise(table([[0.1]], examples=9), 0.2) == pytest.approx(0.24)


def test_the_share_of_draws_within_is_what_chance_makes_it() -> None:
    errors = [[0.0] * 46 + [0.3] * 4, [0.0] * 47 + [0.3] * 3]
    exact = float(binomial_cdf(5, 50, 0.07))
    assert study_summary.expect_draws_within(table(errors), 0.1, 0.1) == pytest.approx(exact)


def test_means_are_students_t_over_draws_or_seeds() -> None:
    values = np.random.default_rng(0).normal(size=(3, 6)) + np.array([[0.0], [5.0], [2.0]])
    low, high = stats.ttest_1samp(values[0], 0).confidence_interval(0.95)
    assert mean_interval([values[0]]) == pytest.approx((low, high))
    low, high = stats.ttest_1samp(values.mean(axis=1), 0).confidence_interval(0.95)
    assert mean_interval([*values]) == pytest.approx((low, high))
    # Two seeds pool the spread of their draws, and so do more if the seeds are given.
    for used, options in ((values[:2], {}), (values, {"across_seeds": False})):
        half = np.sqrt(np.var(used, axis=1, ddof=1).mean() / used.size)
        half *= stats.t.ppf(0.975, used.size - len(used))
        assert mean_interval([*used], **options) == pytest.approx(
            (used.mean() - half, used.mean() + half)
        )
    assert mean_interval([np.array([2.0])]) == (-np.inf, np.inf)


def test_a_share_is_never_surer_than_that_of_independent_tasks() -> None:
    for errors in ([[0.0, 0.2, 0.2]], np.zeros((10, 20))):
        rows = table(errors)
        within = rows.error <= 0.1
        low, high = clopper_pearson_interval(within.sum(), len(within))
        assert share_interval([rows], [within]) == (float(low), float(high))
    bad = [np.ones(3, dtype=bool), np.zeros(3, dtype=bool), np.ones(3, dtype=bool)]
    assert study_summary.draw_share_interval(bad) == (0.0, 1.0)


def test_the_quantile_of_independent_tasks_is_bounded_by_order_statistics() -> None:
    # One draw: the interval of the share is that of Clopper and Pearson, which is monotone.
    errors = np.sort(np.random.default_rng(0).random(200))
    low, high = study_summary.quantile_interval([table([errors.tolist()])], 0.1)
    above = np.arange(199, -1, -1)  # tasks above each error
    limits = clopper_pearson_interval(above, np.full(200, 200))
    assert low == errors[np.argmax(limits[0] <= 0.1)]
    assert high == errors[np.argmax(limits[1] <= 0.1)]
    few = table([[0.2, 0.3, 0.4]])
    assert study_summary.quantile_interval([few], 0.1) == (0.2, 1.0)


def test_a_size_has_no_interval_beyond_what_is_possible() -> None:
    rows = table(np.zeros((2, 2)), [[0, 1], [4, 5]])
    assert summarise(rows, G)[0].size_interval[1] > 5
    (line,) = summarise(replace(rows, labels=np.array([4, 6, 4, 6])), G)
    assert line.size_interval == (0, 5)


def test_sizes_are_compared_in_pairs() -> None:
    sizes = np.random.default_rng(0).normal(size=(3, 2, 8, 5))  # (seeds, methods, draws, tasks)
    by_seed = [
        Rows.concatenate([table(one, one, method="A"), table(other, other, method="B")])
        for one, other in sizes
    ]
    apart = (sizes[:, 0] - sizes[:, 1]).mean(axis=2)  # (seeds, draws)
    for given_, units in ((by_seed[0], apart[0]), (by_seed, apart.mean(axis=1))):
        result = study_summary.compare_sizes(given_, "A", "B")
        low, high = stats.ttest_1samp(units, 0).confidence_interval(0.95)
        assert (result.low, result.high) == pytest.approx((low, high))
        assert result.difference == pytest.approx(units.mean())
    assert (result.first, result.second, result.draws) == ("A", "B", 24)
    means = tuple(sizes.mean(axis=(0, 2, 3)))
    assert (result.first_size, result.second_size) == pytest.approx(means)


def test_seeds_are_summarised_together_and_must_be_alike() -> None:
    rng = np.random.default_rng(0)
    seeds = [table(rng.random((4, 5)), rng.random((4, 5))) for _ in range(3)]
    summary = summarise(seeds, G, notes=())
    (line,) = summary
    assert line.size == pytest.approx(np.mean([each.size for each in seeds]))
    means = [each.size.reshape(4, 5).mean(axis=1) for each in seeds]
    assert line.size_interval == mean_interval(means)
    within = [each.error <= 0.1 for each in seeds]
    assert line.tasks_within_interval == share_interval(seeds, within)
    assert (summary.seeds, summary.draws, summary.rows) == (3, 4, tuple(seeds))
    assert repr(summary) == "<Summary of 1 methods, 3 seeds, 4 draws each>"
    wrong: list[Any] = [[], [seeds[0], table(np.zeros((3, 3)))]]
    for rows in (*wrong, [seeds[0], table(np.zeros((4, 5)), method="B")]):
        with pytest.raises(InvalidInput, match="rows"):
            summarise(rows, G)


def test_a_summary_says_what_its_intervals_cover_and_what_is_left_out() -> None:
    covers = {summarise([table(np.zeros((d, 3)))] * s, G).covers for s in (1, 2, 3) for d in (1, 4)}
    assert len(covers) == 5  # of three seeds the draws do not matter
    assert "over 3 seeds" in summarise([table(np.zeros((1, 3)))] * 3, G).covers
    rows = table([[0.1]])
    assert "Meta-CP is left out" in summarise(rows, G).notes[0]
    assert summarise(table([[0.1]], method="Meta-CP"), G).notes == ()
    assert summarise(rows, G, notes=["for a reason"]).notes == ("for a reason",)


@pytest.fixture
def summary() -> Summary:
    rng = np.random.default_rng(0)
    odd = table(0.3 * rng.random((4, 9)), rng.random((4, 9)), method="50 % <b> & a|b_c")
    other = table(np.zeros((4, 9)), method="PS-Test", delta=0.1, feasible=False)
    full = replace(table(np.zeros((4, 9)), method="all"), labels=np.ones(36, int))
    rows = Rows.concatenate([odd, other, full])
    return summarise(rows, replace(G, alpha=0.05), notes=["A note & more."])


def test_a_data_frame_and_the_csv_file_have_every_digit(summary: Summary, tmp_path: Path) -> None:
    frame = summary.to_frame()
    summary.write(tmp_path / "new")
    with (tmp_path / "new" / "summary.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert frame.to_csv(index=False) == (tmp_path / "new" / "summary.csv").read_text()
    assert lines[1]["verdict"] == frame.verdict[1] == "too few data"
    for name, value in asdict(summary[0]).items():
        stem, is_interval = name.removesuffix("_interval"), name.endswith("_interval")
        ends = {f"{stem}_low": value[0], f"{stem}_high": value[1]} if is_interval else {name: value}
        for column, number in ends.items():
            assert frame[column][0] == number
            assert lines[0][column] == str(number)
    assert isinstance(frame, pd.DataFrame)


def test_tables_carry_their_footnotes_and_escape_names(summary: Summary, tmp_path: Path) -> None:
    paths = summary.write(tmp_path)
    markdown, _, latex = (path.read_text(encoding="utf-8") for path in paths)
    _, _, first, second, third, _, *notes = markdown.splitlines()
    low, high = summary[0].size_interval
    assert f"a\\|b_c | {summary[0].size:.3f} [{low:.3f}, {high:.3f}] |" in first
    assert second.startswith("| PS-Test, delta = 0.1 † | 1.000 [1.000, 1.000] | 0.000 [0.000, 1.0")
    assert third.startswith("| all ‡ |")
    assert notes[1] == summary.covers
    assert "Needed: 22 labels for PS-Test, delta = 0.1." in notes[2]
    assert notes[4] == "A note & more."
    comment, *lines = latex.splitlines()
    assert comment == "% " + " ".join(notes)
    assert r"50 \% <b> \& a|b\_c & " in latex
    assert r"PS-Test, delta = 0.1 $\dagger$ & 1.000 [1.000, 1.000]" in latex
    assert all(line.count(" & ") == 6 for line in lines if line.endswith(r"\\"))
    html = summary._repr_html_()  # for notebooks
    assert (html.count("<td>"), html.count("<b>")) == (21, 0)
    assert "<td>50 % &lt;b&gt; &amp; a|b_c</td>" in html


def with_labels(sizes: Any, method: str, *, feasible: bool = True, labels: int = 20) -> Rows:
    rows = table(np.zeros((4, 9)), np.broadcast_to(sizes, (4, 9)), method=method, feasible=feasible)
    return replace(rows, labels=np.full(36, labels))


def test_the_scale_of_sizes_suits_useful_methods(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    close = with_labels(1 + rng.random((4, 9)), "Meta-PS joint")
    parts = [
        with_labels(20.0, "PS-Test", feasible=False),
        with_labels(np.where(rng.random((4, 9)) < 0.5, 20.0, 1.5), "Meta-CP"),
        with_labels(20.0, "mine"),
    ]
    figure = summarise(Rows.concatenate([close, *parts]), G).plot(tmp_path / "fig.pdf", title="A")
    assert (tmp_path / "fig.pdf").read_bytes().startswith(b"%PDF")
    assert figure.get_suptitle() == "A"
    error, size = figure.axes
    assert [tick.get_text() for tick in size.get_xticklabels()][3] == "mine"
    assert 2 < size.get_ylim()[1] < 4  # the boxes fill the axes
    (marks,) = [line for line in size.lines if line.get_marker() == "^"]
    assert marks.get_xdata().tolist() == [2, 3, 4]
    assert "up to 20" in size.get_xlabel()
    figure.draw_without_rendering()
    for axes in (error, size):  # what is written along a column stays inside
        place = axes.get_window_extent()
        for text in [text for text in axes.texts if "keeps" in text.get_text()]:
            extent = text.get_window_extent()
            assert place.y0 < extent.y0 < extent.y1 < place.y1
        ticks = [tick for tick in axes.get_yticks() if tick <= axes.get_ylim()[1]]
        assert ticks[-1] <= 0.94 * axes.get_ylim()[1]  # no tick touches the text above
    assert "^" not in [line.get_marker() for line in summarise(close, G).plot().axes[1].lines]
    assert summarise(parts[0], G).plot().axes[1].get_ylim()[1] > 20


def test_names_below_many_columns_do_not_touch() -> None:
    names = ["PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle"]
    names += ["FedCP-QQ", "averaged thresholds", "HCP", "multi-environment", "mean"]
    rows = Rows.concatenate([with_labels(1.5, name) for name in names])
    figure = summarise(rows, G).plot()
    figure.draw_without_rendering()
    for axes in figure.axes:
        places = [tick.get_window_extent() for tick in axes.get_xticklabels()]
        for left, right in pairwise(places):
            assert left.x1 < right.x0
