"""Errors and warnings as the command line shows them: one line each, with options for parameters.

Exit codes: 0 for success, 1 if there are too few data for the guarantee, 2 for any other bad input.
"""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import typer

from metapac.cli import console
from metapac.cli.options import GuaranteeOptions
from metapac.exceptions import InfeasibleGuarantee, MetapacError, Parameter

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
    show = make_renderer(context)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _print_warning
            yield
    except MetapacError as error:
        console.print_error(error.render(show))
        raise typer.Exit(1 if isinstance(error, InfeasibleGuarantee) else 2) from error
    except BrokenPipeError:  # the reader, such as head, has closed the pipe
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115
    except OSError as error:
        console.print_error(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        raise typer.Exit(2) from error
    except (ValueError, ModuleNotFoundError) as error:
        console.print_error(str(error))
        raise typer.Exit(2) from error


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


def _print_warning(message: Warning | str, *_where: Any, **_more: Any) -> None:
    console.print_error(f"warning: {message}")
