"""Unlabelled examples of a task: drawn beside its queries, adapted to, and never scored."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.naive_bayes import GaussianNB

from metapac import BadArtefact, InvalidInput, MetaPS, fewshot
from metapac.fewshot import ClassPool, PrototypeLearner, load_offset, score_examples, score_tasks
from metapac.fewshot.adapters import ROUNDS, SOFTNESS
from metapac.fewshot.offset import SIZE, TaskOffset, describe_outputs, fit_weights
from metapac.fewshot.options import Drawing
from metapac.fewshot.pools import draw_all
from metapac.fewshot.scored_tables import score_embeddings
from metapac.fewshot.scoring import Outputs, score_matrix
from tests.helpers.oracles import FALSE_ALARM

RNG = np.random.default_rng(0)
Y = np.repeat(np.arange(24), 40)
X = (RNG.normal(size=(24, 6))[Y] + 0.9 * RNG.normal(size=(960, 6))).astype(np.float32)
UNEQUAL = np.flatnonzero(np.arange(960) % 40 < 30 + Y % 5)
SHAPE: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 5, "rng": 4}
GROUPED: dict[str, Any] = {"shots": 4, "rng": 4}


def shifts(rng: np.random.Generator) -> Callable[..., Any]:
    """A transform that draws both when it is chosen and when it is applied."""
    by = rng.normal()
    return lambda x, rng: x + by + rng.normal(size=(len(x), 1))


POOLS: list[tuple[Any, dict[str, Any]]] = [
    (ClassPool(X, Y), SHAPE),
    (ClassPool(X[UNEQUAL], Y[UNEQUAL]), SHAPE),
    (ClassPool(X, Y), SHAPE | {"ways": range(2, 5), "shots": (1, 3)}),
    (ClassPool(X, Y, transform=shifts), SHAPE),
    (fewshot.DomainPool(X, Y % 8, Y // 8), SHAPE),
    (fewshot.GroupPool(X, Y % 3, Y // 2), GROUPED | {"queries": 9}),
]


@pytest.mark.parametrize("case", range(len(POOLS)))
def test_unlabelled_examples_change_nothing_else_of_a_task(case: int) -> None:
    pool, shape = POOLS[case]
    plain, more = pool.tasks(12, **shape), pool.tasks(12, **shape, unlabelled=17)
    drawn: Any = draw_all(more)
    for old, alone, task in zip(plain, more, drawn, strict=True):
        for name in ("support", "support_y", "query", "query_y", "support_x", "query_x"):
            np.testing.assert_array_equal(getattr(task, name), getattr(old, name))
        np.testing.assert_array_equal(task.unlabelled, alone.unlabelled)
        assert (len(task.unlabelled), old.unlabelled, old.unlabelled_x) == (17, None, None)
        assert len(np.unique(task.positions)) == len(task.support) + len(task.query) + 17
        if pool.unit != "group" and getattr(pool, "transform", None) is None:
            names, counts = np.unique(pool.y[task.unlabelled], return_counts=True)
            assert {*names.tolist()} == {*task.class_names}
            assert sorted(counts)[0] >= sorted(counts)[-1] - 1


def test_of_a_group_the_queries_are_all_that_is_left() -> None:
    pool = fewshot.GroupPool(X, Y % 3, Y // 2)
    drawn: Any = pool.tasks(**GROUPED, unlabelled=20)
    for old, task in zip(pool.tasks(**GROUPED), drawn, strict=True):
        np.testing.assert_array_equal(task.support, old.support)
        assert (len(task.query), len(task.positions)) == (56, 80)
        assert not {*task.unlabelled} & {*task.query}


def test_the_order_of_unlabelled_examples_says_nothing_about_their_labels() -> None:
    tasks: Any = draw_all(ClassPool(X, Y).tasks(2000, **SHAPE, unlabelled=6))
    first = [[*t.class_names].index(Y[t.unlabelled[0]]) for t in tasks]
    assert stats.chisquare(np.bincount(first)).pvalue > FALSE_ALARM


def test_bad_input_is_refused() -> None:
    x, y = np.zeros((9, 1)), np.zeros(3, int)
    positions = {"support": np.arange(3), "query": np.arange(3, 6)}
    fields: dict[str, Any] = {"x": x, "support_y": y, "query_y": y, "classes": 1, **positions}
    for shared in (2, 5):  # a support example, a query
        with pytest.raises(InvalidInput, match=f"share a position, got {shared} twice"):
            fewshot.Task("a", **fields, unlabelled=np.array([7, shared]))
    with pytest.raises(InvalidInput, match="shots \\+ queries \\+ unlabelled / ways = 41"):
        ClassPool(X, Y).tasks(2, **SHAPE, unlabelled=100)
    with pytest.raises(InvalidInput, match="unlabelled must"):
        ClassPool(X, Y).tasks(2, **SHAPE, unlabelled=-1)
    (task,) = ClassPool(X, Y).tasks(1, **SHAPE, unlabelled=6)
    with pytest.raises(InvalidInput, match="bank does not adapt to"):
        PrototypeLearner().bank(task.x).predict_proba(task)


class Recorder:
    """Adapts like prototypes, and keeps what it was given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def adapt(self, x: Any, y: Any, *, unlabelled: Any = None) -> Any:
        self.given.append(unlabelled)
        return PrototypeLearner().adapt(x, y, unlabelled=unlabelled)


