"""``metapac study``: compare methods on your own data, from data to table and figure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from metapac import _optional
from metapac._files import replacing
from metapac.cli.console import print_json, print_line
from metapac.cli.options import AsJson, Rng
from metapac.cli.parsing import parse_allowed, parse_delta
from metapac.cli.progress import progress_bar
from metapac.cli.study_sizes import DrawSizes, describe_features, join_sizes, measure_draw
from metapac.cli.study_sources import LearnerOptions, Source, TaskOptions, open_source
from metapac.cli.summary_table import print_summary
from metapac.cli.vector_options import VectorOptions
from metapac.evaluation import PoolStudy, Rows, Summary, evaluate_seeds
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Guarantee
from metapac.meaning.checks import check_levels

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
                "{} must be a number: a study compares methods at a failure probability, which "
                "'none' is not.",
                Parameter("delta"),
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
    _optional.require("matplotlib", extra="plot", purpose="metapac study")
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

        summary = evaluate_seeds(
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
            "{} must be 1 for {}, which was trained with one seed. Pass its data to train several.",
            Parameter("seeds"),
            data,
        )
    return 1


def _write(summary: Summary, folder: Path, title: str) -> list[str]:
    """Write the table in three formats and the figure; return their paths."""
    from metapac.reproduce.figures import draw_error_and_size

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
