"""What metapac computes, frozen: small cases whose results must not change when code moves.

A case returns data for JSON. ``exact`` writes floats as strings, which are compared to the last
bit; ``close`` leaves them as numbers, which are compared to 12 significant digits because they come
from SciPy, BLAS or the sums of an engine. Wording, versions, paths and times are left out.

Data come from integers and plain arithmetic, so that they are the same on every machine. All names
of metapac are imported here and nowhere else in the cases.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyarrow import csv, parquet
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

import metapac as mp
from metapac import fewshot
from metapac.fewshot.study.methods import neighbour_methods
from metapac.fewshot.study.summary import compare_sizes
from metapac.report import report
from metapac.sklearn import MetaPSClassifier, MetaPSRegressor
from metapac.verdict import judge_classes
from tests.helpers.commands import metapac
from tests.helpers.tables import calibrate_table, evaluate_table, predict_table, site_table

Run = Callable[[Path], Any]
CASES: dict[str, Run] = {}

# Words are free, and so are the names of files; versions and the checksums of files change.
LEFT_OUT = {
    *("metapac", "promise", "checksum", "sentence", "explanation", "notes", "remarks", "warnings"),
    *("agreed", "text", "output", "file", "state", "bytes"),
}
LEVELS: dict[str, Any] = {"epsilon": 0.2, "alpha": 0.3, "delta": 0.1}
ALLOW = ("duplicates",)


def case(topic: str, *variants: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add a case to ``CASES``, or one for each variant, which the function then takes.

    What follows an ``@`` in a variant, the engine, does not change the expected result.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{topic}/{function.__name__}"
        if not variants:
            CASES[name] = function
        for variant in variants:
            CASES[f"{name} {variant}"] = functools.partial(function, variant=variant)
        return function

    return register


def key_of(name: str) -> str:
    """Return under which name the expected result of a case is stored."""
    return name.partition("@")[0].strip()


# Values


def exact(value: Any) -> Any:
    """Return a value as JSON that is compared to the last bit; long lists become checksums."""
    return _shorten(_as_json(value, repr))


def close(value: Any) -> Any:
    """Return a value as JSON whose floats are compared to 12 significant digits."""
    return _as_json(value, float)


def _as_json(value: Any, number: Callable[[float], Any]) -> Any:
    if isinstance(value, Mapping):
        kept = {str(k): v for k, v in value.items() if k not in LEFT_OUT}
        return {k: _as_json(v, number) for k, v in kept.items()}
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "values": _as_json(value.tolist(), number)}
    if isinstance(value, np.generic):
        return _as_json(value.item(), number)
    if isinstance(value, (list, tuple, set)):
        return [_as_json(each, number) for each in value]
    return number(value) if isinstance(value, float) else value


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _shorten(v) for k, v in value.items()}
    if not isinstance(value, list):
        return value
    text = json.dumps(value)
    if len(text) <= 200:
        return value
    if isinstance(value[0], dict):
        return [_shorten(each) for each in value]
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return {"length": len(value), "first": _shorten(value[0]), "checksum": digest}


def find_differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """Return where two results differ, and how."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = [*dict.fromkeys([*expected, *found])]
        pairs = [(f"{where}.{k}", expected.get(k, "absent"), found.get(k, "absent")) for k in names]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        both = zip(expected, found, strict=True)
        pairs = [(f"{where}[{i}]", a, b) for i, (a, b) in enumerate(both)]
    else:
        return [] if _agree(expected, found) else [f"{where}: expected {expected}, found {found}"]
    return [line for at, a, b in pairs for line in find_differences(a, b, at)]


