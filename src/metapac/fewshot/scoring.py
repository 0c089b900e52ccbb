"""From a learner and tasks to scores: those to calibrate on, and those to make sets from."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metapac import _common, artefact
from metapac._common import Array, Floats, PathLike, Progress, Seed
from metapac._text import name_score
from metapac.errors import InvalidInput, keyword
from metapac.fewshot import adapters
from metapac.fewshot.adapters import Learner, Score, adapt_learner, as_score_function, row_sizes
from metapac.fewshot.offset import MIN_TASKS, SIZE, TaskOffset, describe_outputs, fit_weights
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.tasks import Task, warn_if_shared
from metapac.fewshot.tensors import data_checksum, read_tensors, write_tensors
from metapac.inputs import as_json_names, as_task_names
from metapac.score_functions import ScoreFunction
from metapac.verdict import clopper_pearson_interval

# What calibration allows for that we cannot control, such as a learner of your own at another batch
# size; another processor is covered as far as it goes. Rounding is assumed to move differences of
# logits by up to 2**8 epsilons of the outputs' precision (3.1e-5 in float32, 5.7e-14 in float64),
# and a probability by 8 further floats. Outputs of float32 networks were measured to move by 8.0e-7
# of their length, so this suits logits up to about 40; for those above 32 it grows in proportion.
LOGIT_ERROR = 2.0**8
STEPS = 8
_ORDINARY = 32.0
# Eight units of float64. A softmax over k labels is off by less than k + 800 of them, relatively:
# an exponential by its argument, which is below 746 unless the result is 0, and the sum by k.
_UNIT = 2.0**-50
_LARGEST_SLACK = 300.0  # a larger one bounds nothing; the exponential of this one is finite
_SPREAD = 4.0  # a statistic of log-probabilities moves by so many times as much, at most


@dataclass(frozen=True, eq=False)
class Outputs:
    """What a model returns for the queries of a task."""

    values: Floats
    kind: str
    function: ScoreFunction
    logits: Floats | None = None  # of probabilities, where they are known

    @cached_property
    def scores(self) -> Floats:
        return self.function(self.values, self.kind)

    def take(self, rows: Sequence[int]) -> Outputs:
        logits = None if self.logits is None else self.logits[rows]
        return replace(self, values=self.values[rows], logits=logits)

    def lowered_scores(self, labels: Array) -> Floats:
        """Return scores of the true labels, lowered by what rounding may cost in deployment."""
        # A lower score never raises a threshold, and a lower threshold keeps every label that a
        # higher one keeps. Let rounding move each logit by up to s / 2; s is the slack.
        #
        # - probability: with p = 1 / (1 + sum of exp(l_c - l_y)), the sum grows at most
        #   exp(s)-fold, so that p falls at most to p / (1 + (1 - p) (exp(s) - 1)).
        # - log_probability: the logarithm of that.
        # - margin: no probability moves by more than (exp(s) - 1) / 4, so that a margin loses at
        #   most half of exp(s) - 1, which is below 2 s where 2 s is below 2, the range of margins.
        # - cumulative: a label whose logit is s below the true one stays below it, and each
        #   probability keeps at least its exp(-s)-fold.
        # - log-probability minus an offset: the statistics that the offset is linear in are
        #   computed from log-probabilities, none of which moves by more than s.
        # - raw, and functions of the user: the slack is subtracted, relative to the largest number.
        values, is_plain = self.values, self.function in (ScoreFunction(), ScoreFunction("raw"))
        if self.kind == "probabilities" and not is_plain:
            # 0 for true labels that are too improbable to have all their digits.
            true = _take(values, labels)
            kept = np.where(true < np.finfo(values.dtype).tiny, 0, true)
            values = values.copy()
            np.put_along_axis(values, labels[:, None], kept[:, None], 1)
        return replace(self, values=values)._lower(labels)

    def _lower(self, labels: Array) -> Floats:
        function, scores, true = self.function, self.scores, _take(self.scores, labels)
        slack, rounding = self._slack(), (scores.shape[1] + 800) * _UNIT
        if self.kind == "probabilities":
            rounding += STEPS * float(np.finfo(self.values.dtype).eps)
        if isinstance(function, adapters.OwnScore):
            return np.asarray(true - self._unit() * row_sizes(scores))
        if function.name == "raw":
            return np.asarray((true - slack).astype(scores.dtype))
        slack = np.minimum(slack / function.temperature, _LARGEST_SLACK)
        if isinstance(function, TaskOffset):
            spread = _SPREAD * float(np.abs(function.weights[1:]).sum())
            lowered = replace(self, function=function.base)._lower(labels) - spread * slack
            return np.asarray(np.nextafter(lowered - float(function.shift or 0), -np.inf))
        if function.name == "margin":
            return np.asarray(np.maximum(true - 2 * slack - rounding, -1.0))
        if function.name == "log_probability":
            lowered = true - np.log1p(-np.expm1(true) * np.expm1(slack))
            return np.asarray(lowered - rounding * (1 - lowered))
        if function.name == "cumulative":
            lowered = self._lower_cumulative(labels, slack)
        else:
            wide = true.astype(np.result_type(true, np.float64))
            # A value above 1 is not a probability and has no odds; it is only rounded down.
            lowered = wide / (1 + np.maximum(1 - wide, 0) * np.expm1(slack))
        if scores is not self.values:  # computed here in float64
            lowered = lowered * (1 - rounding)
        lowered = lowered.astype(scores.dtype)
        for _ in range(STEPS):
            lowered = np.nextafter(lowered, scores.dtype.type(0))
        return np.asarray(lowered)

    def _lower_cumulative(self, labels: Array, slack: Floats) -> Floats:
        """Return the mass that surely stays no more probable than the true label."""
        logarithm = ScoreFunction("log_probability", self.function.temperature)
        logs = logarithm(self.values, self.kind)
        is_below = logs <= (_take(logs, labels) - slack)[:, None]
        np.put_along_axis(is_below, labels[:, None], True, 1)
        return np.asarray(np.where(is_below, np.exp(logs), 0.0).sum(1) * np.exp(-2 * slack))

    def _unit(self) -> float:
        return LOGIT_ERROR * float(np.finfo(self.values.dtype).eps)

    def _slack(self) -> Floats:
        """Return how far rounding is assumed to move a difference of logits, or a score, (n,)."""
        logits = self.values if self.kind == "logits" else self.logits
        if logits is not None:
            sizes = np.maximum(row_sizes(logits) / _ORDINARY, 1.0)
        else:
            sizes = row_sizes(self.values)
            sizes = np.ones_like(sizes) if self.kind == "probabilities" else sizes
        return np.asarray(self._unit() * sizes.astype(np.float64))


def _take(matrix: Array, labels: Array) -> Array:
    """Return the entry of each row at its label, (n,)."""
    return np.asarray(np.take_along_axis(matrix, labels[:, None], 1)[:, 0])


def output_kind(learner: Learner) -> str:
    return str(getattr(learner, "outputs", "probabilities"))


def compute_outputs(
    learner: Learner, scorer: Any, x: Any, function: ScoreFunction, classes: Any, name: Any = "new"
) -> Outputs:
    """Return the outputs of an adapted model that a score function is computed from."""
    kind = output_kind(learner)
    shape = {"rows": adapters.count_examples(x), "least": classes or 1, "most": classes}
    # Our own scorers; a subclass may predict something else.
    if "probabilities_and_logits" in vars(type(scorer)):
        probabilities, logits = scorer.probabilities_and_logits(x)
        source = f"the learner on task {name!r}"
        adapters.as_outputs(source, logits, kind="logits", **shape)
        if function == ScoreFunction():
            return Outputs(probabilities, kind, function, logits)
        return Outputs(logits, "logits", function)  # probabilities lack their digits
    if hasattr(scorer, "raw_outputs"):
        return Outputs(scorer.raw_outputs(x), kind, function)
    source, values = f"predict_proba on task {name!r}", scorer.predict_proba(x)
    return Outputs(adapters.as_outputs(source, values, kind=kind, **shape), kind, function)


def adapt_and_compute(
    learner: Learner,
    known: tuple[Any, Any, Any],
    x: Any,
    function: ScoreFunction,
    classes: Any,
    name: Any = "new",
) -> tuple[Outputs, Outputs | None]:
    """Adapt to support examples, their labels and unlabelled examples; return outputs for x."""
    # With a score function that has an offset, the outputs for the unlabelled examples too.
    support_x, support_y, unlabelled = known
    scorer = adapt_learner(learner, support_x, support_y, classes=classes, unlabelled=unlabelled)
    among = None
    if isinstance(function, TaskOffset):
        if unlabelled is not None:
            among = compute_outputs(learner, scorer, unlabelled, function.base, classes, name)
        function = function.for_task(None if among is None else among.scores)
    return compute_outputs(learner, scorer, x, function, classes, name), among


def describe_learner(learner: Learner) -> dict[str, Any]:
    """Return a description of a learner, with a checksum of its weights if it has any."""
    if hasattr(learner, "describe"):
        described = dict(learner.describe())
    else:
        values = {name: value for name, value in vars(learner).items() if name[0] != "_"}
        described = {"class": type(learner).__name__}
        described |= {name: getattr(v, "__qualname__", repr(v)) for name, v in values.items()}
    has_weights = getattr(learner, "module", None) is not None
    return described | ({"weights": weights_checksum(learner)} if has_weights else {})


def weights_checksum(learner: Any) -> str:
    state = learner.module.state_dict()
    return data_checksum(*(state[name].cpu().numpy() for name in sorted(state)))


class SharedEmbeddings:
    """A learner that embeds each example of a pool once; scores are the same to the last bit."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self._pools: dict[int, tuple[Any, NDArray[np.bool_], list[Any]]] = {}

    @classmethod
    def of(cls, learner: Learner | SharedEmbeddings) -> SharedEmbeddings:
        return learner if isinstance(learner, SharedEmbeddings) else cls(learner)

    def outputs(self, task: Task, function: ScoreFunction) -> Outputs:
        return self.all_outputs(task, function)[0]

    def all_outputs(self, task: Task, function: ScoreFunction) -> tuple[Outputs, Outputs | None]:
        """Return the outputs for the queries of a task, and for its unlabelled examples if used."""
        learner: Any = self.learner
        is_ours = "_on_embeddings" in vars(type(learner))  # a subclass may adapt in its own way
        if is_ours and task.columns is None and is_shared(task):
            learner, task = learner._on_embeddings(), self._embed(task)
        known = task.support_x, task.support_y, task.unlabelled_x
        of_task = task.query_x, function, task.classes, task.name
        return adapt_and_compute(learner, known, *of_task)

    def _embed(self, task: Task) -> Task:
        """Return a task with embeddings in place of examples."""
        count = adapters.count_examples(task.x)
        if id(task.x) not in self._pools:  # with x, so that no other array gets its id
            self._pools[id(task.x)] = task.x, np.zeros(count, dtype=bool), []
        _, known, embedded = self._pools[id(task.x)]
        rows = task.positions[~known[task.positions]]
        if len(rows):
            z = self.learner._embed_rows(task.x[rows])  # type: ignore[attr-defined]
            if not embedded:
                embedded.append(z.new_empty(count, *z.shape[1:]))
            embedded[0][rows] = z
            known[rows] = True
        return replace(task, x=embedded[0])


