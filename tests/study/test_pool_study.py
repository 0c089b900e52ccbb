"""Studies of any learner on pools, against slow loops over their tasks."""

from __future__ import annotations

import json
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.naive_bayes import GaussianNB

from metapac import Guarantee, fewshot
from metapac.fewshot import MLP, CallableLearner, ClassPool, GroupPool, PrototypeLearner, run_study
from metapac.fewshot.quantile_predictor import QuantilePredictor
from metapac.fewshot.scoring import describe_learner
from metapac.fewshot.study import pool_study
from metapac.fewshot.study.draws import Draw, ScoredTask
from metapac.fewshot.study.pool_study import count_tasks, describe_pool
from tests.helpers.refusals import assert_refused
from tests.study.test_methods import expected as expected_thresholds

G = Guarantee(epsilon=0.2, alpha=0.3, delta=0.1)


def classes(first: int = 0, count: int = 8, size: int = 30, rng: int = 0) -> ClassPool:
    generator = np.random.default_rng(rng)
    y = np.repeat(np.arange(first, first + count), size)
    x = generator.normal(size=(first + count, 6))[y] + generator.normal(size=(len(y), 6))
    return ClassPool(x, y, name=f"pool {first}")


def groups(first: int = 0, count: int = 12, size: int = 40, rng: int = 0) -> GroupPool:
    generator = np.random.default_rng(rng)
    y = (generator.random(count * size) < 0.4).astype(int)
    x = generator.normal(size=(count * size, 4))
    x[:, 0] += 2 * y
    names = np.repeat([f"site {i:02d}" for i in range(first, first + count)], size)
    return GroupPool(x, y, names, classes=2)


def nearest(support_x: Any, support_y: Any, x: Any) -> Any:
    """Probabilities by the distance to the nearest support example of each class."""
    far = np.linalg.norm(np.asarray(x)[:, None] - np.asarray(support_x)[None], axis=2)
    labels = range(int(support_y.max()) + 1)
    best = [-far[:, support_y == c].min(axis=1, initial=50.0) for c in labels]
    odds = np.exp(np.stack(best, axis=1))
    return odds / odds.sum(axis=1, keepdims=True)


BOTH = classes(), classes(8, rng=1)
SITES = groups(), groups(20, rng=1)


def make(learner: Any = None, pools: Any = BOTH, **options: Any) -> fewshot.PoolStudy:
    sizes = {"ways": 3, "shots": 4, "tasks": 6, "tests": 3}
    return fewshot.PoolStudy(learner or PrototypeLearner(), *pools, **(sizes | options))


@pytest.mark.parametrize("learner", [PrototypeLearner(), CallableLearner(nearest)])
@pytest.mark.parametrize(("score", "labelled"), [(None, 2), ("margin", 2), (None, 0)])
def test_a_draw_is_what_slow_loops_score(learner: Any, score: str | None, labelled: int) -> None:
    study = make(learner, queries=7, test_queries=9, labelled=labelled, score=score)
    draw = study.draw(np.random.default_rng(5))
    seeds = np.random.default_rng(5).spawn(2)
    tasks = BOTH[0].tasks(6, ways=3, shots=4, queries=7, rng=seeds[0])
    # From embeddings, the allowance for rounding is that of probabilities instead of logits.
    expected = fewshot.score_tasks(learner, tasks, score=score)[0]
    np.testing.assert_allclose(draw.scores, expected, rtol=1e-11)
    np.testing.assert_array_equal(draw.tasks, np.repeat(np.arange(6), 21))
    assert draw.quantiles is None
    count = 9 + labelled
    new = BOTH[1].tasks(3, ways=3, shots=4, queries=count, rng=seeds[1])
    for task, scored in zip(new, draw.tests, strict=True):
        assert isinstance(scored, ScoredTask)
        table = learner.adapt(task.support_x, task.support_y, classes=3).predict_proba(task.query_x)
        if score == "margin":
            others = [np.delete(table, c, axis=1).max(axis=1) for c in range(3)]
            table = table - np.stack(others, axis=1)
        own = np.arange(3 * count) % count < labelled  # the first of each class
        np.testing.assert_allclose(scored.scores, table[~own], rtol=1e-9, atol=1e-12)
        true = table[np.arange(3 * count), task.query_y]
        np.testing.assert_allclose(scored.labelled_scores, true[own], rtol=1e-9, atol=1e-12)
        assert scored.examples == 27
        np.testing.assert_allclose(study.predict_proba(task), table, rtol=1e-9, atol=1e-12)


