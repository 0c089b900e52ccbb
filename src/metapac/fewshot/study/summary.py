"""Summaries of rows: tables, intervals, comparisons of size.

Tasks of one draw share a threshold, and draws of one training seed share a learner, so intervals
are computed from independent units: the draws, or the seeds if there are three or more.
"""

from __future__ import annotations

import csv
import html
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._common import Array, Floats, PathLike, require
from metapac._text import format_table
from metapac.artefact import replacing
from metapac.errors import InvalidInput
from metapac.fewshot.study.figures import draw_methods, is_full
from metapac.fewshot.study.methods import describe_need
from metapac.fewshot.study.rows import Rows
from metapac.guarantee import Guarantee
from metapac.plots import save
from metapac.verdict import UNDECIDED, VIOLATED, clopper_pearson_interval

LEVEL = 0.05  # of a single task, as in metapac.verdict


def allowed_tasks(tasks: int, alpha: float) -> int:
    """Return the largest number of tasks above epsilon whose share is at most alpha."""
    return int(np.searchsorted(np.arange(tasks + 1) / tasks, alpha, side="right")) - 1


def error_quantile(errors: Array, alpha: float) -> float:
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
    """Return the share of draws to be expected within it, if thresholds were equally good."""
    # The number of the T tasks of a draw with an observed error above epsilon is then
    # Binomial(T, p), where p is the share of such tasks in all draws.
    share = float(np.mean(rows.error > epsilon))
    _, sizes = np.unique(rows.draw, return_counts=True)
    allowed = np.array([allowed_tasks(tasks, alpha) for tasks in sizes.tolist()])
    return float(np.mean(special.bdtr(allowed, sizes, share)))


CONFIDENCE = 0.95
MIN_SEEDS = 3  # from which the spread of the seeds is estimated
Interval = tuple[float, float]


def mean_by_draw(rows: Rows, values: Array) -> NDArray[np.float64]:
    _, number = np.unique(rows.draw, return_inverse=True)
    return np.bincount(number, weights=values) / np.bincount(number)


def mean_interval(values: Sequence[Array], *, across_seeds: bool = True) -> Interval:
    """Return the interval of a mean by Student's t over independent units."""
    if across_seeds and len(values) >= MIN_SEEDS:
        values = [np.array([float(np.mean(draws)) for draws in values])]
    around = np.concatenate([units - np.mean(units) for units in values])
    freedom = len(around) - len(values)
    if not freedom:
        return -math.inf, math.inf
    mean = float(np.mean(np.concatenate(values)))
    error = math.sqrt(float(around @ around) / freedom / len(around))
    half = float(special.stdtrit(freedom, (1 + CONFIDENCE) / 2)) * error
    return mean - half, mean + half


def size_interval(by_seed: Sequence[Rows]) -> Interval:
    """Return the interval of the mean set size, clipped to possible sizes if it is bounded."""
    low, high = mean_interval([mean_by_draw(rows, rows.size) for rows in by_seed])
    labels = np.concatenate([rows.labels for rows in by_seed])
    most = float(np.mean(labels)) if labels.all() else math.inf
    return (max(0.0, low), min(most, high)) if math.isfinite(low) else (low, high)


def share_interval(
    by_seed: Sequence[Rows], has: Sequence[Array], *, across_seeds: bool = True
) -> Interval:
    shares = [mean_by_draw(*pair) for pair in zip(by_seed, has, strict=True)]
    return _at_least_binomial(mean_interval(shares, across_seeds=across_seeds), has)


def draw_share_interval(values: Sequence[Array]) -> Interval:
    return _at_least_binomial(mean_interval(values), values)


def _at_least_binomial(interval: Interval, has: Sequence[Array]) -> Interval:
    all_of = np.concatenate(has)
    low, high = clopper_pearson_interval(np.sum(all_of), len(all_of), confidence=CONFIDENCE)
    # A single unit says nothing about the spread between units: use the tasks alone.
    if not all(map(math.isfinite, interval)):
        return float(low), float(high)
    return max(0.0, min(float(low), interval[0])), min(1.0, max(float(high), interval[1]))


def quantile_interval(by_seed: Sequence[Rows], alpha: float) -> Interval:
    """Return the interval of the (1 - alpha) quantile of the error over tasks."""
    every = np.concatenate([rows.error for rows in by_seed])
    errors, observed = np.unique(every).tolist(), error_quantile(every, alpha)

    def first_within(end: int) -> float:
        # Not the module bisect, which halves otherwise: an end of Student's t may rise in between.
        low, high = -1, len(errors)
        while high - low > 1:
            middle = (low + high) // 2
            above = [rows.error > errors[middle] for rows in by_seed]
            is_within = share_interval(by_seed, above)[end] <= alpha
            low, high = (low, middle) if is_within else (middle, high)
        return float([*errors, 1.0][high])

    # The lower end of the interval of the share above x belongs to the lower end of the quantile.
    return min(first_within(0), observed), max(first_within(1), observed)


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
        Its 95% confidence interval: Student's t over the mean sizes of the draws, or of the
        training seeds if there are three or more. With one draw it is the whole line.
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


