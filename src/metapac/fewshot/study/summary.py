"""Summaries of rows: tables, intervals, comparisons of size.

The error of a task is observed on its test examples and differs from its true miss rate by chance.
So the observed error of a task may exceed epsilon although its miss rate does not, and a draw with
few tasks may look worse, or better, than its threshold is.

Tasks of one draw share a threshold, and draws of one training seed share a learner. Their results
are not independent, so intervals are computed from independent units: the draws, if there are one
or two seeds, and the seeds, if there are more.
"""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._common import Array, Floats
from metapac._text import format_table
from metapac.errors import InvalidInput
from metapac.fewshot.study.methods import describe_need
from metapac.fewshot.study.rows import Rows
from metapac.guarantee import Guarantee
from metapac.verdict import UNDECIDED, VIOLATED, clopper_pearson_interval

LEVEL = 0.05  # of a single task, as in metapac.verdict


def allowed_tasks(tasks: int, alpha: float) -> int:
    """Return the largest number of tasks above epsilon whose share is at most alpha."""
    allowed = int(alpha * tasks)
    while (allowed + 1) / tasks <= alpha:
        allowed += 1
    while allowed / tasks > alpha:
        allowed -= 1
    return allowed


def error_quantile(errors: Array, alpha: float) -> float:
    """Return the (1 - alpha) quantile of errors, as the inverse of their distribution function."""
    at = len(errors) - 1 - allowed_tasks(len(errors), alpha)
    return float(np.partition(errors, at)[at])


def flag_tasks(rows: Rows, epsilon: float) -> NDArray[np.bool_]:
    """Return which tasks have a miss rate significantly above epsilon, at level 0.05."""
    counts = np.stack([np.rint(rows.error * rows.examples), rows.examples])
    (missed, examples), position = np.unique(counts, axis=1, return_inverse=True)
    low, _ = clopper_pearson_interval(missed, examples, confidence=1 - 2 * LEVEL)
    return np.where(rows.examples > 0, low[position.ravel()], rows.error) > epsilon


def explained_by_noise(rows: Rows, alpha: float) -> float:
    """Return the largest share of flagged tasks that is compatible with the guarantee."""
    return alpha + (1 - alpha) * (LEVEL if rows.examples.any() else 0.0)


def expect_draws_within(rows: Rows, epsilon: float, alpha: float) -> float:
    """Return the expected share of draws within the guarantee, if all thresholds were equally good.

    Suppose that every draw has an equally good threshold. Its T tasks are drawn i.i.d., and the
    observed error of each exceeds epsilon with the same probability p, over the draw of the task
    and of its examples. So the number of such tasks is Binomial(T, p), and the draw is within the
    guarantee with probability P[Binomial(T, p) <= m], where m / T is the largest share up to alpha.
    Here p is the share of such tasks in all draws. If thresholds differ in quality, the share of
    draws within the guarantee differs from this number.
    """
    share = float(np.mean(rows.error > epsilon))
    _, sizes = np.unique(rows.draw, return_counts=True)
    allowed = np.array([allowed_tasks(tasks, alpha) for tasks in sizes.tolist()])
    return float(np.mean(special.bdtr(allowed, sizes, share)))


CONFIDENCE = 0.95
MIN_SEEDS = 3  # from which the spread of the seeds is estimated
Interval = tuple[float, float]


def mean_by_draw(rows: Rows, values: Array) -> NDArray[np.float64]:
    """Return the mean of some values over the tasks of each draw."""
    _, number = np.unique(rows.draw, return_inverse=True)
    return np.bincount(number, weights=values) / np.bincount(number)


def mean_interval(values: Sequence[Array], *, across_seeds: bool = True) -> Interval:
    """Return the interval of a mean by Student's t over independent units."""
    if across_seeds and len(values) >= MIN_SEEDS:
        means = np.array([float(np.mean(draws)) for draws in values])
        return _student(float(np.mean(means)), means - np.mean(means), len(means) - 1)
    around = np.concatenate([draws - np.mean(draws) for draws in values])
    return _student(float(np.mean(np.concatenate(values))), around, len(around) - len(values))


def _student(mean: float, deviations: Array, freedom: int) -> Interval:
    if not freedom:
        return -math.inf, math.inf
    error = math.sqrt(float(deviations @ deviations) / freedom / len(deviations))
    half = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return mean - half, mean + half


