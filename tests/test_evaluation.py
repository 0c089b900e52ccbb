"""Guarantees compared with labelled new tasks: counts, verdicts, what they rest on and show."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from metapac import (
    PS,
    Columns,
    Context,
    InvalidInput,
    MetaPS,
    evaluate,
    judge,
    open_table,
)
from metapac.evaluation import ClassMisses, Evaluation
from tests.helpers.tables import evaluate_table

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
    result = run(promise, frame)
    sets = promise.predict_set(get_scores(frame))
    missed = ~promise.predict_set(get_true_scores(frame))
    new = (frame.site != "known 3").to_numpy()
    assert result.tasks.tolist() == ["a", "b", "d"]
    assert result.overlap == ("known 3",)
    for i, name in enumerate(result.tasks):
        rows = (frame.site == name).to_numpy()
        assert result.examples[i] == rows.sum()
        assert result.missed[i] == missed[rows].sum()
        sizes = sets[rows].sum(axis=1)
        assert result.sizes is not None
        assert result.sizes[i] == sizes.mean()
        assert result.sets is not None
        found = [column[i] for column in result.sets]
        assert found == [sizes.sum(), (sizes == 0).sum(), (sizes == 1).sum(), (sizes == 3).sum()]
        ends = stats.binomtest(int(result.missed[i]), int(result.examples[i])).proportion_ci()
        assert (result.low[i], result.high[i]) == pytest.approx((ends.low, ends.high))
    assert result.classes is not None
    for part in result.classes:
        rows = (frame.y == part.label).to_numpy() & new
        assert (part.examples, part.missed) == (rows.sum(), missed[rows].sum())
        ends = stats.binomtest(part.missed, part.examples).proportion_ci()
        assert (part.low, part.high) == pytest.approx((ends.low, ends.high))
    body = result.to_dict()["classes"]
    assert [part["missed"] for part in body] == [part.missed for part in result.classes]
    assert {*body[0]} == {"class", "examples", "missed", "error", "low", "high"}
    assert result.verdict is not None
    expected = judge(result.examples, result.missed, epsilon=0.3, alpha=0.4, delta=0.3)
    assert result.verdict.p_holds == expected.p_holds
    shares = result.set_shares
    assert shares is not None
    sizes = sets[new].sum(axis=1)
    assert shares == pytest.approx(
        {
            k: np.mean(sizes == n)
            for k, n in zip(("empty", "single", "full"), (0, 1, 3), strict=True)
        }
    )


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3])
def test_a_class_is_above_by_the_one_sided_limit_of_verdicts(epsilon: float) -> None:
    apart = 0
    for missed in range(61):
        low, high = stats.binomtest(missed, 60).proportion_ci()
        part = ClassMisses("a", 60, missed, low, high)
        chance = stats.binom.sf(missed - 1, 60, epsilon)  # of as many misses, or more
        assert part.is_above(epsilon) == (chance <= 0.05)
        verdict = judge([60], [missed], epsilon=epsilon, alpha=0.1, delta=0.1)
        assert part.is_above(epsilon) == (verdict.flagged == 1)
        apart += part.is_above(epsilon) and low <= epsilon
    assert apart  # the two-sided interval would call fewer of them above


def test_scores_of_true_labels_alone_have_neither_sizes_nor_classes(frame: pd.DataFrame) -> None:
    promise = calibrate()
    result = evaluate(promise, get_true_scores(frame), frame.site)
    assert result.missed.tolist() == run(promise, frame).missed.tolist()
    assert (result.sizes, result.sets, result.classes, result.set_shares) == (None,) * 4
    with_labels = evaluate(promise, get_true_scores(frame), frame.site, frame.y)
    assert with_labels.classes == run(promise, frame).classes
    assert with_labels.sizes is None


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
    ({"scores": [0.5, np.nan], "classes": None, "labels": None}, "NaN"),
    ({"classes": ["cat", "dog"]}, "classes"),
    ({"clusters": ["x"]}, "clusters"),
    ({"min_examples": -1}, "min_examples"),
    ({"min_examples": 1.5}, "min_examples"),
    ({"min_examples": 9}, "at least 9 examples"),
    ({"false_alarm": 0.6}, "false_alarm"),
    ({"false_alarm": 0}, "false_alarm"),
    ({"allow": ["typo"]}, "'typo'"),
    ({"model": "another"}, "'another'"),
    ({"promise": calibrate(per_class=True), "scores": [1.0] * 2, "labels": None}, "labels"),
]


@pytest.mark.parametrize(("changes", "word"), BAD)
def test_bad_input(changes: dict[str, Any], word: str) -> None:
    """The error names the parameter, or at least has a word of it."""
    promise = calibrate(context=Context(model="ours"))
    arguments: dict[str, Any] = {"promise": promise, "scores": [[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]]}
    arguments |= {"tasks": ["a", "b"], "labels": ["cat", "dog"], "classes": CLASSES}
    assert evaluate(**arguments).tasks.tolist() == ["a", "b"]
    if "promise" in changes:
        arguments |= {"classes": None}
    with pytest.raises(InvalidInput) as raised:
        evaluate(**arguments | changes)
    assert raised.value.parameters == (word,) or word in str(raised.value)


def percentages(part: dict[str, Any]) -> dict[str, Any]:
    return part | {"scores": 100 * part["scores"]}


def twice(part: dict[str, Any]) -> dict[str, Any]:
    return {name: np.concatenate([values, values]) for name, values in part.items()}


def reversed_(part: dict[str, Any]) -> dict[str, Any]:
    return part | {"scores": part["scores"][:, ::-1]}


def spaces(part: dict[str, Any]) -> dict[str, Any]:
    odd = np.arange(len(part["tasks"])) % 2 == 1
    return part | {"tasks": np.where(odd, np.char.add(part["tasks"], " "), part["tasks"])}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (percentages, "percentages"),
        (twice, "duplicates"),
        (reversed_, "direction"),
        (spaces, "task-names"),
    ],
)
def test_arrays_are_checked_as_tables_are(change: Any, check: str) -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(2, size=2000)
    score = rng.beta(1 + 2 * labels, 3 - 2 * labels)
    tasks = np.repeat([f"new {i}" for i in range(20)], 100)
    good: dict[str, Any] = {
        "scores": np.stack([1 - score, score], axis=1),
        "tasks": tasks,
        "labels": labels,
    }
    promise = calibrate()
    assert evaluate(promise, **good).verdict is not None
    with pytest.raises(InvalidInput, match=f"allow=\\('{check}',\\)"):
        evaluate(promise, **change(good))
    table = as_table(change(good))
    with pytest.raises(InvalidInput, match=f"allow=\\('{check}',\\)"):
        evaluate_table(promise, table, task="task", label="y", columns="p_*")
    assert evaluate(promise, **change(good), allow=[check]).verdict is not None


def as_table(part: dict[str, Any]) -> pd.DataFrame:
    """Return the same examples as a table."""
    columns = {"task": part["tasks"], "y": part["labels"]}
    return pd.DataFrame(columns | {f"p_{i}": part["scores"][:, i] for i in range(2)})


def test_each_class_has_its_verdict(frame: pd.DataFrame) -> None:
    epsilon = {"cat": 0.3, "dog": 0.4, "owl": 0.5}
    promise = calibrate(epsilon=epsilon, per_class=True)
    result = run(promise, frame, false_alarm=0.15)
    assert result.by_class is not None
    assert result.verdict is not None
    assert result.verdict.by_class is not None
    for label, part in result.by_class.items():
        alone = judge(
            part.examples,
            part.missed,
            epsilon=epsilon[label],
            alpha=0.4,
            delta=0.1,
            false_alarm=0.05,
        )
        assert result.verdict.by_class[label].p_holds == alone.p_holds
        assert part.verdict is None
    assert result.classes is not None
    assert [part.label for part in result.classes] == CLASSES
    assert result.neglected == []
    by_score = evaluate(promise, get_true_scores(frame), frame.site, frame.y)
    assert by_score.missed.tolist() == result.missed.tolist()


def test_a_task_without_a_class_counts_against_holds() -> None:
    promise = calibrate(per_class=True)
    sites, labels = np.repeat([f"s{i}" for i in range(30)], 60), np.tile(CLASSES, 600)
    few = ~((sites < "s2") & (labels == "owl"))  # s0, s1 and s10 to s19 lack owls
    scores = np.random.default_rng(2).uniform(0.9, 1, few.sum())
    result = evaluate(promise, scores, sites[few], labels[few])
    assert result.verdict is not None
    assert result.verdict.by_class is not None
    tasks = {label: part.tasks for label, part in result.verdict.by_class.items()}
    assert tasks == {"cat": 30, "dog": 30, "owl": 30}
    assert result.verdict.by_class["cat"].status == "holds"
    assert result.verdict.by_class["owl"].within == 18
    assert result.by_class is not None
    assert len(result.by_class["owl"].tasks) == 18


def test_intervals_have_a_mean_width() -> None:
    rng = np.random.default_rng(0)
    numbers = pd.DataFrame({"site": np.repeat(np.arange(40), 50), "y": rng.normal(size=2000)})
    numbers["guess"] = numbers.y + 0.1 * rng.normal(size=2000)
    numbers["sd"] = rng.uniform(1, 2, 2000)
    columns = Columns(task="site", prediction="guess", y="y", scale="sd")
    promise = MetaPS(epsilon=0.2, alpha=0.3, delta=0.1).calibrate(open_table(numbers, columns))
    new = numbers.assign(site=numbers.site % 2 + 100, guess=numbers.guess + 1e-3)
    result = evaluate(promise, open_table(new))
    widths = new.groupby("site").sd.mean() * 2 * -promise.threshold_
    assert result.widths is not None
    assert result.widths.tolist() == pytest.approx(widths.tolist(), rel=1e-9)
    assert (result.sizes, result.sets) == (None, None)
    assert result.to_frame().width.tolist() == result.widths.tolist()


def test_a_task_that_is_small_in_every_class_is_left_out() -> None:
    promise = calibrate(per_class=True)
    sizes = {("a", "cat"): 9, ("a", "dog"): 2, ("b", "cat"): 3, ("b", "owl"): 4, ("c", "owl"): 5}
    tasks = [task for (task, _label), n in sizes.items() for _ in range(n)]
    labels = [label for (_task, label), n in sizes.items() for _ in range(n)]
    scores = np.random.default_rng(0).random(len(tasks))
    result = evaluate(promise, scores, tasks, labels, min_examples=5)
    assert (result.tasks.tolist(), result.examples.tolist()) == (["a", "c"], [11, 5])
    assert result.left_out == 1
    assert result.by_class is not None
    parts = {label: part.tasks.tolist() for label, part in result.by_class.items()}
    assert parts == {"cat": ["a"], "dog": [], "owl": ["c"]}
    assert [part.examples for part in result.classes or ()] == [9, 0, 5]
    assert len(result.to_frame()) == 2
    assert {row["class"] for row in result.worst()} == {"cat", "owl"}


def test_small_tasks_can_be_left_out(frame: pd.DataFrame) -> None:
    sizes = frame.groupby("site").size().drop("known 3")
    result = run(calibrate(), frame, min_examples=int(sizes.max()))
    assert (len(result.tasks), result.left_out, result.min_examples) == (1, 2, sizes.max())
    assert result.classes is not None
    assert sum(part.examples for part in result.classes) == sizes.max()
    assert "2 tasks left out" in repr(result)
    with pytest.raises(InvalidInput, match="999"):
        run(calibrate(), frame, min_examples=999)


def test_calibration_tasks_are_not_new(frame: pd.DataFrame) -> None:
    old = frame.assign(site="known 1")
    message = r"'known 1'.*allow=\('overlap',"
    with pytest.raises(InvalidInput, match=message):
        run(calibrate(), old)
    result = run(calibrate(), old, allow=["overlap"])
    assert (result.tasks.tolist(), result.overlap) == (["known 1"], ())


def test_a_neglected_class_is_reported() -> None:
    promise = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 101))
    labels = np.array(["no"] * 950 + ["yes"] * 50)
    scores = np.where((labels == "no")[:, None], [0.9, 0.0], [0.9, 0.0])
    result = evaluate(promise, scores, np.repeat(["a", "b"], 500), labels, classes=["no", "yes"])
    assert [part.label for part in result.neglected] == ["yes"]
    few = np.r_[0:950, 950]  # one miss of one shows nothing
    alone = evaluate(
        promise, scores[few], np.array(["a"] * 951), labels[few], classes=["no", "yes"]
    )
    assert alone.neglected == []
    assert result.verdict is not None
    assert result.verdict.status == "holds"
    assert "yes in 50 of 50 examples (100%)" in str(result)
    assert html.unescape(result._repr_html_()) == f"<pre>{result}</pre>"


def test_the_worst_tasks_have_the_strongest_evidence() -> None:
    promise = PS(epsilon=0.1, delta=0.1).calibrate(np.linspace(0, 1, 101))
    counts = {"tiny": (2, 2), "large": (300, 1000), "good": (0, 1000), "small": (1, 2)}
    tasks = np.concatenate([[name] * n for name, (_k, n) in counts.items()])
    scores = np.concatenate([np.arange(n) >= k for k, n in counts.values()]).astype(float)
    result = evaluate(promise, scores, tasks)
    assert [row["task"] for row in result.worst()] == ["large", "tiny", "small", "good"]
    assert [row["task"] for row in result.worst(1)] == ["large"]
    assert result.worst(2)[1] | {"low": 0} == {
        "task": "tiny",
        "examples": 2,
        "missed": 2,
        "error": 1.0,
        "low": 0,
        "high": 1.0,
    }


def test_the_frame_and_the_figure(frame: pd.DataFrame, tmp_path: Path) -> None:
    result = run(calibrate(), frame)
    table = result.to_frame()
    assert table.task.tolist() == ["a", "b", "d"]
    assert (table.missed / table.examples).tolist() == table.error.tolist()
    figure = result.plot(tmp_path / "tasks.png")
    assert (tmp_path / "tasks.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure.axes) == 3
