"""The ways to choose a threshold, side by side; a list of them is data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from metapac import evidence
from metapac.binomial import allowed_errors, threshold
from metapac.demands import least_size
from metapac.evaluation.draws import Array, Draw
from metapac.guarantee import Guarantee, InfeasibleGuarantee
from metapac.meta_cp import MetaCP
from metapac.planning import plan

SECOND_DELTA = 0.1  # of the paper's figure of error per calibration set for two deltas


class Chosen(NamedTuple):
    """The threshold on each new task, and whether the data could carry the promise at all."""

    thresholds: Array  # (tests,), -inf where they could not: every label is kept
    feasible: Array  # (tests,)


class Rule(NamedTuple):
    """How thresholds are chosen, and what that takes, in words."""

    choose: Callable[[Draw, Guarantee], Chosen]
    need: Callable[[Guarantee], str]
    quantiles: bool = False  # whether it needs predicted quantiles


@dataclass(frozen=True)
class Method:
    """A rule with the promise that it is run at, under the name that rows give it."""

    name: str
    rule: Rule
    guarantee: Guarantee

    def choose(self, draw: Draw) -> Chosen:
        return self.rule.choose(draw, self.guarantee)

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "rule": self.rule.choose.__name__, **self.guarantee.describe()}


def paper_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return the paper's four methods, our splits, the oracle, and some at a second delta."""
    even, tight, joint = (replace(guarantee, split=split) for split in ("even", "tight", "joint"))
    loose = replace(guarantee, delta=SECOND_DELTA)
    methods = (
        Method("PS", POOLED, guarantee),
        Method("PS-Test", OWN, guarantee),
        Method("Meta-CP", QUANTILES, guarantee),
        Method("Meta-PS even", PER_TASK, even),
        Method("Meta-PS tight", PER_TASK, tight),
        Method("Meta-PS joint", PER_TASK, joint),
        Method("oracle", ORACLE, guarantee),
    )
    if guarantee.delta == SECOND_DELTA:
        return methods
    return (
        *methods,
        Method("Meta-CP", QUANTILES, loose),
        Method("Meta-PS even", PER_TASK, replace(loose, split="even")),
        Method("Meta-PS tight", PER_TASK, replace(loose, split="tight")),
    )


def pooled(draw: Draw, g: Guarantee) -> Chosen:
    """PS: all calibration scores as if they were of one task."""
    epsilon, delta = g.miss_rate, g.failure_probability
    found = threshold(draw.scores, epsilon=epsilon, delta=delta)
    return _same(draw, found, allowed_errors(len(draw.scores), epsilon, delta) >= 0)


def own(draw: Draw, g: Guarantee) -> Chosen:
    """PS-Test: labelled examples of the new task itself."""
    sizes = np.array([len(test.own) for test in draw.tests])
    epsilon, delta = g.miss_rate, g.failure_probability
    cuts = [threshold(test.own, epsilon=epsilon, delta=delta) for test in draw.tests]
    return Chosen(np.array(cuts), allowed_errors(sizes, epsilon, delta) >= 0)


def per_task(draw: Draw, g: Guarantee) -> Chosen:
    """Meta-PS: a threshold for each calibration task, then one for all."""
    (part,) = evidence.of_scores(g, draw.scores, draw.tasks, None).parts(g)
    return _same(draw, part.outcome().threshold, part.demand().feasible())


def quantiles(draw: Draw, g: Guarantee) -> Chosen:
    """Meta-CP: a predicted quantile for each task, shifted by what the calibration tasks ask."""
    assert draw.quantiles is not None  # methods that need them are left out without
    carried, delta = True, g.failure_probability
    method = MetaCP(epsilon=g.miss_rate, delta=delta, over="examples")
    try:
        method.calibrate(draw.scores, draw.tasks, draw.quantiles)
    except InfeasibleGuarantee:
        carried = False
        method.set_params(on_infeasible="trivial")
        method.calibrate(draw.scores, draw.tasks, draw.quantiles)
    predicted = [test.quantile for test in draw.tests if test.quantile is not None]
    cuts = [method.threshold(quantile) for quantile in predicted]
    return Chosen(np.array(cuts), np.full(len(cuts), carried))


def oracle(draw: Draw, g: Guarantee) -> Chosen:
    """No method but a floor for size: the largest threshold that is right on the very task."""
    cuts = [test.largest_threshold(g.miss_rate) for test in draw.tests]
    return Chosen(np.array(cuts), np.ones(len(cuts), dtype=bool))


def _same(draw: Draw, cut: float, carried: bool) -> Chosen:
    return Chosen(np.full(len(draw.tests), cut), np.full(len(draw.tests), carried))


def _labels(g: Guarantee) -> str:
    return f"{least_size(g.miss_rate, g.failure_probability)} labels"


def _tasks(g: Guarantee) -> str:
    needed = plan(epsilon=g.miss_rate, alpha=g.alpha, delta=g.delta, split=g.split)
    return f"{needed.tasks} tasks of {needed.examples_per_task} labels"


def _more(g: Guarantee) -> str:
    return "more tasks or labels"


def _nothing(g: Guarantee) -> str:
    return "nothing"


POOLED = Rule(pooled, _labels)
OWN = Rule(own, _labels)
PER_TASK = Rule(per_task, _tasks)
QUANTILES = Rule(quantiles, _more, quantiles=True)
ORACLE = Rule(oracle, _nothing)
