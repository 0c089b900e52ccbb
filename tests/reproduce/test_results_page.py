"""What the results page would say of other results than the stored ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.results_page import (
    neighbours,
    opening,
    rare_class,
    research_code,
    sampling_noise,
    sections,
)
from experiments.results_page.splits import EVEN, JOINT, TIGHT
from experiments.results_page.stored import Result, find_tasks
from metapac.fewshot.reproduce.experiments import EXPERIMENTS, GRID_NAME, STEP, all_methods
from metapac.fewshot.study.methods import PROMISES
from metapac.fewshot.study.rows import Rows
from tests.helpers.studies import method_rows

LOW, HIGH = 0.05, 0.3  # errors, with epsilon 0.1
NBSP = "\N{NO-BREAK SPACE}"
CONV4, STRONG, FEWREL = "miniimagenet", "miniimagenet-conv4-strong", "fewrel"
Change = Callable[[str, float], dict[str, Any]]  # of the rows of a method at a delta


def make_rows(key: tuple[str, float], seed: int, change: Change) -> Rows:
    """Rows of 4 draws of 20 tasks, all with one error, size and threshold."""
    values = {"error": LOW, "size": 2.0 + seed / 100, "threshold": 0.4, "feasible": True}
    values |= change(*key)
    rows = method_rows(
        np.full((4, 20), values["error"]),
        np.full((4, 20), values["size"]),
        method=key[0],
        delta=key[1],
        feasible=bool(values["feasible"]),
        examples=500,
    )
    return replace(rows, threshold=np.full(len(rows), values["threshold"]))


def unchanged(method: str, delta: float) -> dict[str, Any]:
    return {}


def make_result(name: str = CONV4, change: Change = unchanged, seeds: int = 3) -> Result:
    g = EXPERIMENTS[name].guarantee
    keys = [(each.name, each.guarantee.failure_probability) for each in all_methods(g)]
    pools = {"test": [18, 1000], "calibration": [40, 1000]}
    facts = {"accuracy": 0.7, "pools": pools, "epochs": 9, "best_epoch": 5}
    return Result(
        g,
        [{"draws": 4}] * seeds,
        [{key: make_rows(key, seed, change) for key in keys} for seed in range(seeds)],
        experiment=EXPERIMENTS[name],
        learners=[{**facts, "rng": seed} for seed in range(seeds)],
        controls={},
    )


def errors(by_method: dict[str, float]) -> Change:
    return lambda method, delta: {"error": by_method[method]} if method in by_method else {}


def lacks_data(*names: str) -> Change:
    return lambda method, delta: {"feasible": method not in names}


def set_above(result: Result, method: str, counts: tuple[int, ...]) -> Result:
    """Lift the error of some of the 20 tasks of a draw above epsilon, in each seed."""
    for methods, count in zip(result.by_seed, counts, strict=True):
        rows = methods[method, result.delta]
        error = np.where(rows.task < count, HIGH, LOW)
        methods[method, result.delta] = replace(rows, error=error)
    return result


# Verdicts


def test_exceptions_are_named_where_they_are_counted() -> None:
    results = [make_result(change=errors({TIGHT: HIGH})), make_result(FEWREL, lacks_data(EVEN))]
    text = opening._state_meta_ps(results)
    assert "were within epsilon in all 2 experiments**, at 95% confidence. With the" in text
    assert "in all 1 with enough data (too few data: *FewRel, CNN sentence encoder*)" in text
    assert "tight split in 1 of 2 (violated: *mini-ImageNet, Conv4*, 0.0% within)" in text
    zero = make_result("heart", lambda name, _: {"threshold": 0.0} if name == EVEN else {})
    every = "(every label kept in 12 of 12 draws of *CDC Heart, MLP*)"
    assert every in opening._state_meta_ps([zero])
    claims = sections.claims_section([zero, make_result(STRONG)])
    assert claims.count("Meta-PS even keeps every label in 12 of 12 draws") == 2
    assert "In 12 of 12 draws the threshold of Meta-PS even is zero" in (
        sections.experiment_section(zero)
    )
    many = [make_result(name, errors({"Meta-CP": HIGH})) for name in (CONV4, FEWREL, "heart")]
    assert "by **PS** in none of 3 (observed within: 3) and by **Meta-CP** in all 3." in (
        opening._state_baselines(many)
    )


def test_why_the_default_is_not_said_to_hold() -> None:
    cases: list[tuple[tuple[int, ...] | None, str]] = [  # tasks of 20 above epsilon, by seed
        ((0, 0, 0), ""),
        ((0, 1, 3), ", 93.3% were, but 3 seeds are too few to be sure"),
        ((0, 1, 8), ", only 85.0% were, but 3 seeds are too few to be sure"),
        ((20, 20, 20), ", only 0.0% were, which is a violation"),
        (None, ", there were too few data"),
    ]
    for above, words in cases:
        result = make_result(change=lacks_data(JOINT) if above is None else unchanged)
        if above is not None:
            set_above(result, JOINT, above)
        expected = f"; in *mini-ImageNet, Conv4*{words}" if words else ""
        text = opening._state_meta_ps([result])
        assert f"confidence{expected}. With the paper's" in text


def test_a_section_tells_a_violation_from_chance_and_from_too_few_data() -> None:
    unsure = sections.experiment_section(set_above(make_result(), TIGHT, (0, 1, 3)))
    assert "so that we cannot tell yet: Meta-PS tight (93.3% within)." in unsure
    assert "violate" not in unsure
    broken = sections.experiment_section(make_result(change=errors({TIGHT: HIGH})))
    assert "**Meta-PS tight violates its guarantee on these test tasks**" in broken
    assert "cannot tell yet" not in broken
    few = sections.experiment_section(make_result(change=lacks_data(EVEN)))
    row = next(line for line in few.splitlines() if line.startswith(f"| {EVEN} |"))
    assert row.startswith(f"| {EVEN} | 2.01 † | 0.050 |")
    assert row.endswith("| too few data |")
    assert "cannot tell" not in few
    assert "violate" not in few


def test_the_rule_of_a_violation_is_that_of_the_verdicts() -> None:
    """The share that the page prints is the one beyond which a verdict is *violated*."""
    text = opening._how_to_read([make_result()])
    assert "must exceed alpha + 0.05 (1 - alpha) = 14.5%." in text
    assert "interval of *tasks within* is at least 1 - alpha = 90%." in text
    for above, verdict in ((17, "cannot tell yet"), (25, "violated")):
        result = make_result()  # of 120 tasks in a draw: 14.2% and 20.8%, more or less by seed
        for methods, more in zip(result.by_seed, (-5, 0, 5), strict=True):
            error = np.where(np.arange(120) < above + more, HIGH, LOW)
            rows = method_rows([error] * 4, examples=500, delta=result.delta)
            methods["PS", result.delta] = rows
        (cell,) = (c for c in sampling_noise._cells(result, "PS") if "%" in c)
        low = float(cell.split("[")[1].split(",")[0]) / 100
        assert low > result.guarantee.alpha  # which is not enough
        assert (result.line("PS").verdict, low > 0.145) == (verdict, verdict == "violated")


def test_tasks_on_which_a_rare_class_is_missed_are_named() -> None:
    result = make_result("heart")
    for learner in result.learners:
        learner.update(tasks_with_both_labels=0.4, auroc_both_labels=0.7)
    for methods in result.by_seed:  # of 20 tasks, 3 have both labels in the support, 2 in all sets
        oracle, joint = (methods[name, result.delta] for name in ("oracle", JOINT))
        threshold = np.where(oracle.task < 3, 0.5, 1.0)
        methods["oracle", result.delta] = replace(oracle, threshold=threshold)
        methods[JOINT, result.delta] = replace(joint, size=np.where(joint.task >= 18, 2.0, 1.0))
    assert "(75.0% in *CDC Heart, MLP*) every set has one label" in (
        rare_class.find([result, make_result()])
    )
    assert "On 75.0% of the new tasks every set of Meta-PS joint has one label." in (
        sections.experiment_section(result)
    )
    broken = make_result("heart", errors({JOINT: HIGH}))
    broken.learners = result.learners
    assert rare_class.find([make_result()]) == rare_class.find([broken]) == ""


# Tasks that draws share


def bank_result(above: int) -> Result:
    """Two seeds whose draws all have the same 20 tasks, of which some are above epsilon."""
    result = set_above(make_result("cifar10c", seeds=2), "PS", (above, above))
    for methods in result.by_seed:
        oracle = methods["oracle", result.delta]
        methods["oracle", result.delta] = replace(oracle, threshold=oracle.task / 20)
    result.tasks = [find_tasks(methods["oracle", result.delta]) for methods in result.by_seed]
    return result


def test_a_task_of_many_draws_counts_once() -> None:
    sure, unsure = bank_result(12), bank_result(6)
    repeated = [replace(result, tasks=None).line("PS") for result in (sure, unsure)]
    assert [line.verdict for line in repeated] == ["violated", "violated"]
    # 6 of 20 tasks: mean 0.3, Student's t with 19 degrees of freedom gives a lower end of 0.08.
    lines = [result.line("PS") for result in (sure, unsure)]
    assert [line.verdict for line in lines] == ["violated", "cannot tell yet"]
    assert lines[1] == replace(repeated[1], violated=False)  # and nothing else is changed
    text = opening._how_to_read([make_result(), unsure])
    assert "In *CIFAR10-C, ResNet-50*, the draws take their" in text
    assert "from one bank" not in opening._how_to_read([make_result()])
    first = unsure.first_draws(3)
    assert (first.draws, first.seeds) == (3, 2)
    assert first.line("PS").verdict == "cannot tell yet"
    for tasks, oracle in zip(first.tasks or (), first.rows("oracle"), strict=True):
        np.testing.assert_array_equal(tasks / 20, oracle.threshold)
    assert make_result().first_draws(2).tasks is None


def test_a_verdict_on_shared_tasks_needs_every_seed() -> None:
    result = set_above(bank_result(0), JOINT, (2, 0))
    result.tasks = [np.arange(80)] * 2  # as many tasks as rows
    pooled, line = replace(result, tasks=None).line(JOINT), result.line(JOINT)
    assert (pooled.tasks_within, pooled.verdict) == (0.95, "observed within")
    assert (line.tasks_within, line.verdict) == (0.95, "cannot tell yet")
    text = sections.experiment_section(result)
    assert "Meta-PS joint (95.0% within: 90.0% and 100.0% in the seeds)." in text
    assert "each test task counts once, and each seed by itself." in text


def test_neighbours_are_counted_by_verdict() -> None:
    change = errors({"FedCP-QQ": HIGH, "HCP": HIGH, "averaged thresholds": HIGH})
    text = neighbours.find([make_result(change=change), make_result(FEWREL, change)])
    assert "violated by FedCP-QQ in 2, averaged thresholds in 2 and HCP in 2; it is met by" in text
    all_high = errors(dict.fromkeys(PROMISES, HIGH))
    assert neighbours.find([make_result(change=all_high)]).endswith("it is met by none of them.")
    edge = set_above(make_result(), "HCP", (2, 2, 2))  # 10%: as many as may be
    assert neighbours.find([edge]).endswith("and we cannot tell yet for HCP in 1.")


# Sampling noise


def noisy_rows(rates: Any, examples: int) -> Rows:
    counted = np.random.default_rng(0).binomial(examples, rates, (40, 50)) / examples
    return method_rows(counted, examples=examples)


def test_noise_is_removed_and_the_spread_of_miss_rates_is_kept() -> None:
    rows = noisy_rows(0.097, 500)
    assert np.quantile(rows.error, 0.9) > 0.11  # although no task is above epsilon
    shrunk = sampling_noise.remove_noise(rows)
    assert shrunk.mean() == pytest.approx(rows.error.mean())
    # The variance left is an error of estimation: its standard deviation is that of the variance
    # of 2000 binomial shares, 0.097 * 0.903 / 500 * sqrt(2 / 2000); five of them are allowed.
    assert shrunk.var() <= 5 * 0.097 * 0.903 / 500 * np.sqrt(2 / 2000)
    shrunk = sampling_noise.remove_noise(noisy_rows(np.where(np.arange(50) < 25, 0.05, 0.25), 20))
    assert np.sqrt(shrunk.var()) == pytest.approx(0.1, abs=0.01)
    exact = method_rows(np.full((2, 5), 0.1), examples=500)
    np.testing.assert_allclose(sampling_noise.remove_noise(exact), 0.1)


def test_an_experiment_whose_seeds_disagree_is_not_counted_as_above() -> None:
    result = make_result(change=errors({"PS": HIGH}))
    for methods, error in zip(result.by_seed, (0.209, 0.188, 0.084), strict=True):
        rows = methods["Meta-CP", result.delta]
        methods["Meta-CP", result.delta] = replace(rows, error=np.full(len(rows), error))
    assert sampling_noise.find([result]).endswith(
        "for PS in all 1 and for Meta-CP in none of 1 (not "
        f"in *mini-ImageNet, Conv4*, 0.209 [0.084,{NBSP}0.209])."
    )


# The research code


def grid_at(threshold: float, **more: Any) -> Result:
    values = {"threshold": threshold, **more}
    return make_result(change=lambda method, delta: values if method == GRID_NAME else {})


def test_thresholds_of_the_grid_are_compared_with_the_exact_ones() -> None:
    for gap, words in ((0.99 * STEP, "in all 12"), (1.01 * STEP, "**but not in all** 12")):
        found = research_code.compare(grid_at(0.4 - gap))
        assert found.largest == pytest.approx(gap)
        assert (found.draws, found.tasks, found.other_sets) == (12, 240, 0)
        assert f"{words} draws with a threshold above" in research_code.find([grid_at(0.4 - gap)])
    other = research_code.compare(grid_at(-np.inf, size=1.0))
    assert (other.other_sets, other.is_within_step) == (240, False)
    for threshold, counts in ((0.0, (3, 9, 0)), (-np.inf, (3, 0, 9))):
        result = make_result()  # a draw of each seed is found, in the others both rules keep all
        for methods in result.by_seed:
            for key in ((EVEN, result.delta), (GRID_NAME, result.delta)):
                changed = np.where(methods[key].draw == 0, 0.4, threshold)
                methods[key] = replace(methods[key], threshold=changed)
        assert research_code.compare(result)[:3] == counts
        assert "They also agree, by keeping every label, in 9 " in research_code.find([result])
    both = make_result(change=lambda method, delta: {"threshold": -np.inf})
    assert research_code.compare(both) == (0, 0, 12, 0, 0, 0)
