"""The group of all commands, each imported only when it is needed."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from metapac._version import __version__

# In the order in which people need them. Each repeats the first line of the command's help, so
# that the list of commands can be printed without importing any of them.
SUMMARIES = {
    "plan": "Show how many tasks and labelled examples a guarantee needs.",
    "calibrate": "Compute the threshold that gives the guarantee, and write both to a file.",
    "predict": "Add a prediction set to each row of a table.",
    "evaluate": "Measure miss rates and set sizes on labelled tasks.",
    "site": "Write the few numbers that a site sends to the coordinator.",
    "combine": "Combine the files of all sites into one threshold with a guarantee.",
    "data": "Fetch, prepare and check the data sets of the paper.",
    "train": "Meta-train a few-shot learner and write its best weights.",
    "reproduce": "Run an experiment of the paper: train, calibrate, evaluate, draw the figures.",
    "demo": "Compare ways to choose a threshold, in a table and in figures.",
}


class _Group(TyperGroup):
    """A group of placeholders, each replaced by its command when the command is called."""

    def __init__(self, **settings: Any) -> None:
        placeholders = {name: TyperCommand(name, help=text) for name, text in SUMMARIES.items()}
        super().__init__(**settings | {"commands": placeholders})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import and return a command; None if there is none of that name."""
        if cmd_name not in SUMMARIES:
            return None
        from metapac.cli.commands import build_command

        return build_command(getattr(import_module(f"metapac.cli.{cmd_name}"), cmd_name), cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help of the group from the placeholders, without importing any command."""
        plain = TyperGroup(commands=dict(self.commands), params=self.params, help=self.help)
        plain.format_help(ctx, formatter)


app = typer.Typer(
    name="metapac",
    help="Prediction sets with a guarantee for every new task.",
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(is_requested: bool) -> None:
    if is_requested:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar="",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
) -> None:
    pass
