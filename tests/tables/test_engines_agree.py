"""Every engine gives the numbers of the arrays: one table, every question; and any scores."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import metapac as mp
from metapac.tables import data_checks
from metapac.tables import sets as table_sets
from metapac.tables.sources import Source
from tests.helpers.engines import ENGINES, as_if_large, connection, put
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
QUANTILES: dict[str, Any] = {"lower": "low", "upper": "high"}


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
    unit = np.minimum(np.tile(np.arange(size), count) // 3, 15)  # of 3 rows, and the last of more
    frame["unit"] = np.array([name + str(i) for i, name in enumerate([*NASTY, "x", "y"])])[unit]
    frame = frame.assign(guess=guess, sd=sd, truth=guess + sd * rng.normal(size=rows))
    crossed = np.where(np.arange(rows) % 5, 4, -2)
    frame = frame.assign(low=guess - sd, high=guess + crossed * sd)
    frame = frame.iloc[rng.permutation(rows)].reset_index(drop=True)
    return frame.assign(id=np.arange(rows))


def add_lists(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of each row as a list, and one of different length beside its names."""
    scores = frame[COLUMNS].to_numpy()
    rng = np.random.default_rng(0)
    order = [[int(i) for i in rng.permutation(3)] for _ in range(len(frame))]
    pairs = zip(order, frame.y, strict=True)
    keep = [[i for i in one if i < 2 or CLASSES[i] == label] for one, label in pairs]
    some = frame[["task", "y", "true", "unit", "id"]]
    return some.assign(
        scores=scores.tolist(),
        short=[scores[i, one].tolist() for i, one in enumerate(keep)],
        names=[[CLASSES[i] for i in one] for one in keep],
        place=[[CLASSES[i] for i in one].index(y) for one, y in zip(keep, frame.y, strict=True)],
    )


KNOWN, NEW = make("old "), make("new ", seed=1)
LISTS, NEW_LISTS = add_lists(KNOWN), add_lists(NEW)
FINITE = KNOWN.replace([np.inf, -np.inf], 0)
WIDE = pd.concat([NEW, pd.DataFrame({f"p_{name}": -1.0 for name in MANY[3:]}, NEW.index)], axis=1)


def promise(**changes: Any) -> mp.MetaPS:
    method = mp.MetaPS(**LEVELS | changes)
    labels = KNOWN.y.to_numpy() if changes.get("per_class") else None
    with warnings.catch_warnings():  # the rare class is always kept
        warnings.simplefilter("ignore")
        return method.calibrate(KNOWN.true.to_numpy(), KNOWN.task.to_numpy(), labels)


BASE, PER_CLASS = promise(), promise(**EACH)
RESIDUALS = mp.MetaPS(**LEVELS).calibrate(
    mp.residual_scores(KNOWN.truth, KNOWN.guess, KNOWN.sd), KNOWN.task.to_numpy()
)
BY_QUANTILES = mp.MetaPS(**LEVELS).calibrate(
    mp.quantile_scores(KNOWN.truth, KNOWN.low, KNOWN.high), KNOWN.task.to_numpy()
)
SHRINKING = mp.MetaPS(**LEVELS).calibrate(np.full(2400, 0.7), KNOWN.task.to_numpy())


# Which frame, what to ask its table, and what the arrays answer.
Question = tuple[pd.DataFrame, Callable[[Any], Any], Callable[[], Any]]


def pair(frame: pd.DataFrame) -> dict[str, Any]:
    """Return two predicted quantiles of each row."""
    return {"lower": frame.low, "upper": frame.high}


# SQLite 3.40 cannot select a column called "true" from a subquery, which a draw of rows is.
UNITS, NEW_UNITS = (frame.rename(columns={"true": "own"}) for frame in (KNOWN, NEW))


def drawn(**changes: Any) -> mp.MetaPS:
    labels = KNOWN.y if changes.get("per_class") else None
    return mp.MetaPS(**LEVELS | changes).calibrate(
        KNOWN.true, KNOWN.task, labels, within=KNOWN.unit, rng=3
    )


