"""Do the data mean what they should? Checks of scores, tasks and levels that are valid in form.

Each judge looks at a few numbers and returns a `Finding` or None. The numbers come from arrays
(`count_repeats`, `count_swaps`) or from an engine (``metapac.tables.meaning``). `report` raises a
finding that is surely wrong and warns of one that may be right.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from metapac._checks import listed
from metapac._types import Array, Counts, Floats
from metapac._visible import without_invisible
from metapac._warnings import warn
from metapac.exceptions import InvalidInput, Message, Parameter

CHECKS = (
    "direction",
    "duplicates",
    "levels",
    "missing",
    "overlap",
    "percentages",
    "rare-class",
    "score-column",
    "task-column",
    "task-names",
)
FALSE_ALARM = 1e-6  # probability that a statistical check objects to honest data
MAX_ROWS = 100_000  # statistical checks look at a sample of about this many rows
_LARGEST = {"epsilon": 0.5, "alpha": 0.75, "delta": 0.5}  # above, levels look like confidences
_MIN_ROWS = 20  # fewer rows show nothing
_FIRST_SCORES = 1_000  # about how many scores tell fractions from percentages in prediction
_FEW_ROWS = 5_000  # without two equal scores among so many, repeats are not counted


Repeats = Mapping[tuple[int, int], int]


class Finding(NamedTuple):
    """What a check objects to.

    Attributes
    ----------
    check : str
        Name of the check, one of ``CHECKS``.
    is_error : bool
        Whether it is surely wrong; otherwise it may be right.
    text : Message
        What was seen, why it matters and what to do.
    """

    check: str
    is_error: bool
    text: Message


class CheckWarning(UserWarning):
    """Data that may be wrong: the message says what was seen and how to go on.

    Parameters
    ----------
    message : Message
        The message, whose parameters the command line shows as options.

    Examples
    --------
    >>> import warnings
    >>> from metapac.meaning import CheckWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", CheckWarning)  # stop where data may be wrong
    """

    def __init__(self, message: Message) -> None:
        self.message = message
        super().__init__(str(message))


def check_allowed(allow: Iterable[str]) -> frozenset[str]:
    """Return the names of the checks to skip.

    Parameters
    ----------
    allow : iterable of str
        The names.

    Returns
    -------
    frozenset of str
        The same names.

    Raises
    ------
    InvalidInput
        If a name is not one of ``CHECKS``.

    Examples
    --------
    >>> from metapac.meaning import check_allowed
    >>> sorted(check_allowed(["levels", "duplicates"]))
    ['duplicates', 'levels']
    """
    names = [allow] if isinstance(allow, str) else [*allow]
    for name in names:
        if name not in CHECKS:
            raise InvalidInput(
                "{} must name checks to skip, out of {}, got {!r}.",
                Parameter("allow"),
                ", ".join(CHECKS),
                name,
            )
    return frozenset(names)


def report(
    findings: Iterable[Finding | None], allow: Iterable[str] = (), *, where: str = ""
) -> None:
    """Raise the first finding that is surely wrong, and warn of the others.

    Parameters
    ----------
    findings : iterable of Finding or None
        The findings; None where a check has no objection.
    allow : iterable of str, default ()
        Checks to skip.
    where : str, default ""
        Name of the table, at the start of the message.

    Raises
    ------
    InvalidInput
        If a finding is an error.

    Examples
    --------
    >>> from metapac.meaning import judge_task_names, report
    >>> report([judge_task_names(["ohio", "texas"])])
    """
    skipped = check_allowed(allow)
    present = [finding for finding in findings if finding and finding.check not in skipped]
    prefix = f"{where}: " if where else ""
    for finding in sorted(present, key=lambda finding: not finding.is_error):
        allowed = Parameter("allow", (finding.check,))
        purpose = "go on" if finding.is_error else "silence this"
        text = Message("{}{} To {}, pass {}.", prefix, finding.text, purpose, allowed)
        if finding.is_error:
            raise InvalidInput(text)
        warn(CheckWarning(text))


def check_examples(
    names: Iterable[Any],
    tasks: Array,
    scores: Floats,
    labels: Counts | None = None,
    *,
    classes: Sequence[Any] | None = None,
    calibration: tuple[float, float] | None = None,
    allow: Iterable[str] = (),
) -> None:
    """Check labelled examples in arrays, for all that ``CHECKS`` can see in them.

    Parameters
    ----------
    names : iterable
        The distinct tasks.
    tasks : ndarray, shape (n,)
        Task of each example.
    scores : ndarray, shape (n,) or (n, classes)
        Scores of the true labels, or of all classes.
    labels : ndarray of int, shape (n,), optional
        Column of the true label of each example. Needed with scores of all classes.
    classes : sequence, optional
        Names of the columns; 0, 1, ... by default.
    calibration : tuple of float, optional
        Lowest and highest score of a true label in calibration, to compare the scale with.
    allow : iterable of str, default ()
        Checks to skip.

    Raises
    ------
    InvalidInput
        If a finding is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning import check_examples
    >>> rng = np.random.default_rng(0)
    >>> check_examples(range(20), np.repeat(np.arange(20), 50), rng.random(1000))
    """
    skipped = check_allowed(allow)
    distinct = [*names]
    findings = [
        judge_task_names(distinct),
        judge_task_column(len(distinct), len(scores)),
        _judge_scores(scores, calibration),
    ]
    if scores.ndim == 2 and labels is not None:
        true = scores[np.arange(len(scores)), labels]
        findings += _judge_matrix(tasks, scores, labels, classes or range(scores.shape[1]), skipped)
    else:
        true = scores
    if "duplicates" not in skipped and _has_equal_values(true):
        chosen = _sample_by_value(true, MAX_ROWS)
        columns = [scores[chosen]] if labels is None else [labels[chosen], scores[chosen]]
        findings.append(
            judge_duplicates(count_repeats(number_tasks(tasks[chosen].tolist()), *columns))
        )
    report(findings, skipped)


def check_sites(names: Iterable[Any], *, allow: Iterable[str] = ()) -> None:
    """Check that no site has two names that are alike; each of them may only count once.

    Parameters
    ----------
    names : iterable
        Distinct names of sites.
    allow : iterable of str, default ()
        Checks to skip.

    Raises
    ------
    InvalidInput
        If names are equal but for spaces, Unicode form or case.

    Examples
    --------
    >>> from metapac.meaning import check_sites
    >>> check_sites(["ohio", "texas"])
    """
    finding = judge_task_names(names, what="site")
    report([finding and finding._replace(is_error=True)], allow)


def check_levels(
    epsilon: Any, alpha: float | None, delta: float | None, *, allow: Iterable[str] = ()
) -> None:
    """Check that levels are failure rates, not confidences.

    Parameters
    ----------
    epsilon : float or mapping from class to float
        Miss rate.
    alpha : float or None
        Fraction of new tasks.
    delta : float or None
        Failure probability.
    allow : iterable of str, default ()
        Checks to skip.

    Raises
    ------
    InvalidInput
        If epsilon or delta is above 1/2, or alpha above 3/4.

    Examples
    --------
    >>> from metapac.meaning import check_levels
    >>> check_levels(0.05, 0.1, 0.05)
    """
    report([judge_levels(epsilon, alpha, delta)], allow)


def judge_levels(epsilon: Any, alpha: float | None, delta: float | None) -> Finding | None:
    """Object to epsilon or delta above 1/2, or alpha above 3/4: they look like confidences.

    Parameters
    ----------
    epsilon : float or mapping from class to float
        Miss rate.
    alpha : float or None
        Fraction of new tasks.
    delta : float or None
        Failure probability.

    Returns
    -------
    Finding or None
        An error, or None.

    Examples
    --------
    >>> from metapac.meaning import judge_levels
    >>> print(judge_levels(0.95, 0.1, 0.05).text)
    epsilon=0.95 is a miss rate: more than half of the sets may then miss the true label. Did you \