def size_interval(by_seed: Sequence[Rows]) -> Interval:
    """Return the interval of the mean set size."""
    low, high = mean_interval([mean_by_draw(rows, rows.size) for rows in by_seed])
    if not math.isfinite(low):
        return low, high
    labels = np.concatenate([rows.labels for rows in by_seed])
    most = float(np.mean(labels)) if labels.all() else math.inf
    return max(0.0, low), min(most, high)


def share_interval(
    by_seed: Sequence[Rows], has: Sequence[Array], *, across_seeds: bool = True
) -> Interval:
    """Return the interval of the share of tasks that have a property."""
    shares = [mean_by_draw(rows, each) for rows, each in zip(by_seed, has, strict=True)]
    interval = mean_interval(shares, across_seeds=across_seeds)
    return _at_least_binomial(interval, np.concatenate(has))


def draw_share_interval(values: Sequence[Array]) -> Interval:
    """Return the interval of the share of draws that have a property."""
    return _at_least_binomial(mean_interval(values), np.concatenate(values))


def _at_least_binomial(interval: Interval, has: Array) -> Interval:
    exact = clopper_pearson_interval(np.sum(has), len(has), confidence=CONFIDENCE)
    low, high = (float(end) for end in exact)
    # A single unit says nothing about the spread between units: use the tasks alone.
    if not all(map(math.isfinite, interval)):
        return low, high
    return max(0.0, min(low, interval[0])), min(1.0, max(high, interval[1]))


def quantile_interval(by_seed: Sequence[Rows], alpha: float) -> Interval:
    """Return the interval of the (1 - alpha) quantile of the error over tasks."""
    errors = np.unique(np.concatenate([rows.error for rows in by_seed]))

    def reaches(end: int, error: float) -> bool:
        return share_interval(by_seed, [rows.error > error for rows in by_seed])[end] <= alpha

    # The lower end of the interval of the share above x belongs to the lower end of the quantile.
    low = _first(errors, lambda error: reaches(0, error))
    high = _first(errors, lambda error: reaches(1, error))
    observed = error_quantile(np.concatenate([rows.error for rows in by_seed]), alpha)
    return min(low, observed), max(high, observed)


def _first(ascending: Array, is_enough: Callable[[float], bool]) -> float:
    """Return the first value that satisfies a condition, by bisection; 1 if none does."""
    low, high = -1, len(ascending)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(float(ascending[middle])) else (middle, high)
    return float(ascending[high]) if high < len(ascending) else 1.0


@dataclass(frozen=True)
class SizeComparison:
    """Mean set sizes of two methods on the same draws, and their difference.

    Attributes
    ----------
    first, second : str
        Names of the methods.
    first_size, second_size : float
        Mean set size of each.
    difference : float
        Mean difference, first minus second.
    low, high : float
        Ends of its 95 % confidence interval: Student's t over the mean sizes of the draws, which
        are independent given the study, or of the training seeds if there are three or more. With
        one draw it is the whole line.
    draws : int
        Number of draws, of all seeds together.
    """

    first: str
    second: str
    first_size: float
    second_size: float
    difference: float
    low: float
    high: float
    draws: int


def compare_sizes(
    rows: Rows | Sequence[Rows], first: str, second: str, *, delta: float | None = None
) -> SizeComparison:
    """Return the difference between the mean set sizes of two methods, paired by draw."""
    by_seed = (rows,) if isinstance(rows, Rows) else tuple(rows)
    sizes = [_mean_sizes(each, first, second, delta) for each in by_seed]  # (2, draws) each
    low, high = mean_interval([ones - others for ones, others in sizes])
    ones, others = np.concatenate(sizes, axis=1)
    return SizeComparison(
        first=first,
        second=second,
        first_size=float(np.mean(ones)),
        second_size=float(np.mean(others)),
        difference=float(np.mean(ones - others)),
        low=low,
        high=high,
        draws=len(ones),
    )


def _mean_sizes(rows: Rows, first: str, second: str, delta: float | None) -> Floats:
    """Return the mean sizes of two methods on each draw of one seed."""
    one = rows.select(first, delta)
    other = rows.select(second, float(one.delta[0]))
    if set(one.draw.tolist()) != set(other.draw.tolist()):
        raise InvalidInput(
            f"{first!r} and {second!r} must have been run on the same draws to be compared. "
            "Evaluate them together."
        )
    return np.stack([mean_by_draw(each, each.size) for each in (one, other)])


_TEX = str.maketrans({c: rf"\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}"})
_MARKS = str.maketrans({"†": r"$\dagger$", "‡": r"$\ddagger$"})
_SHORTAGE = "† too few data for its guarantee on some task, where every label is kept."
_EVERY_LABEL = "‡ every set has every label, so that its error is 0 whatever the scores."