def evidence(found: mp.MetaPS) -> Any:
    """Return what was calibrated, with tasks and classes by name."""
    data = found._evidence
    tasks = np.argsort(data.names, kind="stable")  # including those left out
    names = [0] if data.classes is None else sorted(data.classes, key=str)
    classes = [0] if data.classes is None else [data.classes.index(name) for name in names]
    thresholds = found.thresholds_[classes].tolist() if data.classes else found.threshold_
    clusters = None if found.clusters_ is None else sorted(found.clusters_.tolist())
    assert data.highest is not None
    ends = data.lowest[classes].tolist(), data.highest[classes].tolist()
    by_task = data.sizes[tasks][:, classes].tolist(), data.thresholds[tasks][:, classes].tolist()
    more = found.precision_, np.sort(np.ravel(found.left_out_)).tolist(), data.within
    return data.names[tasks].tolist(), names, thresholds, clusters, ends, by_task, more


def sets(table: Any, **options: Any) -> list[list[Any]]:
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


def arrays(method: mp.MetaPS, classes: Sequence[Any]) -> Any:
    scores = NEW[[f"p_{name}" for name in classes]].to_numpy()
    named = None if method.classes_ else classes
    return mp.evaluate(method, scores, NEW.task.to_numpy(), NEW.y.to_numpy(), classes=named)


def estimates(found: Any) -> list[list[float]]:
    return [
        [cell.tasks, *cell.thresholds, cell.size.value, cell.empty.value, cell.full.value]
        + [value for each in cell.missed.values() for value in (each.low, each.value, each.high)]
        for cell in found.cells
    ]


def kept(method: mp.MetaPS = BASE) -> Any:
    """Return which labels the arrays keep, with columns in the order of ``CLASSES``."""
    order = [*range(3)] if method.classes_ is None else [CLASSES.index(x) for x in method.classes_]
    found = np.empty((len(NEW), 3), bool)
    found[:, order] = method.predict_set(NEW[COLUMNS].to_numpy()[:, order])
    return found


def kept_places() -> list[list[int]]:
    """Return the positions, in lists that differ in length, of what is kept."""
    return [[i for i, x in enumerate(row) if x >= BASE.threshold_] for row in NEW_LISTS.short]


def site_of(found: Any) -> Any:
    return found.examples, found.thresholds, found.classes


def calibrated(frame: pd.DataFrame, expected: Callable[[], mp.MetaPS], **options: Any) -> Question:
    def ask(table: Any) -> Any:
        return evidence(calibrate_table(table, **options))

    return frame, ask, lambda: evidence(expected())


def evaluated(
    frame: pd.DataFrame, method: mp.MetaPS, expected: Callable[[], Any], **options: Any
) -> Question:
    def ask(table: Any) -> Any:
        return counts(evaluate_table(method, table, **options))

    return frame, ask, lambda: counts(expected())


def answered(
    frame: pd.DataFrame, name: str, expected: Callable[[], Any], **options: Any
) -> Question:
    return frame, lambda table: column(table, name, **options), expected


def predicted(frame: pd.DataFrame, expected: Callable[[], Any], **options: Any) -> Question:
    return frame, lambda table: sets(table, **options), expected


