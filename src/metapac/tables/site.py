"""A whole table as one site of a federation: one number leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metapac.calibration import MetaPS
from metapac.guarantee import Split
from metapac.sites import Site
from metapac.tables import _checks
from metapac.tables.calibrate import quiet, within
from metapac.tables.layout import Layout
from metapac.tables.ranks import Progress
from metapac.tables.scores import true_scores
from metapac.tables.sources import open_source


def site_table(
    source: Any,
    *,
    name: str,
    score: str | None = None,
    label: str | None = None,
    columns: str = "p_*",
    classes: Sequence[Any] | None = None,
    epsilon: float,
    alpha: float,
    delta: float,
    split: Split = "tight",
    table: str | None = None,
    connection: Any = None,
    progress: Progress = quiet,
) -> Site:
    """Return what the site ``name`` sends to ``combine_sites``: all rows are one task.

    Columns and source as in ``calibrate_table``; a site may lack a class. Too few rows give a
    threshold of ``-inf``, which counts as a site without evidence.
    """
    name = _checks.site_name(name)
    guarantee = MetaPS(epsilon=epsilon, alpha=alpha, delta=delta, split=split)._guarantee()
    layout = Layout(None, score, label, columns, classes).checked()
    with open_source(source, table=table, connection=connection) as opened:
        rows = true_scores(opened, layout)
        with opened.reading(rows.columns):
            found = within(rows, guarantee, progress)
    thresholds = tuple(found.thresholds[0].tolist())
    return Site(name, int(found.sizes[0]), thresholds, guarantee, found.precision)
