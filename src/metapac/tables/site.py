"""A whole table as one site of a federation: a few numbers leave it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metapac._checks import own_words
from metapac.guarantee import Epsilon, Guarantee, Split
from metapac.sites import Site
from metapac.tables import _checks
from metapac.tables.calibrate import agreed, first_step, quiet
from metapac.tables.layout import Layout
from metapac.tables.ranks import Progress
from metapac.tables.scores import true_scores
from metapac.tables.sources import open_source


@own_words
def site_table(
    source: Any,
    *,
    name: str,
    score: str | None = None,
    label: str | None = None,
    columns: str = "p_*",
    classes: Sequence[Any] | None = None,
    epsilon: Epsilon,
    alpha: float,
    delta: float | None,
    split: Split = "joint",
    per_class: bool = False,
    min_examples: int = 0,
    table: str | None = None,
    connection: Any = None,
    progress: Progress = quiet,
) -> Site:
    """Return what a site sends to ``combine_sites``: a number for each level, and no other score.

    All rows are one task. Every site has to use the same parameters.

    Parameters
    ----------
    source : path, list of paths, frame or Ibis table
        As in ``calibrate_table``.
    name : str
        Name of the site; no two may share it.
    score, label, columns, classes
        As in ``calibrate_table``; a site may lack a class. With ``per_class`` and ``score``,
        ``classes`` has to be given, unless ``epsilon`` is a mapping that names them.
    epsilon, alpha, delta, split, per_class, min_examples
        As in ``calibrate_table``.
    table, connection, progress
        As in ``calibrate_table``.

    Returns
    -------
    Site
        What to save and send. Too few rows give a threshold of ``-inf``, which counts as that of a
        site without evidence.
    """
    name = _checks.site_name(name)
    guarantee = Guarantee(
        epsilon=epsilon,
        alpha=alpha,
        delta=delta,
        split=split,
        per_class=per_class,
        min_examples=min_examples,
    )
    if per_class and score is not None and classes is None:
        classes = list(epsilon) if isinstance(epsilon, Mapping) else None
        _checks.same_classes_everywhere(classes)
    layout = Layout(None, score, label, columns, classes, per_class=per_class).checked()
    with open_source(source, table=table, connection=connection) as opened:
        rows = true_scores(opened, layout)
        guarantee = agreed(guarantee, rows.keys)
        with opened.reading(rows.columns):
            return Site.of_evidence(name, guarantee, first_step(rows, guarantee, progress))
