"""What the templates of a report show: numbers and names; the sentences are in the templates."""

from __future__ import annotations

import hashlib
import math
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from metapac._common import PathLike
from metapac._text import name_score
from metapac._version import __version__
from metapac.columns import hold_losses, hold_numbers
from metapac.context import Context
from metapac.evaluation import Evaluation
from metapac.evidence import UNKNOWN, Outcome, Part
from metapac.grouping import Data, Row
from metapac.guarantee import Guarantee, describe_share
from metapac.inputs import match_names
from metapac.monitoring import Monitor
from metapac.planning import Need, find_needs
from metapac.predictors import PS, MetaPS
from metapac.report import charts
from metapac.verdict import HOLDS, UNDECIDED, VIOLATED
from metapac.words import Words

_PANELS = 4  # classes with charts of their own
_WORST = 10  # tasks in the table of the worst
_LISTED = 500  # tasks in the table that can be opened
_BATCHES = 24  # the latest ones are listed
_FILES = 20  # listed one by one
_STATED = ("alpha", "delta", "shift", "dishonest", "sampling", "randomise")
_KINDS = ("missed", "empty", "single", "several", "full", "hit")


def find_date() -> str:
    """Return the date of the report: today, or what ``SOURCE_DATE_EPOCH`` says."""
    fixed = os.environ.get("SOURCE_DATE_EPOCH", "")
    date = datetime.fromtimestamp(int(fixed), UTC) if fixed.isdigit() else datetime.now(UTC)
    return f"{date.day} {date:%B %Y}"


def describe_guarantee(predictor: Any) -> dict[str, Any]:
    """Return what is guaranteed, what it rests on, and what is on record about its assumptions."""
    about, columns = predictor.context_, getattr(predictor, "columns_", None) or {}
    tasks = [] if isinstance(predictor, PS) else predictor.tasks_.tolist()
    basis, claim, confidence, conditions, limits, use = predictor.explain().split("\n\n")
    epsilon = predictor.epsilon
    offsets = None
    if isinstance(predictor, MetaPS) and (known_offsets := predictor.guarantee_.offsets):
        offsets = {label: known_offsets[label] for label in predictor.classes_ or ()}
    known = not tasks or np.min(predictor.task_sizes_) != UNKNOWN
    return {
        "kind": predictor._kind,
        "model": about.model,
        **{name: getattr(predictor, name, None) for name in _STATED},
        "epsilon": None if isinstance(epsilon, Mapping) else epsilon,
        "min_examples": getattr(predictor, "min_examples", 0),
        **_describe_meta(predictor),
        "is_per_class": getattr(predictor, "per_class", False) is True,
        "offsets": offsets,
        "cuts": offsets and dict(zip(offsets, predictor.thresholds_.tolist(), strict=True)),
        "is_interval": hold_numbers(columns),
        "is_risk": hold_losses(columns),
        "is_scaled": "scale" in columns,
        "is_quantile": "lower" in columns,
        "tasks": len(tasks),
        "examples": _count_examples(predictor) if known else None,
        "sentence": predictor.promise_,
        "remarks": getattr(predictor, "remarks_", []),
        "claim": claim,
        "basis": basis,
        "confidence": confidence,
        "conditions": conditions,
        "limits": limits.split("\n- ")[1:],
        "use": use,
        "training": about.training,
        "trained_on": _compare_names(about.trained_on, tasks),
        "pilot": _compare_names(about.pilot, tasks),
    }


def _describe_meta(predictor: Any) -> dict[str, Any]:
    """Return on which new tasks `MetaPS` holds, what was drawn, and its thresholds by class."""
    if not isinstance(predictor, MetaPS):
        none = ("free_shift", "new_tasks", "draw", "clusters", "within")
        return {"absent": 0, "share": "", "rules": [], **dict.fromkeys(none)}
    g, words = predictor.guarantee_, Words.from_context(predictor._about())
    clusters, drawn = predictor._cluster_words(), predictor._evidence.within
    share = describe_share(g, words.unit, words.units, clusters and clusters[1])
    unit, units = predictor._unit_words()
    return {
        "absent": predictor._evidence.absent,
        "free_shift": predictor._find_free_shift(),
        "share": share + " of the same kind" * (g.new_tasks is None),
        "new_tasks": g.list_of_new_tasks,
        "draw": predictor.context_.draw,
        "clusters": clusters,
        "within": drawn and {"unit": unit, "plural": units} | drawn._asdict(),
        "rules": _describe_rules(predictor),
    }


