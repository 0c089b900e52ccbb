"""From a function to a command: bundles of options, and errors on one line."""

from __future__ import annotations

import functools
import inspect
import re
import shlex
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer
from typer.core import TyperCommand
from typer.main import get_command

from metapac._text import mask
from metapac.cli import console, exits
from metapac.cli.exits import ExitCode
from metapac.cli.help import PlainHelp
from metapac.cli.options import GuaranteeOptions
from metapac.data_checks import CheckWarning
from metapac.errors import InfeasibleGuarantee, MetapacError

OK, INFEASIBLE, BAD_INPUT = ExitCode.OK, ExitCode.INFEASIBLE, ExitCode.BAD_INPUT
VIOLATED, BUG = ExitCode.VIOLATED, ExitCode.BUG

Translator = Callable[..., str]
# An argument with its value, such as alpha=0.2 or allow=('overlap',), in a message.
_KEYWORD = re.compile(
    r"(?<![\w.])(?P<name>[a-z_]+)="
    r"(?P<value>None|True|False|-?[\d.]+(?:e[-+]?\d+)?\b|'[^']*'|\"[^\"]*\"|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\})"
)
_RESUMABLE = ("fetch", "train", "reproduce")
_GUARANTEE = {field.name for field in fields(GuaranteeOptions)}


@contextmanager
def report_errors(context: typer.Context) -> Iterator[None]:
    """Print an error in one line and exit with its code; print warnings in one line too."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _make_warning_printer(make_translator(context))
            yield
    except (typer.Exit, typer.Abort):
        raise
    except BaseException as error:
        special = isinstance(error, BrokenPipeError | MemoryError) or exits.is_full(error)
        if special or exits.has_signal():
            resumable = context.command.name in _RESUMABLE
            hint = "Run the same command again to resume." if resumable else ""
            raise typer.Exit(exits.end(error, hint)) from error
        message = _describe(error, make_translator(context))
        if message is None:  # a bug: see exits
            raise
        console.print_error(message)
        code = INFEASIBLE if isinstance(error, InfeasibleGuarantee) else BAD_INPUT
        raise typer.Exit(code) from error


def _describe(error: BaseException, as_options: Translator) -> str | None:
    """Return the message of an error that has a cause outside metapac; None for others."""
    if isinstance(error, MetapacError):
        return as_options(str(error), error.parameters)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{mask(str(error.filename))}: {error.strerror}"
    if isinstance(error, UnicodeEncodeError):
        return (
            f"the terminal's encoding, {error.encoding}, lacks a character of the output. Set "
            "PYTHONUTF8=1, or write to a file."
        )
    return str(error) if isinstance(error, OSError | ValueError | ModuleNotFoundError) else None


def make_translator(context: typer.Context) -> Translator:
    """Return the function that writes arguments in a message as they are typed in this command.

    Arguments of the guarantee always become options, since other commands have them. Others stay
    as in Python if this command does not have them.
    """
    declared: dict[str | None, Any] = {option.name: option for option in context.command.params}

    def find_flag(name: str) -> str | None:
        option = declared.get(name)
        if option is None:
            return f"--{name.replace('_', '-')}" if name in _GUARANTEE else None
        is_argument = option.param_type_name == "argument"
        return name.upper() if is_argument else max(option.opts, key=len)

    def show_keyword(match: re.Match[str]) -> str:
        flag = find_flag(match["name"])
        try:
            return match[0] if flag is None else _option_text(flag, literal_eval(match["value"]))
        except (ValueError, SyntaxError):
            return match[0]

    def translate(text: str, parameters: Sequence[str] = ()) -> str:
        # No word of prose has an underscore, so that such names are always arguments.
        compound = [name for name in [*declared, *_GUARANTEE] if name and "_" in name]
        for name in dict.fromkeys([*parameters, *compound]):
            flag = find_flag(name) or name
            text = re.sub(rf"(?<![\w'\"/.-]){re.escape(name)}\b(?!=)", flag, text, count=1)
        return _KEYWORD.sub(show_keyword, text)

    return translate


def _option_text(flag: str, value: Any) -> str:
    """Return an option as it is typed, such as ``--delta none``."""
    if value is True:
        return flag
    if isinstance(value, Mapping):
        return " ".join(f"{flag} {shlex.quote(f'{name}={x}')}" for name, x in value.items())
    if value is False:
        return f"no {flag}"
    if isinstance(value, list | tuple):
        return f"{flag} {shlex.quote(','.join(map(str, value)))}"
    return f"{flag} {'none' if value is None else shlex.quote(str(value))}"


def _make_warning_printer(as_options: Translator) -> Callable[..., None]:
    """Return the function that prints a warning, with options for arguments."""

    def print_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
        if isinstance(message, DeprecationWarning):
            return  # for the authors of a library: Matplotlib gets such from Pyparsing
        text = str(message)
        console.print_error(
            f"warning: {as_options(text) if isinstance(message, CheckWarning) else text}"
        )

    return print_warning


# How the help shows the value of an option, by its type.
_METAVARS = {int: "NUMBER", float: "NUMBER", Path: "FILE"}


class Command(PlainHelp, TyperCommand):
    """A command that reports errors and warnings in one line each."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with report_errors(ctx):
            return super().invoke(ctx)


def build_command(source: Callable[..., None] | typer.Typer, name: str) -> Any:
    """Return the command that runs a function, or a group of commands."""
    if not isinstance(source, typer.Typer):
        single = typer.Typer(add_completion=False)
        add_command(single, source, name)
        source = single
    return get_command(source)


def add_command(group: typer.Typer, function: Callable[..., None], name: str) -> None:
    """Add a function to a group of commands.

    A parameter whose type is a dataclass becomes an option for each of its fields.
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