LEVELS_TRIED: dict[str, Any] = {"epsilon": [0.1, 0.3], "alpha": [0.3], "delta": 0.2, "n_tasks": 40}
IN_LISTS: dict[str, Any] = {"columns": "scores", "classes": CLASSES}
OWN_NAMES: dict[str, Any] = {"columns": "short", "classes_column": "names"}
BY_PLACE: dict[str, Any] = {"task": "task", "label": "place", "columns": "short"}
ANSWER_OF_MANY: dict[str, Any] = {"answer": True, "classes": MANY, "allow": ["sets"]}
WITHIN: dict[str, Any] = {"within": "unit", "rng": 3}
CLUSTERS: dict[str, Any] = {"task": "task", "score": "true", "cluster": "home", "rng": 4}
QUESTIONS: dict[str, Question] = {
    "calibrate: scores": calibrated(KNOWN, lambda: BASE, task="task", score="true", **LEVELS),
    "calibrate: labels": calibrated(KNOWN, lambda: BASE, **BY_LABEL, **LEVELS),
    "calibrate: each class": calibrated(KNOWN, lambda: PER_CLASS, **BY_LABEL, **EACH),
    "calibrate: each class, scores": calibrated(
        KNOWN, lambda: PER_CLASS, **BY_LABEL, score="true", **EACH
    ),
    "calibrate: clusters": calibrated(
        KNOWN,
        lambda: mp.MetaPS(**LEVELS).calibrate(KNOWN.true, KNOWN.task, clusters=KNOWN.home, rng=4),
        **CLUSTERS, **LEVELS,
    ),
    "calibrate: units": calibrated(
        UNITS, lambda: drawn(), task="task", score="own", **WITHIN, **LEVELS
    ),
    "calibrate: units, each class": calibrated(
        UNITS, lambda: drawn(**EACH), **BY_LABEL, score="own", **WITHIN, **EACH
    ),
    "calibrate: units, lists": calibrated(
        LISTS, lambda: drawn(), **BY_LABEL, **IN_LISTS, **WITHIN, **LEVELS
    ),
    "calibrate: units and clusters": calibrated(
        UNITS,
        lambda: mp.MetaPS(**LEVELS).calibrate(
            KNOWN.true, KNOWN.task, clusters=KNOWN.home, within=KNOWN.unit, rng=4
        ),
        **CLUSTERS | {"score": "own"}, within="unit", **LEVELS,
    ),
    "calibrate: identifiers": calibrated(KNOWN, lambda: BASE, **BY_LABEL, id="id", **LEVELS),
    "calibrate: numbers": calibrated(KNOWN, lambda: RESIDUALS, task="task", **NUMBERS, **LEVELS),
    "calibrate: quantiles": calibrated(
        KNOWN, lambda: BY_QUANTILES, task="task", y="truth", **QUANTILES, **LEVELS
    ),
    "calibrate: lists": calibrated(LISTS, lambda: BASE, **BY_LABEL, **IN_LISTS, **LEVELS),
    "calibrate: own names": calibrated(LISTS, lambda: BASE, **BY_LABEL, **OWN_NAMES, **LEVELS),
    "calibrate: positions": calibrated(LISTS, lambda: BASE, **BY_PLACE, **LEVELS),
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
            name: (KNOWN.y == name).groupby(KNOWN.task).sum().tolist() for name in CLASSES
        },
    ),
    "site": (
        KNOWN,
        lambda t: site_of(site_table(t, name="a", label="y", **LEVELS)),
        lambda: site_of(mp.make_site(mp.MetaPS(**LEVELS), KNOWN.true, name="a")),
    ),
    "predict: sets": predicted(NEW, lambda: mp.label_lists(kept(), CLASSES)),
    "predict: many classes": (
        WIDE,
        lambda t: [[x for x in one if x in CLASSES] for one in sets(t, classes=MANY)],
        lambda: mp.label_lists(kept(), CLASSES),
    ),
    "predict: each class": predicted(
        NEW, lambda: mp.label_lists(kept(PER_CLASS), CLASSES), promise=PER_CLASS, classes=CLASSES
    ),
    "predict: lists": predicted(NEW_LISTS, lambda: mp.label_lists(kept(), CLASSES), **IN_LISTS),
    "predict: own names": predicted(
        NEW_LISTS,
        lambda: [
            [names[i] for i in places]
            for names, places in zip(NEW_LISTS.names, kept_places(), strict=True)
        ],
        **OWN_NAMES,
    ),
    "predict: positions": predicted(NEW_LISTS, lambda: kept_places(), columns="short"),
    "predict: booleans": answered(NEW, "in_a:b", lambda: kept()[:, 1].tolist(), booleans=True),
    "predict: answers": answered(
        NEW, "answer", lambda: mp.answers(kept(), CLASSES).labels, answer=True
    ),
    "predict: answers of many": answered(
        WIDE, "answer", lambda: mp.answers(kept(), CLASSES).labels, **ANSWER_OF_MANY
    ),
    "predict: intervals": answered(
        NEW, "lower", lambda: RESIDUALS.predict_interval(NEW.guess, NEW.sd)[:, 0].tolist(),
        promise=RESIDUALS, prediction="guess", scale="sd",
    ),
    "predict: quantiles": answered(
        NEW, "upper", lambda: SHRINKING.predict_interval(**pair(NEW))[:, 1].tolist(),
        promise=SHRINKING, **QUANTILES,
    ),
    "summarise": (
        NEW,
        lambda t: summarise_table(BASE, t).by_class,
        lambda: mp.summarise_sets(kept(), CLASSES).by_class,
    ),
    "evaluate": evaluated(NEW, BASE, lambda: arrays(BASE, CLASSES), **BY_LABEL),
    "evaluate: each class": evaluated(
        NEW, PER_CLASS, lambda: arrays(PER_CLASS, PER_CLASS.classes_ or ()), **BY_LABEL
    ),
    "evaluate: lists": evaluated(
        NEW_LISTS, BASE, lambda: arrays(BASE, CLASSES), **BY_LABEL, **IN_LISTS
    ),
    "evaluate: positions": (
        NEW_LISTS,
        lambda t: (lambda found: (found.missed.tolist(), (found.set_shares or {})["full"]))(
            evaluate_table(BASE, t, **BY_PLACE)
        ),
        lambda: (
            arrays(BASE, CLASSES).missed.tolist(),
            np.mean([*map(len, kept_places())] == NEW_LISTS.short.map(len)),
        ),
    ),
    "evaluate: units": evaluated(
        NEW_UNITS, BASE,
        lambda: mp.evaluate(
            BASE, NEW[COLUMNS].to_numpy(), NEW.task, NEW.y, classes=CLASSES, within=NEW.unit
        ),
        **BY_LABEL, within="unit", columns="p_*",
    ),
    "evaluate: numbers": evaluated(
        NEW, RESIDUALS,
        lambda: mp.evaluate(RESIDUALS, mp.residual_scores(NEW.truth, NEW.guess, NEW.sd), NEW.task),
        task="task", **NUMBERS,
    ),
    "evaluate: quantiles": evaluated(
        NEW, BY_QUANTILES,
        lambda: mp.evaluate(BY_QUANTILES, mp.quantile_scores(NEW.truth, **pair(NEW)), NEW.task),
        task="task", y="truth", **QUANTILES,
    ),
    "explore": (
        NEW,
        lambda t: estimates(explore_table(t, **BY_LABEL, **LEVELS_TRIED)),
        lambda: [
            pytest.approx(cell)
            for cell in estimates(
                mp.explore(NEW[COLUMNS], NEW.task, NEW.y, classes=CLASSES, **LEVELS_TRIED)
            )
        ],
    ),
    "monitor": (
        NEW,
        lambda t: _watch(lambda monitor: monitor_table(monitor, t, **BY_LABEL, columns="p_*")),
        lambda: _watch(lambda monitor: monitor.add(NEW.true.to_numpy(), NEW.task.to_numpy())),
    ),
    "monitor: clusters": (
        NEW,
        lambda t: _watch(lambda monitor: monitor_table(monitor, t, **BY_LABEL, cluster="home")),
        lambda: _watch(
            lambda monitor: monitor.add(
                NEW.true.to_numpy(), NEW.task.to_numpy(), clusters=NEW.home.to_numpy()
            )
        ),
    ),
    "drift": (
        NEW,
        lambda t: _shifts(compare(BASE, t, FINITE, task="task")),
        lambda: _shifts(
            mp.compare_scores(
                NEW[COLUMNS], NEW.task, reference=FINITE[COLUMNS], reference_tasks=FINITE.task
            )
        ),
    ),
}  # fmt: skip
# How often DuckDB is asked: about a small table, and about one that is treated as large.
QUERIES = {
    "calibrate: scores": [2, 6], "calibrate: labels": [4, 10], "calibrate: each class": [4, 10],
    "calibrate: each class, scores": [3, 7], "calibrate: clusters": [3, 7],
    "calibrate: units": [3, 7], "calibrate: units, each class": [5, 9],
    "calibrate: units, lists": [6, 12], "calibrate: units and clusters": [4, 8],
    "evaluate: units": [4, 6],
    "calibrate: identifiers": [5, 10], "calibrate: numbers": [4, 7], "calibrate: lists": [4, 10],
    "calibrate: own names": [6, 10], "calibrate: positions": [7, 11],
    "predict: positions": [3], "evaluate: positions": [7, 7],
    "sizes": [1], "sizes: each class": [1], "site": [3, 8],
    "predict: sets": [1], "predict: many classes": [2], "predict: each class": [1],
    "predict: lists": [3], "predict: own names": [2], "predict: booleans": [1],
    "predict: answers": [1], "predict: answers of many": [2], "predict: intervals": [3],
    "calibrate: quantiles": [4, 8], "predict: quantiles": [3], "evaluate: quantiles": [4, 4],
    "summarise": [1], "evaluate": [3, 5], "evaluate: each class": [3, 5],
    "evaluate: lists": [4, 6], "evaluate: numbers": [4, 4], "explore": [11, 27], "monitor": [3, 5],
    "monitor: clusters": [4, 6], "drift": [5],
}  # fmt: skip