def _count_examples(predictor: Any) -> int:
    return int(predictor.n_examples_ if isinstance(predictor, PS) else predictor.task_sizes_.sum())


def _compare_names(names: Sequence[Any] | None, tasks: Sequence[Any]) -> dict[str, Any] | None:
    """Return how many tasks are on record as kept apart, and which are named like others."""
    if names is None:
        return None
    return {"number": len(names), "near": match_names(names, tasks)[1][:3]}


def _describe_rules(predictor: MetaPS) -> list[dict[str, Any]]:
    """Return the threshold of each class, or of all together, and its data; the rarest first."""
    parts = predictor._evidence.parts(predictor.guarantee_)
    needs = {g: _find_need(g) for g in {part.guarantee for part in parts}}  # few differ
    pairs = zip(parts, predictor._outcomes, strict=True)
    rules = [_describe_rule(part, found, needs[part.guarantee]) for part, found in pairs]
    rules.sort(key=lambda rule: (rule["examples"] or 0, str(rule["label"])))
    for index, rule in enumerate(rules[:_PANELS]):
        if rule["rank"] is not None:
            drawn = rule["thresholds"], rule["threshold"], rule["rank"]
            rule["chart"] = charts.draw_thresholds(*drawn, f"thresholds-{index}")
    return rules


def _find_need(g: Guarantee) -> Need:
    return find_needs(replace(g, min_examples=0))[0]


def _describe_rule(part: Part, outcome: Outcome, need: Need) -> dict[str, Any]:
    g, sizes = part.guarantee, part.sizes[part.used]
    is_known = len(sizes) > 0 and bool(np.all(sizes != UNKNOWN))
    allowed = g.allowed_low_thresholds(part.tasks)[outcome.level] if len(sizes) else -1
    thresholds = part.thresholds[part.used][:, outcome.level]
    counted = sizes if part.rarest is None else part.rarest[part.used]
    has_rank = math.isfinite(outcome.threshold) and allowed >= 0
    return {
        "label": part.label,
        "epsilon": g.miss_rate,
        "tasks": len(sizes),
        "examples": int(sizes.sum()) if is_known else None,
        "sizes": (int(counted.min()), int(counted.max())) if is_known else None,
        "tasks_needed": need.tasks,
        "examples_needed": need.examples_per_task,
        "threshold": outcome.threshold,
        "rank": allowed + 1 if has_rank else None,
        "too_small": int(np.count_nonzero(thresholds == -np.inf)),
        "thresholds": thresholds,
        "chart": None,
    }


