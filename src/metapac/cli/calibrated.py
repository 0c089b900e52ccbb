"""A calibrated predictor as it is printed: threshold, explanation, guarantee, remarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.table import Table

from metapac._document import encode_floats
from metapac._visible import visible
from metapac.calibration import MetaPS
from metapac.cli import console
from metapac.explanation.limits import summarise_limits


def print_calibrated(predictor: MetaPS, path: Path, *, as_json: bool, **more: Any) -> None:
    """Print remarks as warnings, then the thresholds and the guarantee, in plain and exact words.

    Parameters
    ----------
    predictor : MetaPS
        The calibrated predictor.
    path : Path
        Where it was written.
    as_json : bool
        Whether to print JSON.
    **more : object
        What JSON states besides.
    """
    for remark in predictor.remarks_:  # first: it changes how the guarantee reads
        console.print_error(f"warning: {remark}")
    if as_json:
        console.print_json(_summarise(predictor) | more | {"output": str(path)})
    else:
        _print_text(predictor, path)


def without_remarks(predictor: Any) -> str:
    """Return the technical sentence in one line, without the remarks, which are warnings.

    Parameters
    ----------
    predictor : MetaPS, PS or MetaCP
        The calibrated predictor.

    Returns
    -------
    str
        The sentence.
    """
    remarks = getattr(predictor, "remarks_", [])
    return visible(str(predictor.promise_).removesuffix(" ".join(["", *remarks])))


def class_rows(predictor: MetaPS) -> list[dict[str, Any]]:
    """Return the threshold of each class, and how many tasks and examples it is based on.

    Parameters
    ----------
    predictor : MetaPS
        The calibrated predictor; without ``per_class`` there is one row, of the class None.

    Returns
    -------
    list of dict
        A row for each class.
    """
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