def _agree(expected: Any, found: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        return bool(np.isclose(found, expected, rtol=1e-12, atol=1e-15, equal_nan=True))
    return type(expected) is type(found) and bool(expected == found)


def read_document(path: Path) -> dict[str, Any]:
    """Return a file that metapac wrote."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def content(fitted: Any, folder: Path) -> Any:
    """Return what a calibrated predictor or a site writes to its file."""
    fitted.save(folder / "saved.json")
    return exact(read_document(folder / "saved.json"))


def columns_of(path: Path) -> Any:
    """Return a table that metapac wrote, each column by its name, type and values."""
    table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    return {
        name: [str(table[name].type), exact(table[name].to_pylist())] for name in table.schema.names
    }


def command(*words: object, code: int = 0) -> Any:
    """Return the JSON that a command prints."""
    result = metapac(*words, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


# Data


def draw_scores(seed: int = 0, count: int = 60) -> tuple[Any, Any, Any]:
    """Scores of true labels, their tasks and labels; tasks differ in size and in difficulty."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 90, count)
    ease = np.repeat(rng.integers(1, 9, count) / 16, sizes)
    scores = ease + (1 - ease) * rng.random(len(ease))
    labels = rng.integers(0, 3, len(scores))
    return scores, np.repeat([f"task {seed}-{i}" for i in range(count)], sizes), labels


def draw_sites(first: int, count: int, size: int, seed: int, ease: int = 24) -> pd.DataFrame:
    """Sites with the scores of three classes, and a number to predict with its scale."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(size // 2, size * 3 // 2, count)
    rows = int(sizes.sum())
    y = rng.integers(0, 3, rows)
    weights = rng.integers(1, 16, (rows, 3))
    weights[np.arange(rows), y] += rng.integers(0, np.repeat(rng.integers(4, ease, count), sizes))
    weights[np.arange(rows), (y + 1) % 3] += 24 - ease
    # Coarse, so that some scores of new sites are exactly at a threshold.
    scores = np.round(weights / weights.sum(axis=1, keepdims=True), 2)
    spread = np.repeat(rng.integers(1, 5, count), sizes)
    scale = rng.integers(1, 5, rows) / 2
    length = rng.integers(0, 10_000, rows) / 100
    residuals = (2 * rng.integers(-50, 50, rows) + 1) / 64  # never 0, whose sign SQLite loses
    classes = ["cat", "dog", "owl"]
    return pd.DataFrame(
        {
            "site": np.repeat([f"site {first + i:03}" for i in range(count)], sizes),
            "region": np.repeat([f"region {(first + i) // 2}" for i in range(count)], sizes),
            "y": np.array(classes)[y],
            **{f"p_{name}": scores[:, k] for k, name in enumerate(classes)},
            "true": scores[np.arange(rows), y],
            "length": length,
            "predicted": np.round(length + scale * spread * residuals, 2),
            "scale": scale,
            "all": scores.tolist(),
        }
    )


def draw_row_classes(first: int, count: int, seed: int) -> pd.DataFrame:
    """Tasks of 3 to 6 classes each, in another order in each row."""
    rng = np.random.default_rng(seed)
    rows = []
    for task in range(first, first + count):
        classes = rng.choice(30, rng.integers(3, 7), replace=False)
        for _ in range(25):
            names = [f"class {name}" for name in rng.permutation(classes)]
            weights = rng.integers(1, 16, len(names))
            place = int(rng.integers(len(names)))
            weights[place] += rng.integers(0, 40)
            scores = np.round(weights / weights.sum(), 4).tolist()
            rows.append((f"task {task}", names, scores, names[place]))
    return pd.DataFrame(rows, columns=["site", "names", "all", "y"])


@functools.cache
def calibration_sites() -> pd.DataFrame:
    return draw_sites(0, 48, 40, seed=0)


@functools.cache
def new_sites() -> pd.DataFrame:
    return draw_sites(100, 14, 40, seed=1)


@functools.cache
def bad_sites() -> pd.DataFrame:
    return draw_sites(200, 14, 60, seed=2, ease=6)


def write_sites(folder: Path, kind: str = "parquet") -> tuple[Path, Path]:
    """Write the calibration sites and the new ones."""
    known, new = folder / f"sites.{kind}", folder / f"new.{kind}"
    for path, frame in ((known, calibration_sites()), (new, new_sites())):
        if kind == "parquet":
            frame.to_parquet(path)
        else:
            frame.drop(columns="all").to_csv(path, index=False)
    return known, new


def draw_points(seed: int, groups: int = 40, rows: int = 30) -> tuple[Any, Any, Any, Any]:
    """Features, classes, numbers and groups."""
    rng = np.random.default_rng(seed)
    group = np.repeat([f"group {seed}-{i}" for i in range(groups)], rows)
    y = rng.integers(0, 3, len(group))
    x = rng.integers(-16, 17, (len(group), 3)) / 8
    x[np.arange(len(y)), y] += np.repeat(rng.integers(4, 16, groups), rows) / 8
    return (
        x,
        np.array(["a", "b", "c"])[y],
        x[:, 0] + rng.integers(-999, 999, len(group)) / 256,
        group,
    )


class Centroids(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A simple classifier: scores fall with the distance to the class mean."""

    def fit(self, x: Any, y: Any) -> Centroids:
        self.classes_ = np.unique(y)
        self.means = np.stack([x[y == name].mean(axis=0) for name in self.classes_])
        return self

    def predict_proba(self, x: Any) -> Any:
        far = ((np.asarray(x)[:, None] - self.means) ** 2).sum(axis=2)
        return (1 / (1 + far)) / (1 / (1 + far)).sum(axis=1, keepdims=True)

    def predict(self, x: Any) -> Any:
        return self.classes_[self.predict_proba(x).argmax(axis=1)]


class Line(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A simple regressor: the first feature, moved by the mean residual."""

    def fit(self, x: Any, y: Any) -> Line:
        self.shift = (y - x[:, 0]).mean()
        return self

    def predict(self, x: Any, return_std: bool = False) -> Any:
        values = np.asarray(x)[:, 0] + self.shift
        return (values, 1 + np.abs(np.asarray(x)[:, 1])) if return_std else values


# Arrays


def describe_fitted(fitted: Any, folder: Path, new: Any = None) -> Any:
    """Return a promise file, what it rests on and the sets that it makes of new scores."""
    names = ("threshold_", "thresholds_", "level_", "task_thresholds_", "task_sizes_", "tasks_")
    found = {name: getattr(fitted, name) for name in names if hasattr(fitted, name)}
    return {
        "content": content(fitted, folder),
        "results": exact(found | {"precision": fitted.precision_.name}),
        "sets": None if new is None else exact(fitted.predict_set(new)),
        "edges": None if "prediction" in (fitted.columns_ or {}) else exact(_sets_at_edges(fitted)),
    }


def _sets_at_edges(fitted: Any) -> Any:
    """Return which scores a set keeps: the threshold itself, and the next ones on both sides."""
    by_class = getattr(fitted, "classes_", None) is not None
    cuts = np.asarray(fitted.thresholds_ if by_class else [fitted.threshold_] * 3)
    near = [cuts, *(np.nextafter(cuts, end, dtype=fitted.precision_) for end in (-np.inf, np.inf))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of scores unlike those of calibration
        return fitted.predict_set(np.stack(near).astype(fitted.precision_))


def fit(*, count: int = 60, **changes: Any) -> Any:
    """Calibrate on scores; where each class has a guarantee of its own, on labels too."""
    method = mp.MetaPS(**LEVELS | changes)
    return method.calibrate(*draw_scores(count=count)[: 3 if method.per_class else 2])


def new_matrix(dtype: Any = np.float64) -> Any:
    return np.random.default_rng(5).random((200, 3)).astype(dtype)


SPLITS = [
    f"{split} {delta}" for split in ("joint", "tight", "even", "0.2") for delta in (0.1, None)
]


def _options(variant: str) -> dict[str, Any]:
    split, delta = variant.split()
    chosen: Any = float(split) if split[0].isdigit() else split
    return LEVELS | {"split": chosen, "delta": None if delta == "None" else float(delta)}


@case("arrays", *SPLITS)
def split(folder: Path, variant: str) -> Any:
    return describe_fitted(fit(**_options(variant)), folder, new_matrix())


@case("arrays", *SPLITS)
def per_class(folder: Path, variant: str) -> Any:
    options = _options(variant) | {"per_class": True, "on_infeasible": "trivial"}
    return describe_fitted(fit(**options, min_examples=6), folder, new_matrix())


@case("arrays", "float16", "float32", "float64", "longdouble")
def precision(folder: Path, variant: str) -> Any:
    scores, tasks, _ = draw_scores()
    method = mp.MetaPS(**LEVELS).calibrate(scores.astype(variant), tasks, allow=ALLOW)
    same = {"same": exact(method.predict_set(new_matrix()))}
    return describe_fitted(method, folder, new_matrix(variant)) | same


@case("arrays")
def bfloat16(folder: Path) -> Any:
    import torch

    scores, tasks, _ = draw_scores()
    method = mp.MetaPS(**LEVELS).calibrate(torch.tensor(scores).bfloat16(), tasks, allow=ALLOW)
    return describe_fitted(method, folder, torch.tensor(new_matrix()).bfloat16())


@case("arrays", "ties", "infinite", "shuffled", "integers")
def scores(folder: Path, variant: str) -> Any:
    values, tasks, _ = draw_scores()
    order = np.random.default_rng(6).permutation(len(values))
    changed = {
        "ties": (np.round(values, 1), tasks),
        "infinite": (np.where(order % 40 == 0, -np.inf, values), tasks),
        "shuffled": (values[order], tasks[order]),
        "integers": ((values * 1000).astype(np.int64), tasks),
    }
    return describe_fitted(mp.MetaPS(**LEVELS).calibrate(*changed[variant], allow=ALLOW), folder)


@case("arrays", 0, 20, 40)
def min_examples(folder: Path, variant: int) -> Any:
    return describe_fitted(fit(min_examples=variant), folder)


@case("arrays")
def epsilon_by_class(folder: Path) -> Any:
    scores, tasks, labels = draw_scores()
    rates = {"a": 0.2, "b": 0.3, "c": 0.45}
    method = mp.MetaPS(epsilon=rates, alpha=0.4, delta=0.2, per_class=True)
    return describe_fitted(method.calibrate(scores, tasks, np.array([*rates])[labels]), folder)


@case("arrays")
def all_classes(folder: Path) -> Any:
    names, classes = ["p_cat", "p_dog", "p_owl"], ["cat", "dog", "owl"]
    x, site, y = (calibration_sites()[each].to_numpy() for each in (names, "site", "y"))
    context = mp.Context(model="forest 3", trained_on=("ohio", "utah"), unit="hospital")
    method = mp.MetaPS(**LEVELS).calibrate(x, site, y, classes=classes, context=context)
    sets = method.predict_set(new_sites()[names].to_numpy())
    return describe_fitted(method, folder) | {
        "labels": exact(mp.label_lists(sets, classes)),
        "answers": exact(vars(mp.answers(sets, classes))),
        "summary": exact(vars(mp.summarise_sets(sets, classes))),
    }


@case("arrays", 0, 1)
def clusters(folder: Path, variant: int) -> Any:
    scores, tasks, _ = draw_scores()
    group = {name: int(name.split("-")[1]) // 2 for name in np.unique(tasks).tolist()}
    method = mp.MetaPS(**LEVELS).calibrate(scores, tasks, clusters=group, rng=variant)
    return describe_fitted(method, folder) | {"clusters": exact(method.clusters_)}


@case("arrays")
def trivial(folder: Path) -> Any:
    return describe_fitted(fit(count=5, on_infeasible="trivial"), folder, new_matrix())


@case("arrays")
def infeasible(folder: Path) -> Any:
    raised = []
    for options in ({}, {"epsilon": 0.01}, {"delta": None}):
        try:
            fit(count=5, **options)
        except mp.InfeasibleGuarantee:
            raised.append(options)
    return exact(raised)


@case("arrays")
def added_tasks(folder: Path) -> Any:
    return describe_fitted(fit().add(*draw_scores(seed=1)[:2]), folder)


@case("arrays", "joint", "tight")
def sent_thresholds(folder: Path, variant: str) -> Any:
    scores, tasks, _ = draw_scores()
    method, names = mp.MetaPS(**LEVELS, split=variant), dict.fromkeys(tasks.tolist())
    sent = {name: method.task_threshold(scores[tasks == name]) for name in names}
    return describe_fitted(method.combine(sent), folder)


@case("arrays")
def loaded(folder: Path) -> Any:
    fit(alpha=0.45, per_class=True).save(folder / "promise.json")
    return describe_fitted(mp.load(folder / "promise.json"), folder, new_matrix())


@case("arrays", "with scale", "without scale", "clusters")
def intervals(folder: Path, variant: str) -> Any:
    names = ["length", "predicted", "site", "scale"][: 3 if variant == "without scale" else 4]
    known, new = calibration_sites(), new_sites()
    method = mp.MetaPS(**LEVELS).calibrate_intervals(
        *(known[name].to_numpy() for name in names),
        clusters=known.region.to_numpy() if variant == "clusters" else None,
    )
    length, *given = (new[name].to_numpy() for name in names if name != "site")
    ends, residuals = method.predict_interval(*given), mp.residual_scores(length, *given)
    return describe_fitted(method, folder) | {"ends": exact(ends), "scores": exact(residuals)}


@case("arrays", "float64", "float32")
def ps(folder: Path, variant: str) -> Any:
    method = mp.PS(epsilon=0.1, delta=0.05).calibrate(draw_scores()[0].astype(variant))
    return describe_fitted(method, folder, new_matrix(variant))


@case("arrays", "tasks", "examples")
def meta_cp(folder: Path, variant: str) -> Any:
    scores, tasks, _ = draw_scores()
    names = [*dict.fromkeys(tasks.tolist())]
    quantiles = {name: int(name.split("-")[1]) % 7 / 16 for name in names}
    method = fewshot.MetaCP(epsilon=0.4, delta=0.2, over=variant)
    method.calibrate(scores, tasks, quantiles)
    cuts = [method.threshold(q / 8) for q in range(8)]
    sets = method.predict_set(new_matrix(), 0.25)
    return {"content": content(method, folder), "cuts": exact(cuts), "sets": exact(sets)}


@case("arrays", "scores", "labels", "per class", "clusters")
def evaluation(folder: Path, variant: str) -> Any:
    new, names, true = draw_scores(seed=1, count=20)
    method, options = fit(), dict[str, Any]()
    if variant == "per class":
        method = fit(alpha=0.45, per_class=True)
    elif variant == "labels":
        matrix = np.random.default_rng(7).random((len(new), 3)) / 2
        matrix[np.arange(len(new)), true] = new
        new = matrix
    elif variant == "clusters":
        scores, tasks, _ = draw_scores()
        by = {n: i // 2 for i, n in enumerate(np.unique(tasks).tolist())}
        method = mp.MetaPS(**LEVELS).calibrate(scores, tasks, clusters=by)
        options = {"clusters": {name: f"new {name[-1]}" for name in np.unique(names).tolist()}}
    given = (names, true) if variant in ("per class", "labels") else (names,)
    return describe_evaluation(mp.evaluate(method, new, *given, **options, min_examples=10))


def describe_verdict(verdict: Any) -> Any:
    names = ("status", "tasks", "within", "flagged", "p_holds", "p_violated", "interval")
    found = {name: getattr(verdict, name) for name in names} | {"more": verdict.more_tasks}
    parts = {k: describe_verdict(part) for k, part in (verdict.by_class or {}).items()}
    return close(found) | ({"by_class": parts} if parts else {})


def describe_evaluation(result: Any) -> Any:
    return {
        "counts": [exact(result.errors), None if result.sizes is None else exact(result.sizes)],
        "ends": close([result.low.tolist(), result.high.tolist()]),
        "within": close(result.within),
        "shares": close(result.set_shares),
        "worst": close(result.worst()),
        "verdict": describe_verdict(result.verdict),
    }


# The inequality


@case("inequality")
def ranks(folder: Path) -> Any:
    found, splits = {}, list[Any](["joint", "tight", "even", 0.2])
    for tasks, split, delta in product((10, 29, 60, 100, 500, 2000), splits, (1e-5, 0.05, None)):
        agreed = mp.Guarantee(epsilon=0.1, alpha=0.1, delta=delta, split=split)
        found[f"{tasks} {split} {delta}"] = agreed.allowed_low_thresholds(tasks)
    return exact(found)


@case("inequality", "joint", "tight", "even", "0.2")
def levels(folder: Path, variant: str) -> Any:
    options = _options(f"{variant} None")
    agreed = [
        mp.Guarantee(**options | {"epsilon": 0.1, "alpha": alpha, "delta": delta})
        for alpha, delta in product((0.05, 0.1, 0.3), (0.05, None))
    ]
    return exact([[[*level] for level in each.levels] for each in agreed])


@case("inequality")
def binomial(folder: Path) -> Any:
    n, values = np.arange(0, 3000, 7), draw_scores()[0]
    allowed = [mp.allowed_errors(n, epsilon, 0.05) for epsilon in (0.001, 0.05, 0.1, 0.5)]
    upper = mp.clopper_pearson_upper(n[1:40] // 9, n[1:40], 0.05)
    pairs = product((0.001, 0.05, 0.2), (0.01, 0.1))
    cuts = [mp.threshold(values, epsilon=e, delta=d) for e, d in pairs]
    return {"allowed": exact(allowed), "upper": close(upper), "cuts": exact(cuts)}


# The verdict, monitoring and dishonest sites, on arrays

COUNTS = {
    "holds": ([100] * 40, [5] * 40),
    "violated": ([100] * 12, [20, 25, 30, 4, 22, 41, 19, 28, 33, 27, 35, 21]),
    "undecided": ([20, 31, 45, 60, 12, 80], [1, 6, 4, 3, 2, 9]),
    "small": ([3, 4, 1, 0, 2], [0, 1, 1, 0, 0]),
}
RISKS: list[dict[str, Any]] = [
    {"alpha": 0.1, "delta": 0.05},
    {"alpha": 0.3, "delta": None},
    {"alpha": None, "delta": 0.1},
    {"alpha": None, "delta": 0.1, "false_alarm": 0.01},
]


@case("verdict", *COUNTS)
def judged(folder: Path, variant: str) -> Any:
    return [describe_verdict(mp.judge(*COUNTS[variant], epsilon=0.1, **more)) for more in RISKS]


@case("verdict")
def judged_by_class(folder: Path) -> Any:
    rates = {"holds": 0.2, "violated": 0.1, "undecided": 0.05}
    counts = {name: COUNTS[name] for name in rates}
    same = judge_classes(counts, epsilon=0.1, alpha=0.2, delta=0.1)
    own = judge_classes(counts, epsilon=rates, alpha=0.2, delta=None, false_alarm=0.1)
    return [describe_verdict(same), describe_verdict(own)]


@case("monitor", "one threshold", "per class")
def course(folder: Path, variant: str) -> Any:
    by_class = variant == "per class"
    monitor = mp.Monitor(fit(alpha=0.45, per_class=by_class))
    for batch, seed in (("January", 1), ("February", 2)):
        new, names, true = draw_scores(seed, 12)
        monitor.add(new - 0.2 * (seed - 1), names, true if by_class else None, batch=batch)
    power = monitor.power()
    monitor.save(folder / "state.json")
    return describe_state(folder / "state.json") | {
        "steps": [close(step._asdict()) for step in monitor.course],
        "state": [monitor.status, close(monitor.wealth), close(monitor.interval)],
        "power": None if power is None else close(power._asdict()),
    }


def describe_state(path: Path) -> dict[str, Any]:
    """Return the state file of a monitor, with what recognises its tasks."""
    document = read_document(path)
    known = [entry["checksum"] for entry in document["tasks"]]
    return {"content": exact(document), "recognised": exact(known)}


@case("monitor")
def drift(folder: Path) -> Any:
    reference, tasks, _ = draw_scores()
    new, names, _ = draw_scores(seed=3, count=12)
    known = {"reference": reference, "reference_tasks": tasks}
    both = [mp.compare_scores(values, names, **known) for values in (new, new * 0.7)]
    return [
        close([[*shift] for shift in found.shifts])
        + close([found.higher, found.expected, found.p_number, found.is_suspicious])
        for found in both
    ]


@case("robustness")
def liars(folder: Path) -> Any:
    counted, failing = {}, {}
    for split, tasks in product(("joint", "tight", "even"), (20, 29, 60, 100)):
        agreed = mp.Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, split=split)
        counted[f"{split} {tasks}"] = mp.count_liars(agreed, tasks)
        failing[f"{split} {tasks}"] = [
            mp.failure_probability(agreed, tasks, n, at_random=r)
            for n, r in product((0, 3), (False, True))
        ]
    return {"counted": exact(counted), "failing": close(failing)}


@case("robustness", 0, 20)
def moved_threshold(folder: Path, variant: int) -> Any:
    method, by_class = fit(min_examples=variant), fit(alpha=0.45, per_class=True)
    both = [mp.bound_threshold(method, n) for n in range(5)]
    return exact([*both, *(mp.bound_threshold(by_class, 2, label=k) for k in range(3))])


# Tables and commands

WORDS = ["--epsilon", 0.2, "--alpha", 0.3, "--delta", 0.1]
CLASSES = ["--label", "y", "--columns", "p_*"]
NUMBERS = ["--prediction", "predicted", "--y", "length"]
OWN = ["--epsilon", "cat=0.2", "--epsilon", "dog=0.3", "--epsilon", "owl=0.35"]
NAMED = ["--columns", "p_dog,p_owl,p_cat", "--classes", "dog,owl,cat"]
PURPOSE = ["--model", "forest 3", "--unit", "hospital", "--example", "patient"]
PER_CLASS = ["--alpha", 0.45, *WORDS[4:], *CLASSES, "--per-class"]
CALIBRATIONS: dict[str, list[Any]] = {
    "score": [*WORDS, "--score", "true"],
    "classes": [*WORDS, *CLASSES],
    "named columns": [*WORDS, "--label", "y", *NAMED],
    "tight": [*WORDS, *CLASSES, "--split", "tight"],
    "even": [*WORDS, *CLASSES, "--split", "even"],
    "split": [*WORDS, *CLASSES, "--split", 0.2],
    "expectation": [*WORDS[:4], "--delta", "none", *CLASSES],
    "per class": [*WORDS[:2], *PER_CLASS],
    "own epsilon": [*OWN, *PER_CLASS, "--min-examples", 8],
    "min examples": [*WORDS, *CLASSES, "--min-examples", 35],
    "clusters": [*WORDS, *CLASSES, "--cluster", "region"],
    "numbers": [*WORDS, *NUMBERS],
    "scaled numbers": [*WORDS, *NUMBERS, "--scale", "scale"],
    "lists": [*WORDS, "--label", "y", "--columns", "all", "--classes", "cat,dog,owl"],
    "context": [*WORDS, *CLASSES, *PURPOSE, "--trained-on", "site 900,site 901"],
}


def calibrate(table: Path, kind: str = "classes") -> Any:
    """Calibrate by a command, and return what it prints; the promise lies beside the table."""
    words = ["--task", "site", *CALIBRATIONS[kind], "-o", table.with_name("promise.json")]
    return command("calibrate", table, *words)


@functools.cache
def _promise_text(kind: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        calibrate(write_sites(Path(folder))[0], kind)
        return (Path(folder) / "promise.json").read_text(encoding="utf-8")


def write_promise(folder: Path, kind: str = "classes") -> Path:
    """Write a promise that was calibrated on the calibration sites once, since that takes long."""
    path = folder / "promise.json"
    path.write_text(_promise_text(kind), encoding="utf-8")
    return path


@case("calibrate", *CALIBRATIONS)
def calibrated(folder: Path, variant: str) -> Any:
    printed = calibrate(write_sites(folder)[0], variant)
    return {"printed": exact(printed), "content": exact(read_document(folder / "promise.json"))}


@case("calibrate")
def calibrated_csv(folder: Path) -> Any:
    calibrate(write_sites(folder, "csv")[0])
    return exact(read_document(folder / "promise.json"))


@case("calibrate")
def row_classes(folder: Path) -> Any:
    known, new, promise = (folder / name for name in ("old.parquet", "new.parquet", "p.json"))
    draw_row_classes(0, 40, seed=8).to_parquet(known)
    draw_row_classes(100, 10, seed=9).to_parquet(new)
    columns = ["--label", "y", "--columns", "all", "--classes-column", "names"]
    printed = command("calibrate", known, "--task", "site", *WORDS, *columns, "-o", promise)
    return {
        "printed": exact(printed),
        "content": exact(read_document(promise)),
        "predicted": exact(command("predict", promise, new, "-o", folder / "sets.parquet")),
        "sets": columns_of(folder / "sets.parquet"),
        "evaluated": close(command("evaluate", promise, new)),
    }


def explore(folder: Path, *words: Any) -> Any:
    """Explore the pilot sites by a command."""
    draw_sites(300, 24, 30, seed=4).to_parquet(folder / "pilot.parquet")
    return command("explore", folder / "pilot.parquet", "--task", "site", *CLASSES, *words)


@case("calibrate")
def with_pilot(folder: Path) -> Any:
    pilot, promise = folder / "pilot.json", folder / "promise.json"
    explore(folder, "--epsilon", 0.2, "--alpha", 0.3, "-o", pilot)
    words = ["--task", "site", *CALIBRATIONS["classes"], "--pilot", pilot, "-o", promise]
    command("calibrate", write_sites(folder)[0], *words)
    return exact(read_document(promise))


OUTPUTS: dict[str, list[Any]] = {
    "sets": ["classes"],
    "sets per class": ["per class"],
    "booleans": ["classes", "--booleans"],
    "answers": ["classes", "--answer"],
    "lists": ["lists"],
    "numbers": ["numbers"],
    "scaled numbers": ["scaled numbers"],
}


@case("predict", *OUTPUTS)
def predicted(folder: Path, variant: str) -> Any:
    _, new = write_sites(folder)
    kind, *options = OUTPUTS[variant]
    promise, sets = write_promise(folder, kind), folder / "sets.parquet"
    printed = command("predict", promise, new, *options, "-o", sets)
    return {"printed": close(printed), "table": columns_of(sets)}


@case("predict", "sets", "numbers")
def predicted_csv(folder: Path, variant: str) -> Any:
    table, new = write_sites(folder, "csv")
    calibrate(table, OUTPUTS[variant][0])
    command("predict", folder / "promise.json", new, "-o", folder / "sets.csv")
    return columns_of(folder / "sets.csv")


@case("predict")
def ps_on_a_table(folder: Path) -> Any:
    method = mp.PS(epsilon=0.1, delta=0.1).calibrate(calibration_sites().true.to_numpy())
    predict_table(method, new_sites(), columns="p_*", output=folder / "sets.parquet")
    return columns_of(folder / "sets.parquet")


@case("predict")
def many_classes(folder: Path) -> Any:
    """A guarantee for each of so many classes that an engine handles them as a list."""
    names, frames = [f"class {i:02}" for i in range(60)], []
    for first, count, each in ((0, 8, 8), (100, 3, 4)):
        rng = np.random.default_rng(first)
        y = np.tile(np.repeat(np.arange(60), each), count)
        site = np.repeat([f"site {first + i}" for i in range(count)], 60 * each)
        weights = rng.integers(0, 64, (len(y), 60))
        weights[np.arange(len(y)), y] += rng.integers(0, 64, len(y))
        columns = {"site": site, "y": np.array(names)[y], "all": (weights / 128).tolist()}
        frames.append(pd.DataFrame(columns))
    known, new = frames
    levels: dict[str, Any] = {"epsilon": 0.45, "alpha": 0.7, "delta": 0.4, "per_class": True}
    method = calibrate_table(
        known, task="site", label="y", columns="all", classes=names, **levels, allow=ALLOW
    )
    predict_table(method, new, output=folder / "sets.parquet")
    return {
        "content": content(method, folder),
        "sets": columns_of(folder / "sets.parquet"),
        "errors": exact(evaluate_table(method, new, allow=ALLOW).errors),
    }


EVALUATIONS: dict[str, list[Any]] = {
    "classes": ["classes"],
    "score": ["score", "--score", "true"],
    "per class": ["per class"],
    "own epsilon": ["own epsilon", "--min-examples", 10],
    "expectation": ["expectation", "--false-alarm", 0.01],
    "clusters": ["clusters"],
    "numbers": ["scaled numbers"],
    "lists": ["lists"],
    "min examples": ["min examples"],
}


@case("evaluate", *EVALUATIONS)
def evaluated(folder: Path, variant: str) -> Any:
    kind, *options = EVALUATIONS[variant]
    words = [write_sites(folder)[1], *options, "-o", folder / "tasks.csv"]
    printed = command("evaluate", write_promise(folder, kind), *words)
    rows = csv.read_csv(folder / "tasks.csv").to_pydict()
    return {"printed": close(printed), "rows": close(rows)}


@case("evaluate")
def violated(folder: Path) -> Any:
    bad_sites().to_parquet(folder / "bad.parquet")
    words = [folder / "bad.parquet", "--check", "--allow", "direction"]
    return close(command("evaluate", write_promise(folder), *words, code=3))


@case("monitor", "classes", "per class", "scaled numbers", "clusters")
def watched(folder: Path, variant: str) -> Any:
    (_, new), state = write_sites(folder), folder / "state.json"
    words = ["monitor", write_promise(folder, variant), new, "--state", state, "--batch", "January"]
    first, again = command(*words), command(*words)
    return {"first": close(first), "known": close(again["known"])} | describe_state(state)


@case("monitor")
def alarm(folder: Path) -> Any:
    _, new = write_sites(folder)
    bad_sites().to_parquet(folder / "bad.parquet")
    promise, state = write_promise(folder), folder / "state.json"
    command("monitor", promise, new, "--state", state, "--batch", "January")
    words = [promise, folder / "bad.parquet", "--state", state, "--batch", "February"]
    printed = command("monitor", *words, "--allow", "direction", code=3)
    return {"printed": close(printed)} | describe_state(state)


@case("monitor", "classes", "numbers")
def reference(folder: Path, variant: str) -> Any:
    table, new = write_sites(folder)
    return close(command("monitor", write_promise(folder, variant), new, "--reference", table))


@case("explore", "0.1", "none")
def explored(folder: Path, variant: str) -> Any:
    grid = ["--epsilon", "0.1,0.3", "--alpha", "0.2,0.45", "--delta", variant]
    printed = explore(folder, *grid, "-o", folder / "pilot.json")
    assert close(read_document(folder / "pilot.json"))["cells"] == close(printed)["cells"]
    cuts = [cell["thresholds"] for cell in printed["cells"]]
    return {"printed": close(printed), "thresholds": exact(cuts)}


@case("explore")
def explored_for_more_tasks(folder: Path) -> Any:
    words = ["--epsilon", 0.2, "--alpha", 0.1, "--tasks", 80, "--min-examples", 20]
    return close(explore(folder, *words))


SITES: dict[str, list[Any]] = {
    "joint": CALIBRATIONS["score"],
    "tight": [*CALIBRATIONS["score"], "--split", "tight"],
    "expectation": CALIBRATIONS["expectation"],
    "per class": CALIBRATIONS["per class"],
    "numbers": [*WORDS[:4], "--delta", "none", *NUMBERS, "--scale", "scale"],
}


@case("sites", *SITES)
def combined(folder: Path, variant: str) -> Any:
    folder.joinpath("sites").mkdir()
    count = 9 if 0.1 in SITES[variant] else 4  # as many as the guarantee takes
    table, promise, printed, files = folder / "one.parquet", folder / "promise.json", [], []
    for name, rows in draw_sites(0, count, 50, seed=5).groupby("site"):
        rows.to_parquet(table)
        path = folder / "sites" / f"{name}.json"
        printed.append(command("site", table, "--name", name, *SITES[variant], "-o", path))
        files.append(exact(read_document(path)))
    both = command("combine", folder / "sites", "-o", promise)
    return {
        "sites": [exact(printed[0]), files[0]],
        "all sites": exact([*map(list, zip(files, exact(printed), strict=True))]),
        "combined": exact(both),
        "content": exact(read_document(promise)),
    }


@case("sites")
def combined_in_python(folder: Path) -> Any:
    groups = draw_sites(0, 9, 50, seed=5).groupby("site")
    sites = [site_table(rows, name=str(name), score="true", **LEVELS) for name, rows in groups]
    return content(mp.combine_sites(sites, context=mp.Context(model="forest 3")), folder)


RARE = ["--epsilon", 0.1, "--alpha", 0.2, "--delta", 0.05]
PLANS: dict[str, list[Any]] = {
    "guarantee": ["--epsilon", 0.1, "--alpha", 0.1, "--delta", 0.05],
    "expectation": ["--epsilon", 0.1, "--alpha", 0.1, "--delta", "none"],
    "classes": [*RARE, "--per-class", "--number-of-classes", 3],
    "sizes": [*WORDS, "--sizes", "10,20,30,40,50,60,70,80,90,100,25,35"],
    "tasks": [*WORDS, "--tasks", 60],
    "examples": [*WORDS, "--examples", 12],
    "offers": ["--tasks", 60, "--examples", 40],
}


@case("plan", *PLANS)
def planned(folder: Path, variant: str) -> Any:
    return close(command("plan", *PLANS[variant]))


@case("plan")
def planned_from_a_table(folder: Path) -> Any:
    words = [*WORDS[:2], "--alpha", 0.45, *WORDS[4:], "--label", "y", "--per-class"]
    return close(command("plan", write_sites(folder)[0], "--task", "site", *words))


@case("plan", "joint", "tight", "even")
def plans(folder: Path, variant: Any) -> Any:
    found = []
    for delta in (1e-5, 0.05, None):
        levels: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": delta, "split": variant}
        asked = mp.plan(**levels, sizes=[40] * 50 + [90] * 30)
        needs = [[need.tasks, need.examples_per_task] for need in asked.needs]
        found += [needs, [asked.tasks_for(40), asked.examples_for(90)]]
        found.append(close(asked.affordable(70, 40)))
    return found


@case("show", "promise", "per class", "site", "pilot", "monitor")
def shown(folder: Path, variant: str) -> Any:
    (_, new), path = write_sites(folder), folder / "file.json"
    if variant == "site":
        command("site", new, "--name", "ohio", *SITES["joint"], "-o", path)
    elif variant == "pilot":
        words = ["--task", "site", *CLASSES, "--epsilon", 0.2, "--alpha", 0.3, "-o", path]
        command("explore", new, *words)
    elif variant == "monitor":
        command("monitor", write_promise(folder), new, "--state", path, "--batch", "January")
    else:
        path = write_promise(folder, "per class" if variant == "per class" else "classes")
    return close(command("show", path))


def read_report(page: Path) -> Any:
    """Return the numbers in the tables of a report."""
    html = page.read_text(encoding="utf-8")
    cells = re.findall(r'<td class="number">(.*?)</td>', html, re.DOTALL)
    assert cells
    return [re.findall(r"\d+(?:\.\d+)?", cell) for cell in cells]


@case("report")
def reported(folder: Path) -> Any:
    (_, new), page = write_sites(folder), folder / "report.html"
    command("report", write_promise(folder, "scaled numbers"), new, "-o", page)
    return read_report(page)


@case("report")
def reported_with_classes(folder: Path) -> Any:
    page = folder / "report.html"
    report(mp.load(write_promise(folder)), mp.open_table(new_sites()), output=page)
    return read_report(page)


# Engines: all must find what DuckDB finds

ENGINES = ["@duckdb", "@duckdb-large", "@sqlite", "@postgres", "@spark"]


def on_engine(variant: str, folder: Path, **options: Any) -> Any:
    from tests.helpers import engines

    engine, _, large = variant.strip("@").partition("-")
    with engines.as_if_large() if large else nullcontext():
        known, new = (
            engines.put(engine, frame.drop(columns="all"))
            for frame in (calibration_sites(), new_sites())
        )
        method = calibrate_table(known, task="site", **LEVELS | options)
        evaluated = evaluate_table(method, new)
        sets = None
        if "score" not in options:
            rows = predict_table(method, new).to_pandas()
            rows = rows.sort_values([*new_sites().drop(columns="all")], ignore_index=True)
            added = [name for name in rows.columns if name not in new_sites().columns]
            sets = {name: exact([_as_list(each) for each in rows[name]]) for name in added}
    order = np.argsort(evaluated.tasks) if hasattr(evaluated, "tasks") else slice(None)
    counts = [exact(evaluated.errors[order]), describe_verdict(evaluated.verdict)]
    return {"content": content(method, folder), "sets": sets, "evaluated": counts}


def _as_list(value: Any) -> Any:
    """Return a set as a list, whether the engine has lists or writes them as JSON."""
    if isinstance(value, str):
        return json.loads(value)
    return value.tolist() if isinstance(value, np.ndarray) else value


ON_ENGINES: dict[str, dict[str, Any]] = {
    "score_column": {"score": "true", "split": "even"},
    "class_columns": {"label": "y", "cluster": "region"},
    "columns_per_class": {"label": "y", "per_class": True, "alpha": 0.45},
    "interval_columns": {
        "prediction": "predicted", "y": "length", "scale": "scale", "min_examples": 25,
    },
}  # fmt: skip
for name, options in ON_ENGINES.items():
    for engine in ENGINES:
        CASES[f"engines/{name} {engine}"] = functools.partial(on_engine, engine, **options)


# Estimators


@case("estimators", "joint", "per class", "prefit")
def classifier(folder: Path, variant: str) -> Any:
    x, y, _, groups = draw_points(0)
    new, true, _, names = draw_points(1, groups=12)
    choices: dict[str, dict[str, Any]] = {
        "joint": {"split": "joint"},
        "per class": {"per_class": True, "alpha": 0.45, "calibration": 30},
        "prefit": {"prefit": True, "delta": None},
    }
    options = choices[variant]
    estimator = Centroids().fit(*draw_points(2)[:2]) if "prefit" in options else Centroids()
    model = MetaPSClassifier(estimator, **LEVELS | options, rng=3).fit(x, y, groups=groups)
    described = describe_fitted(model.meta_ps_, folder)
    described |= {"sets": exact(model.predict_set(new)), "groups": exact(model.calibration_groups_)}
    return described | {"evaluated": describe_evaluation(model.evaluate(new, true, groups=names))}


@case("estimators", "plain", "with std")
def regressor(folder: Path, variant: str) -> Any:
    x, _, y, groups = draw_points(0)
    new, _, true, names = draw_points(1, groups=12)
    model = MetaPSRegressor(Line(), **LEVELS, return_std=variant == "with std", rng=3)
    model.fit(x, y, groups=groups)
    described = describe_fitted(model.meta_ps_, folder)
    described |= {"ends": exact(model.predict_interval(new))}
    return described | {"evaluated": describe_evaluation(model.evaluate(new, true, groups=names))}


# Tasks, learners and studies


def draw_classes(seed: int = 0, first: int = 0) -> tuple[Any, Any]:
    """Vectors of classes around a mean each."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(24), 14)
    x = rng.integers(-16, 17, (24, 4))[y] / 8 + rng.integers(-16, 17, (len(y), 4)) / 8
    return x, y + first


def describe_tasks(tasks: Iterable[fewshot.Task]) -> Any:
    return [
        {
            "task": exact([t.name, t.classes, t.domain, t.class_names]),
            "positions": exact([p.tolist() for p in (t.support, t.support_y, t.query, t.query_y)]),
            "examples": exact(np.asarray(t.query_x).tolist()),
        }
        for t in tasks
    ]


@case("tasks", "fixed", "ranges")
def class_pool(folder: Path, variant: str) -> Any:
    pool = fewshot.ClassPool(*draw_classes())
    options: dict[str, Any] = {"ways": 5, "shots": 2, "queries": 4}
    if variant == "ranges":
        options = {"ways": range(2, 6), "shots": [1, 3], "queries": 4}
    return describe_tasks(pool.tasks(6, **options, rng=11))


@case("tasks")
def class_splits(folder: Path) -> Any:
    sizes = {"train": 8, "validation": 4, "calibration": 6, "test": 6}
    pools = fewshot.split_classes(*draw_classes(), **sizes, rng=1)
    drawn = [pools.calibration, pools.test]
    return [describe_tasks(p.tasks(3, ways=3, shots=1, queries=2, rng=2)) for p in drawn]


def draw_groups(groups: int) -> tuple[Any, Any, Any]:
    x, y, _, names = draw_points(0, groups=groups)
    return x, np.unique(y, return_inverse=True)[1], names


@case("tasks", "each", "drawn")
def group_pool(folder: Path, variant: str) -> Any:
    count, queries = (None, None) if variant == "each" else (6, 5)
    pool = fewshot.GroupPool(*draw_groups(8), classes=3)
    return describe_tasks(pool.tasks(count, shots=4, queries=queries, rng=12))


@case("tasks")
def group_splits(folder: Path) -> Any:
    sizes = dict.fromkeys(("train", "validation", "calibration", "test"), 5)
    pools = fewshot.split_groups(*draw_groups(20), **sizes, rng=1)
    return describe_tasks(pools.calibration.tasks(shots=3, queries=4, rng=2))


@case("tasks", "each", "drawn")
def domain_pool(folder: Path, variant: str) -> Any:
    x, y = draw_classes()
    pool = fewshot.DomainPool(x, y, np.array(["greek", "latin", "thai", "runes"])[y % 4])
    count = None if variant == "each" else 6
    return describe_tasks(pool.tasks(count, ways=3, shots=2, queries=4, rng=13))


@case("tasks")
def domain_splits(folder: Path) -> Any:
    x, y = draw_classes()
    domains = np.array([f"alphabet {i}" for i in range(8)])[y % 8]
    sizes = dict.fromkeys(("train", "validation", "calibration", "test"), 2)
    pools = fewshot.split_domains(x, y, domains, **sizes, rng=1)
    return describe_tasks(pools.calibration.tasks(4, ways=2, shots=2, queries=2, rng=2))


def some(values: Any, count: int = 12) -> Any:
    """Return some of many numbers, spread evenly, and their sum."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    chosen = flat[np.linspace(0, len(flat) - 1, count).astype(int)]
    return close([str(np.asarray(values).dtype), *np.shape(values), *chosen.tolist(), flat.sum()])


def drawn_tasks(seed: int = 0, count: int = 12) -> list[fewshot.Task]:
    pool = fewshot.ClassPool(*draw_classes(seed))
    return [*pool.tasks(count, ways=4, shots=3, queries=5, rng=seed)]


@case("scoring", "probability", "log_probability", "margin", "cumulative", "raw")
def score_functions(folder: Path, variant: str) -> Any:
    scores, names = fewshot.score_tasks(fewshot.PrototypeLearner(), drawn_tasks(), score=variant)
    return [some(scores), exact(list(names))]


@case("scoring", "cosine", "ridge", "logistic")
def learners(folder: Path, variant: str) -> Any:
    chosen: dict[str, Any] = {
        "cosine": fewshot.PrototypeLearner(metric="cosine", temperature=0.1),
        "ridge": fewshot.RidgeLearner(penalty=2.0),
        "logistic": fewshot.LogisticLearner(),
    }
    task = drawn_tasks()[0]
    given = task.support_x, task.support_y, task.query_x
    both = (
        fewshot.score_tasks(chosen[variant], drawn_tasks())[0],
        fewshot.score_examples(chosen[variant], *given),
    )
    # The logistic learner stops where its solver does.
    return [np.round(s, 6).tolist() for s in (both[0][:12], np.asarray(both[1])[0])]


@case("scoring")
def temperature(folder: Path) -> Any:
    return round(fewshot.fit_temperature(fewshot.PrototypeLearner(), drawn_tasks()).temperature, 6)


@case("scoring")
def small_network(folder: Path) -> Any:
    learner = fewshot.ProtoNet(fewshot.MLP(4, width=3, rng=0))
    scores, names = fewshot.score_tasks(learner, drawn_tasks())
    # In single precision, the order of sums changes the last digits.
    return [[round(float(s), 5) for s in scores[:20]], str(np.asarray(scores).dtype), exact(names)]


@case("scoring", "prototypes", "ridge")
def scored(folder: Path, variant: str) -> Any:
    x, y = draw_classes()
    np.savez(folder / "classes.npz", x=x, y=y)
    table, promise = folder / "scored.parquet", folder / "promise.json"
    small = ["--ways", 3, "--shots", 2, "--queries", 6, "--tasks", 40, "--learner", variant]
    printed = command("score", folder / "classes.npz", *small, "--model", "none", "-o", table)
    rows = parquet.read_table(table)
    numbers = [n for n in rows.schema.names if "double" in str(rows[n].type)]
    texts = {
        n: exact(rows[n].to_pylist()) for n in rows.schema.names if "string" in str(rows[n].type)
    }
    command("calibrate", table, *WORDS, "-o", promise)
    fitted = close(read_document(promise))
    kept = {k: fitted[k] for k in ("threshold", "context", "columns", "precision")}
    sums = {n: some(rows[n].drop_null().to_pylist()) for n in numbers}
    del printed["data"]
    return {"printed": close(printed), "numbers": sums, "texts": texts, "promise": kept}


def describe_rows(rows: Any) -> Any:
    names = ("draw", "method", "delta", "task", "feasible", "examples", "labels")
    found = {name: exact(getattr(rows, name)) for name in names}
    return found | {name: close(getattr(rows, name)) for name in ("threshold", "error", "size")}


G = mp.Guarantee(epsilon=0.2, alpha=0.3, delta=0.1)


@case("study", "paper", "neighbours")
def synthetic_study(folder: Path, variant: str) -> Any:
    study = fewshot.SyntheticStudy(tasks=40, examples=40, tests=3, labelled=30)
    methods = (
        fewshot.paper_methods(G, second_delta=0.01) if variant == "paper" else neighbour_methods(G)
    )
    rows = fewshot.run_study(study, guarantee=G, methods=methods, draws=3, rng=4)
    lines = [vars(line) | {"verdict": line.verdict} for line in fewshot.summarise(rows, G)]
    return {"rows": describe_rows(rows), "lines": close(lines)}


@case("study")
def pool_study(folder: Path) -> Any:
    both = [fewshot.ClassPool(*draw_classes(seed, first=24 * seed)) for seed in (0, 1)]
    sizes: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 6, "tasks": 40, "tests": 3}
    study = fewshot.PoolStudy(fewshot.PrototypeLearner(), *both, **sizes, epsilon=0.2)
    methods = [m for m in fewshot.paper_methods(G) if m.name != "Meta-CP"]
    rows = fewshot.run_study(study, guarantee=G, methods=methods, draws=2, rng=4)
    compared = compare_sizes(rows, "Meta-PS joint", "Meta-PS even")
    return {"rows": describe_rows(rows), "compared": close(vars(compared))}


@case("study")
def study_of_vectors(folder: Path) -> Any:
    x, y = draw_classes()
    np.savez(folder / "classes.npz", x=x, y=y)
    printed = command(
        *("study", folder / "classes.npz", "-o", folder / "study", "--learner", "prototypes"),
        *("--seeds", 1, "--draws", 2, "--tasks", 40, "--tests", 3, *WORDS[:4]),
        *("--ways", 3, "--shots", 1, "--queries", 6),  # so few that no network is trained
    )
    prose = ("columns", "covers", "files")
    return close({name: value for name, value in printed.items() if name not in prose})