def test_learners_get_unlabelled_examples_if_they_take_them() -> None:
    tasks = draw_all(ClassPool(X, Y).tasks(3, **SHAPE, unlabelled=12))
    plain = [replace(task, unlabelled=None) for task in tasks]
    recorder: Any = Recorder()
    scores, _ = score_tasks(recorder, tasks)
    for expected in (X[task.unlabelled] for task in tasks):
        assert any(np.array_equal(expected, given) for given in recorder.given)
    np.testing.assert_array_equal(scores, score_tasks(PrototypeLearner(), tasks)[0])
    assert (scores != score_tasks(PrototypeLearner(), plain)[0]).any()
    uniform = fewshot.CallableLearner(lambda *parts: np.full((len(parts[2]), 3), 1 / 3))
    for learner in (fewshot.RidgeLearner(), fewshot.SklearnLearner(GaussianNB()), uniform):
        expected = score_tasks(learner, plain)[0]
        np.testing.assert_array_equal(score_tasks(learner, tasks)[0], expected)


def soft_k_means(s: Any, y: Any, u: Any, x: Any, classes: int, cosine: bool) -> Any:
    """Loops over examples and labels."""

    def distance(v: Any, p: Any) -> float:
        if cosine:
            return 2 - 2 * float(v @ p / np.linalg.norm(v) / np.linalg.norm(p))
        return float(((v - p) ** 2).sum())

    def probabilities(v: Any, means: dict[int, Any], temperature: float) -> dict[int, float]:
        odds = {c: math.exp(-distance(v, p) / temperature) for c, p in means.items()}
        return {c: odd / sum(odds.values()) for c, odd in odds.items()}

    present = sorted(set(y))
    means = {c: s[y == c].mean(0) for c in present}
    for _ in range(ROUNDS):
        apart = [distance(means[a], means[b]) for a, b in combinations(present, 2)]
        soft = [probabilities(v, means, SOFTNESS * float(np.mean(apart))) for v in u]
        means = {
            c: (s[y == c].sum(0) + sum(p[c] * v for p, v in zip(soft, u, strict=True)))
            / ((y == c).sum() + sum(p[c] for p in soft))
            for c in present
        }
    table = np.zeros((len(x), classes))
    for i, v in enumerate(x):
        for c, p in probabilities(v, means, 0.7 * (1 + cosine)).items():
            table[i, c] = p
    return table


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_prototypes_are_refined_as_by_a_plain_loop(metric: str) -> None:
    (task,) = ClassPool(X + 0.5, Y).tasks(1, **SHAPE | {"ways": 4}, unlabelled=21)
    known = task.support_y != 2  # a label without support examples
    parts = task.support_x[known].astype(float), task.support_y[known]
    scorer = PrototypeLearner(metric, 0.7).adapt(*parts, classes=4, unlabelled=task.unlabelled_x)
    unlabelled, x = task.unlabelled_x.astype(float), task.query_x.astype(float)
    expected = soft_k_means(*parts, unlabelled, x, 4, metric == "cosine")
    np.testing.assert_allclose(scorer.predict_proba(task.query_x), expected, atol=1e-10)
    assert (expected[:, 2] == 0).all()


def test_prototypes_that_coincide_stay() -> None:
    x, others = np.ones((4, 2)), np.arange(6.0).reshape(3, 2)
    for y in ([0, 0, 1, 1], [0, 0, 0, 0]):
        for metric in ("euclidean", "cosine"):
            table = PrototypeLearner(metric).adapt(x, y, unlabelled=others).predict_proba(others)
            np.testing.assert_allclose(table, 1 / table.shape[1])


