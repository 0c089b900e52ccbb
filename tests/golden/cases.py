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
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyarrow import csv, parquet
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from metapac import (
    PS,
    Context,
    Guarantee,
    InfeasibleGuarantee,
    MetaPS,
    Monitor,
    allowed_errors,
    answers,
    bound_threshold,
    clopper_pearson_upper,
    combine_sites,
    compare_scores,
    count_liars,
    evaluate,
    failure_probability,
    judge,
    label_lists,
    load,
    open_table,
    plan,
    residual_scores,
    summarise_sets,
    threshold,
)
from metapac.fewshot import (
    ClassPool,
    DomainPool,
    GroupPool,
    LogisticLearner,
    MetaCP,
    PoolStudy,
    PrototypeLearner,
    RidgeLearner,
    SyntheticStudy,
    Task,
    fit_temperature,
    paper_methods,
    score_examples,
    score_tasks,
    split_classes,
    split_domains,
    split_groups,
    summarise,
)
from metapac.fewshot import run_study as run_study
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
    plain = _as_json(value, repr)
    return _shorten(plain)


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
    first = _shorten(value[0])
    return {"length": len(value), "first": first, "checksum": digest}


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
    scores, tasks, _ = draw_scores()
    return describe_fitted(
        MetaPS(**_options(variant)).calibrate(scores, tasks), folder, new_matrix()
    )


@case("arrays", *SPLITS)
def per_class(folder: Path, variant: str) -> Any:
    method = MetaPS(**_options(variant), per_class=True, on_infeasible="trivial", min_examples=6)
    return describe_fitted(method.calibrate(*draw_scores()), folder, new_matrix())


@case("arrays", "float16", "float32", "float64", "longdouble")
def precision(folder: Path, variant: str) -> Any:
    scores, tasks, _ = draw_scores()
    method = MetaPS(**LEVELS).calibrate(scores.astype(variant), tasks, allow=ALLOW)
    same = {"same": exact(method.predict_set(new_matrix()))}
    return describe_fitted(method, folder, new_matrix(variant)) | same


@case("arrays")
def bfloat16(folder: Path) -> Any:
    import torch

    scores, tasks, _ = draw_scores()
    method = MetaPS(**LEVELS).calibrate(torch.tensor(scores).bfloat16(), tasks, allow=ALLOW)
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
    return describe_fitted(MetaPS(**LEVELS).calibrate(*changed[variant], allow=ALLOW), folder)


@case("arrays", 0, 20, 40)
def min_examples(folder: Path, variant: int) -> Any:
    scores, tasks, _ = draw_scores()
    method = MetaPS(**LEVELS, min_examples=variant).calibrate(scores, tasks)
    return describe_fitted(method, folder)


@case("arrays")
def epsilon_by_class(folder: Path) -> Any:
    scores, tasks, labels = draw_scores()
    rates = {"a": 0.2, "b": 0.3, "c": 0.45}
    method = MetaPS(epsilon=rates, alpha=0.4, delta=0.2, per_class=True)
    return describe_fitted(method.calibrate(scores, tasks, np.array([*rates])[labels]), folder)


@case("arrays")
def all_classes(folder: Path) -> Any:
    known, new = calibration_sites(), new_sites()
    names = ["p_cat", "p_dog", "p_owl"]
    given: dict[str, Any] = {"classes": ["cat", "dog", "owl"]}
    context = Context(model="forest 3", trained_on=("ohio", "utah"), unit="hospital")
    method = MetaPS(**LEVELS).calibrate(
        known[names].to_numpy(), known.site.to_numpy(), known.y.to_numpy(), **given, context=context
    )
    sets = method.predict_set(new[names].to_numpy())
    summary = summarise_sets(sets, given["classes"])
    return describe_fitted(method, folder) | {
        "labels": exact(label_lists(sets, given["classes"])),
        "answers": exact(vars(answers(sets, given["classes"]))),
        "summary": exact(vars(summary)),
    }


