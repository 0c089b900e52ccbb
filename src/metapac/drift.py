"""Drift: scores of new tasks compared with those of calibration, without labels.

It is a heuristic without a guarantee: scores may shift while the sets stay good, and the reverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from metapac._common import Array, Counts, check_same_length
from metapac._text import format_table
from metapac.context import Context
from metapac.errors import InvalidInput
from metapac.grouping import number_sorted
from metapac.inputs import as_score_array, as_task_ids, check_no_nan
from metapac.words import Words

# A task is unusual if at most one in so many calibration tasks differs as much from the others.
_ONE_IN = 20
# A warning comes with at most about this probability if nothing has changed.
_CHANCE = 0.01
_FEWEST = _ONE_IN - 1  # calibration tasks; with fewer, no task can be unusual
_SHOWN = 10  # tasks in a table


class Pool(NamedTuple):
    """Scores of tasks, equal ones counted together."""

    names: Array
    task: Counts
    value: NDArray[np.float64]
    number: Counts

    @classmethod
    def collect(cls, tasks: Any, value: Array, number: Counts) -> Self:
        """Return a pool from the task of each value."""
        return cls(*number_sorted(as_task_ids(tasks)), value.astype(np.float64), number)

    @property
    def sizes(self) -> Counts:
        """Number of examples of each task."""
        return np.bincount(self.task, self.number, len(self.names)).astype(np.int64)


class Shift(NamedTuple):
    """Comparison of the scores of a new task with those of calibration.

    Attributes
    ----------
    task, examples : object and int
        The task, and the number of its examples.
    higher : float
        Probability that an example of it has a higher score than one of a calibration task; equal
        scores count half.
    p_value : float
        Share of calibration tasks, this one included, that differ at least as much from the others,
        in standard errors; or the normal tail, if that is larger.
    """

    task: Any
    examples: int
    higher: float
    p_value: float

    @property
    def is_unusual(self) -> bool:
        """Whether few calibration tasks differ as much from the others."""
        return self.p_value <= 1 / _ONE_IN


@dataclass(frozen=True)
class Drift:
    """The scores of new tasks compared with those of calibration, from ``compare_scores``.

    Attributes
    ----------
    shifts : tuple of Shift
        The new tasks, in ascending order of their names.
    reference : int
        Number of calibration tasks.
    p_common : float
        p-value for a common shift of all new tasks, the larger one of a t-test and a Mann-Whitney
        test of ``higher`` of new and of calibration tasks. NaN with a single new task.
    unit, example : str
        What a task and an example are called.
    """

    shifts: tuple[Shift, ...]
    reference: int
    p_common: float
    unit: str = "task"
    example: str = "example"

    @property
    def unusual(self) -> list[Shift]:
        """The unusual tasks, the most unusual first."""
        return sorted((s for s in self.shifts if s.is_unusual), key=lambda s: -abs(s.higher - 0.5))

    @property
    def higher(self) -> float:
        """Mean of ``higher`` over the new tasks."""
        return float(np.mean([shift.higher for shift in self.shifts]))

    @property
    def expected(self) -> float:
        """Number of unusual tasks to expect if nothing has changed."""
        return len(self.shifts) * self._rarest / (self.reference + 1)

    @property
    def _rarest(self) -> int:
        """Number of calibration tasks, a new one included, that are called unusual."""
        return (self.reference + 1) // _ONE_IN

    @property
    def p_number(self) -> float:
        """p-value of the number of unusual tasks.

        All new tasks are compared with the same calibration tasks, so their p-values depend on each
        other. If nothing has changed, the number has a beta-binomial distribution.
        """
        from scipy import stats  # slow to import

        rest = self.reference + 1 - self._rarest
        chance = stats.betabinom(len(self.shifts), self._rarest, rest)
        return float(chance.sf(len(self.unusual) - 1))

    @property
    def is_suspicious(self) -> bool:
        """Whether more tasks are unusual, or the common shift is larger, than chance explains.

        A single new task is never suspicious.
        """
        return bool(self.p_number <= _CHANCE / 2 or self.p_common <= _CHANCE / 2)

    @property
    def _words(self) -> Words:
        return Words.from_context(Context(unit=self.unit, example=self.example))

    def sentence(self) -> str:
        """Return what was found, in words.

        Returns
        -------
        str
            Some sentences.
        """
        return f"{self.summary} To know, label {self._words.examples} and pass --state."

    @property
    def summary(self) -> str:
        """What was found, in words, for those who have labels too."""
        words, number = self._words, len(self.unusual)
        verdict = "Chance explains that."
        if len(self.shifts) == 1:
            verdict = f"One {words.unit} is too few to tell chance from change."
        if self.is_suspicious:
            verdict = "That is more than chance explains: the scores have changed."
        return (
            f"Without labels: {number} of {words.count_units(len(self.shifts))} "
            f"{'has' if number == 1 else 'have'} unusual scores, where {self.expected:.2g} would "
            f"be expected; a new {words.example} has a higher score than one of calibration in "
            f"{self.higher:.0%} of pairs. {verdict} This is a heuristic: scores may change while "
            "the sets stay good, and the reverse."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as ``metapac monitor --reference --json`` prints it.

        Returns
        -------
        dict
            The sentence, the figures behind it, and the unusual tasks.
        """
        return {
            "suspicious": self.is_suspicious,
            "sentence": self.sentence(),
            "tasks": len(self.shifts),
            "reference": self.reference,
            "higher": self.higher,
            "unusual": [shift._asdict() for shift in self.unusual],
            "expected": self.expected,
            "p_common": self.p_common if len(self.shifts) > 1 else None,
        }

    def __str__(self) -> str:
        """Return the status on a line of its own, the sentence, and the most unusual tasks."""
        words, worst = self._words, self.unusual
        status = "CANNOT TELL YET" if len(self.shifts) == 1 else "NO CHANGE SEEN"
        lines = ["SCORES HAVE CHANGED" if self.is_suspicious else status, self.sentence()]
        if worst:
            title = f"{min(_SHOWN, len(worst))} of {len(worst)} unusual {words.units}"
            names = (words.unit, words.examples, "higher than calibration", "p")
            cells = [(s.task, s.examples, f"{s.higher:.0%}", f"{s.p_value:.2g}") for s in worst]
            rows = [dict(zip(names, row, strict=True)) for row in cells[:_SHOWN]]
            lines += ["", format_table(rows, title)]
        return "\n".join(lines)


