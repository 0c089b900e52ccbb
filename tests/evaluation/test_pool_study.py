"""Studies of any learner on pools, against slow loops over their tasks."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from metapac import Guarantee
from metapac.fewshot import (
    CallableLearner,
    ClassPool,
    DomainPool,
    GroupPool,
    PoolStudy,
    ProtoNet,
    PrototypeLearner,
    SklearnLearner,
    Task,
    paper_methods,
    run_study,
    score_tasks,
    summarise,
)
from metapac.fewshot.quantile_predictor import QuantilePredictor
from metapac.fewshot.study import pool_study
from metapac.fewshot.study.draws import Draw, ScoredTask
from metapac.fewshot.study.pool_study import describe_group_reuse
from tests.evaluation.test_methods import expected as expected_thresholds
from tests.helpers.studies import same_rows

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


LEARNERS: dict[str, Any] = {
    "bank": PrototypeLearner(),
    "function": CallableLearner(nearest),
}


def make(learner: Any, calibration: Any, test: Any, **options: Any) -> PoolStudy:
    sizes = {"ways": 3, "shots": 4, "tasks": 6, "tests": 3}
    return PoolStudy(learner, calibration, test, **(sizes | options))


@pytest.mark.parametrize("name", LEARNERS)
def test_a_draw_is_what_slow_loops_score(name: str) -> None:
    learner, pools = LEARNERS[name], (classes(0), classes(8, rng=1))
    study = make(learner, *pools, queries=7, test_queries=9, labelled=2)
    draw = study.draw(np.random.default_rng(5))
    seeds = np.random.default_rng(5).spawn(2)
    tasks = pools[0].tasks(6, ways=3, shots=4, queries=7, rng=seeds[0])
    scores, _ = score_tasks(learner, tasks)
    np.testing.assert_array_equal(draw.scores, scores)
    np.testing.assert_array_equal(draw.tasks, np.repeat(np.arange(6), 21))
    assert draw.quantiles is None
    new = pools[1].tasks(3, ways=3, shots=4, queries=11, rng=seeds[1])
    for task, scored in zip(new, draw.tests, strict=True):
        assert isinstance(scored, ScoredTask)
        adapted = learner.adapt(task.support_x, task.support_y, classes=3)
        table = adapted.predict_proba(task.query_x)
        labelled = np.isin(np.arange(33) % 11, [0, 1])  # the first of each class
        np.testing.assert_allclose(scored.scores, table[~labelled], rtol=1e-9)
        true = table[np.arange(33), task.query_y]
        np.testing.assert_allclose(scored.labelled_scores, true[labelled], rtol=1e-9)
        assert scored.examples == 27
        np.testing.assert_allclose(study.predict_proba(task), table, rtol=1e-9)


def slow_draw(study: PoolStudy, banks: Any, predictor: Any, rng: np.random.Generator) -> Draw:
    """Return a draw whose tasks are drawn, scored and predicted one at a time."""
    seeds, of_class = rng.spawn(2), study.labelled + study.test_queries
    shape: dict[str, Any] = {"ways": 3, "shots": 4}
    known = study.calibration.tasks(16, **shape, queries=study.queries, rng=seeds[0])
    new = study.test.tasks(3, **shape, queries=of_class, rng=seeds[1])

    def quantile(bank: Any, task: Task) -> float:
        return float(predictor.predict(-bank.leave_one_out([task]))[0])

    tests = []
    for task in new:
        table, labels = banks[1].predict_proba(task), task.query_y
        is_labelled = [i % of_class < study.labelled for i in range(len(labels))]
        true = np.array([row[label] for row, label in zip(table, labels, strict=True)])
        own, rest = np.array(is_labelled), ~np.array(is_labelled)
        tests.append(ScoredTask(true[own], true[rest], table[rest], quantile(banks[1], task)))
    scores = np.concatenate([banks[0].scores([task]) for task in known])
    names = np.repeat(np.arange(16), len(scores) // 16)
    return Draw(scores, names, tests, np.array([quantile(banks[0], task) for task in known]))


@pytest.mark.parametrize(
    "learner",
    [PrototypeLearner(), ProtoNet(torch.nn.Identity())],
    ids=lambda learner: type(learner).__name__,
)
def test_rows_are_those_of_loops_over_tasks_and_methods(learner: Any) -> None:
    x, rng = np.float32, np.random.default_rng(0)
    pools = [ClassPool(p.x.astype(x), p.y) for p in (classes(0), classes(8, rng=1))]
    predictor = QuantilePredictor(epsilon=0.2, rng=0).fit(-rng.random((9, 12)), -rng.random(9))
    options: dict[str, Any] = {"queries": 8, "tasks": 16, "predictor": predictor}
    study = make(learner, *pools, **options)
    rows = run_study(
        study, guarantee=G, methods=paper_methods(G, second_delta=0.2), draws=2, n_jobs=2
    )
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
                assert isinstance(test, ScoredTask)
                missed = [true < np.asarray(cut, true.dtype) for true in test.true_scores]
                kept = [(row >= np.asarray(cut, row.dtype)).sum() for row in test.scores]
                assert chosen.error[i] == pytest.approx(np.mean(missed), abs=1e-6)
                assert chosen.size[i] == pytest.approx(np.mean(kept), abs=1e-6)


def test_embedded_pools_are_shared_by_threads() -> None:
    pools = classes(), classes(8, rng=1)
    for learner in (PrototypeLearner(), ProtoNet(torch.nn.Identity())):
        assert make(learner, *pools).preferred_backend == "threading"
    assert make(CallableLearner(nearest), *pools).preferred_backend == "loky"
    banks = tuple(PrototypeLearner().bank(pool.x) for pool in pools)
    assert make(PrototypeLearner(), *pools, banks=banks).preferred_backend == "threading"


class CachedBank:
    """A bank of someone's own, which remembers the last task."""

    def __init__(self, x: Any) -> None:
        self.bank = PrototypeLearner().bank(x)

    def scores(self, tasks: Any) -> Any:
        self.last = tasks[-1]
        return self.bank.scores(tasks)

    def predict_proba(self, task: Task) -> Any:
        self.last = task
        return self.bank.predict_proba(self.last)


