"""Monitor a guarantee while labelled new tasks come in."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, Self, TypedDict, get_type_hints
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from metapac import artefact
from metapac._common import (
    PathLike,
    as_probability,
    as_whole_number,
    check_bool,
    check_text,
    listed,
)
from metapac._text import format_table, visible
from metapac.betting import HORIZON, RUN_LENGTH, Added, Power, Step, Watch, exceeds, reaches
from metapac.columns import hold_losses
from metapac.context import Context
from metapac.data_checks import Finding, judge_task_names, report
from metapac.errors import BadArtefact, InvalidInput, keyword
from metapac.evaluation import Evaluation, evaluate
from metapac.grouping import ClusterIds, Data
from metapac.guarantee import Epsilon, Guarantee, drop_defaults, percent
from metapac.inputs import as_classes, as_json_labels, as_json_names
from metapac.predictors import Calibrated, MetaPS, ThresholdSets
from metapac.ranks import equal_share
from metapac.verdict import HOLDS, SHOWN_LEVEL, UNDECIDED, VIOLATED, describe_causes
from metapac.words import Words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from metapac.drift import Drift

_PATIENCE = 60.0  # seconds to wait for other processes that update the same file

# False-alarm probabilities of the monitors that have counted tasks: by predictor, by checksum.
_begun: WeakKeyDictionary[ThresholdSets, dict[str, list[float]]] = WeakKeyDictionary()


@dataclass(frozen=True, kw_only=True)
class Terms:
    """Parameters of a monitored guarantee, and the false-alarm probability.

    Attributes
    ----------
    promise : str
        The guarantee in one sentence.
    checksum : str
        Checksum of its parameters, thresholds and calibration tasks, but not of its wording.
    epsilon, alpha, delta : float, mapping or None
        Parameters of the guarantee, as in `Guarantee`.
    classes : tuple or None
        With a guarantee per class, the classes.
    min_examples : int
        Tasks with fewer examples (with a guarantee per class, of the class) are left out.
    false_alarm, run_length : float and int
        As in `Monitor`.
    unit, example : str
        What a task and an example are called.
    again : bool or None
        Whether tasks of earlier batches count again; None until the first such task has come.
    restarts, spent : int and float
        Number of monitors that were begun for this predictor before, in the same process, and the
        sum of their false-alarm probabilities.
    rate : str
        What ``epsilon`` bounds: "miss rate", or "risk" for `MetaRisk`.
    together : bool
        Whether the guarantee is for all classes on the same tasks.
    """

    promise: artefact.Name
    checksum: artefact.Sha256
    epsilon: Epsilon
    alpha: float
    delta: float | None
    classes: tuple[Any, ...] | None
    min_examples: artefact.Count
    false_alarm: float
    unit: artefact.Name = "task"
    example: artefact.Name = "example"
    again: bool | None = None
    run_length: artefact.Count = RUN_LENGTH
    restarts: artefact.Count = 0
    spent: float = 0.0
    rate: artefact.Name = "miss rate"
    together: bool = False

    @property
    def rates(self) -> list[float]:
        """Miss rate allowed for each class, or for all together."""
        rates, labels = self.epsilon, self.classes or (None,)
        return [float(rates[x] if isinstance(rates, Mapping) else rates) for x in labels]

    @property
    def words(self) -> Words:
        """What a task and an example are called."""
        words = Words.from_context(Context(unit=self.unit, example=self.example))
        return words._replace(rate=self.rate)

    @property
    def any_false_alarm(self) -> float:
        """Probability that this monitor or one begun before it ever raises a false alarm."""
        return min(1.0, round(self.spent + self.false_alarm, 12))

    @property
    def limit(self) -> float:
        """Wealth at which the alarm is raised."""
        return 1 / self.false_alarm


def state_terms(
    promise: Calibrated, false_alarm: float, min_examples: int, run_length: int
) -> Terms:
    """Return the terms of a calibrated predictor, whose guarantee can be monitored."""
    if not isinstance(promise, MetaPS):
        text = "promise must be a calibrated MetaPS, such as load returns, got"
        text += f" {type(promise).__name__}, which no number of bad tasks would"
        raise InvalidInput(f"{text} contradict.")
    promise.check_calibrated()
    _check_fair(promise.guarantee_)
    least = as_whole_number("min_examples", min_examples, minimum=0)
    stated = ("epsilon", "alpha", "delta")
    return Terms(
        promise=promise.promise_,
        checksum=_checksum(promise),
        **{name: getattr(promise.guarantee_, name) for name in stated},
        classes=promise.classes_,
        min_examples=max(least, promise.min_examples),
        false_alarm=as_probability("false_alarm", false_alarm),
        **{name: getattr(promise.context_, name) for name in ("unit", "example")},
        run_length=as_whole_number("run_length", run_length),
        rate="risk" if hold_losses(promise.columns_) else "miss rate",
        together=promise.guarantee_.is_together,
    )


def _encode_terms(terms: Terms) -> dict[str, Any]:
    """Return the terms as JSON can hold them."""
    classes = None if terms.classes is None else as_json_labels(terms.classes)
    epsilon = artefact.encode_parameters({"epsilon": terms.epsilon})
    body = asdict(terms) | epsilon | {"classes": classes}
    rare = ("rate", "miss rate"), ("together", False)
    return {k: v for k, v in body.items() if (k, v) not in rare}


def _decode_terms(body: Mapping[str, Any]) -> Terms:
    """Return the terms in a state file."""
    epsilon = artefact.decode_parameters({"epsilon": body["epsilon"]})["epsilon"]
    classes = None if body["classes"] is None else as_classes(body["classes"])
    if isinstance(epsilon, Mapping) and {*epsilon} != {*(classes or ())}:
        raise InvalidInput("epsilon and classes must name the same classes.")
    terms = Terms(**{**body, "epsilon": epsilon, "classes": classes})
    levels: Any = {name: body[name] for name in ("alpha", "delta", "min_examples")}
    Guarantee(epsilon=epsilon, split="even", per_class=classes is not None, **levels)
    as_probability("false_alarm", terms.false_alarm)
    as_whole_number("run_length", terms.run_length)
    return terms


def _check_fair(guarantee: Guarantee) -> None:
    """Raise InvalidInput if a bet against the guarantee would not be fair."""
    if guarantee.delta is None:
        text = "promise must hold with a confidence to be monitored, got delta=None: a guarantee in"
        text += " expectation is an average over calibrations, so one calibration may be bad"
        text += " without breaking it, and the false-alarm bounds do not apply. Calibrate with"
        text += " delta, such as delta=0.1, or judge new tasks once with"
        raise InvalidInput(f"{text} evaluate.")
    if (new_tasks := guarantee.new_tasks) is not None:
        text = "promise must be about new draws of tasks to be monitored, got"
        text += f" new_tasks={new_tasks}: on a finite list, the tasks that are left are the worse"
        text += " the better the others were, so no bet on them is fair. Judge the list with"
        raise InvalidInput(f"{text} evaluate once all of it is labelled.")


def _checksum(promise: MetaPS) -> str:
    """Return a checksum of a guarantee that does not depend on its wording or file version."""
    name, result = promise._encoded_result()
    parameters = drop_defaults(promise._guarantee_params())
    if parameters.get("sampling") == "capped":  # version 0.2.0 knew nothing else
        del parameters["sampling"]
    levels = artefact.encode_parameters(parameters)
    tasks = [str(task) for task in promise.tasks_.tolist()]
    return artefact.checksum({"levels": levels, name: result, "tasks": tasks})


class Counted(TypedDict):
    """A task that was counted, as in the state file."""

    task: str | int
    batch: str | None
    examples: list[artefact.Count]
    missed: list[artefact.Count]
    checksum: artefact.Sha256
    cluster: NotRequired[str | int | None]


# The terms in a state file have the types of the class, except for what JSON writes differently.
_AS_JSON = {"epsilon": Any, "classes": list[Any] | None, "again": NotRequired[bool | None]}
_AS_JSON |= {"run_length": NotRequired[artefact.Count], "restarts": NotRequired[artefact.Count]}
_AS_JSON |= {"spent": NotRequired[float], "rate": NotRequired[artefact.Name]}  # not in 0.2.0
_AS_JSON |= {"together": NotRequired[bool]}
_make_shape: Any = TypedDict  # whose keys need not be literals
_Terms = _make_shape("_Terms", get_type_hints(Terms, include_extras=True) | _AS_JSON)

FORMAT = artefact.Format(
    "metapac monitor",
    written_by="Monitor.save() or by 'metapac monitor --state'",
    remedy="Restore it from a backup, or start anew with another file and count all tasks again.",
    shape=_make_shape("_Document", {"watched": _Terms, "tasks": list[Counted]}),
)


def _check(terms: Terms, tasks: Sequence[Counted]) -> None:
    """Raise InvalidInput if a task could not have been counted, or was counted twice."""
    if len({_key(entry) for entry in tasks}) < len(tasks):
        raise InvalidInput("a task occurs twice in a batch.")
    for entry in tasks:
        name, examples, missed = entry["task"], entry["examples"], entry["missed"]
        if not len(examples) == len(missed) == len(terms.rates):
            raise InvalidInput(f"task {name!r} must have one count for each class.")
        if any(r > n for n, r in zip(examples, missed, strict=True)):
            raise InvalidInput(f"task {name!r} has more misses than examples.")
        if terms.classes is None and examples[0] < max(1, terms.min_examples):
            raise InvalidInput(f"task {name!r} has too few examples to be counted.")


def _key(entry: Counted) -> tuple[str, str | None]:
    return str(entry["task"]), entry["batch"]


def check_batch(batch: str | None, again: bool) -> None:
    """Raise InvalidInput if the name of a batch is no text, or is missing where it is needed."""
    if batch is not None:
        check_text("batch", batch)
    check_bool("again", again)
    if again and batch is None:
        raise InvalidInput("again needs the name of the batch; pass batch too.", parameter="again")


def order_tasks(evaluation: Evaluation, terms: Terms, batch: str | None) -> list[Counted]:
    """Return the tasks in the order of their checksums: that of names may be related to results."""
    if evaluation.ranges is None:
        raise InvalidInput("the evaluation must have the ranges of scores, as from evaluate.")
    parts = [evaluation._parts[label] for label in terms.classes or (None,)]
    columns = [(p.tasks.tolist(), p.examples.tolist(), p.missed.tolist()) for p in parts]
    counts = [{name: (n, k) for name, n, k in zip(*c, strict=True)} for c in columns]
    names = as_json_names(evaluation.tasks)
    clusters = evaluation.clusters or [None] * len(names)
    tasks: list[Any] = []
    for name, ends, cluster in zip(names, evaluation.ranges.tolist(), clusters, strict=True):
        # A task that a class leaves out, or that has none of its examples, has a count of 0 here.
        examples, missed = map(list, zip(*(c.get(name, (0, 0)) for c in counts), strict=True))
        counts_of = {"examples": examples, "missed": missed}
        seen = artefact.checksum(counts_of | {"range": artefact.encode_floats(ends)})
        entry = {"task": name, "batch": batch} | counts_of | {"checksum": seen, "cluster": cluster}
        tasks.append(entry)
    return sorted(tasks, key=_shuffle)


def _shuffle(entry: Counted) -> bytes:
    return hashlib.sha256(str(entry["task"]).encode(errors="surrogatepass")).digest()


def fix_again(
    terms: Terms, tasks: Sequence[Counted], counted: Sequence[Counted], *, again: bool
) -> Terms:
    """Return the terms with the rule for tasks of earlier batches, which the first of them fixes.

    If the rule could change from batch to batch, labels could decide it: a month that looks like an
    earlier one would be left out, and a month with bad tasks would count.
    """
    seen = {_key(old) for old in counted}
    names = {name for name, _batch in seen}
    if not any(str(entry["task"]) in names and _key(entry) not in seen for entry in tasks):
        return terms
    if terms.again is not None and terms.again != again:
        done = "counted again" if terms.again else "left out"
        text = f"again must stay as it was for earlier batches, whose tasks were {done}, or labels"
        text += " could decide which tasks count. To change it, begin another state"
        raise InvalidInput(f"{text} file.")
    return replace(terms, again=again)


def select_new(
    tasks: Sequence[Counted], counted: Sequence[Counted], units: str, *, again: bool
) -> tuple[list[Counted], list[Any], list[Any]]:
    """Return the tasks to count, those counted before, and those of clusters counted before.

    Names, batches and clusters decide what counts. Examples only decide whether a task that does
    not count is left out, or all tasks are refused.
    """
    earlier: dict[str, list[Counted]] = {}
    for old in counted:
        earlier.setdefault(str(old["task"]), []).append(old)
    clusters = {str(name) for old in counted if (name := old.get("cluster")) is not None}
    new, known, dependent, changed = [], [], [], []
    for entry in tasks:
        same = earlier.get(str(entry["task"]), [])
        rivals = [old for old in same if old["batch"] == entry["batch"]] if again else same
        if any(old["checksum"] == entry["checksum"] for old in rivals):
            known.append(entry["task"])
        elif not same and entry["cluster"] is not None and str(entry["cluster"]) in clusters:
            dependent.append(entry["task"])
        elif not rivals:
            new.append(entry)
        else:
            batch = rivals[-1]["batch"]
            changed.append(repr(entry["task"]) + (f" (batch {batch!r})" if batch else ""))
    if changed:
        remedy = "name another batch" if again else "pass again=True"
        text = f"{units} were counted before with other examples: {listed(changed)}. A task counts"
        text += " once: a bad one that is seen again is no new evidence. Leave it out; or, if each"
        raise InvalidInput(f"{text} batch is a new draw of tasks, {remedy}.")
    return new, known, dependent


def judge_renamed(new: Sequence[Counted], counted: Sequence[Counted], unit: str) -> Finding | None:
    """Object to a task with the numbers and scores of another, unless scores are too coarse."""
    if any(len({(e["batch"], e["checksum"]) for e in s}) < len(s) for s in (new, counted)):
        return None
    earlier = {entry["checksum"]: str(entry["task"]) for entry in counted}
    pairs = [(str(entry["task"]), earlier.get(entry["checksum"])) for entry in new]
    shown = [f"{name!r} as {old!r}" for name, old in pairs if old not in (None, name)]
    text = (
        f"the same numbers of examples and misses, and the same range of scores, were counted "
        f"under another name: {listed(shown, shown=3)}. A {unit} under two names counts twice. "
        "Give it one name."
    )
    return Finding("duplicates", True, text) if shown else None


class Monitor:
    """A test of a guarantee that may be looked at after every new labelled task.

    If the guarantee is true, the probability of ever raising an alarm is at most ``false_alarm``,
    however long the monitor runs and however often you look. Beside it, an amber light comes on
    soon after a change, and if the guarantee is true at most once in ``run_length`` tasks on
    average.

    Parameters
    ----------
    promise : MetaPS
        The calibrated predictor whose guarantee is monitored.
    false_alarm : float, default 0.01
        Probability of ever raising an alarm if the guarantee is true. It is also the probability
        that a bound on the share of violated tasks is ever wrong.
    min_examples : int, default 0
        Leave out further tasks with fewer examples (with a guarantee per class, of the class). The
        monitor is then about tasks with at least this many.
    run_length : int, default 200
        Average run length to a false amber light: if the guarantee is true, the expected number of
        tasks until one is at least this.

    Attributes
    ----------
    course : list of Step
        The tasks counted, in order, with the wealth and the bounds after each.
    by_class : dict from class to list of Step, or None
        With a guarantee per class, the course of each class, at its share of ``false_alarm``.
    terms : Terms
        The levels of the guarantee, and the false-alarm probability.

    Raises
    ------
    InvalidInput
        If an argument is out of range, or if bets against the guarantee would not be fair: with
        ``delta=None`` or ``new_tasks``.

    Notes
    -----
    Each new task is assumed to be violated with probability at most alpha, given all earlier ones;
    i.i.d. tasks are a special case. Given the task and the number of its examples, these are
    assumed to be independent draws from it: nobody may label "until five are missed", or leave out
    examples because of their labels. The guarantee itself fails with probability at most delta, so
    under the assumptions of calibration an alarm has probability at most delta + ``false_alarm``.
    A new monitor for each batch is a new bet: false-alarm probabilities add up over restarts, and
    ``sentence`` says to what.
    docs/theory/monitor.md has the theorem and its proof.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS, Monitor
    >>> rng = np.random.default_rng(0)
    >>> promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1)
    >>> promise = promise.calibrate(rng.random(4000), np.repeat(np.arange(40), 100))
    >>> monitor = Monitor(promise)
    >>> added = monitor.add(rng.random(500) ** 4, np.repeat(np.arange(100, 105), 100))
    >>> monitor.status
    'violated'
    """

    def __init__(
        self,
        promise: ThresholdSets,
        *,
        false_alarm: float = 0.01,
        min_examples: int = 0,
        run_length: int = RUN_LENGTH,
    ) -> None:
        self._start(state_terms(promise, false_alarm, min_examples, run_length), promise)

    def _start(self, terms: Terms, promise: ThresholdSets | None) -> None:
        self.terms, self._promise = terms, promise
        self.course: list[Step] = []
        names = () if terms.classes is None else terms.classes
        self.by_class: dict[Any, list[Step]] | None = {n: [] for n in names} or None
        share = equal_share(terms.false_alarm, len(terms.rates))
        length = terms.run_length * len(terms.rates)  # the light is that of the mean over classes
        self._watches = [Watch(rate, terms.alpha, share, length) for rate in terms.rates]
        self._counted: list[Counted] = []

    @property
    def wealth(self) -> float:
        """Wealth of the bets against the guarantee; per class, the mean over classes."""
        return float(np.mean([watch.wealth for watch in self._watches]))

    @property
    def recent(self) -> float:
        """Evidence of a recent change, after the last task; amber at ``terms.run_length``."""
        return self.course[-1].recent if self.course else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds on the share of tasks above epsilon, valid at all times simultaneously.

        If the share does not change, the probability that a bound is ever wrong is at most
        ``false_alarm``. With a guarantee per class, the share is the largest of any class. For all
        classes together, it is at most the sum of their shares.
        """
        lower, upper = ([getattr(w, name) for w in self._watches] for name in ("lower", "upper"))
        return max(lower), min(round(sum(upper), 12), 1.0) if self.terms.together else max(upper)

    @property
    def alarm(self) -> Step | None:
        """The task that raised the alarm; None if there was none."""
        return next((s for s in self.course if reaches(s.wealth, self.terms.limit)), None)

    @property
    def ambers(self) -> list[Step]:
        """The tasks at which the amber light came on; it started again after each."""
        return [s for s in self.course if reaches(s.recent, self.terms.run_length)]

    @property
    def amber(self) -> Step | None:
        """The last task of the latest batch at which the amber light came on; None without one."""
        last = next(reversed(self.ambers), None)
        return last if last is not None and last.batch == self.course[-1].batch else None

    @property
    def status(self) -> str:
        """The state in a word: "violated" after an alarm, "holds", or "cannot tell yet"."""
        if self.alarm is not None:
            return VIOLATED
        return HOLDS if self.interval[1] <= self.terms.alpha else UNDECIDED

    @property
    def batches(self) -> list[str | None]:
        """The batches, in order."""
        return [*self._by_batch()]

    def _by_batch(self) -> dict[str | None, list[Step]]:
        groups: dict[str | None, list[Step]] = {}
        for step in self.course:
            groups.setdefault(step.batch, []).append(step)
        return groups

    def power(self) -> Power | None:
        """Return what an alarm takes, if new tasks are as large as those counted.

        Returns
        -------
        Power or None
            Miss rates and sizes; with a guarantee per class, of the class that takes most. None
            without tasks.
        """
        sizes = zip(*(entry["examples"] for entry in self._counted), strict=True)
        least = max(1, self.terms.min_examples)
        large = ([size for size in part if size >= least] for part in sizes)
        pairs = zip(self._watches, large, strict=False)
        powers = [watch.find_power(some) for watch, some in pairs if some]
        return max(powers, key=lambda p: (p.reach or 1.0) / p.miss_rate, default=None)

    def sentence(self) -> str:
        """Return the state in words, with the probability of a false alarm.

        Returns
        -------
        str
            Some sentences.
        """
        status, *lines = _summarise(self)
        return " ".join([f"{status}.", *lines])

    def __str__(self) -> str:
        """Return status, evidence, tasks, bounds and what they mean, and tables."""
        return describe(self)

    def to_dict(self, added: Added | None = None) -> dict[str, Any]:
        """Return the state as JSON can hold it, as ``metapac monitor --json`` prints it.

        Parameters
        ----------
        added : Added, optional
            What ``add`` has returned; by default, nothing was added.

        Returns
        -------
        dict
            Status, bounds, parameters, the tasks added, and figures of each batch and class.
        """
        added = added or Added([], [], (), 0)
        terms, power, (lower, upper) = self.terms, self.power(), self.interval
        by_class = self.by_class and [{"class": x} | _figures(s) for x, s in self.by_class.items()]
        return {
            "status": self.status,
            "sentence": self.sentence(),
            "alarm": None if self.alarm is None else self.alarm._asdict(),
            "wealth": self.wealth,
            "limit": terms.limit,
            "recent": self.recent,
            "amber": None if self.amber is None else self.amber._asdict(),
            "ambers": len(self.ambers),
            "lower": lower,
            "upper": upper,
            "tasks": len(self.course),
            "violated": sum(step.violated for step in self.course),
            **{name: getattr(terms, name) for name in _STATED},
            "added": [step._asdict() for step in added.steps],
            "known": added.known,
            "overlap": [*map(str, added.overlap)],
            "left_out": added.left_out,
            "batches": [{"batch": b} | _figures(s) for b, s in self._by_batch().items()],
            "by_class": by_class,
            "power": None if power is None else power._asdict() | {"can_tell": power.can_tell},
        }

    def __repr__(self) -> str:
        wealth = format_wealth(self.wealth)
        return f"<Monitor of {len(self.course)} tasks: {self.status}, wealth {wealth}>"

    def add(
        self,
        scores: ArrayLike | Data,
        tasks: ArrayLike | Iterable[object] | None = None,
        labels: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        clusters: ClusterIds | None = None,
        within: ArrayLike | Iterable[object] | None = None,
        batch: str | None = None,
        again: bool = False,
        model: str | None = None,
        allow: Iterable[str] = (),
    ) -> Added:
        """Count labelled new tasks, each once.

        Parameters
        ----------
        scores : array_like, shape (n,) or (n, classes), or Table
            Scores of the true labels or, with ``labels``, of every class; or a table.
        tasks, labels, classes : array_like, optional
            As in ``evaluate``.
        clusters, within : array_like, optional
            As in ``evaluate``: one task of each cluster counts, over all batches, and one random
            example of each unit of a task.
        batch : str, optional
            Name of the batch that the tasks come with, such as "2026-01".
        again : bool, default False
            Whether a task counts again that was counted in another batch, whatever its examples.
            It must then be a new draw, in the sense of the guarantee. The first batch with such a
            task decides it for all later ones.
        model, allow : optional
            As in ``evaluate``.

        Returns
        -------
        Added
            The tasks that were counted, and those that were not. They are counted in the order of
            the SHA-256 checksums of their names, which does not depend on the results.

        Raises
        ------
        InvalidInput
            If the arrays do not match, if a check objects, if no new task is left, or if a task
            was counted before, with other examples or under another name. Nothing is counted then.
        """
        if self._promise is None:
            raise InvalidInput("promise must be passed to Monitor.load to count tasks.")
        options: Any = {"classes": classes, "clusters": clusters, "within": within, "model": model}
        options |= {"allow": allow, "min_examples": self.terms.min_examples}
        evaluation = evaluate(self._promise, scores, tasks, labels, **options)
        return self.add_evaluation(evaluation, batch=batch, again=again, allow=allow)

    def add_evaluation(
        self,
        evaluation: Evaluation,
        *,
        batch: str | None = None,
        again: bool = False,
        allow: Iterable[str] = (),
    ) -> Added:
        """Count the tasks of an evaluation, made with the promise and ``terms.min_examples``.

        Parameters
        ----------
        evaluation : Evaluation
            Misses of each task, and clusters if there are any.
        batch, again, allow : optional
            As in ``add``.

        Returns
        -------
        Added
            The tasks that were counted, and those that were not.
        """
        check_batch(batch, again)
        least, given = self.terms.min_examples, evaluation.min_examples
        if max(1, given) != max(1, least):
            text = f"the evaluation leaves out tasks with fewer than {given} examples: evaluate"
            text += f" again with {keyword('min_examples', least)}, as the monitor"
            raise InvalidInput(f"{text} does.")
        tasks = order_tasks(evaluation, self.terms, batch)
        terms = fix_again(self.terms, tasks, self._counted, again=again)
        new, known, dependent = select_new(tasks, self._counted, terms.words.units, again=again)
        self._check_names(new, evaluation, allow)
        self.terms = terms
        if new and not self._counted and self._promise is not None:
            self._begin(self._promise)
        steps = [self._count(entry) for entry in new]
        return Added(steps, known, (*evaluation.overlap, *dependent), evaluation.left_out)

    def _begin(self, promise: ThresholdSets) -> None:
        """Take into account the monitors of this guarantee that were begun before."""
        spent = _begun.setdefault(promise, {}).setdefault(self.terms.checksum, [])
        self.terms = replace(self.terms, restarts=len(spent), spent=math.fsum(spent))
        spent.append(self.terms.false_alarm)

    def _check_names(
        self, new: Sequence[Counted], evaluation: Evaluation, allow: Iterable[str]
    ) -> None:
        """Raise InvalidInput if a task seems to have been counted before, under another name."""
        if not new:
            return
        unit = self.terms.words.unit
        names = dict.fromkeys(entry["task"] for entry in (*self._counted, *new))
        low, high = evaluation.ranges.T  # type: ignore[union-attr]  # present, or not ordered
        varied = {*evaluation.tasks[low < high].tolist()}  # one score for all tells nothing
        renamed = judge_renamed([e for e in new if e["task"] in varied], self._counted, unit)
        report([judge_task_names(names, what=unit), renamed], allow)

    def _count(self, entry: Counted) -> Step:
        """Count a task: settle all bets on it."""
        self._counted.append(entry)
        name, batch = entry["task"], entry["batch"]
        courses = [[]] if self.by_class is None else [*self.by_class.values()]
        counts = entry["examples"], entry["missed"]
        parts = zip(courses, self._watches, *counts, self.terms.rates, strict=True)
        any_violated = False
        for course, watch, n, k, rate in parts:
            if n < self.terms.min_examples:
                continue
            watch.add(examples=n, missed=k)
            level = SHOWN_LEVEL / (len(self.terms.rates) if self.terms.together else 1)
            violated = bool(exceeds(n, k, rate, (level,))[0])
            any_violated |= violated
            known = watch.wealth, watch.lower, watch.upper, watch.recent
            course.append(Step(name, batch, n, k, violated, *known))
        total = sum(counts[0]), sum(counts[1]), any_violated
        recent = float(np.mean([watch.recent for watch in self._watches]))
        self.course.append(Step(name, batch, *total, self.wealth, *self.interval, recent))
        if reaches(recent, self.terms.run_length):
            for watch in self._watches:
                watch.restart()
        return self.course[-1]

    def save(self, path: PathLike) -> None:
        """Write a state file: the terms and the tasks counted, as versioned JSON.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        body = {"watched": _encode_terms(self.terms), "tasks": self._counted}
        artefact.write(path, body, FORMAT)

    @classmethod
    def load(cls, path: PathLike, promise: ThresholdSets | None = None) -> Self:
        """Return the monitor in a state file; wealth and bounds are computed anew.

        Parameters
        ----------
        path : str or path
            State file written by ``save`` or ``metapac monitor``.
        promise : MetaPS, optional
            The calibrated predictor, which must be the one that is monitored. Without it, no tasks
            can be added.

        Returns
        -------
        Monitor
            The monitor.

        Raises
        ------
        BadArtefact
            If the file is not a state file, was edited or damaged, or needs a newer metapac.
        InvalidInput
            If it monitors another guarantee.
        """
        body = artefact.read(path, FORMAT)
        with artefact.decoding(path, FORMAT):
            terms = _decode_terms(body["watched"])
            _check(terms, body["tasks"])
        if promise is not None:
            _check_same_promise(path, terms, promise)
        monitor = cls.__new__(cls)
        monitor._start(terms, promise)
        for entry in body["tasks"]:
            monitor._count(entry | {"cluster": entry.get("cluster")})
        return monitor

    def to_frame(self) -> Any:
        """Return the course as a frame with a row for each task, or for each class of each task.

        Returns
        -------
        pandas.DataFrame
            The frame.
        """
        import pandas as pd

        if self.by_class is None:
            return pd.DataFrame(self.course, columns=Step._fields)
        frames = {x: pd.DataFrame(s, columns=Step._fields) for x, s in self.by_class.items()}
        named = [frame.assign(**{"class": label}) for label, frame in frames.items()]
        return pd.concat(named, ignore_index=True)

    def plot(self, path: PathLike | None = None) -> Figure:
        """Draw the wealth with the alarm line, and the bounds of the share of violated tasks.

        Parameters
        ----------
        path : path-like, optional
            File to write, in the format of its extension.

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        from metapac.plots import draw_monitor

        return draw_monitor(self, path=path)