def compare_sizes(rows: Rows | Sequence[Rows], first: str, second: str) -> SizeComparison:
    """Return the difference between the mean set sizes of two methods, paired by draw."""
    by_seed = (rows,) if isinstance(rows, Rows) else tuple(rows)
    sizes = [_mean_sizes(each, first, second) for each in by_seed]  # (2, draws) each
    low, high = mean_interval([ones - others for ones, others in sizes])
    ones, others = np.concatenate(sizes, axis=1)
    one, other, apart = (float(np.mean(each)) for each in (ones, others, ones - others))
    return SizeComparison(first, second, one, other, apart, low, high, len(ones))


def _mean_sizes(rows: Rows, first: str, second: str) -> Floats:
    """Return the mean sizes of two methods on each draw of one seed."""
    one = rows.select(first)
    other = rows.select(second, float(one.delta[0]))
    if set(one.draw.tolist()) != set(other.draw.tolist()):
        raise InvalidInput(f"{first!r} and {second!r} must have been run on the same draws.")
    return np.stack([mean_by_draw(each, each.size) for each in (one, other)])


_TEX = str.maketrans({c: rf"\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}"})
_MARKS = str.maketrans({"†": r"$\dagger$", "‡": r"$\ddagger$"})
_SHORTAGE = "† too few data for its guarantee on some task, where every label is kept."
_EVERY_LABEL = "‡ every set has every label, so that its error is 0 whatever the scores."


def header(summary: Summary) -> list[str]:
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
    mark = " †" if not line.feasible else " ‡" if line.every_label else ""
    return name + mark


def _ends(interval: Interval, form: str) -> str:
    """Return an interval in brackets; nothing if it is unbounded."""
    if not all(map(math.isfinite, interval)):
        return ""
    low, high = (format(end, form).removesuffix("%") for end in interval)
    return f" [{low}, {high}]"


def footnotes(summary: Summary) -> list[str]:
    short = [line for line in summary if not line.feasible]
    marks = [_describe_shortage(summary, short)] if short else []
    if any(line.feasible and line.every_label for line in summary):
        marks.append(_EVERY_LABEL)
    return [define_columns(summary), summary.covers, *marks, *summary.notes]


def _describe_shortage(summary: Summary, short: Sequence[MethodSummary]) -> str:
    """Return what † means, and what the methods that have it need."""
    needs: dict[str, list[str]] = {}
    for line in short:
        if need := _need(summary, line):
            needs.setdefault(need, []).append(full_name(summary, line).removesuffix(" †"))
    listed = "; ".join(f"{need} for {' and '.join(names)}" for need, names in needs.items())
    return f"{_SHORTAGE} Needed: {listed}." if listed else _SHORTAGE


def _need(summary: Summary, line: MethodSummary) -> str | None:
    """Return what a method that had too few data needs; None if it had enough."""
    return None if line.feasible else describe_need(summary.guarantee, line.method, line.delta)


def define_columns(summary: Summary) -> str:
    """Return the meaning of the columns that their names do not say."""
    g = summary.guarantee
    return (
        f"mean size: over tasks. tasks within: new tasks with an error of at most {g.miss_rate:g}. "
        "draws within: calibration draws in which these are at least "
        f"{100 * (1 - g.alpha):g} % of the new tasks. by chance: draws within to be expected if "
        "all thresholds were equally good. verdict: 'observed within' is about errors as observed, "
        "'holds' of metapac evaluate about true miss rates; 'violated' if few test examples do not "
        f"explain the tasks above {g.miss_rate:g}; 'cannot tell yet': small test sets alone could "
        "explain them."
    )


def _as_markdown(summary: Summary) -> str:
    names = header(summary)
    rows = [names, ["---", *["---:"] * (len(names) - 2), "---"], *cells(summary)]
    escaped = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    table = [f"| {' | '.join(row)} |" for row in escaped]
    return "\n".join([*table, "", *footnotes(summary)]) + "\n"


def _as_csv(summary: Summary) -> str:
    text, lines = io.StringIO(newline=""), [_flatten(line) for line in summary]
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([lines[0], *(line.values() for line in lines)])
    return text.getvalue()


