"""What is the set: labels or intervals of each row, counted or written inside the engine."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import ibis
import numpy as np
from ibis import _

from metapac import data_checks as checks
from metapac._common import Array, Table, listed
from metapac.columns import Columns
from metapac.errors import InvalidInput
from metapac.predictors import ThresholdSets
from metapac.sets import ROUNDINGS, SetSummary, interval_radius, judge_empty, quantile_inset
from metapac.tables import engines, scores
from metapac.tables.data_checks import judge_sums
from metapac.tables.engines import as_int, constant_floats, constant_list, exact
from metapac.tables.scores import FEW_CLASSES, LARGEST, ClassScores, Precision, Rows
from metapac.tables.sources import Source


def is_kept(score: Any, cut: Any) -> Any:
    """Return whether a score is at least ``cut``, a number or an expression."""
    if not isinstance(cut, float):
        return score.cast("float64") >= cut
    if cut == -math.inf:
        return score.notnull()
    if cut == math.inf:
        return score.cast("float64") > exact(LARGEST)
    return score.cast("float64") >= exact(cut)


def smallest_kept_scores(thresholds: Array, calibrated: Precision, precision: Precision) -> Array:
    """Return for each threshold the smallest score that ``predict_set`` keeps.

    Sets are decided in the coarser of two precisions. Rounding preserves order, so that all finer
    numbers from some number on are kept: from the middle between two coarse numbers, or above it.
    """
    coarse = min(precision, calibrated, key=lambda dtype: dtype.itemsize)
    with np.errstate(over="ignore"):  # overflow to inf is intended; it preserves order
        rounded = thresholds.astype(coarse)
    if coarse == precision:
        return rounded.astype(np.float64)
    edge = np.ldexp(precision.type(1), np.finfo(coarse).maxexp)  # where coarse numbers overflow
    ends = [
        x.astype(precision).clip(-edge, edge) for x in (engines.previous_float(rounded), rounded)
    ]
    middle = (ends[0] + ends[1]) / 2  # between one that is dropped and one that is kept: exact
    with np.errstate(over="ignore"):
        kept = np.where(middle.astype(coarse) >= rounded, middle, engines.next_float(middle))
    return np.where(rounded == -np.inf, -np.inf, kept).astype(np.float64)


@dataclass(frozen=True)
class IntervalSummary:
    """How wide the intervals of a table are."""

    rows: int
    infinite: int
    mean_width: float | None
    median_width: float | None
    empty: int = 0  # their width counts as 0

    def warnings(self, epsilon: float) -> list[str]:
        """Return what looks wrong."""
        if not self.infinite:
            return judge_empty(self.empty, self.rows, epsilon, ("intervals", "number"))
        which = "All" if self.infinite == self.rows else f"{self.infinite} of {self.rows}"
        text = "intervals are infinite: the calibration tasks were too few or too small"
        return [f"{which} {text}."]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them."""
        return dict(vars(self))

    def __str__(self) -> str:
        """Return the figures as text."""
        text = f"{self.rows:,} intervals"
        if self.mean_width is not None:
            text += f": width {self.mean_width:.4g} on average, median {self.median_width:.4g}"
        for kind in ("infinite", "empty"):
            count = getattr(self, kind)
            text += f"; {count:,} {kind}" if count else ""
        return f"{text}."


def find_ends(threshold: float, precision: Precision, numbers: scores.Numbers) -> tuple[Any, Any]:
    """Return the ends of each interval, as ``predict_interval`` computes them."""
    parts, infinity = numbers.parts, ibis.literal(math.inf, "float64")
    if "lower" in parts:
        inward, slack = quantile_inset(threshold, precision)
        if inward == -math.inf:
            return -infinity, infinity
        lower, upper = parts["lower"], parts["upper"]
        lower = lower + exact(inward) - (exact(ROUNDINGS) * lower.abs() + exact(slack))
        upper = upper - exact(inward) + (exact(ROUNDINGS) * upper.abs() + exact(slack))
        is_empty = ~(lower <= upper)
        return is_empty.ifelse(infinity, lower), is_empty.ifelse(-infinity, upper)
    widest, relative, absolute = interval_radius(threshold, precision)
    if widest == math.inf:
        return -infinity, infinity
    centre, radius = parts["prediction"], exact(widest)
    if "scale" in parts:
        radius = radius * parts["scale"]
    radius = radius + exact(relative) * (centre.abs() + radius) + exact(absolute)
    return centre - radius, centre + radius