@contextmanager
def open_monitor(
    path: PathLike,
    promise: ThresholdSets,
    *,
    false_alarm: float | None = None,
    min_examples: int | None = None,
    run_length: int | None = None,
) -> Iterator[Monitor]:
    """Open the monitor in a state file, or start a new one, and save it at the end.

    Meanwhile, other processes cannot update the file. After an exception, the file is unchanged.

    Parameters
    ----------
    path : str or path
        State file.
    promise : MetaPS
        The calibrated predictor.
    false_alarm, min_examples, run_length : float and int, optional
        As in `Monitor`, with its defaults; those of an existing file cannot be changed.

    Yields
    ------
    Monitor
        The monitor.

    Raises
    ------
    InvalidInput
        If the file is for another guarantee or other parameters, or is in use.
    BadArtefact
        If it is not a state file, or damaged.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS, Monitor, open_monitor
    >>> rng = np.random.default_rng(0)
    >>> promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1)
    >>> promise = promise.calibrate(rng.random(4000), np.repeat(np.arange(40), 100))
    >>> with open_monitor("monitor.json", promise) as monitor:
    ...     added = monitor.add(rng.random(300), np.repeat([100, 101, 102], 100))
    >>> len(Monitor.load("monitor.json").course)
    3
    """
    with artefact.lock_file(path, "metapac monitor", wait=_PATIENCE):
        settings = {"false_alarm": false_alarm, "min_examples": min_examples}
        settings["run_length"] = run_length
        given: Any = {name: value for name, value in settings.items() if value is not None}
        monitor = Monitor(promise, **given)
        if Path(path).exists():
            terms, monitor = monitor.terms, Monitor.load(path, promise)
            for name in given:
                fixed, new = getattr(monitor.terms, name), getattr(terms, name)
                if new != fixed:
                    text = f"{name} must stay at {fixed!r}, with which {path} was begun, got"
                    text += f" {new!r}: an alarm would mean nothing if its level could be chosen"
                    raise InvalidInput(f"{text} afterwards.")
        yield monitor
        monitor.save(path)


