"""What the commands share: the options of a guarantee, and how they fail."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer
from rich.console import Console

from metapac.guarantee import Epsilon, InfeasibleGuarantee

P = ParamSpec("P")

# Remedies of the library, as they are typed here.
_FLAGS = {
    r"pass on_infeasible='trivial'": "pass --on-infeasible trivial",
    r"\buse split='?([\w.+-]+?)'?([,.]? )": r"use --split \1\2",
    r"left out by min_examples=": "left out by --min-examples ",
    r"\buse min_examples=": "use --min-examples ",
    r"\buse delta=None": "use --delta none",
    r"\bper_class=True": "--per-class",
    r"Pass one of them as table\.": "Pass one of them as --table.",
    r"pass either score, the column": "pass either --score, the column",
    r", or label, the column": ", or --label, the column",
    r"^label must name the column": "--label must name the column",
    r"Pass label, with or without score\.": "Pass --label, with or without --score.",
    r"^classes must name all classes where score": "--classes must name all classes where --score",
    r"^task must name a column": "--task must name a column",
    r"Say in columns which": "Say in --columns which",
    r"Raise memory_limit\.": "Raise --memory-limit.",
}

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

EpsilonOption = Annotated[
    list[str],
    typer.Option(
        "--epsilon",
        metavar="NUMBER|CLASS=NUMBER",
        help="Miss rate allowed on a task, such as 0.1. With --per-class it can be given for each "
        "class: --epsilon yes=0.02 --epsilon no=0.1.",
    ),
]
Alpha = Annotated[float, typer.Option(help="Fraction of new tasks that may miss more often.")]
DeltaOption = Annotated[
    str,
    typer.Option(
        "--delta",
        metavar="NUMBER|none",
        help="Failure probability of the guarantee, such as 0.05. 'none' gives a weaker guarantee, "
        "in expectation, that needs far fewer tasks.",
    ),
]
SplitOption = Annotated[
    str,
    typer.Option(
        metavar="joint|tight|even|NUMBER",
        help="How alpha is shared between the two steps; any choice carries the same guarantee. "
        "'joint' usually gives the smallest sets, 'tight' lets a site send one number, 'even' is "
        "the paper's.",
    ),
]
PerClass = Annotated[
    bool,
    typer.Option(
        "--per-class",
        help="Bound the miss rate of each class separately, so that a rare class cannot be missed "
        "unnoticed. Needs --label.",
    ),
]
MinExamples = Annotated[
    int,
    typer.Option(
        min=0,
        help="Leave out tasks with fewer examples (with --per-class, of the class). The guarantee "
        "then covers only tasks with at least as many.",
    ),
]
OnInfeasible = Annotated[
    str,
    typer.Option(
        metavar="raise|trivial",
        help="What to do where the data are too few: stop, or keep every label.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def parse_split(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def parse_delta(text: str) -> float | None:
    """Return the failure probability that was typed; None for "none"."""
    return None if text.strip().lower() == "none" else _number("--delta", text, text)


def parse_epsilon(texts: list[str]) -> Epsilon:
    """Return the miss rate that was typed, or that of each class."""
    if not any("=" in text for text in texts):
        if len(texts) > 1:
            raise ValueError(
                f"--epsilon must be one number, got {' and '.join(texts)}. To give each class its "
                "own, pass --epsilon CLASS=NUMBER for each."
            )
        return _number("--epsilon", texts[0], texts[0])
    rates: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals or not name:
            raise ValueError(
                f"--epsilon must be either one number or CLASS=NUMBER for each class, got {text!r} "
                f"among {', '.join(texts)}."
            )
        if name in rates:
            raise ValueError(f"--epsilon gives class {name!r} twice. Give each class once.")
        rates[name] = _number("--epsilon", number, text)
    return rates


def _number(flag: str, number: str, text: str) -> float:
    try:
        return float(number)
    except ValueError:
        within = "" if number == text else f" in {text!r}"
        raise ValueError(f"{flag} must be a number, got {number!r}{within}.") from None


def warn(message: str) -> None:
    """Show a warning in one line; it changes no exit code."""
    errors.print(f"metapac: warning: {flagged(message)}", markup=False, soft_wrap=True)


def flagged(message: str) -> str:
    """Return a message of the library with its remedies as they are typed here."""
    for python, flag in _FLAGS.items():
        message = re.sub(python, flag, message)
    return message


def told(command: Callable[P, None]) -> Callable[P, None]:
    """Answer bad input in one line: exit code 1 for too few data, 2 for everything else."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except InfeasibleGuarantee as error:
            _stop(str(error), 1)
        except BrokenPipeError:  # the reader, such as head, has seen enough
            sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
        except OSError as error:
            _stop(f"{error.filename}: {error.strerror}" if error.filename else str(error), 2)
        except (ValueError, ModuleNotFoundError) as error:
            _stop(str(error), 2)

    return run


def _stop(message: str, code: int) -> None:
    errors.print(f"metapac: {flagged(message)}", markup=False, soft_wrap=True)
    raise typer.Exit(code)
