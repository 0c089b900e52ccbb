"""A finite list of tasks: which of them to calibrate on, drawn at random and written down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypedDict

from metapac import artefact
from metapac._common import PathLike, as_whole_number, brief, hash_text, listed
from metapac.data_checks import check_names_differ
from metapac.errors import InvalidInput
from metapac.inputs import as_task_ids, as_task_names

# Anyone can repeat the draw: no random number generator changes with a version.
ALGORITHM = "the tasks with the lowest SHA-256 of SEED/NAME"


class _Document(TypedDict):
    list: list[str | int]
    tasks: artefact.Count
    seed: artefact.Size


FORMAT = artefact.Format(
    "metapac draw",
    written_by="Draw.save or 'metapac draw'",
    remedy="Draw again, from the same list and with the same seed.",
    shape=_Document,
)


def sort_by_hash(names: Iterable[Any], seed: object) -> list[Any]:
    """Return names in an order that only the seed and each name decide."""
    return sorted(names, key=lambda name: hash_text(f"{seed}/{name}"))


@dataclass(frozen=True)
class Draw:
    """Tasks drawn at random from a finite list, from `draw_tasks`.

    Parameters
    ----------
    names : tuple
        The list.
    tasks : int
        Number of tasks to draw.
    seed : int
        Seed of the draw, fixed beforehand.

    Examples
    --------
    >>> from metapac import draw_tasks
    >>> draw_tasks(["ohio", "texas", "utah"], 2, rng=1).rest
    ('utah',)
    """

    names: tuple[Any, ...]
    tasks: int
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _check_list(self.names))
        object.__setattr__(self, "seed", as_whole_number("seed", self.seed, minimum=0))
        tasks, most = as_whole_number("tasks", self.tasks), len(self.names) - 1
        if tasks > most:
            rule = f"tasks must be at most {most}, so that the list of {most + 1} has others left"
            raise InvalidInput(f"{rule}, got {tasks}.")

    @cached_property
    def drawn(self) -> tuple[Any, ...]:
        """The tasks to calibrate on, in the order of the list."""
        chosen = {*sort_by_hash(self.names, self.seed)[: self.tasks]}
        return tuple(name for name in self.names if name in chosen)

    @cached_property
    def rest(self) -> tuple[Any, ...]:
        """The other tasks, in the order of the list: those that the guarantee is for."""
        drawn = {*self.drawn}
        return tuple(name for name in self.names if name not in drawn)

    @property
    def list_checksum(self) -> str:
        """SHA-256 of the sorted names, one in each line: ``LC_ALL=C sort | sha256sum``."""
        text = "".join(f"{name}\n" for name in sorted(map(str, self.names)))
        return f"sha256:{hash_text(text)}"

    def describe(self) -> str:
        """Return the draw in words.

        Returns
        -------
        str
            How many tasks were drawn of how many, and the seed.
        """
        return f"{self.tasks:,} of {len(self.names):,} were drawn, with seed {self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """Return the draw as JSON can hold it, as ``metapac draw --json`` prints it.

        Returns
        -------
        dict
            The list and its checksum, seed and algorithm, the tasks drawn and the others.
        """
        return {
            "list": [*self.names],
            "list_checksum": self.list_checksum,
            "tasks": self.tasks,
            "seed": self.seed,
            "algorithm": ALGORITHM,
            "drawn": [*self.drawn],
            "rest": [*self.rest],
        }

    def save(self, path: PathLike) -> None:
        """Write the draw to a JSON file, for `read_draw`.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        artefact.write(path, self.to_dict(), FORMAT)

    def __str__(self) -> str:
        names = "\n".join(f"- {name}" for name in self.drawn)
        return f"{self.describe()}:\n{names}\n{len(self.rest):,} others are left."


def decode_draw(body: Any) -> Draw:
    """Return the draw that `Draw.to_dict` described; raise if it comes out otherwise."""
    draw = Draw(tuple(body["list"]), body["tasks"], body["seed"])
    artefact.check_written({name: body.get(name) for name in draw.to_dict()}, draw.to_dict())
    return draw


