"""The pass before sets are written: checks the scores, and counts what the sets will hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ibis
import numpy as np
from ibis import _

from metapac._checks import listed
from metapac.exceptions import InvalidInput
from metapac.set_summary import SetSummary
from metapac.tables.class_scores import ClassScores, is_usable
from metapac.tables.io.sources import Source
from metapac.tables.outcomes import KeptLabels
from metapac.tables.search.expressions import add_up, as_int, constant_list, exact

_LARGEST = float(np.finfo(np.float64).max)


def lacks_scores(source: Source, of_classes: ClassScores) -> Any:
    """Return whether a score of the row is null or NaN.

    Parameters
    ----------
    source : Source
        The open table.
    of_classes : ClassScores
        Its scores.

    Returns
    -------
    Ibis expression
        Booleans.
    """
    if of_classes.lists is not None:
        return of_classes.lists.filter(lambda score: ~is_usable(source, score)).length() > 0
    return add_up([as_int(~is_usable(source, score)) for score in of_classes.scores]) > 0


def check_class_scores(source: Source, of_classes: ClassScores) -> int:
    """Return the number of rows, or raise InvalidInput if a score of a class is null or NaN.

    Parameters
    ----------
    source : Source
        The open table.
    of_classes : ClassScores
        Its scores.

    Returns
    -------
    int
        Number of rows.
    """
    return int(_count(source, of_classes, {})["rows"])


def count_sets(source: Source, kept: KeptLabels) -> SetSummary:
    """Return a summary of the sets, or raise InvalidInput if a score is null or NaN.

    Few columns take one pass over the table; lists take a second one, which counts the classes.

    Parameters
    ----------
    source : Source
        The open table.
    kept : KeptLabels
        The sets.

    Returns
    -------
    SetSummary
        The summary.
    """
    names, of_classes = kept.of_classes.names, kept.of_classes
    values = {"size": kept.size} | _ends(of_classes)
    if of_classes.lists is None:
        values |= {f"in{i}": as_int(is_in_set) for i, is_in_set in enumerate(kept.each)}
    figures = _count(source, of_classes, values, of_classes.width)
    if of_classes.lists is None:
        counts = [figures[f"in{i}"] or 0 for i in range(len(names))]
    elif of_classes.row_names is not None:
        counts = []
    else:
        counts = _count_positions(source, kept)
    rows = figures["rows"]
    lows = [figures[name] for name in figures if name.startswith("low")]
    highs = [figures[name] for name in figures if name.startswith("high")]
    return SetSummary(
        rows=rows,
        empty=figures["empty"] or 0,
        single=figures["single"] or 0,
        full=figures["full"] or 0,
        mean_size=(figures["size"] or 0) / rows if rows else float("nan"),
        by_class=dict(zip(names, counts, strict=True)),
        low=min((float(low) for low in lows if low is not None), default=None),
        high=max((float(high) for high in highs if high is not None), default=None),
    )


def _count(
    source: Source, of_classes: ClassScores, values: dict[str, Any], classes: Any = 0
) -> dict[str, Any]:
    """Return sums over all rows, after checking that every score is usable."""
    width = ibis.literal(classes) if isinstance(classes, int) else classes
    table = source.table.select(bad=lacks_scores(source, of_classes), classes=width, **values)
    sums: dict[str, Any] = {"rows": table.count(), "bad": table.count(where=table.bad)}
    for name in values:
        end = _end(name)
        sums[name] = table[name].sum() if end is None else end(table[name])
    if "size" in values:
        for name, size in (("empty", 0), ("single", 1), ("full", table.classes)):
            sums[name] = table.count(where=table["size"] == size)
    with source.reading(of_classes.columns):
        result = source.run(table.agg(**sums))
        figures = {name: result[name][0].as_py() for name in sums}
        if figures["bad"]:
            source.check_text(of_classes.columns)
            raise _unusable(source, of_classes, figures)
    return figures


def _end(name: str) -> Callable[[Any], Any] | None:
    if name.startswith("low"):
        return lambda column: column.min()
    return (lambda column: column.max()) if name.startswith("high") else None


def _ends(of_classes: ClassScores) -> dict[str, Any]:
    """Return the lowest and the highest finite score, of each class or of each list."""

    def finite(score: Any) -> Any:
        return score.cast("float64").between(exact(-_LARGEST), exact(_LARGEST))

    if of_classes.lists is not None:
        numbers = of_classes.lists.filter(finite)
        return {"low": numbers.mins(), "high": numbers.maxs()}
    scores = [finite(score).ifelse(score, ibis.null()) for score in of_classes.scores]
    lows = {f"low{i}": score for i, score in enumerate(scores)}
    return lows | {f"high{i}": score for i, score in enumerate(scores)}


def _count_positions(source: Source, kept: KeptLabels) -> list[int]:
    """Return how many sets contain each class."""
    counts = _count_entries(source, kept.of_classes, kept.positions)
    return [counts.get(position, 0) for position in range(len(kept.of_classes.names))]


def _count_entries(source: Source, of_classes: ClassScores, lists: Any) -> dict[Any, int]:
    entries = source.table.select(entry=lists).select(entry=_.entry.unnest())
    with source.reading(of_classes.columns):
        counts = source.run(entries.group_by("entry").agg(rows=_.count()))
    return dict(zip(counts["entry"].to_pylist(), counts["rows"].to_pylist(), strict=True))


def _unusable(source: Source, of_classes: ClassScores, figures: dict[str, Any]) -> InvalidInput:
    """Return the error for nulls and NaN, which names the classes that have them."""
    names = [str(name) for name in of_classes.names]
    by_class: dict[Any, int] = {}
    if of_classes.lists is None:
        bad = {f"bad{i}": ~is_usable(source, s) for i, s in enumerate(of_classes.scores)}
        table = source.table.select(**bad)
        result = source.run(table.agg(**{name: table.count(where=table[name]) for name in bad}))
        by_class = dict(zip(of_classes.names, (c[0].as_py() for c in result.columns), strict=True))
    elif names:
        labels = constant_list(names)
        bad_labels = of_classes.lists.map(
            lambda score, i: (~is_usable(source, score)).ifelse(
                labels[i.cast("int32")], ibis.null("string")
            )
        ).filter(lambda label: label.notnull())
        counts = _count_entries(source, of_classes, bad_labels)
        by_class = {name: counts.get(str(name), 0) for name in of_classes.names}
    classes = listed([f"{name!r}: {count}" for name, count in by_class.items() if count])
    by = f" (by class, {classes})" if classes else ""
    return InvalidInput(
        f"{source.name}: the scores of the classes hold nulls or NaN in {figures['bad']} of "
        f"{figures['rows']} rows{by}; a score that cannot be compared decides no set. Give a "
        "label without a score inf, so that it is kept."
    )