def is_shared(task: Task) -> bool:
    """Return whether ``task.x`` holds other examples than those of the task."""
    return len(task.positions) < adapters.count_examples(task.x)


_LABELS = 16  # compared: enough for a learner that looks at other queries to show it
# Differences of log-odds below this are rounding, perhaps of a lower precision than was declared.
_ROUNDING = 1e-3
_LOW_PRECISION = 0.1  # below this they may be the rounding of bfloat16 or float16


def check_independence(learner: Learner, task: Task) -> None:
    """Raise if the scores of the least certain query change when it is scored alone, twice."""
    function = as_score_function(None, output_kind(learner))
    known = {"classes": task.classes, "unlabelled": task.unlabelled_x}
    scorer = adapt_learner(learner, task.support_x, task.support_y, **known)

    def outputs_at(positions: Array) -> Outputs:
        x = task.take(positions)
        return compute_outputs(learner, scorer, x, function, task.classes, task.name)

    together = outputs_at(task.query)
    best = np.sort(together.scores, axis=1)[:, -2:]
    chosen = int(np.argmin(best[:, -1] - best[:, 0]))  # its two best labels are the nearest
    among = together.take([chosen])
    where = f"query {chosen} of task {task.name!r}"
    try:
        alone, again = (outputs_at(task.query[[chosen]]) for _ in range(2))
    except InvalidInput:
        raise
    except (ValueError, RuntimeError) as error:
        text = f"the learner must score queries one by one, but cannot score {where} alone"
        raise InvalidInput(f"{text} ({error}). Switch batch norm to eval().") from error
    if _differ(alone, again):
        rule = "the learner must score an example the same each time, without dropout: call eval()"
        raise InvalidInput(f"{rule}. {where} got {_show(alone)} and then {_show(again)}.")
    if _differ(alone, among):
        _object(alone, among, where)