def test_a_network_is_refined_as_prototypes_are() -> None:
    learner: Any = fewshot.ProtoNet(torch.nn.Linear(6, 6).double())
    for task in ClassPool(X, Y).tasks(3, **SHAPE, unlabelled=40):
        parts = task.support_x, task.unlabelled_x, task.query_x
        z = [learner._embed_rows(x).detach() for x in parts]
        expected = PrototypeLearner().adapt(z[0], task.support_y, unlabelled=z[1])
        table = score_matrix(learner, task)
        np.testing.assert_allclose(table, expected.predict_proba(z[2]), atol=1e-5)
        assert (score_tasks(learner, [task])[0] <= table[np.arange(15), task.query_y]).all()


class Peeker:
    """Uses the examples that it is to score, beside the unlabelled ones."""

    def adapt(self, x: Any, y: Any, *, unlabelled: Any = None) -> Any:
        def predict(queries: Any) -> Any:
            others = np.concatenate([unlabelled, queries])
            return PrototypeLearner().adapt(x, y, unlabelled=others).predict_proba(queries)

        return type("Scorer", (), {"predict_proba": staticmethod(predict)})


PEEKER: Any = Peeker()


class Memory:
    """Knows the labels of the unlabelled examples; is wrong about all others."""

    def __init__(self, knows: bool = True) -> None:
        self.knows = knows

    def adapt(self, x: Any, y: Any, *, unlabelled: Any = None) -> Any:
        seen = {row.tobytes() for row in unlabelled} if self.knows else set()
        labels = {row.tobytes(): int(name) for row, name in zip(X, Y, strict=True)}
        names = [labels[row.tobytes()] for row in x]
        code = dict(zip(names, y.tolist(), strict=True))

        def predict(queries: Any) -> Any:
            known = [row.tobytes() in seen for row in queries]
            true = [code[labels[row.tobytes()]] for row in queries]
            table = np.where(np.array(known)[:, None], 0.05, 0.45) * np.ones((1, 3))
            table[np.arange(len(true)), true] = np.where(known, 0.9, 0.1)
            return table

        return type("Scorer", (), {"predict_proba": staticmethod(predict)})


def test_what_is_scored_is_never_what_was_adapted_to() -> None:
    tasks = draw_all(ClassPool(X, Y).tasks(40, **SHAPE, unlabelled=12))
    with pytest.raises(InvalidInput, match="score each query by itself"):
        score_tasks(PEEKER, tasks)
    made: Any = Memory
    knowing, ignorant = (score_tasks(made(knows), tasks)[0] for knows in (True, False))
    np.testing.assert_array_equal(knowing, ignorant)
    x, y, unlabelled = tasks[0].support_x, tasks[0].support_y, tasks[0].unlabelled_x
    scorer = Memory().adapt(x, y, unlabelled=unlabelled)
    assert scorer.predict_proba(unlabelled).max(1).min() == 0.9  # and it could help
    with pytest.warns(UserWarning, match="12 of the examples in x are also in unlabelled"):
        score_examples(PrototypeLearner(), x, y, unlabelled, unlabelled=unlabelled)
    queries = tasks[0].query_x, tasks[0].query_y
    with pytest.warns(UserWarning, match="15 of the examples in x are also in unlabelled"):
        fewshot.Task.from_arrays(x, y, *queries, name="copies", unlabelled_x=queries[0])


OFFSET_SHAPE: dict[str, Any] = {"ways": 3, "shots": 1, "queries": 10, "unlabelled": 24}


def held_out(rng: int = 0, count: int = 60) -> Any:
    return ClassPool(X[Y < 12], Y[Y < 12], name="held out").tasks(count, **OFFSET_SHAPE, rng=rng)


def calibration(**changes: Any) -> Any:
    pool = ClassPool(X[Y >= 12], Y[Y >= 12], name="calibration")
    return pool.tasks(20, **OFFSET_SHAPE | changes, rng=1)


@pytest.fixture(scope="module")
def offset() -> TaskOffset:
    return fewshot.fit_offset(PrototypeLearner(), held_out(), epsilon=0.1)