def describe_results(evaluation: Evaluation, examples: Sequence[Row]) -> dict[str, Any]:
    """Return ``Evaluation.to_dict`` with more rows, in the order of `evaluate`, and charts."""
    assert evaluation.verdict is not None
    parts: Mapping[Any, Evaluation] = evaluation.by_class or {None: evaluation}
    present = {label: part for label, part in parts.items() if len(part.tasks)}
    rarest = sorted(present, key=lambda label: (present[label].examples.sum(), str(label)))
    each = max(1, 2 * _WORST // len(rarest)) if evaluation.by_class else _WORST
    rows = {label: present[label].worst(min(each, _WORST)) for label in rarest[: 2 * _WORST]}
    worst = [{"class": label} | row for label, some in rows.items() for row in some]
    found, drawn = evaluation.to_dict(), rarest[:_PANELS]
    return found | {
        "classes": _sort_classes(evaluation),
        "neglected": found.get("neglected", []),
        "trivial": evaluation.verdict.trivial,
        "is_per_class": evaluation.by_class is not None,
        "within_tasks": int(np.count_nonzero(evaluation.errors <= evaluation.epsilon))
        if evaluation.by_class is None
        else None,
        "worst": _add_limits(worst, parts),
        "worst_classes": len(rarest),
        "any_above": any((part.errors > part.epsilon).any() for part in parts.values()),
        "all": _add_limits(evaluation.worst(_LISTED), parts),
        "rows": sum(len(part.tasks) for part in parts.values()),
        "errors": [_draw_errors(x, present[x], f"errors-{i}") for i, x in enumerate(drawn)],
        "sizes": _draw_sizes(evaluation),
        "examples_shown": [_describe_example(row) for row in examples],
    }


def _add_limits(
    rows: list[dict[str, Any]], parts: Mapping[Any, Evaluation]
) -> list[dict[str, Any]]:
    return [row | {"limit": float(parts[row.get("class")].epsilon)} for row in rows]


def _sort_classes(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the classes that have examples and what is allowed, the most missed first."""
    epsilon = evaluation.epsilon
    present = [part for part in evaluation.classes or () if part.examples]
    limits = epsilon if isinstance(epsilon, Mapping) else {x.label: epsilon for x in present}
    ordered = sorted(present, key=lambda part: (-part.low, str(part.label)))
    return [x._asdict() | {"error": x.error, "limit": limits[x.label]} for x in ordered]


def _draw_errors(label: Any, part: Evaluation, name: str) -> dict[str, Any]:
    kinds = np.bincount(charts.find_kinds(part), minlength=3).tolist()
    counts = dict(zip(("within", "perhaps", "above"), kinds, strict=True))
    chart, is_single = charts.draw_errors(part, name), len(part.tasks) <= charts.SINGLE
    drawn = {"label": label, "chart": chart, "is_single": is_single}
    return drawn | {"epsilon": part.epsilon} | counts


def _draw_sizes(evaluation: Evaluation) -> dict[str, Any] | None:
    values = evaluation.sizes if evaluation.widths is None else evaluation.widths
    if values is None or not np.all(np.isfinite(values)):
        return None
    ends = {"low": float(values.min()), "high": float(values.max())}
    return {"chart": charts.draw_values(values, "sizes"), **ends}


def find_examples(predictor: Any, data: Data, evaluation: Evaluation, number: int) -> list[Row]:
    """Return some labelled examples with their sets, of tasks from the worst to the best."""
    if not number:
        return []
    tasks = choose_tasks(evaluation)
    rows = predictor._resolve(data).rows(predictor, tasks)
    return pick_examples(rows, tasks, number)


def choose_tasks(evaluation: Evaluation, number: int = 3) -> list[Any]:
    """Return tasks from the worst to the best, evenly spaced."""
    rows = evaluation.worst(len(evaluation.tasks) * max(1, len(evaluation.by_class or ())))
    tasks = [*dict.fromkeys(row["task"] for row in rows)]
    places = np.linspace(0, len(tasks) - 1, min(number, len(tasks))).round().astype(int)
    return [tasks[place] for place in places]


def pick_examples(rows: Sequence[Row], tasks: Sequence[Any], number: int) -> list[Row]:
    """Return a few examples of each task, with sets of as many kinds and classes as fit."""
    chosen: list[Row] = []
    seen: Counter[Any] = Counter()  # how often a kind, and a kind and class, was chosen
    for index, task in enumerate(tasks):
        share = (number - len(chosen)) // (len(tasks) - index)
        own = [row for row in rows if str(row.task) == str(task)]
        chosen += sorted(_pick(own, share, seen), key=lambda row: _KINDS.index(_kind_of_set(row)))
    return chosen


def _pick(rows: Sequence[Row], number: int, seen: Counter[Any]) -> list[Row]:
    """Return a few examples, always of the kind, and then of the class, shown least so far."""
    picked: list[Row] = []
    here: Counter[str] = Counter()
    left = [*rows]

    def rank(row: Row) -> tuple[Any, ...]:
        kind, truth = _kind_of_set(row), "" if row.interval else str(row.truth)
        return here[kind], seen[kind], seen[kind, truth], _KINDS.index(kind), truth

    while left and len(picked) < number:
        row = min(left, key=rank)
        left.remove(row)
        picked.append(row)
        kind = _kind_of_set(row)
        here[kind] += 1
        seen.update([kind, (kind, "" if row.interval else str(row.truth))])
    return picked


def is_missed(row: Row) -> bool:
    """Return whether the set lacks the true label, or the interval the true number."""
    if row.interval is not None:
        return not row.interval[0] <= row.truth <= row.interval[1]
    return str(row.truth) not in (row.labels or ())


def _kind_of_set(row: Row) -> str:
    """Return what a set is like, for choosing examples of every kind."""
    if row.interval is not None:
        return "missed" if is_missed(row) else "hit"
    size = len(row.labels or ())
    if size == 0 or is_missed(row):
        return "missed" if size else "empty"
    if row.full:
        return "full"
    return "single" if size == 1 else "several"


def _describe_example(row: Row) -> dict[str, Any]:
    return row._asdict() | {"is_missed": is_missed(row)}


def describe_monitor(monitor: Monitor) -> dict[str, Any] | None:
    """Return the course of a monitor, batch by batch; None if it has seen nothing."""
    if not (course := monitor.course):
        return None
    batches = [
        {
            "name": name,
            "tasks": len(steps),
            "missed": sum(step.missed for step in steps),
            "examples": sum(step.examples for step in steps),
            "above": sum(bool(step.violated) for step in steps),
            "wealth": steps[-1].wealth,
        }
        for name, steps in monitor._by_batch().items()
    ]
    lights = {"alarm": monitor.alarm, "amber": monitor.amber}
    return {
        "status": monitor.status,
        "sentence": monitor.sentence(),
        "tasks": len(course),
        **{k: v and {"batch": v.batch, "at": course.index(v) + 1} for k, v in lights.items()},
        "batches": batches[-_BATCHES:],
        "left_out": max(0, len(batches) - _BATCHES),
        "charts": charts.draw_course(monitor),
    }


def find_signals(
    results: Mapping[str, Any] | None, monitor: Mapping[str, Any] | None, *, is_weak: bool
) -> dict[str, Any]:
    """Return the colours of card, verdict and monitor: nothing looks good beside bad news."""
    status = None if results is None else results["verdict"]["status"]
    watched = None if monitor is None else monitor["status"]
    is_amber = status != HOLDS or (results and (results["trivial"] or results["neglected"]))
    verdict = "bad" if status == VIOLATED else "caution" if is_amber else "good"
    course = {VIOLATED: "bad", UNDECIDED: "quiet"}.get(watched or "", "good")
    is_lit = monitor is not None and bool(monitor["amber"]) and course != "bad"
    course = "caution" if is_lit else course
    is_broken = VIOLATED in (status, watched)
    is_split = is_broken and None not in (status, watched) and status != watched
    if is_split:
        verdict, course = ("bad" if each == "bad" else "caution" for each in (verdict, course))
    card = verdict if results else "quiet"
    card = "bad" if is_broken else "caution" if is_weak or is_lit else card
    signals = {"card": card, "verdict": verdict, "monitor": course}
    return signals | {"is_split": is_split, "is_broken": is_broken}


def describe_origin(predictor: Any, written_by: str | None) -> dict[str, Any]:
    """Return what a promise says about its model, tasks and columns, and the versions."""
    about, default = vars(predictor.context_), vars(Context())
    given = {key: value for key, value in about.items() if value != default[key]}
    if predictor.context_.draw is not None:
        given["draw"] = predictor.context_.draw.describe()
    return {
        "context": {key: given[key] for key in given if key not in ("unit", "example")},
        "columns": getattr(predictor, "columns_", None) or {},
        "precision": predictor.precision_.name,
        "written_by": written_by,
        "version": __version__,
        "python": platform.python_version(),
        "packages": {name: metadata.version(name) for name in ("numpy", "scipy", "matplotlib")},
    }


def describe_files(kind: str, paths: Iterable[PathLike]) -> list[dict[str, Any]]:
    """Return size, date and checksum of some files, and what Parquet files say of their scores."""
    files = [path for path in map(Path, paths) if path.is_file()]
    found: list[dict[str, Any]] = [_describe_file(kind, path) for path in files[:_FILES]]
    more = len(files) - _FILES
    return [*found, {"kind": kind, "more": more}] if more > 0 else found


def _describe_file(kind: str, path: Path) -> dict[str, Any]:
    status = path.stat()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    scores: dict[str, Any] = {}
    if path.suffix.lower() in (".parquet", ".pq"):
        from metapac.provenance import read_provenance

        if (found := read_provenance(path)) is not None:
            scores = {"model": found.model, "score function": name_score(found.score)}
            scores |= {key.replace("_", " "): value for key, value in found.details.items()}
    date = datetime.fromtimestamp(status.st_mtime, UTC)
    size = {"bytes": status.st_size, "changed": f"{date:%Y-%m-%d}", "sha256": digest}
    return {"kind": kind, "more": 0, "name": path.name, "scores": scores} | size
