"""Commands made from functions: options that belong together, help texts, errors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand
from typer.main import get_command

from metapac._masking import mask
from metapac.cli.errors import report_errors
from metapac.cli.help_text import PlainHelp

# How the help shows the value of an option, by its type.
_METAVARS = {int: "NUMBER", float: "NUMBER", Path: "FILE"}


class Command(PlainHelp, TyperCommand):
    """A command that reports errors and warnings in one line each."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command.

        Parameters
        ----------
        ctx : click.Context
            The context of the call.

        Returns
        -------
        object
            What the function of the command returns.
        """
        with report_errors(ctx):
            return super().invoke(ctx)


def build_command(source: Callable[..., None] | typer.Typer, name: str) -> Any:
    """Return the command that runs a function, or a group of commands.

    Parameters
    ----------
    source : callable or typer.Typer
        The function, whose docstring is the help text; or the group.
    name : str
        Name of the command.

    Returns
    -------
    click.Command
        The command.
    """
    if not isinstance(source, typer.Typer):
        single = typer.Typer(add_completion=False)
        add_command(single, source, name)
        source = single
    return get_command(source)


def add_command(group: typer.Typer, function: Callable[..., None], name: str) -> None:
    """Add a function to a group of commands.

    A parameter whose type is a dataclass becomes an option for each of its fields.

    Parameters
    ----------
    group : typer.Typer
        The group.
    function : callable
        The function, whose docstring is the help text.
    name : str
        Name of the command.
    """
    help_text = _reflow(inspect.getdoc(function) or "")
    group.command(name, cls=Command, help=help_text)(_expand_bundles(function))


def _reflow(docstring: str) -> str:
    """Join the lines of each paragraph, so that the terminal wraps them; keep indented ones."""
    paragraphs = docstring.split("\n\n")
    return "\n\n".join(
        text if text.startswith(" ") else " ".join(text.split()) for text in paragraphs
    )


def _expand_bundles(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function with an option for each field of the dataclasses that it takes."""
    parameters = _parameters(function)
    bundles: dict[str, Any] = {
        parameter.name: parameter.annotation
        for parameter in parameters
        if is_dataclass(parameter.annotation)
    }

    @functools.wraps(function)
    def call(**values: Any) -> None:
        for name, bundle in bundles.items():
            values[name] = bundle(
                **{field.name: values.pop(field.name) for field in fields(bundle)}
            )
        function(**values)

    options: list[inspect.Parameter] = []
    for parameter in parameters:
        bundle = bundles.get(parameter.name)
        options += [parameter] if bundle is None else _parameters(bundle)
    for option in options:
        _set_metavar(option.annotation)
        _set_parser(option.annotation)
    call.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    call.__annotations__ = {option.name: option.annotation for option in options}
    return call


def _set_metavar(annotation: Any) -> None:
    """Set the metavar of an option, ``Annotated[type, option]``, by its type if it has none."""
    if get_origin(annotation) is not Annotated:
        return
    kind, option = get_args(annotation)
    if option.metavar is None:
        kinds = (kind, *get_args(kind))  # int | None is a number too
        option.metavar = next((text for bare, text in _METAVARS.items() if bare in kinds), None)


def _set_parser(annotation: Any) -> None:
    """Let an option that is a path, ``Annotated[Path, option]``, refuse an address."""
    if get_origin(annotation) is Annotated:
        kind, option = get_args(annotation)
        if Path in (kind, *get_args(kind)):
            option.parser = _parse_path


def _parse_path(text: str | Path) -> Path:
    """Return a path; an address would lose a slash, and then its password is no longer hidden."""
    if isinstance(text, str) and "://" in text:  # a default is a path already
        raise typer.BadParameter(f"{mask(text)} must be a local file.")
    return Path(text)


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
