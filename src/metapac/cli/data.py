"""``metapac data``: the paper's data sets, from published files to memory-mapped arrays."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from metapac.cli.common import AsJson, console, errors, told
from metapac.datasets import cache
from metapac.datasets.catalogue import CATALOGUE, DataSet, data_set
from metapac.persistence import BadArtefact

data = typer.Typer(
    name="data",
    help="The data sets of the paper: fetch, prepare, check.",
    no_args_is_help=True,
)

Name = Annotated[str, typer.Argument(help=f"{', '.join(CATALOGUE)}.")]
Source = Annotated[
    Path | None,
    typer.Option("--from", help="Folder with the publisher's files; by default what was fetched."),
]
Home = Annotated[
    Path | None,
    typer.Option(help="Where data are kept; by default $METAPAC_DATA or the user's cache."),
]


@data.command("list")
@told
def list_(home: Home = None, as_json: AsJson = False) -> None:
    """Show the data sets, their terms, and what of them is here."""
    rows = [
        {
            "name": entry.name,
            "title": entry.title,
            "licence": entry.licence,
            "state": _state(entry, home),
        }
        for entry in CATALOGUE.values()
    ]
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table("name", "what it is", "terms", "here")
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    console.print(f"Data are kept in {cache.data_home(home)}", markup=False, soft_wrap=True)


@data.command()
@told
def fetch(name: Name, home: Home = None) -> None:
    """Download a data set from its publisher, or be told what to download by hand.

    Interrupted, it goes on where it was; files are verified where the publisher's never change.
    """
    entry = data_set(name)
    try:
        with _bar(DownloadColumn()) as bar:
            folder = entry.fetch(home=home, progress=bar)
    finally:
        if entry.by_hand:
            console.print(entry.told(home), markup=False, soft_wrap=True)
    lacking = entry.reader.missing(folder)
    if lacking and not entry.by_hand:
        raise ValueError(" ".join(lacking))
    if not lacking:
        console.print(f"Files in {folder}", markup=False, soft_wrap=True)
    console.print(f"Then run: metapac data prepare {name}", markup=False, soft_wrap=True)


@data.command()
@told
def prepare(
    name: Name,
    source: Source = None,
    home: Home = None,
    glove: Annotated[
        Path | None, typer.Option(help="fewrel: the file of word vectors, if not the one found.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="heart: the table's label column.")] = None,
    state: Annotated[str | None, typer.Option(help="heart: its column of states.")] = None,
    year: Annotated[str | None, typer.Option(help="heart: its column of years.")] = None,
    leave_out: Annotated[
        list[str] | None,
        typer.Option(help="heart: a feature to drop, such as _MICHD, made from the label."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn the publisher's files into one cache that opens at once.

    Done before, it is done again only if the files have changed.
    """
    entry = data_set(name)
    folder = source or entry.source(home)
    given = {"glove": glove, "label": label, "state": state, "year": year, "leave_out": leave_out}
    options = {option: value for option, value in given.items() if value}
    _refuse_foreign(name, options)
    with _bar(MofNCompleteColumn()) as bar:
        made = entry.reader.prepare(
            folder, home=home, progress=lambda done, total: bar(name, done, total), **options
        )
    _report(entry, made, as_json)


@data.command()
@told
def check(name: Name, source: Source = None, home: Home = None, as_json: AsJson = False) -> None:
    """Report classes, counts and splits, and what is missing or damaged."""
    entry = data_set(name)
    made = _prepared(entry, home) if source is None else None
    if made is not None:
        made.verify()
        _report(entry, made, as_json)
        return
    folder = source or entry.source(home)
    lacking = entry.reader.missing(folder)
    if as_json:
        typer.echo(json.dumps({"name": name, "folder": str(folder), "missing": lacking}))
    if lacking:
        raise ValueError(" ".join(lacking))
    if not as_json:
        words = f"{folder} has the files of {name}. To read them: metapac data prepare {name}"
        tail = "" if source is None else f" --from {source}"
        console.print(words + tail, markup=False, soft_wrap=True)


_OPTIONS = {"fewrel": ("glove",), "heart": ("label", "state", "year", "leave_out")}


def _refuse_foreign(name: str, options: dict[str, Any]) -> None:
    for option in options:
        if option not in _OPTIONS.get(name, ()):
            flag = option.replace("_", "-")
            raise ValueError(f"--{flag} is not for {name}. Leave it out.")


def _state(entry: DataSet, home: Path | None) -> str:
    try:
        if _prepared(entry, home) is not None:
            return "prepared"
    except BadArtefact:
        return "damaged"
    return "fetched" if entry.source(home).is_dir() else "absent"


def _prepared(entry: DataSet, home: Path | None) -> cache.Prepared | None:
    try:
        return cache.opened(entry.name, home)
    except FileNotFoundError:
        return None


def _report(entry: DataSet, made: cache.Prepared, as_json: bool) -> None:
    facts = made.facts
    if as_json:
        found = {"name": entry.name, "folder": str(made.folder), "checksum": made.checksum}
        typer.echo(json.dumps({**found, "missing": [], **facts}))
        return
    splits = facts["splits"]
    columns = list(dict.fromkeys(key for row in splits.values() for key in row))
    table = Table("split", *columns)
    for column in table.columns[1:]:
        column.justify = "right"
    for split, row in splits.items():
        table.add_row(split, *(_number(row.get(column)) for column in columns))
    console.print(entry.title, markup=False, soft_wrap=True)
    console.print(table)
    size = sum(array.nbytes for array in made.values()) / 2**20
    notes = [*facts["notes"], f"{size:,.0f} MiB in {made.folder}"]
    console.print("\n".join(notes), markup=False, soft_wrap=True)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.1%}"


@contextmanager
def _bar(counter: ProgressColumn) -> Iterator[Callable[[str, int, int | None], None]]:
    """Lend a callback (what, done, of how many) that moves a bar for each thing."""
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        counter,
        TimeRemainingColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )
    rows: dict[str, Any] = {}
    with bar:

        def advance(what: str, done: int, total: int | None) -> None:
            if what not in rows:
                rows[what] = bar.add_task(what, total=total)
            bar.update(rows[what], completed=done, total=total)

        yield advance