mean epsilon=0.05?
    """
    rates = epsilon if isinstance(epsilon, Mapping) else {None: epsilon}
    largest = max(rates.values())
    consequence = {
        "epsilon": "is a miss rate: more than half of the sets may then miss the true label",
        "alpha": "is a fraction of new tasks: the miss rate may then be exceeded on most of them",
        "delta": "is a failure probability: the guarantee is then more likely broken than not",
    }
    for name, level in (("epsilon", largest), ("alpha", alpha), ("delta", delta)):
        if level is not None and level > _LARGEST[name]:
            meant = Parameter(name, round(1 - level, 12))
            text = Message(
                "{} {}. Did you mean {}?", Parameter(name, level), consequence[name], meant
            )
            return Finding("levels", True, text)
    return None


def judge_task_names(names: Iterable[Any], *, what: str = "task") -> Finding | None:
    """Object to names that are equal but for spaces, Unicode form (error) or case (warning).

    Parameters
    ----------
    names : iterable
        Distinct names; those that are not strings are not compared.
    what : str, default "task"
        What they name, such as "site".

    Returns
    -------
    Finding or None
        The finding.

    Examples
    --------
    >>> from metapac.meaning import judge_task_names
    >>> judge_task_names(["ohio", "ohio "]).is_error
    True
    >>> judge_task_names(["ohio", "Ohio"]).is_error
    False
    """
    texts = [name for name in names if isinstance(name, str)]
    # Fast for very many names: usually all are plain and different.
    if all(name.isascii() and name.isprintable() for name in texts):
        bare = {"".join(name.split()).casefold() for name in texts}
        texts = texts if len(bare) < len(texts) else []
    for simplify, is_error, reason in (
        (_collapse, True, "spaces, invisible characters or the Unicode form of letters"),
        (_fold, False, "case"),
    ):
        alike = _group_alike(texts, simplify)
        if alike:
            groups = listed([" and ".join(map(repr, group)) for group in alike], shown=3)
            text = Message(
                f"names of {what}s differ only in {reason}: {groups}. A {what} under two names "
                f"counts as two, and the guarantee rests on fewer {what}s than it says. Give it "
                "one name."
            )
            return Finding("task-names", is_error, text)
    return None


def judge_task_column(tasks: int, rows: int) -> Finding | None:
    """Object if every row is a task of its own, as with a column of ids.

    Parameters
    ----------
    tasks : int
        Number of tasks.
    rows : int
        Number of rows.

    Returns
    -------
    Finding or None
        An error, or None.

    Examples
    --------
    >>> from metapac.meaning import judge_task_column
    >>> judge_task_column(tasks=60, rows=24000) is None
    True
    """
    if tasks < rows or rows < _MIN_ROWS:
        return None
    text = Message(
        "{} names a different task in each of {} rows. A task, such as a hospital, has many "
        "examples; this looks like a column that identifies the examples.",
        Parameter("task"),
        rows,
    )
    return Finding("task-column", True, text)


def judge_ids(rows: int, distinct: int, first: Sequence[str] = ()) -> Finding | None:
    """Object to an id that occurs twice within a task.

    Parameters
    ----------
    rows : int
        Number of rows.
    distinct : int
        Number of distinct pairs of task and id.
    first : sequence of str, default ()
        Some ids that occur twice.

    Returns
    -------
    Finding or None
        An error, or None.

    Examples
    --------
    >>> from metapac.meaning import judge_ids
    >>> judge_ids(100, 100) is None
    True
    """
    if distinct == rows:
        return None
    text = Message(
        "{} occurs twice within a task in {} of {} rows (first: {}). The examples of a task must "
        "be independent, and copies count as evidence that is not there. Keep one row for each.",
        Parameter("id"),
        rows - distinct,
        rows,
        listed(first, shown=3),
    )
    return Finding("duplicates", True, text)


def judge_duplicates(repeats: Repeats) -> Finding | None:
    """Object to rows that occur more often than independent examples can.

    If the n examples of a task are independent, the number of times that a row occurs is binomial,
    with a probability that differs from row to row: coarse scores have few, probable rows. For any
    such mixture, the expected numbers N(k) of rows that occur k times satisfy
    ``N(k - 1) * N(k + 1) >= k / (k + 1) * (n - k) / (n - k + 1) * N(k)**2``. Copies violate it:
    rows occur twice, but none three times. And a number that is not 0 is even with probability at
    most 1/2, so that not all of them are.

    Parameters
    ----------
    repeats : mapping from (int, int) to int
        For each n and k, how many distinct rows occur k times in a task with n rows.

    Returns
    -------
    Finding or None
        An error if every row occurs at least twice, a warning if some do.

    Examples
    --------
    >>> from metapac.meaning import judge_duplicates
    >>> judge_duplicates({(400, 1): 24000}) is None
    True
    >>> judge_duplicates({(400, 1): 20000, (400, 2): 2200, (400, 3): 170}) is None  # coarse scores
    True
    >>> judge_duplicates({(400, 2): 12000}).is_error
    True
    """
    times = sorted({k for _size, k in repeats})
    if not (_has_divisor(repeats) or any(_is_excess(repeats, k) for k in times if k > 1)):
        return None
    rows = sum(k * count for (_size, k), count in repeats.items())
    distinct = sum(repeats.values())
    least = times[0]
    seen = f"{rows - distinct} of {rows} rows are copies of another row"
    if least > 1:
        often = f"{least} times" if len(times) == 1 else f"at least {least} times"
        seen = f"every row occurs {often} ({rows} rows, {distinct} distinct)"
    text = Message(
        f"{seen}, and by chance equal scores would not repeat in this way. The examples of a task "
        "must be independent, and copies count as evidence that is not there. Drop the copies; "
        "they often come from a join."
    )
    return Finding("duplicates", least > 1, text)


def judge_direction(wins: Counts, losses: Counts, columns: Sequence[str] = ()) -> Finding | None:
    """Object if true labels score lower than other labels.

    Two examples of a task with labels a and b are won if the scores of their own labels sum to
    more than the scores of each other's labels. If the scores say nothing about labels, an example
    pair is won or lost with equal probability, however common each class is and however the
    scores favour one class. So do tasks. Both counts are tested by a sign test.

    Parameters
    ----------
    wins, losses : ndarray of int, shape (tasks,)
        Number of pairs that are won and lost in each task.
    columns : sequence of str, default ()
        Columns with the scores of the classes, if they are known.

    Returns
    -------
    Finding or None
        An error if most tasks agree, otherwise a warning.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning import judge_direction
    >>> poor = np.full(30, 10)  # pairs won in each of 30 tasks, of 20
    >>> judge_direction(poor, 20 - poor) is None
    True
    >>> judge_direction(poor - 8, 28 - poor).is_error
    True
    """
    won, lost = int(np.sum(wins)), int(np.sum(losses))
    right, reversed_ = int(np.sum(wins > losses)), int(np.sum(losses > wins))
    if reversed_ <= right or _sign_test(lost, won) > FALSE_ALARM:
        return None
    text = Message(
        f"the true label scores lower than other labels: in {lost} of {won + lost} pairs of "
        f"examples, and in {reversed_} of {right + reversed_} tasks. Higher scores must mean more "
        f"plausible; with these, the sets keep the wrong labels. {_ask_about(columns)} If lower "
        "scores mean more plausible, pass negated scores."
    )
    return Finding("direction", _sign_test(reversed_, right) <= 1e-3, text)


def judge_rare_classes(counts: Mapping[Any, int], epsilon: float) -> Finding | None:
    """Point out classes that are rarer than the miss rate, if there is one guarantee for all.

    Parameters
    ----------
    counts : mapping from class to int
        Number of examples of each class.
    epsilon : float
        Miss rate.

    Returns
    -------
    Finding or None
        A warning, or None. If every class is rare, as with very many classes, nothing stands out.

    Examples
    --------
    >>> from metapac.meaning import judge_rare_classes
    >>> judge_rare_classes({"no": 80, "yes": 20}, 0.1) is None
    True
    >>> print(judge_rare_classes({"no": 95, "yes": 5}, 0.1).text)
    'yes' is 5.0% of the examples, less than epsilon: sets may always miss it and still keep the \
