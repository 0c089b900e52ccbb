"""``metapac site`` and ``metapac combine``: one file from each site, one promise from all."""

from __future__ import annotations

import glob
import math
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from metapac.artefact import check_not_input, encode_floats
from metapac.cli.calibrate import print_calibrated
from metapac.cli.console import format_count, make_table, print_json, print_line, stdout
from metapac.cli.options import (
    Allow,
    AsJson,
    ColumnOptions,
    ContextOptions,
    GuaranteeOptions,
    Id,
    OnInfeasible,
    PromiseOutput,
    Scores,
    TableOptions,
    parse_allowed,
)
from metapac.cli.sources import open_table
from metapac.data_checks import CheckWarning
from metapac.errors import InvalidInput
from metapac.federated import (
    Liars,
    Site,
    combine_sites,
    describe_liars,
    make_site,
    summarise_liars,
)
from metapac.planning import min_sample_size
from metapac.predictors import MetaPS


def site(
    scores: Scores,
    *,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Name of this site; must be unique among sites.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="Site file to write.")],
    guarantee: GuaranteeOptions,
    columns: ColumnOptions,
    id: Id = None,
    allow: Allow = None,
    reading: TableOptions,
    as_json: AsJson = False,
) -> None:
    r"""Write the few numbers that a site sends to the coordinator.

    All rows of the table are one task. Only thresholds, the number of examples (of each class, with
    --per-class) and the names of columns, classes and, if the table has one, the model leave the
    site. There is a threshold for each level, or a single one with --split tight. Every site must
    use the same options; the coordinator then runs 'metapac combine'.

    Example:

        metapac site scores.csv --name ohio --score true_score \
            --epsilon 0.1 --alpha 0.1 --delta 0.05 -o ohio.json
    """
    stated = guarantee.parse()  # fail fast, before the engine starts
    with open_table(scores, reading, output) as (table, progress):
        result = make_site(
            MetaPS(**asdict(stated)),
            table.with_columns(**columns.parse(), id=id),
            name=name.strip(),
            allow=parse_allowed(allow),
            progress=progress,
        )
    hints = [*_explain_shortages(result)]  # may refuse the levels, so before anything is written
    result.save(output)
    if as_json:
        print_json(_summarise(result) | {"output": str(output)})
        return
    _print_text(result, output)
    for hint in hints:
        print_line(hint)


def _summarise(result: Site) -> dict[str, Any]:
    thresholds = encode_floats([list(row) for row in result.thresholds])
    if result.classes is None:
        return {"site": result.name, "examples": result.examples[0], "thresholds": thresholds[0]}
    rows = [
        {"class": label, "examples": examples, "thresholds": row}
        for label, examples, row in zip(result.classes, result.examples, thresholds, strict=True)
    ]
    return {"site": result.name, "classes": rows}


def _print_text(result: Site, output: Path) -> None:
    total = format_count(sum(result.examples), "example")
    data = f"{total} of site {result.name}, written to {output}"
    if result.classes is None:
        print_line(f"{_describe(result.thresholds[0])} from {data}")
        return
    numbers = format_count(len(result.thresholds[0]), "number")
    classes = format_count(len(result.classes), "class", "classes")
    print_line(f"{numbers} for each of {classes} from {data}")
    table = make_table(["class", "numbers sent"], ["examples"])
    for label, row, examples in zip(
        result.classes, result.thresholds, result.examples, strict=True
    ):
        table.add_row(Text(str(label)), _describe(row), str(examples))
    stdout.print(table)


def _describe(thresholds: tuple[float, ...]) -> str:
    """Return the number of thresholds and their range, in words."""
    if len(thresholds) == 1:
        return f"threshold {thresholds[0]!r}"
    finite = [value for value in thresholds if value > -math.inf]
    if not finite:
        return f"{len(thresholds)} thresholds of -inf"
    infinite = len(thresholds) - len(finite)
    note = f" ({infinite} of them -inf)" if infinite else ""
    return f"{len(thresholds)} thresholds{note} between {min(finite)!r} and {max(finite)!r}"


def _explain_shortages(result: Site) -> Iterator[str]:
    """Yield what happens to a site that has too few examples, in total or of a class."""
    for index, count in enumerate(result.examples):
        examples, in_class, guarantee = format_count(count, "example"), "", result.guarantee
        if result.classes is not None:
            label = result.classes[index]
            examples, in_class = f"{examples} of class {label!r}", " for that class"
            guarantee = guarantee.for_class(label, result.classes)
        if count < guarantee.min_examples:
            yield (
                f"The site has {examples}, fewer than --min-examples {guarantee.min_examples}, and "
                f"is left out{in_class}."
            )
        elif max(result.thresholds[index]) == -math.inf:
            minimum = min_sample_size(guarantee.miss_rate, guarantee.levels[-1].alpha_within)
            is_interval = "prediction" in (result.columns or {})
            effect = "has infinite intervals" if is_interval else "keeps every label"
            effect = "always keeps that class" if in_class else effect
            yield (
                f"The site has {examples}, too few for a threshold, which takes {minimum}. It "
                f"counts as one that {effect}."
            )


def combine(
    sites: Annotated[
        list[str],
        typer.Argument(
            metavar="SITES", help="Files written by 'metapac site', or globs or folders of them."
        ),
    ],
    *,
    output: PromiseOutput,
    on_infeasible: OnInfeasible = "raise",
    context: ContextOptions,
    allow: Allow = None,
    as_json: AsJson = False,
) -> None:
    """Combine the files of all sites into one threshold with a guarantee.

    All sites must have used the same options, and each may appear only once.

    Example:

        metapac combine ohio.json texas.json utah.json -o promise.json
    """
    about, allowed = context.parse(), parse_allowed(allow)
    files = [file for path in sites for file in _site_files(path)]
    check_not_input(output, files)
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # printed at the end
        warnings.simplefilter("always", CheckWarning)
        predictor = combine_sites(files, on_infeasible=on_infeasible, context=about, allow=allowed)
    predictor.save(output)
    dishonest = summarise_liars(predictor)
    print_calibrated(predictor, output, as_json=as_json, dishonest=dishonest)
    if dishonest["to_keep_all"] and not as_json:
        liars = Liars(dishonest["to_keep_all"], dishonest["to_empty"])
        is_interval = "prediction" in (predictor.columns_ or {})
        print_line(describe_liars(liars, dishonest["sites"], is_interval=is_interval))


def _site_files(path: str) -> list[Path]:
    """Return the site files at a path, in a folder or matching a glob."""
    if Path(path).is_dir():
        files = sorted(Path(path).glob("*.json"))
        if not files:
            raise InvalidInput(f"{path} holds no .json. Pass files written by 'metapac site'.")
        return files
    if glob.has_magic(path) and not Path(path).exists():
        return [Path(name) for name in sorted(glob.glob(path))] or [Path(path)]  # noqa: PTH207
    return [Path(path)]
