"""Help as typer shows it, without types and braces; imports typer alone, to start fast."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


class PlainHelp:
    """Help that shows an argument by its name alone, and a flag without a value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, without the types that typer would show."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if parameter.param_type_name == "argument":
                parameter.display_type_rich = _show_nothing
            elif parameter.is_flag and parameter.metavar is None:
                parameter.metavar = ""
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the usage line, without typer's braces around what is required."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [piece.replace("{", "").replace("}", "") for piece in pieces]


class PlainGroup(PlainHelp, TyperGroup):
    """A group of commands with such a help."""


def _show_nothing(ctx: Any) -> None:
    """Take the place of the method that shows the type of an argument."""