def slow_draw(
    study: fewshot.PoolStudy, banks: Any, predictor: Any, rng: np.random.Generator
) -> Draw:
    """Return a draw whose tasks are drawn, scored and predicted one at a time."""
    seeds, of_class = rng.spawn(2), study.labelled + study.test_queries
    shape: dict[str, Any] = {"ways": 3, "shots": 4}
    known = study.calibration.tasks(16, **shape, queries=study.queries, rng=seeds[0])
    new = study.test.tasks(3, **shape, queries=of_class, rng=seeds[1])

    def quantile(bank: Any, task: fewshot.Task) -> float:
        return float(predictor.predict(-bank.leave_one_out([task]))[0])

    tests = []
    for task in new:
        table, labels = banks[1].predict_proba(task), task.query_y
        own = np.array([i % of_class < study.labelled for i in range(len(labels))])
        true = np.array([row[label] for row, label in zip(table, labels, strict=True)])
        tests.append(ScoredTask(true[own], true[~own], table[~own], quantile(banks[1], task)))
    scores = np.concatenate([banks[0].scores([task]) for task in known])
    names = np.repeat(np.arange(16), len(scores) // 16)
    return Draw(scores, names, tests, np.array([quantile(banks[0], task) for task in known]))


@pytest.mark.parametrize("learner", [PrototypeLearner(), fewshot.ProtoNet(torch.nn.Identity())])
def test_rows_are_those_of_loops_over_tasks_and_methods(learner: Any) -> None:
    rng = np.random.default_rng(0)
    pools = [ClassPool(pool.x.astype(np.float32), pool.y) for pool in BOTH]
    predictor = QuantilePredictor(epsilon=0.2, rng=0).fit(-rng.random((9, 12)), -rng.random(9))
    study = make(learner, pools, queries=8, tasks=16, predictor=predictor)
    methods = fewshot.paper_methods(G, second_delta=0.2)
    rows = run_study(study, guarantee=G, methods=methods, draws=2, n_jobs=2)
    banks = [learner.bank(pool.x) for pool in pools]
    for number, seed in enumerate(np.random.SeedSequence(0).spawn(2)):
        draw = slow_draw(study, banks, predictor, np.random.default_rng(seed))
        of_draw = rows.take(rows.draw == number)
        assert len(of_draw.methods()) == 10
        for name, delta in of_draw.methods():
            chosen = of_draw.select(name, delta)
            cuts = expected_thresholds(name, replace(G, delta=delta), draw)
            np.testing.assert_allclose(chosen.threshold, cuts, rtol=0, atol=1e-6, err_msg=name)
            for i, (test, cut) in enumerate(zip(draw.tests, cuts, strict=True)):
                assert chosen.error[i] == pytest.approx(test.error([cut])[0], abs=1e-6)
                assert chosen.size[i] == pytest.approx(test.size([cut])[0], abs=1e-6)


class CachedBank:
    """A bank of someone's own, which remembers the last task."""

    def __init__(self, x: Any) -> None:
        self.bank = PrototypeLearner().bank(x)

    def scores(self, tasks: Any) -> Any:
        self.last = tasks[-1]
        return self.bank.scores(tasks)

    def predict_proba(self, task: fewshot.Task) -> Any:
        self.last = task
        return self.bank.predict_proba(self.last)


class CachedLearner(PrototypeLearner):
    def bank(self, x: Any) -> Any:
        return CachedBank(x)


class LockedBank(CachedBank):
    thread_safe = True


def test_embeddings_are_shared_by_threads_only_if_they_say_so() -> None:
    for learner in (PrototypeLearner(), fewshot.ProtoNet(torch.nn.Identity())):
        assert make(learner).preferred_backend == "threading"
    others = [make(CallableLearner(nearest)), make(CachedLearner()), make(score="margin")]
    assert {study.preferred_backend for study in others} == {"loky"}
    cached, locked = ([kind(pool.x) for pool in BOTH] for kind in (CachedBank, LockedBank))
    for which, backend in (((1, 1), "threading"), ((1, 0), "loky"), ((0, 1), "loky")):
        banks = tuple((cached, locked)[safe][i] for i, safe in enumerate(which))
        assert make(CachedLearner(), banks=banks).preferred_backend == backend
    one, other = (
        make(learner).draw(np.random.default_rng(0)) for learner in (None, CachedLearner())
    )
    np.testing.assert_array_equal(one.scores, other.scores)


def test_one_pool_for_both_is_embedded_once() -> None:
    class Counting(PrototypeLearner):
        def bank(self, x: Any) -> Any:
            calls.append(x)
            return super().bank(x)

    calls: list[Any] = []
    pool = BOTH[0]
    study = make(Counting(), (pool, pool))
    assert not calls  # nothing is computed before the first draw
    for seed in range(2):
        study.draw(np.random.default_rng(seed))
    assert [x is pool.x for x in calls] == [True]
    assert study.notes[-1] == "New tasks are drawn from the pool that was calibrated on."
    make(Counting(), (pool, pool), banks=(PrototypeLearner().bank(pool.x),) * 2).prepare()
    make(Counting(), score="margin").prepare()
    assert len(calls) == 1


def test_groups_are_tasks_drawn_with_replacement() -> None:
    with pytest.warns(UserWarning, match="300 calibration tasks from 12 groups: a group is in 25"):
        study = make(pools=SITES, tasks=300, tests=20, test_queries=9)
    tasks, tests = study.sample(np.random.default_rng(0))
    assert {str(task.name).split("#")[0] for task in tasks} == {*SITES[0].names}
    assert {len(task.query) for task in tasks} == {36}  # all the rest of a group
    assert all(str(task.name)[5] in "23" for task in tests)
    assert {len(task.query) for task in tests} == {9 + 20}
    draw = study.draw(np.random.default_rng(0))
    assert [len(test.labelled_scores) for test in draw.tests] == [20] * 20


def test_tasks_of_unequal_size_keep_their_scores() -> None:
    pool = SITES[0]
    kept = np.sort(np.random.default_rng(0).permutation(len(pool.y))[:300])
    unequal = GroupPool(pool.x[kept], pool.y[kept], pool.groups[kept], classes=2)
    study = make(pools=(unequal, SITES[1]), tasks=9, test_queries=9)
    draw = study.draw(np.random.default_rng(3))
    tasks, _ = study.sample(np.random.default_rng(3))
    assert len({len(task.query) for task in tasks}) > 1
    for number, task in enumerate(tasks):
        own = PrototypeLearner().bank(unequal.x).scores([task])
        np.testing.assert_array_equal(draw.scores[draw.tasks == number], own)


def test_distinct_groups_are_divided_anew_and_used_once() -> None:
    pools = groups(count=7), groups(20, count=5, rng=1)
    for given, tests in ((pools, 5), ((pools[0], pools[0]), 3)):
        study = fewshot.PoolStudy(
            PrototypeLearner(), *given, shots=4, distinct=True, test_queries=5
        )
        everyone = sorted({*given[0].names, *given[1].names})
        dealt = set()
        for seed in range(5):
            known, new = study.sample(np.random.default_rng(seed))
            names = [str(task.name) for task in (*known, *new)]
            assert sorted(names) == everyone
            assert len(new) == tests
            dealt.add(frozenset(names[: len(known)]))
        assert len(dealt) == 5
    banks = tuple(PrototypeLearner().bank(pool.x) for pool in pools)
    assert_refused("banks distinct=True", make, pools=pools, distinct=True, banks=banks)


def test_groups_used_once_must_suffice() -> None:
    def named(names: str) -> GroupPool:
        return GroupPool(np.zeros((len(names), 1)), [0] * len(names), list(names))

    one, five, two = named("abcdefg"), named("abcde"), named("fg")
    counts: list[tuple[tuple[Any, Any], tuple[int, int], tuple[int, int]]] = [
        ((None, None), (4, 3), (5, 2)),
        ((3, None), (3, 4), (3, 2)),
        ((6, None), (6, 1), (6, 1)),
        ((None, 1), (6, 1), (5, 1)),
        ((None, 4), (3, 4), (3, 4)),
        ((2, 2), (2, 2), (2, 2)),
    ]
    for given, of_one, of_two in counts:
        assert count_tasks(one, one, True, *given) == of_one
        assert count_tasks(five, two, True, *given) == of_two
        assert count_tasks(five, two, False, *given) == (given[0] or 500, given[1] or 50)
    for wrong in ((7, None), (None, 7), (4, 4)):
        for pools in ((one, one), (five, two)):
            assert_refused("tasks tests 7 8", count_tasks, *pools, True, *wrong)


def test_by_default_all_examples_are_used() -> None:
    cases: list[tuple[int, dict[str, int], tuple[int, int, int]]] = [
        (30, {}, (26, 6, 20)),
        (300, {}, (296, 20, 100)),
        (30, {"test_queries": 10}, (26, 16, 10)),
        (30, {"labelled": 3}, (26, 3, 23)),
        (30, {"labelled": 0}, (26, 0, 26)),
        (7, {}, (3, 1, 2)),
        (6, {}, (2, 1, 1)),
        (5, {"labelled": 0}, (1, 0, 1)),  # nothing is left for PS-Test
        (30, {"queries": 2, "labelled": 4, "test_queries": 8}, (2, 4, 8)),
    ]
    for size, options, counts in cases:
        study = make(pools=(classes(size=size), classes(8, size=size, rng=1)), **options)
        assert (study.queries, study.labelled, study.test_queries) == counts
        study.draw(np.random.default_rng(0))


def test_ways_may_vary_and_domains_need_their_numbers() -> None:
    study = make(ways=[2, 5], tests=20)
    tests = study.draw(np.random.default_rng(0)).tests
    assert {test.labels for test in tests} == {2, 5}
    assert study.describe()["ways"] == [2, 5]
    pool = fewshot.DomainPool(BOTH[0].x, BOTH[0].y, BOTH[0].y // 4)
    assert_refused("test_queries labelled", make, pools=(pool, pool))
    assert_refused("queries", make, pools=(pool, pool), test_queries=5, labelled=2)
    study = make(pools=(pool, pool), queries=9, test_queries=5, labelled=2)
    assert len(study.draw(np.random.default_rng(0)).tests) == 3


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_study, "PREDICTOR_TASKS", 12)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("score", [None, "margin"])
def test_meta_cp_is_assembled_from_a_pool(score: str | None) -> None:
    learner, third, calls = PrototypeLearner(), classes(16, rng=2), []
    study = make(learner, predictor=third, epsilon=0.2, score=score)
    assert study.notes == ()
    tasks, tests = study.sample(np.random.default_rng(0))
    own = list(third.tasks(12, ways=3, shots=4, queries=study.test_queries, rng=0))
    bank, slow = learner.bank(third.x), QuantilePredictor(epsilon=0.2, rng=0)
    ids = np.repeat(np.arange(12), 3 * study.test_queries)
    truth = bank.scores(own) if score is None else fewshot.score_tasks(learner, own, score=score)[0]
    slow.fit(-bank.leave_one_out(own), slow.targets(truth, ids))
    known, new = learner.bank(study.calibration.x), learner.bank(study.test.x)
    for _ in range(2):
        rows = run_study(study, guarantee=G, draws=1, progress=lambda s, *_: calls.append(s))
    assert "Meta-CP" in rows.method
    draw = study.draw(np.random.default_rng(0))
    np.testing.assert_array_equal(draw.quantiles, slow.predict(-known.leave_one_out(tasks)))
    predicted = slow.predict(-new.leave_one_out(tests)).tolist()
    assert [test.quantile for test in draw.tests] == predicted
    stages = ["embedding the pools", "training Meta-CP's quantile predictor", "draws", "draws"]
    assert calls == stages  # each is named once
    # A predictor that is fitted already is used as it is.
    fitted = make(predictor=slow, score=score).draw(np.random.default_rng(0))
    np.testing.assert_array_equal(fitted.quantiles, draw.quantiles)


def test_meta_cp_is_not_judged_at_another_epsilon_than_it_is_trained_for() -> None:
    fitted = QuantilePredictor(epsilon=0.3, rng=0)
    for predictor, trained in ((classes(16, rng=2), 0.1), (fitted, 0.3)):
        study = make(predictor=predictor)
        assert study.epsilon == trained
        assert_refused(f"epsilon={trained} epsilon=0.2", run_study, study, guarantee=G, draws=1)
    assert make().epsilon is None  # no Meta-CP, and any guarantee


def test_it_is_said_why_meta_cp_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    third = classes(16, count=4, size=9, rng=2)

    def check(reason: str, learner: Any = None, **options: Any) -> None:
        with pytest.warns(UserWarning, match="^Meta-CP is left out: ") as caught:
            study = make(learner, predictor=third, **options)
        assert [str(warning.message) for warning in caught] == list(study.notes)
        assert reason in study.notes[0]
        assert study.describe()["notes"] == list(study.notes)
        assert study.draw(np.random.default_rng(0)).quantiles is None

    check("this learner has no bank", CallableLearner(nearest))
    check("with one shot", shots=1)
    check("equally many support examples", ways=[2, 3])
    check("cannot be trained: ways", ways=5)
    check("the smallest, 16, has 9", shots=9)
    monkeypatch.setitem(sys.modules, "torch", None)
    check("Meta-CP needs torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "no pool was given to train" in make().notes[0]  # on purpose: no warning


def test_what_cannot_be_studied_is_refused() -> None:
    overlap = classes(4, rng=1)
    bad: list[tuple[str, dict[str, Any]]] = [
        ("calibration ClassPool(x, y) ndarray", {"pools": (np.eye(3), BOTH[1])}),
        ("calibration test ClassPool GroupPool", {"pools": (BOTH[0], SITES[0])}),
        ("calibration test", {"pools": (BOTH[0], overlap)}),
        *((name, {name: -1}) for name in ("tasks", "tests", "labelled", "test_queries")),
        ("distinct GroupPool", {"distinct": True}),
        ("ways", {"ways": 9}),
        ("shots + 2 8 30", {"shots": 30}),
        ("queries 31", {"queries": 27}),
        ("test_queries labelled 4 + 99 + 1 30", {"test_queries": 99, "labelled": 1}),
        ("labelled=0", {"test_queries": 25, "labelled": 2}),
        ("labelled 40 group", {"pools": SITES, "test_queries": 36, "labelled": 1}),
        ("tasks tests 12 13", {"pools": (SITES[0],) * 2, "tasks": 9, "tests": 4, "distinct": True}),
        ("predictor", {"predictor": "fit"}),
        ("share", {"predictor": BOTH[0]}),
        ("share", {"predictor": BOTH[1]}),
    ]
    for words, options in bad:
        assert_refused(words, make, **options)


def test_descriptions_tell_studies_apart() -> None:
    def describe(learner: Any = None, rng: int = 0, **options: Any) -> dict[str, Any]:
        return make(learner, (classes(rng=rng), BOTH[1]), **options).describe()

    assert describe() == describe() == json.loads(json.dumps(describe()))
    changes: list[dict[str, Any]] = [
        *({"rng": 1}, {"shots": 3}, {"tasks": 5}, {"tests": 4}, {"queries": 5}, {"labelled": 5}),
        *({"learner": PrototypeLearner(metric="cosine")}, {"learner": CallableLearner(nearest)}),
        {"score": "margin"},
    ]
    assert all(describe(**change) != describe() for change in changes)
    assert describe(description={}) == {}
    one, other = (lambda p, cut=cut: p - cut for cut in (0.1, 5.0))  # scores of your own
    assert describe(score=one)["score"] != describe(score=other)["score"]
    assert describe(score=one) == describe(score=one)
    lines = (line for line in "ab")
    assert_refused("score description", describe, score=lambda p: next(lines))


def test_learners_and_pools_are_described_by_their_content() -> None:
    function = describe_learner(CallableLearner(nearest))
    assert (function["class"], function["function"]) == ("CallableLearner", "nearest")
    sklearn = describe_learner(fewshot.SklearnLearner(GaussianNB()))
    assert sklearn == {"class": "SklearnLearner", "estimator": "GaussianNB()"}
    learner, same, other = (fewshot.ProtoNet(MLP(3, rng=seed)) for seed in (0, 0, 1))
    assert describe_learner(learner) == describe_learner(same)
    assert describe_learner(learner)["weights"] != describe_learner(other)["weights"]
    with torch.no_grad():
        next(same.module.parameters()).view(-1)[0] += 1
    assert describe_learner(learner) != describe_learner(same)
    x, y = np.arange(12.0).reshape(6, 2), [0, 0, 1, 1, 0, 1]
    pools = [ClassPool(x, y), ClassPool(x + 1, y), ClassPool(x, y[::-1])]
    pools += [GroupPool(x, y, list(names)) for names in ("aabbcc", "abcabc")]  # type: ignore[misc]
    described = [describe_pool(pool) for pool in pools]
    assert {k: described[0][k] for k in ("unit", "names", "examples")} == {
        "unit": "class",
        "names": 2,
        "examples": 6,
    }
    assert len({pool["checksum"] for pool in described}) == 5
