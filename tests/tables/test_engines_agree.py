"""Every engine gives the numbers of the arrays: one table, every question."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest

from metapac import (
    MetaPS,
    Monitor,
    answers,
    compare_scores,
    evaluate,
    explore,
    label_lists,
    make_site,
    residual_scores,
    summarise_sets,
)
from tests.helpers.engines import ENGINES, as_if_large, put
from tests.helpers.tables import (
    calibrate_table,
    compare,
    evaluate_table,
    explore_table,
    monitor_table,
    open_scores,
    predict_table,
    site_table,
    summarise_table,
)

NASTY = ["it's", 'say "x"', "a,b;c\td", "line\nbreak", "\N{DOG}\N{ZERO WIDTH JOINER}", "é", "%_*?[",
         "\\", " ", "NULL", "007", "70", "7:30", "0:a"]  # fmt: skip
CLASSES = ["ill", "a:b", 'say "x"']
COLUMNS = [f"p_{name}" for name in CLASSES]
MANY = [*CLASSES, *(f"c{i}" for i in range(50))]  # more than are handled one by one
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
EACH: dict[str, Any] = {
    "epsilon": {"ill": 0.4, "a:b": 0.3, 'say "x"': 0.2},
    "alpha": 0.4,
    "delta": 0.5,
    "per_class": True,
    "on_infeasible": "trivial",
}
BY_LABEL: dict[str, Any] = {"task": "task", "label": "y"}
NUMBERS: dict[str, Any] = {"prediction": "guess", "y": "truth", "scale": "sd"}


def make(word: str, count: int = 40, size: int = 60, seed: int = 0) -> pd.DataFrame:
    """Return tasks with odd names, ties, infinities, a rare class and one that some tasks lack."""
    rng = np.random.default_rng(seed)
    names = [word + name for name in [*NASTY, *(f"site {i}" for i in range(count))][:count]]
    rows = count * size
    task = np.repeat(np.array(names, dtype=object), size)
    odd = (rng.random(rows) < 0.4) & np.repeat(rng.random(count) < 0.7, size)
    code = np.select([rng.random(rows) < 0.05, odd], [0, 1], 2)
    scores = rng.normal(size=(rows, 3)) + 2 * np.eye(3)[code]
    scores[::7] = np.round(scores[::7])
    scores[::41, 0], scores[5::43, 1] = -np.inf, np.inf
    guess = rng.normal(size=rows) * 10.0 ** rng.integers(-8, 9, rows)
    sd = np.exp(rng.normal(size=rows)) * 10.0 ** rng.integers(-3, 4, rows)
    frame = pd.DataFrame({"task": task, "y": np.array(CLASSES, dtype=object)[code]})
    frame[COLUMNS] = scores
    frame["true"] = scores[np.arange(rows), code]
    frame["home"] = [f"{word}home {i // 2}" for i in np.repeat(np.arange(count), size)]
    frame = frame.assign(guess=guess, sd=sd, truth=guess + sd * rng.normal(size=rows))
    frame = frame.iloc[rng.permutation(rows)].reset_index(drop=True)
    return frame.assign(id=np.arange(rows))


def add_lists(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of each row as a list, and one of different length beside its names."""
    scores = frame[COLUMNS].to_numpy()
    rng = np.random.default_rng(0)
    order = [[int(i) for i in rng.permutation(3)] for _ in range(len(frame))]
    pairs = zip(order, frame.y, strict=True)
    keep = [[i for i in one if i < 2 or CLASSES[i] == label] for one, label in pairs]
    some = frame[["task", "y", "true", "id"]]
    return some.assign(
        scores=scores.tolist(),
        short=[scores[i, one].tolist() for i, one in enumerate(keep)],
        names=[[CLASSES[i] for i in one] for one in keep],
    )


KNOWN, NEW = make("old "), make("new ", seed=1)
LISTS, NEW_LISTS = add_lists(KNOWN), add_lists(NEW)
WIDE = pd.concat([NEW, pd.DataFrame({f"p_{name}": -1.0 for name in MANY[3:]}, NEW.index)], axis=1)


