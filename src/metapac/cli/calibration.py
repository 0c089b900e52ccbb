"""``metapac calibrate`` and ``metapac show``: promise files, written and explained."""

from __future__ import annotations

import json as json_text
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from metapac import artefact, lists, predictors
from metapac._common import check_one_of, listed
from metapac._text import format_table, visible
from metapac.cli import console
from metapac.cli.options import ContextOptions, GuaranteeOptions, ReadingOptions
from metapac.cli.tables import name_calibration, open_table
from metapac.columns import Columns
from metapac.context import Context
from metapac.data_checks import CheckWarning
from metapac.errors import InvalidInput
from metapac.inputs import match_names
from metapac.lists import Draw, read_draw
from metapac.planning import count_tasks
from metapac.predictors import ON_INFEASIBLE, PS, MetaPS, load
from metapac.risk import MetaRisk
from metapac.words import Words, describe_interval, round_down, summarise_guarantee

if TYPE_CHECKING:
    from metapac.tables.table import Table

_SHOWN = 6  # classes


def calibrate(
    scores: list[str],
    *,
    output: Path,
    guarantee: GuaranteeOptions,
    columns: Columns,
    on_infeasible: str = "raise",
    cluster_rng: int = 0,
    lacking: Sequence[str] = (),
    context: ContextOptions,
    allow: Sequence[str] = (),
    reading: ReadingOptions,
    json: bool = False,
) -> None:
    r"""Compute the threshold, with its guarantee.

    Example:

        metapac calibrate scores.parquet --task site --score true_score \
            --epsilon 0.1 --alpha 0.1 --delta 0.05 -o promise.json

    With confidence 1 - delta, at least a fraction 1 - alpha of new tasks then have sets that miss
    the true label at most a fraction epsilon of the time.

    The table has a row for each labelled example: its task, and either the score of its true label
    (--score) or its true label and the scores of all classes (--label, --columns). A table that
    'metapac score' wrote names its columns and its model itself.

    Parameters
    ----------
    output
        Promise file to write.
    cluster_rng : SEED
        Seed of the draw of one task from each cluster, and of one row of each unit with --within;
        with --losses, of the random numbers that they are compared with. Fixed before looking at
        results.
    lacking : CLASS=TASK
        With --together, a task that has no example of a class at all, once for each of them.
    """
    check_one_of("on_infeasible", on_infeasible, ON_INFEASIBLE)  # before the engine starts
    if lacking and not guarantee.is_together:
        raise InvalidInput("lacking is for --together. Leave it out.", parameter="lacking")
    if guarantee.is_together and guarantee.offsets is None and context.pilot is None:
        text = "offsets of the classes must be given: pass pilot, or offsets once for each class."
        raise InvalidInput(text, parameter=("offsets", "pilot"))
    artefact.check_replaceable(output, predictors.FORMAT)
    about = context.read(columns.task)
    with open_table(scores, reading, output) as (table, progress), defer_remarks():
        table = name_calibration(table, columns, per_class=bool(guarantee.per_class))
        table, left_out = _leave_out(table, about)
        stated: Any = {**asdict(guarantee), "on_infeasible": on_infeasible}
        if about.draw is not None and guarantee.new_tasks is None:
            stated["new_tasks"] = len(about.draw.rest)
        if guarantee.is_together and guarantee.offsets is None and context.pilot is not None:
            from metapac.exploration import read_pilot

            stated["offsets"] = read_pilot(context.pilot)
        given: Any = {"context": about, "allow": allow}
        if columns.losses is None:
            given |= {"rng": cluster_rng, "progress": progress, "lacking": _read_lacking(lacking)}
            predictor = MetaPS(**stated).calibrate(table, **given)
        else:
            predictor = MetaRisk(**stated, rng=cluster_rng).calibrate(table, **given)
        if not guarantee.per_class:
            classes = (predictor.columns_ or {}).get("classes")
            table.check_rare_classes(classes, guarantee, allow)
    predictor.save(output)
    note = f", without {count_tasks(left_out)} of {context.pilot}" if left_out else ""
    print_calibrated(predictor, output, as_json=json, note=note)


def _read_lacking(texts: Sequence[str]) -> dict[str, list[str]] | None:
    """Return the tasks that lack each class."""
    lacking: dict[str, list[str]] = {}
    for text in texts:
        label, equals, task = text.partition("=")
        if not equals:
            raise InvalidInput(f"lacking must be CLASS=TASK, got {text!r}.")
        lacking.setdefault(label, []).append(task)
    return lacking or None


