"""What the results page would say of other results than the stored ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from experiments.results_page import sampling_noise, sections
from experiments.results_page.splits import JOINT
from experiments.results_page.stored import Result, find_tasks
from metapac.fewshot.reproduce.experiments import EXPERIMENTS, all_methods
from metapac.fewshot.study.rows import Rows
from tests.helpers.studies import method_rows

LOW, HIGH = 0.05, 0.3  # errors, with epsilon 0.1


def make_rows(key: tuple[str, float], seed: int) -> Rows:
    """Rows of 4 draws of 20 tasks, all with one error, size and threshold."""
    sizes = np.full((4, 20), 2.0 + seed / 100)
    rows = method_rows(np.full((4, 20), LOW), sizes, method=key[0], delta=key[1], examples=500)
    return replace(rows, threshold=np.full(len(rows), 0.4))


def make_result(name: str = "miniimagenet", seeds: int = 3) -> Result:
    g = EXPERIMENTS[name].guarantee
    keys = [(each.name, each.guarantee.failure_probability) for each in all_methods(g)]
    pools = {"test": [18, 1000], "calibration": [40, 1000]}
    facts = {"accuracy": 0.7, "pools": pools, "epochs": 9, "best_epoch": 5}
    return Result(
        g,
        [{"draws": 4}] * seeds,
        [{key: make_rows(key, seed) for key in keys} for seed in range(seeds)],
        experiment=EXPERIMENTS[name],
        learners=[{**facts, "rng": seed} for seed in range(seeds)],
        controls={},
    )


# Tasks that draws share


def bank_result(method: str, *above: int) -> Result:
    """Two seeds whose draws all have the same 20 tasks, of which some are above epsilon."""
    result = make_result("cifar10c", seeds=2)
    for methods, count in zip(result.by_seed, above, strict=True):
        rows, oracle = methods[method, result.delta], methods["oracle", result.delta]
        methods[method, result.delta] = replace(rows, error=np.where(rows.task < count, HIGH, LOW))
        methods["oracle", result.delta] = replace(oracle, threshold=oracle.task / 20)
    result.tasks = [find_tasks(methods["oracle", result.delta]) for methods in result.by_seed]
    return result


def test_a_task_of_many_draws_counts_once() -> None:
    sure, unsure = bank_result("PS", 12, 12), bank_result("PS", 6, 6)
    repeated = [replace(result, tasks=None).line("PS") for result in (sure, unsure)]
    assert [line.verdict for line in repeated] == ["violated", "violated"]
    # 6 of 20 tasks: mean 0.3, Student's t with 19 degrees of freedom gives a lower end of 0.08.
    lines = [result.line("PS") for result in (sure, unsure)]
    assert [line.verdict for line in lines] == ["violated", "cannot tell yet"]
    assert lines[1] == replace(repeated[1], violated=False)  # and nothing else is changed
    first = unsure.first_draws(3)
    assert (first.draws, first.seeds) == (3, 2)
    assert first.line("PS").verdict == "cannot tell yet"
    for tasks, oracle in zip(first.tasks or (), first.rows("oracle"), strict=True):
        np.testing.assert_array_equal(tasks / 20, oracle.threshold)
    assert make_result().first_draws(2).tasks is None


def test_a_verdict_on_shared_tasks_needs_every_seed() -> None:
    result = bank_result(JOINT, 2, 0)
    result.tasks = [np.arange(80)] * 2  # as many tasks as rows
    pooled, line = replace(result, tasks=None).line(JOINT), result.line(JOINT)
    assert (pooled.tasks_within, pooled.verdict) == (0.95, "observed within")
    assert (line.tasks_within, line.verdict) == (0.95, "cannot tell yet")
    text = sections.experiment_section(result)
    assert "Meta-PS joint (95.0% within: 90.0% and 100.0% in the seeds)." in text


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