class CachedLearner(PrototypeLearner):
    def bank(self, x: Any) -> Any:
        return CachedBank(x)


class LockedBank(CachedBank):
    thread_safe = True


def test_a_bank_of_your_own_is_shared_by_threads_only_if_it_says_so() -> None:
    pools = classes(), classes(8, rng=1)
    assert make(CachedLearner(), *pools).preferred_backend == "loky"
    cached, locked = ([kind(pool.x) for pool in pools] for kind in (CachedBank, LockedBank))
    choices = {(True, True): "threading", (True, False): "loky", (False, True): "loky"}
    for which, backend in choices.items():
        banks = tuple((cached, locked)[safe][i] for i, safe in enumerate(which))
        assert make(CachedLearner(), *pools, banks=banks).preferred_backend == backend


def test_groups_are_tasks_drawn_with_replacement() -> None:
    with pytest.warns(UserWarning, match="300 calibration tasks from 12 groups: a group is in 25"):
        study = make(
            PrototypeLearner(), groups(), groups(20, rng=1), tasks=300, tests=20, test_queries=9
        )
    tasks, tests = study.sample(np.random.default_rng(0))
    assert {str(task.name).split("#")[0] for task in tasks} == set(groups().names)
    assert {len(task.query) for task in tasks} == {36}  # all the rest of a group
    assert all(str(task.name)[5] in "23" for task in tests)
    assert {len(task.query) for task in tests} == {9 + 20}
    draw = study.draw(np.random.default_rng(0))
    assert [len(test.labelled_scores) for test in draw.tests] == [20] * 20


def test_tasks_of_unequal_size_keep_their_scores() -> None:
    pool, rng = groups(), np.random.default_rng(0)
    kept = np.sort(rng.permutation(len(pool.y))[:300])
    unequal = GroupPool(pool.x[kept], pool.y[kept], pool.groups[kept], classes=2)
    learner = PrototypeLearner()
    study = make(learner, unequal, groups(20, rng=1), tasks=9, test_queries=9)
    draw = study.draw(np.random.default_rng(3))
    tasks, _ = study.sample(np.random.default_rng(3))
    assert len({len(task.query) for task in tasks}) > 1
    for number, task in enumerate(tasks):
        own = learner.bank(unequal.x).scores([task])
        np.testing.assert_array_equal(draw.scores[draw.tasks == number], own)


