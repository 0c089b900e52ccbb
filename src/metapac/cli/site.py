"""``metapac site`` and ``metapac combine``: one number from each site, one promise from all."""

from __future__ import annotations

import glob
import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from metapac.cli.calibrate import report
from metapac.cli.common import (
    Alpha,
    AsJson,
    Delta,
    Epsilon,
    OnInfeasible,
    SplitOption,
    console,
    parse_split,
    told,
)
from metapac.cli.tables import (
    Classes,
    Columns,
    Engine,
    EngineOption,
    LabelOption,
    Master,
    MemoryLimit,
    Reading,
    ScoreOption,
    Scores,
    TableOption,
    Threads,
    class_names,
    opened,
)
from metapac.persistence import encode, refuse_input
from metapac.planning import plan
from metapac.sites import combine_sites


@told
def site(
    scores: Scores,
    name: Annotated[str, typer.Option(help="What to call this site; no two may share it.")],
    epsilon: Epsilon,
    alpha: Alpha,
    delta: Delta,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to send.")],
    score: ScoreOption = None,
    label: LabelOption = None,
    columns: Columns = "p_*",
    classes: Classes = None,
    split: SplitOption = "tight",
    table: TableOption = None,
    engine: EngineOption = Engine.duckdb,
    master: Master = None,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Write the one number that this site sends to metapac combine; its scores stay here.

    All rows are one task. Every site must use the same levels.
    """
    agreed: dict[str, Any] = {"epsilon": epsilon, "alpha": alpha, "delta": delta}
    agreed["split"] = parse_split(split)
    how = Reading(table, engine, master, memory_limit, threads)
    with opened(scores, how, output) as (source, tell):
        from metapac.tables import site_table

        found = site_table(
            source,
            name=name,
            score=score,
            label=label,
            columns=columns,
            classes=class_names(classes),
            **agreed,
            progress=tell,
        )
    found.save(output)
    if as_json:
        sent = {"site": found.name, "examples": found.examples, "output": str(output)}
        typer.echo(json.dumps(sent | {"thresholds": [encode(x) for x in found.thresholds]}))
        return
    console.print(
        f"threshold {', '.join(map(repr, found.thresholds))} from {found.examples} examples of "
        f"site {found.name}, written to {output}",
        markup=False,
        soft_wrap=True,
    )
    if max(found.thresholds) == -math.inf:
        least = plan(**agreed).examples_per_task
        console.print(
            f"{found.examples} examples are too few for a threshold: it takes {least}. The site "
            "counts as one that keeps every label.",
            markup=False,
        )


@told
def combine(
    sites: Annotated[
        list[str], typer.Argument(help="Files written by metapac site, globs or folders of them.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the promise.")],
    on_infeasible: OnInfeasible = "raise",
    as_json: AsJson = False,
) -> None:
    """Find the threshold that carries the promise from the numbers that sites sent."""
    files = [file for path in sites for file in _found(path)]
    refuse_input(output, files)
    method = combine_sites(files, on_infeasible=on_infeasible)
    method.save(output)
    report(method, output, as_json=as_json)


def _found(path: str) -> list[Path]:
    """Return the site files at a path, a glob or in a folder."""
    if Path(path).is_dir():
        found = sorted(Path(path).glob("*.json"))
        if not found:
            raise ValueError(f"{path} holds no .json. Pass files written by metapac site.")
        return found
    if glob.has_magic(path) and not Path(path).exists():
        return [Path(name) for name in sorted(glob.glob(path))] or [Path(path)]  # noqa: PTH207
    return [Path(path)]
