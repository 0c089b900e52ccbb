"""Checks of meaning: each speaks up where data are wrong, and is silent where they are honest."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from metapac import InvalidInput, meaning
from metapac.exceptions import Message
from metapac.meaning import (
    CHECKS,
    CheckWarning,
    Finding,
    check_examples,
    count_repeats,
    count_swaps,
    judge_direction,
    judge_duplicates,
    judge_levels,
    judge_percentages,
    judge_scale,
    judge_score_column,
    judge_task_column,
    judge_task_names,
    report,
    warn_of_scale,
)

ERROR, WARNING = (Finding("levels", is_error, Message("seen.")) for is_error in (True, False))
SITES = np.repeat(np.arange(60), 400)


def honest(rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return labels of which 5% are rare, and probabilities of a fair model."""
    labels = (rng.random(len(SITES)) < 0.05).astype(np.int64)
    rare = 1 / (1 + np.exp(2 - rng.normal(size=len(SITES)) - 1.5 * labels))
    return labels, np.column_stack([1 - rare, rare])


def repeat(repeats: meaning.Repeats, times: int) -> meaning.Repeats:
    """Return the numbers if every row were repeated."""
    return {(times * size, times * k): count for (size, k), count in repeats.items()}


def test_an_error_is_raised_and_a_warning_is_given_with_the_way_on() -> None:
    with pytest.raises(InvalidInput, match=r"^t.csv: seen. To go on, pass allow=\('levels',\)\.$"):
        report([None, WARNING, ERROR], where="t.csv")
    with pytest.warns(CheckWarning, match="^seen. To silence this, pass allow=") as caught:
        report([WARNING, None])
    assert caught[0].filename == __file__
    message: Any = caught[0].message
    assert message.message.render(lambda p: f"--{p.name} {p.value[0]}").endswith("--allow levels.")


@pytest.mark.parametrize("finding", [ERROR, WARNING])
def test_a_check_that_is_allowed_is_silent(finding: Finding) -> None:
    report([finding], allow=["levels"])
    report([finding], allow="levels")