@pytest.mark.parametrize(
    ("tasks", "distinct", "warns"),
    [(13, None, True), (12, None, False), (500, False, False), (6, True, False)],
)
def test_it_is_said_that_groups_are_used_again(
    tasks: int, distinct: bool | None, warns: bool
) -> None:
    options: dict[str, Any] = {"tasks": tasks, "distinct": distinct}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        study = make(PrototypeLearner(), groups(), groups(20, rng=1), **options)
    notes = [note for note in study.notes if "groups" in note]
    assert notes == ([] if distinct else [describe_group_reuse(12, tasks)])
    assert [str(each.message) for each in caught] == (notes if warns else [])
    assert study.describe()["notes"] == list(study.notes)


def test_distinct_groups_of_two_pools_are_divided_anew() -> None:
    pools = groups(count=7), groups(20, count=5, rng=1)
    study = PoolStudy(PrototypeLearner(), *pools, shots=4, distinct=True)
    assert (study.tasks, study.tests) == (7, 5)
    tasks, tests = study.sample(np.random.default_rng(0))
    names = [task.name for task in (*tasks, *tests)]
    assert sorted(map(str, names)) == [*pools[0].names, *pools[1].names]
    assert {task.name for task in tasks} != set(pools[0].names)
    banks = tuple(PrototypeLearner().bank(pool.x) for pool in pools)
    with pytest.raises(ValueError, match="banks must hold .* Pass the same GroupPool as calibrat"):
        make(PrototypeLearner(), *pools, distinct=True, banks=banks)


def test_distinct_groups_are_used_once() -> None:
    pool, dealt = groups(), set()
    study = make(PrototypeLearner(), pool, pool, tasks=8, tests=4, distinct=True, test_queries=5)
    for seed in range(5):
        tasks, tests = study.sample(np.random.default_rng(seed))
        names = [task.name for task in (*tasks, *tests)]
        assert sorted(names) == pool.names
        dealt.add(tuple(names))
    assert len(dealt) == 5


def test_one_pool_for_both_is_embedded_once() -> None:
    class Counting(PrototypeLearner):
        def bank(self, x: Any) -> Any:
            calls.append(x)
            return super().bank(x)

    calls: list[Any] = []
    pool = classes()
    study = make(Counting(), pool, pool)
    assert not calls  # nothing is computed before the first draw
    study.draw(np.random.default_rng(0))
    study.draw(np.random.default_rng(1))
    assert [x is pool.x for x in calls] == [True]
    banks = (PrototypeLearner().bank(pool.x),) * 2
    make(Counting(), pool, pool, banks=banks).prepare()
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("size", "options", "expected"),
    [
        (30, {}, (26, 6, 20)),
        (300, {}, (296, 20, 100)),
        (30, {"test_queries": 10}, (26, 16, 10)),
        (30, {"labelled": 3}, (26, 3, 23)),
        (7, {}, (3, 1, 2)),
        (30, {"queries": 2, "labelled": 4, "test_queries": 8}, (2, 4, 8)),
    ],
)
def test_by_default_all_examples_are_used(
    size: int, options: dict[str, int], expected: tuple[int, ...]
) -> None:
    study = make(PrototypeLearner(), classes(size=size), classes(8, size=size, rng=1), **options)
    assert (study.queries, study.labelled, study.test_queries) == expected
    study.draw(np.random.default_rng(0))


def test_ways_may_vary_from_task_to_task() -> None:
    study = make(PrototypeLearner(), classes(), classes(8, rng=1), ways=[2, 5], tests=20)
    draw = study.draw(np.random.default_rng(0))
    shapes = {test.scores.shape[1] for test in draw.tests if isinstance(test, ScoredTask)}
    assert shapes == {2, 5}
    assert study.describe()["ways"] == [2, 5]


def test_domains_need_their_numbers() -> None:
    x, y = classes().x, classes().y
    pool = DomainPool(x, y, y // 4)
    with pytest.raises(ValueError, match="test_queries and labelled must be given for a Dom"):
        make(PrototypeLearner(), pool, pool)
    study = make(PrototypeLearner(), pool, pool, queries=9, test_queries=5, labelled=2)
    assert len(study.draw(np.random.default_rng(0)).tests) == 3


class Doubled:
    name = "doubled"

    def __call__(self, x: Any, rng: np.random.Generator) -> Any:
        return 2 * x


def test_transformed_tasks_are_scored_one_by_one() -> None:
    pool = ClassPool(classes().x, classes().y, transform=lambda rng: Doubled())
    study = make(PrototypeLearner(), pool, pool)
    assert len(study.draw(np.random.default_rng(0)).scores) == 6 * 3 * 26
    assert "no bank" not in study.notes[0]  # no predictor was asked for


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_study, "PREDICTOR_TASKS", 12)