def _check_same_promise(path: PathLike, stored: Terms, promise: ThresholdSets) -> None:
    """Raise if a state file is for another guarantee, or for other levels."""
    chosen = stored.false_alarm, stored.min_examples, stored.run_length
    given = state_terms(promise, *chosen)
    if stored.checksum != given.checksum:
        raise InvalidInput(
            f"{path} watches another guarantee: {stored.promise} Use a state file for each."
        )
    if stored.rates != given.rates or (stored.alpha, stored.delta) != (given.alpha, given.delta):
        raise BadArtefact(f"{path} states other levels than the promise. {FORMAT.remedy}")


_STATED = ("epsilon", "alpha", "delta", "false_alarm", "min_examples", "run_length", "restarts")
_SHOWN = 10  # classes or batches in a table, tasks in a line


def describe(monitor: Monitor, added: Added | None = None, drift: Drift | None = None) -> str:
    """Return where a monitor stands, what was added, and tables, as text."""
    words, (status, *lines) = monitor.terms.words, _summarise(monitor, drift)
    blocks = ["\n".join([status.upper(), *lines])]
    if details := [*_describe_added(monitor, added, words)]:
        blocks.append("\n".join(details))
    if monitor.by_class is not None:
        blocks.append(_format_groups("class", monitor.by_class, words))
    if len(monitor.batches) > 1:
        blocks.append(_format_groups("batch", monitor._by_batch(), words))
    return "\n\n".join(blocks)