def test_an_unknown_name_is_refused_with_the_list() -> None:
    with pytest.raises(InvalidInput, match=f"out of {', '.join(CHECKS)}, got 'duplicate'"):
        report([], allow=["duplicate"])


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ((0.95, 0.1, 0.05), "epsilon=0.95 is a miss rate.*Did you mean epsilon=0.05"),
        (({"a": 0.1, "b": 0.9}, 0.1, None), "epsilon=0.9 .* mean epsilon=0.1"),
        ((0.1, 0.8, 0.05), "alpha=0.8 is a fraction of new tasks.* mean alpha=0.2"),
        ((0.1, 0.1, 0.99), "delta=0.99 is a failure probability.* mean delta=0.01"),
    ],
)
def test_a_level_above_one_half_is_taken_for_a_confidence(levels: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        report([judge_levels(*levels)])


@given(st.floats(1e-9, 0.5), st.floats(1e-9, 0.5), st.none() | st.floats(1e-9, 0.5))
def test_levels_up_to_one_half_pass(epsilon: float, alpha: float, delta: float | None) -> None:
    assert judge_levels(epsilon, alpha, delta) is None
    assert judge_levels({"a": epsilon, "b": alpha}, alpha, delta) is None


@pytest.mark.parametrize(
    ("other", "is_error"),
    [
        ("São Paulo ", True),
        ("São  Paulo", True),
        ("São\N{NO-BREAK SPACE}Paulo", True),
        ("Sa\N{COMBINING TILDE}o Paulo", True),
        ("são paulo", False),
        ("SÃO PAULO ", False),
    ],
)
def test_one_task_under_two_names(other: str, is_error: bool) -> None:
    finding = judge_task_names(["Rio", "São Paulo", other])
    assert finding is not None
    assert finding.is_error == is_error
    assert f"'São Paulo' and {other!r}" in str(finding.text)
    assert "names of sites" in str(judge_task_names(["a", "a "], what="site").text)  # type: ignore[union-attr]


@pytest.mark.parametrize("names", [["a", "b", "ab"], [1, 2, 10], [" ", "x"], ["a b", "ab"], []])
def test_names_that_differ_pass(names: list[Any]) -> None:
    assert judge_task_names(names) is None


def test_a_column_of_ids_is_no_column_of_tasks() -> None:
    finding = judge_task_column(20, 20)
    assert finding is not None
    assert "a different task in each of 20 rows" in str(finding.text)
    assert judge_task_column(19, 19) is None
    assert judge_task_column(20, 21) is None


@given(
    st.lists(st.tuples(st.floats(0.001, 0.999), st.integers(6, 100)), min_size=1, max_size=5),
    st.integers(2, 20),
)
def test_expected_repeats_of_independent_rows_obey_the_inequality(
    cells: list[tuple[float, int]], k: int
) -> None:
    # N(k) is the number of rows, of given probabilities, that occur k times among n. No mixture
    # breaks the rule, so that the check can only be wrong by chance.
    counted = [(p, n) for p, n in cells if n >= 2 * (k + 1)]
    before, at, after = (
        sum(stats.binom.pmf(j, n, p) for p, n in counted) for j in (k - 1, k, k + 1)
    )
    factor = k / (k + 1) * (k + 2) / (k + 3)
    assert before * after >= factor * at**2 * (1 - 1e-9)


def test_the_false_alarm_rate_of_copies_is_computed() -> None:
    # Three counts in a row, of cells with one rate, where the inequality is an equality: the
    # worst case. Their joint distribution is a product of Poisson tails, and is summed up.
    rate, k, cells = 1.0, 2, 60.0
    means = [cells * stats.poisson.pmf(j, rate) for j in (k - 1, k, k + 1)]
    ranges = [range(int(stats.poisson.isf(1e-9, mean)) + 1) for mean in means]
    probabilities = [
        stats.poisson.pmf(list(r), mean) for r, mean in zip(ranges, means, strict=True)
    ]
    total = 0.0
    for (i, a), (j, b), (m, c) in itertools.product(*map(enumerate, ranges)):
        weight = probabilities[0][i] * probabilities[1][j] * probabilities[2][m]
        if (
            weight > 1e-12
            and b
            and meaning._is_excess({(60, k - 1): a, (60, k): b, (60, k + 1): c}, k)
        ):
            total += weight
    assert total <= meaning.FALSE_ALARM


@given(st.floats(1e-3, 100))
def test_a_count_that_is_not_0_is_seldom_a_multiple(rate: float) -> None:
    # Hence the probability that 24 counts are all even, or all multiples of 3, and so on.
    counts = np.arange(1, 400)
    odds = stats.poisson.pmf(counts, rate) / stats.poisson.sf(0, rate)
    shares = [odds[counts % divisor == 0].sum() for divisor in (2, 3, 5, 7, 11, 13)]
    assert shares[0] <= 0.5 + 1e-12
    assert sum(share**24 for share in shares) <= meaning.FALSE_ALARM / 10


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_copies_are_objected_to_only_if_chance_cannot_explain_them(once: int, twice: int) -> None:
    # At least this many rows would then occur three times, and none does.
    needed = 2 / 3 * twice**2 / once
    if judge_duplicates({(10**9, 1): once, (10**9, 2): twice}) is not None:
        assert math.exp(-needed) <= meaning.FALSE_ALARM / 10
    else:
        assert needed < 100 or twice < 100


@pytest.mark.parametrize("digits", [0, 1, 2, 3, 17])
def test_coarse_scores_pass_and_their_copies_do_not(digits: int) -> None:
    rng = np.random.default_rng(digits)
    labels, scores = honest(rng)
    repeats = count_repeats(SITES, labels, np.round(scores, digits))
    assert judge_duplicates(repeats) is None
    twice = judge_duplicates(repeat(repeats, 2))
    assert twice is not None
    assert twice.is_error


def test_few_values_with_very_unequal_frequencies_pass() -> None:
    rng = np.random.default_rng(0)
    leaves = rng.choice(40, size=len(SITES), p=rng.dirichlet(np.full(40, 0.2)))
    repeats = count_repeats(SITES, leaves)
    assert judge_duplicates(repeats) is None
    assert judge_duplicates(repeat(repeats, 20)) is not None


def test_every_row_twice_is_an_error_and_some_rows_twice_a_warning() -> None:
    finding = judge_duplicates({(800, 2): 24000})
    assert finding is not None
    assert finding.is_error
    assert "every row occurs 2 times (48000 rows, 24000 distinct)" in str(finding.text)
    finding = judge_duplicates({(500, 1): 19000, (500, 2): 5000})
    assert finding is not None
    assert not finding.is_error
    assert "5000 of 29000 rows are copies of another row" in str(finding.text)
    finding = judge_duplicates({(300, 2): 1000, (400, 4): 100})
    assert finding is not None
    assert "every row occurs at least 2 times" in str(finding.text)


@pytest.mark.parametrize("repeats", [{}, {1: 10**9}, {2: 5}, {1: 10**6, 2: 100}, {5: 1}, {9: 8}])
def test_few_repeats_show_nothing(repeats: dict[int, int]) -> None:
    assert judge_duplicates({(1000, k): count for k, count in repeats.items()}) is None


def test_constant_scores_are_no_copies() -> None:
    # All rows of a task are alike: the number of times is the size of the task, not a coincidence.
    assert judge_duplicates(count_repeats(SITES, np.zeros(len(SITES)))) is None
    assert judge_duplicates({(2, 2): 10**6}) is None


@pytest.mark.parametrize("size", [6, 7, 40])
def test_two_values_in_tasks_of_one_size_are_no_copies(size: int) -> None:
    # Binomial counts, whose sum is fixed: as many tasks as have each split, in expectation.
    tasks = 10**7
    repeats: dict[tuple[int, int], int] = {}
    for k in range(size + 1):
        for times in (k, size - k):
            if times and (count := int(tasks * stats.binom.pmf(k, size, 0.5))):
                repeats[size, times] = repeats.get((size, times), 0) + count
    assert judge_duplicates(repeats) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1))