def compare_scores(
    scores: ArrayLike, tasks: ArrayLike, *, reference: ArrayLike, reference_tasks: ArrayLike
) -> Drift:
    """Compare the scores of unlabelled new tasks with those of calibration tasks.

    Each new task is compared with all calibration tasks by the Mann-Whitney statistic. The
    calibration tasks are compared with each other in the same way, and a new task is unusual only
    relative to them. If nothing has changed, a warning has a probability of about 1% at most;
    docs/theory/monitor.md has the figures.

    Parameters
    ----------
    scores : array_like, shape (n,) or (n, classes)
        Scores of new examples; with several classes, the highest score of a row counts.
    tasks : array_like, shape (n,)
        Task of each example.
    reference : array_like, shape (m,) or (m, classes)
        Scores of examples of the calibration tasks, of which there must be at least 19.
    reference_tasks : array_like, shape (m,)
        Task of each of them.

    Returns
    -------
    Drift
        The comparison. It is a heuristic without a guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import compare_scores
    >>> rng = np.random.default_rng(0)
    >>> reference, sites = rng.random(2000), np.repeat(np.arange(40), 50)
    >>> new, names = rng.random(200) ** 3, np.repeat(["ohio", "utah"], 100)
    >>> drift = compare_scores(new, names, reference=reference, reference_tasks=sites)
    >>> [shift.is_unusual for shift in drift.shifts]
    [True, True]
    """
    known = _read(reference, reference_tasks, "reference", "reference_tasks")
    return compare_pools(_read(scores, tasks, "scores", "tasks"), known)


