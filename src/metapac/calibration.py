"""Meta-PS and PS. Meta-PS applies the inequality of PS twice: within tasks, then across them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, evidence, sentences, shortage
from metapac._checks import own_words
from metapac._estimator import ThresholdSets
from metapac.binomial import allowed_errors, threshold
from metapac.evidence import UNKNOWN, Evidence, Outcome
from metapac.guarantee import Epsilon, Guarantee, InfeasibleGuarantee, Split
from metapac.ranks import Level

ON_INFEASIBLE = ("raise", "trivial")


class MetaPS(ThresholdSets):
    """Prediction sets with a bounded miss rate on at least ``1 - alpha`` of new tasks.

    With confidence ``1 - delta`` over the calibration tasks, at least a fraction ``1 - alpha`` of
    new tasks, each with its own adaptation examples, have sets that miss the true label at most a
    fraction ``epsilon`` of the time. Scores from a model that is not adapted work in the same
    way. The proof is in docs/guarantee.md.

    Parameters
    ----------
    epsilon : float or mapping from class to float
        Miss rate allowed on a task. With ``per_class``, a mapping gives each class its own.
    alpha : float
        Fraction of new tasks that may miss more often.
    delta : float or None
        Failure probability of the guarantee. None gives a guarantee in expectation, which is
        weaker and needs far fewer tasks: 10 at ``alpha=0.1``.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps. "joint" usually gives the
        smallest sets; "tight" lets
        a site send a single number; "even" is the paper's. A number, at most 1/2, is the level
        within tasks and must be chosen before seeing the data.
    per_class : bool, default False
        Whether to bound the miss rate of each class separately, with a threshold for each, so that
        a rare class cannot be missed unnoticed. ``delta`` is divided among the classes.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with ``per_class``, of the class). The guarantee then
        covers only tasks with at least this many.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do where the data are too few: raise ``InfeasibleGuarantee``, or keep every label.

    Attributes
    ----------
    threshold_ : float
        Keep a label when its score is at least this. Not available with ``per_class``.
    thresholds_, classes_ : ndarray, tuple
        With ``per_class``, the threshold of each class, and the classes in the order of columns.
    tasks_ : ndarray
        Calibration tasks, without those that ``min_examples`` left out; with ``per_class``, all.
    task_sizes_, task_thresholds_ : ndarray
        Size and threshold of each task; with ``per_class``, one column for each class.
    left_out_ : int or ndarray
        Number of tasks that ``min_examples`` left out; with ``per_class``, of each class.
    guarantee_, level_ : Guarantee, Level or tuple of Level
        What is guaranteed, and the level with the largest threshold; with ``per_class``, one level
        for each class.
    promise_ : str
        The guarantee in one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS
    >>> rng = np.random.default_rng(0)
    >>> scores, hospitals = rng.random(120 * 50), np.repeat(np.arange(120), 50)
    >>> promise = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, hospitals)
    >>> promise.predict_set([[0.9, 0.5, 0.001]])
    array([[ True,  True, False]])
    """

    guarantee_: Guarantee
    level_: Level | tuple[Level, ...]
    tasks_: NDArray[Any]
    task_sizes_: NDArray[np.int64]
    task_thresholds_: NDArray[np.float64]
    left_out_: int | NDArray[np.int64]

    @own_words
    def __init__(
        self,
        *,
        epsilon: Epsilon,
        alpha: float,
        delta: float | None,
        split: Split = "joint",
        per_class: bool = False,
        min_examples: int = 0,
        on_infeasible: str = "raise",
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.delta = delta
        self.split = split
        self.per_class = per_class
        self.min_examples = min_examples
        self.on_infeasible = on_infeasible

    def calibrate(
        self,
        scores: ArrayLike,
        tasks: ArrayLike | Iterable[object],
        labels: ArrayLike | None = None,
    ) -> Self:
        """Find the threshold from labelled examples of the calibration tasks.

        Parameters
        ----------
        scores : array_like, shape (n,)
            Scores of the true labels; higher means more plausible.
        tasks : array_like, shape (n,)
            Task of each example: strings, integers, or anything hashable.
        labels : array_like, shape (n,), optional
            True label of each example. Needed with ``per_class``, and only then.

        Returns
        -------
        MetaPS
            The object itself, calibrated.

        Raises
        ------
        InfeasibleGuarantee
            If the tasks are too few or too small; the message says what would work.
        """
        return self._conclude(evidence.of_scores(self._guarantee(), scores, tasks, labels))

    def add(
        self,
        scores: ArrayLike,
        tasks: ArrayLike | Iterable[object],
        labels: ArrayLike | None = None,
    ) -> Self:
        """Add new tasks; the result is that of calibrating on all tasks from scratch.

        Each guarantee is for a number of tasks fixed in advance. Adding tasks until you like the
        result multiplies the failure probability, by up to 8 with 500 tasks and 18 with 2000. If
        you want to look while adding, use ``delta / (j * (j + 1))`` at look j: that is valid for
        any number of looks.

        Parameters
        ----------
        scores, tasks, labels : array_like
            As in ``calibrate``, for tasks that were not calibrated on before. If old and new
            scores differ in precision, the coarser one is used for sets.

        Returns
        -------
        MetaPS
            The object itself, calibrated on all tasks.
        """
        self._check_calibrated()
        new = evidence.of_scores(self._guarantee(), scores, tasks, labels)
        return self._conclude(self._evidence.joined(new))

    def task_threshold(self, scores: ArrayLike) -> Any:
        """Return all that one site has to send to ``combine``: one number for each level.

        No other score leaves the site. With ``split="tight"`` it is a single number.

        Parameters
        ----------
        scores : array_like, shape (n,)
            Scores of the true labels of one task.

        Returns
        -------
        scalar or ndarray, shape (levels,)
            The numbers, in the precision of the scores.
        """
        self._refuse_per_class("task_threshold")
        array = _checks.calibration_scores("scores", scores)
        found = evidence.of_scores(self._guarantee(), array, np.zeros(array.shape, np.int64), None)
        sent = found.thresholds[0, 0].astype(array.dtype)
        return sent if len(sent) > 1 else sent[0]

    def combine(
        self,
        task_thresholds: ArrayLike | Mapping[Any, Any],
        tasks: ArrayLike | Iterable[object] | None = None,
        *,
        sizes: ArrayLike | Mapping[Any, int] | None = None,
    ) -> Self:
        """Find the threshold from what ``task_threshold`` returned at each site.

        The result is that of ``calibrate`` on all scores, provided that every site used the same
        parameters. Bare numbers cannot show that; the files written by ``metapac site`` can.

        Parameters
        ----------
        task_thresholds : array_like or mapping from task
            What each task sent. If precisions differ, the coarsest one is used for sets.
        tasks : array_like, optional
            Names of the tasks; by default 0, 1, and so on. Not with a mapping.
        sizes : array_like or mapping from task, optional
            Number of examples of each task. Without it, a threshold of ``-inf`` is taken to mean
            that the task is too small.

        Returns
        -------
        MetaPS
            The object itself, calibrated.
        """
        self._refuse_per_class("combine")
        guarantee = self._guarantee()
        if isinstance(task_thresholds, Mapping):
            if tasks is not None:
                raise ValueError("tasks must not be passed when task_thresholds is a mapping.")
            tasks = list(task_thresholds)
            task_thresholds = list(task_thresholds.values())
        precision = evidence.coarsest(_checks.precisions(task_thresholds))
        found = _checks.score_array("task_thresholds", task_thresholds)
        found = _checks.threshold_table(found, levels=len(guarantee.levels))
        names = np.arange(len(found)) if tasks is None else _checks.task_ids(tasks)
        _checks.same_length("task_thresholds", found, "tasks", names)
        _checks.distinct(names.tolist())
        counts = np.full(len(found), UNKNOWN)
        if sizes is not None:
            counts = _checks.task_sizes(sizes, names)
        thresholds = found.astype(np.float64)[:, None]
        sent = Evidence(
            _checks.task_names(names.tolist()),
            counts[:, None],
            thresholds,
            evidence.unknown_lowest(),
            precision,
        )
        sent.refuse_uncertified(guarantee)
        return self._conclude(sent)

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, followed by ``remarks_`` if there are any."""
        self._check_calibrated()
        g = self.guarantee_
        if self.classes_ is None:
            cuts: sentences.Thresholds = self.threshold_
        else:
            cuts = dict(zip(self.classes_, self.thresholds_.tolist(), strict=True))
        # Each class leaves out different tasks, so there is no single number of tasks.
        tasks = None if g.per_class and g.min_examples else len(self.tasks_)
        sentence = g.sentence(tasks=tasks, threshold=cuts)
        return " ".join([sentence, *self.remarks_])

    @property
    def remarks_(self) -> list[str]:
        """What makes the guarantee uninformative: too few data, or ties at the lowest score."""
        self._check_calibrated()
        return [remark for each in self._outcomes if (remark := each.remark())]

    def _guarantee(self) -> Guarantee:
        return Guarantee(
            epsilon=self.epsilon,
            alpha=self.alpha,
            delta=self.delta,
            split=self.split,
            per_class=self.per_class,
            min_examples=self.min_examples,
        )

    def _check_parameters(self) -> Guarantee:
        _checks.one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        return self._guarantee()

    def _refuse_per_class(self, method: str) -> None:
        if self.per_class:
            raise ValueError(
                f"{method} supports a single guarantee, and per_class=True has one for each class. "
                "Use metapac.tables.site_table and metapac.sites.combine_sites."
            )

    def _conclude(self, found: Evidence) -> Self:
        """Check that these tasks can carry the guarantee, then take the second step."""
        guarantee = self._check_parameters()
        demands = [part.demand() for part in found.parts(guarantee)]
        carried = [demand.feasible() for demand in demands]
        if self.on_infeasible == "raise" and not all(carried):
            raise InfeasibleGuarantee(shortage.of_tasks(demands))
        self._settle(found)
        for outcome, feasible in zip(self._outcomes, carried, strict=True):
            if feasible and (remark := outcome.remark()):
                warnings.warn(remark, UserWarning, stacklevel=3)
        return self

    def _settle(self, found: Evidence) -> Self:
        """Take the second step and set the fitted attributes."""
        guarantee = self._guarantee()
        found = found._replace(thresholds=found.thresholds + 0.0)  # no negative zero
        outcomes = [part.outcome() for part in found.parts(guarantee)]
        self.guarantee_, self.columns_ = guarantee, found.columns
        self._evidence, self._outcomes = found, outcomes
        for name in ("threshold_", "thresholds_", "classes_"):  # of an earlier calibration
            vars(self).pop(name, None)
        if found.classes is None:
            self._keep_one(found, outcomes[0])
        else:
            self._keep_each(found, found.classes, outcomes)
        return self._calibrated(found.precision)

    def _keep_one(self, found: Evidence, outcome: Outcome) -> None:
        used = outcome.used
        self.threshold_ = outcome.threshold
        self.level_ = self.guarantee_.levels[outcome.level]
        self.tasks_, self.task_sizes_ = found.names[used], found.sizes[used, 0]
        self.task_thresholds_ = found.thresholds[used, 0, outcome.level]
        self.left_out_ = int(np.count_nonzero(~used))

    def _keep_each(
        self, found: Evidence, classes: tuple[Any, ...], outcomes: list[Outcome]
    ) -> None:
        used = np.stack([outcome.used for outcome in outcomes], axis=1)  # (tasks, classes)
        levels = [outcome.level for outcome in outcomes]
        self.classes_ = classes
        self.thresholds_ = np.array([outcome.threshold for outcome in outcomes])
        self.level_ = tuple(self.guarantee_.levels[level] for level in levels)
        self.tasks_, self.task_sizes_ = found.names, found.sizes
        own = found.thresholds[:, np.arange(len(classes)), levels]
        self.task_thresholds_ = np.where(used, own, np.nan)
        self.left_out_ = np.count_nonzero(~used, axis=0)

    def _body(self) -> dict[str, Any]:
        return {"columns": self.columns_, "evidence": self._evidence.to_json()}

    def _restore(self, body: dict[str, Any]) -> None:
        precision = np.dtype(body["precision"])
        found = Evidence.from_json(body["evidence"], len(self._guarantee().levels), precision)
        self._settle(found._replace(columns=body.get("columns")))