def promise(**changes: Any) -> MetaPS:
    method = MetaPS(**LEVELS | changes)
    labels = KNOWN.y.to_numpy() if changes.get("per_class") else None
    return method.calibrate(KNOWN.true.to_numpy(), KNOWN.task.to_numpy(), labels)


BASE, PER_CLASS = promise(), promise(**EACH)
RESIDUALS = MetaPS(**LEVELS).calibrate(
    residual_scores(KNOWN.truth, KNOWN.guess, KNOWN.sd), KNOWN.task.to_numpy()
)


def evidence(found: MetaPS) -> Any:
    """Return what was calibrated, with tasks by name and classes in one order."""
    data = found._evidence
    tasks = np.argsort(data.names, kind="stable")
    classes = [0] if data.classes is None else [data.classes.index(name) for name in CLASSES]
    thresholds = found.thresholds_[classes] if data.classes else found.threshold_
    names = None if found.clusters_ is None else sorted(found.clusters_.tolist())
    assert data.highest is not None
    ends = data.lowest[classes].tolist(), data.highest[classes].tolist()
    by_task = data.sizes[tasks][:, classes].tolist(), data.thresholds[tasks][:, classes].tolist()
    return data.names[tasks].tolist(), np.array(thresholds).tolist(), names, ends, by_task


def sets(table: Any, **options: Any) -> list[list[str]]:
    rows = predict_table(options.pop("promise", BASE), table, **options).to_pandas()
    found = rows.sort_values("id")["set"]
    return [json.loads(one) if isinstance(one, str) else list(one) for one in found]


def column(table: Any, name: str, **options: Any) -> list[Any]:
    rows = predict_table(options.pop("promise", BASE), table, **options).to_pandas()
    return [None if pd.isna(one) else one for one in rows.sort_values("id")[name]]


def counts(found: Any) -> Any:
    sizes = None if found.sets is None else [one.tolist() for one in found.sets]
    each = [(part.label, part.examples, part.missed) for part in found.classes or ()]
    return found.tasks.tolist(), found.missed.tolist(), found.examples.tolist(), sizes, sorted(each)


def arrays(frame: pd.DataFrame, method: MetaPS = BASE, **more: Any) -> Any:
    labels = frame.y.to_numpy()
    return evaluate(method, frame[COLUMNS].to_numpy(), frame.task.to_numpy(), labels,
                    classes=CLASSES, **more)  # fmt: skip


def estimates(found: Any) -> list[list[float]]:
    return [
        [cell.tasks, *cell.thresholds, cell.size.value, cell.empty.value, cell.full.value]
        + [value for each in cell.missed.values() for value in (each.low, each.value, each.high)]
        for cell in found.cells
    ]


def kept(method: MetaPS = BASE) -> Any:
    """Return which labels the arrays keep, with columns in the order of ``CLASSES``."""
    order = [*range(3)] if method.classes_ is None else [CLASSES.index(x) for x in method.classes_]
    found = np.empty((len(NEW), 3), bool)
    found[:, order] = method.predict_set(NEW[COLUMNS].to_numpy()[:, order])
    return found


def site_of(found: Any) -> Any:
    return found.examples, found.thresholds, found.classes


