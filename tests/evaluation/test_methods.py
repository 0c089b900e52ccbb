"""Every method against a slow reference on small draws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from metapac import Guarantee
from metapac.fewshot import MetaCP, Method, paper_methods
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.methods import META_PS, PS, PS_TEST, describe_need
from metapac.fewshot.study.rows import evaluate_draw
from metapac.guarantee import JOINT_LEVELS
from metapac.ranks import Level, joint_ranks
from tests.helpers import oracles
from tests.helpers.studies import GUARANTEE, SmallStudy, scored_task

PAPERS = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
TIGHT, EVEN = (replace(PAPERS, split=split) for split in ("tight", "even"))


NAMES = ("PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")


AGAIN = ("Meta-CP", "Meta-PS even", "Meta-PS tight")


def levels(name: str, g: Guarantee, tasks: int) -> tuple[list[float], list[int]]:
    """The levels within tasks of the paper's split and ours, and the ranks across tasks."""
    delta = g.failure_probability
    if name == "Meta-PS even":
        return [g.alpha / 2], [oracles.allowed_errors(tasks, g.alpha / 2, delta)]
    if name == "Meta-PS tight":
        across = g.alpha * (1 - g.alpha / 2)
        return [g.alpha / 2], [oracles.allowed_errors(tasks, across, delta)]
    shares = tuple(Level(x, g.alpha * (1 - x)) for x in JOINT_LEVELS)
    return list(JOINT_LEVELS), list(joint_ranks(tasks, shares, delta))


def expected(name: str, g: Guarantee, draw: Draw) -> list[float]:
    """The threshold on each new task, by the slow references."""
    scores, tasks, tests = draw.scores.tolist(), draw.tasks.tolist(), draw.tests
    epsilon, delta = g.miss_rate, g.failure_probability
    if name == "PS":
        return [oracles.threshold(scores, epsilon, delta)] * len(tests)
    if name == "PS-Test":
        return [oracles.threshold(test.labelled_scores.tolist(), epsilon, delta) for test in tests]
    if name == "oracle":
        cuts = [sorted(test.true_scores.tolist()) for test in tests]  # type: ignore[attr-defined]
        return [
            max(cut for cut in row if sum(x < cut for x in row) <= epsilon * len(row))
            for row in cuts
        ]
    if name == "Meta-CP":
        assert draw.quantiles is not None
        guesses = dict(enumerate(draw.quantiles.tolist()))
        method = MetaCP(epsilon=epsilon, delta=delta, over="examples")
        method.calibrate(scores, tasks, guesses)
        return [method.threshold(test.quantile or 0.0) for test in tests]
    within, ranks = levels(name, g, len(set(tasks)))
    return [oracles.meta_ps(scores, tasks, g.miss_rate, within, ranks)] * len(tests)


@pytest.mark.parametrize("seed", range(3))
def test_every_method_is_what_its_name_says(seed: int) -> None:
    draw = SmallStudy().draw(np.random.default_rng(seed))
    second = 0.1
    rows = evaluate_draw(7, draw, paper_methods(GUARANTEE, second_delta=second))
    assert rows.methods() == [(n, GUARANTEE.delta) for n in NAMES] + [(n, second) for n in AGAIN]
    for name, delta in rows.methods():
        chosen = rows.select(name, delta)
        cuts = expected(name, replace(GUARANTEE, delta=delta), draw)
        assert chosen.threshold.tolist() == cuts, name
        assert np.isfinite(chosen.threshold).all()
        assert chosen.feasible.all()
        assert chosen.draw.tolist() == [7] * 4
        assert chosen.task.tolist() == [0, 1, 2, 3]
        by_test = zip(draw.tests, cuts, strict=True)
        assert chosen.error.tolist() == [float(test.error([cut])[0]) for test, cut in by_test]
        by_test = zip(draw.tests, cuts, strict=True)
        assert chosen.size.tolist() == [float(test.size([cut])[0]) for test, cut in by_test]


