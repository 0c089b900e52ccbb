"""Do the data mean what they should? Checks of scores, tasks and levels that are valid in form.

Arrays and tables answer with the same `Facts`: a few numbers and a sample of rows. Each judge looks
at some of them and returns a `Finding` or None; `report` raises those that are surely wrong, and
warns of those that may be right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._common import Array, Counts, Floats, listed, warn
from metapac.errors import InvalidInput, keyword
from metapac.inputs import fold_names, show_name

CHECKS = (
    "balanced",
    "direction",
    "duplicates",
    "labels",
    "levels",
    "missing",
    "overlap",
    "percentages",
    "rare-class",
    "score-column",
    "sets",
    "task-column",
    "task-names",
)

FALSE_ALARM = 1e-6  # probability that a statistical check objects to honest data

MAX_ROWS = 100_000  # statistical checks look at a sample of about this many rows

MIN_ROWS = 20  # fewer rows show nothing


class Finding(NamedTuple):
    """What a check objects to."""

    check: str
    is_error: bool
    text: str


class CheckWarning(UserWarning):
    """Data that may be wrong: the message says what was seen and how to go on.

    Examples
    --------
    >>> import warnings
    >>> from metapac import CheckWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", CheckWarning)  # stop where data may be wrong
    """


def check_allowed(allow: Iterable[str]) -> frozenset[str]:
    """Return the names of the checks to skip."""
    names = frozenset([allow] if isinstance(allow, str) else allow)
    for name in names - {*CHECKS}:
        rule = f"allow must name checks to skip, out of {', '.join(CHECKS)}"
        raise InvalidInput(f"{rule}, got {name!r}.")
    return names


def report(
    findings: Iterable[Finding | None], allow: Iterable[str] = (), *, where: str = ""
) -> None:
    """Raise the first finding that is surely wrong, and warn of the others."""
    skipped = check_allowed(allow)
    present = [finding for finding in findings if finding and finding.check not in skipped]
    prefix = f"{where}: " if where else ""
    for check, is_error, text in sorted(present, key=lambda finding: not finding.is_error):
        way_on = f"To {'go on' if is_error else 'silence this'}, pass allow={(check,)!r}."
        if is_error:
            raise InvalidInput(f"{prefix}{text} {way_on}")
        warn(CheckWarning(f"{prefix}{text} {way_on}"))


_ENOUGH = 200  # fewer sets are not compared
_FIRST_ROWS = 1_000  # of an array, the sets looked at
_TASKS = 10  # fewer do not show how much tasks differ
_LEAST = 0.2  # change of a share, or relative change of the mean size, that is far
_FACTOR = 3  # by which the share of a rare class changes if it is far
_DEVIATIONS = 5  # between tasks, of a figure that is far from that of calibration


def draw_rows(rows: int, most: int) -> Any:
    """Return which rows of an array to look at: all, or as many drawn at random, in order."""
    if rows <= most:
        return slice(None)
    return np.sort(np.random.default_rng(0).choice(rows, most, replace=False, shuffle=False))


class Sample(NamedTuple):
    """Rows that a check looked at."""

    tasks: Counts
    labels: Counts
    scores: Floats
    classes: Sequence[Any]
    is_part: bool


class SetCounts(NamedTuple):
    """What the sets of the calibration rows hold, as a promise file keeps it."""

    rows: int
    sampled: bool
    sizes: list[int]
    classes: list[int]
    spread: list[float] | None = None

    @property
    def mean_size(self) -> float:
        """Mean number of labels."""
        return float(np.dot(self.sizes, np.arange(len(self.sizes)))) / self.rows


def count_sets(sample: Sample, thresholds: Any) -> SetCounts:
    """Return what the sets of some rows hold, and how much that differs between tasks."""
    order = np.argsort(sample.tasks, kind="stable")
    sets = (sample.scores >= np.asarray(thresholds))[order]
    sizes = np.count_nonzero(sets, axis=1)
    starts = np.flatnonzero(np.diff(sample.tasks[order], prepend=-1))
    n = np.diff(starts, append=len(order))[:, None]
    by_class = np.add.reduceat(sets, starts, axis=0, dtype=np.int64)
    by_class = by_class[:, : len(sample.classes)]  # none, if they differ from row to row
    means = np.column_stack([np.add.reduceat(sizes, starts), by_class]) / n
    squares = np.column_stack([np.add.reduceat(sizes**2, starts), by_class]) / n
    within = (squares - means**2) / np.maximum(n - 1, 1)  # variance of the mean of a task
    spread = np.sqrt(np.maximum(means.var(axis=0) - within.mean(axis=0), 0)).round(6).tolist()
    counts = np.bincount(sizes).tolist(), by_class.sum(axis=0).tolist()
    return SetCounts(len(order), sample.is_part, *counts, spread if len(n) >= _TASKS else None)


def judge_sets(
    then: SetCounts, rows: int, mean_size: float, by_class: Mapping[Any, int]
) -> Finding | None:
    """Point out sets whose mean size, or share of a class, is far from that of calibration.

    Far is more than 5 standard deviations between calibration tasks, which leaves room for sites
    that differ, and more than 20% (of the size), or 20 percentage points or a factor of 3 (of a
    share; the factor only if at least 200 sets of calibration held the class). Where the deviation
    is not known, it is 50% and 50 points.
    """
    if min(rows, then.rows) < _ENOUGH or len(by_class) != len(then.classes):
        return None
    was = np.array([then.mean_size, *np.array(then.classes) / then.rows])
    now = np.array([mean_size, *np.array([*by_class.values()]) / rows])
    spread = then.spread or []
    is_known = len(spread) == len(was)
    least = np.full(len(was), _LEAST if is_known else 0.5)
    least[0] *= max(was[0], 1)
    squares = np.array([np.dot(then.sizes, np.arange(len(then.sizes)) ** 2) / then.rows, *was[1:]])
    variance = np.maximum(squares - was**2, 0) / rows + np.square(spread if is_known else [0.0])
    deviations = _DEVIATIONS * np.sqrt(variance)
    far = np.abs(now - was) > np.maximum(deviations, least)
    if is_known:
        far |= (np.abs(now - was) > deviations) & _is_multiple(now, was, rows, then.rows, variance)
    if not far.any():
        return None
    figures = [f"mean size {now[0]:.3g} instead of {was[0]:.3g}"]
    for name, x, y in zip(by_class, now[1:], was[1:], strict=True):
        figures.append(f"{name!r} in {x:.1%} instead of {y:.1%}")
    shown = listed([figures[i] for i in np.flatnonzero(far)], shown=3)
    text = f"the sets are unlike those of calibration: {shown}. Is it the same model, on the same "
    return Finding("sets", False, text + "scale, with its columns in the same order?")


def _is_multiple(now: Floats, was: Floats, rows: int, rows_then: int, variance: Floats) -> Floats:
    """Return which shares changed by a factor beyond chance, also in logarithms: tails are long."""
    common = was * rows_then >= _ENOUGH
    was = np.where(common, was, 1)
    ratio = np.maximum(now, 1 / rows) / was
    deviation = np.sqrt(np.log1p(variance / was**2))
    limits = np.maximum(np.log(_FACTOR), _DEVIATIONS * deviation)
    return np.asarray(common & (np.abs(np.log(ratio)) > limits))


def warn_of_sets(
    sets: NDArray[np.bool_], then: SetCounts | None, classes: Sequence[Any] | None
) -> None:
    """Warn of sets that are all empty, or unlike those of calibration; only some are looked at."""
    if len(sets) >= MIN_ROWS and not sets[:_FIRST_ROWS].any():
        text = f"the first {min(len(sets), _FIRST_ROWS)} sets are all empty. Is it the same model, "
        warn(CheckWarning(f"{text}with scores on the same scale, not logarithms?"))
    elif then is not None and len(sets) >= _ENOUGH and sets.shape[1] == len(then.classes):
        some = sets[draw_rows(len(sets), _FIRST_ROWS)]
        counts = np.add.reduce(some, axis=0, dtype=np.int64)
        by_class = dict(zip(classes or range(len(counts)), counts.tolist(), strict=True))
        if finding := judge_sets(then, len(some), counts.sum() / len(some), by_class):
            warn(CheckWarning(finding.text))


_WEAK = 0.55  # share of pairs that a weak model wins; one that wins less may be chance
_FAIR = 0.6  # share of pairs that a fair model wins, and that swapped columns lose
_RARE = 0.015  # share of rows; rarer classes may be mixed up by the model itself
_MAX_PAIRED = 20_000  # rows in which classes are compared in pairs
_MANY_ROWS = 1_000  # in so many rows, a model errs at least once


def judge_labels(sample: Sample, columns: Sequence[str] = ()) -> list[Finding | None]:
    """Judge whether the scores fit the labels."""
    tasks, labels, scores, classes, _is_part = sample
    if not len(labels):
        return []
    wins, losses = count_swaps(tasks, labels, scores)
    swapped = judge_columns(tasks, labels, scores, classes) if len(classes) else None
    chance = judge_chance(int(wins.sum()), int(losses.sum()))
    return [judge_direction(wins, losses, columns) or swapped or chance, judge_best(labels, scores)]


def judge_columns(
    tasks: Counts, labels: Counts, scores: Floats, classes: Sequence[Any]
) -> Finding | None:
    """Point out two classes whose columns fit the labels better when they are exchanged.

    Of each two classes, examples of the same task are paired as in `count_swaps`. If the columns
    are exchanged, every pair that was won is lost. Only classes of more than 1.5% of the rows are
    compared, in whole tasks of about 20,000 rows together.
    """
    few = tasks <= np.searchsorted(np.cumsum(np.bincount(tasks)), _MAX_PAIRED)  # whole tasks
    tasks, labels, scores = tasks[few], labels[few], scores[few]
    order = np.lexsort((np.random.default_rng(0).permutation(len(tasks)), labels, tasks))
    starts = np.flatnonzero(np.diff(tasks[order] * scores.shape[1] + labels[order], prepend=-1))
    place = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    key = tasks[order] * len(tasks) + place  # equal for the k-th example of each class in a task
    common = np.flatnonzero(np.bincount(labels) > _RARE * len(labels)).tolist()
    slots = np.unique(key, return_inverse=True)[1]
    row = np.full((scores.shape[1], slots.max() + 1), -1)  # of each class and slot; -1 if none
    row[labels[order], slots] = order
    found = []
    for a, b in combinations(common, 2):
        both = np.flatnonzero((row[a] >= 0) & (row[b] >= 0))
        gain = _gain(scores, row[a, both], row[b, both], a, b)
        lost, won = int(np.count_nonzero(gain < 0)), int(np.count_nonzero(gain > 0))
        is_sure = _sign_test(lost, won) * len(common) ** 2 <= FALSE_ALARM
        if is_sure and lost > _FAIR * (lost + won) > _FAIR * _RARE * len(labels):
            exchanged = scores.copy()
            exchanged[:, [a, b]] = scores[:, [b, a]]
            wins, losses = map(np.sum, count_swaps(tasks, labels, exchanged))
            if wins >= _FAIR * (wins + losses):  # otherwise the model is poor in either order
                found.append((wins, lost, lost + won, a, b))
    if not found:
        return None
    _, lost, pairs, a, b = max(found)
    seen = f"the scores of {classes[a]!r} and {classes[b]!r} look swapped: {lost} of {pairs} pairs"
    return Finding("direction", False, f"{seen} of rows fit better if they are exchanged.")


def judge_best(labels: Counts, scores: Floats) -> Finding | None:
    """Point out that the true label scores highest in every row."""
    if len(labels) < _MANY_ROWS or np.all(labels == labels[0]):
        return None
    true = scores[np.arange(len(labels)), labels]
    if np.any(np.count_nonzero(scores >= true[:, None], axis=1) > 1):
        return None
    seen = f"the true label scores highest in all {len(labels)} rows looked at"
    return Finding("labels", False, f"{seen}. Are the labels predictions, or training data?")


def judge_chance(won: int, lost: int) -> Finding | None:
    """Point out scores that tell true labels from others no better than chance."""
    if special.bdtr(won, won + lost, _WEAK) > 1e-3 or _sign_test(won, lost) < 0.01:
        return None
    seen = f"the scores fit the labels no better than chance: {lost} of {won + lost} pairs of rows"
    remedy = "Were scores and labels joined by the wrong key?"
    return Finding("labels", False, f"{seen} fit better if their labels are exchanged. {remedy}")


def judge_direction(wins: Counts, losses: Counts, columns: Sequence[str] = ()) -> Finding | None:
    """Object if true labels score lower than other labels.

    Two examples of a task with labels a and b are won if the scores of their own labels sum to
    more than the scores of each other's labels; scores that are not negative, such as
    probabilities, are multiplied instead. If the scores say nothing about labels, an example
    pair is won or lost with equal probability, however common each class is and however the
    scores favour one class. So do tasks. Both counts are tested by a sign test.
    """
    won, lost = int(np.sum(wins)), int(np.sum(losses))
    right, reversed_ = int(np.sum(wins > losses)), int(np.sum(losses > wins))
    if reversed_ <= right or _sign_test(lost, won) > FALSE_ALARM:
        return None
    swapped = " and ".join(columns) if len(columns) == 2 else "of the classes"
    text = (
        f"the true label scores lower than other labels: in {lost} of {won + lost} pairs of "
        f"examples, and in {reversed_} of {right + reversed_} tasks. Higher scores must mean more "
        f"plausible. Are the columns {swapped} swapped, or must the scores be negated?"
    )
    return Finding("direction", _sign_test(reversed_, right) <= 1e-3, text)


def count_swaps(tasks: Counts, labels: Counts, scores: Floats) -> tuple[Counts, Counts]:
    """Return how many pairs of examples of each task are won and lost, as in `judge_direction`.

    Pairs are disjoint, and drawn by task and label alone: in a table sorted by a score, neighbours
    would be won or lost together.
    """
    shuffled = np.random.default_rng(0).permutation(len(tasks))
    order = np.lexsort((shuffled, labels, tasks))
    sizes = np.bincount(tasks)
    place = np.arange(len(tasks)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = np.flatnonzero(place < np.repeat(sizes // 2, sizes))
    apart = np.repeat((sizes + 1) // 2, sizes)[first]  # so that labels differ as often as they can
    i, j = order[first], order[first + apart]
    gain = _gain(scores, i, j, labels[i], labels[j])
    wins = np.bincount(tasks[i], weights=gain > 0, minlength=len(sizes))
    losses = np.bincount(tasks[i], weights=gain < 0, minlength=len(sizes))
    return wins.astype(np.int64), losses.astype(np.int64)


def _gain(scores: Floats, i: Any, j: Any, a: Any, b: Any) -> Floats:
    """Return by how much examples i of class a and j of class b fit better than exchanged."""
    own, other = np.array([[scores[i, a], scores[j, b]], [scores[j, a], scores[i, b]]], np.float64)
    with np.errstate(invalid="ignore"):
        if min(own.min(initial=0), other.min(initial=0)) >= 0:  # odds: a class may be rare
            return np.asarray(own.prod(axis=0) - other.prod(axis=0))
        return np.asarray((own - other).sum(axis=0))  # 0 if a == b


def _sign_test(count: int, other: int) -> float:
    """Return the probability of at least this count if both are equally likely."""
    return float(special.bdtrc(count - 1, count + other, 0.5))


_INVISIBLE = "spaces, invisible characters or the Unicode form of letters"
_DIFFERENCES = "spaces, case, Unicode form or zeros"  # that `fold_name` ignores
_INDEPENDENT = "The examples of a task must be independent, and a copy is not new evidence."


def judge_levels(epsilon: Any, alpha: float | None, delta: float | None) -> Finding | None:
    """Object to epsilon or delta above 1/2, or alpha above 3/4: they look like confidences."""
    largest = max(epsilon.values()) if isinstance(epsilon, Mapping) else epsilon
    for name, level, limit, meaning in (
        ("epsilon", largest, 0.5, "a miss rate: more than half of the sets may miss the label"),
        ("alpha", alpha, 0.75, "a fraction of new tasks: most may exceed the miss rate"),
        ("delta", delta, 0.5, "a failure probability: the guarantee would more likely fail"),
    ):
        if level is not None and level > limit:
            meant = keyword(name, round(1 - level, 12))
            text = f"{keyword(name, level)} is {meaning}. Did you mean {meant}?"
            return Finding("levels", True, text)
    return None


def judge_task_names(names: Iterable[Any], *, what: str = "task") -> Finding | None:
    """Object to names that look the same (error), or are alike to `fold_name` (warning)."""
    texts = [*dict.fromkeys(name for name in names if isinstance(name, str))]
    alike = _group_alike(texts, fold_names(texts))
    if not alike:
        return None
    suspects = [name for group in alike for name in group]
    same = _group_alike(suspects, [*map(show_name, suspects)])
    groups = listed([" and ".join(map(repr, group)) for group in same or alike], shown=3)
    text = f"names of {what}s differ only in {_INVISIBLE if same else _DIFFERENCES}: {groups}. A "
    return Finding("task-names", bool(same), f"{text}{what} under two names counts twice.")


def judge_near_names(
    pairs: Sequence[tuple[Any, Any]], known: str, *, what: str = "task"
) -> Finding | None:
    """Object to tasks whose names are nearly those of tasks that they must differ from."""
    pairs = [*dict.fromkeys(pairs)]
    if not pairs:
        return None
    count = f"{len(pairs)} {what}{' has' if len(pairs) == 1 else 's have'}"
    rule = f"{_list_pairs(pairs)} differ only in {_DIFFERENCES}. Leave out those that are the same."
    return Finding("task-names", True, f"{count} nearly the name of {known}: {rule}")


def _list_pairs(pairs: Sequence[tuple[Any, Any]]) -> str:
    return listed([f"{name!r} and {other!r}" for name, other in pairs], shown=3)


def judge_task_column(tasks: int, rows: int) -> Finding | None:
    """Object if every row is a task of its own, as with a column of ids."""
    if tasks < rows or rows < MIN_ROWS:
        return None
    seen = f"task names a different task in each of {rows} rows"
    return Finding("task-column", True, f"{seen}, but a task has many. Is it a column of ids?")


def judge_ids(rows: int, distinct: int, first: Sequence[str] = ()) -> Finding | None:
    """Object to an id that occurs twice within a task."""
    if distinct == rows:
        return None
    seen = f"id occurs twice within a task in {rows - distinct} of {rows} rows"
    where = f"(first: {listed(first, shown=3)})"
    return Finding("duplicates", True, f"{seen} {where}. {_INDEPENDENT} Keep one row for each.")


def judge_rare_classes(
    counts: Mapping[Any, int], epsilon: float, *, supports_classes: Callable[[], bool]
) -> Finding | None:
    """Point out classes rarer than the miss rate, or absent, if there is one guarantee for all."""
    total = sum(counts.values())
    rare = {name: count for name, count in counts.items() if count < epsilon * total}
    if not rare or len(rare) == len(counts):
        return None
    present = {name: count for name, count in rare.items() if count}
    missed = f"sets may always miss {'it' if len(present or rare) == 1 else 'any of them'} and "
    if present:
        shares = [f"{name!r} is {count / total:.1%}" for name, count in present.items()]
        start = f"{listed(shares, shown=3)} of the examples, less than epsilon"
        remedy = "Use per_class=True."
        if not supports_classes():
            remedy = "Lower epsilon; for a guarantee per class, tasks have too few examples of it."
    else:
        start = f"no calibration example is of class {listed([*map(repr, rare)], shown=3)}"
        remedy = "Calibrate on examples of every class."
    return Finding("rare-class", False, f"{start}: {missed}still keep the guarantee. {remedy}")


def judge_balanced(sizes: Mapping[Any, Counts]) -> Finding | None:
    """Object to i.i.d. sampling if nearly every task has the same number of examples of each class.

    Whatever the classes' shares, a task of n i.i.d. examples has equally many of each of C classes
    with at most the probability that it has at equal shares. The number of such tasks is then no
    larger than binomial with the mean of these (Hoeffding 1956).
    """
    counts = np.array([*sizes.values()])
    n, classes = counts.sum(axis=0), len(counts)
    counts, n = counts[:, n > 0], n[n > 0]
    equal = int(np.count_nonzero((counts == counts[0]).all(axis=0)))
    if classes < 2 or equal < _NEARLY_ALL * len(n):
        return None
    each = special.gammaln(n / classes + 1) + n / classes * np.log(classes)
    chances = np.where(n % classes == 0, np.exp(special.gammaln(n + 1) - classes * each), 0.0)
    if special.bdtrc(equal - 1, len(n), min(chances.mean(), 1.0)) > FALSE_ALARM:
        return None
    seen = f"sampling='iid' is declared, but {equal} of {len(n)} tasks have equally many examples"
    text = f"{seen} of each class. Balanced tasks are not i.i.d. Use sampling='any', the default."
    return Finding("balanced", True, text)


_NEARLY_ALL = 0.9  # of the tasks


def judge_percentages(rows: int, fractions: int, percentages: int) -> Finding | None:
    """Object if the scores of some rows sum to 1 and those of all others to 100."""
    if not (fractions and percentages) or fractions + percentages < 0.99 * rows:
        return None
    text = f"the class scores sum to 1 in {fractions} rows and to 100 in {percentages}. "
    return Finding("percentages", True, f"{text}Divide the percentages by 100.")


def judge_scale(
    scores: tuple[float, float], calibration: tuple[float, float], *, labelled: bool = True
) -> Finding | None:
    """Object to percentages or logarithms where the calibration used fractions; or the reverse."""
    (low, high), (low_then, high_then) = scores, calibration
    (lowest, negative), (least, positive) = sorted((scores, calibration))
    if float("-inf") < negative <= 0 <= least < positive and lowest < 0:
        these, used = "logarithms", "probabilities" if positive <= 1 else "positive numbers"
        these, used = (these, used) if low < 0 else (used, these)
        text = (
            f"the scores are between {low:g} and {high:g}, those of the calibration between "
            f"{low_then:g} and {high_then:g}: these look like {these}; the calibration used {used}."
        )
        return Finding("percentages", labelled and lowest < -1 and positive <= 1, text)
    if min(low, low_then) < 0 or not (max(high, high_then) <= 100 < 200 * min(high, high_then)):
        return None
    if high_then <= 1 and high > 2:
        kinds = "percentages and those fractions. Divide these by 100."
    elif high <= 1 and high_then > 2:
        kinds = "fractions and those percentages. Multiply these by 100."
    else:
        return None
    text = f"the scores go up to {high:g}, those of the calibration up to {high_then:g}: these are "
    return Finding("percentages", True, text + kinds)


def judge_missing(rows: int, missing: Mapping[Any, int], *, affected: int) -> Finding | None:
    """Object to missing scores of labels other than the true one, in calibration."""
    if not affected:
        return None
    classes = listed([f"{name!r}: {count}" for name, count in missing.items() if count])
    seen = f"scores of classes are missing in {affected} of {rows} rows"
    seen += f" (by class, {classes})" if classes else ""
    remedy = "drop them, or give the missing scores inf, which keeps the label."
    return Finding("missing", True, f"{seen}. Prediction refuses such rows: {remedy}")


def judge_score_column(score: str, others: Sequence[str], rows: int, equal: int) -> Finding | None:
    """Object to a score column that is one of the class columns."""
    if not others or equal >= 0.99 * rows:
        return None
    seen = f"{keyword('score', score)} looks like the score of one class, beside "
    remedy = "Pass label, the column with the true label, instead of score."
    return Finding("score-column", True, f"{seen}{listed(others, shown=3)}. {remedy}")


def _group_alike(names: Sequence[str], simplified: Sequence[str]) -> list[list[str]]:
    """Return the groups of distinct names that are equal when simplified."""
    groups: dict[str, list[str]] = {}
    if len({*simplified}) < len(names):
        for name, simple in zip(names, simplified, strict=True):
            groups.setdefault(simple, []).append(name)
    return [group for group in groups.values() if len(group) > 1]


_FIRST_SCORES = 1_000  # about how many scores tell fractions from percentages in prediction

_FEW_ROWS = 5_000  # without two equal scores among so many, repeats are not counted

_BLOCK = 1 << 14  # scores are hashed this many at a time, so that they stay in the cache


@dataclass(frozen=True)
class Facts:
    """What arrays and tables tell the checks: a few numbers, and rows with scores of all classes.

    ``tasks`` is empty for a single site. ``sums`` counts the rows whose scores sum to 1 and to 100.
    ``ids`` counts rows and distinct ids, and names the first that repeat; ``score_column`` names
    the score column and the class columns beside it, and counts rows, and those with equal scores.
    """

    tasks: Sequence[Any]
    rows: int
    sample: Sample | None = None
    columns: Sequence[str] = ()
    missing: Mapping[Any, int] = field(default_factory=dict)
    affected: int = 0
    sums: tuple[int, int] = (0, 0)
    repeats: Repeats = field(default_factory=dict)
    ids: tuple[int, int, Sequence[str]] = (0, 0, ())
    score_column: tuple[str, Sequence[str], int, int] = ("", (), 0, 0)


def check_facts(facts: Facts, skipped: frozenset[str] = frozenset(), where: str = "") -> None:
    """Check labelled examples, for all that ``CHECKS`` can see in them."""
    findings = [
        judge_task_names(facts.tasks),
        judge_task_column(len(facts.tasks), facts.rows) if facts.tasks else None,
        judge_score_column(*facts.score_column),
        judge_missing(facts.rows, facts.missing, affected=facts.affected),
        judge_percentages(facts.rows, *facts.sums),
        judge_duplicates(facts.repeats) if facts.repeats else None,
        judge_ids(*facts.ids),
    ]
    if facts.sample is not None and not {"direction", "labels"} <= skipped:
        findings += judge_labels(facts.sample, facts.columns)
    report(findings, skipped, where=where)


def find_facts(
    names: Sequence[Any], tasks: Array, scores: Floats, matrix: Any, skipped: frozenset[str]
) -> Facts:
    """Return the facts of labelled examples in arrays; `matrix` has classes and codes, if any."""
    facts: dict[str, Any] = {}
    true, columns = scores, [scores]
    if matrix is not None:
        true, columns = matrix.true_scores, [matrix.codes, scores]
        some, is_part = draw_rows(len(scores), MAX_ROWS), len(scores) > MAX_ROWS
        of_tasks = number_tasks(tasks[some].tolist())
        rows = matrix.codes[some], scores[some]
        facts["sample"] = Sample(of_tasks, *rows, matrix.classes, is_part)
        facts |= count_matrix(scores, matrix.classes)
    if "duplicates" not in skipped and _has_equal_values(true):
        chosen = _sample_by_value(true, MAX_ROWS)
        of_tasks = number_tasks(tasks[chosen].tolist())
        facts["repeats"] = count_repeats(of_tasks, *(column[chosen] for column in columns))
    return Facts(names, len(scores), **facts)


def count_matrix(
    scores: Floats, classes: Sequence[Any], has_true: NDArray[np.bool_] | None = None
) -> dict[str, Any]:
    """Return how many scores are missing, and how many rows sum to 1 and to 100."""
    bad = np.isnan(scores) if has_true is None else np.isnan(scores) & has_true[:, None]
    missing = dict(zip(classes, bad.sum(axis=0).tolist(), strict=True))
    with np.errstate(invalid="ignore"):  # inf - inf
        sums = scores.sum(axis=1, dtype=np.float64)
    near = tuple(int(np.sum(sums_to(sums, total))) for total in (1, 100))
    return {"missing": missing, "affected": int(bad.any(axis=1).sum()), "sums": near}


def check_names_differ(
    names: Iterable[Any], *, what: str = "task", allow: Iterable[str] = ()
) -> None:
    """Raise if names are alike: one task may not count twice."""
    finding = judge_task_names(names, what=what)
    report([finding and finding._replace(is_error=True)], allow)


def check_levels(
    epsilon: Any, alpha: float | None, delta: float | None, *, allow: Iterable[str] = ()
) -> None:
    """Check that levels are failure rates, not confidences."""
    report([judge_levels(epsilon, alpha, delta)], allow)


def warn_of_scale(scores: Floats, calibration: tuple[float, float] | None) -> None:
    """Warn if the first scores look like percentages or logarithms, unlike those of calibration."""
    if calibration is None or not scores.size:
        return
    first = scores[: -(-_FIRST_SCORES * len(scores) // scores.size)]  # whole rows, without a copy
    if calibration[1] > 0 and 0.5 * calibration[1] <= first.max() <= 2:
        return  # the usual case, at the cost of one maximum
    if first.size < MIN_ROWS and calibration[1] > 1:
        return  # a few scores may all be small
    finite = first[np.isfinite(first)]
    ends = (float(finite.min()), float(finite.max())) if finite.size else calibration
    if finding := judge_scale(ends, calibration):
        warn(CheckWarning(finding.text))


def sums_to(sums: Any, total: float) -> Any:
    """Return which sums of scores are a total, but for rounding."""
    return (sums >= 0.98 * total) & (sums <= 1.02 * total)


def number_tasks(tasks: Sequence[Any]) -> Counts:
    """Return an index for each task."""
    seen: dict[Any, int] = {}
    return np.fromiter((seen.setdefault(task, len(seen)) for task in tasks), np.int64, len(tasks))


def _has_equal_values(scores: Floats) -> bool:
    """Return whether scores occur twice in a small sample: cheap, and usually they do not."""
    some = scores[_sample_by_value(scores, _FEW_ROWS)]
    return len(np.unique(some)) < len(some)


def _sample_by_value(scores: Floats, rows: int) -> Any:
    """Return about ``rows`` positions, such that equal scores are all in or all out."""
    if len(scores) <= rows:
        return slice(None)
    limit, chosen = np.uint64(2**64 * rows // len(scores)), []
    for start in range(0, len(scores), _BLOCK):
        bits = np.ascontiguousarray(scores[start : start + _BLOCK], np.float64).view(np.uint64)
        # The high bits of the product depend on all bits of the score (Fibonacci hashing).
        chosen.append(np.flatnonzero(bits * np.uint64(0x9E3779B97F4A7C15) < limit) + start)
    return np.concatenate(chosen)


Repeats = Mapping[tuple[int, int], int]
_FEW_RANGES = 3  # fewer that several tasks share are no copies
_UNLIKELY = 0.01  # beyond generous expectations, so that honest data hardly ever reach it


def judge_duplicates(repeats: Repeats) -> Finding | None:
    """Object to rows that occur more often than independent examples can.

    If the n examples of a task are independent, the number of times that a row occurs is binomial,
    with a probability that differs from row to row: coarse scores have few, probable rows. For any
    such mixture, the expected numbers N(k) of rows that occur k times satisfy
    ``N(k - 1) * N(k + 1) >= k / (k + 1) * (n - k) / (n - k + 1) * N(k)**2``. Copies violate it:
    rows occur twice, but none three times. And a number that is not 0 is even with probability at
    most 1/2, so that not all of them are.
    """
    times = sorted({k for _size, k in repeats})
    if not (_has_divisor(repeats) or any(_is_excess(repeats, k) for k in times if k > 1)):
        return None
    rows, distinct = sum(k * n for (_size, k), n in repeats.items()), sum(repeats.values())
    seen = f"{rows - distinct} of {rows} rows are copies of another row"
    if times[0] > 1:
        often = f"{'at least ' if len(times) > 1 else ''}{times[0]} times"
        seen = f"every row occurs {often} ({rows} rows, {distinct} distinct)"
    text = f"{seen}, more than chance explains. {_INDEPENDENT} Copies often come from a join."
    return Finding("duplicates", times[0] > 1, text)


def count_repeats(tasks: Counts, *columns: Array) -> Repeats:
    """Return how many distinct rows occur k times in a task with n rows, for each n and k."""
    if not len(tasks):
        return {}
    wide = np.column_stack([tasks, *(np.asarray(c, dtype=np.float64) for c in columns)]) + 0.0
    order = np.lexsort(wide.T)
    new = np.any(wide[order[1:]] != wide[order[:-1]], axis=1)
    starts = np.concatenate([[0], np.flatnonzero(new) + 1, [len(wide)]])
    sizes = np.bincount(tasks)[tasks[order[starts[:-1]]]]
    pairs = np.column_stack([sizes, np.diff(starts)])
    distinct, counts = np.unique(pairs, axis=0, return_counts=True)
    return {(n, k): count for (n, k), count in zip(distinct.tolist(), counts.tolist(), strict=True)}


def _has_divisor(repeats: Repeats) -> bool:
    """Return whether all of many rows occur an even number of times, or a multiple of 3, ...

    The last count of a task follows from the others.
    """
    tasks = sum(k * count / size for (size, k), count in repeats.items())
    free = sum(repeats.values()) - tasks
    return math.gcd(*(k for _size, k in repeats)) > 1 and 0.5**free <= FALSE_ALARM / 10


def _is_excess(repeats: Repeats, k: int) -> bool:
    """Return whether more rows occur k times than the neighbouring counts allow.

    Three counts may mislead, for each k, and either neighbour may be the one that is missing: the
    level is divided among them all. Only tasks count in which such rows are at most half.
    """
    level = FALSE_ALARM / (6 * len(repeats))
    least = 2 * (k + 1)
    near = [
        sum(count for (size, j), count in repeats.items() if j == times and size >= least)
        for times in (k - 1, k, k + 1)
    ]
    if not near[1]:
        return False
    count = special.gammaincinv(near[1], level)
    below, above = sorted((near[0], near[2]))
    most = special.gammainccinv(above + 1, level)
    needed = k / (k + 1) * (least - k) / (least - k + 1) * count**2 / most
    return bool(special.pdtr(below, needed) <= level)


def find_ranges(index: Counts, low: Array, high: Array, length: int) -> Floats:
    """Return the lowest and the highest score of the groups with the same index."""
    ends = np.tile([np.inf, -np.inf], (length, 1))
    with np.errstate(invalid="ignore"):  # counting raises if a score is NaN
        np.minimum.at(ends[:, 0], index, low)
        np.maximum.at(ends[:, 1], index, high)
    return ends


class Contents(NamedTuple):
    """What recognises the examples of tasks, whatever the tasks are called."""

    names: Array
    sizes: Counts
    ranges: Floats


def judge_copies(new: Contents, known: Contents | None = None) -> Finding | None:
    """Object to tasks with the size and the range of scores of a task with another name.

    Two tasks of one size are twins if both ends of their ranges agree, in the precision of float32.
    Scores that are coarse, discrete or clipped have twins by chance. So there is an objection only
    if twins are far more than the agreements of single ends let expect (unless ends have three
    decimals, which say too little), or if far more new tasks have a twin among the known ones than
    known ones have among themselves.
    """
    parts = [new] if known is None else [new, known]
    names, sizes, ranges = map(np.concatenate, zip(*parts, strict=True))
    with np.errstate(over="ignore"):
        ends = ranges.astype(np.float32)
    if len(np.unique(ends[:, 0])) == len(ends):
        return None  # the usual case, at no cost
    varied = ends[:, 0] < ends[:, 1]  # false for NaN
    keys = np.column_stack([sizes, ends])[varied]  # size, low and high, in float64
    is_new = (np.arange(len(names)) < len(new.names))[varied]
    if not (_have_copies(keys, is_new) or (known is not None and _have_known(keys, is_new))):
        return None
    pairs = _list_twins(names[varied].tolist(), keys, is_new)
    seen = "tasks have the same number of examples, and the same lowest and highest score"
    remedy = "The same data under two names count twice; leave out the first."
    return Finding("duplicates", True, f"{seen}: {_list_pairs(pairs)}. {remedy}")


def _count_pairs(keys: Floats, is_new: NDArray[np.bool_] | None = None) -> int:
    """Return the number of pairs of equal rows; if it is known which are new, of pairs with one."""
    if is_new is not None:
        return _count_pairs(keys) - _count_pairs(keys[~is_new])
    ordered = keys[np.lexsort(keys.T)]
    ends = np.flatnonzero((ordered[1:] != ordered[:-1]).any(axis=1))
    counts = np.diff(ends, prepend=-1, append=len(keys) - 1)
    return int(np.sum(counts * (counts - 1) // 2))


def _have_copies(keys: Floats, is_new: NDArray[np.bool_]) -> bool:
    """Return whether there are more twins than independent ends of ranges would give.

    The share of equal lows is taken from pairs that are no twins, with one more to be safe. A range
    depends on how hard a task is, so up to 30 times as many twins pass; 3 times if not even single
    ends agree.
    """
    fine = np.any(keys[:, 1:] != keys[:, 1:].round(3).astype(np.float32), axis=1)
    keys, is_new = keys[fine], is_new[fine]
    _, place, shared = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    if np.count_nonzero(shared > 2) < _FEW_RANGES:  # of tasks whose scores have two values, say
        few = shared[place.ravel()] <= 2
        keys, is_new = keys[few], is_new[few]
    twins, of_new = _count_pairs(keys), _count_pairs(keys, is_new)
    if not of_new:
        return False
    every = len(keys) * (len(keys) - 1) // 2
    expected, agreements = [], 0
    for end, other in ((1, 2), (2, 1)):
        equal, with_other = _count_pairs(keys[:, [end]]) - twins, keys[:, [0, other]]
        rate = (equal + 1) / (every - _count_pairs(with_other) + 1)
        expected.append(rate * _count_pairs(with_other, is_new))
        agreements += equal
    slack = 30 if agreements else 3
    return bool(special.pdtrc(of_new - 1, slack * max(expected)) <= _UNLIKELY)


def _have_known(keys: Floats, is_new: NDArray[np.bool_]) -> bool:
    """Return whether new tasks have twins among known ones more often than these among themselves.

    That number is uncertain, and varies if many tasks share one range: twice its upper confidence
    limit is compared.
    """
    of_new, inside = _count_pairs(keys[is_new]), _count_pairs(keys[~is_new])
    across, count = _count_pairs(keys) - of_new - inside, np.count_nonzero(~is_new)
    most = special.gammaincinv(inside + 1, 1 - _UNLIKELY / 10) / max(1, count * (count - 1) // 2)
    limit = 2 * most * count * np.count_nonzero(is_new)
    return bool(across and special.pdtrc(across - 1, limit) <= _UNLIKELY / 10)


def _list_twins(names: list[Any], keys: Floats, is_new: NDArray[np.bool_]) -> list[tuple[Any, Any]]:
    """Return each new task that has a twin, with the name of the twin."""
    seen: dict[Any, Any] = {}
    pairs = []
    for i in np.argsort(is_new, kind="stable"):  # known tasks first
        other = seen.setdefault(tuple(keys[i]), names[i])
        if is_new[i] and other is not names[i]:
            pairs.append((names[i], other))
    return pairs