def _summarise(monitor: Monitor, drift: Drift | None = None) -> list[str]:
    """Return status, the lights, tasks and bounds, and what they mean, each as a line."""
    terms, words, alarm, power = monitor.terms, monitor.terms.words, monitor.alarm, monitor.power()
    status, meaning = "No alarm yet", ""
    evidence, chance = format_wealth(monitor.wealth), percent(terms.false_alarm)
    if alarm is not None:
        evidence = f"{format_wealth(alarm.wealth)} {_describe_place(monitor, alarm)}"
        status, meaning = "Alarm", _explain_alarm(monitor, words)
    elif monitor.amber is not None:
        status, meaning = "Amber", _explain_amber(monitor, words)
    elif monitor.status == HOLDS:
        rate = "its limit, for each class" if terms.classes else _limit(monitor)
        rate = "the limit of some class" if terms.together else rate
        claim = f"Less than {percent(terms.alpha)} of new {words.units} have a {words.rate} above"
        meaning = f"{claim} {rate}; if not, this is ever said with probability at most {chance}."
        status = "Holds"
    elif power is not None:
        if not power.can_tell:
            status = f"{words.units[:1].upper()}{words.units[1:]} this small cannot tell"
        meaning = _explain_silence(power, words, " of a class" if terms.classes else "")
    lines = [
        status,
        f"Evidence against the guarantee: {evidence}; alarm at {format_wealth(terms.limit)}, which "
        f"is ever reached with probability at most {chance} if the guarantee is true.",
        _describe_recent(monitor, words),
        "" if drift is None else drift.summary,
        _describe_restarts(terms),
        f"{words.count_units(len(monitor.course))} counted.{_describe_latest(monitor, words)}",
        _describe_share(monitor, words),
        meaning,
    ]
    return [line for line in lines if line]


