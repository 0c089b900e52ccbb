"""How a guarantee fares on labelled new tasks: what `evaluate` returns."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._checks import listed
from metapac._types import Array, Floats, PathLike
from metapac.assessment.counts import ClassMisses, SetCounts
from metapac.explanation.words import Words, inflect
from metapac.sentences import format_share, percent
from metapac.verdict.intervals import clopper_pearson_interval
from metapac.verdict.verdict import Verdict
from metapac.verdict.wording import VIOLATED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A class is reported as neglected if it is missed this many times as often as epsilon, and its
# exact interval lies above epsilon.
_FAR = 2


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """How a guarantee fares on labelled new tasks, from ``evaluate`` and ``evaluate_table``.

    Tasks that were calibrated or trained on, and pilot tasks, are left out of everything but
    ``overlap``.

    Attributes
    ----------
    tasks : ndarray, shape (tasks,)
        The tasks, in ascending order.
    examples : ndarray of int, shape (tasks,)
        Number of examples of each task.
    missed : ndarray of int, shape (tasks,)
        Number of them whose set misses the true label.
    errors : ndarray of float, shape (tasks,)
        ``missed`` divided by ``examples``.
    low, high : ndarray of float, shape (tasks,)
        Exact 95% interval of each task's miss rate.
    sizes : ndarray of float, shape (tasks,), or None
        Mean set size of each task; None if only true labels have scores.
    sets : SetCounts or None
        Number of labels in sets, and of empty, single and full sets, of each task.
    epsilon : float or mapping from class to float
        Miss rate that the guarantee allows.
    min_examples : int
        Tasks with fewer examples are left out.
    left_out : int
        Number of tasks left out for that reason.
    overlap : tuple
        Tasks left out because they have the name of a calibration task.
    classes : tuple of ClassMisses, or None
        How often each class is missed; None if labels are not known.
    verdict : Verdict or None
        Whether the guarantee holds; None for a single class.
    by_class : mapping from class to Evaluation, or None
        The same for the examples of each class, with a guarantee per class.
    widths : ndarray of float, shape (tasks,), or None
        Mean width of the intervals of each task; None if there are no intervals.
    ranges : ndarray of float, shape (tasks, 2), or None
        Lowest and highest score of the true labels of each task, by which it is recognised.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import PS, evaluate
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> evaluation = evaluate(promise, [0.9, 0.5, 0.0, 0.7], ["a", "a", "b", "b"])
    >>> evaluation.within
    0.5
    >>> evaluation.verdict.status
    'cannot tell yet'
    >>> evaluation.to_pandas()[["task", "examples", "missed", "error"]]
      task  examples  missed  error
    0    a         2       0    0.0
    1    b         2       1    0.5
    """

    tasks: NDArray[Any]
    examples: NDArray[np.int64]
    missed: NDArray[np.int64]
    sets: SetCounts | None
    epsilon: Any
    min_examples: int = 1
    left_out: int = 0
    overlap: tuple[Any, ...] = ()
    classes: tuple[ClassMisses, ...] | None = None
    verdict: Verdict | None = None
    by_class: Mapping[Any, Evaluation] | None = None
    widths: NDArray[np.float64] | None = None
    ranges: Floats | None = None

    @cached_property
    def errors(self) -> NDArray[np.float64]:
        """Fraction of the examples of each task whose set misses the true label."""
        return np.asarray(self.missed / self.examples)

    @cached_property
    def sizes(self) -> NDArray[np.float64] | None:
        """Mean set size of each task; None if only true labels have scores."""
        return None if self.sets is None else np.asarray(self.sets.labels / self.examples)

    @cached_property
    def _interval(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return clopper_pearson_interval(self.missed, self.examples)

    @property
    def low(self) -> NDArray[np.float64]:
        """Lower end of the exact 95% interval of each task's miss rate."""
        return self._interval[0]

    @property
    def high(self) -> NDArray[np.float64]:
        """Upper end of the exact 95% interval of each task's miss rate."""
        return self._interval[1]

    @property
    def within(self) -> float:
        """Fraction of the tasks whose error is at most ``epsilon``; NaN without tasks.

        With a guarantee per class, it is the smallest fraction of all classes that have tasks.
        """
        if self.by_class is not None:
            fractions = [part.within for part in self.by_class.values() if len(part.tasks)]
            return min(fractions, default=math.nan)
        return float(np.mean(self.errors <= self.epsilon)) if len(self.tasks) else math.nan

    @property
    def set_shares(self) -> dict[str, float] | None:
        """Fractions of empty, single and full sets; None if only true labels have scores."""
        if self.sets is None or not len(self.tasks):
            return None
        total = int(self.examples.sum())
        names = ("empty", "single", "full")
        return {name: int(getattr(self.sets, name).sum()) / total for name in names}

    @property
    def neglected(self) -> list[ClassMisses]:
        """Classes missed far more often than epsilon, the most often first.

        Their miss rate is at least twice epsilon and its exact interval lies above epsilon. A
        guarantee for all classes together does not rule this out.
        """
        if self.by_class is not None or isinstance(self.epsilon, Mapping):
            return []
        far = [
            part
            for part in self.classes or ()
            if part.low > self.epsilon and part.error >= _FAR * self.epsilon
        ]
        return sorted(far, key=lambda part: -part.error)

    def worst(self, number: int = 5) -> list[dict[str, Any]]:
        """Return the tasks with the strongest evidence of a miss rate above epsilon.

        They are ordered by the probability that a task with miss rate epsilon shows as many
        misses, the smallest first. A small task with one miss is not worse than a large one with
        many.

        Parameters
        ----------
        number : int, default 5
            How many to return at most.

        Returns
        -------
        list of dict
            Task, with a guarantee per class the class, then the columns of ``to_pandas``.
        """
        parts = {None: self} if self.by_class is None else self.by_class
        chosen = [(key, label, i) for label, part in parts.items() for i, key in part._order()]
        chosen.sort(key=lambda entry: entry[0])
        places: dict[Any, list[int]] = {label: [] for label in parts}
        for _key, label, i in chosen[:number]:
            places[label].append(i)
        rows = {label: parts[label]._rows(places[label], label) for label in parts}
        return [next(rows[label]) for _key, label, _i in chosen[:number]]

    def _order(self) -> list[tuple[int, tuple[float, float]]]:
        """Return for each task its index, and a key that is small for bad tasks."""
        tail = special.bdtrc(self.missed - 1.0, self.examples, self.epsilon)
        chances = np.where(self.missed > 0, tail, 1.0).tolist()
        keys = zip(chances, (-self.errors).tolist(), strict=True)
        return list(enumerate(keys))

    def _rows(self, places: list[int], label: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of some tasks; each column is converted once, not for each task."""
        index = np.array(places, dtype=np.intp)
        named = {} if label is None else {"class": [label] * len(index)}
        columns = {name: column[index].tolist() for name, column in self._columns().items()}
        columns = {"task": self.tasks[index].tolist()} | named | columns
        return (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))

    def _columns(self) -> dict[str, Array]:
        """Return the columns of each task, but for its name."""
        columns: dict[str, Array] = {
            "examples": self.examples,
            "missed": self.missed,
            "error": self.errors,
            "low": self.low,
            "high": self.high,
        }
        if self.sets is not None and self.sizes is not None:
            columns |= {"set_size": self.sizes}
            columns |= {name: getattr(self.sets, name) for name in ("empty", "single", "full")}
        return columns if self.widths is None else columns | {"width": self.widths}

    def to_pandas(self) -> Any:
        """Return a frame with a row for each task.

        Its columns are task, examples, missed, error, low and high (the exact 95% interval of the
        miss rate) and, if every class has scores, set_size, empty, single and full (numbers of
        sets); for intervals, their mean width. With a guarantee per class, there is a row for each
        class of each task, and the column class.

        Returns
        -------
        pandas.DataFrame
            The frame.
        """
        import pandas as pd

        if self.by_class is not None:
            frames = {label: part.to_pandas() for label, part in self.by_class.items()}
            for label, frame in frames.items():
                frame.insert(1, "class", label)
            return pd.concat(frames.values(), ignore_index=True)
        return pd.DataFrame({"task": self.tasks} | self._columns())

    def plot(self, path: PathLike | None = None) -> Figure:
        """Draw the miss rate of each task with its interval, the set sizes and the classes.

        Parameters
        ----------
        path : path-like, optional
            File to write, in the format of its extension.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.

        Raises
        ------
        MissingExtra
            If Matplotlib is not installed.
        """
        from metapac import plots

        return plots.draw_evaluation(self, path=path)

    def __repr__(self) -> str:
        unit, units = inflect("task" if self.verdict is None else self.verdict.unit)
        if not len(self.tasks):
            return f"<Evaluation of 0 {units} ({self.left_out} left out)>"
        count = f"{len(self.tasks)} {unit if len(self.tasks) == 1 else units}"
        left_out = f" ({self.left_out} left out)" if self.left_out else ""
        status = "" if self.verdict is None else f" {self.verdict.status};"
        size = "" if self.sizes is None else f", mean set size {np.mean(self.sizes):.4g}"
        size += "" if self.widths is None else f", mean width {np.mean(self.widths):.4g}"
        size += f" over {units}" if size else ""
        epsilon = "its epsilon" if isinstance(self.epsilon, Mapping) else f"{self.epsilon:g}"
        share = f"{format_share(self.within)} of them"
        if self.by_class is not None:
            share = f"at least {share} for each of {len(self.by_class)} classes"
        missed = "".join(
            f", class {part.label} missed in {part.missed} of {part.examples}"
            for part in self.neglected[:1]
        )
        return (
            f"<Evaluation of {count}{left_out}:{status} error at most {epsilon} on {share}, mean "
            f"error {format_share(float(np.mean(self.errors)))}{size}{missed}>"
        )

    def _repr_html_(self) -> str:
        """Return the verdict and the misses of each class for notebooks."""
        if self.verdict is None:
            return f"<p>{html.escape(repr(self))}</p>"
        rows = [
            f"<tr><td>{html.escape(str(part.label))}</td><td>{part.missed} of {part.examples}</td>"
            f"<td>{format_share(part.error)}</td>"
            f"<td>{format_share(part.low)} to {format_share(part.high)}</td></tr>"
            for part in sorted(self.classes or (), key=lambda part: -part.low)[:20]
        ]
        head = "<tr><th>class</th><th>missed</th><th>share</th><th>95% interval</th></tr>"
        table = f"<table>{head}{''.join(rows)}</table>" if rows else ""
        return (
            f"<p><b>{html.escape(self.verdict.sentence())}</b></p>"
            f"<p>{html.escape(repr(self)[1:-1])}</p>{table}"
        )


def describe_neglected(evaluation: Evaluation, words: Words, remedy: str) -> str:
    """Return which classes are missed far more often than epsilon; empty if none is.

    Parameters
    ----------
    evaluation : Evaluation
        The evaluation.
    words : Words
        What tasks and examples are called.
    remedy : str
        A sentence to end with, unless the guarantee is violated: that has other causes.

    Returns
    -------
    str
        The classes, most often missed first, and why the guarantee allows it.
    """
    rates = [
        f"{part.label} in {part.missed:,} of {words.count_examples(part.examples)} "
        f"({format_share(part.error)})"
        for part in evaluation.neglected
    ]
    if not rates:
        return ""
    subject = "a class is" if len(rates) == 1 else f"{len(rates):,} classes are"
    limit = percent(evaluation.epsilon)
    text = f"{subject} missed far more often than {limit}: {listed(rates, shown=3)}."
    if evaluation.verdict is not None and evaluation.verdict.status == VIOLATED:
        return text
    return f"{text} The guarantee is for all classes together and does not rule this out. {remedy}"
