"""A calibrated predictor as it is printed: guarantee, thresholds, warnings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from metapac._document import encode_floats
from metapac.calibration import MetaPS
from metapac.cli import console


def print_calibrated(predictor: MetaPS, path: Path, *, as_json: bool) -> None:
    """Print the guarantee, the thresholds and what they are based on; remarks as warnings.

    Parameters
    ----------
    predictor : MetaPS
        The calibrated predictor.
    path : Path
        Where it was written.
    as_json : bool
        Whether to print JSON.
    """
    if as_json:
        console.print_json(_summarise(predictor) | {"output": str(path)})
    else:
        _print_text(predictor, path)
    for remark in predictor.remarks_:
        console.print_error(f"warning: {remark}")


def _summarise(predictor: MetaPS) -> dict[str, Any]:
    if predictor.classes_ is None:
        threshold = encode_floats(predictor.threshold_)
        summary = {"threshold": threshold, "left_out": predictor.left_out_}
    else:
        summary = {"thresholds": _class_rows(predictor)}
    return summary | {
        "tasks": len(predictor.tasks_),
        "examples": int(predictor.task_sizes_.sum()),
        "promise": predictor.promise_,
        "remarks": predictor.remarks_,
        "columns": predictor.columns_,
    }


def _class_rows(predictor: MetaPS) -> list[dict[str, Any]]:
    """Return the threshold of each class, and how many tasks and examples it is based on."""
    classes = predictor.classes_ or ()
    is_used = ~np.isnan(predictor.task_thresholds_)
    return [
        {
            "class": label,
            "epsilon": predictor.guarantee_.for_class(label, classes).epsilon,
            "threshold": encode_floats(float(predictor.thresholds_[i])),
            "tasks": int(is_used[:, i].sum()),
            "examples": int(predictor.task_sizes_[is_used[:, i], i].sum()),
            "left_out": int(np.asarray(predictor.left_out_)[i]),
        }
        for i, label in enumerate(classes)
    ]


def _print_text(predictor: MetaPS, path: Path) -> None:
    tasks = console.format_count(len(predictor.tasks_), "task")
    data = f"from {tasks} and {console.format_count(predictor.task_sizes_.sum(), 'example')}"
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
    # promise_ ends with the remarks, which are shown as warnings.
    guarantee = predictor.promise_.removesuffix(" ".join(["", *predictor.remarks_]))
    console.stdout.print(guarantee, markup=False)


def _class_table(predictor: MetaPS) -> Table:
    names = ["epsilon", "threshold", "tasks", "examples"]
    if predictor.guarantee_.min_examples:
        names.append("left_out")
    table = console.make_table(["class"], [name.replace("_", " ") for name in names])
    for row in _class_rows(predictor):
        table.add_row(Text(str(row["class"])), *(str(row[name]) for name in names))
    return table