def _as_latex(summary: Summary) -> str:
    """Return a ``tabular`` for the package ``booktabs``; the footnotes are a comment."""
    texts = [header(summary), *cells(summary)]
    escaped = ([cell.translate(_TEX).translate(_MARKS) for cell in row] for row in texts)
    head, *rows = (" & ".join(row) + r" \\" for row in escaped)
    comment = "% " + " ".join(footnotes(summary)).replace("\n", " ")
    begin = rf"\begin{{tabular}}{{l{'r' * (len(texts[0]) - 2)}l}}"
    table = (r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}")
    return "\n".join([comment, begin, *table]) + "\n"


def _flatten(line: MethodSummary) -> dict[str, Any]:
    """Return the fields of a line; an interval becomes two, such as size_low and size_high."""
    flat: dict[str, Any] = {}
    for name, value in asdict(line).items():
        stem, is_interval, _ = name.partition("_interval")
        ends = zip((f"{stem}_low", f"{stem}_high"), value, strict=True) if is_interval else ()
        flat |= dict(ends) or {name: value}
    return flat | {"verdict": line.verdict}


def _as_json(line: MethodSummary) -> dict[str, Any]:
    fields = asdict(line) | {"verdict": line.verdict}
    for name in (name for name, value in fields.items() if isinstance(value, tuple)):
        fields[name] = [end if math.isfinite(end) else None for end in fields[name]]
    return fields


WITHIN, TOO_FEW = "observed within", "too few data"
_NO_QUANTILES = "Meta-CP is left out: the study predicts no quantiles of its tasks."


