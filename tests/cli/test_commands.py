"""Commands made from functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from metapac.cli.commands import add_command, build_command
from typer.testing import CliRunner

from metapac import InfeasibleGuarantee, InvalidInput


@dataclass(frozen=True)
class Brush:
    color: Annotated[str, typer.Option(help="Which color.")]
    size: Annotated[int, typer.Option(help="How large.")] = 3


def paint(
    target: Annotated[str, typer.Argument(help="What to paint.")],
    brush: Brush,
    twice: Annotated[bool, typer.Option("--twice")] = False,
) -> None:
    """Paint something.

    A paragraph that is
    wrapped here.

        metapac paint wall \\
            --color red
    """
    typer.echo(f"{target} {brush.color} {brush.size} {twice}")


def test_bundles_become_options() -> None:
    app = typer.Typer()
    add_command(app, paint, "paint")
    result = CliRunner().invoke(app, ["wall", "--color", "red", "--size", "5", "--twice"])
    assert result.output == "wall red 5 True\n"
    assert CliRunner().invoke(app, ["wall", "--color", "red"]).output == "wall red 3 False\n"
    missing = CliRunner().invoke(app, ["wall"])
    assert missing.exit_code == 2
    assert "--color" in missing.stderr


def test_help_texts_are_wrapped_by_the_terminal_and_examples_are_not() -> None:
    command = build_command(paint, "paint")
    assert command.help.split("\n\n")[1:] == [
        "A paragraph that is wrapped here.",
        "    metapac paint wall \\\n        --color red",
    ]


def test_a_group_is_built_as_it_is() -> None:
    group = typer.Typer()
    add_command(group, paint, "one")
    add_command(group, paint, "two")
    assert build_command(group, "group").list_commands(None) == ["one", "two"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("bad size=1"), 2),
        (InfeasibleGuarantee("bad size=1"), 1),
    ],
)
def test_errors_of_a_command_show_its_options(error: Exception, code: int) -> None:
    def fail(brush: Brush) -> None:
        """Fail."""
        raise error

    app = typer.Typer()
    add_command(app, fail, "fail")
    result = CliRunner().invoke(app, ["--color", "red"])
    assert (result.exit_code, result.stderr) == (code, "metapac: bad --size 1\n")
