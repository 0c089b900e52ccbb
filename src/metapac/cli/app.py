"""Functions as commands: options from signatures and docstrings, help in panels.

The function of a command takes what users type. Parameters before the star are arguments, the
others are options; the fields of a dataclass are options too. Their help is in the ``Parameters``
section of the docstring, of the function or of the dataclass.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import is_dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click

from metapac._version import __version__

# The commands in their panels, in the order in which people need them. A summary is the first line
# of the docstring, so that this list is printed without importing any command. The few-shot wing is
# looked up by name, as the core never imports it.
PANELS: dict[str, dict[str, tuple[str, str]]] = {
    "Use": {
        "plan": ("metapac.cli.planning", "Show what your table buys, or a guarantee needs."),
        "explore": ("metapac.cli.planning", "Try levels on pilot tasks, before calibration."),
        "draw": ("metapac.cli.planning", "Draw the tasks of a list to calibrate on."),
        "calibrate": ("metapac.cli.calibration", "Compute the threshold, with its guarantee."),
        "predict": ("metapac.cli.use", "Add a prediction set to each row of a table."),
        "evaluate": ("metapac.cli.use", "Judge the guarantee on labelled new tasks."),
        "monitor": ("metapac.cli.use", "Watch the guarantee while new tasks arrive."),
        "show": ("metapac.cli.calibration", "Explain a promise file in plain words."),
        "report": ("metapac.cli.use", "Write a report to sign, as one HTML file."),
    },
    "Federated": {
        "site": ("metapac.cli.sites", "Write the numbers that a site sends."),
        "combine": ("metapac.cli.sites", "Combine the files of all sites."),
    },
    "Few-shot": {
        "train": ("metapac.fewshot.cli", "Train a few-shot learner."),
        "score": ("metapac.fewshot.cli", "Score tasks, to calibrate on them."),
    },
    "Research": {
        "data": ("metapac.fewshot.cli", "Fetch and prepare the paper's data sets."),
        "study": ("metapac.fewshot.cli", "Compare methods on your own data."),
        "reproduce": ("metapac.fewshot.cli", "Run an experiment of the paper."),
    },
    "Other": {
        "demo": ("metapac.fewshot.cli", "Show what a guarantee says and what not."),
        "doctor": ("metapac.cli.doctor", "Print versions, engines, GPU and cache."),
    },
}


_NOTHING: tuple[Any, ...] = (None, "", 0, (), [])  # defaults that the help does not show
_FOLDED = ("Reading the table",)  # panels that only --help-all shows


class _Panelled:
    """Mix-in for click: help in panels, and options that only ``--help-all`` shows."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print usage, description and panels."""
        from metapac.cli.console import print_help

        print_help(ctx, everything=bool(ctx.meta.get("help_all")))


class Option(click.Option):
    """An option, and the panel of the help that shows it, perhaps with --help-all only."""

    panel: str = "Options"
    is_folded: bool = False


class Argument(click.Argument):
    """An argument with help, which click's own lacks."""

    panel: str = "Arguments"
    help: str = ""
    is_folded: bool = False


