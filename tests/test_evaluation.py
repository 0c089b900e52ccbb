"""Guarantees compared with labelled new tasks: counts, verdicts, what they rest on and show."""

from __future__ import annotations

import html
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from metapac import PS, Context, InvalidInput, MetaPS, evaluate, judge
from metapac.evaluation import ClassMisses, Evaluation

CLASSES = ["cat", "dog", "owl"]


def calibrate(*, context: Context | None = None, **changes: Any) -> MetaPS:
    rng = np.random.default_rng(0)
    options: dict[str, Any] = {"epsilon": 0.3, "alpha": 0.4, "delta": 0.3} | changes
    names = np.repeat([f"known {i}" for i in range(12)], 90)
    labels = np.tile(CLASSES, 360) if options.get("per_class") else None
    return MetaPS(**options).calibrate(rng.random(1080), names, labels, context=context)


def get_scores(frame: pd.DataFrame) -> Any:
    return frame[[f"p_{name}" for name in CLASSES]].to_numpy()


def get_true_scores(frame: pd.DataFrame) -> Any:
    return get_scores(frame)[np.arange(len(frame)), [CLASSES.index(y) for y in frame.y]]


def run(promise: Any, frame: pd.DataFrame, **options: Any) -> Evaluation:
    return evaluate(promise, get_scores(frame), frame.site, frame.y, classes=CLASSES, **options)


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    label = rng.integers(3, size=400)
    columns = {f"p_{name}": rng.random(400) for name in CLASSES}
    sites = np.array(["a", "b", "known 3", "d"])[rng.integers(4, size=400)]
    return pd.DataFrame({"site": sites, "y": np.array(CLASSES)[label], **columns})


def test_counts_of_each_task_and_class(frame: pd.DataFrame) -> None:
    promise = calibrate()
    result: Any = run(promise, frame)
    sets = promise.predict_set(get_scores(frame))
    missed = ~promise.predict_set(get_true_scores(frame))
    new = (frame.site != "known 3").to_numpy()
    assert result.tasks.tolist() == ["a", "b", "d"]
    assert result.overlap == ("known 3",)
    for i, name in enumerate(result.tasks):
        rows = (frame.site == name).to_numpy()
        assert (result.examples[i], result.missed[i]) == (rows.sum(), missed[rows].sum())
        sizes = sets[rows].sum(axis=1)
        assert result.sizes[i] == sizes.mean()
        found = [column[i] for column in result.sets]
        assert found == [sizes.sum(), (sizes == 0).sum(), (sizes == 1).sum(), (sizes == 3).sum()]
        ends = stats.binomtest(int(result.missed[i]), int(result.examples[i])).proportion_ci()
        assert (result.low[i], result.high[i]) == pytest.approx((ends.low, ends.high))
    for part in result.classes:
        rows = (frame.y == part.label).to_numpy() & new
        assert (part.examples, part.missed) == (rows.sum(), missed[rows].sum())
        ends = stats.binomtest(part.missed, part.examples).proportion_ci()
        assert (part.low, part.high) == pytest.approx((ends.low, ends.high))
    expected = judge(result.examples, result.missed, epsilon=0.3, alpha=0.4, delta=0.3)
    assert result.verdict.p_holds == expected.p_holds
    sizes, kinds = sets[new].sum(axis=1), {"empty": 0, "single": 1, "full": 3}
    shares = {kind: np.mean(sizes == size) for kind, size in kinds.items()}
    assert result.set_shares == pytest.approx(shares)
    # Scores of true labels alone have no sizes, and without labels no classes either.
    alone = evaluate(promise, get_true_scores(frame), frame.site)
    assert alone.missed.tolist() == result.missed.tolist()
    assert (alone.sizes, alone.sets, alone.classes, alone.set_shares) == (None,) * 4
    labelled = evaluate(promise, get_true_scores(frame), frame.site, frame.y)
    assert (labelled.sizes, labelled.classes) == (None, result.classes)


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3])
def test_a_class_is_above_by_the_one_sided_limit_of_verdicts(epsilon: float) -> None:
    apart = 0
    for missed in range(61):
        low, high = stats.binomtest(missed, 60).proportion_ci()
        part = ClassMisses("a", 60, missed, low, high)
        verdict = judge([60], [missed], epsilon=epsilon, alpha=0.1, delta=0.1)
        chance = stats.binom.sf(missed - 1, 60, epsilon)  # of as many misses, or more
        assert part.is_above(epsilon) == (chance <= 0.05) == (verdict.flagged == 1)
        apart += part.is_above(epsilon) and low <= epsilon
    assert apart  # the two-sided interval would call fewer of them above


@pytest.mark.parametrize("per_class", [False, True])
def test_rounding_is_that_of_the_sets(per_class: bool) -> None:
    promise = calibrate(per_class=per_class)
    cut = np.float32(promise.threshold_of("cat"))
    scores = np.array([cut, np.nextafter(cut, np.float32(-1))])
    result = evaluate(promise, scores, ["a", "b"], ["cat", "cat"])
    assert result.missed.tolist() == [0, 1]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"labels": None}, "labels"),
    ({"labels": ["cat"]}, "same length"),
    ({"labels": ["fox", "cat"]}, "'fox'"),
    ({"tasks": ["a"]}, "same length"),
    ({"tasks": None}, "tasks"),
    ({"scores": [[0.1, np.nan, 0], [0, 0, 0]]}, "NaN"),
    ({"classes": ["cat", "dog"]}, "classes"),
    ({"clusters": ["x"]}, "clusters"),
    ({"min_examples": 1.5}, "min_examples"),
    ({"min_examples": 9}, "at least 9 examples"),
    ({"false_alarm": 0.6}, "false_alarm"),
    ({"allow": ["typo"]}, "'typo'"),
    ({"model": "another"}, "'another'"),
    ({"tasks": ["known 1"] * 2}, "allow=('overlap',"),
    (
        {"promise": calibrate(per_class=True), "scores": [1.0] * 2, "labels": None}
        | {"classes": None},
        "labels",
    ),
]