def test_an_offset_is_subtracted_from_the_log_probability(offset: TaskOffset) -> None:
    learner = PrototypeLearner()
    scores, _ = score_tasks(learner, calibration(), score=offset)
    for i, task in enumerate(calibration()):
        logs = score_matrix(learner, task, score=offset.base)
        scorer = learner.adapt(task.support_x, task.support_y, unlabelled=task.unlabelled_x)
        unlabelled = offset.base(scorer.probabilities_and_logits(task.unlabelled_x)[1], "logits")
        shift = offset.weights[0] + offset.weights[1:] @ describe_outputs(unlabelled, 0.1)
        table = score_matrix(learner, task, score=offset)
        np.testing.assert_allclose(table, logs - shift, rtol=1e-9)
        true = table[np.arange(30), task.query_y]
        assert (scores[30 * i : 30 * i + 30] <= true).all()
        np.testing.assert_allclose(scores[30 * i : 30 * i + 30], true, atol=1e-6)
        parts = task.support_x, task.support_y, task.query_x
        again = score_examples(learner, *parts, score=offset, unlabelled=task.unlabelled_x)
        np.testing.assert_array_equal(again, table)
    assert offset.for_task(unlabelled).shift != offset.for_task(3 * unlabelled).shift


def test_the_regression_is_that_of_augmented_least_squares() -> None:
    rows, targets = [*RNG.normal(size=(50, SIZE - 1))], RNG.normal(size=50)
    x = np.array(rows)
    z = (x - x.mean(0)) / x.std(0)
    extra = math.sqrt(0.1 * 50) * np.eye(SIZE - 1)
    right = np.append(targets - targets.mean(), np.zeros(SIZE - 1))
    slopes = np.linalg.lstsq(np.vstack([z, extra]), right, rcond=None)[0]
    intercept, *weights = fit_weights(rows, targets.tolist())
    predicted = intercept + x @ np.array(weights)
    expected = targets.mean() + z @ slopes  # weights have eight digits
    np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-7)


def test_statistics_of_known_outputs() -> None:
    even = describe_outputs(np.log(np.full((7, 4), 0.25)), 0.1)
    expected = [*[math.log(0.25)] * 5, *[0.0] * 5, math.log(4), math.log(0.25)]
    np.testing.assert_allclose(even, expected, atol=1e-12)
    sure = describe_outputs(np.log([[1.0, 1e-300]] * 3), 0.1)  # -inf would be no number
    assert np.isfinite(sure).all()
    assert describe_outputs(np.zeros((3, 1)), 0.1)[5:10].tolist() == [0.0] * 5
    # If the probabilities are right, a share epsilon of true labels lies below the last statistic.
    logits = RNG.normal(size=(4000, 3)) * 2
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (RNG.random((4000, 1)) > p.cumsum(1)).sum(1).clip(max=2)
    below = np.log(p)[np.arange(4000), labels] < describe_outputs(np.log(p), 0.1)[-1]
    assert stats.binomtest(int(below.sum()), 4000, 0.1).pvalue > FALSE_ALARM


def test_scores_are_lowered_by_what_rounding_may_cost(offset: TaskOffset) -> None:
    rng, labels = np.random.default_rng(1), np.zeros(30, int)
    for _ in range(50):
        logits, others = (8 * rng.normal(size=(n, 3)).astype(np.float32) for n in (30, 24))
        slack = float(np.max(Outputs(others, "logits", offset)._slack()))
        bound = offset.for_task(offset.base(others, "logits"))
        lowered = Outputs(logits, "logits", bound).lowered_scores(labels)
        noise = [rng.choice([-slack / 2, slack / 2], values.shape) for values in (logits, others)]
        moved = offset.for_task(offset.base(others + noise[1], "logits"))
        assert (lowered <= moved(logits + noise[0], "logits")[:, 0]).all()