class PS(ThresholdSets):
    """Prediction sets for examples from one distribution: one application of the inequality.

    With confidence ``1 - delta`` over the calibration examples, the sets miss the true label of a
    new example from the same distribution at most a fraction ``epsilon`` of the time. On scores
    pooled over tasks this says nothing about any one task; on a test task's own labelled examples
    it is the paper's PS-Test.

    Parameters
    ----------
    epsilon : float
        Miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do where the examples are too few: raise ``InfeasibleGuarantee``, or keep every
        label.

    Attributes
    ----------
    threshold_ : float
        Keep a label when its score is at least this.
    n_examples_ : int
        Number of calibration examples.
    promise_ : str
        The guarantee in one sentence.
    """

    epsilon: float
    n_examples_: int

    @own_words
    def __init__(self, *, epsilon: float, delta: float, on_infeasible: str = "raise") -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.on_infeasible = on_infeasible

    def calibrate(self, scores: ArrayLike) -> Self:
        """Find the threshold from labelled examples.

        Parameters
        ----------
        scores : array_like, shape (n,)
            Scores of the true labels; higher means more plausible.

        Returns
        -------
        PS
            The object itself, calibrated.

        Raises
        ------
        InfeasibleGuarantee
            If the examples are too few; the message says what would work.
        """
        _checks.one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        array = _checks.calibration_scores("scores", scores)
        found = threshold(array, epsilon=self.epsilon, delta=self.delta)
        n = len(array)
        if self.on_infeasible == "raise" and allowed_errors(n, self.epsilon, self.delta) < 0:
            raise InfeasibleGuarantee(shortage.of_examples(self.epsilon, self.delta, n))
        self.n_examples_, self.threshold_ = n, found
        return self._calibrated(array.dtype)

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, with its numbers and its assumptions."""
        self._check_calibrated()
        sentence = sentences.of_examples(
            self.epsilon, self.delta, examples=self.n_examples_, threshold=self.threshold_
        )
        return sentence if self.threshold_ > -math.inf else f"{sentence} {sentences.TRIVIAL}"

    def _body(self) -> dict[str, Any]:
        return {"evidence": {"examples": self.n_examples_}}

    def _restore(self, body: dict[str, Any]) -> None:
        self.n_examples_ = _checks.whole_number("examples", body["evidence"]["examples"])
        self.threshold_ = float(body["threshold"])
        self._calibrated(np.dtype(body["precision"]))
