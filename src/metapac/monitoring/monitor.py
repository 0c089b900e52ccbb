"""Monitor a guarantee on labelled new tasks, with a bound on the probability of a false alarm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from metapac._types import PathLike
from metapac.assessment.evaluation import Evaluation
from metapac.base import ThresholdSets
from metapac.clusters import ClusterIds
from metapac.exceptions import InvalidInput, Parameter
from metapac.monitoring import intake, state
from metapac.monitoring.arrays import judge_tasks
from metapac.monitoring.betting import Watch, exceeds, reaches
from metapac.monitoring.intake import Clusters
from metapac.monitoring.state import Counted
from metapac.monitoring.steps import Added, Power, Step
from metapac.monitoring.terms import Terms
from metapac.monitoring.wording import describe, format_wealth
from metapac.ranks import equal_share
from metapac.verdict.wording import HOLDS, UNDECIDED, VIOLATED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FALSE_ALARM = 0.01
# Level at which a single task is displayed as violated.
_SHOWN_LEVEL = 0.05


class Monitor:
    """A test of a guarantee that may be looked at after every new labelled task.

    If the guarantee is true, the probability of ever raising an alarm is at most ``false_alarm``,
    however long the monitor runs and however often you look.

    Parameters
    ----------
    promise : MetaPS
        The calibrated predictor whose guarantee is monitored.
    false_alarm : float, default 0.01
        Probability of ever raising an alarm if the guarantee is true. It is also the probability
        that a bound on the share of violated tasks is ever wrong.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with a guarantee per class, of the class), in addition
        to those that the guarantee leaves out. The monitor is then about tasks with at least this
        many.

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
        If the guarantee is not about tasks, or a number is out of range.

    Notes
    -----
    Each new task is assumed to be violated with probability at most alpha, given all earlier ones;
    i.i.d. tasks are a special case. Given the task and the number of its examples, these are
    assumed to be independent draws from it: nobody may label "until five are missed", or leave out
    examples because of their labels. The guarantee itself fails with probability at most delta, so
    under the assumptions of calibration an alarm has probability at most delta + ``false_alarm``.
    docs/monitor.md has the theorem and its proof.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS, Monitor
    >>> rng = np.random.default_rng(0)
    >>> promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1)
    >>> promise = promise.calibrate(rng.random(4000), np.repeat(np.arange(40), 100))
    >>> monitor = Monitor(promise)
    >>> added = monitor.add(rng.random(500) ** 4, np.repeat(np.arange(100, 105), 100))
    >>> [step.violated for step in added.steps]
    [True, True, True, True, True]
    >>> monitor.status
    'violated'
    >>> monitor.alarm.wealth >= 100
    True
    """

    def __init__(
        self, promise: ThresholdSets, *, false_alarm: float = FALSE_ALARM, min_examples: int = 0
    ) -> None:
        self._start(Terms.from_promise(promise, false_alarm, min_examples))
        self._promise: ThresholdSets | None = promise

    def _start(self, terms: Terms) -> None:
        self.terms = terms
        self.course: list[Step] = []
        names = terms.classes
        self.by_class: dict[Any, list[Step]] | None = (
            None if names is None else {n: [] for n in names}
        )
        share = equal_share(terms.false_alarm, len(terms.rates))
        self._watches = [Watch(rate, terms.alpha, share) for rate in terms.rates]
        self._counted: list[Counted] = []
        self._promise = None

    @property
    def wealth(self) -> float:
        """Wealth of the bets against the guarantee; per class, the mean over classes."""
        return float(np.mean([watch.wealth for watch in self._watches]))

    @property
    def interval(self) -> tuple[float, float]:
        """Bounds on the share of tasks above epsilon, valid at all times simultaneously.

        If the share does not change, the probability that a bound is ever wrong is at most
        ``false_alarm``. With a guarantee per class, the share is the largest of any class.
        """
        lower, upper = (max(getattr(w, name) for w in self._watches) for name in ("lower", "upper"))
        return lower, upper

    @property
    def alarm(self) -> Step | None:
        """The task that raised the alarm; None if there was none."""
        return next((s for s in self.course if reaches(s.wealth, self.terms.limit)), None)

    @property
    def status(self) -> str:
        """The state in a word: "violated" after an alarm, "holds", or "cannot tell yet"."""
        if self.alarm is not None:
            return VIOLATED
        return HOLDS if self.interval[1] <= self.terms.alpha else UNDECIDED

    @property
    def batches(self) -> list[str | None]:
        """The batches, in order."""
        return [*dict.fromkeys(step.batch for step in self.course)]

    def power(self) -> Power | None:
        """Return what an alarm takes, if new tasks are as large as those counted.

        Returns
        -------
        Power or None
            Miss rates and sizes; with a guarantee per class, of the class that takes most. None
            without tasks.
        """
        sizes = zip(*(entry.examples for entry in self._counted), strict=True)
        least = max(1, self.terms.min_examples)
        powers = [
            watch.find_power(large)
            for watch, part in zip(self._watches, sizes, strict=False)
            if (large := [size for size in part if size >= least])
        ]
        return max(powers, key=lambda p: (p.reach or 1.0) / p.miss_rate, default=None)

    def sentence(self) -> str:
        """Return the state in words, with the probability of a false alarm.

        Returns
        -------
        str
            Some sentences.
        """
        return describe(self)

    def __str__(self) -> str:
        return self.sentence()

    def __repr__(self) -> str:
        wealth = format_wealth(self.wealth)
        return f"<Monitor of {len(self.course)} tasks: {self.status}, wealth {wealth}>"

    def add(
        self,
        scores: ArrayLike,
        tasks: ArrayLike | Iterable[object],
        labels: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        clusters: ClusterIds | None = None,
        batch: str | None = None,
        again: bool = False,
        model: str | None = None,
        allow: Iterable[str] = (),
    ) -> Added:
        """Count labelled new tasks, each once.

        Parameters
        ----------
        scores : array_like, shape (n,) or (n, classes)
            Scores of the true labels; or scores of every class, which needs ``labels``.
        tasks : array_like, shape (n,)
            Task of each example.
        labels : array_like, shape (n,), optional
            True label of each example.
        classes : sequence, optional
            Names of the columns of ``scores``; by default those of the calibration, or 0, 1, ...
        clusters : array_like, shape (n,), or mapping from task, optional
            Clusters, as in ``evaluate``: one task of each cluster counts, over all batches.
        batch : str, optional
            Name of the batch that the tasks come with, such as "2026-01".
        again : bool, default False
            Whether a task counts again that was counted in another batch, whatever its examples.
            It must then be a new draw, in the sense of the guarantee. The first batch with such a
            task decides it for all later ones.
        model : str, optional
            Name of the model that gave the scores, to be compared with the calibrated one.
        allow : iterable of str, default ()
            Checks of the data to skip, as in ``evaluate``.

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
        judged = judge_tasks(
            self.require_promise(),
            scores,
            tasks,
            labels,
            classes=classes,
            clusters=clusters,
            min_examples=self.terms.min_examples,
            model=model,
            allow=allow,
        )
        return self.add_evaluation(*judged, batch=batch, again=again, allow=allow)

    def require_promise(self) -> ThresholdSets:
        """Return the calibrated predictor.

        Returns
        -------
        MetaPS
            The predictor.

        Raises
        ------
        InvalidInput
            If the monitor was loaded without it.
        """
        if self._promise is None:
            raise InvalidInput(
                "{} must be passed to count tasks: the state file holds no thresholds. Call "
                "Monitor.load(path, promise).",
                Parameter("promise"),
            )
        return self._promise

    def add_evaluation(
        self,
        evaluation: Evaluation,
        clusters: Clusters | None = None,
        *,
        batch: str | None = None,
        again: bool = False,
        allow: Iterable[str] = (),
    ) -> Added:
        """Count the tasks of an evaluation, made with the promise and ``terms.min_examples``.

        Parameters
        ----------
        evaluation : Evaluation
            Misses of each task.
        clusters : mapping from task to cluster, optional
            Cluster of each task.
        batch : str, optional
            As in ``add``.
        again : bool, default False
            As in ``add``.
        allow : iterable of str, default ()
            As in ``add``.

        Returns
        -------
        Added
            The tasks that were counted, and those that were not.

        Raises
        ------
        InvalidInput
            If a task was counted before with other examples, or under another name. Nothing is
            counted then.
        """
        intake.check_batch(batch, again)
        self._check_sizes(evaluation)
        if evaluation.ranges is None:
            raise InvalidInput(
                "the evaluation lacks the ranges of scores. Evaluate the data again."
            )
        ranges = dict(zip(evaluation.tasks.tolist(), evaluation.ranges.tolist(), strict=True))
        tasks = intake.order_tasks(evaluation, self.terms, ranges, batch, clusters)
        terms = intake.fix_again(self.terms, tasks, self._counted, again=again)
        new, known, dependent = intake.select_new(tasks, self._counted, terms.unit, again=again)
        intake.check_names(new, self._counted, ranges, terms.unit, allow)
        self.terms = terms
        steps = [self._count(entry) for entry in new]
        return Added(steps, known, (*evaluation.overlap, *dependent), evaluation.left_out)

    def _check_sizes(self, evaluation: Evaluation) -> None:
        """Raise InvalidInput if an evaluation leaves out tasks of another size than the monitor."""
        least, given = self.terms.min_examples, evaluation.min_examples
        if max(1, given) != max(1, least):
            raise InvalidInput(
                "the evaluation leaves out tasks with fewer than {} examples, the monitor those "
                "with fewer than {}. Evaluate again with {}.",
                given,
                least,
                Parameter("min_examples", least),
            )

    def _count(self, entry: Counted) -> Step:
        """Count a task: settle all bets on it."""
        self._counted.append(entry)
        parts = zip(self._watches, entry.examples, entry.missed, self.terms.rates, strict=True)
        violated = []
        for i, (watch, examples, missed, rate) in enumerate(parts):
            if examples < self.terms.min_examples:
                continue
            watch.add(examples=examples, missed=missed)
            violated.append(bool(exceeds(examples, missed, rate, (_SHOWN_LEVEL,))[0]))
            if self.by_class is not None:
                bounds = watch.wealth, watch.lower, watch.upper
                start = entry.task, entry.batch, examples, missed, violated[-1]
                self.by_class[(self.terms.classes or ())[i]].append(Step(*start, *bounds))
        total = sum(entry.examples), sum(entry.missed), any(violated)
        self.course.append(Step(entry.task, entry.batch, *total, self.wealth, *self.interval))
        return self.course[-1]

    def save(self, path: PathLike) -> None:
        """Write a state file: the terms and the tasks counted, as versioned JSON.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        state.write_state(path, self.terms, self._counted)

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
        terms, tasks = state.read_state(path)
        if promise is not None:
            given = Terms.from_promise(promise, terms.false_alarm, terms.min_examples)
            state.check_same_promise(path, terms, given)
        monitor = cls.__new__(cls)
        monitor._start(terms)
        monitor._promise = promise
        for entry in tasks:
            monitor._count(entry)
        return monitor

    def to_pandas(self) -> Any:
        """Return the course as a frame with a row for each task.

        With a guarantee per class, there is a row for each class of each task, and the column
        class.

        Returns
        -------
        pandas.DataFrame
            The frame.
        """
        import pandas as pd

        if self.by_class is None:
            return pd.DataFrame(self.course, columns=Step._fields)
        frames = [
            pd.DataFrame(steps, columns=Step._fields).assign(**{"class": label})
            for label, steps in self.by_class.items()
        ]
        return pd.concat(frames, ignore_index=True)

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

        Raises
        ------
        MissingExtra
            If Matplotlib is not installed.
        """
        from metapac.monitoring.figure import draw_monitor

        return draw_monitor(self, path=path)
