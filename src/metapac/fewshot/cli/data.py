"""``metapac data``: list, fetch and prepare data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import DownloadColumn
from rich.table import Table

from metapac._common import data_home
from metapac.cli.commands import add_command
from metapac.cli.console import make_table, print_json, print_line, progress_bar, stdout
from metapac.cli.help import PlainGroup
from metapac.cli.options import AsJson, Home
from metapac.errors import BadArtefact, InvalidInput
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets.catalogue import CATALOGUE, DataSet, get_data_set

# Options of prepare that apply to one data set only.
_SPECIFIC = {"fewrel": ("glove",), "heart": ("label", "state", "year", "exclude")}

Name = Annotated[str, typer.Argument(metavar="NAME", help=f"Data set: {', '.join(CATALOGUE)}.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FOLDER",
        help="Folder with the publisher's files. By default the one that 'metapac data fetch' "
        "fills.",
    ),
]


def list_(*, home: Home = None, as_json: AsJson = False) -> None:
    """List data sets with licence and local status.

    The status is absent, fetched, prepared or damaged.

    Example:

        metapac data list
    """
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
        print_json(rows)
        return
    table = make_table(["name", "title", "licence", "status"], [])
    for row in rows:
        table.add_row(*row.values())
    stdout.print(table)
    print_line(f"Data are stored in {data_home(home)}")


def fetch(name: Name, *, home: Home = None) -> None:
    """Download a data set from its publisher, or print how to download it by hand.

    An interrupted download resumes. Files that the publisher never changes are verified.

    Example:

        metapac data fetch cifar10c
    """
    entry = get_data_set(name)
    try:
        with progress_bar(DownloadColumn()) as progress:
            folder = entry.fetch(home=home, progress=progress)
    finally:
        if entry.by_hand:
            for line in entry.manual_instructions(home).splitlines():
                print_line(line)
    missing = entry.missing(folder)
    if missing and not entry.by_hand:
        raise InvalidInput(" ".join(missing))
    if not missing:
        print_line(f"Files in {folder}")
    print_line(f"Then run: metapac data prepare {name}")


def prepare(
    name: Name,
    *,
    folder: Folder = None,
    home: Home = None,
    glove: Annotated[
        Path | None,
        typer.Option(help="fewrel: file of word vectors. By default one in the folder."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="heart: column of the labels.")
    ] = None,
    state: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="heart: column of the states.")
    ] = None,
    year: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="heart: column of the years.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(
            "--leave-out",
            metavar="COLUMN",
            help="heart: feature to drop, such as _MICHD, which leaks the label. May be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert the publisher's files into a cache that opens instantly.

    The cache is rebuilt only if the files have changed.

    Examples:

        metapac data prepare cifar10c
        metapac data prepare miniimagenet --from downloads/mini
    """
    entry = get_data_set(name)
    values = {"glove": glove, "label": label, "state": state, "year": year, "exclude": exclude}
    options = {option: value for option, value in values.items() if value}
    for option in options:
        if option not in _SPECIFIC.get(name, ()):
            raise InvalidInput(f"{option} is not for {name}. Leave it out.", parameter=option)
    with progress_bar() as progress:
        prepared = entry.prepare(
            folder or entry.source(home), home=home, progress=progress, **options
        )
    _print_prepared(entry, prepared, as_json)


def check(name: Name, *, folder: Folder = None, home: Home = None, as_json: AsJson = False) -> None:
    """Report classes, counts and splits, and what is missing or damaged.

    The prepared data are checked or, if there are none, the publisher's files.

    Example:

        metapac data check miniimagenet
    """
    entry = get_data_set(name)
    prepared = _prepared(entry, home) if folder is None else None
    if prepared is not None:
        prepared.verify()
        _print_prepared(entry, prepared, as_json)
        return
    source = folder or entry.source(home)
    missing = entry.missing(source)
    if as_json:
        print_json({"name": name, "folder": str(source), "missing": missing})
    if missing:
        raise InvalidInput(" ".join(missing))
    if not as_json:
        command = f"metapac data prepare {name}{'' if folder is None else f' --from {folder}'}"
        print_line(f"{source} has the files of {name}. To prepare them: {command}")


data = typer.Typer(
    name="data",
    cls=PlainGroup,
    help="Fetch, prepare and check the data sets of the paper.",
    no_args_is_help=True,
    add_completion=False,
)
for _function, _name in ((list_, "list"), (fetch, "fetch"), (prepare, "prepare"), (check, "check")):
    add_command(data, _function, _name)


def _state(entry: DataSet, home: Path | None) -> str:
    try:
        if _prepared(entry, home) is not None:
            return "prepared"
    except BadArtefact:
        return "damaged"
    return "fetched" if entry.source(home).is_dir() else "absent"


def _prepared(entry: DataSet, home: Path | None) -> cache.Prepared | None:
    try:
        return cache.open_prepared(entry.name, home)
    except FileNotFoundError:
        return None


def _print_prepared(entry: DataSet, prepared: cache.Prepared, as_json: bool) -> None:
    facts = prepared.facts
    if as_json:
        names = {"name": entry.name, "folder": str(prepared.folder)}
        print_json({**names, "checksum": prepared.checksum, "missing": [], **facts})
        return
    print_line(entry.title)
    stdout.print(_splits_table(facts["splits"]))
    size = sum(array.nbytes for array in prepared.values()) / 2**20
    for line in [*facts["notes"], f"{size:,.0f} MiB in {prepared.folder}"]:
        print_line(line)


def _splits_table(splits: dict[str, dict[str, Any]]) -> Table:
    columns = list(dict.fromkeys(key for row in splits.values() for key in row))
    table = make_table(["split"], columns)
    for split, row in splits.items():
        table.add_row(split, *(_number(row.get(column)) for column in columns))
    return table


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:.1%}"
