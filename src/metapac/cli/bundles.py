"""Bundles of options that several commands share.

A bundle is a dataclass; a command that takes one has an option for each of its fields.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from metapac.cli.options import (
    CalibrationColumns,
    CalibrationTask,
    Classes,
    ClassesColumn,
    Label,
    Prediction,
    Scale,
    Score,
    Y,
    column_option,
    context_option,
    guarantee_option,
    reading_option,
)
from metapac.cli.parsing import parse_columns, parse_delta, parse_epsilon, parse_names, parse_split
from metapac.cli.task_names import read_task_names
from metapac.context import Context
from metapac.guarantee import Guarantee


@dataclass(frozen=True)
class GuaranteeOptions:
    """The options that state a guarantee.

    Attributes
    ----------
    epsilon : list of str
        A number, or CLASS=NUMBER for each class.
    alpha : float
        Fraction of new tasks that may exceed the miss rate.
    delta : str
        A number, or "none".
    per_class : bool
        Whether the miss rate of each class is bounded separately.
    min_examples : int
        Size below which a task is left out.
    split : str
        Name of a split, or a number.
    """

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
        """Return the guarantee that the options state.

        Returns
        -------
        Guarantee
            The guarantee.

        Raises
        ------
        InvalidInput
            If the value of an option is not valid.
        """
        parsed = {
            "epsilon": parse_epsilon(self.epsilon),
            "delta": parse_delta(self.delta),
            "split": parse_split(self.split),
        }
        return Guarantee(**vars(self) | parsed)


@dataclass(frozen=True)
class ColumnOptions:
    """The options that name the columns with the scores of the true labels.

    Attributes
    ----------
    score : str or None
        Column of the scores.
    label : str or None
        Column of the labels.
    columns : str
        Columns of class scores.
    classes : str or None
        Names of the classes, separated by commas.
    classes_column : str or None
        Column of lists of classes.
    prediction, y, scale : str or None
        Columns of numbers, for regression.
    """

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
        """Return the options as keyword arguments of the functions on tables.

        Returns
        -------
        dict
            The values by name, with names as lists.
        """
        names = {"columns": parse_columns(self.columns), "classes": parse_names(self.classes)}
        return vars(self) | names


@dataclass(frozen=True)
class NewColumnOptions:
    """The options that name the columns of new tasks; by default those used in calibration.

    Attributes
    ----------
    task : str or None
        Column of the tasks.
    score : str or None
        Column of the scores of the true labels.
    label : str or None
        Column of the labels.
    columns : str or None
        Columns of class scores.
    classes : str or None
        Names of the classes, separated by commas.
    classes_column : str or None
        Column of lists of classes.
    prediction, y, scale : str or None
        Columns of numbers, for regression.
    """

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
        """Return the options as keyword arguments of the functions on tables.

        Returns
        -------
        dict
            The values by name, with names as lists.
        """
        columns = self.columns and parse_columns(self.columns)
        return vars(self) | {"columns": columns, "classes": parse_names(self.classes)}


@dataclass(frozen=True)
class ContextOptions:
    """The options that say what a guarantee is about.

    Attributes
    ----------
    model : str or None
        Name of the model.
    trained_on : str or None
        Tasks that it was trained on: a file, or names separated by commas.
    pilot : Path or None
        Pilot file.
    unit, example : str
        What tasks and examples are called.
    """

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
        """Return the context that the options state.

        Parameters
        ----------
        task : str, optional
            Task column of a table of training examples.

        Returns
        -------
        Context
            The context.
        """
        tasks = None if self.trained_on is None else read_task_names(self.trained_on, task)
        pilot = None
        if self.pilot is not None:
            from metapac.pilot import read_pilot

            pilot = read_pilot(self.pilot).tasks
        return Context(**vars(self) | {"trained_on": tasks, "pilot": pilot})


@dataclass(frozen=True)
class TableOptions:
    """The options for reading a table.

    Attributes
    ----------
    table : str or None
        Table of a database, or sheet of a workbook.
    separator : str or None
        Separator of the columns of CSV files.
    decimal : str
        Decimal character of CSV files.
    encoding : str
        Encoding of CSV files.
    views : bool
        Whether to read views of database files.
    engine : str
        Engine that reads files.
    master : str or None
        Spark master.
    memory_limit : str or None
        Memory limit of the engine.
    threads : int or None
        Number of threads of the engine.
    """

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
