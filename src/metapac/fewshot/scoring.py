"""From a learner and tasks to scores: those to calibrate on, and those to make sets from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, TypedDict

import numpy as np

from metapac import artefact
from metapac._common import (
    Array,
    Counts,
    Doubles,
    Floats,
    PathLike,
    Progress,
    check_same_length,
    ignore_progress,
    on_host,
    warn,
)
from metapac._text import name_score
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.adapters import (
    Learner,
    Scorer,
    adapt_learner,
    as_outputs,
    as_score_function,
    count_examples,
    lower_scores,
    lower_true_scores,
)
from metapac.fewshot.tasks import Task
from metapac.fewshot.tensors import read_tensors, write_tensors
from metapac.inputs import as_json_names, as_task_names
from metapac.score_functions import ScoreFunction

# Assumed for a learner without bounds of its own: rounding changes differences of logits by up to
# 2**8 epsilons of its precision (3.1e-5 in float32, 5.7e-14 in float64), and a probability by 8
# further floats. Outputs of float32 networks were measured to move by 8.0e-7 of
# their length, so this suits logits up to about 40; for larger ones it grows in proportion.
LOGIT_ERROR = 2.0**8
STEPS = 8
_ORDINARY = 32.0


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model returns for the queries of a task."""

    values: Floats
    kind: str
    error: Floats | None = None
    lowered: Callable[[Counts], Floats] | None = None

    def scores(self, function: ScoreFunction) -> Floats:
        """Return the score of each label for each query."""
        return function(self.values, self.kind)

    def lowered_scores(self, function: ScoreFunction, labels: Counts) -> Floats:
        """Return lower bounds, for any rounding, on the scores of the true labels."""
        is_plain = function == ScoreFunction()
        if is_plain and self.lowered is not None:
            return np.asarray(self.lowered(labels))
        if is_plain and self.kind == "probabilities":
            true = np.take_along_axis(self.values, labels[:, None], 1)[:, 0]
            return lower_scores(true, self._assumed_slack(), steps=STEPS)
        slack, spread = self._bound(labels)
        options: Any = {"kind": self.kind, "slack": slack, "spread": spread}
        return lower_true_scores(function, self.values, labels, **options)

    def _bound(self, labels: Counts) -> tuple[Any, Any]:
        """Return slack and spread, as `lower_true_scores` takes them."""
        if self.error is not None:
            return 2 * self.error, 0.0
        if self.lowered is None:
            return self._assumed_slack(), 0.0
        return _bound_by_labels(self.values, self.lowered, labels)

    def _assumed_slack(self) -> Any:
        """Return how far rounding is assumed to move a difference of logits, or a score."""
        unit = LOGIT_ERROR * float(np.finfo(self.values.dtype).eps)
        if self.kind == "probabilities":
            return unit
        sizes = np.where(np.isfinite(self.values), np.abs(self.values), 0.0).max(1)
        return unit * (np.maximum(sizes / _ORDINARY, 1.0) if self.kind == "logits" else sizes)


def adapted_outputs(
    learner: Learner, scorer: Scorer, x: Any, *, classes: int | None, name: str | int
) -> Outputs:
    """Return the outputs of an adapted model."""
    kind, lowered = output_kind(learner), None
    if hasattr(scorer, "lowered_scores"):
        lowered = partial(scorer.lowered_scores, x)
    if hasattr(scorer, "bounded_logits"):
        logits, error = scorer.bounded_logits(x)
        return Outputs(np.asarray(logits), "logits", np.asarray(error), lowered)
    if hasattr(scorer, "raw_outputs"):
        return Outputs(scorer.raw_outputs(x), kind)
    values = as_outputs(
        f"predict_proba on task {name!r}",
        scorer.predict_proba(x),
        kind=kind,
        rows=count_examples(x),
        least=classes or 1,
        most=classes,
    )
    return Outputs(values, kind, lowered=lowered)


