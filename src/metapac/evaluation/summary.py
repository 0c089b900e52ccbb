"""Summaries of evaluation rows: one line for each method, with intervals and a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from metapac.evaluation import formats
from metapac.evaluation.intervals import (
    MIN_SEEDS,
    Interval,
    draw_share_interval,
    mean_by_draw,
    quantile_interval,
    share_interval,
    size_interval,
)
from metapac.evaluation.noise import (
    error_quantile,
    expect_draws_within,
    explained_by_noise,
    flag_tasks,
)
from metapac.evaluation.rows import Rows
from metapac.exceptions import InvalidInput
from metapac.guarantee import Guarantee
from metapac.verdict.wording import UNDECIDED, VIOLATED

WITHIN, TOO_FEW = "observed within", "too few data"
_NO_QUANTILES = "Meta-CP is left out: the study predicts no quantiles of its tasks."


@dataclass(frozen=True, kw_only=True)
class MethodSummary:
    """Results of one method over all training seeds, draws and new tasks.

    Each interval has 95 % confidence; `Summary.covers` says what it covers.

    Attributes
    ----------
    method : str
        Name of the method.
    delta : float
        Its delta.
    size : float
        Mean set size over tasks.
    size_interval : tuple of float
        Interval of the mean set size.
    size_median : float
        Median set size over tasks.
    error_mean : float
        Mean error over tasks.
    error_quantile : float
        The (1 - alpha) quantile of the error over tasks. It is at most epsilon if and only if
        ``satisfied``.
    error_quantile_interval : tuple of float
        Its interval.
    tasks_within : float
        Share of tasks whose error is at most epsilon.
    tasks_within_interval : tuple of float
        Its interval.
    tasks_above : float
        Share of tasks whose miss rate is above epsilon with 95 % confidence, each task alone: its
        one-sided lower Clopper-Pearson limit exceeds epsilon.
    draws_within : float
        Share of draws in which at least 1 - alpha of the tasks have an error of at most epsilon.
    draws_within_interval : tuple of float
        Its interval.
    draws_expected : float
        The same share, to be expected by chance if all thresholds were equally good.
    satisfied : bool
        Whether at least 1 - alpha of these tasks have an error of at most epsilon. With few tasks
        or draws that may be chance; see ``holds``.
    holds : bool
        Whether the verdict is "observed within": the whole ``tasks_within_interval`` is at least
        1 - alpha, also if each task on which the method kept every label for want of data counts
        as above epsilon. At 95 % confidence, few tasks and few draws do not explain it. It is about
        observed errors: with few test examples, tasks just above epsilon may look good. That a
        guarantee holds for true miss rates, only `metapac.evaluate` and `metapac.judge` say.
    violated : bool
        Whether the 95 % interval of ``tasks_above``, given these learners, lies above
        alpha + 0.05 (1 - alpha): on average, up to 5 % of the tasks within epsilon are counted in
        ``tasks_above`` by chance. So neither few tasks nor few examples explain it. If errors are
        exact, none is counted by chance, and the limit is alpha.
    feasible : bool
        False if the method kept every label on some task because there were too few data. There
        its error is 0 whatever the scores, which says nothing for the method.
    too_few : bool
        Whether these tasks decide: if they count as above epsilon, the interval, or
        ``tasks_within`` itself, is no longer at least 1 - alpha.
    every_label : bool, default False
        Whether every set has every label of its task. Then the error is 0 whatever the scores, also
        if the method is ``feasible``.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate, summarise
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=guarantee, draws=5)
    >>> summarise(rows, guarantee)["PS"].verdict
    'violated'
    """

    method: str
    delta: float
    size: float
    size_interval: Interval
    size_median: float
    error_mean: float
    error_quantile: float
    error_quantile_interval: Interval
    tasks_within: float
    tasks_within_interval: Interval
    tasks_above: float
    draws_within: float
    draws_within_interval: Interval
    draws_expected: float
    satisfied: bool
    holds: bool
    violated: bool
    feasible: bool
    too_few: bool
    every_label: bool = False

    @property
    def verdict(self) -> str:
        """What the rows say of the guarantee, at 95 % confidence.

        It is "observed within" (``holds``), "violated" or "too few data", as the attributes say, of
        which at most one is true; otherwise "cannot tell yet".
        """
        if self.holds:
            return WITHIN
        if self.violated:
            return VIOLATED
        return TOO_FEW if self.too_few else UNDECIDED


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Sequence[MethodSummary]):
    """A table with one line for each method, in order of first appearance.

    It is a sequence of `MethodSummary`; ``summary["PS"]`` is the line of a method. ``print`` and
    notebooks show it as a table.

    Parameters
    ----------
    lines : tuple of MethodSummary
        The lines.
    guarantee : Guarantee
        The guarantee that the rows are compared with.
    rows : tuple of Rows
        The rows, a table for each training seed.
    notes : tuple of str, default ()
        What a reader must know, such as a method that is left out, and why.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate, summarise
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=guarantee, draws=5)
    >>> summary = summarise(rows, guarantee)
    >>> [line.method for line in summary]
    ['PS', 'PS-Test', 'Meta-PS even', 'Meta-PS tight', 'Meta-PS joint', 'oracle']
    >>> summary.notes
    ('Meta-CP is left out: the study predicts no quantiles of its tasks.',)
    """

    lines: tuple[MethodSummary, ...]
    guarantee: Guarantee
    rows: tuple[Rows, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Summary of {len(self)} methods, {self.seeds} seeds, {self.draws} draws each>"

    def __str__(self) -> str:
        return formats.to_text(self)

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, key: int | str) -> MethodSummary: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[MethodSummary]: ...
    def __getitem__(self, key: int | str | slice) -> MethodSummary | Sequence[MethodSummary]:
        if not isinstance(key, str):
            return self.lines[key]
        found = [line for line in self.lines if line.method == key]
        if not found:
            names = ", ".join(dict.fromkeys(line.method for line in self.lines))
            raise InvalidInput(f"the summary has no method {key!r}; it has: {names}.")
        return found[0]

    @property
    def seeds(self) -> int:
        """Number of training seeds."""
        return len(self.rows)

    @cached_property
    def draws(self) -> int:
        """Number of draws of each training seed."""
        return len(np.unique(self.rows[0].draw))

    @property
    def covers(self) -> str:
        """What the intervals cover, in one sentence."""
        if self.seeds >= MIN_SEEDS:
            return (
                f"95 % intervals, Student's t over {self.seeds} seeds: they cover what a seed "
                "changes, such as the division of the data or the training, and the calibration "
                "draws and new tasks, not what all seeds share, such as the data."
            )
        learner = "this learner" if self.seeds == 1 else "these two learners"
        if self.draws == 1:
            return (
                f"95 % intervals given {learner} and one calibration draw: they cover its tasks, "
                "not other classes or groups."
            )
        return (
            f"95 % intervals, Student's t over {self.seeds * self.draws} calibration draws given "
            f"{learner}: they cover the draws and the new tasks, not other learners, classes or "
            "groups."
        )

    def to_markdown(self) -> str:
        """Return the table in Markdown, followed by its footnotes.

        Returns
        -------
        str
            The text.

        Examples
        --------
        >>> from metapac import Guarantee
        >>> from metapac.evaluation import SyntheticStudy, evaluate, summarise
        >>> g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
        >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=g, draws=5)
        >>> print(summarise(rows, g).to_markdown().splitlines()[0])
        | method | mean size | 90 % error | tasks within | draws within | by chance | verdict |
        """
        return formats.to_markdown(self)

    def to_latex(self) -> str:
        r"""Return the table as a LaTeX ``tabular`` for the package ``booktabs``.

        Returns
        -------
        str
            The text; the footnotes are comments.

        Examples
        --------
        >>> from metapac import Guarantee
        >>> from metapac.evaluation import SyntheticStudy, evaluate, summarise
        >>> g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
        >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=g, draws=5)
        >>> print(summarise(rows, g).to_latex().splitlines()[1])
        \begin{tabular}{lrrrrrl}
        """
        return formats.to_latex(self)

    def to_csv(self) -> str:
        """Return the table as CSV: every number to its last digit, the ends of intervals apart.

        Returns
        -------
        str
            The text.

        Examples
        --------
        >>> from metapac import Guarantee
        >>> from metapac.evaluation import SyntheticStudy, evaluate, summarise
        >>> g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
        >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=g, draws=5)
        >>> print(summarise(rows, g).to_csv().splitlines()[0][:37])
        method,delta,size,size_low,size_high,
        """
        return formats.to_csv(self)

    def describe(self) -> dict[str, Any]:
        """Return the table as JSON can hold it; an interval without an end has None there.

        Returns
        -------
        dict
            ``methods``, ``seeds``, ``draws``, ``columns`` (what they mean), ``covers`` and
            ``notes``.

        Examples
        --------
        >>> from metapac import Guarantee
        >>> from metapac.evaluation import SyntheticStudy, evaluate, summarise
        >>> g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
        >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=g, draws=5)
        >>> summarise(rows, g).describe()["methods"][0]["verdict"]
        'violated'
        """
        return formats.describe(self)

    def _repr_html_(self) -> str:
        return formats.to_html(self)


def summarise(
    rows: Rows | Sequence[Rows], guarantee: Guarantee, *, notes: Sequence[str] | None = None
) -> Summary:
    """Return one line for each method and each of its deltas.

    Parameters
    ----------
    rows : Rows or sequence of Rows
        Results of an evaluation; or of several, one for each training seed, that have the same
        methods and as many draws.
    guarantee : Guarantee
        The guarantee that they are compared with.
    notes : sequence of str, optional
        What a reader must know, such as ``study.notes``. By default a note if Meta-CP is missing.

    Returns
    -------
    Summary
        The lines, in order of first appearance.

    Raises
    ------
    InvalidInput
        If the seeds differ in their methods or in their number of draws.

    Notes
    -----
    Intervals rest on independent units. With three seeds or more these are the seeds; each seed
    must then have drawn its own tasks, as `evaluate_seeds` does. With one seed or two they are the
    draws, which are independent given the study.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate, summarise
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=guarantee, draws=5)
    >>> summarise(rows, guarantee)[0].method
    'PS'
    """
    by_seed = (rows,) if isinstance(rows, Rows) else tuple(rows)
    _check_seeds(by_seed)
    methods = by_seed[0].methods()
    if notes is None:
        notes = () if "Meta-CP" in by_seed[0].method else (_NO_QUANTILES,)
    lines = [
        _summarise_method([each.select(*method) for each in by_seed], guarantee)
        for method in methods
    ]
    return Summary(tuple(lines), guarantee, by_seed, tuple(notes))


def _check_seeds(by_seed: Sequence[Rows]) -> None:
    if not by_seed:
        raise InvalidInput("rows is empty; pass the rows of at least one evaluation.")
    first, *others = ((each.methods(), len(np.unique(each.draw))) for each in by_seed)
    for number, other in enumerate(others, start=1):
        if other != first:
            what = "methods" if other[0] != first[0] else "numbers of draws"
            raise InvalidInput(
                f"rows must hold the same methods and as many draws for each seed; those of seed "
                f"{number} have other {what} than those of seed 0. Evaluate all seeds alike."
            )


def _summarise_method(by_seed: Sequence[Rows], g: Guarantee) -> MethodSummary:
    together = Rows.concatenate(by_seed)
    epsilon, alpha = g.miss_rate, g.alpha
    within = [rows.error <= epsilon for rows in by_seed]
    by_error = _share_above(by_seed, [~each for each in within])
    # Every label kept for want of data is no evidence for a method: count it as a failure.
    at_worst = _share_above(
        by_seed, [~(each & rows.feasible) for each, rows in zip(within, by_seed, strict=True)]
    )
    draws = [mean_by_draw(rows, rows.error > epsilon) <= alpha for rows in by_seed]
    flagged = [flag_tasks(rows, epsilon) for rows in by_seed]
    # A guarantee is about one learner, so that a verdict is about those that were evaluated.
    at_least_above, _ = share_interval(by_seed, flagged, across_seeds=False)
    return MethodSummary(
        method=str(together.method[0]),
        delta=float(together.delta[0]),
        size=float(np.mean(together.size)),
        size_interval=size_interval(by_seed),
        size_median=float(np.median(together.size)),
        error_mean=float(np.mean(together.error)),
        error_quantile=error_quantile(together.error, alpha),
        error_quantile_interval=quantile_interval(by_seed, alpha),
        tasks_within=float(np.mean(np.concatenate(within))),
        tasks_within_interval=share_interval(by_seed, within),
        tasks_above=float(np.mean(np.concatenate(flagged))),
        draws_within=float(np.mean(np.concatenate(draws))),
        draws_within_interval=draw_share_interval(draws),
        draws_expected=float(
            np.mean([expect_draws_within(rows, epsilon, alpha) for rows in by_seed])
        ),
        satisfied=by_error[0] <= alpha,
        holds=at_worst[1] <= alpha,
        violated=at_least_above > explained_by_noise(together, alpha),
        feasible=bool(together.feasible.all()),
        too_few=any(seen <= alpha < worst for seen, worst in zip(by_error, at_worst, strict=True)),
        every_label=bool(together.labels.all() and (together.size >= together.labels).all()),
    )


def _share_above(by_seed: Sequence[Rows], above: Sequence[NDArray[np.bool_]]) -> Interval:
    """Return the share of tasks above epsilon, and the upper end of its interval."""
    return float(np.mean(np.concatenate(above))), share_interval(by_seed, above)[1]