@dataclass(frozen=True, kw_only=True)
class MethodSummary:
    """Results of one method over all training seeds, draws and new tasks.

    Each interval has 95% confidence; `Summary.covers` says what it covers.

    Attributes
    ----------
    method : str
        Name of the method.
    delta : float
        Its delta.
    size, size_median : float
        Mean and median set size over tasks.
    error_mean : float
        Mean error over tasks.
    error_quantile : float
        The (1 - alpha) quantile of the error over tasks; at most epsilon if ``satisfied``.
    tasks_within : float
        Share of tasks whose error is at most epsilon.
    tasks_above : float
        Share of tasks whose one-sided 95% lower Clopper-Pearson limit exceeds epsilon.
    draws_within, draws_expected : float
        Share of draws in which at least 1 - alpha of the tasks have an error of at most epsilon;
        and the share to be expected by chance if all thresholds were equally good.
    size_interval, error_quantile_interval, tasks_within_interval, draws_within_interval : tuple
        Lower and upper ends of the intervals of these numbers.
    satisfied : bool
        Whether ``tasks_within`` is at least 1 - alpha. With few tasks or draws that may be chance.
    holds : bool
        Whether the verdict is "observed within": the whole ``tasks_within_interval`` is at least
        1 - alpha, also if each task on which the method kept every label for want of data counts
        as above epsilon. It is about observed errors; `metapac.evaluate` is about true miss rates.
    violated : bool
        Whether the 95% interval of ``tasks_above``, given these learners, lies above
        alpha + 0.05 (1 - alpha), the share that chance explains; above alpha if errors are exact.
    feasible : bool
        False if the method kept every label on some task because there were too few data.
    too_few : bool
        Whether these tasks decide: counted as above epsilon, they lower the interval, or
        ``tasks_within`` itself, below 1 - alpha.
    every_label : bool, default False
        Whether every set has every label of its task, so that its error is 0 whatever the scores.
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
        """Either "observed within", "violated", "too few data" or "cannot tell yet"."""
        if self.holds or self.violated:
            return WITHIN if self.holds else VIOLATED
        return TOO_FEW if self.too_few else UNDECIDED


@dataclass(frozen=True, eq=False, repr=False)
class Summary(Sequence[MethodSummary]):
    """A table with one line for each method, in order of first appearance.

    It is a sequence of `MethodSummary`; ``summary["PS"]`` is the line of a method. ``print`` and
    notebooks show it as a table, ``to_frame`` makes a data frame.

    Attributes
    ----------
    lines : tuple of MethodSummary
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
        names = [line.method for line in self.lines]
        if key not in names:
            raise InvalidInput(f"the summary has no method {key!r}; it has: {', '.join(names)}.")
        return self.lines[names.index(key)]

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
                f"95% intervals, Student's t over {self.seeds} seeds: they cover what a seed "
                "changes, such as the division of the data or the training, and the calibration "
                "draws and new tasks, not what all seeds share, such as the data."
            )
        learner = "this learner" if self.seeds == 1 else "these two learners"
        if self.draws == 1:
            given = f"given {learner} and one calibration draw"
            return f"95% intervals {given}: they cover its tasks, not other classes or groups."
        return (
            f"95% intervals, Student's t over {self.seeds * self.draws} calibration draws given "
            f"{learner}: they cover the draws and the new tasks, not other learners, classes or "
            "groups."
        )

    def to_frame(self) -> Any:
        """Return the table as a pandas data frame, which writes CSV, LaTeX, HTML and more.

        Returns
        -------
        pandas.DataFrame
            One row for each method, every number to its last digit: the fields of `MethodSummary`,
            an interval as two, such as ``size_low`` and ``size_high``, and the ``verdict``.
        """
        pandas = require("pandas", extra="tables", purpose="to_frame")
        return pandas.DataFrame([_flatten(line) for line in self])

    def write(self, folder: PathLike) -> tuple[Path, ...]:
        """Write ``summary.md``, ``summary.csv`` (see ``to_frame``) and ``summary.tex`` (booktabs).

        Parameters
        ----------
        folder : path-like
            Folder to write to.

        Returns
        -------
        tuple of Path
        """
        Path(folder).mkdir(parents=True, exist_ok=True)
        kinds = {"md": _as_markdown, "csv": _as_csv, "tex": _as_latex}
        paths = {Path(folder) / f"summary.{kind}": make for kind, make in kinds.items()}
        for path, make in paths.items():
            with replacing(path) as file:
                file.write(make(self))
        return tuple(paths)

    def plot(self, path: PathLike | None = None, *, title: str | None = None) -> Any:
        """Draw the error and the set size of each method at the guarantee's delta.

        The scale of sizes suits the methods whose sets are of use; larger sizes are marked.

        Parameters
        ----------
        path : path-like, optional
            File to write, in any format of Matplotlib, such as ``"fig.pdf"``.
        title : str, optional
            Title of the figure.

        Returns
        -------
        matplotlib.figure.Figure
        """
        figure = draw_methods(Rows.concatenate(self.rows), self.guarantee, title=title, fit=True)
        return save(figure, path)

    def describe(self) -> dict[str, Any]:
        """Return the table as JSON can hold it; an interval without an end has None there.

        Returns
        -------
        dict
            ``methods``, ``seeds``, ``draws``, ``columns`` (meanings), ``covers`` and ``notes``.
        """
        return {
            "methods": [_as_json(line) | {"needed": _need(self, line)} for line in self],
            "seeds": self.seeds,
            "draws": self.draws,
            "columns": define_columns(self),
            "covers": self.covers,
            "notes": list(self.notes),
        }

    def _repr_html_(self) -> str:
        def join(tag: str, texts: Sequence[str]) -> str:
            return "".join(f"<{tag}>{html.escape(text)}</{tag}>" for text in texts)

        rows = [join("th", header(self)), *(join("td", texts) for texts in cells(self))]
        table = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table>{table}</table>{join('p', footnotes(self))}"


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
        The lines, in order of first appearance. Intervals rest on independent units: three seeds
        or more, each with tasks of its own as in `run_seeds`; or else the draws, which are
        independent given the study.

    Raises
    ------
    InvalidInput
        If the seeds differ in their methods or in their number of draws.

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
    if not by_seed:
        raise InvalidInput("rows is empty; pass the rows of at least one evaluation.")
    if len({(*each.methods(), len(np.unique(each.draw))) for each in by_seed}) > 1:
        raise InvalidInput("rows of all seeds must have the same methods and as many draws.")
    if notes is None:
        notes = () if "Meta-CP" in by_seed[0].method else (_NO_QUANTILES,)
    methods = ([each.select(*method) for each in by_seed] for method in by_seed[0].methods())
    lines = tuple(_summarise_method(rows, guarantee) for rows in methods)
    return Summary(lines, guarantee, by_seed, tuple(notes))


def _summarise_method(by_seed: Sequence[Rows], g: Guarantee) -> MethodSummary:
    together, epsilon, alpha = Rows.concatenate(by_seed), g.miss_rate, g.alpha
    within = [rows.error <= epsilon for rows in by_seed]
    by_error = _share_above(by_seed, [~each for each in within])
    # Every label kept for want of data is no evidence for a method: count it as a failure.
    at_worst = _share_above(by_seed, [~(x.feasible & (x.error <= epsilon)) for x in by_seed])
    expected = [expect_draws_within(rows, epsilon, alpha) for rows in by_seed]
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
        draws_expected=float(np.mean(expected)),
        satisfied=by_error[0] <= alpha,
        holds=at_worst[1] <= alpha,
        violated=at_least_above > explained_by_noise(together, alpha),
        feasible=bool(together.feasible.all()),
        too_few=any(seen <= alpha < worst for seen, worst in zip(by_error, at_worst, strict=True)),
        every_label=bool(is_full(together).all()),
    )


def _share_above(by_seed: Sequence[Rows], above: Sequence[NDArray[np.bool_]]) -> Interval:
    """Return the share of tasks above epsilon, and the upper end of its interval."""
    return float(np.mean(np.concatenate(above))), share_interval(by_seed, above)[1]
