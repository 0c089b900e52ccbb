"""The application: a table of commands, each imported when it is run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from metapac._version import __version__
from metapac.cli.help import PlainGroup

# In the order in which people need them. Each repeats the first line of the command's help, so
# that the list of commands can be printed without importing any of them.
SUMMARIES = {
    "plan": "Show how many tasks and labelled examples a guarantee needs.",
    "explore": "Try levels on pilot tasks, before calibration.",
    "calibrate": "Compute the threshold that gives the guarantee, and write both to a file.",
    "predict": "Add a prediction set to each row of a table.",
    "evaluate": "Judge the guarantee on labelled new tasks, and measure miss rates and set sizes.",
    "monitor": "Watch the guarantee while new tasks come in, and raise an alarm if it is violated.",
    "show": "Explain a promise file: what it guarantees, what it does not, and what it rests on.",
    "report": "Write a report to sign: what is guaranteed, what it costs, and whether it holds.",
    "site": "Write the few numbers that a site sends to the coordinator.",
    "combine": "Combine the files of all sites into one threshold with a guarantee.",
    "data": "Fetch, prepare and check the data sets of the paper.",
    "train": "Meta-train a few-shot learner and write its best weights.",
    "score": "Score the tasks of a training run, of embeddings or of sample logs, to calibrate on.",
    "study": "Judge the methods on your own data: set sizes, miss rates, verdicts on guarantees.",
    "reproduce": "Run an experiment of the paper: train, calibrate, evaluate, draw the figures.",
    "demo": "See what a guarantee says, and what it does not, in a table and in figures.",
    "doctor": "Print versions, extras, engines, GPU and cache folder.",
}

# Commands that have no module of their name here; those of the few-shot wing are looked up by name,
# as the core never imports it.
_MODULES = {
    "site": "metapac.cli.sites",
    "combine": "metapac.cli.sites",
    **{
        name: f"metapac.fewshot.cli.{name}"
        for name in ("data", "train", "score", "study", "reproduce", "demo")
    },
}

_START = """\
Prediction sets with a guarantee for every new task. Five things to do:

1. How many tasks and labelled examples does it take?
   metapac plan --epsilon .1 --alpha .1 --delta .05
2. Find the threshold, from labelled scores of many tasks:
   metapac calibrate scores.csv --task site --label y \\
       --epsilon .1 --alpha .1 --delta .05 -o promise.json
3. Predict sets for new rows:
   metapac predict promise.json new.csv -o sets.csv
4. Check the guarantee on other labelled tasks:
   metapac evaluate promise.json labelled.csv
5. Explain it to people who are not statisticians:
   metapac show promise.json

All commands: metapac --help. An example: metapac demo --data sites.
"""

# Typer and click name the class of all errors in what was typed in different places.
_UsageError: Any = typer.BadParameter.__base__


@contextmanager
def _report_usage_errors() -> Iterator[None]:
    """Print an error in what was typed in one line, like all others, and exit with code 2."""
    try:
        yield
    except _UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # shows the help of a group
            raise
        from metapac.cli.console import print_error

        path = error.ctx.command_path if error.ctx else "metapac"
        message = " ".join(error.format_message().split())
        end = "" if message.endswith((".", "?", "!")) else "."
        print_error(f"{message}{end} Try '{path} --help'.")
        raise typer.Exit(2) from error


class _Group(PlainGroup):
    """A group of placeholders, each replaced by its command when the command is called."""

    def __init__(self, **settings: Any) -> None:
        placeholders = {name: TyperCommand(name, help=text) for name, text in SUMMARIES.items()}
        super().__init__(**settings | {"commands": placeholders})

    def make_context(self, *words: Any, **settings: Any) -> Any:
        """Parse the options of the group."""
        with _report_usage_errors():
            return super().make_context(*words, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest, and run the command."""
        with _report_usage_errors():
            return super().invoke(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return a command; None if there is none of that name."""
        if cmd_name not in SUMMARIES:
            return None
        from metapac.cli.commands import build_command

        module = import_module(_MODULES.get(cmd_name, f"metapac.cli.{cmd_name}"))
        return build_command(getattr(module, cmd_name), cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of the group from the placeholders, without importing any command."""
        plain = PlainGroup(commands=dict(self.commands), params=self.params, help=self.help)
        plain.format_help(ctx, formatter)


app = typer.Typer(
    name="metapac",
    help="Prediction sets with a guarantee for every new task.",
    cls=_Group,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(_START, nl=False)
