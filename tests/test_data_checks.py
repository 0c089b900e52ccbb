"""Do the data mean what they should? Silent on honest data, and each problem is reported."""

from __future__ import annotations

import itertools
import math
import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from metapac import PS, CheckWarning, InvalidInput, MetaPS, Scored, data_checks
from metapac.data_checks import FALSE_ALARM, Finding, Repeats, Sample, SetCounts, report
from tests.helpers.tables import calibrate_table, predict_table

# Scores of fair models on many sites.
SITES = np.repeat(np.arange(60), 400)
CHILDREN = ["none", "one", "two", "more"]


def draw_honest(rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return labels of which 5% are rare, and probabilities of a fair model."""
    labels = (rng.random(len(SITES)) < 0.05).astype(np.int64)
    rare = 1 / (1 + np.exp(2 - rng.normal(size=len(SITES)) - 1.5 * labels))
    return labels, np.column_stack([1 - rare, rare])


def draw_communes(
    rng: np.random.Generator, communes: int = 78, *, separation: float = 1.3
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64]]:
    """Return communes of 143 people, labels of which 75, 15, 8 and 2% are of a class, and scores.

    Classes are ordered, communes differ in their shares, and the scores are probabilities of a
    model that knows the shares of all communes together.
    """
    shares, sites = np.array([0.75, 0.15, 0.08, 0.02]), np.repeat(np.arange(communes), 143)
    own = shares * np.exp(0.3 * rng.normal(size=(communes, 4)))
    limits = np.cumsum(own / own.sum(axis=1, keepdims=True), axis=1)[sites, :3]
    labels = np.sum(rng.random(len(sites))[:, None] > limits, axis=1)
    means = separation * np.arange(4)
    seen = means[labels] + rng.normal(size=len(sites))
    scores = shares * np.exp(seen[:, None] * means - means**2 / 2)
    return sites, np.array(CHILDREN)[labels], scores / scores.sum(axis=1, keepdims=True)


def check_examples(
    tasks: Any, scores: Any, labels: Any = None, classes: Any = None, allow: Any = ()
) -> None:
    """Run the checks of labelled examples that every calibration runs."""
    data, skipped = Scored(scores, tasks, labels, classes), frozenset(allow)
    names, sizes = np.unique(np.asarray(tasks), return_counts=True)
    data_checks.check_facts(data.facts(names, sizes, skipped), skipped)


ERROR, WARNING = (Finding("levels", is_error, "seen.") for is_error in (True, False))


def test_an_error_is_raised_and_a_warning_is_given_with_the_way_on() -> None:
    with pytest.raises(InvalidInput, match=r"^t.csv: seen. To go on, pass allow=\('levels',\)\.$"):
        report([None, WARNING, ERROR], where="t.csv")
    with pytest.warns(CheckWarning, match="^seen. To silence this, pass allow=") as caught:
        report([WARNING, None])
    assert caught[0].filename == __file__
    for allow in (["levels"], "levels"):
        report([ERROR, WARNING], allow=allow)


@given(st.floats(1e-9, 0.5), st.floats(1e-9, 0.5), st.none() | st.floats(1e-9, 0.5))
def test_levels_up_to_one_half_pass(epsilon: float, alpha: float, delta: float | None) -> None:
    assert data_checks.judge_levels(epsilon, alpha, delta) is None
    assert data_checks.judge_levels({"a": epsilon, "b": alpha}, alpha, delta) is None
    found = data_checks.judge_levels({"a": epsilon, "b": 0.9}, alpha, delta)
    assert "mean epsilon=0.1" in str(found)


NAMES: list[tuple[Any, Any, bool | None]] = [  # whether it is an error, a warning, or neither
    ("São Paulo", "São Paulo ", True),
    ("São Paulo", "São  Paulo", True),
    ("São Paulo", "Sa\N{COMBINING TILDE}o Paulo", True),
    ("São Paulo", "SÃO PAULO ", False),
    (" ", "x", None),
    ("a b", "a-b", None),
]


def test_one_task_under_two_names() -> None:
    for one, other, is_error in NAMES:
        finding = data_checks.judge_task_names([one, other])
        assert (None if finding is None else finding.is_error) == is_error
        assert finding is None or f"{one!r} and {other!r}" in finding.text
    assert "names of sites" in str(data_checks.judge_task_names(["a", "a "], what="site"))


def test_columns_of_ids_of_one_class_and_of_two_scales() -> None:
    assert data_checks.judge_task_column(20, 20) is not None
    assert data_checks.judge_task_column(19, 19) is data_checks.judge_task_column(20, 21) is None
    assert data_checks.judge_score_column("p_yes", ["p_no"], rows=100, equal=2) is not None
    assert data_checks.judge_score_column("p_true", ["p_no", "p_yes"], rows=100, equal=100) is None
    assert data_checks.judge_score_column("p_yes", [], rows=100, equal=0) is None
    for mixed in ((100, 50, 50), (100, 99, 1)):
        assert data_checks.judge_percentages(*mixed) is not None
    for alike in ((100, 100, 0), (100, 0, 100), (100, 40, 40), (0, 0, 0)):
        assert data_checks.judge_percentages(*alike) is None


SCALES: list[tuple[Any, Any, str | None]] = [  # of the scores, and of the calibration
    ((0, 99), (0, 0.99), "these are percentages and those fractions"),
    ((0, 1), (0, 100), "these are fractions .* Multiply these by 100"),
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
]


def test_a_scale_other_than_that_of_the_calibration() -> None:
    for scores, calibration, words in SCALES:
        finding = data_checks.judge_scale(scores, calibration)
        assert (finding is None) == (words is None)
        assert finding is None or (finding.is_error and re.search(words or "", finding.text))
    # Logarithms are a warning without labels, and if they may be differences.
    for other, labelled in (((-7, 0), False), ((-0.9, -0.1), True)):
        weak = data_checks.judge_scale(other, (0, 1), labelled=labelled)
        assert weak is not None
        assert not weak.is_error


def test_a_class_that_is_missing_or_rare_is_named() -> None:
    def judge(works: bool, **counts: int) -> str:
        found = data_checks.judge_rare_classes(counts, 0.1, supports_classes=lambda: works)
        return str(found)

    missing, rare = judge(True, no=60, yes=40, maybe=0, never=0), judge(True, no=95, yes=5, maybe=0)
    assert "is_error=False" in missing
    assert "'maybe', 'never'" in missing
    assert "'yes' is 5.0% of the examples" in rare
    assert "per_class=True" in rare
    assert "per_class=True" not in judge(False, no=95, yes=5)
    assert judge(True, no=0, yes=0) == "None"


# Arrays.


def test_arrays_with_copies_missing_scores_and_mixed_scales() -> None:
    labels, scores = draw_honest(np.random.default_rng(0))
    twice = np.tile(np.arange(len(labels)), 2)
    for columns in ((scores[twice], labels[twice]), (scores[twice, 0],)):
        with pytest.raises(InvalidInput, match="every row occurs 2 times"):
            check_examples(SITES[twice], *columns)
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


def test_samples_of_large_arrays_keep_copies_together(monkeypatch: Any) -> None:
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


def test_percentages_are_noticed_in_prediction() -> None:
    for shape, first in itertools.product([(2,), (5, 3), (400, 40)], [0.0, np.inf]):
        scores = np.full(shape, 60.0)
        scores.flat[0] = first
        with pytest.warns(CheckWarning, match="Divide these by 100"):
            data_checks.warn_of_scale(scores, (0.0, 0.9))
        data_checks.warn_of_scale(scores / 100, (0.0, 0.9))
    data_checks.warn_of_scale(scores, None)
    data_checks.warn_of_scale(scores[:0], (0.0, 0.9))
    data_checks.warn_of_scale(
        np.full(19, 0.6), (0.0, 99.0)
    )  # few small percentages are not fractions
    with pytest.warns(CheckWarning, match="Multiply these by 100"):
        data_checks.warn_of_scale(np.full(20, 0.6), (0.0, 99.0))
    late = np.append(np.full(1000, 0.6), 60.0)[:, None]  # only the first rows are looked at
    data_checks.warn_of_scale(late, (0.0, 0.9))
    with pytest.warns(CheckWarning):
        data_checks.warn_of_scale(late[1:], (0.0, 0.9))


# Reversed scores are noticed, and a biased or uninformative model is not taken for one.
def test_pairs_do_not_follow_the_order_of_rows() -> None:
    # Sorted by the score of class 0, labels alternating: neighbours would lose all 2000 pairs.
    rising = np.linspace(0, 1, 4000)
    scores = np.column_stack([rising, np.full(4000, 0.5)])
    tasks, labels = np.zeros(4000, int), np.tile([0, 1], 2000)
    assert data_checks.judge_direction(*data_checks.count_swaps(tasks, labels, scores)) is None
    reversed_ = data_checks.judge_direction(
        *data_checks.count_swaps(tasks, np.repeat([0, 1], 2000), scores)
    )
    assert reversed_ is not None


def test_pairs_are_disjoint_and_won_if_the_own_labels_score_more() -> None:
    tasks, labels = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 1, 0, 0, 0, 1, 2])
    for sign, pairs in ((1, [[1, 2], [0, 0]]), (-1, [[0, 0], [1, 2]]), (0, [[0, 0], [0, 0]])):
        found = data_checks.count_swaps(tasks, labels, sign * np.eye(3)[labels])
        assert [part.tolist() for part in found] == pairs


def test_uninformative_scores_win_and_lose_alike_whatever_the_class_sizes() -> None:
    # All permutations of the rows of a task, with a rare class that the scores favour: exact.
    labels, scores = np.array([0, 0, 0, 0, 1]), np.array([0.1, 0.2, 0.2, 0.9, 0.4])
    both = np.column_stack([1 - scores, scores + 3])
    outcomes = [
        [
            int(part[0])
            for part in data_checks.count_swaps(np.zeros(5, int), labels, both[list(order)])
        ]
        for order in itertools.permutations(range(5))
    ]
    assert sum(wins for wins, _ in outcomes) == sum(losses for _, losses in outcomes) > 0


@given(st.integers(1, 400))
def test_the_false_alarm_rate_of_the_direction_is_at_most_1e_6(pairs: int) -> None:
    # Of a single task: the number of losses at which the check objects, and its exact probability.
    losses = np.arange(pairs + 1)
    objects = [
        data_checks.judge_direction(np.array([pairs - lost]), np.array([lost])) is not None
        for lost in losses
    ]
    assert stats.binom.pmf(losses[objects], pairs, 0.5).sum() <= FALSE_ALARM
    assert objects[-1] == (2.0**-pairs <= FALSE_ALARM)  # and it can object


def test_reversed_tasks_are_an_error_if_they_agree_and_a_warning_if_they_are_few() -> None:
    for tasks in (60, 9):
        finding = data_checks.judge_direction(np.full(tasks, 2), np.full(tasks, 18))
        assert finding is not None
        assert finding.is_error == (tasks == 60)
        assert f"in {18 * tasks} of {20 * tasks} pairs of examples" in finding.text


LEVELS: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}


MISTAKES: dict[str, tuple[Any, str]] = {
    "none and two": (lambda y, p: (y, p[:, [2, 1, 0, 3]]), "true label scores lower"),
    "one and two": (lambda y, p: (y, p[:, [0, 2, 1, 3]]), "'one' and 'two' look swapped"),
    "reversed": (lambda y, p: (y, p[:, ::-1]), "true label scores lower"),
    "predicted": (
        lambda y, p: (np.array(CHILDREN)[np.argmax(p, axis=1)], p),
        "highest in all 11154 rows",
    ),
    "joined to other rows": (lambda y, p: (y, np.roll(p, 7, axis=0)), "no better than chance"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_scores_that_do_not_fit_the_labels_are_noticed(kind: str) -> None:
    sites, honest, probabilities = draw_communes(np.random.default_rng(0))
    spoil, match = MISTAKES[kind]
    for transform in (np.array, np.log, lambda p: 100 * p):
        labels, scores = spoil(honest, transform(probabilities))
        frame = as_frame(scores).assign(site=sites, y=labels)
        calls: list[Any] = [
            lambda: MetaPS(**LEVELS).calibrate(scores, sites, labels, classes=CHILDREN),
            lambda: calibrate_table(frame, task="site", label="y", **LEVELS),
        ]
        for calibrate in calls:
            objects = pytest.raises(InvalidInput, match=match)
            with objects if "lower" in match else pytest.warns(CheckWarning, match=match):
                calibrate()


def test_honest_models_pass_however_weak_biased_or_unbalanced() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sites, labels, scores = draw_communes(rng, separation=[0.4, 0.7, 1.3, 2.5][seed % 4])
        logits = np.log(scores) / rng.choice([0.5, 1, 2]) + rng.normal(size=4)  # biased
        logits += 0.5 * rng.normal(size=(78, 4))[sites] + 0.5 * rng.normal(size=scores.shape)
        probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        for honest in (scores, logits, probabilities, np.round(probabilities, 2)):
            check_examples(sites, honest, labels, classes=CHILDREN)


@given(st.integers(1, 3000))
def test_chance_is_told_from_a_weak_model_by_their_exact_probabilities(pairs: int) -> None:
    won = np.arange(pairs + 1)
    objects = np.array([data_checks.judge_chance(w, pairs - w) is not None for w in won.tolist()])
    assert stats.binom.pmf(won[objects], pairs, 0.55).sum() <= 1e-3
    assert pairs < 3000 or stats.binom.pmf(won[objects], pairs, 0.5).sum() > 0.95
    assert (
        data_checks.judge_chance(51_500, 48_500) is None
    )  # slightly but surely better than chance
    assert data_checks.judge_chance(50_100, 49_900) is not None


def test_a_perfect_model_passes_with_few_rows_ties_or_one_label() -> None:
    labels = np.tile([0, 1], 600)
    scores = np.eye(2)[labels]
    assert data_checks.judge_best(labels, scores) is not None
    assert data_checks.judge_best(labels[:999], scores[:999]) is None
    assert data_checks.judge_best(labels, np.ones((1200, 2))) is None
    assert data_checks.judge_best(0 * labels, np.tile([1.0, 0.0], (1200, 1))) is None


# Copies of rows are noticed, and coarse scores are not taken for copies.
@given(
    st.lists(st.tuples(st.floats(0.001, 0.999), st.integers(6, 100)), min_size=1, max_size=5),
    st.integers(2, 20),
)
def test_expected_repeats_obey_the_inequality(cells: Any, k: int) -> None:
    # N(k) is the number of rows, of given probabilities, that occur k times among n. No mixture
    # breaks the rule, so that the check can only be wrong by chance.
    counted = [(p, n) for p, n in cells if n >= 2 * (k + 1)]
    before, at, after = (
        sum(stats.binom.pmf(j, *x[::-1]) for x in counted) for j in (k - 1, k, k + 1)
    )
    factor = k / (k + 1) * (k + 2) / (k + 3)
    assert before * after >= factor * at**2 * (1 - 1e-9)


def test_the_false_alarm_rate_of_copies_is_computed() -> None:
    # Three counts in a row, of cells with one rate, where the inequality is an equality: the
    # worst case. Their joint distribution is a product of Poisson tails, and is summed up.
    rate, k, cells = 1.0, 2, 60.0
    means = [cells * stats.poisson.pmf(j, rate) for j in (k - 1, k, k + 1)]
    ranges = [range(int(stats.poisson.isf(1e-9, mean)) + 1) for mean in means]
    probabilities = [stats.poisson.pmf([*r], mean) for r, mean in zip(ranges, means, strict=True)]
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
    if data_checks.judge_duplicates({(10**9, 1): once, (10**9, 2): twice}) is not None:
        assert math.exp(-needed) <= FALSE_ALARM / 10
    else:
        assert needed < 100 or twice < 100


def test_coarse_scores_pass_and_their_copies_do_not() -> None:
    for digits in (0, 1, 2, 3, 17):
        labels, scores = draw_honest(np.random.default_rng(digits))
        repeats = data_checks.count_repeats(SITES, labels, np.round(scores, digits))
        assert data_checks.judge_duplicates(repeats) is None
        twice = {(2 * size, 2 * times): count for (size, times), count in repeats.items()}
        assert "is_error=True" in str(data_checks.judge_duplicates(twice))


def test_every_row_twice_is_an_error_and_some_rows_twice_a_warning() -> None:
    cases: list[tuple[Repeats, bool, str]] = [
        ({(800, 2): 24000}, True, "every row occurs 2 times (48000 rows, 24000 distinct)"),
        ({(500, 1): 19000, (500, 2): 5000}, False, "5000 of 29000 rows are copies of another row"),
        ({(300, 2): 1000, (400, 4): 100}, True, "every row occurs at least 2 times"),
    ]
    for repeats, is_error, words in cases:
        finding = data_checks.judge_duplicates(repeats)
        assert finding is not None
        assert finding.is_error == is_error
        assert words in finding.text
    # All rows of a task are alike: the number of times is the size of the task, not a coincidence.
    assert (
        data_checks.judge_duplicates(data_checks.count_repeats(SITES, np.zeros(len(SITES)))) is None
    )
    assert data_checks.judge_duplicates({(2, 2): 10**6}) is None


def test_two_values_in_tasks_of_one_size_are_no_copies() -> None:
    # Binomial counts, whose sum is fixed: as many of 10**7 tasks as have each split, on average.
    for size in (6, 7, 40):
        split = (1e7 * stats.binom.pmf(np.arange(size + 1), size, 0.5)).astype(int)
        both = split + split[::-1]
        repeats = {(size, k): int(both[k]) for k in range(1, size + 1) if both[k]}
        assert data_checks.judge_duplicates(repeats) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1))
def test_repeats_are_counted(rows: list[tuple[int, int]]) -> None:
    tasks, values = np.array(rows).T
    expected = Counter((int(np.sum(tasks == row[0])), rows.count(row)) for row in {*rows})
    assert data_checks.count_repeats(tasks, values) == expected
    assert data_checks.count_repeats(tasks, np.column_stack([values, values])) == expected


# New sets are compared with those of calibration, in arrays, tables and promise files.
@pytest.fixture(scope="module")
def promise() -> MetaPS:
    sites, labels, scores = draw_communes(np.random.default_rng(0))
    return MetaPS(**LEVELS).calibrate(scores, sites, labels, classes=CHILDREN)


def as_frame(scores: Any) -> pd.DataFrame:
    return pd.DataFrame(scores, columns=[f"p_{name}" for name in CHILDREN])


KINDS: list[tuple[Any, str]] = [
    (lambda p: p[:, [2, 1, 0, 3]], "'none' in .* instead of"),
    (lambda p: p[:, [0, 2, 1, 3]], "'one' in .* 'two' in"),
    (lambda p: p**2 / np.sum(p**2, axis=1, keepdims=True), "mean size 1.* instead of"),
    (np.log, "look like logarithms"),
]


def test_scores_of_another_kind_are_noticed_in_prediction(promise: MetaPS) -> None:
    for change, match in KINDS:
        scores = change(draw_communes(np.random.default_rng(1), 49)[2])
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


def test_communes_that_differ_pass(promise: MetaPS) -> None:
    for seed in range(100, 110):
        rng = np.random.default_rng(seed)
        promise.predict_set(draw_communes(rng, 49)[2])
        promise.predict_set(draw_communes(rng, 2)[2])
        predict_table(promise, as_frame(draw_communes(rng, 2)[2]))


def test_tables_and_arrays_count_the_same(promise: MetaPS) -> None:
    sites, labels, scores = draw_communes(np.random.default_rng(0))
    frame = as_frame(scores).assign(site=sites, y=labels, probs=scores.tolist())
    columns: dict[str, Any] = {"task": "site", "label": "y", **LEVELS}
    for more in ({}, {"columns": "probs", "classes": CHILDREN}):
        assert calibrate_table(frame, **columns, **more)._sets == promise._sets
    assert promise._sets is not None
    assert promise._sets.classes == promise.predict_set(scores).sum(axis=0).tolist()


def test_counts_are_those_of_the_sets_and_of_tasks() -> None:
    rng = np.random.default_rng(0)
    tasks, labels, scores = np.repeat(np.arange(12), 5), rng.integers(0, 3, 60), rng.random((60, 3))
    order = rng.permutation(60)
    sample = Sample(tasks[order], labels, scores[order], "abc", is_part=True)
    counts = data_checks.count_sets(sample, np.array([0.2, 0.5, 0.9]))
    sets = scores >= [0.2, 0.5, 0.9]
    sizes = sets.sum(axis=1)
    assert (counts.rows, counts.sampled) == (60, True)
    assert counts.sizes == np.bincount(sizes).tolist()
    assert counts.classes == sets.sum(axis=0).tolist()
    assert counts.mean_size == pytest.approx(sizes.mean())
    by_task = np.column_stack([sizes, sets]).reshape(12, 5, 4)
    between = by_task.mean(axis=1).var(axis=0) - by_task.var(axis=1, ddof=1).mean(axis=0) / 5
    assert counts.spread == pytest.approx(np.sqrt(np.maximum(between, 0)), abs=1e-6)
    assert data_checks.count_sets(sample._replace(classes=()), 0.5).classes == []
    assert data_checks.count_sets(sample._replace(tasks=tasks * 0), 0.5).spread is None


def test_a_figure_is_far_beyond_five_deviations_and_a_fifth() -> None:
    then = SetCounts(10_000, False, [0, 5000, 5000], [5000, 10_000], [0.0, 0.1, 0.0])

    def is_far(a: int, b: int, then: SetCounts = then) -> bool:
        return data_checks.judge_sets(then, 10_000, 1.5, {"a": a, "b": b}) is not None

    deviations = np.hypot(0.5, 5 * 0.5 / 100)  # between tasks and of rows
    assert not is_far(round(10_000 * (0.5 - 0.99 * deviations)), 10_000)
    assert is_far(round(10_000 * (0.5 - 1.01 * deviations)), 10_000)
    assert (is_far(5000, 8001), is_far(5000, 7999)) == (False, True)
    unknown = then._replace(spread=None)
    assert (is_far(5000, 5001, unknown), is_far(5000, 4999, unknown)) == (False, True)
    assert data_checks.judge_sets(then, 199, 0.0, {"a": 0, "b": 0}) is None


def test_rare_classes_are_far_by_a_factor_beyond_their_tails() -> None:
    then = SetCounts(12_000, False, [0, 12_000], [10_548, 1200, 252], [0.0, 0.01, 0.01, 0.005])

    def judge(b: int, c: int, a: int = 10_548, rows: int = 12_000, **changed: Any) -> str:
        sets = {"a": a, "b": b, "c": c}
        return str(data_checks.judge_sets(then._replace(**changed), rows, (a + b + c) / rows, sets))

    assert "'b' in 2.1% instead of 10.0%, 'c' in 10.0% instead of 2.1%" in judge(252, 1200)
    assert judge(1200, 252) == judge(405, 700) == "None"  # less than a factor of 3
    assert "'b' in 3.3%" in judge(395, 252)
    assert judge(1200, 770) == "None"  # 6 deviations between tasks, but tails are long
    assert judge(1200, 770, spread=[0.0, 0.01, 0.01, 0.003]) != "None"
    assert judge(252, 1200, spread=None) == "None"
    assert judge(20, 26, 174, 200, spread=[0.0] * 4) == "None"
    assert judge(60, 78, 522, 600, spread=[0.0] * 4) != "None"
    assert judge(1200, 1200, spread=[0.0] * 4, classes=[10_548, 1200, 199]) == "None"
    sets = np.eye(3, dtype=bool)[np.repeat([0, 1, 2], [879, 21, 100])]
    with pytest.warns(CheckWarning, match="'b' in 2.1% instead of 10.0%"):
        data_checks.warn_of_sets(sets, then, "abc")
    data_checks.warn_of_sets(sets[:, [0, 2, 1]], then, "abc")


def test_rows_that_alternate_by_class_are_counted_as_others() -> None:
    labels, sites = np.arange(4000) % 2, np.repeat(np.arange(40), 100)
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(size=4000)
        ill = 1 / (1 + np.exp(-2 * (2 * labels - 1) - noise))
        scores = np.column_stack([1 - ill, ill])
        MetaPS(**LEVELS).calibrate(scores, sites, labels).predict_set(scores)
