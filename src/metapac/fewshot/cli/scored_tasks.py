"""Tasks scored to a table, whatever they come from."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from metapac._common import Progress, listed, warn
from metapac.cli.console import format_count
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.tasks import Task
from metapac.provenance import Provenance


def leave_out_small(pool: Any, shape: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Leave out classes or groups with too few examples for a task, with a warning."""
    needed = int(np.max(shape["shots"])) + int(np.max(shape["queries"] or 1))
    sizes = dict(zip(pool.names, map(len, pool.positions), strict=True))
    small = [name for name, size in sizes.items() if size < needed]
    if not small:
        return pool, []
    _check_enough(pool, shape, needed)
    noun = ("class", "classes") if pool.unit == "class" else ("group",)
    found = listed([f"{name!r} with {sizes[name]}" for name in small])
    warn(
        f"left out {format_count(len(small), *noun)} of {pool.name} with fewer than {needed} "
        f"examples, the shots + queries of a task: {found}."
    )
    large = copy.copy(pool)
    large.names = [name for name, size in sizes.items() if size >= needed]
    large.positions = [members for members in pool.positions if len(members) >= needed]
    return large, small


def _check_enough(pool: Any, shape: Mapping[str, Any], needed: int) -> None:
    """Raise InvalidInput if a task needs more classes or groups than have enough examples."""
    ways = int(np.max(shape.get("ways", 1)))
    large = sum(len(members) >= needed for members in pool.positions)
    if large >= ways or len(pool.names) < ways:  # the latter is for the pool to say
        return
    spare = most_queries(pool, ways, int(np.max(shape["shots"])))
    lower = "Lower shots"
    if shape["queries"] and spare > 0:
        lower = f"Pass {keyword('queries', spare)} or fewer"
    elif large > 1:
        lower = f"Pass {keyword('ways', large)} or fewer"
    raise InvalidInput(
        "a task needs "
        f"{format_count(ways, pool.unit, 'classes' if pool.unit == 'class' else None)} with at "
        f"least shots + {'queries' if shape['queries'] else 1} = {needed} examples, got "
        f"{large} in {pool.name}. {lower}.",
        parameter=("shots", "queries"),
    )


def most_queries(pool: Any, ways: int, shots: int) -> int:
    """Return the largest number of queries for which a pool has enough classes."""
    return sorted(map(len, pool.positions))[-ways] - shots


_task_option = partial(typer.Option, rich_help_panel="Tasks")
_TASKS, _WAYS, _SHOTS = 500, 5, 5
QUERIES = 15
_SHAPE = ("ways", "shots", "queries")


@dataclass(frozen=True)
class TaskOptions:
    """The tasks to draw."""

    pool: Annotated[
        str | None,
        _task_option(
            metavar="NAME",
            help="Classes (or groups) to draw from: calibration or test, which share none. "
            "Embeddings are divided into two halves of these names, always the same; 'all' takes "
            "every class. By default calibration, or all embeddings.",
        ),
    ] = None
    tasks: Annotated[
        int | None,
        _task_option(
            min=1,
            help="Number of tasks. By default 500; if the data have groups, each group once.",
        ),
    ] = None
    ways: Annotated[
        str | None,
        _task_option(
            metavar="NUMBER",
            help="Classes per task; 5-10 draws a number for each task. By default that of the "
            "run, or 5.",
        ),
    ] = None
    shots: Annotated[
        str | None,
        _task_option(
            metavar="NUMBER",
            help="Support examples per class (or per group), to which the learner adapts. By "
            "default that of the run, or 5.",
        ),
    ] = None
    queries: Annotated[
        str | None,
        _task_option(
            metavar="NUMBER",
            help="Query examples per class (or per group), which are scored. By default 15, or "
            "all the rest of a group.",
        ),
    ] = None
    score: Annotated[
        str,
        _task_option(
            metavar="NAME",
            help="Score function: probability, log_probability, margin, cumulative or raw (the "
            "outputs as they are).",
        ),
    ] = "probability"
    rng: Annotated[int, _task_option(min=0, metavar="SEED", help="Random seed.")] = 0


class Scored(NamedTuple):
    """A table of scores and where they come from."""

    table: dict[str, Any]
    provenance: Provenance
    notes: tuple[str, ...] = ()