def test_bad_input() -> None:
    """The error names the parameter, or at least has a word of it."""
    promise = calibrate(context=Context(model="ours"))
    arguments: dict[str, Any] = {"promise": promise, "scores": [[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]}
    arguments |= {"tasks": ["a", "known 1"], "labels": ["cat", "dog"], "classes": CLASSES}
    assert evaluate(**arguments).tasks.tolist() == ["a"]
    assert evaluate(**arguments, allow=["overlap"]).tasks.tolist() == ["a", "known 1"]
    for changes, word in BAD:
        with pytest.raises(InvalidInput) as raised:
            evaluate(**arguments | changes)
        assert raised.value.parameters == (word,) or word in str(raised.value)


def test_arrays_are_checked_as_tables_are() -> None:
    rng = np.random.default_rng(2)
    labels, tasks = rng.integers(2, size=2000), np.repeat([f"new {i}" for i in range(20)], 100)
    score = rng.beta(1 + 2 * labels, 3 - 2 * labels)
    scores = np.stack([1 - score, score], axis=1)
    odd = np.where(np.arange(2000) % 2, np.char.add(tasks, " "), tasks)
    for check, *data in (
        ("percentages", 100 * scores, tasks, labels),
        ("duplicates", np.tile(scores, (2, 1)), np.tile(tasks, 2), np.tile(labels, 2)),
        ("direction", scores[:, ::-1], tasks, labels),
        ("task-names", scores, odd, labels),
    ):
        assert evaluate(calibrate(), *data, allow=[check]).verdict is not None
        with pytest.raises(InvalidInput, match=f"allow=\\('{check}',\\)"):
            evaluate(calibrate(), *data)
    assert evaluate(calibrate(), scores, tasks, labels).verdict is not None


def test_a_task_without_a_class_counts_against_holds() -> None:
    promise = calibrate(per_class=True)
    sites, labels = np.repeat([f"s{i}" for i in range(30)], 60), np.tile(CLASSES, 600)
    few = ~((sites < "s2") & (labels == "owl"))  # s0, s1 and s10 to s19 lack owls
    scores = np.random.default_rng(2).uniform(0.9, 1, few.sum())
    result: Any = evaluate(promise, scores, sites[few], labels[few])
    parts = result.verdict.by_class
    tasks = {label: (part.tasks, part.within) for label, part in parts.items()}
    assert tasks == {"cat": (30, 30), "dog": (30, 30), "owl": (30, 18)}
    assert parts["cat"].status == "holds"
    assert len(result.by_class["owl"].tasks) == 18


def test_a_task_that_is_small_in_every_class_is_left_out() -> None:
    promise = calibrate(per_class=True)
    sizes = {("a", "cat"): 9, ("a", "dog"): 2, ("b", "cat"): 3, ("b", "owl"): 4, ("c", "owl"): 5}
    tasks, labels = zip(*[key for key, n in sizes.items() for _ in range(n)], strict=True)
    scores = np.random.default_rng(0).random(len(tasks))
    result: Any = evaluate(promise, scores, tasks, labels, min_examples=5)
    assert (result.tasks.tolist(), result.examples.tolist()) == (["a", "c"], [11, 5])
    assert (result.left_out, result.min_examples) == (1, 5)
    parts = {label: part.tasks.tolist() for label, part in result.by_class.items()}
    assert parts == {"cat": ["a"], "dog": [], "owl": ["c"]}
    assert [part.examples for part in result.classes] == [9, 0, 5]
    assert len(result.to_frame()) == 2
    assert {row["class"] for row in result.worst()} == {"cat", "owl"}
    whole: Any = evaluate(calibrate(), scores, tasks, labels, min_examples=7)
    assert (whole.left_out, [part.examples for part in whole.classes]) == (1, [12, 2, 4])
    assert "1 task left out" in repr(whole)


def test_a_neglected_class_is_reported() -> None:
    promise = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 101))
    labels = np.array(["no"] * 950 + ["yes"] * 50)
    for count, neglected in ((1000, ["yes"]), (951, [])):  # one miss of one shows nothing
        result: Any = evaluate(
            promise, [[0.9, 0.0]] * count, ["a"] * count, labels[:count], classes=["no", "yes"]
        )
        assert [part.label for part in result.neglected] == neglected
        assert result.verdict.status == "holds"
        assert ("yes in 50 of 50 examples (100%)" in str(result)) == (count == 1000)
        assert html.unescape(result._repr_html_()) == f"<pre>{result}</pre>"


def test_the_worst_tasks_have_the_strongest_evidence() -> None:
    promise = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 101))
    counts = {"tiny": (2, 2), "large": (300, 1000), "good": (0, 1000), "small": (1, 2)}
    tasks = np.concatenate([[name] * n for name, (_k, n) in counts.items()])
    scores = np.concatenate([np.arange(n) >= k for k, n in counts.values()]).astype(float)
    result = evaluate(promise, scores, tasks)
    assert [row["task"] for row in result.worst()] == ["large", "tiny", "small", "good"]
    expected = {"task": "tiny", "examples": 2, "missed": 2, "error": 1.0, "high": 1.0}
    assert result.worst(2)[1:] == [{"low": result.worst()[1]["low"]} | expected]