def _leave_out(table: Table, about: Context) -> tuple[Table, int]:
    """Return a table without the pilot tasks, and how many of them it held."""
    if about.pilot is None:
        return table, 0
    names = table.task_names()
    same, _near = match_names([*about.pilot], names)
    if len(same) == len(names):
        text = f"every task of {table.name} is a pilot task. Calibrate on other tasks: the levels"
        raise InvalidInput(f"{text} were chosen on these.", parameter="pilot")
    return (table.take_tasks(same, others=True) if same else table), len(same)


@contextmanager
def defer_remarks() -> Iterator[None]:
    """Let checks of the data warn at once; what the result remarks on is printed with it."""
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        warnings.simplefilter("always", CheckWarning)
        yield


def print_calibrated(
    predictor: MetaPS, path: Path, *, as_json: bool, note: str = "", **more: Any
) -> None:
    """Print four lines: the file, the threshold, the guarantee, and the size of the sets."""
    for remark in predictor.remarks_:  # first: it changes how the guarantee reads
        console.print_warning(remark)
    lines = [f"Wrote {path}{note}", _describe_thresholds(predictor)]
    about = predictor.context_, predictor.columns_, predictor._cluster_words()
    lines.append(summarise_guarantee(predictor.guarantee_, *about))
    if (sets := predictor._sets) is not None:
        over = f"over {sets.rows:,} sampled rows" if sets.sampled else "in calibration"
        lines.append(f"Mean set size {sets.mean_size:.3g} {over}.")
    text = "\n".join([*lines, f"More: metapac show {path}"])
    console.show(predictor, as_json=as_json, text=text, **more | {"output": str(path)})


def _describe_thresholds(predictor: MetaPS) -> str:
    """Return the threshold in four digits, or that of each class, and what it rests on."""
    words, rules = Words.from_context(predictor.context_), predictor._rules()
    data = f"from {words.count_units(len(predictor.tasks_))}"
    data += f" with {words.count_examples(int(predictor.task_sizes_.sum()))}"
    if (clusters := predictor._evidence.clusters) is not None:
        data += f", one of each of {len(clusters.names):,} clusters"
    if predictor._evidence.within is not None:
        data += f", one of each {visible(predictor._unit_words()[0])}"
    if left_out := max(rule.left_out for rule in rules):
        up_to, of_class = ("up to ", " of a class") if predictor.classes_ is not None else ("", "")
        data += f"; {up_to}{left_out:,} with too few examples{of_class} left out"
    if predictor._is_interval:
        reach = describe_interval(predictor.threshold_, predictor.columns_ or {})
        return f"Intervals are {reach}, {data}."
    if predictor.classes_ is None:
        return f"Threshold {round_down(predictor.threshold_, 4)} {data}."
    shown = [f"{rule.label} {round_down(rule.threshold, 4)}" for rule in rules[:_SHOWN]]
    shown += ["..."] if len(rules) > _SHOWN else []
    return f"Thresholds {', '.join(shown)}, {data}."


def show(file: Path, *, json: bool = False) -> None:
    """Explain a promise file in plain words.

    Example:

        metapac show promise.json

    It says what is guaranteed, what is not, and what that rests on; the exact sentence follows.
    Files of 'metapac site', 'metapac explore' and 'metapac monitor' are described too.

    Parameters
    ----------
    file : FILE
        Promise file, site file, pilot file, draw file or state file of a monitor.
    """
    describe = _DESCRIBERS.get(_read_format(file), _describe_promise)
    facts, text = describe(file)
    for remark in facts.get("remarks", ()):
        console.print_warning(remark)
    console.show({"file": str(file)} | facts, as_json=json, text=f"{file}: {text}")


