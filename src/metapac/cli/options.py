"""Options that commands share: how they are typed, and what they become."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import InitVar, dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple

from metapac._text import mask
from metapac.columns import Reading
from metapac.context import Context
from metapac.data_checks import check_allowed
from metapac.errors import InvalidInput
from metapac.guarantee import TOGETHER, Epsilon, Guarantee
from metapac.lists import read_draw


class Entry(NamedTuple):
    """What the docstring says of a parameter: its place holder in the help, and its help."""

    metavar: str
    help: str


def read_docstring(source: Any) -> tuple[str, dict[str, Entry]]:
    """Return the text above the ``Parameters`` section, and the entries of that section."""
    text, _, section = (inspect.getdoc(source) or "").partition("\n\nParameters\n----------\n")
    section = re.split(r"\n\n\w+\n-+\n", section)[0]
    entries: dict[str, Entry] = {}
    pattern = r"(?m)^(\w+(?:, \w+)*)(?: : (.*))?\n((?:(?: +.*)?(?:\n|\Z))*)"
    for match in re.finditer(pattern, section):
        help_text = " ".join(textwrap.dedent(match[3]).split())
        entry = Entry(match[2] or "", help_text)
        entries |= dict.fromkeys(match[1].split(", "), entry)
    return text, entries


@dataclass(frozen=True, kw_only=True)
class GuaranteeOptions(Guarantee):
    """The guarantee to calibrate for.

    Parameters
    ----------
    epsilon
        Miss rate allowed on a task, such as 0.1. With ``per_class`` it can be given for each class:
        --epsilon yes=0.02 --epsilon no=0.1.
    alpha
        Fraction of new tasks that may exceed the miss rate, such as 0.1.
    delta
        Failure probability of the guarantee, over calibration draws, such as 0.05. 'none' gives a
        weaker guarantee, in expectation, that needs far fewer tasks.
    split
        How alpha is divided between the two steps; every choice gives the same guarantee. 'joint'
        usually gives the smallest sets, 'tight' lets a site send a single number, 'even' is the
        paper's.
    per_class
        Bound the miss rate of each class separately, so that a rare class cannot be missed
        unnoticed. Needs --label.
    new_tasks
        Number of tasks in a finite list that are not calibrated on, such as 20 other hospitals. Of
        these, at most a fraction alpha, rounded down, may exceed epsilon. No distribution of tasks
        is assumed, only that the calibration tasks were drawn at random from the whole list.
    shift
        By how much the share of new tasks that exceed the miss rate may be larger than among tasks
        like those of the calibration, because some come from elsewhere, such as 0.02.
    dishonest
        Number of calibration tasks whose thresholds may be anything, whoever sends them.
    sampling
        How the examples of a task are sampled. 'any': independently, be it i.i.d., balanced by
        class or without replacement. 'iid': i.i.d., for smaller sets if tasks are small. 'capped'
        is the rule of version 0.2.0.
    randomise
        Seed of randomised ranks within tasks, fixed beforehand, for smaller sets if tasks are
        small. Another seed after looking is a second look.
    together
        Bound the miss rate of every class on the same tasks, by one guarantee. Needs --label, and
        offsets for the scores of the classes: those of --pilot, or ``offsets``.
    offsets
        What is subtracted from the scores of each class with ``together``, fixed beforehand, once
        for each class: --offsets yes=0.1 --offsets no=0.6.
    """

    together: InitVar[bool] = False

    def __post_init__(self, together: bool) -> None:
        if together:
            if self.per_class:
                text = "pass per_class or together, not both: they are two guarantees."
                raise InvalidInput(text, parameter=("per_class", "together"))
            object.__setattr__(self, "per_class", TOGETHER)
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(Reading):
    r"""How to read a table, and with which engine.

    Parameters
    ----------
    separator
        Separator of the columns of CSV files, such as ';' or '\t' for a tab. By default a comma,
        in .tsv files a tab.
    views
        Read views of a DuckDB or SQLite file too. A view can read other files: use this only if you
        trust the file.
    engine
        Engine that reads files.
    master
        Spark master URL, such as spark://host:7077. By default Spark runs locally.
    memory_limit
        Memory that the engine may use before it spills to disk, such as 4GiB.
    threads
        Number of engine threads.
    """

    engine: str = "duckdb"
    master: str | None = None
    memory_limit: str | None = None
    threads: int | None = None


@dataclass(frozen=True, kw_only=True)
class ContextOptions:
    """What a guarantee is about.

    Parameters
    ----------
    model
        Name and version of the model that gave the scores. 'predict' and 'evaluate' compare it.
    trained_on
        Tasks that the model was trained on: a table with the same task column, a text file with a
        name in each line, or names separated by commas. None of them may be a calibration task.
    draw
        Draw file written by 'metapac draw'. The calibration tasks must be those drawn; --new-tasks
        is then the rest of the list.
    pilot
        Pilot file written by 'metapac plan' or 'metapac explore'. Its tasks are no calibration
        tasks: 'calibrate' leaves them out.
    unit
        What a task is called in explanations, such as hospital; with an irregular plural, both:
        person/people.
    example
        What an example is called in explanations, such as patient.
    """

    model: str | None = None
    trained_on: str | None = None
    draw: Path | None = None
    pilot: Path | None = None
    unit: str = "task"
    example: str = "example"

    def read(self, task: str | None = None) -> Context:
        """Return the context, with the tasks that its files name."""
        given: dict[str, Any] = dict(vars(self))
        if self.trained_on is not None:
            given["trained_on"] = read_task_names(self.trained_on, task)
        if self.pilot is not None:
            from metapac.exploration import read_pilot

            given["pilot"] = read_pilot(self.pilot).tasks
        if self.draw is not None:
            given["draw"] = read_draw(self.draw)
        return Context(**given)


class Field(NamedTuple):
    """How an option is shown in the help, and what becomes of its text."""

    metavar: str = ""
    parse: Callable[[Any], Any] | None = None
    multiple: bool = False
    help: str = ""


def parse_names(text: str) -> list[str]:
    """Return names separated by commas as a list."""
    return [name.strip() for name in text.split(",")]


def parse_columns(text: str) -> str | list[str]:
    """Return a pattern or the name of a column as it is, and several names as a list."""
    return parse_names(text) if "," in text and "*" not in text else text


def parse_epsilon(texts: Sequence[str]) -> Epsilon:
    """Return the miss rate, or the miss rate of each class."""
    if len(texts) == 1 and "=" not in texts[0]:
        return parse_number("epsilon", texts[0])
    return _parse_by_class("epsilon", texts, "one number, or ")


def _parse_by_class(name: str, texts: Sequence[str], other: str = "") -> dict[str, float]:
    """Return a number for each class."""
    numbers: dict[str, float] = {}
    for text in texts:
        label, _, number = text.rpartition("=")
        if not label or label in numbers:
            rule = f"{name} must be {other}CLASS=NUMBER once for each class, got {text!r}"
            raise InvalidInput(f"{rule} among {', '.join(texts)}.")
        numbers[label] = parse_number(name, number)
    return numbers


def parse_delta(text: str) -> float | None:
    """Return the failure probability, or None for "none"."""
    return None if text.strip().lower() == "none" else parse_number("delta", text)


def parse_split(text: str) -> str | float:
    """Return the name of a split, or a number."""
    try:
        return float(text)
    except ValueError:
        return text


def parse_allowed(texts: Sequence[str]) -> list[str]:
    """Return the names of the checks to skip."""
    return sorted(check_allowed([name for text in texts for name in parse_names(text)]))


def parse_number(name: str, text: str) -> float:
    """Return a number; for a percentage or a decimal comma, the error says how to write it."""
    try:
        return float(text)
    except ValueError:
        plain, remedy = text.strip().replace(",", "."), ""
        with suppress(InvalidOperation):
            value = Decimal(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
            remedy = f" Write {value.normalize():f}." if value.is_finite() else ""
        raise InvalidInput(f"{name} must be a number, got {text!r}.{remedy}") from None


def convert(name: str, kind: str, text: Any) -> Any:
    """Return the text of an option as the type that a parameter is annotated with."""
    if not isinstance(text, str):  # a default, or a flag
        return text
    if "Path" in kind:
        if "://" in text:  # Path would drop a slash, and the password would no longer be masked
            raise InvalidInput(f"{name} must be a local file, got {mask(text)}.")
        return Path(text)
    if "Sequence[" in kind and "str" not in kind:
        return _parse_numbers(name, kind, text)
    if "float" in kind:
        return parse_number(name, text)
    if "int" in kind:
        try:
            return int(text)
        except ValueError:
            raise InvalidInput(f"{name} must be a whole number, got {text!r}.") from None
    return text


def _parse_numbers(name: str, kind: str, text: str) -> Any:
    """Return numbers separated by commas; for a choice, also one number or a range like 5-10."""
    is_choice, (low, dash, high) = kind.startswith("int "), text.partition("-")
    each = "float" if "float" in kind else "int"
    if is_choice and low and dash:
        numbers: Sequence[Any] = range(convert(name, each, low), convert(name, each, high) + 1)
    else:
        numbers = [convert(name, each, word) for word in text.split(",")]
    if not numbers:
        raise InvalidInput(f"{name} must be a range such as 5-10, got {text!r}.")
    return numbers[0] if is_choice and len(numbers) == 1 else numbers


# The panel of the help in which the options of a dataclass are shown.
PANEL_OF = {
    "Guarantee": "Guarantee",
    "Columns": "Columns of the table",
    "ContextOptions": "What the guarantee is about",
    "SignOff": "Fields to sign",
    "Reading": "Reading the table",
}
OMITTED = ("connection",)  # fields that are not options


def _shared_options() -> None:
    """Options that several commands share, and fields of dataclasses that commands take.

    Parameters
    ----------
    epsilon, alpha, min_examples, shift, dishonest, threads : NUMBER
    delta : NUMBER|none
    split : NAME|NUMBER
    sampling : any|iid|capped
    randomise : SEED
    offsets : CLASS=NUMBER
    lacking : CLASS=TASK
    on_infeasible : raise|trivial
        What to do if there are too few data: stop with an error, or keep every label (infinite
        intervals for numbers).
    task, score, label, classes_column, cluster, within, id : COLUMN
    prediction, y, scale, lower, upper : COLUMN
    columns, losses : PATTERN|NAMES
    thresholds : NUMBERS
    classes : NAMES
    model : NAME
        Name of the model that gave these scores; it must be the calibrated one.
    trained_on : FILE|NAMES
    pilot, output, draw : FILE
    new_tasks : NUMBER
    unit, example : WORD
    table, encoding : NAME
    separator, decimal : CHARACTER
    engine : duckdb|spark
    master : URL
    memory_limit : SIZE
    decision : approve|conditions|reject
    allow : NAME
        Check of the data to skip, as its message names it, such as 'duplicates'.
    plot : FILE
        Figure to write: a .png, .svg or .pdf file.
    false_alarm : NUMBER
        Probability that the verdict is wrong, below 0.5.
    rng : SEED
        Random seed.
    device : cpu|cuda
        Device to compute on. By default cuda if available.
    home : FOLDER
        Folder of the data sets. By default $METAPAC_DATA or, if that is not set, a folder in the
        user's cache.
    json
        Print JSON.
    scores : SCORES
        Table of scores: Parquet, CSV, JSON lines or Arrow files, globs or folders; an Excel
        workbook; a DuckDB or SQLite file; or a database URL such as postgres://user@host/name.
    promise : PROMISE
        Promise file written by 'metapac calibrate' or 'metapac combine'.
    """


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "epsilon": parse_epsilon,
    "delta": parse_delta,
    "offsets": functools.partial(_parse_by_class, "offsets"),
    "split": parse_split,
    "columns": parse_columns,
    "losses": parse_columns,
    "thresholds": lambda text: [parse_number("thresholds", word) for word in parse_names(text)],
    "classes": parse_names,
    "separator": lambda text: "\t" if text == r"\t" else text,
    "allow": parse_allowed,
}
_MULTIPLE = ("epsilon", "offsets", "lacking", "allow")
FIELDS = {
    name: Field(entry.metavar, _PARSERS.get(name), name in _MULTIPLE, entry.help)
    for name, entry in read_docstring(_shared_options)[1].items()
}


def read_list(path: Path, task: str | None) -> list[Any]:
    """Return the names in a list of tasks, as they are: a line, or a row of a table, for each."""
    if not path.is_file():
        raise InvalidInput(f"names: there is no file {path}.", parameter="names")
    if path.suffix.lower() in (".txt", ""):
        return _read_lines(path)
    from metapac.tables.table import read_task_column

    return read_task_column(str(path), task, parameter="names", distinct=False)


def _read_lines(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} must hold a task name in each line, in UTF-8.") from None
    return [line.strip() for line in lines]


def read_task_names(text: str, task: str | None = None) -> list[Any]:
    """Return the tasks that a table holds, a file lists or a text names."""
    path = Path(text)
    if not path.exists():
        if path.suffix.lower() in (".parquet", ".csv", ".tsv", ".txt", ".jsonl", ".duckdb"):
            raise InvalidInput(f"trained_on: there is no file {text}.", parameter="trained_on")
        names: list[Any] = parse_names(text)
    elif path.is_file() and path.suffix.lower() in (".txt", ""):
        names = [*_read_lines(path)]
    else:
        from metapac.tables.table import read_task_column

        names = read_task_column(text, task)
    names = [name for name in names if name != ""]
    if not names:
        raise InvalidInput(f"trained_on names no task, got {text!r}.", parameter="trained_on")
    return names
