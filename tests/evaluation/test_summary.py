"""Summaries against plain loops, and verdicts that noise cannot fake."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee, judge
from metapac.fewshot import SyntheticStudy, run_study, summarise
from metapac.fewshot.study.draws import Draw, ScoredTask
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import mean_interval, share_interval
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
    flat = [error for draw in errors for error in draw]
    (result,) = summarise(table(errors, sizes), G)
    assert (result.method, result.delta, result.feasible) == ("PS", 0.05, True)
    assert result.size == pytest.approx(statistics.fmean([size for draw in sizes for size in draw]))
    assert result.size_median == statistics.median([size for draw in sizes for size in draw])
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
    assert not (result.holds and result.violated)
    _, high = share_interval([table(errors)], [np.ravel(errors) > 0.1])
    assert result.holds == (high <= 0.2)
    assert result.verdict in ("observed within", "cannot tell yet", "violated")


def test_the_quantile_is_that_of_the_guarantee() -> None:
    errors = [[i / 100 for i in range(10)]]
    for alpha, quantile in ((0.1, 0.08), (0.2, 0.07), (0.3, 0.06), (0.05, 0.09)):
        (result,) = summarise(table(errors), replace(G, alpha=alpha))
        assert result.error_quantile == quantile


def test_a_kept_guarantee_at_another_alpha_is_not_judged_by_the_90th_percentile() -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.3, delta=1e-3)
    study = SyntheticStudy(tasks=400, examples=500, tests=100)
    summary = summarise(run_study(study, guarantee=guarantee, draws=3), guarantee)
    line = summary["Meta-PS tight"]
    assert line.tasks_within > 0.7
    assert line.error_quantile <= 0.1
    assert line.verdict == "observed within"


class SameTasks:
    """All tasks are one distribution: the miss rate of a threshold t is t, on every task."""

    def draw(self, rng: np.random.Generator) -> Draw:
        def task() -> ScoredTask:
            true = rng.random(500)
            return ScoredTask(rng.random(100), true, np.column_stack([true, true]))

        tasks = np.repeat(np.arange(200), 500)
        return Draw(rng.random(len(tasks)), tasks, [task() for _ in range(50)])

    def describe(self) -> dict[str, object]:
        return {}


def test_noise_alone_violates_no_guarantee() -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
    rows = run_study(SameTasks(), guarantee=guarantee, draws=10)
    line = summarise(rows, guarantee)["PS"]
    assert rows.select("PS").threshold.max() < 0.1  # so is every miss rate
    assert line.error_quantile > 0.1  # and yet many tasks are seen above epsilon
    assert line.tasks_within < 0.8
    assert (line.satisfied, line.violated, line.verdict) == (False, False, "cannot tell yet")
    assert line.tasks_above < 0.1


def test_a_true_violation_is_seen() -> None:
    rng = np.random.default_rng(0)
    rates = np.where(rng.random((10, 50)) < 0.4, 0.2, 0.05)
    rows = table(rng.binomial(500, rates) / 500, examples=500)
    (line,) = summarise(rows, replace(G, alpha=0.1))
    assert line.verdict == "violated"
    # The same errors with few examples could be noise.
    (line,) = summarise(replace(rows, examples=np.full(len(rows), 10)), replace(G, alpha=0.1))
    assert line.verdict == "cannot tell yet"


@pytest.mark.parametrize(
    ("above", "draws", "verdict"),
    [
        (0, 1, "cannot tell yet"),  # ten tasks: up to 31 % may be above epsilon
        (0, 2, "observed within"),  # twenty: up to 17 %
        (1, 10, "observed within"),  # 10 % of the tasks, at most 18 %
        (2, 10, "cannot tell yet"),  # 20 % are allowed, and their share may be larger
    ],
)
def test_a_guarantee_holds_only_if_its_interval_says_so(
    above: int, draws: int, verdict: str
) -> None:
    (line,) = summarise(table([[0.3] * above + [0.0] * (10 - above)] * draws), G)
    assert line.satisfied
    assert line.verdict == verdict


def test_draws_that_differ_do_not_hold_because_their_tasks_are_many() -> None:
    # Of 1000 tasks 15 % are above epsilon: in half of the draws none, in the others 30 %.
    draws = [[0.0] * 100, [0.3] * 30 + [0.0] * 70] * 5
    (line,) = summarise(table(draws), G)
    assert line.satisfied
    assert line.verdict == "cannot tell yet"
    (line,) = summarise(table([[0.3] * 15 + [0.0] * 85] * 10), G)
    assert line.verdict == "observed within"


def test_a_size_has_no_interval_beyond_what_is_possible() -> None:
    rows = table(np.zeros((2, 2)), [[0, 1], [4, 5]])
    (line,) = summarise(rows, G)
    assert line.size_interval[0] == 0
    assert line.size_interval[1] > 5
    (line,) = summarise(replace(rows, labels=np.array([4, 6, 4, 6])), G)
    assert line.size_interval == (0, 5)


def test_print_shows_an_aligned_table() -> None:
    parts = [table(np.zeros((4, 9)), method="Meta-PS joint"), table([[0.3] * 9] * 4)]
    summary = summarise(Rows.concatenate(parts), G, notes=["A note."])
    head, first, ends, second, _, _, covers, note = str(summary).splitlines()
    assert " ".join(head.split()) == "method mean size 80 % error tasks within draws verdict"
    assert first.endswith("observed within")
    assert second.endswith("violated")
    assert first.index("observed within") == second.index("violated")
    low, high = summary[0].tasks_within_interval
    assert ends.split()[-1] == f"{100 * low:.0f}-{100 * high:.0f}"
    assert ends.index(ends.split()[-1]) + len(ends.split()[-1]) == first.index("100.0%") + 6
    assert (covers, note) == (summary.covers, "A note.")


def test_each_method_has_a_line_for_each_delta() -> None:
    rows = Rows.concatenate(
        [
            table([[0.1]], method="A", delta=0.5),
            table([[0.2]], method="B", feasible=False),
            table([[0.3]], method="A"),
        ]
    )
    result = summarise(rows, G)
    assert [(s.method, s.delta, s.error_quantile, s.feasible) for s in result] == [
        ("A", 0.5, 0.1, True),
        ("B", 0.05, 0.2, False),
        ("A", 0.05, 0.3, True),
    ]
    assert result["A"].delta == 0.5
    assert (len(result), result[-1].error_quantile, len(result[1:])) == (3, 0.3, 2)
    with pytest.raises(ValueError, match="the summary has no method 'C'; it has: A, B."):
        result["C"]


def test_a_share_that_is_just_allowed_is_allowed() -> None:
    # 1 - 0.7 is more than three tenths in doubles; seven tenths in violation are still allowed.
    (result,) = summarise(table([[0.0] * 3 + [0.2] * 7]), replace(G, alpha=0.7))
    assert result.satisfied
    assert result.error_quantile == 0
    assert result.draws_within == 1


@pytest.mark.parametrize(
    ("epsilon", "alpha", "true_rate", "examples"), [(0.05, 0.1, 0.06, 1), (0.1, 0.35, 0.11, 10)]
)
def test_holds_is_never_said_of_observed_errors(
    epsilon: float, alpha: float, true_rate: float, examples: int
) -> None:
    # Every task is above epsilon. Each draw has as many tasks with k misses as are expected.
    levels: dict[str, Any] = {"epsilon": epsilon, "alpha": alpha, "delta": 0.05}
    counts = np.arange(examples + 1)
    expected = np.rint(1000 * stats.binom.pmf(counts, examples, true_rate)).astype(int)
    missed = np.repeat(counts, expected)
    summary = summarise(table([missed / examples] * 5, examples=examples), Guarantee(**levels))
    assert summary[0].verdict == "observed within"
    assert "holds" not in " ".join(str(summary).splitlines()[:3])
    verdict = judge(np.full(5 * len(missed), examples), np.tile(missed, 5), **levels)
    assert verdict.status == "cannot tell yet"


@pytest.mark.parametrize(
    ("error", "draws", "short", "verdict", "with_data"),
    [
        (0.0, 500, 1, "observed within", "observed within"),  # one task of 5000 decides nothing
        (0.0, 2, 1, "too few data", "observed within"),  # of twenty it does: up to 25 % are above
        (0.0, 1, 1, "cannot tell yet", "cannot tell yet"),  # nor would nine tasks of ten decide
        (0.0, 1, 3, "too few data", "cannot tell yet"),  # more than alpha: more tasks do not help
        (0.0, 1, 10, "too few data", "cannot tell yet"),
        (0.3, 2, 1, "violated", "violated"),  # although one task cannot be missed
        (0.3, 1, 5, "violated", "violated"),
    ],
)
def test_tasks_without_enough_data_are_no_evidence_that_a_guarantee_holds(
    error: float, draws: int, short: int, verdict: str, with_data: str
) -> None:
    rows = table(np.full((draws, 10), error))
    (line,) = summarise(replace(rows, feasible=np.arange(len(rows)) >= short), G)
    assert (line.feasible, line.verdict) == (False, verdict)
    said = (line.holds, line.violated, line.too_few)
    words = ("observed within", "violated", "too few data")
    assert said == tuple(verdict == word for word in words)
    (line,) = summarise(rows, G)
    assert (line.feasible, line.too_few, line.verdict) == (True, False, with_data)


@given(draws, st.data())
def test_tasks_without_enough_data_count_as_above_epsilon(
    cells: list[list[tuple[float, int]]], data: st.DataObject
) -> None:
    rows = table([[error for error, _ in draw] for draw in cells])
    lists = st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))
    feasible = np.array(data.draw(lists))
    (line,) = summarise(replace(rows, feasible=feasible), G)
    (worst,) = summarise(replace(rows, error=np.where(feasible, rows.error, 1.0)), G)
    (seen,) = summarise(rows, G)
    assert line.holds == worst.holds
    assert line.violated == seen.violated
    decides = (seen.holds and not worst.holds) or (seen.satisfied and not worst.satisfied)
    assert line.too_few == decides
    assert line.holds + line.violated + line.too_few <= 1


def test_seeds_are_summarised_together() -> None:
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


def test_a_verdict_is_about_the_learners_that_were_evaluated() -> None:
    # Of three learners one is bad: the interval over seeds is wide, and yet it was seen to fail.
    good, bad = np.zeros((20, 10)), np.full((20, 10), 0.3)
    (line,) = summarise([table(good), table(good), table(bad)], G)
    assert line.tasks_within == pytest.approx(2 / 3)
    assert line.tasks_within_interval[1] == 1
    assert line.verdict == "violated"


@pytest.mark.parametrize(
    ("seeds", "draws", "words"),
    [
        (
            1,
            1,
            "95 % intervals given this learner and one calibration draw: they cover its tasks, not "
            "other classes or groups.",
        ),
        (
            1,
            4,
            "95 % intervals, Student's t over 4 calibration draws given this learner: they cover "
            "the draws and the new tasks, not other learners, classes or groups.",
        ),
        (
            2,
            4,
            "95 % intervals, Student's t over 8 calibration draws given these two learners: they "
            "cover the draws and the new tasks, not other learners, classes or groups.",
        ),
        (
            3,
            1,
            "95 % intervals, Student's t over 3 seeds: they cover what a seed changes, such as the "
            "division of the data or the training, and the calibration draws and new tasks, not "
            "what all seeds share, such as the data.",
        ),
    ],
)
def test_a_summary_says_what_its_intervals_cover(seeds: int, draws: int, words: str) -> None:
    assert summarise([table(np.zeros((draws, 3)))] * seeds, G).covers == words


def test_a_missing_method_is_named_unless_other_notes_are_given() -> None:
    rows = table([[0.1]])
    missing = "Meta-CP is left out: the study predicts no quantiles of its tasks."
    assert summarise(rows, G).notes == (missing,)
    assert summarise(table([[0.1]], method="Meta-CP"), G).notes == ()
    assert summarise(rows, G, notes=["for a reason"]).notes == ("for a reason",)


def test_seeds_must_be_alike() -> None:
    one = table(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="rows is empty; pass the rows of at least one evaluation"):
        summarise([], G)
    with pytest.raises(ValueError, match="those of seed 1 have other numbers of draws than those"):
        summarise([one, table(np.zeros((3, 3)))], G)
    with pytest.raises(ValueError, match="those of seed 2 have other methods than those of seed 0"):
        summarise([one, one, table(np.zeros((2, 3)), method="B")], G)