def test_repeats_are_counted(rows: list[tuple[int, int]]) -> None:
    expected: dict[tuple[int, int], int] = {}
    tasks, values = np.array(rows).T
    for row in {*rows}:
        key = int(np.sum(tasks == row[0])), rows.count(row)
        expected[key] = expected.get(key, 0) + 1
    assert count_repeats(tasks, values) == expected
    assert count_repeats(tasks, np.column_stack([values, values])) == expected


def test_pairs_do_not_follow_the_order_of_rows() -> None:
    # Sorted by the score of class 0, labels alternating: neighbours would lose all 2000 pairs.
    rising = np.linspace(0, 1, 4000)
    scores = np.column_stack([rising, np.full(4000, 0.5)])
    tasks, labels = np.zeros(4000, int), np.tile([0, 1], 2000)
    assert judge_direction(*count_swaps(tasks, labels, scores)) is None
    reversed_ = judge_direction(*count_swaps(tasks, np.repeat([0, 1], 2000), scores))
    assert reversed_ is not None


def test_no_rows_are_no_copies() -> None:
    assert count_repeats(np.zeros(0, np.int64), np.zeros((0, 2))) == {}
    assert judge_duplicates({}) is None


def test_pairs_are_disjoint_and_won_if_the_own_labels_score_more() -> None:
    tasks = np.array([0, 0, 0, 1, 1, 1, 1])
    labels = np.array([0, 1, 0, 0, 0, 1, 2])
    scores = np.eye(3)[labels]
    wins, losses = count_swaps(tasks, labels, scores)
    assert wins.tolist() == [1, 2]
    assert losses.tolist() == [0, 0]
    assert [part.tolist() for part in count_swaps(tasks, labels, -scores)] == [[0, 0], [1, 2]]
    assert [part.tolist() for part in count_swaps(tasks, labels, 0 * scores)] == [[0, 0], [0, 0]]


def test_infinite_scores_and_one_label_are_no_pairs() -> None:
    scores = np.full((4, 2), -np.inf)
    wins, losses = count_swaps(np.zeros(4, int), np.array([0, 1, 0, 1]), scores)
    assert (wins.sum(), losses.sum()) == (0, 0)
    wins, losses = count_swaps(np.zeros(4, int), np.zeros(4, int), np.arange(8.0).reshape(4, 2))
    assert (wins.sum(), losses.sum()) == (0, 0)


