"""Errors and warnings as the command line shows them: a line each, with options for parameters."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import typer

from metapac._masking import mask
from metapac.cli import console, exits
from metapac.cli.bundles import GuaranteeOptions
from metapac.cli.exits import ExitCode
from metapac.exceptions import InfeasibleGuarantee, MetapacError, Parameter
from metapac.meaning.findings import CheckWarning

OK, INFEASIBLE, BAD_INPUT = ExitCode.OK, ExitCode.INFEASIBLE, ExitCode.BAD_INPUT
VIOLATED, BUG = ExitCode.VIOLATED, ExitCode.BUG

_RESUMABLE = ("fetch", "train", "reproduce")
_GUARANTEE = {field.name for field in fields(GuaranteeOptions)}


@contextmanager
def report_errors(context: typer.Context) -> Iterator[None]:
    """Print an error in one line and exit with its code; print warnings in one line too.

    Parameters
    ----------
    context : typer.Context
        Context of the command that runs.

    Yields
    ------
    None
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _make_warning_printer(make_renderer(context))
            yield
    except (typer.Exit, typer.Abort):
        raise
    except BaseException as error:
        special = isinstance(error, BrokenPipeError | MemoryError) or exits.is_full(error)
        if special or exits.has_signal():
            resumable = context.command.name in _RESUMABLE
            hint = "Run the same command again to resume." if resumable else ""
            raise typer.Exit(exits.end(error, hint)) from error
        message = _describe(error, make_renderer(context))
        if message is None:  # a bug: see exits
            raise
        console.print_error(message)
        code = INFEASIBLE if isinstance(error, InfeasibleGuarantee) else BAD_INPUT
        raise typer.Exit(code) from error


def _describe(error: BaseException, show: Callable[[Parameter], str]) -> str | None:
    """Return the message of an error that has a cause outside metapac; None for others."""
    if isinstance(error, MetapacError):
        return error.render(show)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{mask(str(error.filename))}: {error.strerror}"
    if isinstance(error, UnicodeEncodeError):
        return (
            f"the terminal's encoding, {error.encoding}, lacks a character of the output. Set "
            "PYTHONUTF8=1, or write to a file."
        )
    return str(error) if isinstance(error, OSError | ValueError | ModuleNotFoundError) else None


def make_renderer(context: typer.Context) -> Callable[[Parameter], str]:
    """Return the function that writes a parameter as it is typed in this command.

    Parameters of the guarantee are always written as options, since other commands have them.
    Other parameters are written as in Python if this command does not have them.

    Parameters
    ----------
    context : typer.Context
        Context of the command.

    Returns
    -------
    callable
        Takes a `Parameter` and returns text, to be passed to ``render``.
    """
    declared: dict[str | None, Any] = {option.name: option for option in context.command.params}

    def show(parameter: Parameter) -> str:
        option = declared.get(parameter.name)
        if option is None and parameter.name not in _GUARANTEE:
            return str(parameter)
        if option is not None and option.param_type_name == "argument":
            return parameter.name.upper()
        flags = [f"--{parameter.name.replace('_', '-')}"] if option is None else option.opts
        return _option_text(max(flags, key=len), parameter)

    return show


def _option_text(flag: str, parameter: Parameter) -> str:
    """Return an option as it is typed, such as ``--delta none``."""
    if not parameter.has_value or parameter.value is True:
        return flag
    value = parameter.value
    if isinstance(value, Mapping):
        return " ".join(f"{flag} {shlex.quote(f'{name}={x}')}" for name, x in value.items())
    if value is False:
        return f"no {flag}"
    if isinstance(value, list | tuple):
        return f"{flag} {shlex.quote(','.join(map(str, value)))}"
    return f"{flag} {'none' if value is None else shlex.quote(str(value))}"


def _make_warning_printer(show: Callable[[Parameter], str]) -> Callable[..., None]:
    """Return the function that prints a warning, with options for parameters."""

    def print_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
        if isinstance(message, DeprecationWarning):
            return  # for the authors of a library: Matplotlib gets such from Pyparsing
        text = message.message.render(show) if isinstance(message, CheckWarning) else str(message)
        console.print_error(f"warning: {text}")

    return print_warning
