"""What metapac computes, frozen: small cases whose results must not change when code moves.

A case returns data for JSON. ``exact`` writes floats as strings, which are compared to the last
bit; ``close`` leaves them as numbers, which are compared to 12 significant digits because they come
from SciPy or BLAS. Wording, versions, paths and times are left out.

Data come from integers and plain arithmetic, so that they are the same on every machine. All names
of metapac are imported here and nowhere else in the cases.
"""

from __future__ import annotations

import functools
import hashlib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import metapac as mp
from metapac import fewshot
from metapac.fewshot.study.methods import neighbour_methods
from metapac.fewshot.study.summary import compare_sizes
from metapac.verdict import judge_classes

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
    """Add a case to ``CASES``, or one for each variant, which the function then takes."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = f"{topic}/{function.__name__}"
        if not variants:
            CASES[name] = function
        for variant in variants:
            CASES[f"{name} {variant}"] = functools.partial(function, variant=variant)
        return function

    return register


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


@functools.cache
def calibration_sites() -> pd.DataFrame:
    return draw_sites(0, 48, 40, seed=0)


@functools.cache
def new_sites() -> pd.DataFrame:
    return draw_sites(100, 14, 40, seed=1)


def draw_points(seed: int, groups: int = 40, rows: int = 30) -> tuple[Any, Any, Any, Any]:
    """Features, classes, numbers and groups."""
    rng = np.random.default_rng(seed)
    group = np.repeat([f"group {seed}-{i}" for i in range(groups)], rows)
    y = rng.integers(0, 3, len(group))
    x = rng.integers(-16, 17, (len(group), 3)) / 8
    x[np.arange(len(y)), y] += np.repeat(rng.integers(4, 16, groups), rows) / 8
    numbers = x[:, 0] + rng.integers(-999, 999, len(group)) / 256
    return x, np.array(["a", "b", "c"])[y], numbers, group


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


SPLITS = [f"{s} {delta}" for s in ("joint", "tight", "even", "0.2") for delta in (0.1, None)]


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


def describe_rows(rows: Any) -> Any:
    names = ("draw", "method", "delta", "task", "feasible", "examples", "labels")
    found = {name: exact(getattr(rows, name)) for name in names}
    return found | {name: close(getattr(rows, name)) for name in ("threshold", "error", "size")}


G = mp.Guarantee(epsilon=0.2, alpha=0.3, delta=0.1)


@case("study", "paper", "neighbours")
def synthetic_study(folder: Path, variant: str) -> Any:
    study = fewshot.SyntheticStudy(tasks=40, examples=40, tests=3, labelled=30)
    paper = fewshot.paper_methods(G, second_delta=0.01)
    methods = paper if variant == "paper" else neighbour_methods(G)
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
