"""``metapac study``: methods compared on your own data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD

from metapac._common import require
from metapac.artefact import replacing
from metapac.cli.console import (
    format_count,
    make_table,
    print_json,
    print_line,
    print_text,
    progress_bar,
    stdout,
)
from metapac.cli.options import AsJson, Rng, parse_allowed, parse_delta
from metapac.data_checks import check_levels
from metapac.errors import InvalidInput
from metapac.fewshot.cli.study_sources import LearnerOptions, Source, TaskOptions, open_source
from metapac.fewshot.cli.vectors import VectorOptions
from metapac.fewshot.study.pool_study import PoolStudy
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import run_seeds
from metapac.fewshot.study.summary import MethodSummary, Summary, footnotes, full_name, header
from metapac.guarantee import Guarantee

_NAME = 19  # characters, of the longest name of a method


def print_summary(summary: Summary, title: str) -> None:
    """Print a table with a line for each method, and what its intervals cover."""
    method, *numbers, verdict = header(summary)
    table = make_table([method], ["\n".join(name.rsplit(" ", 1)) for name in numbers], title)
    table.add_column(verdict)
    names = [full_name(summary, line) for line in summary]
    for name, line in zip(names, summary, strict=True):
        table.add_row(name, *_cells(line))
    # Of a narrow terminal, the verdict is wrapped rather than the name.
    table.columns[0].width = min(max(map(len, [method, *names])), _NAME)
    # Seven columns fit in 80 characters if there is little between them.
    table.box, table.padding, table.pad_edge = SIMPLE_HEAD, (0, 1, 0, 0), False
    table.show_edge = False
    stdout.print(table)
    print_line("")
    print_text("\n".join(footnotes(summary)))


def _cells(line: MethodSummary) -> list[str]:
    return [
        f"{line.size:.2f}{_below(line.size_interval, '.2f')}",
        f"{line.error_quantile:.3f}{_below(line.error_quantile_interval, '.3f')}",
        f"{line.tasks_within:.1%}{_below(line.tasks_within_interval, '.0%')}",
        f"{line.draws_within:.0%}",
        f"{line.draws_expected:.0%}",
        line.verdict,
    ]


def _below(interval: tuple[float, float], form: str) -> str:
    """Return an interval on a line of its own; nothing if it is unbounded."""
    if not all(map(math.isfinite, interval)):
        return ""
    low, high = (format(end, form).removesuffix("%") for end in interval)
    return f"\n{low}-{high}"


_SHOWN = 12  # names of columns


@dataclass(frozen=True)
class DrawSizes:
    """Numbers of a draw."""

    calibration_tasks: int
    new_tasks: int
    examples: tuple[int, int]
    labelled: int
    labels: int

    def describe(self) -> dict[str, Any]:
        """Return the numbers as JSON can hold them."""
        return {**vars(self), "examples": list(self.examples)}

    def __str__(self) -> str:
        fewest, most = self.examples
        examples = f"{fewest} to " * (fewest < most) + format_count(most, "example")
        known = format_count(self.calibration_tasks, "calibration task")
        new = format_count(self.new_tasks, "new task")
        labelled = format_count(self.labelled, "labelled example")
        return (
            f"A draw has {known} of {examples}, and {new}, with {labelled} each for PS-Test. A set "
            f"can have up to {format_count(self.labels, 'label')}."
        )


def measure_draw(study: PoolStudy, options: TaskOptions) -> DrawSizes:
    """Return the numbers of a draw of a study."""
    pool, counts = study.calibration, {"calibration_tasks": study.tasks, "new_tasks": study.tests}
    if pool.unit == "group":
        spare = [len(members) - options.shots for members in pool.positions]
        sizes = [min(each, study.queries or each) for each in spare]
        examples = min(sizes), max(sizes)
        return DrawSizes(**counts, examples=examples, labelled=study.labelled, labels=pool.classes)
    ways, queries = options.ways, study.queries or 0
    examples = ways * queries, ways * queries
    return DrawSizes(**counts, examples=examples, labelled=ways * study.labelled, labels=ways)


def join_sizes(by_seed: Sequence[DrawSizes]) -> DrawSizes:
    """Return the numbers that hold for a draw of any seed."""
    return DrawSizes(
        calibration_tasks=min(each.calibration_tasks for each in by_seed),
        new_tasks=min(each.new_tasks for each in by_seed),
        examples=(
            min(each.examples[0] for each in by_seed),
            max(each.examples[1] for each in by_seed),
        ),
        labelled=min(each.labelled for each in by_seed),
        labels=max(each.labels for each in by_seed),
    )


def describe_features(count: int, columns: Sequence[str]) -> str:
    """Return which numbers of the data a learner sees."""
    if not columns:
        return f"The features are the {format_count(count, 'column')} of the array of vectors."
    shown = ", ".join(columns[:_SHOWN])
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    holds = format_count(len(columns), "column")
    return f"The features are in {holds}: {shown}{more}. Choose others with --columns."


_guarantee_option = partial(typer.Option, rich_help_panel="Guarantee")
_SEEDS = 3
_FIGURE = "error-and-size.png"


@dataclass(frozen=True)
class _Levels:
    """The guarantee that the methods aim at."""

    epsilon: Annotated[float, _guarantee_option(help="Miss rate allowed on a task.")] = 0.1
    alpha: Annotated[
        float, _guarantee_option(help="Fraction of new tasks that may exceed the miss rate.")
    ] = 0.1
    delta: Annotated[
        str,
        _guarantee_option(metavar="NUMBER", help="Failure probability of the guarantee."),
    ] = "0.05"
    allow: Annotated[
        list[str] | None,
        _guarantee_option(
            metavar="NAME",
            help="Check to skip: 'levels', if you do mean an epsilon or delta above 0.5, or an "
            "alpha above 0.75.",
        ),
    ] = None

    def parse(self) -> Guarantee:
        """Return the guarantee; levels that look like confidences are refused."""
        delta = parse_delta(self.delta)
        if delta is None:
            raise InvalidInput(
                "delta must be a number: a study compares methods at a failure probability, which "
                "'none' is not.",
                parameter="delta",
            )
        guarantee = Guarantee(epsilon=self.epsilon, alpha=self.alpha, delta=delta)
        check_levels(self.epsilon, self.alpha, delta, allow=parse_allowed(self.allow))
        return guarantee


def study(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="An .npz file with arrays x and y, and groups if each group is a task; vectors in "
            "an .npy or .parquet file with --labels; the folder of a run of 'metapac train'; "
            "glyphs, or a prepared data set.",
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the study.")
    ] = Path("study"),
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Number of seeds. Each seed divides the classes, trains and draws tasks anew; "
            "with at least 3, intervals cover all of that. By default 3, or 1 for a run.",
        ),
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            min=1, help="Calibration draws of each seed; a larger value extends a finished study."
        ),
    ] = 20,
    levels: _Levels,
    tasks: TaskOptions,
    learner: LearnerOptions,
    vectors: VectorOptions,
    n_jobs: Annotated[
        int,
        typer.Option("--jobs", help="Number of workers that share the draws; -1 uses all cores."),
    ] = 1,
    rng: Rng = 0,
    as_json: AsJson = False,
) -> None:
    """Judge the methods on your own data: set sizes, miss rates, verdicts on guarantees.

    Some classes (or groups) are for calibration, others for new tasks. Every method computes its
    threshold from the same calibration tasks and is tested on the same new tasks. The output folder
    holds the rows, the table as Markdown, CSV and LaTeX, and a figure.

    An interrupted study resumes when it is started again with the same options.

    Examples:

        metapac study data.npz -o study
        metapac study embeddings.npy --labels y.npy --metric cosine --temperature 0.1 -o study
    """
    require("matplotlib", extra="plot", purpose="metapac study")
    guarantee = levels.parse()
    by_seed: list[DrawSizes] = []
    with progress_bar() as progress:
        progress("reading the data", 0, None)
        source = open_source(
            data, output, tasks, learner, vectors, epsilon=levels.epsilon, progress=progress
        )

        def make_study(seed: int) -> PoolStudy:
            made = source.make_study(seed)
            by_seed.append(measure_draw(made, tasks))
            return made

        summary = run_seeds(
            make_study,
            guarantee=guarantee,
            seeds=_count_seeds(source, data, seeds),
            draws=draws,
            rng=rng,
            folder=output,
            n_jobs=n_jobs,
            progress=progress,
        )
        sizes = join_sizes(by_seed)
        summary = replace(summary, notes=(str(sizes), *_features(source), *summary.notes))
        progress("drawing the figure", 0, None)
        title = f"{data}, {source.learner}"
        files = _write(summary, output, title)
    if as_json:
        about = {"learner": source.learner, **_count_features(source), "files": files}
        aim = {name: getattr(guarantee, name) for name in ("epsilon", "alpha", "delta")}
        print_json({**summary.describe(), "guarantee": aim, **sizes.describe(), **about})
        return
    print_summary(summary, title)
    print_line("")
    print_line(f"Files: {', '.join(files)}")


def _count_features(source: Source) -> dict[str, Any]:
    """Return the number of features and their columns; None where there are none."""
    found = source.vectors
    if found is None:
        return {"features": None, "feature_columns": None}
    return {"features": found.x.shape[1], "feature_columns": list(found.columns) or None}


def _features(source: Source) -> list[str]:
    """Return a sentence on the features, if the learner is on vectors."""
    found = source.vectors
    return [] if found is None else [describe_features(found.x.shape[1], found.columns)]


def _count_seeds(source: Source, data: str, seeds: int | None) -> int:
    if source.can_vary:
        return _SEEDS if seeds is None else seeds
    if seeds not in (None, 1):
        raise InvalidInput(
            f"seeds must be 1 for {data}, which was trained with one seed. Pass its data to train "
            "several.",
            parameter="seeds",
        )
    return 1


def _write(summary: Summary, folder: Path, title: str) -> list[str]:
    """Write the table in three formats and the figure; return their paths."""
    from metapac.fewshot.reproduce.figures import draw_error_and_size

    texts = {
        "summary.md": summary.to_markdown(),
        "summary.csv": summary.to_csv(),
        "summary.tex": summary.to_latex(),
    }
    for name, text in texts.items():
        with replacing(folder / name) as file:
            file.write(text)
    rows = Rows.concatenate(summary.rows)
    draw_error_and_size(rows, summary.guarantee, title=title, path=folder / _FIGURE)
    return [str(folder / name) for name in (*texts, _FIGURE)]