def _read_format(path: Path) -> str:
    """Return the format that a file claims to have; empty if it is no file of metapac."""
    try:
        return str(json_text.loads(path.read_bytes())["format"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""  # the reader of promise files says what is wrong


def _describe_promise(path: Path) -> tuple[dict[str, Any], str]:
    predictor, body = load(path), artefact.read(path, predictors.FORMAT)
    remarks, about = getattr(predictor, "remarks_", []), asdict(predictor._about())
    about = {name: value for name, value in about.items() if (name, value) != ("draw", None)}
    facts = {name: body[name] for name in ("format", "schema", "metapac", "kind", "parameters")} | {
        "explanation": predictor.explain(),
        "promise": predictor.promise_,
        "remarks": remarks,
        "thresholds": _describe_rows(predictor),
        "context": about,
        "columns": getattr(predictor, "columns_", None),
        "precision": predictor.precision_.name,
    }
    sentence = predictor.promise_.removesuffix(" ".join(["", *remarks]))
    found = facts["thresholds"]
    rows = [{name: _format_cell(name, value) for name, value in row.items()} for row in found]
    used = [name for name in rows[0] if any(row[name] not in ("None", "0") for row in rows)]
    titles = {"sizes": "min / median / max", "left_out": "left out"}
    table = format_table([{titles.get(name, name): row[name] for name in used} for row in rows])
    lines = [f"{name}: {value}" for name, value in _describe_origin(facts)]
    head = f"{facts['kind']}, written by metapac {facts['metapac']}"
    return facts, "\n\n".join([head, predictor.explain(), sentence, table, "\n".join(lines)])


def _describe_rows(predictor: Any) -> list[dict[str, Any]]:
    """Return the threshold of each class or of all, with what it rests on."""
    if isinstance(predictor, MetaPS):
        levels: Any = predictor.level_
        if predictor.per_class is not True:
            levels = [predictor.level_] * len(predictor.classes_ or (None,))
        sizes = np.atleast_2d(predictor.task_sizes_.T)
        return [
            row | {"level": level.alpha_within, "sizes": _spread(part)}
            for row, level, part in zip(predictor._rows(), levels, sizes, strict=True)
        ]
    if isinstance(predictor, PS):
        threshold = artefact.encode_floats(predictor.threshold_)
        return [{"threshold": threshold, "examples": predictor.n_examples_}]
    sizes = predictor.task_sizes_
    row = {"lambda": artefact.encode_floats(predictor.lambda_), "correction": predictor.correction_}
    return [row | {"tasks": len(sizes), "examples": int(sizes.sum()), "sizes": _spread(sizes)}]


def _spread(sizes: Any) -> list[float] | None:
    """Return the smallest, the median and the largest size; None if a site did not send its own."""
    if not len(sizes) or np.min(sizes) < 0:
        return None
    return [int(np.min(sizes)), float(np.median(sizes)), int(np.max(sizes))]


def _format_cell(name: str, value: Any) -> str:
    if isinstance(value, list):
        return " / ".join(f"{number:g}" for number in value)
    is_threshold = name in ("threshold", "lambda") and isinstance(value, float)
    return round_down(value, 4) if is_threshold else str(value)


def _describe_origin(facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what else is known, as names and values."""
    default = asdict(Context())
    for name, value in facts["context"].items():
        if value != default[name]:
            shown = f"{len(value)} named" if isinstance(value, tuple) else value
            shown = Draw(**value).describe() if name == "draw" else shown
            yield name.replace("_", " "), shown
    titles = {"classes": "classes", "columns": "columns of the classes"}
    for name, value in (facts["columns"] or {}).items():
        shown = listed([*map(str, value)], shown=20) if isinstance(value, list) else value
        yield titles.get(name, f"column {name}"), shown
    yield "scores", facts["precision"]


def _describe_site(path: Path) -> tuple[dict[str, Any], str]:
    from metapac.federated import FORMAT, read_site

    site, body = read_site(path), artefact.read(path, FORMAT)
    agreed = site.guarantee.sentence(columns=site.columns)
    text = f"what the site {site.name!r} sends to the coordinator, written by metapac "
    text += f"{body['metapac']}. It rests on {sum(site.examples):,} examples and is no guarantee by"
    text += " itself: combine the files of all sites with 'metapac combine'. The sites agreed on"
    return body | {"agreed": agreed}, f"{text} this:\n\n{agreed}"


def _describe_pilot(path: Path) -> tuple[dict[str, Any], str]:
    from metapac.exploration import FORMAT, read_pilot

    explored, body = read_pilot(path), artefact.read(path, FORMAT)
    text = f"estimates from {len(explored.tasks):,} pilot tasks with {explored.examples:,} examples"
    text += f", written by metapac {body['metapac']}. It guarantees nothing. Calibrate on other"
    return body, f"{text} tasks, and name this file with --pilot."


def _describe_draw(path: Path) -> tuple[dict[str, Any], str]:
    found, body = read_draw(path), artefact.read(path, lists.FORMAT)
    return body, f"draw from a list, written by metapac {body['metapac']}\n\n{found}"


def _describe_monitor(path: Path) -> tuple[dict[str, Any], str]:
    from metapac.monitoring import Monitor

    watched = Monitor.load(path)
    return watched.to_dict(), f"state of a monitor\n\n{watched.terms.promise}\n\n{watched}"


_DESCRIBERS = {
    "metapac site": _describe_site,
    "metapac pilot": _describe_pilot,
    "metapac draw": _describe_draw,
    "metapac monitor": _describe_monitor,
}