def test_uninformative_scores_win_and_lose_alike_whatever_the_class_sizes() -> None:
    # All permutations of the rows of a task, with a rare class that the scores favour: exact.
    labels, scores = np.array([0, 0, 0, 0, 1]), np.array([0.1, 0.2, 0.2, 0.9, 0.4])
    both = np.column_stack([1 - scores, scores + 3])
    outcomes = [
        [int(part[0]) for part in count_swaps(np.zeros(5, int), labels, both[list(order)])]
        for order in itertools.permutations(range(5))
    ]
    assert sum(wins for wins, _ in outcomes) == sum(losses for _, losses in outcomes) > 0


@given(st.integers(1, 400))
def test_the_false_alarm_rate_of_the_direction_is_at_most_1e_6(pairs: int) -> None:
    # Of a single task: the number of losses at which the check objects, and its exact probability.
    losses = np.arange(pairs + 1)
    objects = [
        judge_direction(np.array([pairs - lost]), np.array([lost])) is not None for lost in losses
    ]
    assert stats.binom.pmf(losses[objects], pairs, 0.5).sum() <= meaning.FALSE_ALARM
    assert objects[-1] == (2.0**-pairs <= meaning.FALSE_ALARM)  # and it can object


def test_one_odd_task_is_not_enough() -> None:
    losses = np.array([10_000] + [5] * 30)
    wins = np.array([0] + [6] * 30)
    assert judge_direction(wins, losses) is None


def test_reversed_tasks_are_an_error_if_they_agree_and_a_warning_if_they_are_few() -> None:
    wins, losses = np.full(60, 2), np.full(60, 18)
    finding = judge_direction(wins, losses)
    assert finding is not None
    assert finding.is_error
    assert "in 1080 of 1200 pairs of examples, and in 60 of 60 tasks" in str(finding.text)
    finding = judge_direction(wins[:9], losses[:9])
    assert finding is not None
    assert not finding.is_error


@pytest.mark.parametrize("transform", [np.log, np.exp, lambda p: 100 * p, lambda p: p**9])
def test_any_increasing_score_passes_and_its_negative_does_not(transform: Any) -> None:
    labels, scores = honest(np.random.default_rng(1))
    names = range(60)
    check_examples(names, SITES, transform(scores), labels)
    with pytest.raises(InvalidInput, match="true label scores lower.* allow=\\('direction',\\)"):
        check_examples(names, SITES, -transform(scores), labels)


def test_a_biased_or_uninformative_model_passes() -> None:
    # Nearly every row is given to the rare class: the true label mostly scores lower, and yet
    # higher scores mean more plausible.
    labels, scores = honest(np.random.default_rng(2))
    biased = scores + np.array([0, 3])
    assert np.mean(biased[np.arange(len(labels)), labels] < biased[:, 1]) > 0.9
    check_examples(range(60), SITES, biased, labels)
    check_examples(range(60), SITES, biased[::-1], labels)


@pytest.mark.parametrize(
    ("counts", "is_wrong"),
    [
        ((100, 50, 50), True),
        ((100, 99, 1), True),
        ((100, 100, 0), False),
        ((100, 0, 100), False),
        ((100, 40, 40), False),
        ((0, 0, 0), False),
    ],
)
def test_fractions_mixed_with_percentages(counts: tuple[int, int, int], is_wrong: bool) -> None:
    assert (judge_percentages(*counts) is not None) == is_wrong


@pytest.mark.parametrize(
    ("scores", "calibration", "words"),
    [
        ((0, 99), (0, 0.99), "up to 99, .* up to 0.99: these are percentages and those fractions"),
        ((0, 1), (0, 100), "up to 1, .* up to 100: these are fractions .* Multiply these by 100"),
        ((0, 0.8), (0, 1), None),
        ((0, 1.1), (0, 1), None),
        ((0, 80), (0, 100), None),
        ((-3, 80), (0, 1), None),
        ((0, 5000), (0, 1), None),
        ((0, 80), (-10, 1), None),
        ((0, 50), (0, 0.001), None),
        ((0, math.inf), (0, 1), None),
        ((0, 90), (-math.inf, 1), None),
    ],
)
def test_a_scale_other_than_that_of_the_calibration(
    scores: tuple[float, float], calibration: tuple[float, float], words: str | None
) -> None:
    finding = judge_scale(scores, calibration)
    if words is None:
        assert finding is None
    else:
        with pytest.raises(InvalidInput, match=words):
            report([finding])