def test_a_guarantee_at_the_second_delta_is_not_run_twice() -> None:
    for methods in (
        paper_methods(replace(GUARANTEE, delta=0.1), second_delta=0.1),
        paper_methods(GUARANTEE),
    ):
        assert [method.name for method in methods] == list(NAMES)


def test_without_quantiles_meta_cp_is_left_out() -> None:
    draw = SmallStudy(quantiles=False).draw(np.random.default_rng(0))
    result = evaluate_draw(0, draw, paper_methods(GUARANTEE, second_delta=0.1)).methods()
    assert [name for name, _ in result] == [n for n in (*NAMES, *AGAIN) if n != "Meta-CP"]


def make_draw(tasks: int, examples: int, labelled: tuple[int, ...], **more: Any) -> Draw:
    tests = [
        scored_task(np.eye(5), np.arange(5), labelled_scores=np.ones(n), **more) for n in labelled
    ]
    names = np.repeat(np.arange(tasks), examples)
    return Draw(np.linspace(0, 1, len(names)), names, tests)


def test_a_threshold_of_zero_has_no_sign() -> None:
    draw = make_draw(2, 110, (110,))
    for test in draw.tests:
        object.__setattr__(test, "labelled_scores", np.full(110, -0.0))
    draw = replace(draw, scores=np.full(220, -0.0))
    for rule in (PS, PS_TEST):
        (cut,) = Method("any", rule, PAPERS).choose(draw).thresholds
        assert (cut, math.copysign(1, cut)) == (0, 1)


@pytest.mark.parametrize(
    ("draw", "method", "feasible"),
    [
        (make_draw(1, 109, (1,)), Method("PS", PS, PAPERS), [False]),
        (make_draw(1, 110, (1,)), Method("PS", PS, PAPERS), [True]),
        (
            make_draw(1, 1, (100, 109, 110)),
            Method("PS-Test", PS_TEST, PAPERS),
            [False, False, True],
        ),
        (make_draw(110, 44, (1,)), Method("joint", META_PS, PAPERS), [False]),
        (make_draw(111, 44, (1,)), Method("joint", META_PS, PAPERS), [True]),
        (make_draw(111, 43, (1,)), Method("joint", META_PS, PAPERS), [False]),
        (
            make_draw(115, 30, (1,)),
            Method("tight", META_PS, TIGHT),
            [False],
        ),
        (
            make_draw(116, 30, (1,)),
            Method("tight", META_PS, TIGHT),
            [True],
        ),
        (
            make_draw(116, 28, (1,)),
            Method("tight", META_PS, TIGHT),
            [False],
        ),
        (make_draw(224, 30, (1,)), Method("even", META_PS, EVEN), [False]),
        (make_draw(225, 30, (1,)), Method("even", META_PS, EVEN), [True]),
    ],
)
def test_too_few_data_keep_every_label(draw: Draw, method: Method, feasible: list[bool]) -> None:
    rows = evaluate_draw(0, draw, [method])
    assert rows.feasible.tolist() == feasible
    assert np.isfinite(rows.threshold).tolist() == feasible
    assert (rows.size[~rows.feasible] == 5).all()
    assert (rows.error[~rows.feasible] == 0).all()


def test_a_meta_cp_of_too_few_tasks_keeps_every_label() -> None:
    few = replace(SmallStudy(), tasks=2).draw(np.random.default_rng(0))
    rows = evaluate_draw(0, few, paper_methods(PAPERS)).select("Meta-CP", PAPERS.delta)
    assert not rows.feasible.any()
    assert (rows.threshold == -np.inf).all()
    assert (rows.size == 3).all()


def test_the_need_of_a_method_is_that_of_its_delta() -> None:
    guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05)
    assert describe_need(guarantee, "PS-Test", 0.05) == "29 labels"
    assert describe_need(guarantee, "PS-Test", 0.1) == "22 labels"
    assert describe_need(guarantee, "Meta-PS joint", 0.05) == "29 tasks of 44 examples"
    assert describe_need(guarantee, "mine", 0.05) is None
    # Whether levels are meant is for the caller to ask.
    assert describe_need(guarantee, "Meta-PS tight", 0.95) is not None