guarantee. Use per_class=True.
    """
    total = sum(counts.values())
    rare = {name: count for name, count in counts.items() if 0 < count < epsilon * total}
    if not rare or len(rare) == len(counts):
        return None
    shares = [f"{name!r} is {count / total:.1%}" for name, count in rare.items()]
    text = Message(
        "{} of the examples, less than {}: sets may always miss {} and still keep the guarantee. "
        "Use {}.",
        listed(shares, shown=3),
        Parameter("epsilon"),
        "it" if len(rare) == 1 else "any of them",
        Parameter("per_class", True),
    )
    return Finding("rare-class", False, text)


def judge_percentages(rows: int, fractions: int, percentages: int) -> Finding | None:
    """Object if the scores of some rows sum to 1 and those of all others to 100.

    Parameters
    ----------
    rows : int
        Number of rows.
    fractions : int
        How many sum to 1.
    percentages : int
        How many sum to 100.

    Returns
    -------
    Finding or None
        An error, or None.

    Examples
    --------
    >>> from metapac.meaning import judge_percentages
    >>> judge_percentages(100, 0, 100) is None
    True
    >>> judge_percentages(100, 40, 60).is_error
    True
    """
    if not (fractions and percentages) or fractions + percentages < 0.99 * rows:
        return None
    text = Message(
        f"the class scores sum to 1 in {fractions} rows and to 100 in {percentages}. Fractions and "
        "percentages cannot share a threshold. Divide the percentages by 100."
    )
    return Finding("percentages", True, text)


def judge_scale(scores: tuple[float, float], calibration: tuple[float, float]) -> Finding | None:
    """Object to percentages where the calibration used fractions, or the reverse.

    Parameters
    ----------
    scores : tuple of float
        Lowest and highest score.
    calibration : tuple of float
        Lowest and highest score of a true label in calibration.

    Returns
    -------
    Finding or None
        An error, or None.

    Examples
    --------
    >>> from metapac.meaning import judge_scale
    >>> print(judge_scale((0.0, 99.2), (0.01, 0.98)).text)
    the scores go up to 99.2, those of the calibration up to 0.98: these are percentages and those \