def _object(alone: Outputs, among: Outputs, where: str) -> None:
    """Raise since the scores of a query differ among other queries; warn if only a little."""
    got = f"{where} got {_show(among)} among other queries and {_show(alone)} alone"
    distance = _distance(alone, among)
    if distance > _ROUNDING:
        rule = "the learner must score each query by itself, from the support set alone"
        remedy = "no statistics of the queries, such as batch norm in training mode"
        remedy += "" if distance > _LOW_PRECISION else "; if this is rounding, return float16"
        raise InvalidInput(f"{rule}, but {got}. Use {remedy}.")
    text = f"{got}, more than the rounding of {among.values.dtype.name} explains"
    _common.warn(f"{text}. Return the precision of the model.")


def _differ(one: Outputs, other: Outputs) -> bool:
    """Return whether two rows differ by more than rounding."""
    return _is_below(one, other) or _is_below(other, one)


def _is_below(one: Outputs, other: Outputs) -> bool:
    """Return whether a score of one row is below that of the other even if that is lowered."""
    labels = np.argsort(-one.scores[0], kind="stable")[:_LABELS]
    rows = other.take([0] * len(labels))
    return bool((one.scores[0, labels] < rows.lowered_scores(labels)).any())


def _distance(one: Outputs, other: Outputs) -> float:
    """Return the largest difference of log-odds, or of raw scores as a fraction of them."""
    scale = float(row_sizes(one.values)[0]) if one.function.name == "raw" else 1.0
    if one.function.name != "raw":
        one, other = (replace(x, function=ScoreFunction("log_probability")) for x in (one, other))
    labels = np.argsort(-one.scores[0], kind="stable")[:_LABELS]
    with np.errstate(invalid="ignore", divide="ignore"):  # labels that are impossible in both
        apart = np.abs(one.scores - other.scores)[0, labels] / scale
    return float(np.fmax.reduce(apart, initial=0.0))


