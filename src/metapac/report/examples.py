"""Some examples with their sets: of the worst, the middle and the best task, of many kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from metapac.assessment.evaluation import Evaluation
from metapac.report.data import Example

_KINDS = ("missed", "empty", "single", "several", "full", "hit")


def rank_tasks(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the rows of all tasks, the worst first.

    Parameters
    ----------
    evaluation : Evaluation
        Labelled new tasks.

    Returns
    -------
    list of dict
        As from ``Evaluation.worst``; if no task is above epsilon, by the share missed.
    """
    rows = evaluation.worst(len(evaluation.tasks) * max(1, len(evaluation.by_class or ())))
    if has_above(evaluation):
        return rows
    return sorted(rows, key=lambda row: -row["error"])


def has_above(evaluation: Evaluation) -> bool:
    """Return whether the share missed is above epsilon at any task, and in any class of it.

    Parameters
    ----------
    evaluation : Evaluation
        Labelled new tasks.

    Returns
    -------
    bool
        The answer.
    """
    parts: Mapping[Any, Evaluation] = evaluation.by_class or {None: evaluation}
    return any(bool((part.errors > part.epsilon).any()) for part in parts.values())


def choose_tasks(evaluation: Evaluation, number: int = 3) -> list[Any]:
    """Return tasks from the worst to the best, evenly spaced.

    Parameters
    ----------
    evaluation : Evaluation
        Labelled new tasks.
    number : int, default 3
        How many tasks at most.

    Returns
    -------
    list
        The tasks.

    Examples
    --------
    >>> from metapac import PS, evaluate
    >>> from metapac.report.examples import choose_tasks
    >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
    >>> tasks = ["a", "a", "b", "b", "c", "c", "d", "d"]
    >>> choose_tasks(evaluate(promise, [1, 1, 0, 1, 0, 0, 1, 1], tasks), 2)
    ['c', 'd']
    """
    tasks = [*dict.fromkeys(row["task"] for row in rank_tasks(evaluation))]
    count = min(number, len(tasks))
    if count < 2:
        return tasks[:count]
    return [tasks[round(i * (len(tasks) - 1) / (count - 1))] for i in range(count)]


def pick_examples(examples: Sequence[Example], tasks: Sequence[Any], number: int) -> list[Example]:
    """Return a few examples of each task, with sets of as many kinds and classes as fit.

    Parameters
    ----------
    examples : sequence of Example
        All examples of the tasks.
    tasks : sequence
        The tasks, in the order to show them.
    number : int
        How many examples to return at most.

    Returns
    -------
    list of Example
        The examples, by task and kind.
    """
    chosen: list[Example] = []
    seen: Counter[Any] = Counter()  # how often a kind, and a kind and class, was chosen
    for index, task in enumerate(tasks):
        share = (number - len(chosen)) // (len(tasks) - index)
        own = [example for example in examples if str(example.task) == str(task)]
        chosen += sorted(_pick(own, share, seen), key=lambda row: _KINDS.index(row.kind))
    return chosen


def _pick(examples: Sequence[Example], number: int, seen: Counter[Any]) -> list[Example]:
    """Return a few examples, always of the kind, and then of the class, shown least so far."""
    queues: dict[tuple[str, str], list[Example]] = {}
    for row in reversed(examples):
        name = "" if row.interval is not None else str(row.truth)
        queues.setdefault((row.kind, name), []).append(row)
    picked: list[Example] = []
    here: Counter[str] = Counter()
    while queues and len(picked) < number:
        key = min(
            queues,
            key=lambda k: (here[k[0]], seen[k[0]], seen[k], _KINDS.index(k[0]), k[1]),
        )
        picked.append(queues[key].pop())
        here[key[0]] += 1
        seen.update([key[0], key])
        if not queues[key]:
            del queues[key]
    return picked
