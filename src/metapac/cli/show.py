"""``metapac show``: what a file says."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from metapac import artefact, predictors
from metapac.cli import console
from metapac.cli.calibrate import class_rows, without_remarks
from metapac.cli.monitor import print_monitor, summarise_monitor
from metapac.cli.options import AsJson
from metapac.context import Context
from metapac.federated import FORMAT as SITE_FORMAT
from metapac.federated import read_site
from metapac.predictors import PS, MetaPS, load

_COLUMNS = {"classes": "classes", "columns": "columns of the classes"}


def show(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Promise file, site file, pilot file or state file of a monitor."
        ),
    ],
    *,
    as_json: AsJson = False,
) -> None:
    """Explain a promise file: what it guarantees, what it does not, and what it rests on.

    The explanation is for people who are not statisticians; the exact sentence follows it. Files of
    'metapac site', 'metapac explore' and 'metapac monitor' are described too.

    Example:

        metapac show promise.json
    """
    kind = _format_of(file)
    if kind == "metapac monitor":
        _show_monitor(file, as_json=as_json)
        return
    if kind == SITE_FORMAT.name:
        facts, text = _describe_site(file)
    elif kind == "metapac pilot":
        facts, text = _describe_pilot(file)
    else:
        _show_promise(file, as_json=as_json)
        return
    if as_json:
        console.print_json(facts)
    else:
        console.print_text(text)


def _format_of(path: Path) -> str:
    """Return the format that a file claims to have; empty if it is no file of metapac."""
    try:
        return str(json.loads(path.read_bytes())["format"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""  # the reader of promise files says what is wrong


def _show_promise(path: Path, *, as_json: bool) -> None:
    predictor, body = load(path), artefact.read(path, predictors.FORMAT)
    facts = _summarise(predictor, body)
    if as_json:
        console.print_json({"file": str(path)} | facts)
        return
    for remark in facts["remarks"]:
        console.print_error(f"warning: {remark}")
    console.print_line(f"{path}: {facts['kind']}, written by metapac {facts['metapac']}")
    console.print_text(f"\n{predictor.explain()}\n\n{without_remarks(predictor)}\n")
    console.stdout.print(_table(facts["thresholds"]))
    for name, value in _lines(facts):
        console.print_line(f"{name}: {value}")


def _show_monitor(path: Path, *, as_json: bool) -> None:
    from metapac.monitoring import Monitor

    watched = Monitor.load(path)
    if as_json:
        console.print_json({"file": str(path)} | summarise_monitor(watched))
        return
    console.print_line(f"{path}: state of a monitor")
    console.print_text(f"\n{watched.terms.promise}\n")
    print_monitor(watched)


def _summarise(predictor: Any, body: dict[str, Any]) -> dict[str, Any]:
    return {
        "format": body["format"],
        "schema": body["schema"],
        "metapac": body["metapac"],
        "kind": body["kind"],
        "parameters": body["parameters"],
        "explanation": predictor.explain(),
        "promise": predictor.promise_,
        "remarks": getattr(predictor, "remarks_", []),
        "thresholds": _rows(predictor),
        "context": asdict(predictor._about()),
        "columns": getattr(predictor, "columns_", None),
        "precision": predictor.precision_.name,
    }


def _rows(predictor: Any) -> list[dict[str, Any]]:
    """Return the threshold of each class or of all, with what it rests on."""
    if isinstance(predictor, MetaPS):
        levels: Any = [predictor.level_] if predictor.classes_ is None else predictor.level_
        sizes = np.atleast_2d(predictor.task_sizes_.T)
        return [
            row | {"level": level.alpha_within, "sizes": _spread(part)}
            for row, level, part in zip(class_rows(predictor), levels, sizes, strict=True)
        ]
    if isinstance(predictor, PS):
        threshold = artefact.encode_floats(predictor.threshold_)
        return [{"threshold": threshold, "examples": predictor.n_examples_}]
    return [
        {
            "lambda": artefact.encode_floats(predictor.lambda_),
            "correction": predictor.correction_,
            "tasks": len(predictor.tasks_),
            "examples": int(predictor.task_sizes_.sum()),
            "sizes": _spread(predictor.task_sizes_),
        }
    ]


def _spread(sizes: Any) -> list[float] | None:
    """Return the smallest, the median and the largest size; None if a site did not send its own."""
    if not len(sizes) or np.min(sizes) < 0:
        return None
    return [int(np.min(sizes)), float(np.median(sizes)), int(np.max(sizes))]


def _table(rows: list[dict[str, Any]]) -> Table:
    names = [name for name in rows[0] if any(row[name] not in (None, 0) for row in rows)]
    left = [name for name in names if name == "class"]
    right = [name for name in names if name != "class"]
    titles = {"sizes": "min/median/max", "left_out": "left out"}
    table = console.make_table(left, [titles.get(name, name) for name in right])
    for row in rows:
        table.add_row(*(console.make_cell(_shown(row[name])) for name in [*left, *right]))
    return table


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "/".join(f"{number:g}" for number in value)
    return str(value)


def _lines(facts: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what else is known, as names and values."""
    about, default = facts["context"], asdict(Context())
    lines = [
        (name.replace("_", " "), f"{len(value)} named" if isinstance(value, tuple) else value)
        for name, value in about.items()
        if value != default[name]
    ]
    for name, value in (facts["columns"] or {}).items():
        if value is not None:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            lines.append((_COLUMNS.get(name, f"column {name}"), text))
    lines.append(("scores", facts["precision"]))
    return lines


def _describe_site(path: Path) -> tuple[dict[str, Any], str]:
    site, body = read_site(path), artefact.read(path, SITE_FORMAT)
    agreed = site.guarantee.sentence(columns=site.columns)
    examples = console.format_count(sum(site.examples), "example")
    text = (
        f"{path}: what the site {site.name!r} sends to the coordinator, written by metapac "
        f"{body['metapac']}. It rests on {examples} and is no guarantee by itself: combine the "
        "files of all sites with 'metapac combine'. The sites agreed on this:\n"
        f"\n{agreed}"
    )
    return {"file": str(path)} | body | {"agreed": agreed}, text


def _describe_pilot(path: Path) -> tuple[dict[str, Any], str]:
    from metapac.exploration import FORMAT, read_pilot

    explored, body = read_pilot(path), artefact.read(path, FORMAT)
    tasks = console.format_count(len(explored.tasks), "pilot task")
    examples = console.format_count(explored.examples, "example")
    text = (
        f"{path}: estimates from {tasks} with {examples}, written by metapac {body['metapac']}. It "
        "guarantees nothing. Calibrate on other tasks, and name this file with --pilot."
    )
    return {"file": str(path)} | body, text