def _describe_place(monitor: Monitor, step: Step) -> str:
    """Return where in the course a light came on."""
    batch = "" if step.batch is None else f", batch {visible(step.batch)}"
    count = monitor.terms.words.count_units(monitor.course.index(step) + 1)
    return f"after {count} (at {visible(str(step.task))}{batch})"


def _describe_recent(monitor: Monitor, words: Words) -> str:
    """Return the evidence of a recent change, and how often the amber light came on."""
    amber, ambers, length = monitor.amber, monitor.ambers, monitor.terms.run_length
    recent = format_wealth(monitor.recent) if monitor.course else "0"
    if amber is not None:
        recent = f"{format_wealth(amber.recent)} {_describe_place(monitor, amber)}"
    text = f"Evidence of a recent change: {recent}; amber at {length:,}, which is reached at most"
    text += f" once in {words.count_units(length)} on average if the guarantee is true."
    times = "once" if len(ambers) == 1 else f"{len(ambers):,} times"
    return f"{text} It was reached {times} so far." if ambers else text


def _describe_restarts(terms: Terms) -> str:
    """Return to what the false-alarm probabilities of several monitors add up."""
    if not terms.restarts:
        return ""
    times = "once" if terms.restarts == 1 else f"{terms.restarts:,} times"
    total = percent(terms.any_false_alarm)
    return (
        f"Restarted {times}: false-alarm probabilities add up, so that the probability of a false "
        f"alarm in any of the {terms.restarts + 1:,} monitors of this guarantee is at most {total} "
        f"instead of {percent(terms.false_alarm)}. Continue one monitor instead."
    )