LEVELS_TRIED: dict[str, Any] = {"epsilon": [0.1, 0.3], "alpha": [0.3], "delta": 0.2, "n_tasks": 40}
# A question: which frame, what to ask its table, and what the arrays answer.
Question = tuple[pd.DataFrame, Callable[[Any], Any], Callable[[], Any]]
QUESTIONS: dict[str, Question] = {
    "calibrate: scores": (
        KNOWN,
        lambda t: evidence(calibrate_table(t, task="task", score="true", **LEVELS)),
        lambda: evidence(BASE),
    ),
    "calibrate: labels": (
        KNOWN,
        lambda t: evidence(calibrate_table(t, **BY_LABEL, **LEVELS)),
        lambda: evidence(BASE),
    ),
    "calibrate: each class": (
        KNOWN,
        lambda t: evidence(calibrate_table(t, **BY_LABEL, **EACH)),
        lambda: evidence(PER_CLASS),
    ),
    "calibrate: each class, scores": (
        KNOWN,
        lambda t: evidence(calibrate_table(t, **BY_LABEL, score="true", **EACH)),
        lambda: evidence(PER_CLASS),
    ),
    "calibrate: clusters": (
        KNOWN,
        lambda t: evidence(
            calibrate_table(t, task="task", score="true", cluster="home", rng=4, **LEVELS)
        ),
        lambda: evidence(
            MetaPS(**LEVELS).calibrate(KNOWN.true, KNOWN.task, clusters=KNOWN.home, rng=4)
        ),
    ),
    "calibrate: numbers": (
        KNOWN,
        lambda t: evidence(calibrate_table(t, task="task", **NUMBERS, **LEVELS)),
        lambda: evidence(RESIDUALS),
    ),
    "calibrate: lists": (
        LISTS,
        lambda t: evidence(
            calibrate_table(t, **BY_LABEL, columns="scores", classes=CLASSES, **LEVELS)
        ),
        lambda: evidence(BASE),
    ),
    "calibrate: lists with names": (
        LISTS,
        lambda t: evidence(
            calibrate_table(t, **BY_LABEL, columns="short", classes_column="names", **LEVELS)
        ),
        lambda: evidence(BASE),
    ),
    "sizes": (
        KNOWN,
        lambda t: open_scores(t, {"task": "task"}).sizes()[None].tolist(),
        lambda: [60] * 40,
    ),
    "sizes: each class": (
        KNOWN,
        lambda t: {
            name: sizes.tolist()
            for name, sizes in open_scores(t, dict(BY_LABEL)).sizes(by_class=True).items()
        },
        lambda: {
            name: sorted((KNOWN.y == name).groupby(KNOWN.task).sum().tolist()) for name in CLASSES
        },
    ),
    "site": (
        KNOWN,
        lambda t: site_of(site_table(t, name="a", label="y", **LEVELS)),
        lambda: site_of(make_site(MetaPS(**LEVELS), KNOWN.true, name="a")),
    ),
    "predict: sets": (NEW, sets, lambda: label_lists(kept(), CLASSES)),
    "predict: many classes": (
        WIDE,
        lambda t: [[x for x in one if x in CLASSES] for one in sets(t, classes=MANY)],
        lambda: label_lists(kept(), CLASSES),
    ),
    "predict: each class": (
        NEW,
        lambda t: sets(t, promise=PER_CLASS, classes=CLASSES),
        lambda: label_lists(kept(PER_CLASS), CLASSES),
    ),
    "predict: lists": (
        NEW_LISTS,
        lambda t: sets(t, columns="scores", classes=CLASSES),
        lambda: label_lists(kept(), CLASSES),
    ),
    "predict: lists with names": (
        NEW_LISTS,
        lambda t: sets(t, columns="short", classes_column="names"),
        lambda: [
            [n for n, x in zip(names, scores, strict=True) if x >= BASE.threshold_]
            for names, scores in zip(NEW_LISTS.names, NEW_LISTS.short, strict=True)
        ],
    ),
    "predict: booleans": (
        NEW,
        lambda t: [*map(bool, column(t, "in_a:b", booleans=True))],
        lambda: kept()[:, 1].tolist(),
    ),
    "predict: answers": (
        NEW,
        lambda t: column(t, "answer", answer=True),
        lambda: answers(kept(), CLASSES).labels,
    ),
    "predict: answers of many": (
        WIDE,
        lambda t: column(t, "answer", answer=True, classes=MANY, allow=["sets"]),
        lambda: answers(kept(), CLASSES).labels,
    ),
    "predict: intervals": (
        NEW,
        lambda t: column(t, "lower", promise=RESIDUALS, prediction="guess", scale="sd"),
        lambda: RESIDUALS.predict_interval(NEW.guess, NEW.sd)[:, 0].tolist(),
    ),
    "summarise": (
        NEW,
        lambda t: summarise_table(BASE, t).by_class,
        lambda: summarise_sets(kept(), CLASSES).by_class,
    ),
    "evaluate": (
        NEW,
        lambda t: counts(evaluate_table(BASE, t, **BY_LABEL)),
        lambda: counts(arrays(NEW)),
    ),
    "evaluate: each class": (
        NEW,
        lambda t: counts(evaluate_table(PER_CLASS, t, **BY_LABEL)),
        lambda: counts(
            evaluate(
                PER_CLASS,
                NEW[[f"p_{name}" for name in PER_CLASS.classes_ or ()]].to_numpy(),
                NEW.task,
                NEW.y,
            )
        ),
    ),
    "evaluate: lists": (
        NEW_LISTS,
        lambda t: counts(evaluate_table(BASE, t, **BY_LABEL, columns="scores", classes=CLASSES)),
        lambda: counts(arrays(NEW)),
    ),
    "evaluate: numbers": (
        NEW,
        lambda t: evaluate_table(RESIDUALS, t, task="task", **NUMBERS).missed.tolist(),
        lambda: evaluate(
            RESIDUALS, residual_scores(NEW.truth, NEW.guess, NEW.sd), NEW.task
        ).missed.tolist(),
    ),
    "explore": (
        NEW,
        lambda t: estimates(explore_table(t, **BY_LABEL, **LEVELS_TRIED)),
        lambda: [
            pytest.approx(cell)
            for cell in estimates(
                explore(NEW[COLUMNS].to_numpy(), NEW.task, NEW.y, classes=CLASSES, **LEVELS_TRIED)
            )
        ],
    ),
    "monitor": (
        NEW,
        lambda t: _watch(lambda monitor: monitor_table(monitor, t, **BY_LABEL, columns="p_*")),
        lambda: _watch(lambda monitor: monitor.add(NEW.true.to_numpy(), NEW.task.to_numpy())),
    ),
    "drift": (
        NEW,
        lambda t: _shifts(compare(BASE, t, KNOWN.replace([np.inf, -np.inf], 0), task="task")),
        lambda: _shifts(
            compare_scores(
                NEW[COLUMNS], NEW.task, reference=KNOWN[COLUMNS].replace([np.inf, -np.inf], 0),
                reference_tasks=KNOWN.task,
            )
        ),
    ),
}  # fmt: skip


