"""Judges of levels, names, columns and scores, each by a few numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from metapac._checks import listed
from metapac._ids import fold_names, show_name
from metapac.exceptions import Message, Parameter
from metapac.meaning.findings import MIN_ROWS, Finding

_INVISIBLE = "spaces, invisible characters or the Unicode form of letters"
_DIFFERENCES = "spaces, case, Unicode form or zeros"  # that `fold_name` ignores
_LARGEST = {"epsilon": 0.5, "alpha": 0.75, "delta": 0.5}  # above, levels look like confidences


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
    >>> from metapac.meaning.judges import judge_levels
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
    """Object to names that look the same (error), or are alike to `fold_name` (warning).

    Parameters
    ----------
    names : iterable
        Distinct names of one table; those that are not strings are not compared.
    what : str, default "task"
        What they name, such as "site".

    Returns
    -------
    Finding or None
        The finding.

    Examples
    --------
    >>> from metapac.meaning.judges import judge_task_names
    >>> judge_task_names(["ohio", "ohio "]).is_error
    True
    >>> judge_task_names(["ohio", "Ohio"]).is_error
    False
    """
    texts = [*dict.fromkeys(name for name in names if isinstance(name, str))]
    alike = _group_alike(texts, fold_names(texts))
    if not alike:
        return None
    suspects = [name for group in alike for name in group]
    same = _group_alike(suspects, [*map(show_name, suspects)])
    groups = listed([" and ".join(map(repr, group)) for group in same or alike], shown=3)
    text = Message(
        f"names of {what}s differ only in {_INVISIBLE if same else _DIFFERENCES}: {groups}. A "
        f"{what} under two names counts as two, and the guarantee rests on fewer {what}s than it "
        "says. Give it one name."
    )
    return Finding("task-names", bool(same), text)


def judge_near_names(
    pairs: Sequence[tuple[Any, Any]], known: str, *, what: str = "task"
) -> Finding | None:
    """Object to tasks whose names are nearly those of tasks that they must differ from.

    Parameters
    ----------
    pairs : sequence of tuple
        A name, and the name that it resembles; the second result of `match_names`.
    known : str
        What the second tasks are, such as "calibration tasks".
    what : str, default "task"
        What the first ones are.

    Returns
    -------
    Finding or None
        An error, or None.

    Examples
    --------
    >>> from metapac.meaning.judges import judge_near_names
    >>> print(judge_near_names([("1.0", 1)], "calibration tasks").text)
    1 task has nearly the name of calibration tasks: '1.0' and 1 differ only in spaces, case, \
Unicode form or zeros. If they are the same, leave them out.
    """
    if not pairs:
        return None
    count = f"{len(pairs)} {what}{' has' if len(pairs) == 1 else 's have'}"
    shown = listed([f"{name!r} and {other!r}" for name, other in pairs], shown=3)
    text = (
        f"{count} nearly the name of {known}: {shown} differ only in {_DIFFERENCES}. If they are "
        "the same, leave them out."
    )
    return Finding("task-names", True, Message(text))


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
    >>> from metapac.meaning.judges import judge_task_column
    >>> judge_task_column(tasks=60, rows=24000) is None
    True
    """
    if tasks < rows or rows < MIN_ROWS:
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
    >>> from metapac.meaning.judges import judge_ids
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


def judge_rare_classes(counts: Mapping[Any, int], epsilon: float) -> Finding | None:
    """Point out classes rarer than the miss rate, or absent, if there is one guarantee for all.

    Parameters
    ----------
    counts : mapping from class to int
        Number of examples of each class, perhaps 0.
    epsilon : float
        Miss rate.

    Returns
    -------
    Finding or None
        A warning, of absent classes only if no other is rare, or None. If every class is rare, as
        with very many classes, nothing stands out.

    Examples
    --------
    >>> from metapac.meaning.judges import judge_rare_classes
    >>> judge_rare_classes({"no": 80, "yes": 20}, 0.1) is None
    True
    >>> print(judge_rare_classes({"no": 95, "yes": 5}, 0.1).text)
    'yes' is 5.0% of the examples, less than epsilon: sets may always miss it and still keep the \
guarantee. Use per_class=True.
    """
    total = sum(counts.values())
    rare = {name: count for name, count in counts.items() if count < epsilon * total}
    if not rare or len(rare) == len(counts):
        return None
    present = {name: count for name, count in rare.items() if count}
    if not present:
        absent = [repr(name) for name in rare]
        text = Message(
            "no calibration example is of class {}: sets may always miss {} and still keep the "
            "guarantee. Calibrate on examples of every class.",
            listed(absent, shown=3),
            "it" if len(absent) == 1 else "any of them",
        )
        return Finding("rare-class", False, text)
    shares = [f"{name!r} is {count / total:.1%}" for name, count in present.items()]
    text = Message(
        "{} of the examples, less than {}: sets may always miss {} and still keep the guarantee. "
        "Use {}.",
        listed(shares, shown=3),
        Parameter("epsilon"),
        "it" if len(present) == 1 else "any of them",
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
    >>> from metapac.meaning.judges import judge_percentages
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


def judge_scale(
    scores: tuple[float, float], calibration: tuple[float, float], *, labelled: bool = True
) -> Finding | None:
    """Object to percentages where the calibration used fractions, or to logarithms; or the reverse.

    Parameters
    ----------
    scores : tuple of float
        Lowest and highest score.
    calibration : tuple of float
        Lowest and highest score of a true label in calibration.
    labelled : bool, default True
        Whether misses are counted, so that logarithms are an error and not only a warning. Scores
        of -1 to 0 may also be differences of probabilities: they are always a warning.

    Returns
    -------
    Finding or None
        An error or a warning, or None.

    Examples
    --------
    >>> from metapac.meaning.judges import judge_scale
    >>> print(judge_scale((0.0, 99.2), (0.01, 0.98)).text)
    the scores go up to 99.2, those of the calibration up to 0.98: these are percentages and those \
fractions, so that the threshold means nothing here. Divide these by 100.
    """
    (low, high), (low_then, high_then) = scores, calibration
    (lowest, negative), (least, positive) = sorted((scores, calibration))
    if float("-inf") < negative <= 0 <= least < positive and lowest < 0:
        these, used = "logarithms", "probabilities" if positive <= 1 else "positive numbers"
        these, used = (these, used) if low < 0 else (used, these)
        text = Message(
            f"the scores are between {low:g} and {high:g}, those of the calibration between "
            f"{low_then:g} and {high_then:g}: these look like {these}; the calibration used {used}."
        )
        return Finding("percentages", labelled and lowest < -1 and positive <= 1, text)
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
    >>> from metapac.meaning.judges import judge_missing
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
    >>> from metapac.meaning.judges import judge_score_column
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


def _group_alike(names: Sequence[str], simplified: Sequence[str]) -> list[list[str]]:
    """Return the groups of distinct names that are equal when simplified."""
    if len({*simplified}) == len(names):
        return []
    groups: dict[str, list[str]] = {}
    for name, simple in zip(names, simplified, strict=True):
        groups.setdefault(simple, []).append(name)
    return [group for group in groups.values() if len(group) > 1]
