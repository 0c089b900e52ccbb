"""State files of monitors: what was counted so far, and a lock while it is updated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from metapac import _document, _files, _locks
from metapac._types import PathLike
from metapac.exceptions import BadArtefact, InvalidInput
from metapac.monitoring.terms import Terms

FORMAT = _document.Format(
    "metapac monitor",
    written_by="Monitor.save() or by 'metapac monitor --state'",
    remedy="Restore it from a backup, or start anew with another file and count all tasks again.",
    shape="monitor",
)


class Counted(NamedTuple):
    """A task that was counted.

    Attributes
    ----------
    task : str or int
        Its name.
    batch : str or None
        The batch that it came with.
    examples : tuple of int
        Number of its examples; with a guarantee per class, of each class.
    missed : tuple of int
        Number of them whose set misses the true label.
    checksum : str
        Checksum of its numbers of examples and misses, and of its lowest and highest score.
    cluster : str, int or None
        Its cluster, if tasks of one cluster may depend on each other.
    """

    task: str | int
    batch: str | None
    examples: tuple[int, ...]
    missed: tuple[int, ...]
    checksum: str
    cluster: str | int | None = None


def write_state(path: PathLike, terms: Terms, tasks: Sequence[Counted]) -> None:
    """Write a state file, replacing it atomically.

    Parameters
    ----------
    path : str or path
        File to write.
    terms : Terms
        Parameters of the monitored guarantee.
    tasks : sequence of Counted
        The tasks counted, in order.
    """
    body = {"watched": terms.to_json(), "tasks": [task._asdict() for task in tasks]}
    _document.write(path, body, FORMAT)


def read_state(path: PathLike) -> tuple[Terms, list[Counted]]:
    """Return what a state file holds.

    Parameters
    ----------
    path : str or path
        File to read.

    Returns
    -------
    terms : Terms
        Parameters of the monitored guarantee.
    tasks : list of Counted
        The tasks counted, in order.

    Raises
    ------
    BadArtefact
        If the file is not a state file, was edited or damaged, or contradicts itself.
    """
    body = _document.read(path, FORMAT)
    try:
        terms = Terms.from_json(body["watched"])
        tasks = [_as_counted(entry) for entry in body["tasks"]]
        _check(terms, tasks)
    except InvalidInput as error:
        raise _document.inconsistent(path, FORMAT, error) from error
    return terms, tasks


def _as_counted(entry: Mapping[str, Any]) -> Counted:
    return Counted(**{**entry, "examples": (*entry["examples"],), "missed": (*entry["missed"],)})


def _check(terms: Terms, tasks: Sequence[Counted]) -> None:
    """Raise InvalidInput if a task could not have been counted, or was counted twice."""
    if len({(str(entry.task), entry.batch) for entry in tasks}) < len(tasks):
        raise InvalidInput("a task occurs twice in a batch.")
    for entry in tasks:
        if not len(entry.examples) == len(entry.missed) == len(terms.rates):
            raise InvalidInput(f"task {entry.task!r} must have one count for each class.")
        if any(r > n for n, r in zip(entry.examples, entry.missed, strict=True)):
            raise InvalidInput(f"task {entry.task!r} has more misses than examples.")
        if terms.classes is None and entry.examples[0] < max(1, terms.min_examples):
            raise InvalidInput(f"task {entry.task!r} has too few examples to be counted.")


@contextmanager
def locking(path: PathLike) -> Iterator[None]:
    """Keep others from updating a state file at the same time.

    Where the file system has no locks, nothing is locked.

    Parameters
    ----------
    path : str or path
        The state file.

    Yields
    ------
    None

    Raises
    ------
    InvalidInput
        If another process is updating it.
    """
    target = Path(path).resolve()
    _files.check_folder(target.parent)
    if not _locks.AVAILABLE:
        yield
        return
    place = target.with_name(f".{target.name[:50]}.lock")
    descriptor = _open_locked(path, place)
    try:
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(descriptor)


def _open_locked(path: PathLike, place: Path) -> int:
    """Return the open lock file of a state file."""
    while True:
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
        if _locks.try_lock(descriptor) is False:
            os.close(descriptor)
            raise InvalidInput(f"{path} is being updated by another process. Try again later.")
        if _locks.is_same(descriptor, place):  # else its last holder has just deleted it
            return descriptor
        os.close(descriptor)


def check_same_promise(path: PathLike, stored: Terms, given: Terms) -> None:
    """Raise if a state file is for another guarantee, or for other parameters.

    Parameters
    ----------
    path : str or path
        The state file.
    stored : Terms
        Its terms.
    given : Terms
        The terms of the guarantee at hand.

    Raises
    ------
    InvalidInput
        If they differ in more than words.
    """
    if stored.checksum != given.checksum:
        raise InvalidInput(
            f"{path} watches another guarantee: {stored.promise} Tasks judged by other sets do not "
            "count against this one. Use another state file for each promise file."
        )
    if stored.rates != given.rates or (stored.alpha, stored.delta) != (given.alpha, given.delta):
        raise BadArtefact(f"{path} states other levels than the promise. {FORMAT.remedy}")
