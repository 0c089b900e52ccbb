"""Meta-CP: corrections, lambda, a guarantee that holds on average only, predicted quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from sklearn.base import clone

from metapac import InfeasibleGuarantee, NotCalibrated, load
from metapac._common import Array
from metapac.fewshot import MetaCP, ProtoNet, meta_cp
from metapac.fewshot.meta_cp import Correction, Split, find_correction
from metapac.fewshot.quantile_predictor import QuantilePredictor
from metapac.fewshot.synthetic import NormalFamily
from metapac.fewshot.tasks import Task
from tests.helpers.commands import metapac
from tests.helpers.oracles import too_many
from tests.helpers.refusals import assert_refused

OVER = ("tasks", "examples")
rates = st.floats(0.01, 0.99)
deltas = st.sampled_from([0.9, 0.5, 0.1, 1e-5, 1e-12])
sizes_of_tasks = st.lists(st.integers(1, 3000), min_size=1, max_size=5)


def correct(over: str, epsilon: float, delta: float, sizes: Any) -> Correction:
    return find_correction(over, epsilon, delta, *np.unique(sizes, return_counts=True))


def divergence(t: mpmath.mpf, p: mpmath.mpf) -> mpmath.mpf:
    second = (1 - t) * mpmath.log((1 - t) / (1 - p)) if t < 1 else mpmath.mpf(0)
    return t * mpmath.log(t / p) + second


@settings(max_examples=60)
@given(epsilon=rates, delta=deltas, tasks=st.integers(1, 2000))
def test_over_tasks_solves_hoeffdings_inequality(epsilon: float, delta: float, tasks: int) -> None:
    result, split = correct("tasks", epsilon, delta, [1] * tasks)
    assert split == Split(delta, 0.0)
    with mpmath.workdps(40):
        covered, goal = 1 - mpmath.mpf(epsilon), -mpmath.log(delta) / tasks
        if result == math.inf:
            assert divergence(mpmath.mpf(1), covered) < goal * (1 + mpmath.mpf(10) ** -12)
            return
        assert 0 < result < epsilon
        assert divergence(covered + result, covered) >= goal * (1 - mpmath.mpf(10) ** -9)
        assert divergence(covered + result * (1 - mpmath.mpf(10) ** -9), covered) < goal


def width(epsilon: float, level: float, n: int) -> float:
    """Return the width of the Clopper-Pearson interval, at least what the proof requires."""
    covered = n - math.floor(epsilon * n)
    low = stats.beta.ppf(level / 2, covered, n - covered + 1) if covered else 0.0
    high = stats.beta.isf(level / 2, covered + 1, n - covered) if covered < n else 1.0
    assert high - low <= 2 * math.sqrt(math.log(2 / level) / (2 * n)) * (1 + 1e-9)  # DKW is wider
    return max(float(high - low), 1 / math.sqrt(n))


@settings(max_examples=40)
@given(epsilon=rates, delta=deltas, sizes=sizes_of_tasks)
def test_over_examples_is_the_best_division(epsilon: float, delta: float, sizes: list[int]) -> None:
    result, split = correct("examples", epsilon, delta, sizes)
    tried = {}
    for twentieth in range(1, 20):
        across, within = delta * (1 - twentieth / 20), delta * twentieth / 20
        squares = [width(epsilon, within / len(sizes), n) ** 2 for n in sizes]
        tried[math.sqrt(sum(squares) * math.log(1 / across) / 2) / len(sizes)] = across, within
    assert result == pytest.approx(min(tried), rel=1e-9)
    assert split == pytest.approx(min(tried.items())[1], rel=0.2)  # flat around the best
    assert sum(split) == pytest.approx(delta)
    # The proof: Hoeffding's inequality on all examples, each of weight 1 / (N n_i).
    assert result >= math.sqrt(sum(1 / n for n in sizes) * math.log(1 / delta) / 2) / len(sizes)


def chance_to_reach(n: Any, p: float, need: Any) -> Any:
    return stats.binom.sf(np.ceil(need - 1e-9) - 1, n, p)


@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-5])
def test_the_hardest_tasks_rarely_violate_the_guarantee(delta: float) -> None:
    # Each task covers all of its examples or none, all with probability just below 1 - epsilon.
    # The guarantee fails if enough tasks are covered: a binomial tail.
    tasks = np.unique(np.geomspace(1, 1500, 150).astype(int))
    for epsilon in (0.05, 0.1, 0.2, 0.5):
        amounts = np.array([correct("tasks", epsilon, delta, [1] * n).amount for n in tasks])
        chance = chance_to_reach(tasks, 1 - epsilon, (tasks + 1) * (1 - epsilon + amounts))
        assert delta / 40 < chance.max() <= delta  # no more than a polynomial in N is lost
        careless = chance_to_reach(tasks, 1 - epsilon, (tasks + 1) * (1 - epsilon))
        assert careless.max() > min(delta, 0.3)
    # Identical tasks, whose coverage (N + 1) / N (1 - epsilon) is just not enough.
    epsilon, sizes = 0.3, np.unique(np.geomspace(1, 300, 40).astype(int))
    for count in (5, 50, 500):
        amounts = np.array([correct("examples", epsilon, delta, [n] * count).amount for n in sizes])
        coverage = (count + 1) / count * (1 - epsilon)
        needs = sizes * (count + 1) * (1 - epsilon + amounts)
        assert chance_to_reach(sizes * count, coverage, needs).max() <= delta
        careless = chance_to_reach(sizes * count, coverage, sizes * (count + 1) * (1 - epsilon))
        assert careless.max() > min(delta, 0.3)


# Halves and quarters, which the reference represents exactly as fractions.
dyadic = st.sampled_from([-math.inf, -1.0, -0.25, 0.0, 0.5, 0.75, 1.0, math.inf])


def slow_lambda(
    method: MetaCP, examples: list[tuple[int, float]], quantiles: dict[int, float]
) -> float:
    """Try all candidates; add up the covered fractions of each exactly."""
    by_task: dict[int, list[float]] = {}
    for task, score in examples:
        by_task.setdefault(task, []).append(-score)
    sizes = [len(values) for values in by_task.values()]
    taken, _ = correct(method.over, method.epsilon, method.delta, sizes)
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
    examples=st.lists(st.tuples(st.integers(0, 6), dyadic), min_size=1, max_size=60),
    quantiles=st.lists(st.sampled_from([-3.0, -0.5, 0.0, 0.25, 2.0]), min_size=7, max_size=7),
    epsilon=st.sampled_from([0.3, 0.6, 0.95]),
    delta=st.sampled_from([0.9, 0.5, 1e-5]),
    over=st.sampled_from(OVER),
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


def test_rounding_never_helps() -> None:
    # In floating point 2 (1 - 0.85) is more than 0.3, which three of ten do not reach.
    ten = -np.arange(1.0, 11), ["a"] * 10, [0.0]
    assert 2 * (1 - 0.85) == 0.1 + 0.2 > 0.3
    with mock.patch.object(meta_cp, "find_correction", nothing_taken_off):
        assert MetaCP(epsilon=0.85, delta=0.1).calibrate(*ten).lambda_ == 4
        assert MetaCP(epsilon=0.855, delta=0.1).calibrate(*ten).lambda_ == 3


def many(tasks: int = 60, examples: int = 20, rng: int = 0) -> tuple[Array, Array]:
    scores = np.random.default_rng(rng).normal(size=tasks * examples)
    return scores, np.repeat(np.arange(tasks), examples)


@given(
    scores=st.lists(st.floats(allow_nan=False, width=32), min_size=12, max_size=12),
    quantiles=st.lists(st.floats(-1e30, 1e30), min_size=12, max_size=12),
    narrow=st.booleans(),
)
def test_no_covered_example_is_lost(
    scores: list[float], quantiles: list[float], narrow: bool
) -> None:
    array = np.array(scores, dtype=np.float32 if narrow else np.float64)
    method = MetaCP(epsilon=0.5, delta=0.5).calibrate(array, range(12), quantiles)
    for values in (array, array.astype(np.float64)):
        pairs = zip(values, quantiles, strict=True)
        covered = sum(int(method.predict_set(score, quantile)[0]) for score, quantile in pairs)
        assert covered / 13 >= 0.5 + method.correction_


@pytest.mark.parametrize(("over", "needed"), [("tasks", 145), ("examples", 341)])
def test_an_infeasible_guarantee_says_what_would_work(over: str, needed: int) -> None:
    method = MetaCP(epsilon=0.1, delta=1e-5, over=over)
    with pytest.raises(InfeasibleGuarantee, match=f"takes {needed} tasks.* 60 tasks") as caught:
        method.calibrate(*many(), np.zeros(60))
    assert ("at least 20 examples" in str(caught.value)) is (over == "examples")
    words = str(caught.value).replace(";", "").split("Options:")[1].split()
    for name in ("epsilon", "delta"):
        value = float(next(w for w in words if w.startswith(name)).removeprefix(f"{name}="))
        clone(method).set_params(**{name: value}).calibrate(*many(), np.zeros(60))
    method.calibrate(*many(needed), np.zeros(needed))
    with pytest.raises(InfeasibleGuarantee):
        method.calibrate(*many(needed - 1), np.zeros(needed - 1))
    trivial = method.set_params(on_infeasible="trivial").calibrate(*many(), np.zeros(60))
    assert trivial.predict_set([-math.inf, 0.0], 0.0).all()
    assert_refused("1e-20 10**9", MetaCP(epsilon=1e-20, delta=0.1).calibrate, [0.5], ["a"], [0])


def test_bad_input_is_refused() -> None:
    cases: list[tuple[dict[str, Any], Any, str]] = [
        ({}, ([0.1, math.nan], "ab", [0, 0]), "scores NaN 'b'"),
        ({}, ([0.1], "ab", [0, 0]), "scores tasks 1 2"),
        ({}, ([0.1, 0.2], "ab", [0.5]), "quantiles (1,)"),
        ({}, ([0.1, 0.2], "ab", [0.5, math.inf]), "quantiles inf"),
        ({}, ([0.1, 0.2], "ab", {"a": 1, "b": 2, "c": 3}), "quantiles 'c'"),
        ({}, ([0.1, 0.2], "ab", {"a": 1}), "quantiles 'b'"),
        ({}, ([0.1], "a", ["x"]), "quantiles"),
        ({}, ([], "", []), "scores empty"),
        ({"epsilon": 1.0}, ([0.1], "a", [0]), "epsilon"),
        ({"delta": "no"}, ([0.1], "a", [0]), "delta"),
        ({"over": "all"}, ([0.1], "a", [0]), "over"),
        ({"on_infeasible": 1}, ([0.1], "a", [0]), "on_infeasible"),
    ]
    for changes, (scores, tasks, quantiles), words in cases:
        method = MetaCP(**{"epsilon": 0.1, "delta": 0.1} | changes)
        assert_refused(words, method.calibrate, scores, list(tasks), quantiles)
    method = MetaCP(epsilon=0.2, delta=0.1).calibrate(*many(), np.zeros(60))
    for bad in (math.nan, math.inf, [1.0, 2.0]):
        assert_refused("quantile", method.predict_set, [0.5], bad)
    assert_refused("scores NaN", method.predict_set, [math.nan], 0.0)
    with pytest.raises(TypeError, match="confidence_level"):
        MetaCP(confidence_level=0.9, delta=0.1)  # type: ignore[call-arg]


def test_it_is_an_estimator_that_can_be_saved(tmp_path: Path) -> None:
    method = MetaCP(epsilon=0.2, delta=0.1, over="examples")
    assert repr(method) == "MetaCP(epsilon=0.2, delta=0.1, over='examples', on_infeasible='raise')"
    with pytest.raises(NotCalibrated):
        method.threshold(0.0)
    scores, tasks = many()
    method.calibrate(scores.astype(np.float32), tasks, np.linspace(-1, 1, 60))
    method.save(tmp_path / "promise.json")
    after = load(tmp_path / "promise.json")
    assert isinstance(after, MetaCP)
    assert (str(after), after.get_params()) == (str(method), method.get_params())
    assert (after.threshold(0.3), after.precision_) == (method.threshold(0.3), np.dtype(np.float32))
    assert (after.correction_, after.split_) == (method.correction_, method.split_)
    np.testing.assert_array_equal(after.quantiles_, method.quantiles_)
    method.set_params(delta=0.2)
    with pytest.raises(NotCalibrated):
        method.predict_set([0.5], 0.0)
    (tmp_path / "scores.csv").write_text("p_cat,p_dog\n0.2,0.8\n")
    result = metapac("predict", tmp_path / "promise.json", tmp_path / "scores.csv")
    assert (result.exit_code, "MetaCP" in result.output) == (2, True)


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
    # Negative controls: quantiles predicted in another way than calibrated; no correction.
    assert too_many(count(methods, lambda method: average_error(method, shift=0.4)), DRAWS, DELTA)
    with mock.patch.object(meta_cp, "find_correction", nothing_taken_off):
        assert too_many(count(methods_over_tasks(rng=0), average_error), DRAWS, DELTA)


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


def test_over_examples_the_guarantee_holds_for_any_tasks_but_not_over_tasks() -> None:
    assert not too_many(broken_over_examples(200, rng=0), 200, DELTA)
    with mock.patch.object(meta_cp, "find_correction", nothing_taken_off):
        assert too_many(broken_over_examples(200, rng=0), 200, DELTA)
    # A task is right on all of its examples or on none. Though fewer than 90% of all tasks are,
    # 183 or more of 200 are far more often than delta, and then lambda covers those alone.
    scores = np.repeat([1.0, 0.0], [183 * 1000, 17 * 1000])
    data = scores, np.repeat(np.arange(200), 1000), np.zeros(200)
    assert MetaCP(epsilon=0.1, delta=0.01, over="examples").calibrate(*data).lambda_ == -1.0
    assert stats.binom.sf(182, 200, 0.9 - 1e-9) > 0.1
    assert str(MetaCP(epsilon=0.1, delta=0.01).calibrate(*data).lambda_) == "0.0"


def task_of(support_y: list[int], classes: int = 4) -> Task:
    x = np.random.default_rng(0).normal(size=(len(support_y), 6)).astype(np.float32)
    return Task.from_arrays(x, support_y, x[:1] + 1, [0], name="task", classes=classes)


def leave_one_out(learner: ProtoNet, task: Task) -> Any:
    """Return the score of each support example's label after adapting to the other examples."""
    scores = np.zeros(len(task.support))
    for i, label in enumerate(task.support_y.tolist()):
        others = np.arange(len(task.support)) != i
        if label in task.support_y[others]:
            scorer = learner.adapt(task.support_x[others], task.support_y[others], classes=4)
            scores[i] = scorer.predict_proba(task.support_x[i : i + 1])[0, label]
    return scores