def test_an_offset_is_refused_where_it_was_fitted(offset: TaskOffset, tmp_path: Path) -> None:
    offset.save(tmp_path / "offset.json")
    found = load_offset(tmp_path / "offset.json")
    assert (found, str(found)) == (offset, str(offset))
    assert (found.classes, found.fitted_on) == (offset.classes, offset.fitted_on)
    assert found.classes == {str(name) for name in range(12)}
    assert found.learner["class"] == "PrototypeLearner"
    assert len(str(found)) < 120  # a promise file keeps it
    text = (tmp_path / "offset.json").read_text()
    (tmp_path / "edited.json").write_text(text.replace('"unlabelled": 24', '"unlabelled": 25'))
    with pytest.raises(BadArtefact):
        load_offset(tmp_path / "edited.json")
    assert json.loads(text)["classes"] == sorted(offset.classes)
    learner = PrototypeLearner()
    refused: list[tuple[Any, str]] = [
        (held_out(), "was fitted on task 'held out-0'"),
        (held_out(rng=5), "offset of score was fitted on"),  # other tasks of its classes
        (calibration(unlabelled=21), "must have 24 unlabelled examples.* got 21"),
        (calibration(unlabelled=0), "must have 24 unlabelled examples.* got 0"),
    ]
    for tasks, message in refused:
        with pytest.raises(InvalidInput, match=message):
            score_tasks(learner, tasks, score=found)
    groups = fewshot.GroupPool(X, Y % 3, Y // 2).tasks(
        40, shots=6, queries=20, unlabelled=24, rng=0
    )
    of_groups = fewshot.fit_offset(learner, groups, epsilon=0.1)
    with pytest.raises(InvalidInput, match="was fitted on task"):
        score_tasks(learner, groups, score=of_groups)
    raw = fewshot.CallableLearner(lambda *parts: parts[2][:, :3], outputs="scores")
    unfit: list[tuple[Any, Any, float, str]] = [
        (learner, held_out(count=29), 0.1, "tasks must be 30 or more"),
        (learner, ClassPool(X, Y).tasks(40, **SHAPE), 0.1, "unlabelled examples"),
        (learner, held_out(), 1.5, "epsilon must"),
        (raw, held_out(), 0.1, "score must"),
    ]
    for model, tasks, epsilon, message in unfit:
        with pytest.raises(InvalidInput, match=message):
            fewshot.fit_offset(model, tasks, epsilon=epsilon)
    with pytest.raises(InvalidInput, match="needs the unlabelled examples"):
        offset([[0.5, 0.5]])


# Tasks of two labels: x is N(d, 1) for one and N(-d, 1) for the other, d is uniform, and the model
# says that the log-odds are 3x. A label is missed where x falls below a cut: the miss rate of a
# task is known. An offset is computed from 30 unlabelled examples.


def logs_of(x: Any) -> Any:
    """Log-probabilities of the label that x is on the side of, and of the other."""
    return -np.logaddexp(0, np.stack([-3 * x, 3 * x], -1))


def broken_share(weights: Any, *, peeks: bool, rng: np.random.Generator) -> float:
    """Share of new tasks that exceed epsilon, after one calibration on 60 tasks of 400 examples."""
    bank = TaskOffset(weights=weights, unlabelled=30)

    def draw(count: int) -> tuple[Any, Any]:
        d = rng.uniform(0.3, 1.8, count)
        sides = rng.choice([-1, 1], (count, 30))
        return d, logs_of(d[:, None] * sides + rng.normal(size=(count, 30)))

    def shifts_of(z: Any, scored: Any) -> Any:
        if peeks:  # each task's own quantile: of the very scores that are calibrated on
            return np.quantile(scored, 0.1, axis=1)
        return np.array([float(bank.for_task(each).shift or 0) for each in z])

    d, z = draw(60)
    true = logs_of(d[:, None] + rng.normal(size=(60, 400)))[:, :, 0]
    promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1)
    scores = true - shifts_of(z, true)[:, None]
    promise.calibrate(scores.ravel(), np.repeat(np.arange(60), 400))
    d, z = draw(400)
    others = logs_of(d[:, None] + rng.normal(size=(400, 30)))[:, :, 0]
    shifts = shifts_of(z, others)
    cut = np.minimum(promise.threshold_ + shifts, -1e-12)  # a log-probability is below 0
    x = -np.log(np.expm1(-cut)) / 3
    return float(np.mean(stats.norm.cdf(x - d) > 0.1))


def test_the_guarantee_holds_with_an_offset_and_would_be_broken_by_peeking() -> None:
    rng = np.random.default_rng(0)
    weights = (-0.5, *[0.3] * 5, *[0.05] * 5, -0.4, 0.3)  # any will do
    shares = [broken_share(weights, peeks=False, rng=rng) for _ in range(60)]
    error = 4.9 * math.sqrt(0.2 * 0.8 / 400)  # of a share of 400 tasks, one in a million
    failures = sum(share > 0.2 + error for share in shares)
    assert stats.binomtest(failures, 60, 0.1, alternative="greater").pvalue > FALSE_ALARM
    peeking = [broken_share(weights, peeks=True, rng=rng) for _ in range(20)]
    failures = sum(share > 0.2 + error for share in peeking)
    assert stats.binomtest(failures, 20, 0.1, alternative="greater").pvalue < FALSE_ALARM


