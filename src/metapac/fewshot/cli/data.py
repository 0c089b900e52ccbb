"""``metapac data``: list, fetch, prepare and check data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.progress import DownloadColumn

from metapac._common import data_home
from metapac.cli import console
from metapac.cli.app import Group
from metapac.errors import InvalidInput
from metapac.fewshot.datasets.catalogue import CATALOGUE, get_data_set

# Options of prepare that apply to one data set only.
_SPECIFIC = {"fewrel": ("glove",), "heart": ("label", "state", "year", "leave_out")}


def list_(*, home: Path | None = None, json: bool = False) -> None:
    """List data sets with licence and local status.

    Example:

        metapac data list

    The status is absent, fetched, prepared or damaged.
    """
    rows = [entry.describe(home) for entry in CATALOGUE.values()]
    lines = ["{name} ({state}): {title}. Licence: {licence}.".format(**row) for row in rows]
    text = "\n".join([*lines, f"Data are stored in {data_home(home)}"])
    console.show(rows, as_json=json, text=text)


def fetch(name: str, *, home: Path | None = None) -> None:
    """Download a data set, or say how to do it by hand.

    Example:

        metapac data fetch cifar10c

    An interrupted download resumes. Files that the publisher never changes are verified.

    Parameters
    ----------
    name : NAME
        Data set: miniimagenet, cifar10c, fewrel or heart.
    """
    entry = get_data_set(name)
    try:
        with console.progress_bar(DownloadColumn()) as progress:
            folder = entry.fetch(home=home, progress=progress)
    finally:
        if entry.by_hand:
            console.print_line(entry.manual_instructions(home))
    missing = entry.missing(folder)
    if missing and not entry.by_hand:
        raise InvalidInput(" ".join(missing))
    if not missing:
        console.print_line(f"Files in {folder}")
    console.print_line(f"Then run: metapac data prepare {name}")


def prepare(
    name: str,
    *,
    from_: Path | None = None,
    home: Path | None = None,
    glove: Path | None = None,
    label: str | None = None,
    state: str | None = None,
    year: str | None = None,
    leave_out: list[str] | None = None,
    json: bool = False,
) -> None:
    """Convert the publisher's files into a fast cache.

    Example:

        metapac data prepare miniimagenet --from downloads/mini

    The cache opens instantly. It is rebuilt only if the files have changed.

    Parameters
    ----------
    name : NAME
        Data set: miniimagenet, cifar10c, fewrel or heart.
    from_ : FOLDER
        Folder with the publisher's files. By default the one that 'metapac data fetch' fills.
    glove : FILE
        fewrel: file of word vectors. By default one in the folder.
    label : COLUMN
        heart: column of the labels.
    state : COLUMN
        heart: column of the states.
    year : COLUMN
        heart: column of the years.
    leave_out : COLUMN
        heart: feature to drop, such as _MICHD, which leaks the label.
    """
    entry = get_data_set(name)
    values = {"glove": glove, "label": label, "state": state, "year": year, "leave_out": leave_out}
    given: dict[str, Any] = {option: value for option, value in values.items() if value}
    for option in given:
        if option not in _SPECIFIC.get(name, ()):
            raise InvalidInput(f"{option} is not for {name}. Leave it out.", parameter=option)
    if leave_out:
        given["exclude"] = given.pop("leave_out")
    with console.progress_bar() as progress:
        prepared = entry.prepare(from_ or entry.source(home), home=home, progress=progress, **given)
    _show(name, prepared, json)


def check(
    name: str, *, from_: Path | None = None, home: Path | None = None, json: bool = False
) -> None:
    """Say what is complete, missing or damaged.

    Example:

        metapac data check miniimagenet

    The prepared data are checked or, if there are none, the publisher's files.

    Parameters
    ----------
    name : NAME
        Data set: miniimagenet, cifar10c, fewrel or heart.
    from_ : FOLDER
        Folder with the publisher's files. By default the one that 'metapac data fetch' fills.
    """
    entry = get_data_set(name)
    prepared = entry.find_prepared(home) if from_ is None else None
    if prepared is not None:
        prepared.verify()
        _show(name, prepared, json)
        return
    folder = from_ or entry.source(home)
    missing = entry.missing(folder)
    command = f"metapac data prepare {name}{'' if from_ is None else f' --from {folder}'}"
    if json or not missing:
        facts = {"name": name, "folder": str(folder), "missing": missing}
        text = f"{folder} has the files of {name}. To prepare them: {command}"
        console.show(facts, as_json=json, text=text)
    if missing:
        raise InvalidInput(" ".join(missing))


def _show(name: str, prepared: Any, json: bool) -> None:
    text = f"{CATALOGUE[name].title}\n{prepared}"
    console.show(prepared, as_json=json, text=text, name=name, missing=[])


_HERE = "metapac.fewshot.cli.data"
data = Group(
    {
        "Commands": {
            "list": (_HERE, "List data sets with licence and local status."),
            "fetch": (_HERE, "Download a data set, or say how to do it by hand."),
            "prepare": (_HERE, "Convert the publisher's files into a fast cache."),
            "check": (_HERE, "Say what is complete, missing or damaged."),
        }
    },
    name="data",
    help="Fetch and prepare the paper's data sets.",
    no_args_is_help=True,
)
