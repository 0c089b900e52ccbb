"""``metapac site`` and ``metapac combine``: one number from each site, one promise from all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

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
    refuse_input,
)
from metapac.persistence import encode
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
            epsilon=epsilon,
            alpha=alpha,
            delta=delta,
            split=parse_split(split),
            progress=tell,
        )
    found.save(output)
    if as_json:
        sent = {"site": name, "examples": found.examples, "output": str(output)}
        typer.echo(json.dumps(sent | {"thresholds": [encode(x) for x in found.thresholds]}))
        return
    console.print(
        f"threshold {', '.join(map(repr, found.thresholds))} from {found.examples} examples of "
        f"site {name}, written to {output}",
        markup=False,
        soft_wrap=True,
    )


@told
def combine(
    sites: Annotated[list[Path], typer.Argument(help="Files written by metapac site.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the promise.")],
    on_infeasible: OnInfeasible = "raise",
    as_json: AsJson = False,
) -> None:
    """Find the threshold that carries the promise from the numbers that sites sent."""
    refuse_input(output, sites)
    method = combine_sites(sites, on_infeasible=on_infeasible)
    method.save(output)
    report(method, output, as_json=as_json)