def header(summary: Summary) -> list[str]:
    """Return the names of the columns."""
    quantile = f"{100 * (1 - summary.guarantee.alpha):g} % error"
    return ["method", "mean size", quantile, "tasks within", "draws within", "by chance", "verdict"]


def cells(summary: Summary, size: str = ".3f", share: str = ".1%") -> list[list[str]]:
    """Return the cells of the table as text, with mean sizes and shares in a format."""
    return [
        [
            full_name(summary, line),
            f"{line.size:{size}}{_ends(line.size_interval, size)}",
            f"{line.error_quantile:.3f}{_ends(line.error_quantile_interval, '.3f')}",
            f"{line.tasks_within:.1%}{_ends(line.tasks_within_interval, share)}",
            f"{line.draws_within:.0%}",
            f"{line.draws_expected:.0%}",
            line.verdict,
        ]
        for line in summary
    ]


def full_name(summary: Summary, line: MethodSummary) -> str:
    """Return the name of a method, with its delta if that is not the guarantee's."""
    strict = summary.guarantee.failure_probability
    name = line.method if line.delta == strict else f"{line.method}, delta = {line.delta:g}"
    if not line.feasible:
        return f"{name} †"
    return f"{name} ‡" if line.every_label else name


def _ends(interval: Interval, form: str) -> str:
    """Return an interval in brackets; nothing if it is unbounded."""
    if not all(map(math.isfinite, interval)):
        return ""
    low, high = (format(end, form).removesuffix("%") for end in interval)
    return f" [{low}, {high}]"


def footnotes(summary: Summary) -> list[str]:
    """Return the footnotes: what the columns mean, what the intervals cover, and the notes."""
    short = [] if all(line.feasible for line in summary) else [_describe_shortage(summary)]
    full = [_EVERY_LABEL] if any(line.feasible and line.every_label for line in summary) else []
    return [define_columns(summary), summary.covers, *short, *full, *summary.notes]


def _describe_shortage(summary: Summary) -> str:
    """Return what † means, and what the methods that have it need."""
    needs: dict[str, list[str]] = {}
    for line in summary:
        need = _need(summary, line)
        if need is not None:
            needs.setdefault(need, []).append(full_name(summary, line).removesuffix(" †"))
    listed = "; ".join(f"{need} for {' and '.join(names)}" for need, names in needs.items())
    return f"{_SHORTAGE} Needed: {listed}." if listed else _SHORTAGE


def _need(summary: Summary, line: MethodSummary) -> str | None:
    """Return what a method that had too few data needs; None if it had enough."""
    return None if line.feasible else describe_need(summary.guarantee, line.method, line.delta)


def define_columns(summary: Summary) -> str:
    """Return the meaning of the columns that their names do not say."""
    g = summary.guarantee
    least = f"{100 * (1 - g.alpha):g} %"
    return (
        f"mean size: over tasks. tasks within: new tasks with an error of at most {g.miss_rate:g}. "
        f"draws within: calibration draws in which these are at least {least} of the new tasks. by "
        "chance: draws within to be expected if all thresholds were equally good. verdict: "
        "'observed within' is about errors as observed, 'holds' of metapac evaluate about true "
        "miss rates; 'violated' if few test examples do not explain the tasks above "
        f"{g.miss_rate:g}; 'cannot tell yet': small test sets alone could explain them."
    )


def _flatten(line: MethodSummary) -> dict[str, Any]:
    """Return the fields of a line; an interval becomes two, such as size_low and size_high."""
    flat: dict[str, Any] = {}
    for name, value in asdict(line).items():
        if name.endswith("_interval"):
            stem = name.removesuffix("_interval")
            flat |= {f"{stem}_low": value[0], f"{stem}_high": value[1]}
        else:
            flat[name] = value
    return flat | {"verdict": line.verdict}