@pytest.mark.usefixtures("few")
def test_meta_cp_is_assembled_from_a_pool() -> None:
    learner, third = PrototypeLearner(), classes(16, rng=2)
    study = make(learner, classes(), classes(8, rng=1), predictor=third, epsilon=0.2)
    assert study.notes == ()
    draw = study.draw(np.random.default_rng(0))
    tasks, tests = study.sample(np.random.default_rng(0))
    own = list(third.tasks(12, ways=3, shots=4, queries=study.test_queries, rng=0))
    bank = learner.bank(third.x)
    slow = QuantilePredictor(epsilon=0.2, rng=0)
    ids = np.repeat(np.arange(12), 3 * study.test_queries)
    slow.fit(-bank.leave_one_out(own), slow.targets(bank.scores(own), ids))
    known, new = learner.bank(study.calibration.x), learner.bank(study.test.x)
    np.testing.assert_array_equal(draw.quantiles, slow.predict(-known.leave_one_out(tasks)))
    expected = slow.predict(-new.leave_one_out(tests))
    assert [test.quantile for test in draw.tests] == expected.tolist()
    rows = run_study(study, guarantee=G, draws=1)
    assert "Meta-CP" in rows.method
    assert summarise(rows, G).notes == ()


@pytest.mark.usefixtures("few")
def test_every_stage_is_named_once() -> None:
    third, calls = classes(16, rng=2), []
    study = make(PrototypeLearner(), classes(), classes(8, rng=1), predictor=third, epsilon=0.2)
    for _ in range(2):
        run_study(study, guarantee=G, draws=1, progress=lambda stage, *_: calls.append(stage))
    assert calls == [
        "embedding the pools", "training Meta-CP's quantile predictor", "draws", "draws",
    ]  # fmt: skip


def test_meta_cp_is_not_judged_at_another_epsilon_than_it_is_trained_for() -> None:
    pools = classes(), classes(8, rng=1)
    fitted = QuantilePredictor(epsilon=0.3, rng=0)
    for predictor, trained in ((classes(16, rng=2), "0.1"), (fitted, "0.3")):
        study = make(PrototypeLearner(), *pools, predictor=predictor)
        assert study.epsilon == float(trained)
        message = (
            f"the study predicts the quantiles of Meta-CP for epsilon={trained}, and the guarantee "
            r"has epsilon=0.2. Use one epsilon for both, such as PoolStudy\(..., epsilon=0.2\)."
        )
        with pytest.raises(ValueError, match=message):
            run_study(study, guarantee=G, draws=1)
    assert make(PrototypeLearner(), *pools).epsilon is None  # no Meta-CP, and any guarantee


@pytest.mark.usefixtures("few")
def test_a_fitted_predictor_is_used_as_it_is() -> None:
    rng = np.random.default_rng(0)
    fitted = QuantilePredictor(epsilon=0.2, rng=0).fit(-rng.random((9, 12)), -rng.random(9))
    study = make(PrototypeLearner(), classes(), classes(8, rng=1), predictor=fitted)
    draw = study.draw(np.random.default_rng(0))
    tasks, _ = study.sample(np.random.default_rng(0))
    inputs = -PrototypeLearner().bank(study.calibration.x).leave_one_out(tasks)
    np.testing.assert_array_equal(draw.quantiles, fitted.predict(inputs))


@pytest.mark.parametrize(
    ("learner", "options", "reason"),
    [
        (CallableLearner(nearest), {}, "this learner has no bank that computes them."),
        (PrototypeLearner(), {"shots": 1}, "and with one shot its class then has none."),
        (PrototypeLearner(), {"ways": [2, 3]}, "needs tasks with equally many support examples."),
        (PrototypeLearner(), {"ways": 5}, "cannot be trained: ways must be at most"),
        (
            PrototypeLearner(),
            {"shots": 9},
            "fewer than 10 examples (9 shots and 1 query); the smallest, 16, has 9",
        ),
    ],
)
def test_it_is_said_why_meta_cp_is_left_out(
    learner: Any, options: dict[str, Any], reason: str
) -> None:
    third = classes(16, count=4, size=9, rng=2)
    with pytest.warns(UserWarning, match="^Meta-CP is left out: ") as caught:
        study = make(learner, classes(), classes(8, rng=1), predictor=third, **options)
    assert [str(warning.message) for warning in caught] == list(study.notes)
    assert reason in study.notes[0]
    assert study.describe()["notes"] == list(study.notes)
    assert study.draw(np.random.default_rng(0)).quantiles is None