def test_tables_of_embeddings(tmp_path: Path) -> None:
    file, offset_file = tmp_path / "vectors.npz", tmp_path / "offset.json"
    np.savez(file, x=X, y=np.array([f"class {i:02d}" for i in Y]))
    drawing = Drawing(tasks=8, ways=3, shots=1, queries=8, unlabelled=24, offset=offset_file)
    for pool in ("calibration", "test"):
        made = score_embeddings(file, replace(drawing, pool=pool), model="net")
        stored = load_offset(offset_file)
        assert made.provenance.score == str(stored)
        assert not {*made.table["label"].tolist()} & stored.classes
    # A new task: so many of its examples are unlabelled ones, and not scored.
    rows = {
        name: np.flatnonzero(np.isin(Y, [20, 21, 22]) & (is_new == (np.arange(960) % 40 > 0)))
        for name, is_new in (("support", False), ("new", True))
    }
    np.savez(tmp_path / "task.npz", x=X[rows["support"]], y=Y[rows["support"]])
    np.save(tmp_path / "new.npy", X[rows["new"]])
    of_task = Drawing(ways=3, shots=1, unlabelled=24, offset=offset_file)
    found = score_embeddings(tmp_path / "task.npz", of_task, new=tmp_path / "new.npy", model="net")
    assert found.provenance.model == made.provenance.model
    first = np.random.default_rng(0).permutation(117)[:24]
    kept = np.setdiff1d(np.arange(117), first)
    np.testing.assert_array_equal(found.table["example"], kept)
    support = X[rows["support"]], [0, 1, 2]
    more: Any = {"score": stored, "unlabelled": X[rows["new"]][first]}
    expected = score_examples(PrototypeLearner(), *support, X[rows["new"]][kept], **more)
    np.testing.assert_array_equal(np.array(found.table["scores"]), expected)


def test_tables_refuse_what_would_be_ignored(tmp_path: Path, offset: TaskOffset) -> None:
    file = tmp_path / "vectors.npz"
    np.savez(file, x=X, y=Y)
    offset.save(tmp_path / "other.json")
    base = Drawing(tasks=8, ways=3, shots=1, queries=8, unlabelled=24)
    cases: list[tuple[Drawing, str]] = [
        (replace(base, offset=file, score="margin"), "score must be"),
        (replace(base, offset=tmp_path / "other.json"), "was fitted on"),
        (replace(base, unlabelled=100), "a task needs 3 classes"),
    ]
    for drawing, message in cases:
        with pytest.raises(InvalidInput, match=message):
            score_embeddings(file, drawing)
    np.savez(tmp_path / "task.npz", x=X[:81:40], y=Y[:81:40])
    np.save(tmp_path / "new.npy", X[1:25])
    missing = Drawing(ways=3, shots=1, unlabelled=10, offset=tmp_path / "none.json")
    with pytest.raises(InvalidInput, match="no offset in"):
        score_embeddings(tmp_path / "task.npz", missing, new=tmp_path / "new.npy")


def test_a_study_with_unlabelled_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metapac.fewshot.study.pool_study.PREDICTOR_TASKS", 12)
    pools = [ClassPool(X[i == Y % 2], Y[i == Y % 2], name=f"half {i}") for i in (0, 1)]
    shape: Any = {"ways": 3, "shots": 2, "labelled": 0, "tasks": 30, "tests": 5}
    plain, more = (
        fewshot.PoolStudy(PrototypeLearner(), *pools, **shape, unlabelled=m) for m in (0, 30)
    )
    assert (plain.queries, more.queries) == (38, 28)
    assert (plain.test_queries, more.test_queries) == (38, 28)
    assert "unlabelled" not in plain.describe()
    assert more.describe()["unlabelled"] == 30
    draw = more.draw(np.random.default_rng(0))
    tasks, tests = more.sample(np.random.default_rng(0))
    np.testing.assert_array_equal(draw.scores, score_tasks(PrototypeLearner(), tasks)[0])
    expected = score_matrix(PrototypeLearner(), tests[0])
    np.testing.assert_array_equal(draw.tests[0].scores, expected)
    with pytest.raises(InvalidInput, match="beside 40 unlabelled ones"):
        fewshot.PoolStudy(PrototypeLearner(), *pools, ways=1, unlabelled=40)
    third = ClassPool(X, Y + 24, name="third")
    study = fewshot.PoolStudy(PrototypeLearner(), *pools, predictor=third, **shape, unlabelled=12)
    quantiles: Any = study.draw(np.random.default_rng(0)).quantiles  # for Meta-CP
    assert np.isfinite(quantiles).all()
