"""What both studies of the demo share: the promise, the methods, and the files."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

from metapac import persistence, plots
from metapac._version import __version__
from metapac.evaluation.methods import OWN, PER_TASK, POOLED, Method
from metapac.evaluation.rows import Rows
from metapac.guarantee import Guarantee

GUARANTEE = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5)
OWN_EXAMPLES = 100  # PS-Test has 20 labels for each of 5 classes, as in the paper
METHODS = (
    Method("PS", POOLED, GUARANTEE),
    Method("PS-Test", OWN, GUARANTEE),
    Method("Meta-PS even", PER_TASK, replace(GUARANTEE, split="even")),
    Method("Meta-PS joint", PER_TASK, GUARANTEE),
)
_COLUMNS = ("draw", "method", "task", "threshold", "error", "size")


def write(rows: Rows, folder: Path, title: str, rng: int) -> tuple[Path, Path]:
    """Write the rows as CSV, with seed and version, and the box plots as PNG; return where."""
    folder.mkdir(parents=True, exist_ok=True)
    table, picture = folder / "demo.csv", folder / "demo.png"
    columns = [getattr(rows, name).tolist() for name in _COLUMNS]
    with persistence.replacing(table) as file:
        writer = csv.writer(file)
        writer.writerow([*_COLUMNS, "rng", "metapac"])
        writer.writerows([*row, rng, __version__] for row in zip(*columns, strict=True))
    by_method = {method.name: rows.of(method.name) for method in METHODS}
    plots.error_and_size(
        {name: mine.error for name, mine in by_method.items()},
        {name: mine.size for name, mine in by_method.items()},
        epsilon=GUARANTEE.miss_rate,
        title=title,
        path=picture,
    )
    return table, picture