def test_without_a_pool_meta_cp_is_left_out_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        study = make(PrototypeLearner(), classes(), classes(8, rng=1))
    assert study.notes == (
        "Meta-CP is left out: no pool was given to train its quantile predictor on; pass one as "
        "predictor.",
    )


def test_without_torch_meta_cp_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    third = classes(16, rng=2)
    with pytest.warns(UserWarning, match=r"Meta-CP needs torch.*pip install 'metapac\[torch\]'"):
        make(PrototypeLearner(), classes(), classes(8, rng=1), predictor=third)


def test_a_predictor_may_not_see_calibration_or_new_tasks() -> None:
    pools = classes(), classes(8, rng=1)
    for pool in pools:
        with pytest.raises(ValueError, match="share"):
            make(PrototypeLearner(), *pools, predictor=pool)
    with pytest.raises(ValueError, match="predictor must be a QuantilePredictor, or a pool to tr"):
        make(PrototypeLearner(), *pools, predictor="fit")


def test_the_same_study_describes_itself_alike_and_another_one_does_not() -> None:
    def describe(learner: Any = None, rng: int = 0, **options: Any) -> dict[str, Any]:
        study = make(learner or PrototypeLearner(), classes(rng=rng), classes(8, rng=1), **options)
        return study.describe()

    assert describe() == describe()
    others = [
        describe(rng=1),
        describe(shots=3),
        describe(tasks=5),
        describe(tests=4),
        describe(queries=5),
        describe(labelled=5),
        describe(PrototypeLearner(metric="cosine")),
        describe(CallableLearner(nearest)),
    ]
    assert all(other != describe() for other in others)
    assert describe(description={}) == {}


def test_rows_are_the_same_from_workers_and_after_a_restart(tmp_path: Any) -> None:
    def study() -> PoolStudy:
        return make(SklearnLearner(_estimator()), classes(), classes(8, rng=1), tasks=8)

    alone = run_study(study(), guarantee=G, draws=3)
    assert same_rows(run_study(study(), guarantee=G, draws=3, n_jobs=2), alone)
    run_study(study(), guarantee=G, draws=2, folder=tmp_path)
    assert same_rows(run_study(study(), guarantee=G, draws=3, folder=tmp_path), alone)


def _estimator() -> Any:
    from sklearn.naive_bayes import GaussianNB

    return GaussianNB()


@pytest.mark.parametrize(
    ("calibration", "test", "options", "message"),
    [
        (np.eye(3), None, {}, "calibration must be a pool that tasks are drawn from, .* ndarray"),
        (None, [1], {}, "test must be a pool that tasks are drawn from, .* got list"),
        (None, groups(), {}, "must be pools of one kind, got ClassPool and GroupPool"),
        (None, None, {"tasks": 0}, "tasks must be a whole number"),
        (None, None, {"tests": 1.5}, "tests must be a whole number"),
        (None, None, {"labelled": 0}, "labelled must be a whole number"),
        (None, None, {"distinct": True}, "a ClassPool has none. Leave it out, or pass a Gr"),
        (None, None, {"ways": 9}, "ways must be at most"),
        (None, None, {"shots": 30}, "30 shots and 2 queries.* or pass shots=28"),
        (None, None, {"queries": 27}, "shots \\+ queries = 31"),
        (None, None, {"test_queries": 99, "labelled": 1}, "shots \\+ queries = 104"),
    ],
)
def test_what_cannot_be_studied_is_refused(
    calibration: Any, test: Any, options: dict[str, Any], message: str
) -> None:
    pools = [
        classes() if calibration is None else calibration,
        classes(8, rng=1) if test is None else test,
    ]
    with pytest.raises(ValueError, match=message):
        make(PrototypeLearner(), *pools, **options)


def test_distinct_groups_must_suffice() -> None:
    pool = groups()
    with pytest.raises(
        ValueError, match=r"tasks \+ tests must be at most the 12 groups, since .* twice, got 13"
    ):
        make(PrototypeLearner(), pool, pool, tasks=9, tests=4, distinct=True)