def check_drawn(draw: Draw, tasks: Iterable[Any], new_tasks: int | None, absent: int) -> None:
    """Raise InvalidInput unless exactly the tasks drawn are there, but for some that are absent."""
    calibrated = [*tasks]
    drawn, found = {*map(str, draw.drawn)}, {*map(str, calibrated)}
    lacking = [name for name in draw.drawn if str(name) not in found]
    others = [name for name in calibrated if str(name) not in drawn]
    kinds = ((lacking, "drawn but absent", absent), (others, "there but not drawn", 0))
    wrong = [(names, what) for names, what, most in kinds if len(names) > most]
    faults = [f"{len(names)} {what} ({listed([*map(repr, names)])})" for names, what in wrong]
    if faults:
        text = (
            f"draw names other tasks than those calibrated on: {'; '.join(faults)}. The guarantee"
        )
        text += " rests on the draw: calibrate on all tasks drawn, and on no other."
        raise InvalidInput(text, parameter="draw")
    if new_tasks != len(draw.rest):
        rule = f"new_tasks must be {len(draw.rest)}, the rest of the list that was drawn from"
        raise InvalidInput(f"{rule}, got {new_tasks}.")


def _check_list(names: Any) -> tuple[Any, ...]:
    """Return the names of a list, each of them once."""
    try:
        plain = as_task_ids(names).tolist()
        if any(isinstance(name, str) and not name.strip() for name in plain):
            raise InvalidInput("one name is blank")
        plain = as_task_names(plain).tolist()
        if any(type(name) not in (str, int) for name in plain):
            raise InvalidInput("some are neither")
    except InvalidInput as error:
        rule = f"names must be a list of task names, strings or integers, got {brief(names)}"
        raise InvalidInput(f"{rule}: {error}") from error
    if repeated := [name for name, count in Counter(plain).items() if count > 1]:
        text = f"names holds {repeated[0]!r} more than once; a list has each task once."
        raise InvalidInput(text, parameter="names")
    return tuple(plain)


def draw_tasks(names: Iterable[Any], tasks: int, *, rng: int, allow: Iterable[str] = ()) -> Draw:
    """Draw the tasks of a finite list to calibrate on, at random and in a way that can be audited.

    With ``MetaPS(new_tasks=...)``, the guarantee is then for the others. The draw depends on the
    seed and on the names, not on their order: the tasks with the lowest SHA-256 of ``SEED/NAME``.

    Parameters
    ----------
    names : iterable
        The list: the name of each task, as in ``MetaPS.calibrate``.
    tasks : int
        Number of tasks to draw; `plan_list` says how many it takes.
    rng : int
        Seed, fixed beforehand and in public, such as a date agreed upon. Choosing it by the tasks
        that it draws breaks the guarantee.
    allow : iterable of str, default ()
        Checks to skip: "task-names" takes names that are alike for different tasks.

    Returns
    -------
    Draw
        The tasks drawn, and the rest. ``Context(draw=...)`` lets ``calibrate`` and ``evaluate``
        compare their tasks with it.

    Raises
    ------
    InvalidInput
        If a name is missing, blank or there twice, names are alike, or none would be left.

    Examples
    --------
    >>> from metapac import draw_tasks
    >>> draw = draw_tasks([f"hospital {i}" for i in range(53)], 33, rng=20261201)
    >>> len(draw.drawn), len(draw.rest)
    (33, 20)
    """
    draw = Draw(names, tasks, as_whole_number("rng", rng, minimum=0))  # type: ignore[arg-type]
    check_names_differ(draw.names, allow=allow)
    return draw


def read_draw(path: PathLike) -> Draw:
    """Return the draw that `Draw.save` or ``metapac draw`` wrote, after drawing it again.

    Parameters
    ----------
    path : str or path
        File to read.

    Returns
    -------
    Draw
        The draw.

    Raises
    ------
    BadArtefact
        If the file is not a draw, was edited, or its list and seed give another draw.

    Examples
    --------
    >>> from metapac import draw_tasks, read_draw
    >>> draw = draw_tasks(["ohio", "texas", "utah"], 2, rng=1)
    >>> draw.save("draw.json")
    >>> read_draw("draw.json") == draw
    True
    """
    body = artefact.read(path, FORMAT)
    with artefact.decoding(path, FORMAT):
        return decode_draw(body)