def _watch(add: Callable[[mp.Monitor], Any]) -> Any:
    monitor = mp.Monitor(BASE)
    add(monitor)
    return monitor.course, monitor.status


def _shifts(found: Any) -> list[Any]:
    return [(one.task, one.examples, pytest.approx(one.higher, abs=0.005)) for one in found.shifts]


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> tuple[str, dict[int, Any]]:
    """Return the name of an engine and the tables that it has, by the identity of their frames."""
    return str(request.param), {}


LARGE = ("calibrate", "site", "explore", "evaluate", "monitor")


@pytest.mark.filterwarnings("ignore::UserWarning")  # the data are odd on purpose
@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_are_those_of_arrays(engine: Any, question: str, monkeypatch: Any) -> None:
    name, tables = engine
    frame, ask, expected = QUESTIONS[question]
    if name == "sqlite" and "short" in frame:
        pytest.skip("SQLite has no lists")
    if id(frame) not in tables:
        tables[id(frame)] = put(name, frame)
    asked: list[Any] = []

    def run(self: Source, query: Any, run: Any = Source.run) -> Any:
        asked.append(query)
        return run(self, query)

    monkeypatch.setattr(Source, "run", run)
    assert ask(tables[id(frame)]) == expected()
    queries = [len(asked)]
    if question.startswith(LARGE):
        monkeypatch.setattr(data_checks, "_is_small", lambda *_: False)
        monkeypatch.setattr(table_sets, "_COMPARISONS", 1)
        with as_if_large():
            assert ask(tables[id(frame)]) == expected()
        queries.append(len(asked) - queries[0])
    if name == "duckdb":
        # Of units, rows come in any order, and a lucky sample of the first saves a query.
        spared = "units" in question
        for count, most in zip(queries, QUERIES[question], strict=True):
            assert most - spared <= count <= most


