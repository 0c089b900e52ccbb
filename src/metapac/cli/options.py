"""Options that commands share.

A bundle is a dataclass; a command that takes one has an option for each of its fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from metapac.context import Context
from metapac.data_checks import check_allowed
from metapac.errors import InvalidInput
from metapac.guarantee import Epsilon, Guarantee

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


def parse_epsilon(texts: list[str]) -> Epsilon:
    """Return the miss rate, or the miss rate of each class."""
    if not any("=" in text for text in texts):
        if len(texts) > 1:
            raise InvalidInput(
                f"--epsilon must be one number, got {' and '.join(texts)}. For a different one in "
                "each class, pass --epsilon CLASS=NUMBER for each."
            )
        return _parse_number("--epsilon", texts[0], texts[0])
    rates: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals or not name:
            raise InvalidInput(
                f"--epsilon must be either one number or CLASS=NUMBER for each class, got {text!r} "
                f"among {', '.join(texts)}."
            )
        if name in rates:
            raise InvalidInput(f"--epsilon gives class {name!r} twice. Give each class once.")
        rates[name] = _parse_number("--epsilon", number, text)
    return rates


def parse_delta(text: str) -> float | None:
    """Return the failure probability, or None for "none"."""
    return None if text.strip().lower() == "none" else _parse_number("--delta", text, text)


def parse_split(text: str) -> str | float:
    """Return the name of a split, or a number."""
    try:
        return float(text)
    except ValueError:
        return text


def parse_allowed(texts: list[str] | None) -> list[str]:
    """Return the names of the checks to skip."""
    names = [name for text in texts or () for name in parse_names(text) or ()]
    return sorted(check_allowed(names))


def parse_names(text: str | None) -> list[str] | None:
    """Return names separated by commas as a list."""
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_columns(text: str) -> str | list[str]:
    """Return a pattern or the name of a column as it is, and several names as a list."""
    is_list = "," in text and "*" not in text
    return [name.strip() for name in text.split(",")] if is_list else text


def _parse_number(flag: str, number: str, text: str) -> float:
    try:
        return float(number)
    except ValueError:
        context = "" if number == text else f" in {text!r}"
        remedy = _rewrite_number(number)
        raise InvalidInput(f"{flag} must be a number, got {number!r}{context}.{remedy}") from None


def _rewrite_number(text: str) -> str:
    """Return how to write a percentage, or a number with a decimal comma; otherwise nothing."""
    plain = text.strip().replace(",", ".")
    try:
        value = Decimal(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except InvalidOperation:
        return ""
    return f" Write {value.normalize():f}." if value.is_finite() else ""


_LIST = (".txt", "")


def read_task_names(text: str, task: str | None = None) -> list[Any]:
    """Return the tasks that a table holds, a file lists or a text names."""
    path = Path(text)
    if not path.exists():
        if path.suffix.lower() in (".parquet", ".csv", ".tsv", ".txt", ".jsonl", ".duckdb"):
            raise InvalidInput(f"trained_on: there is no file {text}.", parameter="trained_on")
        names: list[Any] = [name.strip() for name in text.split(",")]
    elif path.is_file() and path.suffix.lower() in _LIST:
        names = _lines(path)
    else:
        names = _distinct(text, task)
    names = [name for name in names if name != ""]
    if not names:
        raise InvalidInput(f"trained_on names no task, got {text!r}.", parameter="trained_on")
    return names


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} must hold a task name in each line, as UTF-8 text.") from None


def _distinct(path: str, task: str | None) -> list[Any]:
    """Return the distinct tasks of a table; of a table with one column, its values."""
    from metapac.tables.scores import get_id_column
    from metapac.tables.sources import open_source

    with open_source(path) as source:
        columns = source.table.columns
        if task not in columns and len(columns) > 1:
            raise InvalidInput(
                f"trained_on: {source.name} must have the task "
                f"column{'' if task is None else f' {task!r}'}, or a single column of names, got "
                f"{', '.join(columns[:10])}.",
                parameter="trained_on",
            )
        name = task if task is not None and task in columns else columns[0]
        column = get_id_column(source, name, "tasks")
        with source.reading():
            found = source.run(source.table.select(task=column).distinct())
    return [name for name in found["task"].to_pylist() if name is not None]


@dataclass(frozen=True)
class GuaranteeOptions:
    """The options that state a guarantee."""

    epsilon: Annotated[
        list[str],
        guarantee_option(
            metavar="NUMBER",
            help="Miss rate allowed on a task, such as 0.1. With --per-class it can be given for "
            "each class: --epsilon yes=0.02 --epsilon no=0.1.",
        ),
    ]
    alpha: Annotated[
        float,
        guarantee_option(help="Fraction of new tasks that may exceed the miss rate, such as 0.1."),
    ]
    delta: Annotated[
        str,
        guarantee_option(
            metavar="NUMBER|none",
            help="Failure probability of the guarantee, over calibration draws, such as 0.05. "
            "'none' gives a weaker guarantee, in expectation, that needs far fewer tasks.",
        ),
    ]
    per_class: Annotated[
        bool,
        guarantee_option(
            "--per-class",
            help="Bound the miss rate of each class separately, so that a rare class cannot be "
            "missed unnoticed. Needs --label.",
        ),
    ] = False
    min_examples: Annotated[
        int,
        guarantee_option(
            min=0,
            help="Leave out tasks with fewer examples (with --per-class, of the class). The "
            "guarantee then covers only tasks with at least this many.",
        ),
    ] = 0
    split: Annotated[
        str,
        guarantee_option(
            metavar="NAME|NUMBER",
            help="How alpha is divided between the two steps; every choice gives the same "
            "guarantee. 'joint' usually gives the smallest sets, 'tight' lets a site send a "
            "single number, 'even' is the paper's.",
        ),
    ] = "joint"

    def parse(self) -> Guarantee:
        """Return the guarantee that the options state."""
        parsed = {
            "epsilon": parse_epsilon(self.epsilon),
            "delta": parse_delta(self.delta),
            "split": parse_split(self.split),
        }
        return Guarantee(**vars(self) | parsed)


@dataclass(frozen=True)
class ColumnOptions:
    """The options that name the columns with the scores of the true labels."""

    score: Score = None
    label: Label = None
    columns: Annotated[
        str,
        column_option(
            metavar="PATTERN|NAMES",
            help="Columns with the score of each class: a pattern whose star stands for the class, "
            "or names separated by commas; or one column of lists.",
        ),
    ] = "p_*"
    classes: Classes = None
    classes_column: ClassesColumn = None
    prediction: Prediction = None
    y: Y = None
    scale: Scale = None

    def parse(self) -> dict[str, Any]:
        """Return the options as keyword arguments of the functions on tables."""
        names = {"columns": parse_columns(self.columns), "classes": parse_names(self.classes)}
        return vars(self) | names


@dataclass(frozen=True)
class NewColumnOptions:
    """The options that name the columns of new tasks; by default those used in calibration."""

    task: CalibrationTask = None
    score: Score = None
    label: Label = None
    columns: CalibrationColumns = None
    classes: Classes = None
    classes_column: ClassesColumn = None
    prediction: Prediction = None
    y: Y = None
    scale: Scale = None

    def parse(self) -> dict[str, Any]:
        """Return the options as keyword arguments of the functions on tables."""
        columns = self.columns and parse_columns(self.columns)
        return vars(self) | {"columns": columns, "classes": parse_names(self.classes)}


@dataclass(frozen=True)
class ContextOptions:
    """The options that say what a guarantee is about."""

    model: Annotated[
        str | None,
        context_option(
            metavar="NAME",
            help="Name and version of the model that gave the scores. 'predict' and 'evaluate' "
            "compare it.",
        ),
    ] = None
    trained_on: Annotated[
        str | None,
        context_option(
            metavar="FILE|NAMES",
            help="Tasks that the model was trained on: a table with the same task column, a text "
            "file with a name in each line, or names separated by commas. None of them may be a "
            "calibration task.",
        ),
    ] = None
    pilot: Annotated[
        Path | None,
        context_option(
            help="Pilot file written by 'metapac explore'. None of its tasks may be a calibration "
            "task."
        ),
    ] = None
    unit: Annotated[
        str,
        context_option(
            metavar="WORD",
            help="What a task is called in explanations, such as hospital; with an irregular "
            "plural, both: person/people.",
        ),
    ] = "task"
    example: Annotated[
        str,
        context_option(
            metavar="WORD", help="What an example is called in explanations, such as patient."
        ),
    ] = "example"

    def parse(self, task: str | None = None) -> Context:
        """Return the context that the options state."""
        tasks = None if self.trained_on is None else read_task_names(self.trained_on, task)
        pilot = None
        if self.pilot is not None:
            from metapac.exploration import read_pilot

            pilot = read_pilot(self.pilot).tasks
        return Context(**vars(self) | {"trained_on": tasks, "pilot": pilot})


@dataclass(frozen=True)
class TableOptions:
    """The options for reading a table."""

    table: Annotated[
        str | None,
        reading_option(metavar="NAME", help="Table of the database, or sheet of the workbook."),
    ] = None
    separator: Annotated[
        str | None,
        reading_option(
            metavar="CHARACTER",
            help="Separator of the columns of CSV files, such as ';' or '\\t' for a tab. By "
            "default a comma, in .tsv files a tab.",
        ),
    ] = None
    decimal: Annotated[
        str,
        reading_option(metavar="CHARACTER", help="Decimal character of CSV files: '.' or ','."),
    ] = "."
    encoding: Annotated[
        str,
        reading_option(
            metavar="NAME", help="Encoding of CSV files, such as latin-1, windows-1252 or utf-16."
        ),
    ] = "utf-8"
    views: Annotated[
        bool,
        reading_option(
            "--views",
            help="Read views of a DuckDB or SQLite file too. A view can read other files: use this "
            "only if you trust the file.",
        ),
    ] = False
    engine: Annotated[
        str, reading_option(metavar="duckdb|spark", help="Engine that reads files.")
    ] = "duckdb"
    master: Annotated[
        str | None,
        reading_option(
            metavar="URL",
            help="Spark master URL, such as spark://host:7077. By default Spark runs locally.",
        ),
    ] = None
    memory_limit: Annotated[
        str | None,
        reading_option(
            metavar="SIZE",
            help="Memory that the engine may use before it spills to disk, such as 4GiB.",
        ),
    ] = None
    threads: Annotated[int | None, reading_option(min=1, help="Number of engine threads.")] = None