def _show(outputs: Outputs) -> str:
    more = ", ..." if outputs.scores.shape[1] > 5 else ""
    return f"({', '.join(f'{score:.6g}' for score in outputs.scores[0, :5])}{more})"


# Temperatures from 1/1000 to 1000; one at either end means that there is no best one.
_LARGEST = math.log(1000)


def fit_temperature(
    learner: Learner, tasks: Iterable[Task], *, score: str = "probability"
) -> ScoreFunction:
    """Return a score function with the temperature that fits validation tasks best.

    It minimises the cross-entropy of the queries. Neither these tasks, which `score_tasks`
    refuses, nor others with the same examples, which it does not notice, may be calibrated on.

    Parameters
    ----------
    learner : Learner
    tasks : iterable of Task
        Validation tasks. Queries whose label is absent from the support set are left out.
    score : str, default "probability"
        Name of the score function.

    Returns
    -------
    ScoreFunction
        The score function, for `metapac.fewshot.score_tasks` and `metapac.fewshot.score_examples`.

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

    ScoreFunction(score)
    shared, logarithm = SharedEmbeddings.of(learner), ScoreFunction("log_probability")
    gaps: list[Floats] = []  # per query: log-odds of each label against the true one
    fitted_on = set()
    for task in tasks:
        fitted_on.add(fingerprint(task))
        logs = shared.outputs(task, logarithm).scores.astype(np.float64)
        true = _take(logs, task.query_y)
        gaps.extend(logs[np.isfinite(true)] - true[np.isfinite(true), None])
    if not gaps:
        raise InvalidInput("tasks must hold queries whose label is in the support set, got none.")
    odds = np.ascontiguousarray(np.array([*zip_longest(*gaps, fillvalue=-np.inf)]).T)

    def cross_entropy(log_temperature: float) -> float:
        return float(np.logaddexp.reduce(odds / math.exp(log_temperature), axis=1).mean())

    bounds = (-_LARGEST, _LARGEST)
    best = minimize_scalar(cross_entropy, bounds=bounds, method="bounded", options={"xatol": 1e-8})
    if abs(best.x) > _LARGEST - 1e-3:
        rule = "tasks must be neither all right nor no better than chance for a temperature to fit"
        raise InvalidInput(f"{rule}: the best one is beyond {math.exp(best.x):.3g}.")
    return ScoreFunction(score, float(math.exp(best.x)), frozenset(fitted_on))


def fit_offset(learner: Learner, tasks: Iterable[Task], *, epsilon: float) -> TaskOffset:
    """Return a score function that allows for how hard a task is, fitted on held-out tasks.

    It is the log-probability, at the temperature of `fit_temperature`, minus an offset: a ridge
    regression of the task's ``epsilon``-quantile on statistics of the outputs for its unlabelled
    examples. `score_tasks` refuses these tasks, and others of the same classes.

    Parameters
    ----------
    learner : Learner
        Learner that returns probabilities or logits.
    tasks : iterable of Task
        Tasks with unlabelled examples, of classes that the learner was not trained on: its outputs
        for classes that it knows are too good.
    epsilon : float
        Miss rate of the guarantee that is calibrated.

    Returns
    -------
    TaskOffset
        The score function, for `metapac.fewshot.score_tasks` and `metapac.fewshot.score_examples`.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import ClassPool, PrototypeLearner, fit_offset, score_tasks
    >>> rng, y = np.random.default_rng(0), np.repeat(np.arange(24), 40)
    >>> x = rng.normal(size=(24, 8))[y] + rng.normal(size=(960, 8))
    >>> shape = {"ways": 5, "shots": 1, "queries": 10, "unlabelled": 50, "rng": 0}
    >>> held_out = ClassPool(x[y < 12], y[y < 12]).tasks(100, **shape)
    >>> offset = fit_offset(PrototypeLearner(), held_out, epsilon=0.1)
    >>> calibration = ClassPool(x[y >= 12], y[y >= 12]).tasks(100, **shape)
    >>> scores, tasks = score_tasks(PrototypeLearner(), calibration, score=offset)
    """
    drawn, shared = list(tasks), SharedEmbeddings.of(learner)
    sizes = {0 if task.unlabelled is None else len(task.unlabelled) for task in drawn}
    if len(sizes) != 1 or 0 in sizes or len(drawn) < MIN_TASKS:
        rule = f"tasks must be {MIN_TASKS} or more, all with as many unlabelled examples"
        raise InvalidInput(f"{rule}, got {len(drawn)} with {sorted(sizes)}.", parameter="tasks")
    plain = TaskOffset(
        temperature=fit_temperature(shared, drawn).temperature,  # type: ignore[arg-type]
        epsilon=_common.as_probability("epsilon", epsilon),
        unlabelled=sizes.pop(),
        weights=(0.0,) * SIZE,
    )
    rows, targets = [], []
    for task in drawn:
        queries, unlabelled = shared.all_outputs(task, plain)
        targets.append(np.quantile(_take(queries.scores, task.query_y), epsilon, method="lower"))
        rows.append(describe_outputs(unlabelled.scores, epsilon))  # type: ignore[union-attr]
    return replace(
        plain,
        weights=fit_weights(rows, targets),
        learner=artefact.as_json("learner", describe_learner(shared.learner)),
        classes=frozenset().union(*map(units_of, drawn)),
        fitted_on=frozenset(map(fingerprint, drawn)),
    )


def units_of(task: Task) -> set[str]:
    """Return the classes of a task, with their domain; the name of the task if it is a group."""
    if task.class_names is None:
        return {str(task.name)}
    domain = "" if task.domain is None else f"{task.domain}/"
    return {f"{domain}{name}" for name in task.class_names}


def fingerprint(task: Task) -> str:
    """Return a text that two tasks share only if they have the same queries."""
    first = np.asarray(_common.on_host(task.take(task.query[:1])))
    content = repr(first.tolist()).encode() if first.dtype == object else first.tobytes()
    digest = hashlib.blake2b(content, digest_size=16)
    for part in (task.query, task.query_y):
        digest.update(np.ascontiguousarray(part, dtype=np.int64).tobytes())
    return digest.hexdigest()


FORMAT = artefact.Format("metapac scores", "Stored.save", "Score the tasks again.", 2, oldest=2)
_ARRAYS = ("embeddings", "labels", "scores", "tasks")


@dataclass(frozen=True, eq=False)
class Stored:
    """Embeddings of a pool with labels, or scores with their tasks, or both; and provenance."""

    embeddings: Array | None = None
    labels: Array | None = None
    scores: Array | None = None
    tasks: Array | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

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
        write_tensors(path, tensors, {"provenance": provenance, "names": names}, FORMAT)


def read_stored(path: PathLike) -> Stored:
    """Return what `Stored.save` wrote."""
    document, tensors = read_tensors(path, FORMAT)
    with artefact.decoding(path, FORMAT):
        for key, names in document["names"].items():
            tensors[key] = np.array(names)[tensors[key]]
        return Stored(**tensors, provenance=document["provenance"])


def score_tasks(
    learner: Learner | SharedEmbeddings,
    tasks: Iterable[Task],
    *,
    score: Score = None,
    progress: Progress | None = None,
) -> tuple[Array, Array]:
    """Return the score of each query's true label and the task of each, ready to calibrate on.

    Parameters
    ----------
    learner : Learner
        The learner, adapted to each task in turn.
    tasks : iterable of Task
        Tasks with distinct names.
    score : str, ScoreFunction or callable, optional
        A name or function of `metapac.ScoreFunction`; by default "probability", and "raw" for a
        learner whose outputs are scores. A function of your own takes probabilities of shape
        (n, classes) and returns as many scores, higher for more plausible labels, each row by
        itself. For sets, pass the same one to `score_examples`.
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
        on chance, or if the score function was fitted on one of the tasks or its classes.

    Examples
    --------
    >>> from metapac.fewshot import CallableLearner, score_tasks, Task
    >>> learner = CallableLearner(lambda support_x, support_y, x: [[0.9, 0.1]] * len(x))
    >>> task = Task.from_arrays([[0.0], [1.0]], [0, 1], [[0.2], [0.8]], [0, 1], name="ohio")
    >>> scores, ids = score_tasks(learner, [task])
    >>> scores.round(6).tolist(), ids.tolist()
    ([0.9, 0.1], ['ohio', 'ohio'])
    """
    scored = _score(learner, tasks, score, progress)
    return _join([(task.name, outputs.lowered_scores(task.query_y)) for task, outputs in scored])


def score_matrix(learner: Learner | SharedEmbeddings, task: Task, *, score: Score = None) -> Floats:
    """Return the score of every label for the queries of a task, to make sets from."""
    shared = SharedEmbeddings.of(learner)
    function = as_score_function(score, output_kind(shared.learner))
    return shared.outputs(task, function).scores


def score_examples(
    learner: Learner,
    support_x: Any,
    support_y: Any,
    x: Any,
    *,
    classes: int | None = None,
    score: Score = None,
    unlabelled: Any = None,
) -> Floats:
    """Return the score of every label for new examples of a task, to make sets from.

    Parameters
    ----------
    learner : Learner
    support_x, support_y : array_like, shape (s, ...)
        Labelled examples, None for a model that is not adapted, and labels 0 to ``classes - 1``.
    x : array_like, shape (n, ...)
        New examples.
    classes : int, optional
        Number of labels; by default one more than the largest label.
    score : str, ScoreFunction or callable, optional
        As in `score_tasks`: the one that was calibrated.
    unlabelled : array_like, shape (m, ...), optional
        Unlabelled examples of the task, drawn like those of the calibration tasks and as many. The
        guarantee is for other examples of the task than these.

    Returns
    -------
    ndarray, shape (n, classes)

    Examples
    --------
    >>> from metapac.fewshot import PrototypeLearner, score_examples
    >>> scores = score_examples(PrototypeLearner(), [[0.0], [2.0]], [0, 1], [[0.5]], score="margin")
    >>> scores.round(3).tolist()
    [[0.762, -0.762]]
    """
    function = as_score_function(score, output_kind(learner))
    if unlabelled is not None:
        warn_if_shared(x, unlabelled)
    known = support_x, support_y, unlabelled
    return adapt_and_compute(learner, known, x, function, classes)[0].scores


def _score(
    learner: Any, tasks: Iterable[Task], score: Score, progress: Progress | None
) -> Iterator[tuple[Task, Outputs]]:
    """Yield each task with the outputs of the adapted learner, all checked."""
    shared = SharedEmbeddings.of(learner)
    function = as_score_function(score, output_kind(shared.learner))
    total = len(tasks) if isinstance(tasks, Sized) else None
    names: set[str | int] = set()
    is_checked = False
    for done, task in enumerate(tasks, 1):
        if task.name in names:
            text = f"tasks holds {task.name!r} more than once, and a task counts only once"
            raise InvalidInput(f"{text}. Give every task a distinct name.")
        if function.fitted_on and fingerprint(task) in function.fitted_on:
            text = f"{keyword('score', name_score(function))} was fitted on task {task.name!r}"
            raise InvalidInput(f"{text}. Fit it on validation tasks.")
        if isinstance(function, TaskOffset) and (seen := function.classes & units_of(task)):
            text = f"the offset of score was fitted on {_common.listed(sorted(seen))} of task"
            raise InvalidInput(f"{text} {task.name!r}. Fit it on tasks of other classes.")
        names.add(task.name)
        outputs = shared.outputs(task, function)
        if not is_checked and len(task.query) > 1:
            check_independence(shared.learner, task)
            is_checked = True
        yield task, outputs
        if progress is not None:
            progress("scoring tasks", done, total)
    if not names:
        raise InvalidInput("tasks is empty; pass at least one task.")


def _join(parts: Sequence[tuple[str | int, Floats]]) -> tuple[Array, Array]:
    names, scores = zip(*parts, strict=True)
    return np.concatenate(scores), np.repeat(as_task_names(list(names)), [*map(len, scores)])


def tabulate(
    learner: Learner,
    tasks: Iterable[Task],
    *,
    score: Score = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Return a table with a row for each query: its label, and the scores of all labels."""
    parts: list[tuple[str | int, Floats]] = []
    examples, labels, scores, classes = [], [], list[Floats](), list[list[Any]]()
    for task, outputs in _score(learner, tasks, score, progress):
        names, rows = task.class_names, outputs.scores
        parts.append((task.name, outputs.lowered_scores(task.query_y)))
        examples.append(task.query)
        labels.append(task.query_y if names is None else np.array(list(names))[task.query_y])
        scores.extend(rows)
        classes.extend([] if names is None else [list(names)] * len(rows))
    true, ids = _join(parts)
    table = {"task": ids, "example": np.concatenate(examples)}
    table["label"] = as_task_names(np.concatenate(labels).tolist())
    if len(classes) not in (0, len(true)):
        raise InvalidInput("tasks must all have class_names, or none of them.")
    return table | {"score": true, "scores": scores} | ({"classes": classes} if classes else {})