def score_pool(
    learner: Any,
    pool: Any,
    options: TaskOptions,
    *,
    model: str,
    details: Mapping[str, Any],
    progress: Progress,
    ways: int = _WAYS,
    shots: int = _SHOTS,
) -> Scored:
    """Draw tasks from a pool and score them."""
    from metapac.fewshot.adapters import as_score_function
    from metapac.fewshot.scoring import tabulate
    from metapac.fewshot.tasks import class_reuse

    function = as_score_function(options.score)
    shape = choose_shape(pool.unit, options, ways, shots)
    pool, left_out = leave_out_small(pool, shape)
    tasks = _draw(pool, options, shape)
    progress("scoring tasks", 0, None)
    table = tabulate(learner, tasks, score=function, progress=progress)
    columns = {"task": "task", "label": "label", "score": "score", "columns": "scores"}
    columns |= {"id": "example"} | ({"classes_column": "classes"} if "classes" in table else {})
    facts = {"unit": pool.unit, "units": len(pool.names), "rng": options.rng}
    facts |= {"tasks": len(tasks), "examples": len(table["task"]), "accuracy": _accuracy(table)}
    facts |= {name: list(x) if isinstance(x, Sequence) else x for name, x in shape.items()}
    facts |= {"left_out": left_out} if left_out else {}
    reuse = class_reuse(tasks) if "classes" in table else None
    if reuse is not None and reuse.per_class > 1:
        facts["drawn_from"] = f"{len(pool.names)} classes"
    provenance = Provenance(
        model=name_sizes(model, shape),
        score=str(function),
        columns=columns,
        details={**details, **facts},
    )
    return Scored(table, provenance, () if reuse is None else (reuse.describe(),))


def _accuracy(table: dict[str, Any]) -> float:
    """Return the share of rows whose highest score is that of the true label."""
    best = np.array([np.argmax(row) for row in table["scores"]])
    if "classes" in table:
        named = [names[i] for names, i in zip(table["classes"], best, strict=True)]
        return float(np.mean(np.array(named) == table["label"]))
    return float(np.mean(best == table["label"]))


def choose_shape(
    unit: str, options: TaskOptions, ways: int = _WAYS, shots: int = _SHOTS
) -> dict[str, Any]:
    """Return ways, shots and queries of tasks: those given, otherwise the defaults."""
    given = {name: parse_choice(name, getattr(options, name)) for name in _SHAPE}
    if unit == "group":
        if given.pop("ways") is not None:
            raise InvalidInput(
                "ways does not apply to groups, whose tasks have all labels. Leave it out.",
                parameter="ways",
            )
        defaults: dict[str, Any] = {"shots": shots, "queries": None}
    else:
        defaults = {"ways": ways, "shots": shots, "queries": QUERIES}
    return defaults | {name: value for name, value in given.items() if value is not None}


def name_sizes(model: str, shape: Mapping[str, Any]) -> str:
    """Return the name of a model with the size of the tasks that it adapts to.

    A guarantee holds for tasks of one kind, so these numbers are part of the name that is compared.
    """
    numbers = {name: show_choice(shape[name]) for name in ("ways", "shots") if name in shape}
    sizes = [f"{x} {name.removesuffix('s') if x == '1' else name}" for name, x in numbers.items()]
    return ", ".join([model, *sizes])


def _draw(pool: Any, options: TaskOptions, shape: Mapping[str, Any]) -> Sequence[Task]:
    """Return tasks, named after the pool and, if it is not 0, the seed.

    So tasks drawn with another seed are not taken for those that were calibrated on.
    """
    count = options.tasks
    if pool.unit != "group":
        count = count or _TASKS
        pool.name = f"{pool.name}.{options.rng}" if options.rng else pool.name
    tasks: Sequence[Task] = pool.tasks(count, **shape, rng=options.rng)
    return tasks


def show_choice(choice: int | Sequence[int]) -> str:
    """Return a number, or numbers to choose from, as they are typed."""
    if isinstance(choice, range):
        return f"{choice[0]}-{choice[-1]}"
    return ",".join(map(str, choice)) if isinstance(choice, Sequence) else str(choice)


def parse_choice(name: str, text: str | None) -> int | Sequence[int] | None:
    """Return a number, or the numbers to choose from."""
    if text is None:
        return None
    try:
        if "-" in text:
            low, high = (int(word) for word in text.split("-"))
            choices: Sequence[int] = range(low, high + 1)
        else:
            choices = [int(word) for word in text.split(",")]
    except ValueError:
        choices = []
    if not choices:
        raise InvalidInput(
            f"{name} must be a whole number, a range such as 5-10, or numbers such as 5,10, got "
            f"{text!r}.",
            parameter=name,
        )
    return choices[0] if len(choices) == 1 else choices
