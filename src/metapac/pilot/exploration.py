"""The results on pilot tasks over a grid of levels, and the file that keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metapac import _document, _ids
from metapac._types import PathLike
from metapac.exceptions import BadArtefact
from metapac.guarantee import Split
from metapac.pilot.estimates import Cell
from metapac.pilot.expectation import least_tasks

FORMAT = _document.Format("metapac pilot", written_by="'metapac explore -o'", shape="pilot")
ADVISED_DELTAS = (0.05, 0.01)


@dataclass(frozen=True, eq=False, repr=False)
class Exploration:
    """Set sizes and misses of each class on pilot tasks, over a grid of epsilon and alpha.

    Attributes
    ----------
    tasks : tuple
        The pilot tasks. None of them may be used for calibration.
    examples : int
        Number of examples.
    delta : float or None
        Failure probability that the estimates are for.
    prevalence : mapping from class to float
        Fraction of the examples that are of each class.
    cells : tuple of Cell
        First with one threshold for all classes, then with one for each class; each by alpha and
        epsilon.
    columns : mapping
        Columns of the table.
    split : str or float
        How alpha is shared between the two steps.
    min_examples : int
        Size below which tasks are left out of the estimates.

    Examples
    --------
    >>> from metapac.pilot import Exploration
    >>> Exploration(("ohio", "utah"), 80, 0.05, {"no": 0.9, "yes": 0.1}, (), {})
    <Exploration of 2 pilot tasks with 80 examples of 2 classes: 0 cells>
    """

    tasks: tuple[Any, ...]
    examples: int
    delta: float | None
    prevalence: Mapping[Any, float]
    cells: tuple[Cell, ...]
    columns: Mapping[str, Any]
    split: Split = "joint"
    min_examples: int = 0

    @property
    def classes(self) -> list[Any]:
        """The classes."""
        return list(self.prevalence)

    @property
    def tasks_needed(self) -> dict[float, dict[float | None, int]]:
        """Least number of calibration tasks for each alpha and some deltas, one guarantee."""
        deltas = dict.fromkeys([*ADVISED_DELTAS, self.delta, None])
        alphas = sorted({cell.alpha for cell in self.cells})
        return {
            alpha: {delta: least_tasks(alpha, delta, split=self.split) for delta in deltas}
            for alpha in alphas
        }

    def find(self, epsilon: float, alpha: float, *, per_class: bool = False) -> Cell:
        """Return the cell of two levels.

        Parameters
        ----------
        epsilon : float
            Miss rate allowed on a task.
        alpha : float
            Fraction of new tasks that may exceed it.
        per_class : bool, default False
            Whether each class has its own guarantee.

        Returns
        -------
        Cell
            The cell.

        Raises
        ------
        KeyError
            If the levels are not in the grid.
        """
        for cell in self.cells:
            if (cell.epsilon, cell.alpha, cell.per_class) == (epsilon, alpha, per_class):
                return cell
        raise KeyError((epsilon, alpha, per_class))

    def to_pandas(self) -> Any:
        """Return a frame with a row for each cell.

        Returns
        -------
        pandas.DataFrame
            Levels, number of calibration tasks, size, empty, full, and a column missed_CLASS for
            each class.
        """
        import pandas as pd

        rows = [
            {
                "epsilon": cell.epsilon,
                "alpha": cell.alpha,
                "per_class": cell.per_class,
                "tasks": cell.tasks,
                "size": cell.size.value,
                "empty": cell.empty.value,
                "full": cell.full.value,
                **{f"missed_{label}": cell.missed[label].value for label in self.classes},
            }
            for cell in self.cells
        ]
        return pd.DataFrame(rows)

    def to_json(self) -> dict[str, Any]:
        """Return all results as JSON can hold them.

        Returns
        -------
        dict
            What the pilot file holds.
        """
        return {
            "tasks": _ids.as_json_names(_ids.as_task_names(list(self.tasks))),
            "examples": self.examples,
            "delta": self.delta,
            "split": self.split,
            "min_examples": self.min_examples,
            "prevalence": [[label, share] for label, share in self.prevalence.items()],
            "columns": dict(self.columns),
            "cells": [cell.to_json() for cell in self.cells],
        }

    def save(self, path: PathLike) -> None:
        """Write the pilot file, which ``metapac calibrate --pilot`` takes.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        _document.write(path, self.to_json(), FORMAT)

    def plot(self, path: PathLike) -> None:
        """Draw set size and misses of each class against epsilon, a line for each alpha.

        Parameters
        ----------
        path : str or path
            PNG or SVG file to write.

        Raises
        ------
        MissingExtra
            If Matplotlib is not installed.
        """
        from metapac.pilot.figure import draw_pilot

        draw_pilot(self, path)

    def __repr__(self) -> str:
        return (
            f"<Exploration of {len(self.tasks)} pilot tasks with {self.examples} examples of "
            f"{len(self.prevalence)} classes: {len(self.cells)} cells>"
        )


def read_pilot(path: PathLike) -> Exploration:
    """Return the exploration that `Exploration.save` or ``metapac explore -o`` wrote.

    Parameters
    ----------
    path : str or path
        File to read.

    Returns
    -------
    Exploration
        The exploration; its ``tasks`` are the pilot tasks.

    Raises
    ------
    BadArtefact
        If the file is not a pilot file, was edited or damaged, or is from an incompatible version.

    Examples
    --------
    >>> import tempfile
    >>> from metapac.pilot import Exploration, read_pilot
    >>> pilot = Exploration(("ohio", "utah"), 80, 0.05, {"no": 0.9, "yes": 0.1}, (), {})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pilot.save(f"{folder}/pilot.json")
    ...     read_pilot(f"{folder}/pilot.json").tasks
    ('ohio', 'utah')
    """
    body = _document.read(path, FORMAT)
    try:
        delta = body["delta"]
        return Exploration(
            tuple(_ids.as_task_names(body["tasks"]).tolist()),
            int(body["examples"]),
            None if delta is None else float(delta),
            {label: float(share) for label, share in body["prevalence"]},
            tuple(map(Cell.from_json, body["cells"])),
            dict(body["columns"]),
            body["split"],
            int(body["min_examples"]),
        )
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise BadArtefact(
            f"{path} is not a complete pilot file ({type(error).__name__}: {error}). Write it "
            "again with 'metapac explore'."
        ) from error