fractions, so that the threshold means nothing here. Divide these by 100.
    """
    (low, high), (low_then, high_then) = scores, calibration
    if min(low, low_then) < 0 or not (max(high, high_then) <= 100 < 200 * min(high, high_then)):
        return None
    if high_then <= 1 and high > 2:
        kinds, remedy = "percentages and those fractions", "Divide these by 100."
    elif high <= 1 and high_then > 2:
        kinds, remedy = "fractions and those percentages", "Multiply these by 100."
    else:
        return None
    text = Message(
        f"the scores go up to {high:g}, those of the calibration up to {high_then:g}: these are "
        f"{kinds}, so that the threshold means nothing here. {remedy}"
    )
    return Finding("percentages", True, text)


def warn_of_scale(scores: Floats, calibration: tuple[float, float] | None) -> None:
    """Warn of percentages where the calibration used fractions, or the reverse.

    Only the first scores are looked at, so that the cost does not grow with their number.

    Parameters
    ----------
    scores : ndarray
        Scores to predict with.
    calibration : tuple of float, or None
        Lowest and highest score of a true label in calibration; None if it is not known.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from metapac.meaning import warn_of_scale
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_scale(np.array([99.2, 0.8]), (0.01, 0.98))
    >>> str(caught[0].message)[:31]
    'the scores go up to 99.2, those'
    """
    if calibration is None or not scores.size:
        return
    first = scores[: -(-_FIRST_SCORES * len(scores) // scores.size)]  # whole rows, without a copy
    if 0.5 * calibration[1] <= first.max() <= 2:
        return  # the usual case, at the cost of one maximum
    if first.size < _MIN_ROWS and calibration[1] > 1:
        return  # a few scores may all be small
    finding = _judge_scores(first, calibration)
    if finding:
        warn(CheckWarning(finding.text))


def judge_missing(rows: int, missing: Mapping[Any, int], *, affected: int) -> Finding | None:
    """Object to missing scores of labels other than the true one, in calibration.

    Parameters
    ----------
    rows : int
        Number of rows.
    missing : mapping from class to int
        Number of rows in which the score of each class is missing; empty if it is not known.
    affected : int
        Number of rows in which any is missing.

    Returns
    -------
    Finding or None
        An error, or None.

    Examples
    --------
    >>> from metapac.meaning import judge_missing
    >>> judge_missing(100, {"no": 0, "yes": 0}, affected=0) is None
    True
    """
    if not affected:
        return None
    classes = listed([f"{name!r}: {count}" for name, count in missing.items() if count])
    text = Message(
        f"scores of classes are missing in {affected} of {rows} rows"
        f"{f' (by class, {classes})' if classes else ''}. Prediction refuses such rows, so that "
        "the guarantee would be for other examples than those calibrated on. Drop these rows, or "
        "give the missing scores what prediction will give them: inf, which keeps the label."
    )
    return Finding("missing", True, text)


def judge_score_column(
    score: str, others: Sequence[str], *, rows: int, equal: int
) -> Finding | None:
    """Object to a score column that is one of the class columns.

    Parameters
    ----------
    score : str
        The column.
    others : sequence of str
        Other columns that match the pattern of class columns.
    rows : int
        Number of rows.
    equal : int
        In how many of them the score is that of one of the other columns, as the score of the true
        label would be.

    Returns
    -------
    Finding or None
        An error, or None.

    Examples
    --------
    >>> from metapac.meaning import judge_score_column
    >>> judge_score_column("p_true", ["p_no", "p_yes"], rows=100, equal=100) is None
    True
    """
    if not others or equal >= 0.99 * rows:
        return None
    text = Message(
        "{} looks like the score of one class, beside {}. The guarantee needs the score of the "
        "true label, whatever it is: pass {}, the column with the true label, and leave out {}.",
        Parameter("score", score),
        listed(others, shown=3),
        Parameter("label"),
        Parameter("score"),
    )
    return Finding("score-column", True, text)


def count_repeats(tasks: Counts, *columns: Array) -> Repeats:
    """Return how many distinct rows occur k times in a task with n rows, for each n and k.

    Parameters
    ----------
    tasks : ndarray of int, shape (n,)
        Index of the task of each row.
    *columns : ndarray, shape (n,) or (n, m)
        Columns of numbers.

    Returns
    -------
    dict from (int, int) to int
        The numbers, by n and k.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning import count_repeats
    >>> count_repeats(np.array([0, 0, 1]), np.array([0.5, 0.5, 0.5]))
    {(1, 1): 1, (2, 2): 1}
    """
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


def count_swaps(tasks: Counts, labels: Counts, scores: Floats) -> tuple[Counts, Counts]:
    """Return how many pairs of examples of each task are won and lost, as in `judge_direction`.

    Pairs are disjoint, and drawn by task and label alone: in a table sorted by a score, neighbours
    would be won or lost together.

    Parameters
    ----------
    tasks : ndarray of int, shape (n,)
        Index of the task of each row.
    labels : ndarray of int, shape (n,)
        Index of the true label.
    scores : ndarray, shape (n, classes)
        Scores of all classes.

    Returns
    -------
    wins, losses : ndarray of int, shape (tasks,)
        The numbers of pairs; ties are not counted.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning import count_swaps
    >>> scores = np.array([[0.9, 0.1], [0.2, 0.8]])
    >>> count_swaps(np.array([0, 0]), np.array([0, 1]), scores)
    (array([1]), array([0]))
    """
    shuffled = np.random.default_rng(0).permutation(len(tasks))
    order = np.lexsort((shuffled, labels, tasks))
    sizes = np.bincount(tasks)
    place = np.arange(len(tasks)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = np.flatnonzero(place < np.repeat(sizes // 2, sizes))
    apart = np.repeat((sizes + 1) // 2, sizes)[first]  # so that labels differ as often as they can
    i, j = order[first], order[first + apart]
    a, b = labels[i], labels[j]
    with np.errstate(invalid="ignore"):
        gain = (scores[i, a] - scores[j, a]) + (scores[j, b] - scores[i, b])  # 0 if a == b
    wins = np.bincount(tasks[i], weights=gain > 0, minlength=len(sizes))
    losses = np.bincount(tasks[i], weights=gain < 0, minlength=len(sizes))
    return wins.astype(np.int64), losses.astype(np.int64)


def sums_to(sums: Any, total: float) -> Any:
    """Return which sums of scores are a total, but for rounding.

    Parameters
    ----------
    sums : ndarray or Ibis expression
        The sums.
    total : float
        The total.

    Returns
    -------
    ndarray or Ibis expression of bool
        Whether each sum is within 2% of it.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.meaning import sums_to
    >>> sums_to(np.array([0.99, 1.5, 100.0]), 100)
    array([False, False,  True])
    """
    return (sums >= 0.98 * total) & (sums <= 1.02 * total)


def number_tasks(tasks: Sequence[Any]) -> Counts:
    """Return an index for each task.

    Parameters
    ----------
    tasks : sequence
        Task of each row.

    Returns
    -------
    ndarray of int, shape (n,)
        The indices, in the order in which tasks first appear.

    Examples
    --------
    >>> from metapac.meaning import number_tasks
    >>> number_tasks(["ohio", "texas", "ohio"])
    array([0, 1, 0])
    """
    seen: dict[Any, int] = {}
    return np.fromiter((seen.setdefault(task, len(seen)) for task in tasks), np.int64, len(tasks))


def _judge_scores(scores: Floats, calibration: tuple[float, float] | None) -> Finding | None:
    """Judge the scale of all finite scores."""
    finite = scores[np.isfinite(scores)]
    if calibration is None or not finite.size:
        return None
    return judge_scale((float(finite.min()), float(finite.max())), calibration)


def _judge_matrix(
    tasks: Array, scores: Floats, labels: Counts, classes: Sequence[Any], skipped: frozenset[str]
) -> list[Finding | None]:
    """Return what is wrong with the scores of all classes."""
    findings: list[Finding | None] = []
    if "missing" not in skipped:
        bad = np.isnan(scores)
        missing = dict(zip(classes, bad.sum(axis=0).tolist(), strict=True))
        affected = int(bad.any(axis=1).sum())
        findings.append(judge_missing(len(scores), missing, affected=affected))
    if "percentages" not in skipped:
        with np.errstate(invalid="ignore"):  # inf - inf
            sums = scores.sum(axis=1, dtype=np.float64)
        near = [int(np.sum(sums_to(sums, total))) for total in (1, 100)]
        findings.append(judge_percentages(len(scores), *near))
    if "direction" not in skipped:
        some = slice(None, None, -(-len(scores) // MAX_ROWS))
        findings.append(
            judge_direction(
                *count_swaps(number_tasks(tasks[some].tolist()), labels[some], scores[some])
            )
        )
    return findings


def _ask_about(columns: Sequence[str]) -> str:
    if len(columns) == 2:
        return f"Are columns {columns[0]} and {columns[1]} swapped?"
    return "Are the columns of the classes swapped?"


def _has_equal_values(scores: Floats) -> bool:
    """Return whether scores occur twice in a small sample: cheap, and usually they do not."""
    some = scores[_sample_by_value(scores, _FEW_ROWS)]
    return len(np.unique(some)) < len(some)


def _sample_by_value(scores: Floats, rows: int) -> Any:
    """Return about ``rows`` positions, such that equal scores are all in or all out."""
    if len(scores) <= rows:
        return slice(None)
    bits = np.ascontiguousarray(scores, dtype=np.float64).view(np.uint64)
    # The high bits of the product depend on all bits of the score (Fibonacci hashing).
    mixed = bits * np.uint64(0x9E3779B97F4A7C15)
    return np.flatnonzero(mixed < np.uint64(2**64 * rows // len(scores)))


def _collapse(name: str) -> str:
    """Return a name as it looks: in one Unicode form, with single spaces, and none at the ends."""
    return " ".join(without_invisible(unicodedata.normalize("NFKC", name)).split())


def _fold(name: str) -> str:
    return _collapse(name).casefold()


def _group_alike(names: Sequence[str], simplify: Any) -> list[list[str]]:
    """Return the groups of distinct names that are equal when simplified."""
    groups: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        groups.setdefault(simplify(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


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


def _sign_test(count: int, other: int) -> float:
    """Return the probability of at least this count if both are equally likely."""
    return float(special.bdtrc(count - 1, count + other, 0.5))