def _describe_added(monitor: Monitor, added: Added | None, words: Words) -> Iterator[str]:
    """Yield what was added and what was left out, and name the worst tasks, in lines."""
    if added is not None:
        counts = {"added": len(added.steps), "counted before": len(added.known)}
        counts[f"left out, too few {words.examples}"] = added.left_out
        shown = [f"{words.count_units(n)} {what}" for what, n in counts.items() if n]
        yield f"{'; '.join(shown) or 'Nothing added'}."
        if added.overlap:
            count, names = words.count_units(len(added.overlap)), listed([*map(str, added.overlap)])
            reasons = "calibrated or trained on, a pilot, or of a known cluster"
            yield f"{count} not new ({reasons}): {names}."
    if monitor.terms.min_examples > 1:
        of_class = " of a class" if monitor.terms.classes else ""
        least = words.count_examples(monitor.terms.min_examples)
        yield f"Watched: {words.units} with at least {least}{of_class}."
    steps = monitor.course
    if monitor.alarm is None:
        steps = [step for step in steps if step.batch == steps[-1].batch]
    worst = sorted((s for s in steps if s.violated), key=lambda s: -s.missed / s.examples)
    if worst:
        named = [f"{s.task} ({s.missed} of {s.examples} missed)" for s in worst]
        yield f"Above {_limit(monitor)}, the worst first: {listed(named, shown=_SHOWN)}."


