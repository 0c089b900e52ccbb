"""``metapac site`` and ``metapac combine``: a few numbers from each site, a guarantee from all."""

from __future__ import annotations

import glob
import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from metapac.cli.calibrate import remarks_reported, report
from metapac.cli.common import (
    Alpha,
    AsJson,
    DeltaOption,
    EpsilonOption,
    MinExamples,
    OnInfeasible,
    PerClass,
    SplitOption,
    console,
    parse_delta,
    parse_epsilon,
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
from metapac.demands import least_size
from metapac.guarantee import Guarantee
from metapac.persistence import encode_all, refuse_input
from metapac.sites import Site, combine_sites


@told
def site(
    scores: Scores,
    name: Annotated[str, typer.Option(help="Name of this site; no two may share it.")],
    epsilon: EpsilonOption,
    alpha: Alpha,
    delta: DeltaOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to send.")],
    score: ScoreOption = None,
    label: LabelOption = None,
    columns: Columns = "p_*",
    classes: Classes = None,
    per_class: PerClass = False,
    min_examples: MinExamples = 0,
    split: SplitOption = "joint",
    table: TableOption = None,
    engine: EngineOption = Engine.duckdb,
    master: Master = None,
    memory_limit: MemoryLimit = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Write the few numbers that this site sends to metapac combine; its scores stay here.

    All rows are one task. Every site must use the same options. With --split tight it is a single
    number.
    """
    agreed: dict[str, Any] = {"epsilon": parse_epsilon(epsilon), "alpha": alpha}
    agreed |= {"delta": parse_delta(delta), "split": parse_split(split)}
    agreed |= {"per_class": per_class, "min_examples": min_examples}
    Guarantee(**agreed)  # before anything is opened
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
        typer.echo(json.dumps(_summary(found) | {"output": str(output)}))
    else:
        _print(found, output)


def _summary(found: Site) -> dict[str, Any]:
    thresholds = encode_all([list(row) for row in found.thresholds])
    if found.classes is None:
        return {"site": found.name, "examples": found.examples[0], "thresholds": thresholds[0]}
    rows = zip(found.classes, found.examples, thresholds, strict=True)
    names = ("class", "examples", "thresholds")
    return {"site": found.name, "classes": [dict(zip(names, row, strict=True)) for row in rows]}


def _print(found: Site, output: Path) -> None:
    whole = f"{sum(found.examples)} examples of site {found.name}, written to {output}"
    if found.classes is None:
        _line(f"{_brief(found.thresholds[0])} from {whole}")
        _tell_if_few(found, found.guarantee, 0)
        return
    _line(
        f"{len(found.thresholds[0])} numbers for each of {len(found.classes)} classes from {whole}"
    )
    table = Table("class")
    table.add_column("examples", justify="right")
    table.add_column("what is sent")
    for label, examples, row in zip(found.classes, found.examples, found.thresholds, strict=True):
        table.add_row(Text(str(label)), str(examples), _brief(row))
    console.print(table)
    for number, label in enumerate(found.classes):
        _tell_if_few(found, found.guarantee.of_class(label, found.classes), number)


def _brief(thresholds: tuple[float, ...]) -> str:
    """Return thresholds in a few words: how many, and from where to where they reach."""
    if len(thresholds) == 1:
        return f"threshold {thresholds[0]!r}"
    known = [value for value in thresholds if value > -math.inf]
    if not known:
        return f"{len(thresholds)} thresholds of -inf"
    few = f" ({len(thresholds) - len(known)} of them -inf)" * (len(known) < len(thresholds))
    return f"{len(thresholds)} thresholds{few} between {min(known)!r} and {max(known)!r}"


def _tell_if_few(found: Site, guarantee: Guarantee, number: int) -> None:
    """Say what becomes of a site, or of a class there, with too few examples."""
    examples = found.examples[number]
    which = "" if found.classes is None else f" of class {found.classes[number]!r}"
    if examples < guarantee.min_examples:
        _line(
            f"{examples} examples{which} are fewer than --min-examples {guarantee.min_examples}: "
            f"the site is left out{' for that class' * bool(which)}."
        )
    elif max(found.thresholds[number]) == -math.inf:
        least = least_size(guarantee.miss_rate, guarantee.levels[-1].alpha_within)
        _line(
            f"{examples} examples{which} are too few for a threshold: it takes {least}. The site "
            f"counts as one that keeps {'that class always' if which else 'every label'}."
        )


def _line(text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)


@told
def combine(
    sites: Annotated[
        list[str], typer.Argument(help="Files written by metapac site, globs or folders of them.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write the promise.")],
    on_infeasible: OnInfeasible = "raise",
    as_json: AsJson = False,
) -> None:
    """Find the threshold that carries the guarantee from the numbers that sites sent."""
    files = [file for path in sites for file in _found(path)]
    refuse_input(output, files)
    with remarks_reported():
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