LOOSE: dict[str, Any] = {"epsilon": 0.5, "alpha": 0.5, "delta": 0.5}


def columns(kind: Any) -> st.SearchStrategy[list[Any]]:
    if kind == np.int64:
        return st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2), min_size=1)
    width = 8 * np.dtype(kind).itemsize
    one = st.floats(allow_nan=False, width=width)
    return st.lists(one | st.sampled_from([-np.inf, np.inf, 0.0, -0.0, 0.5]), min_size=1)


@settings(max_examples=100)
@given(st.data())
def test_any_scores_give_what_arrays_give(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([np.float32, np.float64, np.int64]))
    scores = np.array(data.draw(columns(kind)), kind)
    count = len(scores)

    def draw(values: list[Any]) -> Any:
        return data.draw(st.lists(st.sampled_from(values), min_size=count, max_size=count))

    tasks = draw(data.draw(st.sampled_from([[-3, 0, 1], ["a", "b:c", "0:a"]])))
    labels = draw(["x", "y"]) if data.draw(st.booleans()) else None
    promise: dict[str, Any] = LOOSE | {
        "split": data.draw(st.sampled_from(["joint", "tight", "even", 0.3])),
        "delta": data.draw(st.sampled_from([0.5, None])),
        "per_class": labels is not None,
        "min_examples": data.draw(st.integers(0, 3)),
        "on_infeasible": "trivial",
    }
    table = {"task": pa.array(tasks), "score": scores}
    used = {"task": "task", "score": "score"}
    if labels is not None:
        table, used = table | {"y": pa.array(labels)}, used | {"label": "y"}
    worth = data.draw(st.integers(1, 3) | st.sampled_from([2**62]))
    with warnings.catch_warnings(), as_if_large(worth):
        warnings.simplefilter("ignore", UserWarning)  # of scores that tie at the bottom
        expected = mp.MetaPS(**promise).calibrate(scores, tasks, labels)
        result = calibrate_table(
            pa.table(table), **used, connection=connection("duckdb"), **promise
        )
    assert evidence(result) == evidence(expected)
    assert labels is not None or result.promise_ == expected.promise_


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_labels_that_are_numbers() -> None:
    frame = LISTS.assign(y=[CLASSES.index(label) for label in LISTS.y])
    numbered = {i: EACH["epsilon"][name] for i, name in enumerate(CLASSES)}
    expected = mp.MetaPS(**EACH | {"epsilon": numbered}).calibrate(frame.true, frame.task, frame.y)
    for epsilon in (numbered, {str(label): value for label, value in numbered.items()}):
        for how in ({"score": "true"}, {"columns": "scores"}):
            result = calibrate_table(frame, **BY_LABEL, **EACH | {"epsilon": epsilon} | how)
            assert evidence(result) == evidence(expected)
            assert (result.classes_, result.epsilon) == ((0, 1, 2), numbered)