def _finite(value: Any) -> Any:
    if isinstance(value, tuple):
        return [end if math.isfinite(end) else None for end in value]
    return value


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

    Attributes
    ----------
    lines : tuple of MethodSummary
        The lines.
    guarantee : Guarantee
        The guarantee that the rows are compared with.
    rows : tuple of Rows
        The rows, a table for each training seed.
    notes : tuple of str, default ()
        What a reader must know, such as a method that is left out, and why.
    """

    lines: tuple[MethodSummary, ...]
    guarantee: Guarantee
    rows: tuple[Rows, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Summary of {len(self)} methods, {self.seeds} seeds, {self.draws} draws each>"

    def __str__(self) -> str:
        """Return the table in 80 columns, with intervals below the numbers."""
        rows, names = [], [name.replace("draws within", "draws") for name in header(self)]
        for texts in cells(self, ".2f", ".0%"):
            parts = {name: text.partition(" [") for name, text in zip(names, texts, strict=True)}
            del parts["by chance"]
            rows.append({name: value for name, (value, _, _) in parts.items()})
            if any(bracket for _, bracket, _ in parts.values()):
                ends = {name: ends.rstrip("]") for name, (_, _, ends) in parts.items()}
                rows.append({name: text.replace(", ", "-") for name, text in ends.items()})
        return "\n".join([format_table(rows), "", *footnotes(self)[1:]])

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
        >>> from metapac import Guarantee, evaluate
        >>> from metapac.fewshot import SyntheticStudy, summarise
        >>> g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
        >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=g, draws=5)
        >>> print(summarise(rows, g).to_markdown().splitlines()[0])
        | method | mean size | 90 % error | tasks within | draws within | by chance | verdict |
        """
        names = header(self)
        rows = [names, ["---", *["---:"] * (len(names) - 2), "---"], *cells(self)]
        escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
        table = [f"| {' | '.join(row)} |" for row in escaped]
        return "\n".join([*table, "", *footnotes(self)]) + "\n"

    def to_latex(self) -> str:
        r"""Return the table as a LaTeX ``tabular`` for the package ``booktabs``.

        Returns
        -------
        str
            The text; the footnotes are comments.

        Examples
        --------
        >>> from metapac import Guarantee, evaluate
        >>> from metapac.fewshot import SyntheticStudy, summarise
        >>> g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
        >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=g, draws=5)
        >>> print(summarise(rows, g).to_latex().splitlines()[1])
        \begin{tabular}{lrrrrrl}
        """
        head, *rows = (
            " & ".join(cell.translate(_TEX).translate(_MARKS) for cell in row) + r" \\"
            for row in [header(self), *cells(self)]
        )
        columns = "l" + "r" * (len(header(self)) - 2) + "l"
        lines = [
            "% " + " ".join(footnotes(self)).replace("\n", " "),
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            head,
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
        ]
        return "\n".join(lines) + "\n"

    def to_csv(self) -> str:
        """Return the table as CSV: every number to its last digit, the ends of intervals apart.

        Returns
        -------
        str
            The text.

        Examples
        --------
        >>> from metapac import Guarantee, evaluate
        >>> from metapac.fewshot import SyntheticStudy, summarise
        >>> g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
        >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=g, draws=5)
        >>> print(summarise(rows, g).to_csv().splitlines()[0][:37])
        method,delta,size,size_low,size_high,
        """
        text = io.StringIO(newline="")
        lines = [_flatten(line) for line in self]
        writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        return text.getvalue()

    def describe(self) -> dict[str, Any]:
        """Return the table as JSON can hold it; an interval without an end has None there.

        Returns
        -------
        dict
            ``methods``, ``seeds``, ``draws``, ``columns`` (what they mean), ``covers`` and
            ``notes``.

        Examples
        --------
        >>> from metapac import Guarantee, evaluate
        >>> from metapac.fewshot import SyntheticStudy, summarise
        >>> g = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
        >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=g, draws=5)
        >>> summarise(rows, g).describe()["methods"][0]["verdict"]
        'violated'
        """
        return {
            "methods": [
                {name: _finite(value) for name, value in asdict(line).items()}
                | {"verdict": line.verdict, "needed": _need(self, line)}
                for line in self
            ],
            "seeds": self.seeds,
            "draws": self.draws,
            "columns": define_columns(self),
            "covers": self.covers,
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:

        def row(tag: str, texts: list[str]) -> str:
            return f"<tr>{''.join(f'<{tag}>{html.escape(text)}</{tag}>' for text in texts)}</tr>"

        body = "".join(row("td", texts) for texts in cells(self))
        below = "".join(f"<p>{html.escape(text)}</p>" for text in footnotes(self))
        return f"<table>{row('th', header(self))}{body}</table>{below}"


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
    must then have drawn its own tasks, as `run_seeds` does. With one seed or two they are the
    draws, which are independent given the study.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.fewshot import SyntheticStudy, run_study, summarise
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> rows = run_study(SyntheticStudy(tasks=100, examples=50), guarantee=guarantee, draws=5)
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
