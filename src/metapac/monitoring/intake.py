"""Which tasks a monitor counts, and in which order: each once, by a rule that ignores labels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from metapac import _checks, _document, _ids
from metapac._visible import visible
from metapac.assessment.evaluation import Evaluation
from metapac.exceptions import InvalidInput, Message, Parameter
from metapac.explanation.words import inflect
from metapac.meaning.findings import Finding, report
from metapac.meaning.judges import judge_task_names
from metapac.monitoring.state import Counted
from metapac.monitoring.terms import Terms

Ranges = Mapping[Any, Sequence[float]]
Clusters = Mapping[Any, str | int]


def check_batch(batch: str | None, again: bool) -> None:
    """Raise InvalidInput if the name of a batch is no text, or is missing where it is needed.

    Parameters
    ----------
    batch : str or None
        Name of the batch.
    again : bool
        Whether tasks of other batches may be counted again.
    """
    if batch is not None and (not isinstance(batch, str) or not batch.strip()):
        text = "{} must be a non-empty string, got {!r}."
        raise InvalidInput(text, Parameter("batch"), batch)
    _checks.check_bool("again", again)
    if again and batch is None:
        text = "{} needs the name of the batch that the tasks come with: pass {}."
        raise InvalidInput(text, Parameter("again"), Parameter("batch", "2026-01"))


def order_tasks(
    evaluation: Evaluation,
    terms: Terms,
    ranges: Ranges,
    batch: str | None,
    clusters: Clusters | None = None,
) -> list[Counted]:
    """Return the tasks of an evaluation, in the order in which they count.

    Names may be related to the results, such as names by region; the order of checksums is not.

    Parameters
    ----------
    evaluation : Evaluation
        Misses of each task.
    terms : Terms
        Parameters of the monitored guarantee.
    ranges : mapping from task to a pair of float
        Lowest and highest score of the true labels of each task.
    batch : str or None
        The batch that they come with.
    clusters : mapping from task to cluster, optional
        Cluster of each task.

    Returns
    -------
    list of Counted
        Their counts, for each class or all together.
    """
    parts = [evaluation]
    if terms.classes is not None:
        parts = [(evaluation.by_class or {})[label] for label in terms.classes]
    counts = [_count_by_task(part) for part in parts]
    tasks = []
    for name in sorted(_ids.as_json_names(evaluation.tasks), key=_shuffle):
        # A task that a class leaves out, or that has none of its examples, has a count of 0 here.
        examples, missed = zip(*(count.get(name, (0, 0)) for count in counts), strict=True)
        ends = _document.encode_floats([*map(float, ranges[name])])
        facts = {"examples": examples, "missed": missed, "range": ends}
        cluster = None if clusters is None else clusters[name]
        tasks.append(Counted(name, batch, examples, missed, _document.checksum(facts), cluster))
    return tasks


def _count_by_task(evaluation: Evaluation) -> dict[Any, tuple[int, int]]:
    columns = (evaluation.tasks, evaluation.examples, evaluation.missed)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {name: (examples, missed) for name, examples, missed in rows}


def _shuffle(name: str | int) -> bytes:
    return hashlib.sha256(str(name).encode(errors="surrogatepass")).digest()


def fix_again(
    terms: Terms, tasks: Sequence[Counted], counted: Sequence[Counted], *, again: bool
) -> Terms:
    """Return the terms with the rule for tasks of earlier batches, which the first of them fixes.

    If the rule could change from batch to batch, labels could decide it: a month that looks like an
    earlier one would be left out, and a month with bad tasks would count.

    Parameters
    ----------
    terms : Terms
        The terms so far.
    tasks : sequence of Counted
        The tasks that came.
    counted : sequence of Counted
        Those counted before.
    again : bool
        Whether tasks of earlier batches are to count again.

    Returns
    -------
    Terms
        The terms.

    Raises
    ------
    InvalidInput
        If earlier batches were treated in the other way.
    """
    seen: dict[str, set[str | None]] = {}
    for old in counted:
        seen.setdefault(str(old.task), set()).add(old.batch)
    if all(new.batch in seen.get(str(new.task), {new.batch}) for new in tasks):
        return terms
    if terms.again is not None and terms.again != again:
        done = "counted again" if terms.again else "left out"
        remedy = "Pass it too" if terms.again else "Leave it out, or begin another state file"
        raise InvalidInput(
            "{} must be the same for all batches, or labels could decide which tasks count. So "
            "far, tasks of earlier batches were {}. {}.",
            Parameter("again"),
            done,
            remedy,
        )
    return replace(terms, again=again)


def select_new(
    tasks: Sequence[Counted], counted: Sequence[Counted], unit: str, *, again: bool
) -> tuple[list[Counted], list[Any], list[Any]]:
    """Return the tasks to count, those counted before, and those of clusters counted before.

    Names, batches and clusters decide what counts. Examples only decide whether a task that does
    not count is left out, or all tasks are refused.

    Parameters
    ----------
    tasks : sequence of Counted
        The tasks that came.
    counted : sequence of Counted
        Those counted before.
    unit : str
        What a task is called.
    again : bool
        Whether a task counts again that comes with another batch.

    Returns
    -------
    new : list of Counted
        The tasks to count.
    known : list
        Names of tasks that were counted before, with the same examples.
    dependent : list
        Names of tasks whose cluster was counted before, with another task.

    Raises
    ------
    InvalidInput
        If a task was counted before with other examples.
    """
    earlier: dict[str, list[Counted]] = {}
    for entry in counted:
        earlier.setdefault(str(entry.task), []).append(entry)
    clusters = {str(old.cluster) for old in counted if old.cluster is not None}
    new, known, dependent, changed = [], [], [], []
    for entry in tasks:
        same = earlier.get(str(entry.task), [])
        rivals = [old for old in same if old.batch == entry.batch] if again else same
        if any(old.checksum == entry.checksum for old in rivals):
            known.append(entry.task)
        elif not same and entry.cluster is not None and str(entry.cluster) in clusters:
            dependent.append(entry.task)
        elif not rivals:
            new.append(entry)
        else:
            changed.append((entry, rivals[-1]))
    if changed:
        raise _counted_before(changed, unit, again=again)
    return new, known, dependent


def check_names(
    new: Sequence[Counted],
    counted: Sequence[Counted],
    ranges: Ranges,
    unit: str,
    allow: Iterable[str] = (),
) -> None:
    """Raise InvalidInput if a task seems to have been counted before, under another name.

    Parameters
    ----------
    new : sequence of Counted
        The tasks to count.
    counted : sequence of Counted
        Those counted before.
    ranges : mapping from task to a pair of float
        Lowest and highest score of the true labels of each new task.
    unit : str
        What a task is called.
    allow : iterable of str, default ()
        Checks to skip: "task-names" compares names, "duplicates" numbers and scores.

    Raises
    ------
    InvalidInput
        If names differ only in spaces, or if numbers of examples and misses and the range of scores
        are those of a task with another name.
    """
    if new:
        singular, _plural = inflect(visible(unit))
        names = [*dict.fromkeys(entry.task for entry in (*counted, *new))]
        varied = [entry for entry in new if ranges[entry.task][0] < ranges[entry.task][1]]
        renamed = _judge_renamed(varied, counted, singular)
        report([judge_task_names(names, what=singular), renamed], allow)


def _judge_renamed(new: Sequence[Counted], counted: Sequence[Counted], unit: str) -> Finding | None:
    """Object to a task that has the numbers and the scores of another one.

    If tasks that came together agree too, scores are so coarse that it happens by chance.
    """
    if _agree(new) or _agree(counted):
        return None
    earlier = {entry.checksum: entry for entry in counted}
    pairs = [(entry, earlier[entry.checksum]) for entry in new if entry.checksum in earlier]
    pairs = [(entry, old) for entry, old in pairs if str(entry.task) != str(old.task)]
    if not pairs:
        return None
    shown = _checks.listed([f"{entry.task!r} as {old.task!r}" for entry, old in pairs], shown=3)
    text = Message(
        f"the same numbers of examples and misses, and the same range of scores, were counted "
        f"under another name: {shown}. A {unit} under two names counts twice. Give it one name."
    )
    return Finding("duplicates", True, text)


def _agree(tasks: Sequence[Counted]) -> bool:
    """Return whether two tasks of one batch have the same numbers and range of scores."""
    return len({(entry.batch, entry.checksum) for entry in tasks}) < len(tasks)


def _counted_before(
    changed: list[tuple[Counted, Counted]], unit: str, *, again: bool
) -> InvalidInput:
    """Return the error for tasks that were counted before with other examples."""
    names = _checks.listed([repr(new.task) for new, _old in changed])
    batch = changed[0][1].batch
    before = "before" if batch is None else f"before (batch {batch!r})"
    singular, plural = inflect(visible(unit))
    what = f"{singular} {names} was" if len(changed) == 1 else f"{plural} {names} were"
    if again:
        remedy = (
            "In one batch a task counts once: leave it out; or, if this is a new draw of tasks, "
            "name another batch."
        )
        return InvalidInput(f"{what} counted {before} with other examples. {remedy}")
    return InvalidInput(
        "{} counted {} with other examples. A task counts once: a bad one that is seen again is no "
        "new evidence. Leave it out; or, if each batch is a new draw of tasks, pass {}.",
        what,
        before,
        Parameter("again", True),
    )
