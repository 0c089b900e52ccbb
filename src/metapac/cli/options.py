"""Options that several commands share."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

# Options in the panels of the help.
guarantee_option = partial(typer.Option, rich_help_panel="Guarantee")
column_option = partial(typer.Option, rich_help_panel="Columns of the table")
context_option = partial(typer.Option, rich_help_panel="What the guarantee is about")
reading_option = partial(typer.Option, rich_help_panel="Reading the table")


Scores = Annotated[
    list[str],
    typer.Argument(
        metavar="SCORES",
        help="Table of scores: Parquet, CSV, JSON lines or Arrow files, globs or folders; an Excel "
        "workbook; a DuckDB or SQLite file; or a database URL such as postgres://user@host/name.",
    ),
]
Promise = Annotated[
    Path,
    typer.Argument(
        metavar="PROMISE", help="Promise file written by 'metapac calibrate' or 'metapac combine'."
    ),
]
PromiseOutput = Annotated[Path, typer.Option("--output", "-o", help="Promise file to write.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Rng = Annotated[int, typer.Option(min=0, metavar="SEED", help="Random seed.")]
Device = Annotated[
    str | None,
    typer.Option(metavar="cpu|cuda", help="Device to compute on. By default cuda if available."),
]
Home = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Folder of the data sets. By default $METAPAC_DATA or, if that is not set, a folder "
        "in the user's cache.",
    ),
]
OnInfeasible = Annotated[
    str,
    guarantee_option(
        metavar="raise|trivial",
        help="What to do if there are too few data: stop with an error, or keep every label "
        "(infinite intervals for numbers).",
    ),
]
Task = Annotated[str, column_option(metavar="COLUMN", help="Column with the task of each example.")]
ScoredTask = Annotated[
    str | None,
    column_option(
        metavar="COLUMN",
        help="Column with the task of each example. By default that of a table that 'metapac "
        "score' wrote.",
    ),
]
CalibrationTask = Annotated[
    str | None,
    column_option(
        metavar="COLUMN",
        help="Column with the task of each example. By default the one used in calibration.",
    ),
]
Score = Annotated[
    str | None, column_option(metavar="COLUMN", help="Column with the score of the true label.")
]
Label = Annotated[
    str | None,
    column_option(
        metavar="COLUMN",
        help="Column with the true label, whose score is then taken from the class scores. With "
        "--per-class, --score may be given too and is then the score of the true label.",
    ),
]
CalibrationColumns = Annotated[
    str | None,
    column_option(
        metavar="PATTERN|NAMES",
        help="Columns with the score of each class: a pattern whose star stands for the class, or "
        "names separated by commas; or one column of lists. By default those used in calibration, "
        "or 'p_*'.",
    ),
]
Classes = Annotated[
    str | None,
    column_option(
        metavar="NAMES",
        help="Class names, separated by commas. With a column of lists, or columns named one by "
        "one, the class of each, in order. With a pattern, the classes to use.",
    ),
]
ClassesColumn = Annotated[
    str | None,
    column_option(
        metavar="COLUMN",
        help="Column with the list of classes of each row, in the order of its list of scores; for "
        "tasks with different numbers of classes.",
    ),
]
Prediction = Annotated[
    str | None,
    column_option(
        metavar="COLUMN",
        help="Regression: column with the predicted number. Sets are then intervals.",
    ),
]
Y = Annotated[
    str | None,
    column_option("--y", metavar="COLUMN", help="Regression: column with the true number."),
]
Scale = Annotated[
    str | None,
    column_option(
        metavar="COLUMN",
        help="Regression: column with the scale of each prediction, such as its standard "
        "deviation; 1 by default.",
    ),
]


Cluster = Annotated[
    str | None,
    column_option(
        metavar="COLUMN",
        help="Column with the cluster of each task, such as its alphabet or hospital group, if "
        "tasks of one cluster depend on each other. One random task of each cluster counts, and "
        "the guarantee is for new tasks of new clusters.",
    ),
]
CalibrationCluster = Annotated[
    str | None,
    column_option(
        metavar="COLUMN",
        help="Column with the cluster of each task; by default that of the calibration. One random "
        "task of each new cluster is judged.",
    ),
]
ClusterRng = Annotated[
    int,
    column_option(
        min=0,
        metavar="SEED",
        help="Seed of the draw of one task from each cluster, fixed before looking at results.",
    ),
]

Id = Annotated[
    str | None,
    column_option(
        "--id",
        metavar="COLUMN",
        help="Column that identifies the examples of a task: none may occur twice.",
    ),
]
Allow = Annotated[
    list[str] | None,
    reading_option(
        metavar="NAME",
        help="Check of the data to skip, as its message names it, such as 'duplicates'. May be "
        "repeated.",
    ),
]


Model = Annotated[
    str | None,
    context_option(
        metavar="NAME",
        help="Name of the model that gave these scores. It must be the one that was calibrated.",
    ),
]
