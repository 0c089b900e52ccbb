"""The terminal: one printer for results, errors and warnings as lines, progress, help in panels."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any, cast

import click
from rich import progress as rich_progress
from rich.console import Console, ConsoleOptions, RenderableType
from rich.panel import Panel
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from metapac import cli
from metapac._text import mask, scrub_line, visible
from metapac.errors import InfeasibleGuarantee, MetapacError

if TYPE_CHECKING:
    from metapac._common import Progress

# Lines that stand alone in a result, such as a verdict, and how they are shown.
_STYLES = {
    "HOLDS": "bold green",
    "VIOLATED": "bold red",
    "ALARM": "bold red",
    "CANNOT TELL YET": "bold yellow",
    "THIS SMALL CANNOT TELL": "bold yellow",
    "NO ALARM YET": "bold",
    "SCORES HAVE CHANGED": "bold yellow",
    "AMBER": "bold yellow",
}


_SENTENCE_END = re.compile(r"(?<=[^.][.?!]) (?=[A-Z'\"-])")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


class SafeConsole(Console):
    """A console that escapes control characters: names come from data that others wrote."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Return the segments of what is printed, their control characters made visible."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else _visible_lines(segment.text)
            yield segment._replace(text=text)

    def on_broken_pipe(self) -> None:
        """Go on without printing: the exit code still counts."""
        cli.discard_output()


stdout = SafeConsole(highlight=False)
stderr = SafeConsole(stderr=True, highlight=False)


def _visible_lines(text: str) -> str:
    return "\n".join(map(visible, text.split("\n")))


def show(
    result: Any,
    *,
    as_json: bool = False,
    text: str | None = None,
    wrote: Iterable[Any] = (),
    **more: Any,
) -> None:
    """Print a result: ``to_dict()`` as JSON, otherwise ``str()``, and the files written."""
    if as_json:
        values = result.to_dict() if hasattr(result, "to_dict") else result
        print_json(values | more if more else values)
        return
    print_text(str(result) if text is None else text)
    for path in wrote:
        if path is not None:
            print_line(f"Wrote {mask(str(path))}")


def print_json(value: Any) -> None:
    """Print a value as JSON in one line."""
    try:
        print(json.dumps(value), flush=True)
    except BrokenPipeError:
        cli.discard_output()


def print_line(text: str) -> None:
    """Print text in one line, however long."""
    stdout.print(Text(visible(text)), soft_wrap=True)


def print_text(text: str, console: Console = stdout) -> None:
    """Print paragraphs, wrapped at the width of the terminal; rows of tables are not."""
    for line in text.split("\n"):
        if "  " in line.strip():  # a row of a table
            console.print(Text(line), soft_wrap=True)
        elif line.startswith("- "):
            grid = Table.grid(padding=(0, 1, 0, 0))
            grid.add_row("-", Text(line[2:]))
            console.print(grid)
        else:
            heading = re.sub(".* (?=THIS SMALL CANNOT TELL$)", "", line)  # before it, "TASKS"
            console.print(Text(line, style=_STYLES.get(heading, "")))


def open_data_output() -> IO[str]:
    """Return where data such as CSV are printed; on a terminal, with escapes."""
    return cast("IO[str]", _VisibleStream()) if sys.stdout.isatty() else sys.stdout