def find_width(lower: Any, upper: Any) -> Any:
    """Return the width of each interval; 0 of an empty one."""
    return (lower <= upper).ifelse(upper - lower, 0.0)


def summarise_intervals(source: Source, lower: Any, upper: Any) -> IntervalSummary:
    """Return how wide intervals are, counted inside the engine."""
    table = source.table.select(width=find_width(lower, upper), is_empty=lower > upper)
    is_finite = table.width <= exact(LARGEST)
    mean, finite = table.width.mean(where=is_finite), table.filter(is_finite)
    with source.reading():
        counts = {"finite": _.count(where=is_finite), "empty": _.count(where=_.is_empty)}
        found = source.run(table.agg(all=_.count(), **counts, mean=mean))
        rows, count, empty, mean = (column[0].as_py() for column in found.columns)
        if not count:
            return IntervalSummary(rows, rows, None, None)
        if source.traits.has_median:
            middle = finite.agg(width=finite.width.median())
        else:
            middle = finite.order_by("width").limit(2 - count % 2, offset=(count - 1) // 2)
        widths = source.run(middle)["width"].to_pylist()
    return IntervalSummary(rows, rows - count, mean, float(sum(widths) / len(widths)), empty)


@dataclass(frozen=True)
class KeptLabels:
    """The labels in the set of each row, as expressions.

    With few columns there is an expression for each class. With many, or with lists, one
    expression handles them all, so that its size does not grow with the number of classes.
    """

    of_classes: ClassScores
    cuts: Sequence[Any]  # the smallest score that is kept: of all classes, or of each

    @cached_property
    def each(self) -> list[Any]:
        """Whether each class is in the set."""
        cuts = [*self.cuts] * (len(self.of_classes.names) if len(self.cuts) == 1 else 1)
        return [is_kept(*pair) for pair in zip(self.of_classes.scores, cuts, strict=True)]

    def _map(self, entry: Callable[[Any], Any]) -> Any:
        """Return an entry for each position in the set, as a list; needs ``of_classes.lists``."""
        by_class = None if len(self.cuts) == 1 else constant_floats([*self.cuts])

        def entry_or_null(score: Any, position: Any) -> Any:
            place = position.cast("int32")
            cut = self.cuts[0] if by_class is None else by_class[place]
            value = entry(place)
            return is_kept(score, cut).ifelse(value, ibis.null(value.type()))

        return self.of_classes.lists.map(entry_or_null).filter(lambda value: value.notnull())

    @cached_property
    def positions(self) -> Any:
        """Positions of the classes in the set, as a list; needs ``of_classes.lists``."""
        return self._map(lambda position: position)

    @cached_property
    def row_labels(self) -> Any:
        """The labels in the set, as a list; needs ``of_classes.row_names``."""
        return self._map(lambda position: self.of_classes.row_names[position])

    @property
    def kind(self) -> str:
        """Type of the labels: numbers if all of them are, otherwise text."""
        are_numbers = all(isinstance(name, int) for name in self.of_classes.names)
        return "int64" if are_numbers else "string"

    def _label_each(self) -> list[tuple[Any, Any]]:
        """Return for each class whether it is in the set, and its label."""
        as_kind = int if self.kind == "int64" else str
        labels = [ibis.literal(as_kind(name), self.kind) for name in self.of_classes.names]
        return [*zip(self.each, labels, strict=True)]

    @cached_property
    def size(self) -> Any:
        """Number of labels in the set."""
        if self.of_classes.lists is None:
            return engines.add_up([as_int(is_in_set) for is_in_set in self.each])
        if len(self.cuts) == 1:  # Ibis lets PostgreSQL use positions once in a query
            return self.of_classes.lists.filter(lambda x: is_kept(x, self.cuts[0])).length()
        return self.positions.length()

    @cached_property
    def answer(self) -> Any:
        """The label of a set of one, otherwise null."""
        if self.of_classes.lists is None or 0 < len(self.of_classes.names) <= FEW_CLASSES:
            label = ibis.cases(*self._label_each())
        else:
            label = self.as_list()[0]
        return (self.size == 1).ifelse(label, ibis.null(label.type()))

    def as_list(self) -> Any:
        """Return the labels as a list, on an engine that has lists."""
        if self.of_classes.row_names is not None:
            return self.row_labels
        if self.of_classes.lists is not None:
            texts = constant_list([str(name) for name in self.of_classes.names])
            return self.positions.map(lambda i: texts[i].cast(self.kind))
        pairs = self._label_each()
        each = [is_in_set.ifelse(label, ibis.null(self.kind)) for is_in_set, label in pairs]
        return ibis.array(each).filter(lambda label: label.notnull())

    def as_text(self) -> Any:
        """Return the labels as JSON text; not every engine has lists."""
        if self.of_classes.row_names is not None:
            return _join(self.row_labels.map(_as_json))
        texts = [json.dumps(name, ensure_ascii=False) for name in self.of_classes.names]
        if self.of_classes.lists is not None:
            labels = constant_list(texts)
            return _join(self.positions.map(lambda i: labels[i]))
        pairs = zip(self.each, texts, strict=True)
        return (
            "["
            + engines.add_up([kept.ifelse(f", {text}", "") for kept, text in pairs]).substr(2)
            + "]"
        )


def _join(texts: Any) -> Any:
    return "[" + ibis.coalesce(texts.join(", "), "") + "]"


def lists_as_text(table: Any) -> dict[str, Any]:
    """Return the columns of lists of texts as JSON text, for formats without lists."""
    columns = {name: table[name] for name in table.columns}
    return {
        name: column.notnull().ifelse(_join(column.map(_as_json)), ibis.null("string"))
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
        cut = engines.pick(constant_floats([*cuts]), constant_list(texts).index(labels))
        return score.cast("float64") >= cut
    pairs = zip(texts, cuts, strict=True)
    return ibis.cases(*((labels == text, is_kept(score, cut)) for text, cut in pairs))


_COMPARISONS = 240  # of a score with a threshold, in one query
_KINDS = {"empty": 0, "single": 1, "full": None}  # sets that are counted, by their size; or all
_SHOWN = 1000  # classes whose missing scores are counted one by one


def count_trials(
    rows: Rows, thresholds: Array, precision: Precision, tasks: Array | None
) -> Iterator[dict[str, list[Any]]]:
    """Yield for each trial the task and the label of each group, and its counts.

    ``thresholds`` has shape (trials, tasks or 1, classes or 1); its tasks are named by ``tasks``.
    """
    flat = smallest_kept_scores(np.ravel(thresholds), precision, rows.precision)
    cuts = flat.reshape(thresholds.shape)
    width = 1 if rows.class_scores is None else max(len(rows.class_scores.names), 1)
    step = max(1, _COMPARISONS // width)
    for first in range(0, len(cuts), step):
        some = slice(first, first + step)
        found = _count_some(rows, cuts[some], thresholds[some], precision, tasks)
        shared = {name: column for name, column in found.items() if "@" not in name}
        for i in range(len(cuts[some])):
            own = {k.partition("@")[0]: v for k, v in found.items() if k.endswith(f"@{i}")}
            yield shared | own


def _count_some(
    rows: Rows, cuts: Array, thresholds: Array, precision: Precision, tasks: Array | None
) -> dict[str, Any]:
    """Count examples, misses, and the labels, widths and kinds of sets, for some trials."""
    source, of_classes = rows.source, rows.class_scores
    by = {"task": rows.group} | ({} if rows.names is None else {"label": rows.labels})
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
        if rows.numbers is not None:
            ends = find_ends(float(thresholds[i, 0, 0]), precision, rows.numbers)
            columns[f"width@{i}"] = find_width(*ends)
    more = {}
    if of_classes is not None:
        more = {"classes": of_classes.width, "unusable": as_int(of_classes.lacks_scores(source))}
    table = table.select(**by, **columns, **more)
    sums = {name: table[name].sum() for name in (*columns, *more) if name != "classes"}
    for i in range(len(chosen) if more else 0):
        for name, size in _KINDS.items():
            wanted = table.classes if size is None else size
            sums[f"{name}@{i}"] = table.count(where=table[f"labels@{i}"] == wanted)
    counts = source.run(table.group_by([*by]).agg(examples=_.count(), **sums))
    result = counts.sort_by([(name, "ascending") for name in by]).to_pydict()
    if any(result.pop("unusable", ())):
        assert rows.class_scores is not None
        check_class_scores(source, rows.class_scores)
    return dict(result)


def _join_cuts(
    rows: Rows, of_classes: ClassScores, cuts: Array, tasks: Array
) -> tuple[Any, ClassScores, list[list[Any]]]:
    """Return task, label and scores of each row beside the thresholds of its task."""
    each = {f"score{j}": score.cast("float64") for j, score in enumerate(of_classes.scores)}
    own = {"task": rows.task, "label": rows.labels, "score": rows.score}
    examples = rows.source.table.select(**own, **each)
    names = [[f"cut{i}_{j}" for j in range(cuts.shape[2])] for i in range(len(cuts))]
    columns = {name: cuts[i, :, j] for i, row in enumerate(names) for j, name in enumerate(row)}
    table = examples.join(
        engines.upload(examples.schema()["task"], tasks.tolist(), **columns), "task"
    )
    joined = replace(of_classes, each=[table[name] for name in each], lists=None)
    return table, joined, [[table[name] for name in row] for row in names]


def check_class_scores(source: Source, of_classes: ClassScores) -> None:
    """Raise InvalidInput if a score of a class is null or NaN."""
    with source.reading(of_classes.columns):
        rows, bad = source.count(bad=of_classes.lacks_scores(source))
        _check_usable(source, of_classes, bad, rows)


def count_sets(source: Source, kept: KeptLabels) -> SetSummary:
    """Return a summary of the sets, or raise InvalidInput if a score is null or NaN."""
    of_classes = kept.of_classes
    is_wide = of_classes.lists is None
    ends = _ends(of_classes)
    each = {f"in{i}": as_int(is_in) for i, is_in in enumerate(kept.each)} if is_wide else {}
    bad = of_classes.lacks_scores(source)
    table = source.table.select(size=kept.size, classes=of_classes.width, bad=bad, **ends, **each)
    sums = {"rows": table.count(), "bad": table.count(where=table.bad)}
    for name, size in _KINDS.items():
        sums[name] = table.count(where=table["size"] == (table.classes if size is None else size))
    sums |= {name: table[name].sum() for name in ("size", *each)}
    for name in ends:
        sums[name] = table[name].min() if name.startswith("low") else table[name].max()
    with source.reading(of_classes.columns):
        found = source.run(table.agg(**sums)).to_pylist()[0]
        _check_usable(source, of_classes, found["bad"], found["rows"])
        counts = [found[name] or 0 for name in each] if is_wide else _count_positions(source, kept)
    rows = found["rows"]
    known = {name: float(found[name]) for name in ends if found[name] is not None}
    lows, highs = ([x for k, x in known.items() if k.startswith(end)] for end in ("low", "high"))
    empty, single, full = (found[name] or 0 for name in _KINDS)
    mean_size = (found["size"] or 0) / rows if rows else float("nan")
    by_class = dict(zip(of_classes.names, counts, strict=True))
    low, high = min(lows, default=None), max(highs, default=None)
    return SetSummary(rows, empty, single, full, mean_size, by_class, low, high)


def _ends(of_classes: ClassScores) -> dict[str, Any]:
    """Return the lowest and the highest finite score, of each class or of each list."""

    def finite(score: Any) -> Any:
        return score.cast("float64").between(exact(-LARGEST), exact(LARGEST))

    if of_classes.lists is not None:
        numbers = of_classes.lists.filter(finite)
        return {"low": numbers.mins(), "high": numbers.maxs()}
    ends = [finite(score).ifelse(score, ibis.null()) for score in of_classes.scores]
    return {f"{end}{i}": score for end in ("low", "high") for i, score in enumerate(ends)}


def _count_positions(source: Source, kept: KeptLabels) -> list[int]:
    """Return how many sets contain each class; nothing if classes differ from row to row."""
    if kept.of_classes.row_names is not None:
        return []
    entries = source.table.select(entry=kept.positions).select(entry=_.entry.unnest())
    found = source.run(entries.group_by("entry").agg(rows=_.count())).to_pydict()
    counts = dict(zip(found["entry"], found["rows"], strict=True))
    return [counts.get(position, 0) for position in range(len(kept.of_classes.names))]


def _check_usable(source: Source, of_classes: ClassScores, bad: int, rows: int) -> None:
    """Raise InvalidInput for nulls and NaN, and name the classes that have them."""
    if not bad:
        return
    source.check_text(of_classes.columns)
    by = ""
    if 0 < len(of_classes.names) <= _SHOWN:
        each = {f"bad{i}": ~source.is_usable(score) for i, score in enumerate(of_classes.scores)}
        counts = zip(of_classes.names, source.count(**each)[1:], strict=True)
        by = f" (by class, {listed([f'{name!r}: {count}' for name, count in counts if count])})"
    text = f"{source.name}: the scores of the classes hold nulls or NaN in {bad} of {rows}"
    text += f" rows{by}; a score that cannot be compared decides no set. Give a label without a"
    raise InvalidInput(f"{text} score inf, so that it is kept.")


class Sets(NamedTuple):
    """A table with its prediction sets."""

    table: Table
    classes: list[Any]
    summary: SetSummary | IntervalSummary
    warnings: list[str]
    epsilon: float
    is_compared: bool = False
    is_suspect: bool = False

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.summary.rows

    def to_dict(self) -> dict[str, Any]:
        """Return the summary of the sets as JSON can hold it."""
        summary = {"summary": self.summary.to_dict(), "warnings": self.warnings}
        return {"sets": self.rows, "classes": self.classes} | summary


def add_sets(
    promise: ThresholdSets,
    source: Source,
    columns: Columns,
    kept: KeptLabels,
    *,
    booleans: bool,
    answer: bool,
    allow: Iterable[str],
    as_text: bool,
) -> Sets:
    """Return the rows with their sets, not computed yet; the scores are checked first."""
    added = _make_columns(source, columns, kept, booleans=booleans, as_text=as_text)
    if answer:
        added["answer"] = kept.answer
    _check_new_columns(source, list(added))
    if as_text and source.traits.has_lists:
        added |= lists_as_text(source.table)
    names, calibrated, finding = kept.of_classes.names, promise._score_range, None
    summary, skipped = count_sets(source, kept), checks.check_allowed(allow)
    if calibrated is not None and summary.low is not None and summary.high is not None:
        finding = checks.judge_scale((summary.low, summary.high), calibrated, labelled=False)
    if finding is not None and finding.is_error:
        finding = judge_sums(source, kept.of_classes) or finding
    is_same = [*map(str, names)] == [*map(str, promise._known_classes or ())]
    then = promise._sets if is_same else None
    if finding is None and then is not None:
        finding = checks.judge_sets(then, summary.rows, summary.mean_size, summary.by_class)
    checks.report([finding], skipped, where=source.name)
    epsilon, table = _largest_epsilon(promise), source.table.mutate(**added)
    is_suspect = finding is not None and finding.check not in skipped
    if "sets" not in skipped:
        is_suspect |= 0 < summary.rows == summary.empty
        is_suspect |= bool(judge_empty(summary.empty, summary.rows, epsilon))
    warnings = summary.warnings(calibrated, None if "sets" in skipped else epsilon)
    return Sets(table, names, summary, warnings, epsilon, then is not None, is_suspect)


def _make_columns(
    source: Source, columns: Columns, kept: KeptLabels, *, booleans: bool, as_text: bool
) -> dict[str, Any]:
    """Return a column of booleans for each class, or a column of sets and one of their sizes."""
    if not booleans:
        is_text = as_text or not source.traits.has_lists
        return {"set": kept.as_text() if is_text else kept.as_list(), "set_size": kept.size}
    if kept.of_classes.row_names is not None:
        origin = columns.classes_column or columns.pattern
        text = f"booleans=True needs one fixed list of classes, and column {origin!r} gives each"
        raise InvalidInput(f"{text} row its own.")
    pairs = zip(kept.of_classes.names, kept.each, strict=True)
    return {f"in_{name}": is_in for name, is_in in pairs}


def add_intervals(promise: ThresholdSets, source: Source, columns: Columns) -> Sets:
    """Return the rows with the ends of their intervals, not computed yet."""
    if promise.classes_ is not None:
        raise InvalidInput("intervals need one threshold, and a guarantee per class has several.")
    numbers = scores.find_numbers(source, columns, needs_y=False)
    lower, upper = find_ends(promise.threshold_, promise.precision_, numbers)
    _check_new_columns(source, ["lower", "upper"])
    summary = summarise_intervals(source, lower, upper)
    table = source.table.mutate(lower=lower, upper=upper)
    epsilon = _largest_epsilon(promise)
    warnings = summary.warnings(epsilon)
    return Sets(table, [], summary, warnings, epsilon, is_suspect=bool(summary.empty and warnings))


def _largest_epsilon(promise: ThresholdSets) -> float:
    each = promise.epsilon
    return float(max(each.values()) if isinstance(each, Mapping) else each)


def _check_new_columns(source: Source, names: list[str]) -> None:
    present = {name.lower() for name in source.table.columns}
    taken = [name for name in names if name.lower() in present]
    if taken:
        raise InvalidInput(f"{source.name} already has a column {taken[0]!r}. Rename or drop it.")
    engines.check_case_collisions("the result", names)
