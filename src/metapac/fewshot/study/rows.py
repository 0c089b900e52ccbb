"""Rows: the error and size of one method on one new task."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from metapac._common import Array, PathLike
from metapac.artefact import check_unpacked, replacing
from metapac.errors import BadArtefact, InvalidInput
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.methods import Method

# Typed as Any, so that type checkers treat the column as present: it is filled in.
_NO_COUNTS: Any = None
_COUNTS = ("examples", "labels")  # columns that older tables do not have


@dataclass(frozen=True, eq=False)
class Rows:
    """A table as columns of one length; ``pandas.DataFrame(vars(rows))`` accepts it.

    Attributes
    ----------
    draw : ndarray of int
        Number of the calibration draw.
    method : ndarray of str
        Name of the method.
    delta : ndarray of float
        Delta of the method.
    task : ndarray of int
        Number of the new task within the draw.
    threshold : ndarray of float
        Threshold used on the task.
    feasible : ndarray of bool
        Whether there were enough data for the guarantee.
    error, size : ndarray of float
        Miss rate and mean set size on the task.
    examples : ndarray of int, optional
        Number of test examples that error and size were counted on. By default 0: the error is
        exact, or is taken as exact because the number is not known.
    labels : ndarray of int, optional
        Number of labels of the task, which no set exceeds. By default 0: not known.
    """

    draw: NDArray[np.int64]
    method: NDArray[np.str_]
    delta: NDArray[np.float64]
    task: NDArray[np.int64]
    threshold: NDArray[np.float64]
    feasible: NDArray[np.bool_]
    error: NDArray[np.float64]
    size: NDArray[np.float64]
    examples: NDArray[np.int64] = _NO_COUNTS
    labels: NDArray[np.int64] = _NO_COUNTS

    def __post_init__(self) -> None:
        for name in _COUNTS:
            if getattr(self, name) is None:
                object.__setattr__(self, name, np.zeros(len(self.draw), np.int64))

    def __len__(self) -> int:
        return len(self.draw)

    def take(self, which: Array) -> Self:
        """Return some of the rows.

        Parameters
        ----------
        which : ndarray of bool or int
            Mask or positions.

        Returns
        -------
        Rows
        """
        return type(self)(**{name: column[which] for name, column in vars(self).items()})

    def methods(self) -> list[tuple[str, float]]:
        """Return each method with each of its deltas, in order of first appearance.

        Returns
        -------
        list of (str, float)
            Name and delta.
        """
        return list(dict.fromkeys(zip(self.method.tolist(), self.delta.tolist(), strict=True)))

    def select(self, method: str, delta: float | None = None) -> Self:
        """Return the rows of one method.

        Parameters
        ----------
        method : str
            Name of the method.
        delta : float, optional
            Delta of the method; by default the first that it has.

        Returns
        -------
        Rows
        """
        deltas = [d for name, d in self.methods() if name == method]
        if not deltas or delta not in (None, *deltas):
            wanted = f"{method!r}" if delta is None else f"{method!r} at delta={delta:g}"
            available = ", ".join(f"{name} at delta={d:g}" for name, d in self.methods())
            raise InvalidInput(f"rows hold no method {wanted}; they have: {available}.")
        chosen = deltas[0] if delta is None else delta
        return self.take((self.method == method) & (self.delta == chosen))

    @classmethod
    def concatenate(cls, parts: Iterable[Rows]) -> Self:
        """Return one table made of several.

        Parameters
        ----------
        parts : iterable of Rows
            The tables, in order.

        Returns
        -------
        Rows
        """
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return cls(*map(np.concatenate, columns))


def evaluate_draw(number: int, draw: Draw, methods: Iterable[Method]) -> Rows:
    used = [method for method in methods if _can_run(method, draw)]
    if not used:
        raise InvalidInput("methods must hold one that can run without what this study lacks.")
    chosen = [method.choose(draw) for method in used]
    cuts = np.stack([choice.thresholds for choice in chosen])  # (methods, tests)
    count = len(draw.tests)
    by_test = list(zip(draw.tests, cuts.T, strict=True))
    return Rows(
        draw=np.full(cuts.size, number),
        method=np.repeat([method.name for method in used], count),
        delta=np.repeat([method.guarantee.failure_probability for method in used], count),
        task=np.tile(np.arange(count), len(used)),
        threshold=cuts.ravel(),
        feasible=np.concatenate([choice.feasible for choice in chosen]),
        error=np.stack([test.error(column) for test, column in by_test], axis=1).ravel(),
        size=np.stack([test.size(column) for test, column in by_test], axis=1).ravel(),
        examples=np.tile([test.examples for test in draw.tests], len(used)),
        labels=np.tile([test.labels for test in draw.tests], len(used)),
    )


def _can_run(method: Method, draw: Draw) -> bool:
    """Return whether a draw has what a method needs: predicted quantiles, labelled examples."""
    if method.rule.needs_quantiles and draw.quantiles is None:
        return False
    return not method.rule.needs_labels or any(len(test.labelled_scores) for test in draw.tests)


_TYPES: dict[str, Any] = {
    "method": np.str_,
    **dict.fromkeys(("draw", "task", *_COUNTS), np.int64),
    **dict.fromkeys(("delta", "threshold", "error", "size"), np.float64),
}
_COLUMNS = [field.name for field in fields(Rows)]


def write_table(path: PathLike, rows: Rows) -> None:
    """Write rows as compressed CSV, every number to its last digit, replacing ``path``."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(vars(rows))
    columns = {**vars(rows), "feasible": rows.feasible.astype(int)}
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    with replacing(path, binary=True) as file:
        file.write(gzip.compress(text.getvalue().encode(), mtime=0))


def read_table(path: PathLike) -> Rows:
    """Return the rows that ``write_table`` wrote; ``examples`` and ``labels`` may be missing."""
    try:
        check_unpacked(Path(path))
        # gzip verifies the length and the checksum of its content.
        text = gzip.decompress(Path(path).read_bytes()).decode()
        header, *lines = csv.reader(io.StringIO(text, newline=""))
        if header not in (_COLUMNS, _COLUMNS[:-1], _COLUMNS[:-2]):
            raise InvalidInput(f"its columns are {', '.join(header)}")
        columns = dict(zip(header, zip(*lines, strict=True), strict=True))
        return Rows(**{name: _column(name, values) for name, values in columns.items()})
    except FileNotFoundError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        rule = f"{path} is not a complete table of an evaluation ({error})"
        raise BadArtefact(f"{rule}. Call run_study again with the same folder.") from error


def _column(name: str, values: tuple[str, ...]) -> Array:
    column = np.array(values)
    return np.asarray(column == "1" if name == "feasible" else column.astype(_TYPES[name]))