class Command(_Panelled, click.Command):
    """A command that reports errors and warnings as lines."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        from metapac.cli.console import report_errors

        with report_errors(ctx):
            return super().invoke(ctx)


@contextmanager
def _report_usage_errors() -> Iterator[None]:
    """Print an error in what was typed, and exit with code 2."""
    try:
        yield
    except click.UsageError as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help of a group, already printed
            raise click.exceptions.Exit(2) from error
        from metapac.cli.console import print_error

        path = error.ctx.command_path if error.ctx else "metapac"
        message = re.sub(r"\((.*\?)\)\.?$", r"\1", " ".join(error.format_message().split()))
        end = "" if message.endswith((".", "?", "!")) else "."
        print_error(f"{message}{end}", f"Try '{path} --help'.")
        raise click.exceptions.Exit(2) from error


class Group(_Panelled, click.Group):
    """Commands that are imported when they are run."""

    def __init__(self, panels: Mapping[str, Mapping[str, tuple[str, str]]], **settings: Any):
        super().__init__(**settings, add_help_option=False)
        self.params += _help_options(has_more=False)
        self.panels = panels
        self.entries = {name: entry for panel in panels.values() for name, entry in panel.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return [*self.entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if there is none of that name."""
        if cmd_name not in self.entries:
            if ctx is not None and (close := get_close_matches(cmd_name, self.entries)):
                ctx.fail(f"No such command {cmd_name!r}. Did you mean {close[0]!r}?")
            return None
        module = import_module(self.entries[cmd_name][0])
        found = getattr(module, cmd_name, None) or getattr(module, f"{cmd_name}_")  # list_
        return found if isinstance(found, click.Command) else build_command(found, cmd_name)

    def make_context(self, *words: Any, **settings: Any) -> click.Context:
        """Parse the options of the group."""
        with _report_usage_errors():
            return super().make_context(*words, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Parse the rest, and run the command."""
        with _report_usage_errors():
            return super().invoke(ctx)


def _print_help(everything: bool) -> Callable[..., None]:
    def callback(ctx: click.Context, _option: click.Parameter, is_asked: bool) -> None:
        if is_asked and not ctx.resilient_parsing:
            ctx.meta["help_all"] = everything
            ctx.command.format_help(ctx, ctx.make_formatter())
            ctx.exit()

    return callback


def _help_options(*, has_more: bool) -> list[Option]:
    shared: Any = {"is_flag": True, "is_eager": True, "expose_value": False}
    options = [Option(["--help"], help="Show this help.", callback=_print_help(False), **shared)]
    if has_more:
        text = "Show the help of all options."
        options.append(Option(["--help-all"], help=text, callback=_print_help(True), **shared))
    return options


def build_command(function: Callable[..., Any], name: str) -> click.Command:
    """Return the command that runs a function."""
    from metapac.cli.options import Entry, read_docstring

    text, entries = read_docstring(function)
    bundles: dict[str, tuple[Any, list[str]]] = {}
    params: list[Option | Argument] = []
    converters: dict[str, Callable[[Any], Any]] = {}
    for parameter in inspect.signature(function, eval_str=True).parameters.values():
        kind, only = parameter.annotation, ""
        if get_origin(kind) is Annotated:  # Annotated[Columns, "task label"] has these fields only
            kind, only = get_args(kind)
        if is_dataclass(kind):
            built = [*_build_fields(kind, only.split())]
            bundles[parameter.name] = kind, [str(option.name) for option, _ in built]
        else:
            built = [_build_parameter(parameter, entries.get(parameter.name, Entry("", "")))]
        params += [param for param, _ in built]
        converters |= {str(param.name): converter for param, converter in built}

    def call(**values: Any) -> Any:
        values = {key: converters[key](value) for key, value in values.items()}
        for bundle, (kind, names) in bundles.items():
            values[bundle] = kind(**{field: values.pop(field) for field in names})
        return function(**values)

    flags = {str(param.name): param.opts[0] for param in params}
    for param in params:  # names of other options are as they are typed
        parts = (param.help or "").split("``")
        param.help = "".join(flags.get(part, part) for part in parts)
    params += _help_options(has_more=any(param.is_folded for param in params))
    return Command(name, params=[*params], callback=call, help=text, add_help_option=False)


Built = tuple[Option | Argument, Callable[[Any], Any]]  # and what turns its text into a value


def _build_fields(kind: Any, only: list[str]) -> Iterator[Built]:
    """Yield an option for each field of a dataclass, or for some of them."""
    from metapac.cli.options import OMITTED, PANEL_OF, Entry, read_docstring

    entries: dict[str, Entry] = {}
    for base in reversed(kind.__mro__[:-1]):
        entries |= read_docstring(base)[1]
    title = read_docstring(kind)[0].partition(".")[0]
    names = [base.__name__ for base in kind.__mro__]
    panel = next((PANEL_OF[name] for name in names if name in PANEL_OF), title)
    hints = get_type_hints(kind, include_extras=True)
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.name not in (only or entries) or parameter.name in OMITTED:
            continue
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameter = parameter.replace(kind=keyword, annotation=hints[parameter.name])
        metavar, text = entries[parameter.name]
        is_type = not (metavar.isupper() or "|" in metavar)  # such as "str, optional"
        option, converter = _build_parameter(parameter, Entry("" if is_type else metavar, text))
        option.panel, option.is_folded = panel, panel in _FOLDED
        yield option, converter


def _build_parameter(parameter: inspect.Parameter, entry: Any) -> Built:
    """Return the argument or option that fills a parameter of a function."""
    from metapac.cli.options import FIELDS, Field, convert

    name, annotation, default = parameter.name, parameter.annotation, parameter.default
    spec = FIELDS.get(name, Field("TEXT"))
    if get_origin(annotation) is Annotated:  # an option typed unlike that of other commands
        annotation, spec = get_args(annotation)
    kind = str(annotation)
    is_list = "list[" in kind
    is_many = is_list or spec.multiple
    text, is_required = entry.help or spec.help, default is inspect.Parameter.empty
    settings: dict[str, Any] = {"metavar": entry.metavar or spec.metavar, "required": is_required}
    if not (is_required or is_many):
        settings["default"] = default
    built: Option | Argument
    if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
        built = Argument([name], nargs=-1 if is_list else 1, **settings)
        built.help = text
    else:
        flag = f"--{name.rstrip('_').replace('_', '-')}"
        if "bool" in kind:
            settings |= {"is_flag": True, "metavar": None}
            flag += f"/--no-{flag[2:]}" if "None" in kind else ""
        else:
            settings |= {"type": str, "show_default": not (is_required or default in _NOTHING)}
        flags = [flag, *(["-o"] if name == "output" else []), name]
        built = Option(flags, help=text, multiple=is_many, **settings)

    def convert_value(value: Any) -> Any:
        if value is None or value == ():
            return default
        if spec.parse is not None:
            return spec.parse(value)
        return [convert(name, kind, x) for x in value] if is_many else convert(name, kind, value)

    return built, convert_value


def _start(version: bool) -> None:
    r"""Prediction sets that hold up at new sites, not only on average.

    Five things to do:

    1. How many tasks and labelled examples does it take?
       metapac plan --epsilon .1 --alpha .1 --delta .05
    2. Find the threshold, from labelled scores of many tasks:
       metapac calibrate scores.csv --task site --label y \
           --epsilon .1 --alpha .1 --delta .05 -o promise.json
    3. Predict sets for new rows:
       metapac predict promise.json new.csv -o sets.csv
    4. Check the guarantee on other labelled tasks:
       metapac evaluate promise.json labelled.csv
    5. Explain it to people who are not statisticians:
       metapac show promise.json

    All commands: metapac --help. An example: metapac demo --data sites.
    """
    context = click.get_current_context()
    if version or context.invoked_subcommand is None:  # without a command, where to start
        with suppress(BrokenPipeError):  # click would exit with code 1
            print(__version__ if version else inspect.getdoc(_start), flush=True)
        context.exit()


_ABOUT = "Prediction sets that hold up at new sites, not only on average."
_VERSION = Option(["--version"], is_flag=True, help="Print the version.")
_STARTING: Any = {"callback": _start, "invoke_without_command": True, "params": [_VERSION]}
app = Group(PANELS, name="metapac", help=_ABOUT, **_STARTING)