def _watch(add: Callable[[Monitor], Any]) -> Any:
    monitor = Monitor(BASE)
    add(monitor)
    return monitor.course, monitor.status


def _shifts(found: Any) -> list[Any]:
    return [(one.task, one.examples, pytest.approx(one.higher, abs=0.005)) for one in found.shifts]


@pytest.fixture(scope="module", params=ENGINES)
def tables(request: pytest.FixtureRequest) -> Callable[[pd.DataFrame], Any]:
    """Return what puts a frame into an engine, once."""
    known: dict[int, Any] = {}
    engine = str(request.param)

    def put_once(frame: pd.DataFrame) -> Any:
        if engine == "sqlite" and "short" in frame:
            pytest.skip("SQLite has no lists")
        if id(frame) not in known:
            known[id(frame)] = put(engine, frame)
        return known[id(frame)]

    return put_once


SEARCHED = [name for name in QUESTIONS if name.startswith(("calibrate", "site", "explore"))]
CASES = [(name, "small") for name in QUESTIONS] + [(name, "large") for name in SEARCHED]


@pytest.mark.filterwarnings("ignore::UserWarning")  # the data are odd on purpose
@pytest.mark.parametrize(("question", "size"), CASES)
def test_the_answer_is_that_of_the_arrays(tables: Any, question: str, size: str) -> None:
    frame, ask, expected = QUESTIONS[question]
    table = tables(frame)
    with as_if_large() if size == "large" else nullcontext():
        assert ask(table) == expected()