class _VisibleStream:
    """Standard output on a terminal, with control characters made visible."""

    def write(self, text: str) -> int:
        return sys.stdout.write(_visible_lines(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stdout, name)


def print_error(message: str, hint: str = "") -> None:
    """Print an error on standard error: its first sentence, then each way out as a hint."""
    if not hint:
        message, hint = _split_hint(scrub_line(message))
    _print_labelled("error", "bold red", message)
    ways_out = hint.removeprefix("Options: ").split("; or ") if "Options: " in hint else [hint]
    for way_out in filter(None, ways_out):
        _print_labelled("hint", "bold cyan", way_out)


def _split_hint(message: str) -> tuple[str, str]:
    """Return the first sentence and the rest; names from data may look like ends of sentences."""
    plain = _QUOTED.sub(lambda match: "x" * len(match[0]), message)
    for end in _SENTENCE_END.finditer(plain):
        if plain[: end.start()].count(" ") > 2:  # not the first words of a name such as "Dr. No"
            return message[: end.start()], message[end.end() :]
    return message, ""


def print_warning(text: str) -> None:
    """Print a warning on standard error."""
    _print_labelled("warning", "bold yellow", scrub_line(text))


def _print_labelled(label: str, style: str, text: str) -> None:
    line = Text.assemble((f"{label}:", style), " ", visible(text))
    stderr.print(line, soft_wrap=not stderr.is_terminal)


@contextmanager
def report_errors(context: click.Context) -> Iterator[None]:
    """Print an error and exit with its code; print warnings as lines too."""
    translate = make_translator(context)

    def print_any(message: Warning | str, *_where: Any, **_more: Any) -> None:
        if not isinstance(message, DeprecationWarning):  # for the authors of a library
            print_warning(translate(str(message)))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = print_any
            yield
    except BrokenPipeError:
        cli.discard_output()
    except (MetapacError, MemoryError, OSError, ValueError, ModuleNotFoundError) as error:
        if cli.received:  # an interrupt, which the engine made an error of
            raise
        raise click.exceptions.Exit(_report(error, translate)) from error


def _report(error: Exception, translate: Callable[..., str]) -> int:
    """Print an error, and return the exit code."""
    if isinstance(error, MetapacError):
        print_error(translate(str(error), error.parameters))
        return cli.INFEASIBLE if isinstance(error, InfeasibleGuarantee) else cli.BAD_INPUT
    if isinstance(error, MemoryError):
        print_error(f"not enough memory. Use a machine with more, or fewer data at a time. {error}")
    elif isinstance(error, OSError) and error.strerror:
        place = "standard output" if error.filename is None else mask(str(error.filename))
        _print_labelled("error", "bold red", f"{place}: {error.strerror}")
    else:
        print_error(str(error))
    return cli.BAD_INPUT


# An argument with its value, such as alpha=0.2 or allow=('overlap',), in a message.
_KEYWORD = re.compile(
    r"(?<![\w.])(?P<name>[a-z_]+)="
    r"(?P<value>None|True|False|-?[\d.]+(?:e[-+]?\d+)?\b|'[^']*'|\"[^\"]*\"|\([^()]*\)|\[[^\[\]]*\]|\{[^{}]*\})"
)


def make_translator(context: click.Context) -> Callable[..., str]:
    """Return the function that writes arguments in a message as they are typed in this command.

    Arguments of the guarantee always become options, since other commands have them. Others stay
    as in Python if this command does not have them.
    """
    flags: dict[str, str] = {}
    for name in ("epsilon", "alpha", "delta", "per_class", "min_examples", "split"):
        flags[name] = f"--{name.replace('_', '-')}"
    for param in context.command.params:
        name = str(param.name)
        flags[name] = name.upper() if isinstance(param, click.Argument) else _flag(param)

    def show_keyword(match: re.Match[str]) -> str:
        flag = flags.get(match["name"])
        try:
            return match[0] if flag is None else _type_option(flag, literal_eval(match["value"]))
        except (ValueError, SyntaxError):
            return match[0]

    def translate(text: str, parameters: Iterable[str] = ()) -> str:
        # No word of prose has an underscore, so that such names are always arguments.
        for name in dict.fromkeys([*parameters, *(name for name in flags if "_" in name)]):
            pattern = rf"(?<![\w'\"/.-]){re.escape(name)}\b(?!=)"
            text = re.sub(pattern, flags.get(name, name), text, count=1)
        return _KEYWORD.sub(show_keyword, text)

    return translate


def _flag(param: click.Parameter) -> str:
    return max(param.opts, key=len)


def _type_option(flag: str, value: Any) -> str:
    """Return an option as it is typed, such as ``--delta none``."""
    if (flag, value) == ("--per-class", "together"):
        return "--together"
    if isinstance(value, bool):
        return flag if value else f"no {flag}"
    if isinstance(value, Mapping):
        return " ".join(f"{flag} {shlex.quote(f'{name}={x}')}" for name, x in value.items())
    if isinstance(value, list | tuple):
        return f"{flag} {shlex.quote(','.join(map(str, value)))}"
    return f"{flag} {'none' if value is None else shlex.quote(str(value))}"


@contextmanager
def progress_bar(
    counter: rich_progress.ProgressColumn | None = None, *, visible: bool = True, lines: bool = True
) -> Iterator[Progress]:
    """Show a progress bar on standard error, and yield the callback that moves it.

    The bar starts again at each stage. What follows a comma is not part of the stage: "training,
    loss 0.31" continues "training, loss 0.35". If standard error is no terminal, each stage is a
    line, again after half a minute; ``lines`` is for commands that take minutes.
    """
    bar = rich_progress.Progress(
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        rich_progress.BarColumn(),
        counter or rich_progress.MofNCompleteColumn(),
        rich_progress.TimeElapsedColumn(),
        rich_progress.TimeRemainingColumn(),
        console=stderr,
        transient=True,
        redirect_stdout=False,  # data may go there
        disable=not (visible and stderr.is_terminal),
    )
    # Before rich 14.3, a disabled bar prints an empty line when it stops.
    with nullcontext() if bar.disable else bar:
        row = bar.add_task("starting", total=None)
        current, printed, is_plain = "", 0.0, bool(bar.disable and visible and lines)

        def advance(stage: str, done: int, total: int | None) -> None:
            nonlocal current, printed
            name = stage.partition(",")[0]
            if is_plain and (name != current or time.monotonic() > printed + 30):
                count = f" ({done} of {total})" if done and total else ""
                _print_labelled("progress", "", f"{stage}{count}")
                printed = time.monotonic()
            if name != current:
                current = name
                bar.reset(row)
            bar.update(row, description=_visible_lines(stage), completed=done, total=total)

        yield advance


def print_help(context: click.Context, *, everything: bool) -> None:
    """Print usage, description, and panels of arguments, options and commands."""
    command: Any = context.command
    pieces = " ".join(map(_describe_usage, command.params))
    pieces += " COMMAND [ARGS]..." if hasattr(command, "panels") else ""
    usage = " ".join(f"{context.command_path} [OPTIONS] {pieces}".split())
    stdout.print(Text(f"Usage: {usage}"), soft_wrap=True)
    stdout.print()
    for paragraph in (command.help or "").split("\n\n"):
        indented = paragraph.startswith(" ")
        print_text(paragraph if indented else " ".join(paragraph.split()))
        stdout.print()
    folded = {param.panel for param in command.params if param.is_folded}
    panels: dict[str, list[tuple[Text, str]]] = {}
    for param in command.params:
        panels.setdefault(param.panel, []).append(_describe_parameter(param))
    for title, entries in getattr(command, "panels", {}).items():
        panels[title] = [(Text(name, "bold cyan"), text) for name, (_, text) in entries.items()]
    for title, rows in panels.items():
        if title in folded and not everything:
            names = ", ".join(left.plain.split()[0] for left, _ in rows)
            stdout.print(Text(f"{title} (see --help-all): {names}", style="dim"))
            continue
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(max_width=30)
        for left, text in rows:
            grid.add_row(left, Text(text))
        stdout.print(Panel(grid, title=title, title_align="left", border_style="dim"))


def _describe_usage(param: click.Parameter) -> str:
    """Return how an argument is typed, in the notation of manual pages; nothing for options."""
    if not isinstance(param, click.Argument):
        return ""
    text = (param.metavar or str(param.name).upper()) + ("..." if param.nargs == -1 else "")
    return text if param.required else f"[{text}]"


def _describe_parameter(param: Any) -> tuple[Text, str]:
    """Return how a parameter is typed, and its help."""
    if isinstance(param, click.Argument):
        return Text(param.metavar or str(param.name).upper(), "bold cyan"), str(param.help)
    flags = ", ".join(sorted(param.opts, key=len))
    text = str(param.help)
    text += " [required]" if param.required else ""
    text += f" [default: {param.default}]" if param.show_default and not param.multiple else ""
    text += " May be repeated." if param.multiple else ""
    return Text.assemble((flags, "bold cyan"), f" {param.metavar or ''}".rstrip()), text
