"""A tidy table: a row for each method on each new task of each calibration draw."""

from __future__ import annotations

import csv
import gzip
import io
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from metapac.evaluation.draws import Array, Draw
from metapac.evaluation.methods import Method
from metapac.persistence import BadArtefact, replacing


@dataclass(frozen=True, eq=False)
class Rows:
    """The table as columns, all of one length; ``pandas.DataFrame(vars(rows))`` takes it."""

    draw: NDArray[np.int64]
    method: NDArray[np.str_]
    delta: NDArray[np.float64]
    task: NDArray[np.int64]
    threshold: NDArray[np.float64]
    feasible: NDArray[np.bool_]
    error: NDArray[np.float64]
    size: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.draw)

    def take(self, which: Array) -> Self:
        """Return some rows, by mask or by position."""
        return type(self)(**{name: column[which] for name, column in vars(self).items()})

    def methods(self) -> list[tuple[str, float]]:
        """Return each method with each of its deltas, in the order in which they first appear."""
        return list(dict.fromkeys(zip(self.method.tolist(), self.delta.tolist(), strict=True)))

    def of(self, method: str, delta: float | None = None) -> Self:
        """Return the rows of one method, at its first delta if none is given."""
        deltas = [known for name, known in self.methods() if name == method]
        if not deltas or delta not in (None, *deltas):
            asked = f"{method!r}" if delta is None else f"{method!r} at delta={delta:g}"
            known = ", ".join(f"{name} at delta={d:g}" for name, d in self.methods())
            raise ValueError(f"rows hold no method {asked}; they have: {known}.")
        wanted = deltas[0] if delta is None else delta
        return self.take((self.method == method) & (self.delta == wanted))

    @classmethod
    def joined(cls, parts: Iterable[Rows]) -> Self:
        """Return one table of several, one below the other."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        names = (field.name for field in fields(cls))
        return cls(**dict(zip(names, map(np.concatenate, columns), strict=True)))


def judge(number: int, draw: Draw, methods: Iterable[Method]) -> Rows:
    """Return the rows of one draw; a method that needs quantiles is left out without them."""
    used = [each for each in methods if draw.quantiles is not None or not each.rule.quantiles]
    chosen = [method.choose(draw) for method in used]
    cuts = np.stack([each.thresholds for each in chosen])  # (methods, tests)
    count = len(draw.tests)
    by_test = list(zip(draw.tests, cuts.T, strict=True))
    return Rows(
        draw=np.full(cuts.size, number),
        method=np.repeat([each.name for each in used], count),
        delta=np.repeat([each.guarantee.failure_probability for each in used], count),
        task=np.tile(np.arange(count), len(used)),
        threshold=cuts.ravel(),
        feasible=np.concatenate([each.feasible for each in chosen]),
        error=np.stack([test.error(mine) for test, mine in by_test], axis=1).ravel(),
        size=np.stack([test.size(mine) for test, mine in by_test], axis=1).ravel(),
    )


_TYPES: dict[str, Any] = {"draw": np.int64, "task": np.int64, "method": np.str_} | dict.fromkeys(
    ("delta", "threshold", "error", "size"), np.float64
)


def write_rows(path: str | os.PathLike[str], rows: Rows) -> None:
    """Write the table as compressed CSV, every number to its last digit, replacing ``path``."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(vars(rows))
    columns = {**vars(rows), "feasible": rows.feasible.astype(int)}
    writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    with replacing(path, binary=True) as file:
        file.write(gzip.compress(text.getvalue().encode(), mtime=0))


def read_table(path: str | os.PathLike[str]) -> Rows:
    """Return what ``write_rows`` wrote, or say why the file cannot be trusted."""
    try:
        # gzip knows the length and the checksum of what it wrote.
        text = gzip.decompress(Path(path).read_bytes()).decode()
        header, *lines = csv.reader(io.StringIO(text, newline=""))
        if header != [field.name for field in fields(Rows)]:
            raise ValueError(f"its columns are {', '.join(header)}")
        columns = dict(zip(header, zip(*lines, strict=True), strict=True))
        return Rows(**{name: _column(name, values) for name, values in columns.items()})
    except FileNotFoundError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise BadArtefact(
            f"{path} is not a table of an evaluation, or not complete ({error}). Call evaluate "
            "again with the same settings and folder: finished draws are not done again."
        ) from error


def _column(name: str, values: tuple[str, ...]) -> Array:
    column = np.array(values)
    return np.asarray(column == "1" if name == "feasible" else column.astype(_TYPES[name]))
