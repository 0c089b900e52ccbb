"""Sets in tables: labels kept, misses and sizes, counted inside the engine."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import ibis
import numpy as np
from ibis import _

from metapac._common import Array, listed
from metapac.errors import InvalidInput
from metapac.sets import SetSummary, interval_radius
from metapac.tables.expressions import (
    add_up,
    as_int,
    constant_floats,
    constant_list,
    exact,
    float_to_ordinal,
    ordinal_to_float,
    pick,
    previous_float,
    upload,
)
from metapac.tables.scores import FEW_CLASSES, ClassScores, Precision, Residuals, Rows, is_usable
from metapac.tables.sources import Source


def is_kept(score: Any, cut: Any) -> Any:
    """Return whether a score is at least ``cut``, a number or an expression."""
    if not isinstance(cut, float):
        return score.cast("float64") >= cut
    if cut == -math.inf:
        return score.notnull()
    if cut == math.inf:
        return score.cast("float64") > exact(float(np.finfo(np.float64).max))
    return score.cast("float64") >= exact(cut)


def smallest_kept_scores(thresholds: Array, calibrated: Precision, precision: Precision) -> Array:
    """Return for each threshold the smallest score that ``predict_set`` keeps.

    Sets are decided in the coarser of two precisions. Rounding preserves order, so that all finer
    numbers from some number on are kept. Bisection finds that number.
    """
    coarse = min(precision, calibrated, key=lambda dtype: dtype.itemsize)
    with np.errstate(over="ignore"):  # overflow to inf is intended; it preserves order
        rounded = thresholds.astype(coarse)
    if coarse == precision:
        return rounded.astype(np.float64)
    kept, dropped = (
        float_to_ordinal(x.astype(precision)) for x in (rounded, previous_float(rounded))
    )
    while (kept - dropped > 1).any():
        middle = dropped + (kept - dropped) // 2
        with np.errstate(over="ignore"):
            keeps = ordinal_to_float(middle, precision).astype(coarse) >= rounded
        kept, dropped = np.where(keeps, middle, kept), np.where(keeps, dropped, middle)
    return ordinal_to_float(kept, precision).astype(np.float64)


@dataclass(frozen=True)
class IntervalSummary:
    """How wide the intervals of a table are."""

    rows: int
    infinite: int
    mean_width: float | None
    median_width: float | None

    def warnings(
        self, calibrated: tuple[float, float] | None = None, epsilon: float | None = None
    ) -> list[str]:
        """Return what looks wrong."""
        if not self.infinite:
            return []
        which = "All" if self.infinite == self.rows else f"{self.infinite} of {self.rows}"
        return [
            f"{which} intervals are infinite: the calibration tasks were too few or too small for "
            "a finite threshold."
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return dict(vars(self))


def find_ends(threshold: float, precision: Precision, residuals: Residuals) -> tuple[Any, Any]:
    """Return the ends of each interval, as ``predict_interval`` computes them."""
    widest, relative, absolute = interval_radius(threshold, precision)
    if widest == math.inf:
        end = ibis.literal(math.inf, "float64")
        return -end, end
    centre, radius = residuals.prediction, exact(widest)
    if residuals.scale is not None:
        radius = radius * residuals.scale
    radius = radius + exact(relative) * (centre.abs() + radius) + exact(absolute)
    return centre - radius, centre + radius


def summarise_intervals(source: Source, lower: Any, upper: Any) -> IntervalSummary:
    """Return how wide intervals are, counted inside the engine."""
    width = upper - lower
    table = source.table.select(width=width)
    is_finite = table.width <= exact(float(np.finfo(np.float64).max))
    finite = table.filter(is_finite)
    with source.reading():
        rows = source.run(table.agg(rows=table.count()))["rows"][0].as_py()
        found = source.run(finite.agg(rows=finite.count(), mean=finite.width.mean()))
        count, mean = (found[name][0].as_py() for name in ("rows", "mean"))
        median = _median(source, finite, count)
    return IntervalSummary(rows, rows - count, mean, median)


def _median(source: Source, table: Any, rows: int) -> float | None:
    """Return the median width, also on an engine that cannot compute one."""
    if not rows:
        return None
    if source.traits.has_median:
        middle = table.agg(width=table.width.median())
    else:
        middle = table.order_by("width").limit(2 - rows % 2, offset=(rows - 1) // 2)
    values = source.run(middle)["width"].to_pylist()
    return float(sum(values) / len(values))


@dataclass(frozen=True)
class KeptLabels:
    """The labels in the set of each row, as expressions.

    With few columns there is an expression for each class. With many, or with lists, one
    expression handles them all, so that its size does not grow with the number of classes.
    """

    of_classes: ClassScores
    cuts: Sequence[Any]  # the smallest score that is kept: of all classes, or of each

    @classmethod
    def from_thresholds(
        cls, of_classes: ClassScores, thresholds: Array, precision: Precision
    ) -> KeptLabels:
        """Return the labels that thresholds keep, calibrated at a precision."""
        cuts = smallest_kept_scores(np.ravel(thresholds), precision, of_classes.precision)
        return cls(of_classes, cuts.tolist())

    @cached_property
    def each(self) -> list[Any]:
        """Whether each class is in the set."""
        cuts = [*self.cuts] * (len(self.of_classes.names) if len(self.cuts) == 1 else 1)
        return [is_kept(*pair) for pair in zip(self.of_classes.scores, cuts, strict=True)]

    @cached_property
    def positions(self) -> Any:
        """Positions of the classes in the set, as a list; needs ``of_classes.lists``."""
        shared = len(self.cuts) == 1
        by_class: Any = None if shared else constant_floats([*self.cuts])

        def position_or_null(score: Any, position: Any) -> Any:
            cut = self.cuts[0] if shared else by_class[position.cast("int32")]
            return is_kept(score, cut).ifelse(position.cast("int32"), ibis.null("int32"))

        return self.of_classes.lists.map(position_or_null).filter(lambda i: i.notnull())

    @cached_property
    def row_labels(self) -> Any:
        """The labels in the set, as a list; needs ``of_classes.row_names``."""
        names = self.of_classes.row_names
        no_name = ibis.null(names.type().value_type)

        def name_or_null(score: Any, position: Any) -> Any:
            return is_kept(score, self.cuts[0]).ifelse(names[position.cast("int32")], no_name)

        return self.of_classes.lists.map(name_or_null).filter(lambda name: name.notnull())

    @cached_property
    def size(self) -> Any:
        """Number of labels in the set."""
        if self.of_classes.lists is None:
            return add_up([as_int(is_in_set) for is_in_set in self.each])
        if len(self.cuts) == 1:  # Ibis lets PostgreSQL use positions once in a query
            return self.of_classes.lists.filter(lambda x: is_kept(x, self.cuts[0])).length()
        return self.positions.length()

    @cached_property
    def answer(self) -> Any:
        """The label of a set of one, otherwise null."""
        names, lists = self.of_classes.names, self.of_classes.lists
        if lists is None or 0 < len(names) <= FEW_CLASSES:
            kind = "int64" if all(isinstance(name, int) for name in names) else "string"
            cases = [
                (is_in_set, ibis.literal(name if kind == "int64" else str(name), kind))
                for name, is_in_set in zip(names, self.each, strict=True)
            ]
            return (self.size == 1).ifelse(ibis.cases(*cases), ibis.null(kind))
        labels = self.as_list()
        return (self.size == 1).ifelse(labels[0], ibis.null(labels.type().value_type))

    def as_list(self) -> Any:
        """Return the labels as a list, on an engine that has lists."""
        if self.of_classes.row_names is not None:
            return self.row_labels
        names = self.of_classes.names
        kind = "int64" if all(isinstance(name, int) for name in names) else "string"
        if self.of_classes.lists is not None:
            labels = constant_list([str(name) for name in names])
            return self.positions.map(lambda i: labels[i].cast(kind))
        label_or_null = [
            is_in_set.ifelse(
                ibis.literal(name if kind == "int64" else str(name), kind), ibis.null(kind)
            )
            for name, is_in_set in zip(names, self.each, strict=True)
        ]
        return ibis.array(label_or_null).filter(lambda label: label.notnull())

    def as_text(self) -> Any:
        """Return the labels as JSON text; not every engine has lists."""
        if self.of_classes.row_names is not None:
            joined = self.row_labels.map(_as_json).join(", ")
            return "[" + ibis.coalesce(joined, "") + "]"
        texts = [json.dumps(name, ensure_ascii=False) for name in self.of_classes.names]
        if self.of_classes.lists is not None:
            labels = constant_list(texts)
            joined = self.positions.map(lambda i: labels[i]).join(", ")
            return "[" + ibis.coalesce(joined, "") + "]"
        parts = [
            is_in_set.ifelse(f", {text}", "")
            for text, is_in_set in zip(texts, self.each, strict=True)
        ]
        return "[" + add_up(parts).substr(2) + "]"


def lists_as_text(table: Any) -> dict[str, Any]:
    """Return the columns of lists of texts as JSON text, for formats without lists."""
    columns = {name: table[name] for name in table.columns}
    return {
        name: column.notnull().ifelse(
            "[" + ibis.coalesce(column.map(_as_json).join(", "), "") + "]", ibis.null("string")
        )
        for name, column in columns.items()
        if column.type().is_array() and column.type().value_type.is_string()
    }


def _as_json(name: Any) -> Any:
    """Return a name as JSON text."""
    if not name.type().is_string():
        return name.cast("string")
    for character, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t")):
        name = name.replace(character, escaped)
    return ibis.literal('"') + name + '"'


def keeps_label(rows: Rows, cuts: Sequence[Any], score: Any, labels: Any) -> Any:
    """Return whether the set of each row contains its true label; ``cuts`` as in `KeptLabels`."""
    if len(cuts) == 1:
        return is_kept(score, cuts[0])
    texts = [str(name) for name in rows.names or ()]
    if len(texts) > FEW_CLASSES and rows.source.traits.has_lists and isinstance(cuts[0], float):
        cut = pick(constant_floats([*cuts]), constant_list(texts).index(labels))
        return score.cast("float64") >= cut
    pairs = zip(texts, cuts, strict=True)
    return ibis.cases(*((labels == text, is_kept(score, cut)) for text, cut in pairs))


# Comparisons of a score with a threshold in one query.
_COMPARISONS = 240


def count_trials(
    rows: Rows, thresholds: Array, precision: Precision, tasks: Array | None
) -> tuple[list[Any], list[Any] | None, list[dict[str, Array]]]:
    """Return task and label of each group, and its counts for each trial.

    ``thresholds`` has shape (trials, tasks or 1, classes or 1); its tasks are named by ``tasks``.
    """
    flat = smallest_kept_scores(np.ravel(thresholds), precision, rows.precision)
    cuts = flat.reshape(thresholds.shape)
    width = 1 if rows.class_scores is None else max(len(rows.class_scores.names), 1)
    step = max(1, _COMPARISONS // width)
    found = [
        _count_some(rows, cuts[i : i + step], thresholds[i : i + step], precision, tasks)
        for i in range(0, len(cuts), step)
    ]
    first = found[0]
    order = {key: i for i, key in enumerate(_keys(first))}
    counts = []
    for part in found:
        place = np.argsort([order[key] for key in _keys(part)])  # engines return them in any order
        columns = {name: np.array(column)[place] for name, column in part.items()}
        for i in range(sum(name.startswith("missed@") for name in part)):
            own = {k.partition("@")[0]: v for k, v in columns.items() if k.endswith(f"@{i}")}
            counts.append({"examples": columns["examples"], **own})
    return first["task"], first.get("label"), counts


def _keys(counts: dict[str, list[Any]]) -> list[Any]:
    """Return task and label of each group."""
    return [*zip(*(counts[name] for name in ("task", "label") if name in counts), strict=True)]


def _count_some(
    rows: Rows, cuts: Array, thresholds: Array, precision: Precision, tasks: Array | None
) -> dict[str, Any]:
    """Count examples, misses, and the labels, widths and kinds of sets, for some trials."""
    source, of_classes = rows.source, rows.class_scores
    by = {"task": rows.task} | ({} if rows.names is None else {"label": rows.labels})
    table, score, labels, chosen = source.table, rows.score, rows.labels, cuts[:, 0].tolist()
    if tasks is not None:
        assert of_classes is not None
        table, of_classes, chosen = _join_cuts(rows, of_classes, cuts, tasks)
        by, score, labels = {"task": table.task, "label": table.label}, table.score, table.label
    columns: dict[str, Any] = {}
    for i, own in enumerate(chosen):
        columns[f"missed@{i}"] = as_int(~keeps_label(rows, own, score, labels))
        if of_classes is not None:
            columns[f"labels@{i}"] = KeptLabels(of_classes, own).size
        if rows.residuals is not None:
            lower, upper = find_ends(float(thresholds[i, 0, 0]), precision, rows.residuals)
            columns[f"width@{i}"] = upper - lower
    if of_classes is not None:
        unusable = as_int(lacks_scores(source, of_classes))
        columns |= {"unusable": unusable, "classes": of_classes.width}
    table = table.select(**by, **columns)
    sums = {name: table[name].sum() for name in columns if name != "classes"}
    for i in range(len(chosen) if of_classes is not None else 0):
        size = table[f"labels@{i}"]
        for name, number in (("empty", 0), ("single", 1), ("full", table.classes)):
            sums[f"{name}@{i}"] = table.count(where=size == number)
    result = source.run(table.group_by([*by]).agg(examples=_.count(), **sums)).to_pydict()
    if any(result.pop("unusable", ())):
        assert rows.class_scores is not None
        check_class_scores(source, rows.class_scores)
    return dict(result)


def _join_cuts(
    rows: Rows, of_classes: ClassScores, cuts: Array, tasks: Array
) -> tuple[Any, ClassScores, list[list[Any]]]:
    """Return task, label and scores of each row beside the thresholds of its task."""
    scores = {f"score{j}": score.cast("float64") for j, score in enumerate(of_classes.scores)}
    own = {"task": rows.task, "label": rows.labels, "score": rows.score}
    examples = rows.source.table.select(**own, **scores)
    names = [[f"cut{i}_{j}" for j in range(cuts.shape[2])] for i in range(len(cuts))]
    columns = {name: cuts[i, :, j] for i, row in enumerate(names) for j, name in enumerate(row)}
    table = examples.join(upload(examples.schema()["task"], task=tasks, **columns), "task")
    joined = replace(of_classes, each=[table[name] for name in scores], lists=None)
    return table, joined, [[table[name] for name in row] for row in names]


_LARGEST = float(np.finfo(np.float64).max)


def lacks_scores(source: Source, of_classes: ClassScores) -> Any:
    """Return whether a score of the row is null or NaN."""
    if of_classes.lists is not None:
        return of_classes.lists.filter(lambda score: ~is_usable(source, score)).length() > 0
    return add_up([as_int(~is_usable(source, score)) for score in of_classes.scores]) > 0


def check_class_scores(source: Source, of_classes: ClassScores) -> int:
    """Return the number of rows, or raise InvalidInput if a score of a class is null or NaN."""
    return int(_count(source, of_classes, {})["rows"])


def count_sets(source: Source, kept: KeptLabels) -> SetSummary:
    """Return a summary of the sets, or raise InvalidInput if a score is null or NaN.

    Few columns take one pass over the table; lists take a second one, which counts the classes.
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