def _format_groups(what: str, groups: Mapping[Any, list[Step]], words: Words) -> str:
    """Return a table of the last batches or classes that have tasks."""
    rows = [
        {
            what: "-" if name is None else name,
            words.units: len(steps),
            "above epsilon": sum(step.violated for step in steps),
            "evidence": format_wealth(steps[-1].wealth),
            "share above epsilon, if constant": _format_share(steps[-1]),
        }
        for name, steps in [*groups.items()][-_SHOWN:]
        if steps
    ]
    return format_table(rows)


def _format_share(step: Step) -> str:
    lower, upper = percent(step.lower), percent(step.upper)
    return "has changed" if step.lower > step.upper else f"{lower} to {upper}"


def _figures(steps: Sequence[Step]) -> dict[str, Any]:
    """Return the number of tasks, how many are violated, and what is known after the last."""
    names = ("wealth", "lower", "upper", "recent")
    last = {name: getattr(steps[-1], name) if steps else None for name in names}
    return {"tasks": len(steps), "violated": sum(step.violated for step in steps)} | last


def _explain_alarm(monitor: Monitor, words: Words) -> str:
    """Return what an alarm means, what to do, and what else may have caused it."""
    terms, lower = monitor.terms, monitor.interval[0]
    limit = worst = _limit(monitor)
    if monitor.by_class is not None:
        wealths = {label: s[-1].wealth for label, s in monitor.by_class.items() if s}
        worst += f", most likely class {visible(str(max(wealths, key=wealths.__getitem__)))}"
    return (
        f"More than {percent(terms.alpha)} of new {words.units} have a {words.rate} above {worst}. "
        f"Stop relying on {'it' if words.rate == 'risk' else 'these sets'}, look at the "
        f"{words.units} above {limit}, and recalibrate on new {words.units}; then start a new "
        f"state file. {describe_causes(terms.alpha, terms.delta, lower, words)}"
    )


