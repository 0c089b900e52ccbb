"""Meta-CP: lambda against a slow reference, and a guarantee that holds only on average."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from sklearn.base import clone

from metapac import InfeasibleGuarantee, NotCalibrated, load
from metapac._common import Array
from metapac.cli.app import app
from metapac.fewshot import MetaCP, meta_cp
from metapac.fewshot.meta_cp import Correction, Split, _smallest_offset
from metapac.fewshot.synthetic import NormalFamily
from metapac.grouping import group
from tests.helpers.oracles import too_many

OVER = st.sampled_from(["tasks", "examples"])
# Halves and quarters, which the reference represents exactly as fractions.
dyadic = st.sampled_from([-math.inf, -1.0, -0.25, 0.0, 0.5, 0.75, 1.0, math.inf])
examples_of_tasks = st.lists(st.tuples(st.integers(0, 6), dyadic), min_size=1, max_size=60)
seven_quantiles = st.lists(st.sampled_from([-3.0, -0.5, 0.0, 0.25, 2.0]), min_size=7, max_size=7)


def slow_lambda(
    method: MetaCP, examples: list[tuple[int, float]], quantiles: dict[int, float]
) -> float:
    """Try all candidates; add up the covered fractions of each exactly."""
    by_task: dict[int, list[float]] = {}
    for task, score in examples:
        by_task.setdefault(task, []).append(-score)
    sizes = np.array([len(values) for values in by_task.values()])
    taken, _ = meta_cp.find_correction(
        method.over, method.epsilon, method.delta, *np.unique(sizes, return_counts=True)
    )
    candidates = {v - quantiles[task] for task, values in by_task.items() for v in values}
    for candidate in sorted(candidates) if taken < math.inf else []:
        covered = sum(
            Fraction(sum(v - quantiles[task] <= candidate for v in values), len(values))
            for task, values in by_task.items()
        )
        if covered / (len(by_task) + 1) - Fraction(taken) >= 1 - Fraction(method.epsilon):
            return candidate
    return math.inf


@given(
    examples=examples_of_tasks,
    quantiles=seven_quantiles,
    epsilon=st.sampled_from([0.3, 0.6, 0.95]),
    delta=st.sampled_from([0.9, 0.5, 1e-5]),
    over=OVER,
)
def test_lambda_is_the_smallest_that_is_enough(
    examples: list[tuple[int, float]],
    quantiles: list[float],
    epsilon: float,
    delta: float,
    over: str,
) -> None:
    # Unequal sizes, ties, infinite scores, a single task, and infeasible guarantees.
    method = MetaCP(epsilon=epsilon, delta=delta, over=over, on_infeasible="trivial")
    predicted = {task: quantiles[task] for task, _ in examples}
    tasks, scores = [t for t, _ in examples], [s for _, s in examples]
    method.calibrate(scores, tasks, predicted)
    assert method.lambda_ == slow_lambda(method, examples, predicted)
    in_order = clone(method).calibrate(scores, tasks, list(predicted.values()))
    assert in_order.lambda_ == method.lambda_
    assert method.tasks_.tolist() == list(predicted)
    assert method.quantiles_.tolist() == list(predicted.values())
    assert method.task_sizes_.sum() == len(examples)


def test_one_task_alone() -> None:
    # 2 (1 - epsilon + correction) = 0.904 of its examples must be covered: 10 of 10, 91 of 100.
    method = MetaCP(epsilon=0.95, delta=0.5)
    assert method.calibrate(-np.arange(1.0, 11), [0] * 10, [0.0]).lambda_ == 10
    assert 2 * (0.05 + method.correction_) == pytest.approx(0.9036, abs=1e-4)
    assert method.calibrate(-np.arange(1.0, 101), [0] * 100, [0.0]).lambda_ == 91


@pytest.mark.parametrize(
    ("delta", "over", "rank"),
    [(0.5, "tasks", 918), (1e-5, "tasks", 960), (0.5, "examples", 904), (1e-5, "examples", 914)],
)
def test_lambda_is_an_order_statistic_if_tasks_have_one_size(
    delta: float, over: str, rank: int
) -> None:
    # 500 tasks of the same 1000 nonconformities: 1 .. 1000, all of them shifted by the quantile.
    scores = -np.tile(np.arange(1.0, 1001), 500)
    method = MetaCP(epsilon=0.1, delta=delta, over=over)
    method.calibrate(scores - 7, np.repeat(np.arange(500), 1000), np.full(500, 7.0))
    assert method.lambda_ == rank
    assert rank == math.ceil(1000 * 501 / 500 * (0.9 + method.correction_))


def test_lambda_is_negative_if_quantiles_are_too_large() -> None:
    scores, tasks = many()
    careful = MetaCP(epsilon=0.2, delta=0.1).calibrate(scores, tasks, np.full(60, 5.0))
    bold = MetaCP(epsilon=0.2, delta=0.1).calibrate(scores, tasks, np.full(60, -5.0))
    assert careful.lambda_ < 0 < bold.lambda_
    assert careful.threshold(5.0) == pytest.approx(bold.threshold(-5.0))


def many(tasks: int = 60, examples: int = 20, rng: int = 0) -> tuple[Array, Array]:
    scores = np.random.default_rng(rng).normal(size=tasks * examples)
    return scores, np.repeat(np.arange(tasks), examples)


any_float = st.floats(allow_nan=False, width=32)


@given(
    scores=st.lists(any_float, min_size=12, max_size=12),
    quantiles=st.lists(st.floats(-1e30, 1e30), min_size=12, max_size=12),
    narrow=st.booleans(),
)
def test_no_example_that_counted_as_covered_is_lost_to_rounding(
    scores: list[float], quantiles: list[float], narrow: bool
) -> None:
    array = np.array(scores, dtype=np.float32 if narrow else np.float64)
    method = MetaCP(epsilon=0.5, delta=0.5).calibrate(array, range(12), quantiles)
    for values in (array, array.astype(np.float64)):
        covered = sum(
            int(method.predict_set(score, quantile)[0])
            for score, quantile in zip(values, quantiles, strict=True)
        )
        assert covered / 13 >= 0.5 + method.correction_


def test_sets_are_scores_at_least_the_threshold() -> None:
    scores, tasks = many()
    method = MetaCP(epsilon=0.2, delta=0.1).calibrate(scores, tasks, np.zeros(60))
    assert method.threshold(0.5) == pytest.approx(-(0.5 + method.lambda_))
    cut = method.threshold(0.5)
    kept = method.predict_set([[cut, np.nextafter(cut, -9)], [cut + 1, -math.inf]], 0.5)
    assert kept.tolist() == [[True, False], [True, False]]


def test_scores_of_minus_infinity_are_never_covered_by_a_finite_lambda() -> None:
    scores, tasks = many()
    scores[tasks < 6] = -math.inf
    method = MetaCP(epsilon=0.5, delta=0.1).calibrate(scores, tasks, np.zeros(60))
    assert math.isfinite(method.lambda_)
    hopeless = method.calibrate(np.full(1200, -math.inf), tasks, np.zeros(60))
    assert hopeless.lambda_ == math.inf
    assert hopeless.threshold(3.0) == -math.inf
    assert hopeless.predict_set([-math.inf], 3.0).all()
    assert hopeless.promise_.endswith("Every label is kept, so the guarantee holds trivially.")


def test_too_few_tasks_keep_every_label_if_requested() -> None:
    scores, tasks = many(20)
    for over in ("tasks", "examples"):
        trivial = MetaCP(epsilon=0.04, delta=1e-5, over=over, on_infeasible="trivial")
        assert trivial.calibrate(scores, tasks, np.zeros(20)).lambda_ == math.inf
        assert trivial.predict_set([-math.inf, 0.0], 0.0).all()


@pytest.mark.parametrize(
    ("over", "message"),
    [
        (
            "tasks",
            "epsilon=0.1, delta=1e-05 cannot be guaranteed on average over tasks: this takes 145 "
            "tasks, but there are 60 tasks. Options: add 85 tasks; or settle for epsilon=0.226; or "
            "settle for delta=0.0314; or pass on_infeasible='trivial' to keep every label.",
        ),
        (
            "examples",
            "epsilon=0.1, delta=1e-05 cannot be guaranteed on average over tasks: this takes 341 "
            "tasks with at least 20 examples, but there are 60 tasks. Options: add 281 tasks with "
            "at least 20 examples; or settle for epsilon=0.275; or settle for delta=0.0567; or "
            "pass on_infeasible='trivial' to keep every label.",
        ),
    ],
)
def test_an_infeasible_guarantee_says_what_is_missing(over: str, message: str) -> None:
    method = MetaCP(epsilon=0.1, delta=1e-5, over=over)
    scores, tasks = many()
    with pytest.raises(InfeasibleGuarantee) as caught:
        method.calibrate(scores, tasks, np.zeros(60))
    assert str(caught.value) == message
    words = message.replace(";", "").replace(",", "").split()
    for name in ("epsilon", "delta"):
        value = float(next(w for w in words[20:] if w.startswith(name)).removeprefix(f"{name}="))
        clone(method).set_params(**{name: value}).calibrate(scores, tasks, np.zeros(60))
    needed = int(words[words.index("takes") + 1])
    method.calibrate(*many(needed), np.zeros(needed))
    with pytest.raises(InfeasibleGuarantee):
        method.calibrate(*many(needed - 1), np.zeros(needed - 1))


def test_one_example_is_one_example() -> None:
    with pytest.raises(InfeasibleGuarantee, match="add 1 task with at least 1 example; or pass o"):
        MetaCP(epsilon=0.9, delta=0.5, over="examples").calibrate([0.5], ["a"], [0.0])


def test_rounding_never_helps() -> None:
    # In floating point three tenths add up to more than 0.3, which three of ten do not reach.
    ten = group(-np.arange(1.0, 11), ["a"] * 10)
    assert 0.1 + 0.1 + 0.1 == 0.1 + 0.2 > 0.3
    assert _smallest_offset(ten, np.zeros(1), 0.1 + 0.2) == 4
    assert _smallest_offset(ten, np.zeros(1), 0.29) == 3
    assert (
        _smallest_offset(ten, np.zeros(1), 1.0) == 10
    )  # all examples, however their sum is rounded


def test_a_guarantee_that_no_number_of_tasks_supports() -> None:
    with pytest.raises(ValueError, match=r"a rate of 1e-20 .* needs more than 10\*\*9 examples or"):
        MetaCP(epsilon=1e-20, delta=0.1).calibrate([0.5], ["a"], [0.0])


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({}, ([0.1, math.nan], "ab", [0, 0]), "scores holds 1 NaN out of 2 .* in task 'b'"),
        ({}, ([0.1], "ab", [0, 0]), "scores and tasks must have the same length, got 1 and 2"),
        (
            {},
            ([0.1, 0.2], "ab", [0.5]),
            r"quantiles .* 2 tasks.* got shape \(1,\)",
        ),
        ({}, ([0.1, 0.2], "ab", [0.5, math.inf]), "quantiles must be finite, got inf at positio"),
        ({}, ([0.1, 0.2], "ab", [math.nan, 1]), "quantiles must be finite, got nan at position 0"),
        (
            {},
            ([0.1, 0.2], "ab", {"a": 1, "b": 2, "c": 3}),
            "quantiles must .* tasks .* has 'c'",
        ),
        ({}, ([0.1, 0.2], "ab", {"a": 1}), "quantiles must .* tasks .* has 'b'"),
        ({}, ([0.1], "a", ["x"]), "quantiles must be real numbers"),
        ({"epsilon": 1.0}, ([0.1], "a", [0]), "epsilon must be a number strictly between 0 and 1"),
        ({"delta": "no"}, ([0.1], "a", [0]), "delta must be a number strictly between 0 and 1"),
        ({"over": "all"}, ([0.1], "a", [0]), "over must be 'tasks' or 'examples', got 'all'"),
        ({"on_infeasible": 1}, ([0.1], "a", [0]), "on_infeasible must be 'raise' or 'trivial'"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], arguments: Any, message: str) -> None:
    scores, tasks, quantiles = arguments
    method = MetaCP(**{"epsilon": 0.1, "delta": 0.1} | changes)
    with pytest.raises(ValueError, match=message):
        method.calibrate(scores, list(tasks), quantiles)


def test_a_quantile_is_one_finite_number() -> None:
    method = MetaCP(epsilon=0.2, delta=0.1).calibrate(*many(), np.zeros(60))
    for bad in (math.nan, math.inf, [1.0, 2.0]):
        with pytest.raises(ValueError, match="quantile must be one finite number, got"):
            method.predict_set([0.5], bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scores holds 1 NaN out of 1 values .first in row 0"):
        method.predict_set([math.nan], 0.0)


def test_the_estimator_contract() -> None:
    method = MetaCP(epsilon=0.2, delta=0.1, over="examples")
    assert repr(method) == "MetaCP(epsilon=0.2, delta=0.1, over='examples', on_infeasible='raise')"
    assert str(method) == repr(method)
    with pytest.raises(NotCalibrated, match="this MetaCP is not calibrated yet. Call .calibrate"):
        method.threshold(0.0)
    method.calibrate(*many(), np.zeros(60))
    assert clone(method).get_params() == method.get_params()
    assert not hasattr(clone(method), "lambda_")
    before = method.lambda_
    with pytest.raises(ValueError, match="scores is empty"):
        method.calibrate([], [], [])
    assert method.lambda_ == before
    method.set_params(delta=0.2)
    with pytest.raises(NotCalibrated, match="was calibrated with .* Call .calibrate"):
        method.predict_set([0.5], 0.0)
    with pytest.raises(TypeError, match="unknown parameter 'confidence_level'; use epsilon = 1"):
        MetaCP(confidence_level=0.9, delta=0.1)  # type: ignore[call-arg]


def test_the_sentence_says_what_the_average_is_over() -> None:
    scores, tasks = many()
    method = MetaCP(epsilon=Fraction(1, 5), delta=0.1)  # type: ignore[arg-type]
    method.calibrate(scores, tasks, np.zeros(60))
    assert str(method) == (
        "With confidence 90% over the draw of the 60 calibration tasks and their examples, the "
        f"sets {{label: score >= -(quantile + {method.lambda_!r})}} miss the true label at most "
        "20% of the time on average over new tasks; this is no guarantee for each task; it holds "
        "provided that tasks are drawn i.i.d. from one distribution, that calibration and new "
        "examples are sampled in the same way (all balanced by class, or none), that no "
        "calibration task was seen in training, and that the same fixed score function and "
        "quantile predictor are used for all tasks."
    )
    assert method.split_ == Split(across=0.1, within=0.0)
    method.set_params(over="examples").calibrate(scores, tasks, np.zeros(60))
    assert "over the draw of the examples of the 60 calibration tasks, the sets" in method.promise_
    assert "on average over the draw of the calibration tasks and of a new one" in method.promise_
    assert method.split_.across + method.split_.within == pytest.approx(0.1)
    assert 0 < method.split_.within < 0.1


@pytest.mark.parametrize("over", ["tasks", "examples"])
def test_what_was_saved_comes_back(tmp_path: Path, over: str) -> None:
    scores, tasks = many()
    quantiles = np.linspace(-1, 1, 60)
    before = MetaCP(epsilon=0.2, delta=0.1, over=over)
    before.calibrate(scores.astype(np.float32), tasks, quantiles).save(tmp_path / "promise.json")
    after = load(tmp_path / "promise.json")
    assert type(after) is MetaCP
    assert after.get_params() == before.get_params()
    assert str(after) == str(before)
    assert after.threshold(0.3) == before.threshold(0.3)
    assert after.precision_ == np.float32
    assert (after.correction_, after.split_) == (before.correction_, before.split_)
    assert after.tasks_.tolist() == before.tasks_.tolist()
    assert after.task_sizes_.tolist() == before.task_sizes_.tolist()
    np.testing.assert_array_equal(after.quantiles_, quantiles)
    before.set_params(on_infeasible="trivial").calibrate([0.5], ["a"], [0.0])
    before.save(tmp_path / "trivial.json")
    assert load(tmp_path / "trivial.json").lambda_ == math.inf


def test_the_command_line_explains_that_it_cannot_predict_with_it(tmp_path: Path) -> None:
    promise, table = tmp_path / "promise.json", tmp_path / "scores.csv"
    MetaCP(epsilon=0.2, delta=0.1).calibrate(*many(), np.zeros(60)).save(promise)
    table.write_text("p_cat,p_dog\n0.2,0.8\n")
    result = CliRunner().invoke(app, ["predict", str(promise), str(table)])
    assert result.exit_code != 0
    text = " ".join(result.output.split())
    assert "MetaPS or PS" in text
    assert "MetaCP" in text.partition("got")[2]


# Does the guarantee hold? A task's signal is normal, and so is the error of its predicted quantile,
# so averages over tasks are known in closed form.
EPSILON, DELTA, TASKS, EXAMPLES, DRAWS = 0.2, 0.1, 150, 8, 1000
FAMILY, BLUR = NormalFamily(spread=0.5), 1.0
NAMES = np.repeat(np.arange(TASKS), EXAMPLES)


def calibrated(signals: Array, blurs: Array, rng: np.random.Generator, over: str) -> MetaCP:
    scores = FAMILY.draw_scores(signals, EXAMPLES, rng)
    method = MetaCP(epsilon=EPSILON, delta=DELTA, over=over)
    return method.calibrate(scores.ravel(), NAMES, BLUR * blurs - signals)


def average_error(method: MetaCP, shift: float = 0.0) -> float:
    """P(score < -(quantile + lambda)): noise plus blurred quantile, both normal, below -lambda."""
    return float(special.ndtr(-(method.lambda_ - shift) / math.hypot(1, BLUR)))


def share_of_tasks_broken(method: MetaCP) -> float:
    """Return the fraction of tasks, with their adaptation examples, that miss more than epsilon."""
    # The error Phi(-(lambda + blur)) exceeds epsilon if the blur is low enough.
    return float(special.ndtr((-special.ndtri(EPSILON) - method.lambda_) / BLUR))


def methods_over_tasks(rng: int) -> list[MetaCP]:
    result = []
    for seed in np.random.SeedSequence(rng).spawn(DRAWS):
        generator = np.random.default_rng(seed)
        signals = FAMILY.draw_tasks(TASKS, generator)
        blurs = generator.standard_normal(TASKS)
        result.append(calibrated(signals, blurs, generator, "tasks"))
    return result


def count(methods: list[MetaCP], error: Callable[[MetaCP], float]) -> int:
    return sum(error(method) > EPSILON for method in methods)


def nothing_taken_off(*_: object) -> Correction:
    return Correction(0.0, Split(DELTA, 0.0))


def test_it_covers_on_average_over_tasks_but_not_on_each() -> None:
    methods = methods_over_tasks(rng=0)
    assert not too_many(count(methods, average_error), DRAWS, DELTA)
    assert np.mean([share_of_tasks_broken(method) for method in methods]) > 0.15
    # Negative control: the simulation notices quantiles predicted in another way than calibrated.
    assert too_many(count(methods, lambda method: average_error(method, shift=0.4)), DRAWS, DELTA)


def test_the_closed_forms_of_the_simulation() -> None:
    # A million tasks of one example each; the probability of a larger deviation is below 1e-6.
    rng = np.random.default_rng(0)
    method = calibrated(FAMILY.draw_tasks(TASKS, rng), rng.standard_normal(TASKS), rng, "tasks")
    signals, blurs = FAMILY.draw_tasks(10**6, rng), rng.standard_normal(10**6)
    cuts = np.array(
        [
            -(BLUR * blur - signal + method.lambda_)
            for blur, signal in zip(blurs, signals, strict=True)
        ]
    )
    errors = special.ndtr(cuts - signals)
    missed = FAMILY.draw_scores(signals, 1, rng)[:, 0] < cuts
    for share, expected in (
        (missed.mean(), average_error(method)),
        (np.mean(errors > EPSILON), share_of_tasks_broken(method)),
    ):
        assert stats.binomtest(round(share * 10**6), 10**6, expected).pvalue > 1e-6


def test_a_missing_correction_is_caught() -> None:
    with mock.patch.object(meta_cp, "find_correction", nothing_taken_off):
        methods = methods_over_tasks(rng=0)
    assert too_many(count(methods, average_error), DRAWS, DELTA)


def broken_over_examples(draws: int, rng: int) -> int:
    """Return how often lambda is smaller than a fixed set of tasks requires."""
    first, *seeds = np.random.SeedSequence(rng).spawn(draws + 1)
    generator = np.random.default_rng(first)
    signals, blurs = FAMILY.draw_tasks(TASKS, generator), generator.standard_normal(TASKS)
    violations = 0
    for seed in seeds:
        method = calibrated(signals, blurs, np.random.default_rng(seed), "examples")
        covered = special.ndtr(method.lambda_ + BLUR * blurs)
        violations += covered.sum() / (TASKS + 1) < 1 - EPSILON
    return violations


def test_over_examples_the_guarantee_holds_for_any_tasks() -> None:
    assert not too_many(broken_over_examples(200, rng=0), 200, DELTA)
    with mock.patch.object(meta_cp, "find_correction", nothing_taken_off):
        assert too_many(broken_over_examples(200, rng=0), 200, DELTA)


def test_over_examples_unlucky_tasks_are_not_covered() -> None:
    # A task is right on all of its examples or on none. Though fewer than 90% of all tasks are,
    # 183 or more of 200 are far more often than delta, and then lambda covers those alone.
    scores = np.repeat([1.0, 0.0], [183 * 1000, 17 * 1000])
    names = np.repeat(np.arange(200), 1000)
    result = MetaCP(epsilon=0.1, delta=0.01, over="examples").calibrate(
        scores, names, np.zeros(200)
    )
    assert result.lambda_ == -1.0
    assert stats.binom.sf(182, 200, 0.9 - 1e-9) > 0.1
    over_tasks = MetaCP(epsilon=0.1, delta=0.01).calibrate(scores, names, np.zeros(200))
    assert str(over_tasks.lambda_) == "0.0"