def test_a_class_column_as_the_score() -> None:
    with pytest.raises(InvalidInput, match="score='p_yes' looks like the score of one class"):
        report([judge_score_column("p_yes", ["p_no"], rows=100, equal=2)])
    assert judge_score_column("p_true", ["p_no", "p_yes"], rows=100, equal=100) is None
    assert judge_score_column("p_yes", [], rows=100, equal=0) is None


@pytest.mark.parametrize("seed", range(5))
def test_honest_arrays_pass(seed: int) -> None:
    labels, scores = honest(np.random.default_rng(seed))
    names = [f"site {i}" for i in range(60)]
    tasks = np.array(names, dtype=object)[SITES]
    check_examples(names, tasks, scores, labels, classes=["no", "yes"])
    check_examples(names, tasks, scores.astype(np.float32), labels)
    check_examples(names, tasks, scores[np.arange(len(labels)), labels])


def test_arrays_with_copies_missing_scores_and_mixed_scales() -> None:
    labels, scores = honest(np.random.default_rng(0))
    twice = np.tile(np.arange(len(labels)), 2)
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        check_examples(range(60), SITES[twice], scores[twice], labels[twice])
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        check_examples(range(60), SITES[twice], scores[twice, 0])
    check_examples(range(60), SITES[twice], scores[twice], labels[twice], allow=("duplicates",))
    part = np.arange(len(labels) + 6000) % len(labels)
    with pytest.warns(CheckWarning, match="6000 of 30000 rows are copies"):
        check_examples(range(60), SITES[part], scores[part], labels[part])
    missing = scores.copy()
    missing[np.flatnonzero(labels == 0)[:3], 1] = np.nan
    with pytest.raises(InvalidInput, match=r"3 of 24000 rows \(by class, 'yes': 3\).*inf, which"):
        check_examples(range(60), SITES, missing, labels, classes=["no", "yes"])
    check_examples(range(60), SITES, missing, labels, allow=("missing",))
    mixed = np.where(SITES[:, None] < 5, 100, 1) * scores
    with pytest.raises(InvalidInput, match="sum to 1 in 22000 rows and to 100 in 2000"):
        check_examples(range(60), SITES, mixed, labels)


def test_large_arrays_are_sampled_so_that_copies_stay_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(meaning, "MAX_ROWS", 5000)
    labels, scores = honest(np.random.default_rng(0))
    check_examples(range(60), SITES, scores, labels)
    chosen = meaning._sample_by_value(scores[:, 0], meaning.MAX_ROWS)
    assert 4000 < len(chosen) < 6000
    twice = np.tile(np.arange(len(labels)), 2)
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        check_examples(range(60), SITES[twice], scores[twice], labels[twice])
    with pytest.raises(InvalidInput, match="true label scores lower"):
        check_examples(range(60), SITES, -scores, labels)


@pytest.mark.parametrize("allowed", [(), CHECKS])
def test_nothing_is_printed_or_warned_of_honest_data(allowed: tuple[str, ...], capsys: Any) -> None:
    labels, scores = honest(np.random.default_rng(7))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_examples(range(60), SITES, scores, labels, allow=allowed)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("shape", [(2,), (5, 3), (400, 40)])
@pytest.mark.parametrize("missing", [False, True])
def test_percentages_are_noticed_in_prediction(shape: tuple[int, ...], missing: bool) -> None:
    scores = np.full(shape, 60.0)
    scores.flat[0] = np.inf if missing else 0.0
    with pytest.warns(CheckWarning, match="Divide these by 100"):
        warn_of_scale(scores, (0.0, 0.9))
    warn_of_scale(scores / 100, (0.0, 0.9))
    warn_of_scale(scores, None)
    warn_of_scale(scores[:0], (0.0, 0.9))


def test_a_few_small_percentages_are_not_taken_for_fractions() -> None:
    warn_of_scale(np.full(19, 0.6), (0.0, 99.0))
    with pytest.warns(CheckWarning, match="Multiply these by 100"):
        warn_of_scale(np.full(20, 0.6), (0.0, 99.0))


def test_only_the_first_rows_are_looked_at() -> None:
    scores = np.full((1001, 1), 0.6)
    scores[1000] = 60.0
    warn_of_scale(scores, (0.0, 0.9))
    scores[999] = 60.0
    with pytest.warns(CheckWarning):
        warn_of_scale(scores, (0.0, 0.9))