@dataclass(frozen=True)
class Accuracy:
    """Accuracy on new tasks, with a 95% confidence interval.

    Attributes
    ----------
    value : float
        Mean over tasks of the fraction of queries whose highest-scored label is the true one.
    low, high : float
        Ends of the interval; 0 and 1 for a single task.
    tasks : int
        Number of tasks.

    The interval is Student's t over the accuracies of the tasks, clipped to [0, 1], and at least as
    wide as the Clopper-Pearson interval of all queries. It covers new tasks of the same pool, not
    other pools or another training run.
    """

    value: float
    low: float
    high: float
    tasks: int

    def __str__(self) -> str:
        value, low, high = (f"{100 * share:.1f}" for share in (self.value, self.low, self.high))
        return f"{value}% ({low} to {high}%, {self.tasks} task{'s' * (self.tasks != 1)})"


def accuracy(
    learner: Learner,
    pool: ClassPool | GroupPool,
    *,
    ways: int = 5,
    shots: int = 5,
    queries: int = 5,
    tasks: int = 400,
    rng: Seed = 0,
) -> Accuracy:
    """Return the accuracy of a learner on the queries of random tasks.

    Parameters
    ----------
    learner : Learner
    pool : ClassPool or GroupPool
        Pool that the tasks are drawn from.
    ways : int, default 5
        Number of classes in a task; ignored for a `GroupPool`.
    shots, queries : int, default 5
        Number of support and of query examples, for each class or for the group.
    tasks : int, default 400
        Number of tasks.
    rng : int, numpy.random.Generator or None, default 0
        Seed.

    Returns
    -------
    Accuracy
        The mean over tasks, with a 95% confidence interval.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.fewshot import PrototypeLearner, accuracy, ClassPool
    >>> y = np.repeat(np.arange(8), 10)
    >>> pool = ClassPool(y[:, None] + np.random.default_rng(0).normal(size=(80, 1)), y)
    >>> print(accuracy(PrototypeLearner(), pool, ways=2, tasks=50))
    92.0% (87.1 to 96.9%, 50 tasks)
    """
    count = _common.as_whole_number("tasks", tasks)
    shape: Any = {"shots": shots, "queries": queries, "rng": rng}
    shape |= {} if isinstance(pool, GroupPool) else {"ways": ways}
    drawn: Any = pool.tasks(count, **shape)
    examples = count * (len(drawn[0].support) + len(drawn[0].query))
    bank: Any = None  # of the pool, where that embeds less
    if hasattr(learner, "bank") and drawn[0].x is pool.x and examples >= len(pool.y):
        bank = learner.bank(pool.x)

    def predict(task: Task) -> Floats:
        if bank is not None:
            return np.asarray(bank.predict_proba(task))
        scorer = adapt_learner(learner, task.support_x, task.support_y, classes=task.classes)
        return np.asarray(scorer.predict_proba(task.query_x))

    right = [predict(task).argmax(1) == task.query_y for task in drawn]
    low, high = _interval(right)
    return Accuracy(float(np.mean([task.mean() for task in right])), low, high, count)


def _interval(right: Sequence[NDArray[np.bool_]]) -> tuple[float, float]:
    """Return the 95% interval of the mean over tasks, from whether each query is right."""
    from scipy.special import stdtrit

    if len(right) == 1:
        return 0.0, 1.0
    shares = np.array([task.mean() for task in right])
    error = float(shares.std(ddof=1) / np.sqrt(len(shares)))
    half = float(stdtrit(len(shares) - 1, 0.975)) * error
    queries = np.concatenate(right)
    low, high = clopper_pearson_interval(queries.sum(), len(queries), confidence=0.95)
    mean = float(shares.mean())
    return max(0.0, min(float(low), mean - half)), min(1.0, max(float(high), mean + half))