def _explain_amber(monitor: Monitor, words: Words) -> str:
    """Return what the amber light means, and what to do."""
    return (
        f"Recent {words.units} look worse than the guarantee allows. This is a warning, no alarm: "
        f"look at the {words.units} above {_limit(monitor)}, label the next ones soon, and judge "
        "them with evaluate. After an amber light, this evidence starts again from 0."
    )


def _explain_silence(power: Power, words: Words, of_class: str) -> str:
    """Return what no alarm says, given how large the tasks are."""
    missed = words.missed(percent(power.miss_rate))
    if power.can_tell and power.reach is not None:
        return (
            f"No alarm does not show that the guarantee holds: even if every {words.unit} "
            f"{words.missed(f'nearly {percent(power.reach)}')}{of_class}, an alarm within "
            f"{HORIZON:,} {words.units} would be unlikely. If every one {missed} from now on, the "
            f"amber light would come on after {_about(power.amber_tasks)} more, and the alarm "
            f"after {_about(power.tasks)}."
        )
    least = "more than a million" if power.examples is None else f"about {power.examples:,}"
    text = f"No alarm says little: even if every one {missed}{of_class}, there would be no alarm"
    return f"{text} within {HORIZON:,}. That takes {least} {words.examples}{of_class} in each."


def _about(tasks: int | None) -> str:
    return f"more than {HORIZON:,}" if tasks is None else f"about {tasks:,}"


def _describe_latest(monitor: Monitor, words: Words) -> str:
    """Return how many tasks of the latest batch are above epsilon, and how many may be."""
    if not monitor.course:
        return ""
    batch = monitor.course[-1].batch
    steps = [step for step in monitor.course if step.batch == batch]
    count, share = sum(step.violated for step in steps), monitor.terms.alpha * len(steps)
    allowed = "less than 1" if share < 0.5 else f"about {math.floor(share + 0.5)}"
    return (
        f" {'So far' if batch is None else f'In batch {visible(batch)},'} {count} of "
        f"{words.count_units(len(steps))} {'is' if count == 1 else 'are'} above {_limit(monitor)} "
        f"(95% confidence, each {words.unit} alone); the guarantee allows {allowed}"
        f"{' for each class' if monitor.terms.classes and not monitor.terms.together else ''}."
    )


def _limit(monitor: Monitor) -> str:
    """Return the miss rate that a task may have, in words."""
    return "the limit of some class" if monitor.terms.classes else percent(monitor.terms.rates[0])


def _describe_share(monitor: Monitor, words: Words) -> str:
    terms, (lower, upper) = monitor.terms, monitor.interval
    rate = "its limit, for the worst class," if terms.classes else _limit(monitor)
    rate = _limit(monitor) if terms.together else rate
    share = f"share of new {words.units} above {rate}"
    confidence = f"confidence {percent(terms.false_alarm, complement=True)}, at all times at once"
    if lower > upper:
        return (
            f"The {share} has changed: it was below {percent(upper)} at one time, and above "
            f"{percent(lower)} at another."
        )
    if monitor.alarm is None:
        text = f"If the {share} has not changed, it is between {percent(lower)} and"
        return f"{text} {percent(upper)} (each end with {confidence})."
    if lower <= terms.alpha:  # the alarm has said it
        return ""
    return f"At some time, the {share} was more than {percent(lower)} ({confidence})."


def format_wealth(wealth: float) -> str:
    """Return a wealth in few digits, without an exponent."""
    if wealth < 0.001:
        return "less than 0.001"
    if wealth < 100:
        return f"{wealth:.3g}"
    return f"{math.floor(wealth):,}" if wealth <= 1e6 else "more than a million"