def test_each_support_example_is_scored_by_the_others_alone() -> None:
    torch.manual_seed(0)
    learner = ProtoNet(torch.nn.Linear(6, 4))
    for labels in ([0, 0, 1, 1, 2, 2], [3, 3, 3, 1, 1, 2], [0, 0, 0], [1], [0, 1, 2, 3]):
        task = task_of(labels)
        result = leave_one_out(learner, task)
        np.testing.assert_allclose(learner.bank(task.x).leave_one_out([task])[0], result, atol=1e-5)
        assert ((result == 0) == [labels.count(label) == 1 for label in labels]).all()


@given(
    scores=st.lists(st.sampled_from([-math.inf, 0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=40),
    epsilon=st.sampled_from([0.05, 0.1, 0.25, 0.3, 0.5, 0.9]),
)
def test_targets_are_quantiles(scores: list[float], epsilon: float) -> None:
    predictor = QuantilePredictor(epsilon=epsilon)
    result = predictor.targets([*scores, 0.5], ["b"] * len(scores) + ["a"])
    enough = [
        value
        for value in sorted(-score for score in scores)
        if Fraction(sum(-s <= value for s in scores), len(scores)) >= 1 - Fraction(str(epsilon))
    ]
    assert result.tolist() == [enough[0], -0.5]
    # In floating point, 10 (1 - 0.7) is more than 3.
    tens = QuantilePredictor(epsilon=0.7).targets(-np.arange(10.0), ["a"] * 10)
    assert tens.tolist() == [2]


def made_up(tasks: int, rng: int, support: int = 25) -> tuple[Any, Any]:
    """Tasks of different difficulty: nonconformity minus Beta(a, 1), whose quantiles are known."""
    generator = np.random.default_rng(rng)
    ease = np.exp(generator.normal(1.5, 0.6, tasks))
    supports = -generator.beta(ease[:, None], 1.0, (tasks, support))
    return supports, -(0.1 ** (1 / ease))  # P(-score <= q) = 1 - (-q)^a = 0.9


def test_a_predictor_learns_how_hard_a_task_is() -> None:
    predictor = QuantilePredictor(epsilon=0.1, rng=0).fit(*made_up(400, rng=1), epochs=10)
    supports, quantiles = made_up(1000, rng=2)
    error = np.mean((predictor.predict(supports) - quantiles) ** 2)
    assert error < 0.25 * quantiles.var()  # a constant has an error of the whole variance


def test_a_prediction_depends_on_the_set_and_the_seed_alone() -> None:
    supports, quantiles = made_up(64, rng=3)

    def fitted(rng: Any) -> QuantilePredictor:
        return QuantilePredictor(epsilon=0.1, rng=rng).fit(supports, quantiles, epochs=2)

    predictor, threads = fitted(7), torch.get_num_threads()
    first = predictor.predict(supports)
    assert np.ptp(first) > 0
    for sets in (supports[:, ::-1], np.tile(supports, 2)):
        np.testing.assert_allclose(predictor.predict(sets), first, rtol=1e-12)
    alone = np.concatenate([predictor.predict(row[None]) for row in supports])
    np.testing.assert_allclose(alone, first, rtol=1e-12)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    for rng in (7, np.random.default_rng(7)):
        np.testing.assert_array_equal(fitted(rng).predict(supports), first)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert not np.array_equal(fitted(8).predict(supports), first)
    predictor.fit(supports[:9], quantiles[:9], epochs=1).fit(supports, quantiles, epochs=2)
    np.testing.assert_array_equal(predictor.predict(supports), first)
    predictor.fit(1000 * supports + 5, 1000 * quantiles - 3, epochs=2)  # units do not matter
    np.testing.assert_allclose(predictor.predict(1000 * supports + 5), 1000 * first - 3, rtol=1e-6)
    predictor.fit(np.full((5, 3), 0.5), np.full(5, -0.25), epochs=50, lr=0.01)
    np.testing.assert_allclose(predictor.predict(np.full((1, 3), 0.5)), -0.25, atol=0.05)


def test_bad_input_of_a_predictor_is_refused() -> None:
    cases: list[tuple[Any, Any, str]] = [
        ([0.5, 0.5], [0.1], "supports (2,)"),
        (np.empty((0, 3)), [], "supports row"),
        ([[0.5, math.inf]], [0.1], "supports inf"),
        ([[0.5]], [math.nan], "quantiles nan"),
    ]
    predictor = QuantilePredictor(epsilon=0.1, rng=0)
    for supports, quantiles, words in cases:
        assert_refused(words, predictor.fit, supports, quantiles)
    assert_refused("not trained", predictor.predict, [[0.5]])
    assert_refused("scores NaN", predictor.targets, [math.nan], ["a"])
    assert_refused("epsilon", QuantilePredictor, epsilon=2)