def bank_outputs(learner: Learner, bank: Any, task: Task) -> Outputs:
    """Return the outputs for the queries of a task whose pool is embedded."""

    def lowered(labels: Counts) -> Floats:
        return np.asarray(bank.scores([replace(task, query_y=labels)]))

    if hasattr(bank, "bounded_logits"):
        logits, error = bank.bounded_logits([task])[0]
        return Outputs(np.asarray(logits), "logits", np.asarray(error), lowered)
    return Outputs(np.asarray(bank.predict_proba(task)), output_kind(learner), lowered=lowered)


def output_kind(learner: Learner) -> str:
    """Return what the scorers of a learner return."""
    return str(getattr(learner, "outputs", "probabilities"))


def _bound_by_labels(
    p: Floats, lowered: Callable[[Counts], Floats], labels: Counts
) -> tuple[Floats, Floats]:
    """Return slack and spread from lower bounds on the probability of every label.

    With L the bounds and g = 1 - sum of L, no probability is above L + g. So another label gains
    at most g, and loses at most g; the true one is at least L and at most its p + g.
    """
    n, classes = p.shape
    bounds = np.stack([lowered(np.full(n, c)) for c in range(classes)], axis=1).astype(np.float64)
    gap = np.maximum(1 - bounds.sum(1), 0) + classes * float(np.finfo(p.dtype).eps)  # (n,)
    true = np.take_along_axis(p.astype(np.float64), labels[:, None], 1)[:, 0]
    least = np.take_along_axis(bounds, labels[:, None], 1)[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        slack = np.log(np.maximum(true / least, (true + gap) / true))
    return np.where(least > 0, slack, np.inf), gap


_LABELS = 16  # compared: enough for a learner that looks at other queries to show it
# Differences of log-odds below this are rounding, perhaps of a lower precision than was declared.
_ROUNDING = 1e-3
_LOW_PRECISION = 0.1  # below this they may be the rounding of bfloat16 or float16


def check_independence(learner: Learner, task: Task, bank: Any = None) -> None:
    """Raise if the scores of a query depend on other queries or on chance.

    All queries are scored together, as they are for a guarantee, and the least certain of them is
    then scored alone, twice.
    """
    scorer = adapt_learner(learner, task.support_x, task.support_y, classes=task.classes)

    def outputs_at(positions: Any) -> Outputs:
        options: dict[str, Any] = {"classes": task.classes, "name": task.name}
        return adapted_outputs(learner, scorer, task.take(positions), **options)

    together = _Rows(outputs_at(task.query))
    chosen = together.least_certain()
    position = task.query[[chosen]]
    where = f"query {chosen} of task {task.name!r}"
    try:
        alone, again = _Rows(outputs_at(position)), _Rows(outputs_at(position))
    except InvalidInput:
        raise
    except (ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"the learner must score each query by itself, but it cannot score {where} alone "
            f"({str(error).rstrip('.')}). Use no statistics of the queries: switch batch norm to "
            "evaluation by eval()."
        ) from error
    if alone.differs(again, 0):
        raise InvalidInput(
            f"the learner must score an example the same each time, but {where} got "
            f"{_show(alone, 0)} and then {_show(again, 0)}. Switch dropout off, for example by "
            "eval(), or fix the seed."
        )
    _compare(alone, together, chosen, where)
    if bank is not None:
        _compare(alone, _Rows(bank_outputs(learner, bank, task)), chosen, where)


class _Rows:
    """Scores of all labels, and lower bounds on them for any rounding."""

    def __init__(self, outputs: Outputs) -> None:
        self.outputs = outputs
        self.function = as_score_function(None, outputs.kind)
        self.scores = outputs.scores(self.function)  # (n, classes)

    def least_certain(self) -> int:
        """Return the row whose two best labels are nearest to each other."""
        best = np.sort(self.scores, axis=1)[:, -2:]
        return int(np.argmin(best[:, -1] - best[:, 0]))

    @cached_property
    def labels(self) -> Counts:
        """The best labels of the first row, which are compared."""
        return np.argsort(-self.scores[0], kind="stable")[:_LABELS]

    @cached_property
    def bounds(self) -> Floats:
        """Lower bounds on the scores of these labels, for any rounding."""
        lower, function = self.outputs.lowered_scores, self.function
        return np.array([lower(function, np.array([label]))[0] for label in self.labels])

    def differs(self, other: _Rows, row: int) -> bool:
        """Return whether a row of another is not the first row of this one, but for rounding.

        Probabilities add up to 1: if one is higher, another is lower. Raw scores do not.
        """
        mine, others = self.scores[0, self.labels], other.scores[row, self.labels]
        with np.errstate(invalid="ignore"):  # labels that are impossible in both
            above = others - mine > mine - self.bounds
        is_raw = self.function.name == "raw"
        return bool((self.bounds > others).any() or (is_raw and above.any()))

    def distance(self, other: _Rows, row: int) -> float:
        """Return the largest difference of log-odds, or of raw scores as a fraction of them."""
        mine, others = self.scores[0, self.labels], other.scores[row, self.labels]
        scale = 1.0
        if self.function.name == "raw":
            scale = np.abs(mine[np.isfinite(mine)]).max(initial=0.0)
        else:
            logarithm = ScoreFunction("log_probability")
            mine, others = logarithm(mine[None]), logarithm(others[None])
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.fmax.reduce(np.abs(mine - others).ravel() / scale, initial=0.0))


