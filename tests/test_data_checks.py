"""Do the data mean what they should? Silent on honest data, and each problem is reported."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from metapac import PS, CheckWarning, InvalidInput, MetaPS, data_checks
from metapac.data_checks import (
    CHECKS,
    FALSE_ALARM,
    Finding,
    Repeats,
    Sample,
    SetCounts,
    count_repeats,
    count_sets,
    count_swaps,
    judge_best,
    judge_chance,
    judge_direction,
    judge_duplicates,
    judge_levels,
    judge_percentages,
    judge_rare_classes,
    judge_scale,
    judge_score_column,
    judge_sets,
    judge_task_column,
    judge_task_names,
    report,
    warn_of_scale,
    warn_of_sets,
)
from tests.helpers.honest_scores import CHILDREN, SITES, check_examples, draw_communes, draw_honest
from tests.helpers.tables import calibrate_table, predict_table

ERROR, WARNING = (Finding("levels", is_error, "seen.") for is_error in (True, False))


def test_an_error_is_raised_and_a_warning_is_given_with_the_way_on() -> None:
    with pytest.raises(InvalidInput, match=r"^t.csv: seen. To go on, pass allow=\('levels',\)\.$"):
        report([None, WARNING, ERROR], where="t.csv")
    with pytest.warns(CheckWarning, match="^seen. To silence this, pass allow=") as caught:
        report([WARNING, None])
    assert caught[0].filename == __file__
    report([ERROR, WARNING], allow=["levels"])
    report([ERROR, WARNING], allow="levels")
    with pytest.raises(InvalidInput, match=f"out of {', '.join(CHECKS)}, got 'duplicate'"):
        report([], allow=["duplicate"])


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ((0.95, 0.1, 0.05), "mean epsilon=0.05"),
        (({"a": 0.1, "b": 0.9}, 0.1, None), "mean epsilon=0.1"),
        ((0.1, 0.8, 0.05), "mean alpha=0.2"),
        ((0.1, 0.1, 0.99), "mean delta=0.01"),
    ],
)
def test_a_level_above_one_half_is_taken_for_a_confidence(levels: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        report([judge_levels(*levels)])


@given(st.floats(1e-9, 0.5), st.floats(1e-9, 0.5), st.none() | st.floats(1e-9, 0.5))
def test_levels_up_to_one_half_pass(epsilon: float, alpha: float, delta: float | None) -> None:
    assert judge_levels(epsilon, alpha, delta) is None
    assert judge_levels({"a": epsilon, "b": alpha}, alpha, delta) is None


NAMES: list[tuple[Any, Any, bool | None]] = [  # whether it is an error, a warning, or neither
    ("São Paulo", "São Paulo ", True),
    ("São Paulo", "São  Paulo", True),
    ("São Paulo", "São\N{NO-BREAK SPACE}Paulo", True),
    ("São Paulo", "Sa\N{COMBINING TILDE}o Paulo", True),
    ("São Paulo", "são paulo", False),
    ("São Paulo", "SÃO PAULO ", False),
    ("a", "ab", None),
    (1, 10, None),
    (" ", "x", None),
    ("a b", "a-b", None),
]


@pytest.mark.parametrize(("one", "other", "is_error"), NAMES)
def test_one_task_under_two_names(one: Any, other: Any, is_error: bool | None) -> None:
    finding = judge_task_names([one, other])
    assert (None if finding is None else finding.is_error) == is_error
    assert finding is None or f"{one!r} and {other!r}" in finding.text
    assert "names of sites" in str(judge_task_names(["a", "a "], what="site"))


def test_columns_of_ids_of_one_class_and_of_two_scales() -> None:
    assert judge_task_column(20, 20) is not None
    assert judge_task_column(19, 19) is None
    assert judge_task_column(20, 21) is None
    assert judge_score_column("p_yes", ["p_no"], rows=100, equal=2) is not None
    assert judge_score_column("p_true", ["p_no", "p_yes"], rows=100, equal=100) is None
    assert judge_score_column("p_yes", [], rows=100, equal=0) is None
    for counts, is_wrong in (
        ((100, 50, 50), True),
        ((100, 99, 1), True),
        ((100, 100, 0), False),
        ((100, 0, 100), False),
        ((100, 40, 40), False),
        ((0, 0, 0), False),
    ):
        assert (judge_percentages(*counts) is not None) == is_wrong


@pytest.mark.parametrize(
    ("scores", "calibration", "words"),
    [
        ((0, 99), (0, 0.99), "these are percentages and those fractions"),
        ((0, 1), (0, 100), "these are fractions .* Multiply these by 100"),
        ((0, 0.8), (0, 1), None),
        ((0, 1.1), (0, 1), None),
        ((0, 80), (0, 100), None),
        ((-3, 80), (0, 1), None),
        ((0, 5000), (0, 1), None),
        ((0, 80), (-10, 1), None),
        ((0, 50), (0, 0.001), None),
        ((0, math.inf), (0, 1), None),
        ((0, 90), (-math.inf, 1), None),
        ((-7, 0), (0, 1), "these look like logarithms"),
        ((0.1, 0.9), (-7, -0.1), "these look like probabilities"),
        ((0, 0), (-7, 0), None),  # residuals of exact predictions
    ],
)
def test_a_scale_other_than_that_of_the_calibration(
    scores: tuple[float, float], calibration: tuple[float, float], words: str | None
) -> None:
    finding = judge_scale(scores, calibration)
    assert (finding is None) == (words is None)
    assert finding is None or (finding.is_error and re.search(words or "", finding.text))
    # Logarithms are a warning without labels, and if they may be differences.
    for other, labelled in (((-7, 0), False), ((-0.9, -0.1), True)):
        weak = judge_scale(other, (0, 1), labelled=labelled)
        assert weak is not None
        assert not weak.is_error


def test_a_class_that_is_missing_or_rare_is_named() -> None:
    found = judge_rare_classes({"no": 60, "yes": 40, "maybe": 0, "never": 0}, 0.1)
    assert found is not None
    assert not found.is_error
    assert "'maybe', 'never'" in found.text
    rare = judge_rare_classes({"no": 95, "yes": 5, "maybe": 0}, 0.1)
    assert rare is not None
    assert rare.text.startswith("'yes' is 5.0% of the examples")
    assert judge_rare_classes({"no": 0, "yes": 0}, 0.1) is None


# Arrays.


def test_arrays_with_copies_missing_scores_and_mixed_scales() -> None:
    labels, scores = draw_honest(np.random.default_rng(0))
    twice = np.tile(np.arange(len(labels)), 2)
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        check_examples(SITES[twice], scores[twice], labels[twice])
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        check_examples(SITES[twice], scores[twice, 0])
    check_examples(SITES[twice], scores[twice], labels[twice], allow=("duplicates",))
    part = np.arange(len(labels) + 6000) % len(labels)
    with pytest.warns(CheckWarning, match="6000 of 30000 rows are copies"):
        check_examples(SITES[part], scores[part], labels[part])
    missing = scores.copy()
    missing[np.flatnonzero(labels == 0)[:3], 1] = np.nan
    with pytest.raises(InvalidInput, match=r"3 of 24000 rows \(by class, 'yes': 3\).*inf, which"):
        check_examples(SITES, missing, np.array(["no", "yes"])[labels], classes=["no", "yes"])
    check_examples(SITES, missing, labels, allow=("missing",))
    mixed = np.where(SITES[:, None] < 5, 100, 1) * scores
    with pytest.raises(InvalidInput, match="sum to 1 in 22000 rows and to 100 in 2000"):
        check_examples(SITES, mixed, labels)


def test_large_arrays_are_sampled_so_that_copies_stay_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(data_checks, "MAX_ROWS", 5000)
    labels, scores = draw_honest(np.random.default_rng(0))
    check_examples(SITES, scores, labels)
    chosen = data_checks._sample_by_value(scores[:, 0], 5000)
    assert 4000 < len(chosen) < 6000
    twice = np.tile(np.arange(len(labels)), 2)
    with pytest.raises(InvalidInput, match="every row occurs 2 times"):
        check_examples(SITES[twice], scores[twice], labels[twice])
    with pytest.raises(InvalidInput, match="true label scores lower"):
        check_examples(SITES, -scores, labels)


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
    warn_of_scale(np.full(19, 0.6), (0.0, 99.0))  # few small percentages are not fractions
    with pytest.warns(CheckWarning, match="Multiply these by 100"):
        warn_of_scale(np.full(20, 0.6), (0.0, 99.0))
    late = np.append(np.full(1000, 0.6), 60.0)[:, None]  # only the first rows are looked at
    warn_of_scale(late, (0.0, 0.9))
    with pytest.warns(CheckWarning):
        warn_of_scale(late[1:], (0.0, 0.9))


# Reversed scores are noticed, and a biased or uninformative model is not taken for one.
def test_pairs_do_not_follow_the_order_of_rows() -> None:
    # Sorted by the score of class 0, labels alternating: neighbours would lose all 2000 pairs.
    rising = np.linspace(0, 1, 4000)
    scores = np.column_stack([rising, np.full(4000, 0.5)])
    tasks, labels = np.zeros(4000, int), np.tile([0, 1], 2000)
    assert judge_direction(*count_swaps(tasks, labels, scores)) is None
    reversed_ = judge_direction(*count_swaps(tasks, np.repeat([0, 1], 2000), scores))
    assert reversed_ is not None


def test_pairs_are_disjoint_and_won_if_the_own_labels_score_more() -> None:
    tasks = np.array([0, 0, 0, 1, 1, 1, 1])
    labels = np.array([0, 1, 0, 0, 0, 1, 2])
    scores = np.eye(3)[labels]
    wins, losses = count_swaps(tasks, labels, scores)
    assert wins.tolist() == [1, 2]
    assert losses.tolist() == [0, 0]
    assert [part.tolist() for part in count_swaps(tasks, labels, -scores)] == [[0, 0], [1, 2]]
    assert [part.tolist() for part in count_swaps(tasks, labels, 0 * scores)] == [[0, 0], [0, 0]]


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
    assert stats.binom.pmf(losses[objects], pairs, 0.5).sum() <= FALSE_ALARM
    assert objects[-1] == (2.0**-pairs <= FALSE_ALARM)  # and it can object


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
    labels, scores = draw_honest(np.random.default_rng(1))
    check_examples(SITES, transform(scores), labels)
    with pytest.raises(InvalidInput, match="true label scores lower.* allow=\\('direction',\\)"):
        check_examples(SITES, -transform(scores), labels)


def test_a_biased_or_uninformative_model_passes() -> None:
    # Nearly every row is given to the rare class: the true label mostly scores lower, and yet
    # higher scores mean more plausible.
    labels, scores = draw_honest(np.random.default_rng(2))
    biased = scores + np.array([0, 3])
    assert np.mean(biased[np.arange(len(labels)), labels] < biased[:, 1]) > 0.9
    check_examples(SITES, biased, labels)
    check_examples(SITES, biased[::-1], labels, allow=["labels"])


LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}


def spoil(kind: str, labels: Any, scores: Any) -> tuple[Any, Any]:
    """Return labels and scores after a common mistake."""
    order = {"none and two": [2, 1, 0, 3], "one and two": [0, 2, 1, 3], "reversed": [3, 2, 1, 0]}
    if kind in order:
        return labels, scores[:, order[kind]]
    if kind == "predicted":
        return np.array(CHILDREN)[np.argmax(scores, axis=1)], scores
    return labels, np.roll(scores, 7, axis=0)


@pytest.mark.parametrize(
    ("kind", "match"),
    [
        ("none and two", "true label scores lower"),
        ("one and two", "'one' and 'two' look swapped"),
        ("reversed", "true label scores lower"),
        ("predicted", "highest in all 11154 rows"),
        ("joined to other rows", "no better than chance"),
    ],
)
@pytest.mark.parametrize("transform", [np.array, np.log, lambda p: 100 * p])
def test_scores_that_do_not_fit_the_labels_are_noticed(
    kind: str, match: str, transform: Any
) -> None:
    sites, labels, scores = draw_communes(np.random.default_rng(0))
    labels, scores = spoil(kind, labels, transform(scores))
    frame = as_frame(scores).assign(site=sites, y=labels)
    calls: list[Any] = [
        lambda: MetaPS(**LEVELS).calibrate(scores, sites, labels, classes=CHILDREN),
        lambda: calibrate_table(frame, task="site", label="y", **LEVELS),
    ]
    for calibrate in calls:
        objects = pytest.raises(InvalidInput, match=match)
        with objects if "lower" in match else pytest.warns(CheckWarning, match=match):
            calibrate()


@pytest.mark.parametrize("seed", range(40))
def test_honest_models_pass_however_weak_biased_or_unbalanced(seed: int) -> None:
    rng = np.random.default_rng(seed)
    separation = [0.4, 0.7, 1.3, 2.5][seed % 4]
    sites, labels, scores = draw_communes(rng, separation=separation)
    logits = np.log(scores) / rng.choice([0.5, 1, 2]) + rng.normal(size=4)  # biased
    logits += 0.5 * rng.normal(size=(78, 4))[sites] + 0.5 * rng.normal(size=scores.shape)
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    for honest in (scores, logits, probabilities, np.round(probabilities, 2)):
        check_examples(sites, honest, labels, classes=CHILDREN)


@given(st.integers(1, 3000))
def test_chance_is_told_from_a_weak_model_by_their_exact_probabilities(pairs: int) -> None:
    won = np.arange(pairs + 1)
    objects = np.array([judge_chance(w, pairs - w) is not None for w in won.tolist()])
    assert stats.binom.pmf(won[objects], pairs, 0.55).sum() <= 1e-3
    assert pairs < 3000 or stats.binom.pmf(won[objects], pairs, 0.5).sum() > 0.95


def test_a_model_slightly_but_surely_better_than_chance_passes() -> None:
    assert judge_chance(51_500, 48_500) is None
    assert judge_chance(50_100, 49_900) is not None


def test_a_perfect_model_passes_with_few_rows_ties_or_one_label() -> None:
    labels = np.tile([0, 1], 600)
    scores = np.eye(2)[labels]
    assert judge_best(labels, scores) is not None
    assert judge_best(labels[:999], scores[:999]) is None
    assert judge_best(labels, np.ones((1200, 2))) is None
    assert judge_best(0 * labels, np.tile([1.0, 0.0], (1200, 1))) is None


# Copies of rows are noticed, and coarse scores are not taken for copies.
def repeat(repeats: Repeats, times: int) -> Repeats:
    """Return the numbers if every row were repeated."""
    return {(times * size, times * k): count for (size, k), count in repeats.items()}


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
            and data_checks._is_excess({(60, k - 1): a, (60, k): b, (60, k + 1): c}, k)
        ):
            total += weight
    assert total <= FALSE_ALARM


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_copies_are_objected_to_only_if_chance_cannot_explain_them(once: int, twice: int) -> None:
    # At least this many rows would then occur three times, and none does.
    needed = 2 / 3 * twice**2 / once
    if judge_duplicates({(10**9, 1): once, (10**9, 2): twice}) is not None:
        assert math.exp(-needed) <= FALSE_ALARM / 10
    else:
        assert needed < 100 or twice < 100


@pytest.mark.parametrize("digits", [0, 1, 2, 3, 17])
def test_coarse_scores_pass_and_their_copies_do_not(digits: int) -> None:
    rng = np.random.default_rng(digits)
    labels, scores = draw_honest(rng)
    repeats = count_repeats(SITES, labels, np.round(scores, digits))
    assert judge_duplicates(repeats) is None
    twice = judge_duplicates(repeat(repeats, 2))
    assert twice is not None
    assert twice.is_error


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


# New sets are compared with those of calibration, in arrays, tables and promise files.
@pytest.fixture(scope="module")
def promise() -> MetaPS:
    sites, labels, scores = draw_communes(np.random.default_rng(0))
    return MetaPS(**LEVELS).calibrate(scores, sites, labels, classes=CHILDREN)


def as_frame(scores: Any) -> pd.DataFrame:
    return pd.DataFrame(scores, columns=[f"p_{name}" for name in CHILDREN])


def sharpen(scores: Any) -> Any:
    return scores**2 / np.sum(scores**2, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda p: p[:, [2, 1, 0, 3]], "'none' in .* instead of"),
        (lambda p: p[:, [0, 2, 1, 3]], "'one' in .* 'two' in"),
        (sharpen, "mean size 1.* instead of"),
        (np.log, "look like logarithms"),
    ],
)
def test_scores_of_another_kind_are_noticed_in_prediction(
    promise: MetaPS, spoil: Any, match: str
) -> None:
    scores = spoil(draw_communes(np.random.default_rng(1), 49)[2])
    for predict in (promise.predict_set, lambda p: predict_table(promise, as_frame(p))):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            predict(scores)
        assert any(re.search(match, str(warning.message)) for warning in caught)


def test_empty_sets_are_noticed_without_counts() -> None:
    method = PS(epsilon=0.1, delta=0.05).calibrate(np.linspace(0, 1, 101))
    method.predict_set(np.zeros((19, 4)))
    with pytest.warns(CheckWarning, match="first 20 sets are all empty"):
        method.predict_set(np.zeros((20, 4)))


@pytest.mark.parametrize("seed", range(10))
def test_communes_that_differ_pass(promise: MetaPS, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    promise.predict_set(draw_communes(rng, 49)[2])
    promise.predict_set(draw_communes(rng, 2)[2])
    predict_table(promise, as_frame(draw_communes(rng, 2)[2]))


def test_tables_and_arrays_count_the_same(promise: MetaPS) -> None:
    sites, labels, scores = draw_communes(np.random.default_rng(0))
    frame = as_frame(scores).assign(site=sites, y=labels)
    lists = pd.DataFrame({"site": sites, "y": labels, "probs": scores.tolist()})
    columns: dict[str, Any] = {"task": "site", "label": "y", **LEVELS}
    assert calibrate_table(frame, **columns)._sets == promise._sets
    listed = calibrate_table(lists, columns="probs", classes=CHILDREN, **columns)
    assert listed._sets == promise._sets
    assert promise._sets is not None
    assert promise._sets.classes == promise.predict_set(scores).sum(axis=0).tolist()


def test_counts_are_those_of_the_sets_and_of_tasks() -> None:
    rng = np.random.default_rng(0)
    tasks, labels, scores = np.repeat(np.arange(12), 5), rng.integers(0, 3, 60), rng.random((60, 3))
    order = rng.permutation(60)
    sample = Sample(tasks[order], labels, scores[order], "abc", is_part=True)
    counts = count_sets(sample, np.array([0.2, 0.5, 0.9]))
    sets = scores >= [0.2, 0.5, 0.9]
    sizes = sets.sum(axis=1)
    assert (counts.rows, counts.sampled) == (60, True)
    assert counts.sizes == np.bincount(sizes).tolist()
    assert counts.classes == sets.sum(axis=0).tolist()
    assert counts.mean_size == pytest.approx(sizes.mean())
    by_task = np.column_stack([sizes, sets]).reshape(12, 5, 4)
    between = by_task.mean(axis=1).var(axis=0) - by_task.var(axis=1, ddof=1).mean(axis=0) / 5
    assert counts.spread == pytest.approx(np.sqrt(np.maximum(between, 0)), abs=1e-6)
    assert count_sets(sample._replace(classes=()), 0.5).classes == []
    assert count_sets(sample._replace(tasks=tasks * 0), 0.5).spread is None


def test_a_figure_is_far_beyond_five_deviations_and_a_fifth() -> None:
    then = SetCounts(10_000, False, [0, 5000, 5000], [5000, 10_000], [0.0, 0.1, 0.0])
    for share, is_far in ((0.99, False), (1.01, True)):
        moved = 0.5 - share * np.hypot(0.5, 5 * 0.5 / 100)  # deviations between tasks and of rows
        finding = judge_sets(then, 10_000, 1.5, {"a": round(10_000 * moved), "b": 10_000})
        assert (finding is not None) == is_far
    assert judge_sets(then, 10_000, 1.5, {"a": 5000, "b": 8001}) is None
    assert judge_sets(then, 10_000, 1.5, {"a": 5000, "b": 7999}) is not None
    assert judge_sets(then, 199, 0.0, {"a": 0, "b": 0}) is None
    unknown = then._replace(spread=None)
    assert judge_sets(unknown, 10_000, 1.5, {"a": 5000, "b": 5001}) is None
    assert judge_sets(unknown, 10_000, 1.5, {"a": 5000, "b": 4999}) is not None


def test_rare_classes_are_far_by_a_factor_beyond_their_tails() -> None:
    then = SetCounts(12_000, False, [0, 12_000], [10_548, 1200, 252], [0.0, 0.01, 0.01, 0.005])

    def judge(one: int, other: int, **changed: Any) -> Any:
        sets = {"a": 10_548, "b": one, "c": other}
        return judge_sets(then._replace(**changed), 12_000, 1.0, sets)

    assert judge(1200, 252) is None
    assert "'b' in 2.1% instead of 10.0%, 'c' in 10.0% instead of 2.1%" in str(
        judge(252, 1200).text
    )
    assert judge(405, 700) is None  # less than a factor of 3
    assert judge(395, 252) is not None
    assert judge(1200, 770) is None  # 6 deviations between tasks, but tails are long
    assert judge(1200, 770, spread=[0.0, 0.01, 0.01, 0.003]) is not None
    assert judge(252, 1200, spread=None) is None
    few = {"a": 174, "b": 20, "c": 26}
    steady = then._replace(spread=[0.0] * 4)
    assert judge_sets(steady, 200, 1.1, few) is None
    assert judge_sets(steady, 600, 1.1, {"a": 522, "b": 60, "c": 78}) is not None
    rare = steady._replace(classes=[10_548, 1200, 199])
    assert judge_sets(rare, 12_000, 1.1, {"a": 10_548, "b": 1200, "c": 1200}) is None
    sets = np.eye(3, dtype=bool)[np.repeat([0, 1, 2], [879, 21, 100])]
    with pytest.warns(CheckWarning, match="'b' in 2.1% instead of 10.0%"):
        warn_of_sets(sets, then, "abc")
    warn_of_sets(sets[:, [0, 2, 1]], then, "abc")


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_alternate_by_class_are_counted_as_others(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.arange(4000) % 2
    ill = 1 / (1 + np.exp(-2 * (2 * labels - 1) - rng.normal(size=4000)))
    scores = np.column_stack([1 - ill, ill])
    sites = np.repeat(np.arange(40), 100)
    method = MetaPS(**LEVELS).calibrate(scores, sites, labels)
    method.predict_set(scores)
