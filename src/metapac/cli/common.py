"""What the commands share: the options of a promise, and how they fail."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer
from rich.console import Console

from metapac.guarantee import InfeasibleGuarantee

P = ParamSpec("P")

# Remedies of the library, as they are typed here.
_FLAGS = {
    "pass on_infeasible='trivial'": "pass --on-infeasible trivial",
    "Pass one of them as table.": "Pass one of them as --table.",
    "pass either score, the column": "pass either --score, the column",
    ", or label, the column": ", or --label, the column",
    "task must name a column": "--task must name a column",
    "Say in columns which": "Say in --columns which",
    "Raise memory_limit.": "Raise --memory-limit.",
}

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)

Epsilon = Annotated[float, typer.Option(help="Miss rate allowed on a task, such as 0.1.")]
Alpha = Annotated[float, typer.Option(help="Fraction of new tasks that may miss more often.")]
Delta = Annotated[float, typer.Option(help="Chance that the calibration tasks mislead us.")]
SplitOption = Annotated[
    str, typer.Option(help="tight, even (the paper), adaptive, or alpha_within as a number.")
]
OnInfeasible = Annotated[
    str, typer.Option(help="raise, or trivial: keep every label where data are too few.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def parse_split(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


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
    for python, flag in _FLAGS.items():
        message = message.replace(python, flag)
    errors.print(f"metapac: {message}", markup=False, soft_wrap=True)
    raise typer.Exit(code)