def _compare(alone: _Rows, among: _Rows, row: int, where: str) -> None:
    """Raise if the scores of a query differ among other queries; warn if only a little."""
    if not alone.differs(among, row):
        return
    got = f"{where} got {_show(among, row)} among other queries and {_show(alone, 0)} alone"
    distance = alone.distance(among, row)
    if distance > _ROUNDING:
        remedy = "" if distance > _LOW_PRECISION else "; if this is rounding, return float16"
        raise InvalidInput(
            f"the learner must score each query by itself, from the support set alone, but {got}. "
            "Scores that depend on other queries are not independent, and no guarantee holds. Use "
            f"no statistics of the queries, such as batch norm in training mode{remedy}."
        )
    kind = among.scores.dtype.name
    warn(f"{got}, more than the rounding of {kind} explains. Return the precision of the model.")


def _show(rows: _Rows, row: int) -> str:
    """Return the scores of a row in a few digits."""
    shown: Floats = rows.scores[row][:5]
    more = ", ..." if rows.scores.shape[1] > 5 else ""
    return f"({', '.join(f'{score:.6g}' for score in shown)}{more})"


# Temperatures from 1/1000 to 1000; one at either end means that there is no best one.
_LARGEST = math.log(1000)


def fit_temperature(
    learner: Learner, tasks: Iterable[Task], *, score: str = "probability"
) -> ScoreFunction:
    """Return a score function with the temperature that fits validation tasks best.

    The temperature minimises the cross-entropy of the queries. It is fitted to labels, so the
    tasks, and others with the same examples, must not be used for calibration.
    `metapac.fewshot.score_tasks` refuses these very tasks; it does not notice the same examples in
    another order or in other tasks, nor a temperature that is passed on as a number.

    Parameters
    ----------
    learner : Learner
        The learner.
    tasks : iterable of Task
        Validation tasks. Queries whose label is absent from the support set are left out.
    score : str, default "probability"
        Name of the score function.

    Returns
    -------
    ScoreFunction
        The score function, for `metapac.fewshot.score_tasks` and `metapac.fewshot.score_examples`.

    Raises
    ------
    InvalidInput
        If there is no query to fit on, or the optimum is at an end of the range.

    Examples
    --------
    >>> from metapac.fewshot import CallableLearner, fit_temperature, Task
    >>> sure = CallableLearner(lambda support_x, support_y, x: [[8.0, 0.0]] * len(x),
    ...                        outputs="logits")  # right in three cases of four
    >>> task = Task.from_arrays([[0], [1]], [0, 1], [[0]] * 4, [0, 0, 0, 1], name="ohio")
    >>> round(fit_temperature(sure, [task]).temperature, 3)
    7.282
    """
    from scipy.optimize import minimize_scalar

    as_score_function(score)
    gaps: list[Doubles] = []  # per query: log-odds of each label against the true one
    fitted_on = set()
    for task in tasks:
        fitted_on.add(fingerprint(task))
        gaps.extend(_log_odds(learner, task))
    if not gaps:
        raise InvalidInput(
            "tasks must hold queries whose label is in the support set, got none. Pass validation "
            "tasks."
        )
    classes = max(len(odds) for odds in gaps)
    odds = np.full((len(gaps), classes), -np.inf)
    for row, values in zip(odds, gaps, strict=True):
        row[: len(values)] = values

    def cross_entropy(log_temperature: float) -> float:
        return float(np.logaddexp.reduce(odds / math.exp(log_temperature), axis=1).mean())

    bounds = (-_LARGEST, _LARGEST)
    best = minimize_scalar(cross_entropy, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    if abs(best.x) > _LARGEST - 1e-3:
        raise InvalidInput(
            "tasks must be neither all right nor no better than chance for a temperature to fit, "
            f"but the best one is beyond {math.exp(best.x):.3g}. Pass more validation tasks, or "
            "choose a temperature: ScoreFunction(temperature=...)."
        )
    return ScoreFunction(score, float(math.exp(best.x)), frozenset(fitted_on))


def fingerprint(task: Task) -> str:
    """Return a text that two tasks share only if they have the same queries."""
    first = np.asarray(on_host(task.take(task.query[:1])))
    content = repr(first.tolist()).encode() if first.dtype == object else first.tobytes()
    digest = hashlib.blake2b(content, digest_size=16)
    for part in (task.query, task.query_y):
        digest.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
    return digest.hexdigest()


def _log_odds(learner: Learner, task: Task) -> list[Doubles]:
    """Return the log-odds of all labels against the true one, for queries that can be fitted."""
    scorer = adapt_learner(learner, task.support_x, task.support_y, classes=task.classes)
    outputs = adapted_outputs(learner, scorer, task.query_x, classes=task.classes, name=task.name)
    logs = outputs.scores(ScoreFunction("log_probability")).astype(np.float64)
    true = np.take_along_axis(logs, task.query_y[:, None], 1)
    return list((logs - np.where(np.isfinite(true), true, 0.0))[np.isfinite(true)[:, 0]])


_Named = Literal["embeddings", "labels", "scores", "tasks"]


class _Document(TypedDict):
    provenance: dict[str, Any]
    names: dict[_Named, list[str | int]]


FORMAT = artefact.Format(
    "metapac scores",
    written_by="metapac.fewshot.scoring.store",
    remedy="Score the tasks again.",
    schema=2,
    oldest=2,
    shape=_Document,
)

_ARRAYS = ("embeddings", "labels", "scores", "tasks")


@dataclass(frozen=True, eq=False)
class Stored:
    """Embeddings of a pool, or scores with their tasks, or both, and their provenance.

    Attributes
    ----------
    embeddings : ndarray, shape (n, d), optional
        Embeddings of the examples of a pool.
    labels : ndarray, shape (n,), optional
        Their labels.
    scores : ndarray, shape (m,), optional
        Scores of the true labels.
    tasks : ndarray, shape (m,), optional
        Task of each score.
    provenance : dict, optional
        What the arrays were computed from, as JSON can hold it.
    """

    embeddings: Array | None = None
    labels: Array | None = None
    scores: Array | None = None
    tasks: Array | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, other in (("labels", "embeddings"), ("tasks", "scores")):
            array, reference = getattr(self, name), getattr(self, other)
            if array is not None and reference is not None:
                check_same_length(name, array, other, reference)

    def save(self, path: PathLike) -> None:
        """Write all arrays and their provenance to one file with a checksum."""
        tensors: dict[str, Array] = {}
        names: dict[str, list[Any]] = {}
        for key in _ARRAYS:
            array = getattr(self, key)
            if array is not None and array.dtype.kind in "OUS":  # stored as indices of names
                distinct, array = np.unique(array, return_inverse=True)
                names[key] = as_json_names(distinct)
            if array is not None:
                tensors[key] = np.ascontiguousarray(array)
        provenance = artefact.as_json("provenance", self.provenance)
        body = {"provenance": provenance, "names": names}
        write_tensors(path, tensors, body, FORMAT)


def read_stored(path: PathLike) -> Stored:
    """Return what `store` or `Stored.save` wrote."""
    document, tensors = read_tensors(path, FORMAT)
    with artefact.decoding(path, FORMAT):
        for key, names in document["names"].items():
            tensors[key] = np.array(names)[tensors[key]]
        return Stored(**tensors, provenance=document["provenance"])


def score_tasks(
    learner: Learner,
    tasks: Iterable[Task],
    *,
    score: str | ScoreFunction | None = None,
    progress: Progress | None = None,
) -> tuple[Array, Array]:
    """Return the score of each query's true label and the task of each, ready to calibrate on.

    Parameters
    ----------
    learner : Learner
        A learner with a method ``bank(x)``, such as ProtoNet, embeds each example of a pool once,
        however many tasks use it. Any other learner is adapted to each task in turn, and so is any
        learner on tasks with data of their own.
    tasks : iterable of Task
        Tasks with distinct names. Only those scored from a pool stay in memory.
    score : str or ScoreFunction, optional
        "probability", "log_probability", "margin", "cumulative" or "raw", or a function from
        `fit_temperature`; see `metapac.ScoreFunction`. By default "probability",
        and "raw" for a learner whose outputs are scores. For sets, pass the same function to
        `score_matrix` or `score_examples`.
    progress : callable, optional
        Called as ``progress(stage, done, total)`` with the number of tasks scored.

    Returns
    -------
    scores : ndarray, shape (n,)
        Score of the true label of each query, lowered by a bound on the rounding error.
    ids : ndarray, shape (n,)
        Name of the task of each query.

    Raises
    ------
    InvalidInput
        If two tasks share a name, if the learner's scores of a query depend on other queries or
        on chance, or if the temperature of the score function was fitted on one of the tasks.

    Notes
    -----
    No score returned here is above the score that `score_examples` gives to the same example, for
    any batch size. For "probability", nor is it above what ``learner.adapt(...).predict_proba``
    gives. So calibration counts every example as missed that deployment may miss. The proofs are in
    ``metapac.fewshot.adapters.lower_true_scores``, the assumptions in docs/learners.md.

    Examples
    --------
    >>> from metapac.fewshot import CallableLearner, score_tasks, Task
    >>> learner = CallableLearner(lambda support_x, support_y, x: [[0.9, 0.1]] * len(x))
    >>> task = Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.2], [0.8]], [0, 1], name="ohio")
    >>> scores, ids = score_tasks(learner, [task])
    >>> scores.round(6).tolist(), ids.tolist()
    ([0.9, 0.1], ['ohio', 'ohio'])
    """
    function = as_score_function(score, output_kind(learner))
    return _score(learner, tasks, function, progress or ignore_progress)[:2]


def score_matrix(
    learner: Learner, task: Task, *, score: str | ScoreFunction | None = None, bank: Any = None
) -> Floats:
    """Return the score of every label for the queries of a task, to make sets from."""
    function = as_score_function(score, output_kind(learner))
    outputs = _adapt(learner, task) if bank is None else bank_outputs(learner, bank, task)
    return outputs.scores(function)


def score_examples(
    learner: Learner,
    support_x: Any,
    support_y: Any,
    x: Any,
    *,
    classes: int | None = None,
    score: str | ScoreFunction | None = None,
) -> Floats:
    """Return the score of every label for new examples of a task, to make sets from.

    Parameters
    ----------
    learner : Learner
        The learner.
    support_x : array_like, shape (s, ...)
        Labelled examples of the task; None for a model that is not adapted.
    support_y : array_like of int, shape (s,)
        Their labels, from 0 to ``classes - 1``.
    x : array_like, shape (n, ...)
        New examples.
    classes : int, optional
        Number of labels; by default one more than the largest label.
    score : str or ScoreFunction, optional
        As in `score_tasks`: the one that was calibrated.

    Returns
    -------
    ndarray, shape (n, classes)
        The scores.

    Examples
    --------
    >>> from metapac.fewshot import PrototypeLearner, score_examples
    >>> scores = score_examples(PrototypeLearner(), [[0.0], [2.0]], [0, 1], [[0.5]], score="margin")
    >>> scores.round(3).tolist()
    [[0.762, -0.762]]
    """
    function = as_score_function(score, output_kind(learner))
    scorer = adapt_learner(learner, support_x, support_y, classes=classes)
    return adapted_outputs(learner, scorer, x, classes=classes, name="new").scores(function)


def store(
    path: PathLike,
    learner: Learner,
    tasks: Iterable[Task],
    *,
    score: str | ScoreFunction | None = None,
    progress: Progress | None = None,
    **provenance: Any,
) -> Stored:
    """Score tasks, and write scores, embeddings and their provenance to one file."""
    function = as_score_function(score, output_kind(learner))
    scores, ids, pools = _score(learner, tasks, function, progress or ignore_progress)
    counts = {"tasks": len(np.unique(ids)), "examples": len(scores)}
    describe = getattr(learner, "describe", lambda: repr(learner))
    embed = getattr(learner, "embed", None)
    embeddings = None
    if embed is not None and len(pools) == 1:
        embeddings = embed(pools[0]).cpu().numpy()
    stored = Stored(
        embeddings=embeddings,
        scores=scores,
        tasks=ids,
        provenance={"learner": describe(), "score": str(function)} | counts | provenance,
    )
    stored.save(path)
    return stored


def _score(
    learner: Learner, tasks: Iterable[Task], function: ScoreFunction, progress: Progress
) -> tuple[Array, Array, list[Any]]:
    """Return the scores, the task of each, and the data of the pools scored at once."""
    total = len(tasks) if isinstance(tasks, Sized) else None
    parts: dict[str | int, Array] = {}  # by task, in the order of the tasks
    pools: dict[int, list[Task]] = {}
    done, checked = 0, False
    for task in tasks:
        _check_task(task, parts, function)
        parts[task.name] = np.empty(0)
        if hasattr(learner, "bank") and not _is_self_contained(task):
            pools.setdefault(id(task.x), []).append(task)
        else:
            parts[task.name] = _adapt(learner, task).lowered_scores(function, task.query_y)
            if not checked and len(task.query) > 1:
                check_independence(learner, task)
                checked = True
            done += 1
            progress("scoring tasks", done, total)
    if not parts:
        raise InvalidInput("tasks is empty; pass at least one task.")
    ids = as_task_names(list(parts))
    for i, members in enumerate(pools.values()):
        bank = learner.bank(members[0].x)  # type: ignore[attr-defined]
        for task, part in zip(members, _bank_scores(learner, bank, members, function), strict=True):
            parts[task.name] = part
        if i == 0:
            check_independence(learner, members[0], bank)
        done += len(members)
        progress("scoring tasks", done, len(parts))
    lengths = [len(part) for part in parts.values()]
    data = [members[0].x for members in pools.values()]
    return np.concatenate(list(parts.values())), np.repeat(ids, lengths), data


def _check_task(task: Task, seen: Any, function: ScoreFunction) -> None:
    """Raise if a task comes twice, or if the temperature was fitted on it."""
    if task.name in seen:
        raise InvalidInput(
            f"tasks holds {task.name!r} more than once, and a task counts only once. "
            "Give every task a distinct name."
        )
    if function.fitted_on and fingerprint(task) in function.fitted_on:
        raise InvalidInput(
            f"the temperature of {keyword('score', name_score(function))} was fitted on task "
            f"{task.name!r}, so its scores are too good to calibrate on. Fit it on validation "
            "tasks."
        )


def _bank_scores(
    learner: Learner, bank: Any, tasks: list[Task], function: ScoreFunction
) -> list[Floats]:
    """Return the lowered scores of tasks of one pool."""
    if function == ScoreFunction():
        ends = np.cumsum([len(task.query) for task in tasks])
        return np.split(bank.scores(tasks), ends[:-1])
    outputs = (bank_outputs(learner, bank, task) for task in tasks)
    return [
        part.lowered_scores(function, task.query_y)
        for part, task in zip(outputs, tasks, strict=True)
    ]


def _is_self_contained(task: Task) -> bool:
    """Return whether ``task.x`` holds no examples but those of the task."""
    return len(task.support) + len(task.query) == int(task.x.shape[0])


def _adapt(learner: Learner, task: Task) -> Outputs:
    """Return the outputs of the learner adapted to a task, for its queries."""
    scorer = adapt_learner(learner, task.support_x, task.support_y, classes=task.classes)
    options: dict[str, Any] = {"classes": task.classes, "name": task.name}
    return adapted_outputs(learner, scorer, task.query_x, **options)


def tabulate(
    learner: Learner,
    tasks: Sequence[Task],
    *,
    score: str | ScoreFunction | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return a table with a row for each query: its label, and the scores of all labels."""
    report = progress or ignore_progress
    keeping = _KeepingBanks(learner)
    true, ids = score_tasks(keeping, tasks, score=score, progress=report)
    parts: list[tuple[Array, Array, list[Floats], list[list[Any]]]] = []
    for done, task in enumerate(tasks, 1):
        rows = score_matrix(learner, task, score=score, bank=keeping.find_bank(task))
        names = task.class_names
        labels = task.query_y if names is None else np.array(list(names))[task.query_y]
        classes = [] if names is None else [list(names)] * len(rows)
        parts.append((task.query, labels, list(rows), classes))
        report("scoring all labels", done, len(tasks))
    examples, labels, scores, classes = zip(*parts, strict=True)
    table = {
        "task": ids,
        "example": np.concatenate(examples),
        "label": as_task_names(np.concatenate(labels).tolist()),
        "score": true,
        "scores": [row for rows in scores for row in rows],
    }
    named = [row for rows in classes for row in rows]
    if len(named) not in (0, len(true)):
        raise InvalidInput("tasks must all have class_names, or none of them.")
    return table | ({"classes": named} if named else {})


class _KeepingBanks:
    """A learner that keeps the banks of its pools, so that none is embedded twice."""

    def __init__(self, learner: Learner) -> None:
        self._learner = learner
        self._banks: dict[int, tuple[Any, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._learner, name)
        return partial(self._remember, found) if name == "bank" else found

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Any:
        return adapt_learner(self._learner, support_x, support_y, classes=classes)

    def _remember(self, build: Callable[[Any], Any], x: Any) -> Any:
        bank = build(x)
        self._banks[id(x)] = x, bank  # with x, so that no other array gets its id
        return bank

    def find_bank(self, task: Task) -> Any:
        """Return the bank that a task was scored with; None if the learner adapted to it."""
        return self._banks.get(id(task.x), (None, None))[1]
