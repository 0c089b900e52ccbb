"""``metapac calibrate``: a table of scores in, a promise file out."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from metapac._common import check_one_of
from metapac._text import visible
from metapac.artefact import encode_floats
from metapac.cli import console
from metapac.cli.options import (
    Allow,
    AsJson,
    Cluster,
    ClusterRng,
    ColumnOptions,
    ContextOptions,
    GuaranteeOptions,
    Id,
    OnInfeasible,
    PromiseOutput,
    ScoredTask,
    Scores,
    TableOptions,
    parse_allowed,
)
from metapac.cli.sources import fill_calibration, open_table
from metapac.data_checks import CheckWarning
from metapac.predictors import ON_INFEASIBLE, MetaPS
from metapac.words import summarise_limits


def print_calibrated(predictor: MetaPS, path: Path, *, as_json: bool, **more: Any) -> None:
    """Print remarks as warnings, then thresholds and guarantee, in plain and exact words."""
    for remark in predictor.remarks_:  # first: it changes how the guarantee reads
        console.print_error(f"warning: {remark}")
    if as_json:
        console.print_json(_summarise(predictor) | more | {"output": str(path)})
    else:
        _print_text(predictor, path)


def without_remarks(predictor: Any) -> str:
    """Return the technical sentence in one line, without the remarks, which are warnings."""
    remarks = getattr(predictor, "remarks_", [])
    return visible(str(predictor.promise_).removesuffix(" ".join(["", *remarks])))


def class_rows(predictor: MetaPS) -> list[dict[str, Any]]:
    """Return the threshold of each class, and how many tasks and examples it is based on."""
    return [
        {
            "class": rule.label,
            "epsilon": rule.epsilon,
            "threshold": encode_floats(rule.threshold),
            "tasks": rule.tasks,
            "examples": rule.examples,
            "left_out": rule.left_out,
        }
        for rule in predictor._rules()
    ]


def _summarise(predictor: MetaPS) -> dict[str, Any]:
    if predictor.classes_ is None:
        threshold = encode_floats(predictor.threshold_)
        summary = {"threshold": threshold, "left_out": predictor.left_out_}
    else:
        summary = {"thresholds": class_rows(predictor)}
    return summary | {
        "tasks": len(predictor.tasks_),
        "examples": int(predictor.task_sizes_.sum()),
        "promise": predictor.promise_,
        "explanation": predictor.explain(),
        "remarks": predictor.remarks_,
        "columns": predictor.columns_,
    }


def _print_text(predictor: MetaPS, path: Path) -> None:
    tasks = console.format_count(len(predictor.tasks_), "task")
    data = f"from {tasks} and {console.format_count(predictor.task_sizes_.sum(), 'example')}"
    if (clusters := predictor._evidence.clusters) is not None:
        counts = f"{len(clusters.names)} clusters with {clusters.tasks} tasks"
        data += f", one task from each of {counts}"
    if predictor.classes_ is None:
        console.print_line(f"threshold {predictor.threshold_!r} {data}, written to {path}")
        if predictor.left_out_:
            minimum = predictor.guarantee_.min_examples
            left_out = console.format_count(int(predictor.left_out_), "task")
            console.print_line(f"{left_out} with fewer than {minimum} examples left out")
        if classes := (predictor.columns_ or {}).get("classes"):
            console.print_line(f"classes {', '.join(map(str, classes))}")
    else:
        classes = console.format_count(len(predictor.classes_), "class", "classes")
        console.print_line(f"one threshold for each of {classes} {data}, written to {path}")
        console.stdout.print(_class_table(predictor))
    if (then := predictor._sets) is not None:
        over = f"over {then.rows} sampled rows" if then.sampled else "in calibration"
        console.print_line(f"mean set size {then.mean_size:.3g} {over}")
    _, claim, confidence, *_ = predictor.explain().split("\n\n")
    console.print_text(f"\n{claim}\n{confidence}\n")
    limits = summarise_limits(predictor.guarantee_, predictor._about(), predictor.columns_)
    console.print_text(f"{limits} More: metapac show {visible(str(path))}\n")
    console.print_text(without_remarks(predictor))


def _class_table(predictor: MetaPS) -> Table:
    names = ["epsilon", "threshold", "tasks", "examples"]
    if predictor.guarantee_.min_examples:
        names.append("left_out")
    table = console.make_table(["class"], [name.replace("_", " ") for name in names])
    for row in class_rows(predictor):
        table.add_row(console.make_cell(row["class"]), *(str(row[name]) for name in names))
    return table


def calibrate(
    scores: Scores,
    *,
    output: PromiseOutput,
    guarantee: GuaranteeOptions,
    on_infeasible: OnInfeasible = "raise",
    task: ScoredTask = None,
    columns: ColumnOptions,
    id: Id = None,
    cluster: Cluster = None,
    cluster_rng: ClusterRng = 0,
    context: ContextOptions,
    allow: Allow = None,
    reading: TableOptions,
    as_json: AsJson = False,
) -> None:
    r"""Compute the threshold that gives the guarantee, and write both to a file.

    With confidence 1 - delta, at least a fraction 1 - alpha of new tasks then have sets that miss
    the true label at most a fraction epsilon of the time.

    The table has a row for each labelled example: its task, and either the score of its true label
    (--score) or its true label and the scores of all classes (--label, --columns). A table that
    'metapac score' wrote names its columns and its model itself.

    Example:

        metapac calibrate scores.parquet --task site --score true_score \
            --epsilon 0.1 --alpha 0.1 --delta 0.05 -o promise.json
    """
    stated = guarantee.parse()  # fail fast, before the engine starts
    check_one_of("on_infeasible", on_infeasible, ON_INFEASIBLE)
    about = context.parse(task)
    with (
        open_table(scores, reading, output) as (table, progress),
        warnings.catch_warnings(action="ignore", category=UserWarning),  # printed at the end
    ):
        warnings.simplefilter("always", CheckWarning)
        from metapac.tables.sources import read_origin

        allowed, origin = parse_allowed(allow), read_origin(table.source)
        given = columns.parse() | {"task": task, "id": id, "cluster": cluster}
        table = fill_calibration(table, origin, given, per_class=stated.per_class)
        method = MetaPS(**asdict(stated), on_infeasible=on_infeasible)
        predictor = method.calibrate(
            table, rng=cluster_rng, context=about, allow=allowed, progress=progress
        )
        if not stated.per_class:
            classes = (predictor.columns_ or {}).get("classes")
            table.check_rare_classes(classes, stated.miss_rate, allowed)
    predictor.save(output)
    print_calibrated(predictor, output, as_json=as_json)