def compare_pools(new: Pool, reference: Pool) -> Drift:
    """Compare the scores of new tasks with those of calibration tasks."""
    count = len(reference.names)
    if count < _FEWEST:
        raise InvalidInput(f"reference must have at least {_FEWEST} tasks to compare, got {count}.")
    total, own = int(reference.number.sum()), reference.sizes
    among = (_sum_ranks(reference, reference) - own**2 / 2) / (own * (total - own))
    higher = _sum_ranks(new, reference) / (new.sizes * total)
    centre = float(among.mean())
    one, between = _find_variances(reference, among - centre)
    error = _standard_error(own, one, between)
    # Tasks of calibration say little about the spread of tasks that are much larger.
    new_error = _standard_error(np.minimum(new.sizes, np.median(own)), one, between)
    usual, found = (among - centre) / error, (higher - centre) / new_error
    as_far = count - np.searchsorted(np.sort(np.abs(usual)), np.abs(found), side="left")
    p_values = np.maximum((1 + as_far) / (1 + count), 2 * special.ndtr(-np.abs(found)))
    columns = (new.names.tolist(), new.sizes.tolist(), higher.tolist(), p_values.tolist())
    shifts = tuple(Shift(*row) for row in zip(*columns, strict=True))
    mean_error = math.hypot(np.linalg.norm(new_error) / len(higher), np.linalg.norm(error) / count)
    gap = (float(higher.mean()) - centre) / mean_error
    return Drift(shifts, count, _test_common(gap, found, usual))


def _rank(values: NDArray[np.float64], reference: Pool) -> NDArray[np.float64]:
    """Return the number of scores of a pool that are below each value; equal ones count half."""
    order = np.argsort(reference.value, kind="stable")
    sorted_values = reference.value[order]
    below = np.concatenate([[0], np.cumsum(reference.number[order])])
    ends = (below[np.searchsorted(sorted_values, values, side=side)] for side in ("left", "right"))
    return np.asarray(np.mean([*ends], axis=0), np.float64)


def _sum_ranks(pool: Pool, reference: Pool) -> NDArray[np.float64]:
    """Return, for each task, the number of pairs in which it has the higher score; ties half."""
    rank = pool.number * _rank(pool.value, reference)
    return np.asarray(np.bincount(pool.task, rank, len(pool.names)), np.float64)


def _find_variances(reference: Pool, gaps: NDArray[np.float64]) -> tuple[float, float]:
    """Return the variance of the rank of an example, and its part between tasks, by moments."""
    total = reference.number.sum()
    ranks = _rank(reference.value, reference) / total
    one = float((reference.number * (ranks - 0.5) ** 2).sum() / total)  # 1/12 without ties
    share = float(np.mean(1 - 1 / reference.sizes))
    between = (float(np.mean(gaps**2)) - one * (1 - share)) / share if share else 0.0
    return one, min(max(0.0, between), one)


def _standard_error(sizes: Counts, one: float, between: float) -> NDArray[np.float64]:
    """Return the standard error of ``higher`` of a task that is like those of calibration."""
    variance = between + (one - between) / sizes
    return np.sqrt(np.maximum(variance, np.finfo(float).tiny))


def _test_common(gap: float, found: NDArray[np.float64], usual: NDArray[np.float64]) -> float:
    """Return the larger p-value of a t-test and of a rank test; NaN with a single new task.

    The t-test alone would be misled by a few extreme tasks, and the rank test by tasks of another
    size, whose differences have another shape.
    """
    if len(found) < 2:
        return math.nan
    from scipy import stats  # slow to import

    by_mean = 2 * float(special.stdtr(len(usual) - 1, -abs(gap)))
    return max(by_mean, float(stats.mannwhitneyu(found, usual).pvalue))


def _read(scores: Any, tasks: Any, name: str, other: str) -> Pool:
    """Return arrays as a pool; of several classes, the highest score counts."""
    array = as_score_array(name, scores)
    array = array.max(axis=1) if array.ndim == 2 else array
    check_no_nan(name, array)
    ids = as_task_ids(tasks)
    check_same_length(name, array, other, ids)
    if not len(array):
        raise InvalidInput(f"{name} is empty; pass at least one example.", parameter=name)
    return Pool.collect(ids, array, np.ones(len(array), np.int64))