@case("arrays", 0, 1)
def clusters(folder: Path, variant: int) -> Any:
    scores, tasks, _ = draw_scores()
    group = {name: int(name.split("-")[1]) // 2 for name in np.unique(tasks).tolist()}
    method = MetaPS(**LEVELS).calibrate(scores, tasks, clusters=group, rng=variant)
    return describe_fitted(method, folder) | {"clusters": exact(method.clusters_)}


@case("arrays")
def trivial(folder: Path) -> Any:
    scores, tasks, _ = draw_scores(count=5)
    method = MetaPS(**LEVELS, on_infeasible="trivial").calibrate(scores, tasks)
    return describe_fitted(method, folder, new_matrix())


@case("arrays")
def infeasible(folder: Path) -> Any:
    scores, tasks, _ = draw_scores(count=5)
    raised = []
    for options in ({}, {"epsilon": 0.01}, {"delta": None}):
        try:
            MetaPS(**LEVELS | options).calibrate(scores, tasks)
        except InfeasibleGuarantee:
            raised.append(options)
    return exact(raised)


@case("arrays")
def added_tasks(folder: Path) -> Any:
    scores, tasks, _ = draw_scores()
    more, names, _ = draw_scores(seed=1)
    return describe_fitted(MetaPS(**LEVELS).calibrate(scores, tasks).add(more, names), folder)


@case("arrays", "joint", "tight")
def sent_thresholds(folder: Path, variant: str) -> Any:
    scores, tasks, _ = draw_scores()
    method = MetaPS(**LEVELS, split=variant)
    names = [*dict.fromkeys(tasks.tolist())]
    sent = {name: method.task_threshold(scores[tasks == name]) for name in names}
    return describe_fitted(method.combine(sent), folder)


@case("arrays")
def loaded(folder: Path) -> Any:
    scores, tasks, labels = draw_scores()
    method = MetaPS(**LEVELS | {"alpha": 0.45}, per_class=True).calibrate(scores, tasks, labels)
    method.save(folder / "promise.json")
    return describe_fitted(load(folder / "promise.json"), folder, new_matrix())


@case("arrays", "with scale", "without scale", "clusters")
def intervals(folder: Path, variant: str) -> Any:
    known, new = calibration_sites(), new_sites()
    scale = None if variant == "without scale" else known.scale.to_numpy()
    method = MetaPS(**LEVELS).calibrate_intervals(
        known.length.to_numpy(),
        known.predicted.to_numpy(),
        known.site.to_numpy(),
        scale,
        clusters=known.region.to_numpy() if variant == "clusters" else None,
    )
    given = () if scale is None else (new.scale.to_numpy(),)
    ends = method.predict_interval(new.predicted.to_numpy(), *given)
    residuals = residual_scores(new.length.to_numpy(), new.predicted.to_numpy(), *given)
    return describe_fitted(method, folder) | {"ends": exact(ends), "scores": exact(residuals)}


@case("arrays", "float64", "float32")
def ps(folder: Path, variant: str) -> Any:
    scores, _, _ = draw_scores()
    method = PS(epsilon=0.1, delta=0.05).calibrate(scores.astype(variant))
    return describe_fitted(method, folder, new_matrix(variant))


@case("arrays", "tasks", "examples")
def meta_cp(folder: Path, variant: str) -> Any:
    scores, tasks, _ = draw_scores()
    names = [*dict.fromkeys(tasks.tolist())]
    quantiles = {name: int(name.split("-")[1]) % 7 / 16 for name in names}
    method = MetaCP(epsilon=0.4, delta=0.2, over=variant).calibrate(scores, tasks, quantiles)
    cuts = [method.threshold(q / 8) for q in range(8)]
    sets = method.predict_set(new_matrix(), 0.25)
    return {"content": content(method, folder), "cuts": exact(cuts), "sets": exact(sets)}


@case("arrays", "scores", "labels", "per class", "clusters")
def evaluation(folder: Path, variant: str) -> Any:
    scores, tasks, labels = draw_scores()
    new, names, true = draw_scores(seed=1, count=20)
    options: dict[str, Any] = {}
    if variant == "per class":
        method = MetaPS(**LEVELS | {"alpha": 0.45}, per_class=True).calibrate(scores, tasks, labels)
        given: tuple[Any, ...] = (new, names, true)
    elif variant == "labels":
        method = MetaPS(**LEVELS).calibrate(scores, tasks)
        matrix = np.random.default_rng(7).random((len(new), 3)) / 2
        matrix[np.arange(len(new)), true] = new
        given = (matrix, names, true)
    else:
        group = {name: f"new {name[-1]}" for name in np.unique(names).tolist()}
        by = {n: i // 2 for i, n in enumerate(np.unique(tasks).tolist())}
        options = {"clusters": group} if variant == "clusters" else {}
        method = MetaPS(**LEVELS).calibrate(scores, tasks, clusters=by if options else None)
        given = (new, names)
    result = evaluate(method, *given, **options, min_examples=10)
    return describe_evaluation(result)


def describe_verdict(verdict: Any) -> Any:
    names = ("status", "tasks", "within", "flagged", "p_holds", "p_violated", "interval")
    found = {name: getattr(verdict, name) for name in names} | {"more": verdict.more_tasks}
    parts = {k: describe_verdict(part) for k, part in (verdict.by_class or {}).items()}
    return close(found) | ({"by_class": parts} if parts else {})


def describe_evaluation(result: Any) -> Any:
    counts = [exact(result.errors), None if result.sizes is None else exact(result.sizes)]
    ends = close([result.low.tolist(), result.high.tolist()])
    return {
        "counts": counts,
        "ends": ends,
        "within": close(result.within),
        "shares": close(result.set_shares),
        "worst": close(result.worst()),
        "verdict": describe_verdict(result.verdict),
    }


# The inequality


@case("inequality")
def ranks(folder: Path) -> Any:
    found = {}
    for tasks in (10, 29, 60, 100, 500, 2000):
        for split in ("joint", "tight", "even", 0.2):
            for delta in (1e-5, 0.05, None):
                agreed = Guarantee(epsilon=0.1, alpha=0.1, delta=delta, split=split)
                found[f"{tasks} {split} {delta}"] = agreed.allowed_low_thresholds(tasks)
    return exact(found)


@case("inequality", "joint", "tight", "even", "0.2")
def levels(folder: Path, variant: str) -> Any:
    chosen: Any = float(variant) if variant[0].isdigit() else variant
    agreed = [
        Guarantee(epsilon=0.1, alpha=alpha, delta=delta, split=chosen)
        for alpha in (0.05, 0.1, 0.3)
        for delta in (0.05, None)
    ]
    return exact([[[*level] for level in each.levels] for each in agreed])


@case("inequality")
def binomial(folder: Path) -> Any:
    n = np.arange(0, 3000, 7)
    allowed = [allowed_errors(n, epsilon, 0.05) for epsilon in (0.001, 0.05, 0.1, 0.5)]
    upper = clopper_pearson_upper(n[1:40] // 9, n[1:40], 0.05)
    values = draw_scores()[0]
    cuts = [threshold(values, epsilon=e, delta=d) for e in (0.001, 0.05, 0.2) for d in (0.01, 0.1)]
    return {"allowed": exact(allowed), "upper": close(upper), "cuts": exact(cuts)}


# The verdict, monitoring and dishonest sites, on arrays

COUNTS = {
    "holds": ([100] * 40, [5] * 40),
    "violated": ([100] * 12, [20, 25, 30, 4, 22, 41, 19, 28, 33, 27, 35, 21]),
    "undecided": ([20, 31, 45, 60, 12, 80], [1, 6, 4, 3, 2, 9]),
    "small": ([3, 4, 1, 0, 2], [0, 1, 1, 0, 0]),
}


@case("verdict", *COUNTS)
def judged(folder: Path, variant: str) -> Any:
    examples, missed = COUNTS[variant]
    options: list[dict[str, Any]] = [
        {"alpha": 0.1, "delta": 0.05},
        {"alpha": 0.3, "delta": None},
        {"alpha": None, "delta": 0.1},
        {"alpha": None, "delta": 0.1, "false_alarm": 0.01},
    ]
    return [describe_verdict(judge(examples, missed, epsilon=0.1, **more)) for more in options]


@case("verdict")
def judged_by_class(folder: Path) -> Any:
    rates = {"holds": 0.2, "violated": 0.1, "undecided": 0.05}
    counts = {name: COUNTS[name] for name in rates}
    same = judge_classes(counts, epsilon=0.1, alpha=0.2, delta=0.1)
    own = judge_classes(counts, epsilon=rates, alpha=0.2, delta=None, false_alarm=0.1)
    return [describe_verdict(same), describe_verdict(own)]


@case("monitor", "one threshold", "per class")
def course(folder: Path, variant: str) -> Any:
    scores, tasks, labels = draw_scores()
    by_class = variant == "per class"
    method = MetaPS(**LEVELS | {"alpha": 0.45}, per_class=by_class)
    monitor = Monitor(method.calibrate(scores, tasks, labels if by_class else None))
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
    both = [compare_scores(values, names, **known) for values in (new, new * 0.7)]
    return [
        close([[*shift] for shift in found.shifts])
        + close([found.higher, found.expected, found.p_number, found.is_suspicious])
        for found in both
    ]


@case("robustness")
def liars(folder: Path) -> Any:
    counted, failing = {}, {}
    for split in ("joint", "tight", "even"):
        agreed = Guarantee(epsilon=0.1, alpha=0.1, delta=0.05, split=split)
        for tasks in (20, 29, 60, 100):
            counted[f"{split} {tasks}"] = count_liars(agreed, tasks)
            failing[f"{split} {tasks}"] = [
                failure_probability(agreed, tasks, n, at_random=r)
                for n in (0, 3)
                for r in (False, True)
            ]
    return {"counted": exact(counted), "failing": close(failing)}


@case("robustness", 0, 20)
def moved_threshold(folder: Path, variant: int) -> Any:
    scores, tasks, labels = draw_scores()
    method = MetaPS(**LEVELS, min_examples=variant).calibrate(scores, tasks)
    by_class = MetaPS(**LEVELS | {"alpha": 0.45}, per_class=True).calibrate(scores, tasks, labels)
    both = [bound_threshold(method, n) for n in range(5)]
    return exact([*both, *(bound_threshold(by_class, 2, label=k) for k in range(3))])


# Tables and commands

WORDS = ["--epsilon", 0.2, "--alpha", 0.3, "--delta", 0.1]
CLASSES = ["--label", "y", "--columns", "p_*"]
NUMBERS = ["--prediction", "predicted", "--y", "length"]
CALIBRATIONS: dict[str, list[Any]] = {
    "score": [*WORDS, "--score", "true"],
    "classes": [*WORDS, *CLASSES],
    "named columns": [
        *WORDS,
        "--label",
        "y",
        "--columns",
        "p_dog,p_owl,p_cat",
        "--classes",
        "dog,owl,cat",
    ],
    "tight": [*WORDS, *CLASSES, "--split", "tight"],
    "even": [*WORDS, *CLASSES, "--split", "even"],
    "split": [*WORDS, *CLASSES, "--split", 0.2],
    "expectation": [*WORDS[:4], "--delta", "none", *CLASSES],
    "per class": [*WORDS[:2], "--alpha", 0.45, *WORDS[4:], *CLASSES, "--per-class"],
    "own epsilon": [
        *("--epsilon", "cat=0.2", "--epsilon", "dog=0.3", "--epsilon", "owl=0.35"),
        *("--alpha", 0.45, *WORDS[4:], *CLASSES, "--per-class", "--min-examples", 8),
    ],
    "min examples": [*WORDS, *CLASSES, "--min-examples", 35],
    "clusters": [*WORDS, *CLASSES, "--cluster", "region"],
    "numbers": [*WORDS, *NUMBERS],
    "scaled numbers": [*WORDS, *NUMBERS, "--scale", "scale"],
    "lists": [*WORDS, "--label", "y", "--columns", "all", "--classes", "cat,dog,owl"],
    "context": [
        *(*WORDS, *CLASSES, "--model", "forest 3", "--trained-on", "site 900,site 901"),
        *("--unit", "hospital", "--example", "patient"),
    ],
}


def calibrate(table: Path, kind: str = "classes") -> Path:
    """Calibrate by a command; the promise lies beside the table."""
    path = table.with_name("promise.json")
    command("calibrate", table, "--task", "site", *CALIBRATIONS[kind], "-o", path)
    return path


@functools.cache
def _promise_text(kind: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        return calibrate(write_sites(Path(folder))[0], kind).read_text(encoding="utf-8")


def write_promise(folder: Path, kind: str = "classes") -> Path:
    """Write a promise that was calibrated on the calibration sites once, since that takes long."""
    path = folder / "promise.json"
    path.write_text(_promise_text(kind), encoding="utf-8")
    return path


@case("calibrate", *CALIBRATIONS)
def calibrated(folder: Path, variant: str) -> Any:
    table, promise = write_sites(folder)[0], folder / "promise.json"
    words = ["--task", "site", *CALIBRATIONS[variant], "-o", promise]
    printed = command("calibrate", table, *words)
    return {"printed": exact(printed), "content": exact(read_document(promise))}


@case("calibrate")
def calibrated_csv(folder: Path) -> Any:
    promise = calibrate(write_sites(folder, "csv")[0])
    return exact(read_document(promise))


@case("calibrate")
def row_classes(folder: Path) -> Any:
    draw_row_classes(0, 40, seed=8).to_parquet(folder / "sites.parquet")
    draw_row_classes(100, 10, seed=9).to_parquet(folder / "new.parquet")
    columns = ["--label", "y", "--columns", "all", "--classes-column", "names"]
    promise, sets = folder / "promise.json", folder / "sets.parquet"
    words = ["--task", "site", *WORDS, *columns, "-o", promise]
    printed = command("calibrate", folder / "sites.parquet", *words)
    return {
        "printed": exact(printed),
        "content": exact(read_document(promise)),
        "predicted": exact(command("predict", promise, folder / "new.parquet", "-o", sets)),
        "sets": columns_of(sets),
        "evaluated": close(command("evaluate", promise, folder / "new.parquet")),
    }


@case("calibrate")
def with_pilot(folder: Path) -> Any:
    table, _ = write_sites(folder)
    draw_sites(300, 24, 30, seed=4).to_parquet(folder / "pilot.parquet")
    pilot = folder / "pilot.json"
    options = ["--task", "site", *CLASSES, "--epsilon", 0.2, "--alpha", 0.3, "-o", pilot]
    command("explore", folder / "pilot.parquet", *options)
    promise = folder / "promise.json"
    words = [*CALIBRATIONS["classes"], "--pilot", pilot, "-o", promise]
    command("calibrate", table, "--task", "site", *words)
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
    promise, sets = calibrate(table, OUTPUTS[variant][0]), folder / "sets.csv"
    command("predict", promise, new, "-o", sets)
    return columns_of(sets)


@case("predict")
def ps_on_a_table(folder: Path) -> Any:
    method = PS(epsilon=0.1, delta=0.1).calibrate(calibration_sites().true.to_numpy())
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
    _, new = write_sites(folder)
    kind, *options = EVALUATIONS[variant]
    printed = command(
        "evaluate", write_promise(folder, kind), new, *options, "-o", folder / "tasks.csv"
    )
    rows = csv.read_csv(folder / "tasks.csv").to_pydict()
    return {"printed": close(printed), "rows": close(rows)}


@case("evaluate")
def violated(folder: Path) -> Any:
    bad_sites().to_parquet(folder / "bad.parquet")
    words = [folder / "bad.parquet", "--check", "--allow", "direction"]
    return close(command("evaluate", write_promise(folder), *words, code=3))


@case("monitor", "classes", "per class", "scaled numbers", "clusters")
def watched(folder: Path, variant: str) -> Any:
    _, new = write_sites(folder)
    promise, state = write_promise(folder, variant), folder / "state.json"
    first = command("monitor", promise, new, "--state", state, "--batch", "January")
    again = command("monitor", promise, new, "--state", state, "--batch", "January")
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
    promise = write_promise(folder, variant)
    return close(command("monitor", promise, new, "--reference", table))


@case("explore", "0.1", "none")
def explored(folder: Path, variant: str) -> Any:
    draw_sites(300, 24, 30, seed=4).to_parquet(folder / "pilot.parquet")
    pilot = folder / "pilot.json"
    grid = ["--epsilon", "0.1,0.3", "--alpha", "0.2,0.45", "--delta", variant]
    words = ["--task", "site", *CLASSES, *grid, "-o", pilot]
    printed = command("explore", folder / "pilot.parquet", *words)
    assert close(read_document(pilot))["cells"] == close(printed)["cells"]
    cuts = [cell["thresholds"] for cell in printed["cells"]]
    return {"printed": close(printed), "thresholds": exact(cuts)}


@case("explore")
def explored_for_more_tasks(folder: Path) -> Any:
    draw_sites(300, 24, 30, seed=4).to_parquet(folder / "pilot.parquet")
    words = ["--task", "site", *CLASSES, "--epsilon", 0.2, "--alpha", 0.1, "--tasks", 80]
    return close(command("explore", folder / "pilot.parquet", *words, "--min-examples", 20))


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
    frame, table = draw_sites(0, count, 50, seed=5), folder / "one.parquet"
    printed = []
    for name, rows in frame.groupby("site"):
        rows.to_parquet(table)
        words = ["--name", name, *SITES[variant], "-o", folder / "sites" / f"{name}.json"]
        printed.append(command("site", table, *words))
    files = [exact(read_document(path)) for path in sorted(folder.glob("sites/*.json"))]
    promise = folder / "promise.json"
    both = command("combine", folder / "sites", "-o", promise)
    return {
        "sites": [exact(printed[0]), files[0]],
        "all sites": exact(
            [[each, sent] for each, sent in zip(files, exact(printed), strict=True)]
        ),
        "combined": exact(both),
        "content": exact(read_document(promise)),
    }


@case("sites")
def combined_in_python(folder: Path) -> Any:
    frame = draw_sites(0, 9, 50, seed=5)
    sites = [
        site_table(rows, name=str(name), score="true", **LEVELS)
        for name, rows in frame.groupby("site")
    ]
    return content(combine_sites(sites, context=Context(model="forest 3")), folder)


PLANS: dict[str, list[Any]] = {
    "guarantee": ["--epsilon", 0.1, "--alpha", 0.1, "--delta", 0.05],
    "expectation": ["--epsilon", 0.1, "--alpha", 0.1, "--delta", "none"],
    "classes": [
        *("--epsilon", 0.1, "--alpha", 0.2, "--delta", 0.05),
        *("--per-class", "--number-of-classes", 3),
    ],
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
    table, _ = write_sites(folder)
    words = [*WORDS[:2], "--alpha", 0.45, *WORDS[4:], "--label", "y", "--per-class"]
    return close(command("plan", table, "--task", "site", *words))


@case("plan", "joint", "tight", "even")
def plans(folder: Path, variant: Any) -> Any:
    found = []
    for delta in (1e-5, 0.05, None):
        asked = plan(
            epsilon=0.1, alpha=0.1, delta=delta, split=variant, sizes=[40] * 50 + [90] * 30
        )
        needs = [[need.tasks, need.examples_per_task] for need in asked.needs]
        found += [needs, [asked.tasks_for(40), asked.examples_for(90)]]
        found.append(close(asked.affordable(70, 40)))
    return found


@case("show", "promise", "per class", "site", "pilot", "monitor")
def shown(folder: Path, variant: str) -> Any:
    _, new = write_sites(folder)
    path = folder / "file.json"
    if variant == "site":
        command("site", new, "--name", "ohio", *SITES["joint"], "-o", path)
    elif variant == "pilot":
        levels = ["--epsilon", 0.2, "--alpha", 0.3]
        command("explore", new, "--task", "site", *CLASSES, *levels, "-o", path)
    else:
        path = write_promise(folder, "per class" if variant == "per class" else "classes")
    if variant == "monitor":
        command("monitor", path, new, "--state", folder / "state.json", "--batch", "January")
        path = folder / "state.json"
    return close(command("show", path))


def read_report(page: Path) -> Any:
    """Return the numbers in the tables of a report."""
    html = page.read_text(encoding="utf-8")
    cells = re.findall(r'<td class="number">(.*?)</td>', html, re.DOTALL)
    assert cells
    return [re.findall(r"\d+(?:\.\d+)?", cell) for cell in cells]


@case("report")
def reported(folder: Path) -> Any:
    _, new = write_sites(folder)
    page = folder / "report.html"
    command("report", write_promise(folder, "scaled numbers"), new, "-o", page)
    return read_report(page)


@case("report")
def reported_with_classes(folder: Path) -> Any:
    promise, page = load(write_promise(folder)), folder / "report.html"
    report(promise, open_table(new_sites()), output=page)
    return read_report(page)


# Engines: all must find what DuckDB finds

ENGINES = ["@duckdb", "@duckdb-large", "@sqlite", "@postgres", "@spark"]


def put_sites(variant: str, stack: Any) -> list[Any]:
    from tests.helpers import engines

    engine, _, large = variant.strip("@").partition("-")
    if large:
        stack.enter_context(engines.as_if_large())
    frames = [calibration_sites(), new_sites()]
    return [engines.put(engine, frame.drop(columns="all")) for frame in frames]


def on_engine(variant: str, folder: Path, options: Mapping[str, Any]) -> Any:
    from contextlib import ExitStack

    with ExitStack() as stack:
        known, new = put_sites(variant, stack)
        method = calibrate_table(known, task="site", **LEVELS | dict(options))
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


@case("engines", *ENGINES)
def score_column(folder: Path, variant: str) -> Any:
    return on_engine(variant, folder, {"score": "true", "split": "even"})


@case("engines", *ENGINES)
def class_columns(folder: Path, variant: str) -> Any:
    return on_engine(variant, folder, {"label": "y", "cluster": "region"})


@case("engines", *ENGINES)
def columns_per_class(folder: Path, variant: str) -> Any:
    return on_engine(variant, folder, {"label": "y", "per_class": True, "alpha": 0.45})


@case("engines", *ENGINES)
def interval_columns(folder: Path, variant: str) -> Any:
    columns = {"prediction": "predicted", "y": "length", "scale": "scale"}
    return on_engine(variant, folder, {**columns, "min_examples": 25})


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


def describe_tasks(tasks: Iterable[Task]) -> Any:
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
    pool = ClassPool(*draw_classes())
    options: dict[str, Any] = {"ways": 5, "shots": 2, "queries": 4}
    if variant == "ranges":
        options = {"ways": range(2, 6), "shots": [1, 3], "queries": 4}
    return describe_tasks(pool.tasks(6, **options, rng=11))


@case("tasks")
def class_splits(folder: Path) -> Any:
    x, y = draw_classes()
    pools = split_classes(x, y, train=8, validation=4, calibration=6, test=6, rng=1)
    drawn = [pools.calibration, pools.test]
    return [describe_tasks(p.tasks(3, ways=3, shots=1, queries=2, rng=2)) for p in drawn]


@case("tasks", "each", "drawn")
def group_pool(folder: Path, variant: str) -> Any:
    x, y, _, groups = draw_points(0, groups=8)
    codes = np.unique(y, return_inverse=True)[1]
    pool = GroupPool(x, codes, groups, classes=3)
    count = None if variant == "each" else 6
    queries = None if variant == "each" else 5
    return describe_tasks(pool.tasks(count, shots=4, queries=queries, rng=12))


@case("tasks")
def group_splits(folder: Path) -> Any:
    x, y, _, groups = draw_points(0, groups=20)
    codes = np.unique(y, return_inverse=True)[1]
    pools = split_groups(x, codes, groups, train=5, validation=5, calibration=5, test=5, rng=1)
    return describe_tasks(pools.calibration.tasks(shots=3, queries=4, rng=2))


@case("tasks", "each", "drawn")
def domain_pool(folder: Path, variant: str) -> Any:
    x, y = draw_classes()
    pool = DomainPool(x, y, np.array(["greek", "latin", "thai", "runes"])[y % 4])
    count = None if variant == "each" else 6
    return describe_tasks(pool.tasks(count, ways=3, shots=2, queries=4, rng=13))


@case("tasks")
def domain_splits(folder: Path) -> Any:
    x, y = draw_classes()
    domains = np.array([f"alphabet {i}" for i in range(8)])[y % 8]
    pools = split_domains(x, y, domains, train=2, validation=2, calibration=2, test=2, rng=1)
    return describe_tasks(pools.calibration.tasks(4, ways=2, shots=2, queries=2, rng=2))


def some(values: Any, count: int = 12) -> Any:
    """Return some of many numbers, spread evenly, and their sum."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    chosen = flat[np.linspace(0, len(flat) - 1, count).astype(int)]
    return close([str(np.asarray(values).dtype), *np.shape(values), *chosen.tolist(), flat.sum()])


def drawn_tasks(seed: int = 0, count: int = 12) -> list[Task]:
    pool = ClassPool(*draw_classes(seed))
    return [*pool.tasks(count, ways=4, shots=3, queries=5, rng=seed)]


@case("scoring", "probability", "log_probability", "margin", "cumulative", "raw")
def score_functions(folder: Path, variant: str) -> Any:
    scores, names = score_tasks(PrototypeLearner(), drawn_tasks(), score=variant)
    return [some(scores), exact(list(names))]


@case("scoring", "cosine", "ridge", "logistic")
def learners(folder: Path, variant: str) -> Any:
    chosen: dict[str, Any] = {
        "cosine": PrototypeLearner(metric="cosine", temperature=0.1),
        "ridge": RidgeLearner(penalty=2.0),
        "logistic": LogisticLearner(),
    }
    task = drawn_tasks()[0]
    given = task.support_x, task.support_y, task.query_x
    both = score_tasks(chosen[variant], drawn_tasks())[0], score_examples(chosen[variant], *given)
    # The logistic learner stops where its solver does.
    return [np.round(s, 6).tolist() for s in (both[0][:12], np.asarray(both[1])[0])]


@case("scoring")
def temperature(folder: Path) -> Any:
    return round(fit_temperature(PrototypeLearner(), drawn_tasks()).temperature, 6)


@case("scoring")
def small_network(folder: Path) -> Any:
    from metapac.fewshot import MLP, ProtoNet

    scores, names = score_tasks(ProtoNet(MLP(4, width=3, rng=0)), drawn_tasks())
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


G = Guarantee(epsilon=0.2, alpha=0.3, delta=0.1)


@case("study", "paper", "neighbours")
def synthetic_study(folder: Path, variant: str) -> Any:
    study = SyntheticStudy(tasks=40, examples=40, tests=3, labelled=30)
    methods = paper_methods(G, second_delta=0.01) if variant == "paper" else neighbour_methods(G)
    rows = run_study(study, guarantee=G, methods=methods, draws=3, rng=4)
    lines = [vars(line) | {"verdict": line.verdict} for line in summarise(rows, G)]
    return {"rows": describe_rows(rows), "lines": close(lines)}


@case("study")
def pool_study(folder: Path) -> Any:
    both = [ClassPool(*draw_classes(seed, first=24 * seed)) for seed in (0, 1)]
    sizes: dict[str, Any] = {"ways": 3, "shots": 2, "queries": 6, "tasks": 40, "tests": 3}
    study = PoolStudy(PrototypeLearner(), *both, **sizes, epsilon=0.2)
    methods = [m for m in paper_methods(G) if m.name != "Meta-CP"]
    rows = run_study(study, guarantee=G, methods=methods, draws=2, rng=4)
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
