"""Meta-PS: the inequality applied twice, within tasks and across them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import sentences
from metapac._checks import reject_foreign_keywords
from metapac._ids import keep_tasks, match_names
from metapac._scores import as_precision
from metapac._warnings import warn
from metapac.base import ThresholdSets
from metapac.calibration.arrays import collect_from_arrays, draw_from_clusters
from metapac.calibration.feasibility import check_feasible, check_on_infeasible
from metapac.calibration.federated import find_task_thresholds, read_task_thresholds
from metapac.calibration.intervals import name_columns, score_numbers, warn_if_exact
from metapac.clusters import ClusterIds
from metapac.context import Context, as_context
from metapac.evidence import Evidence
from metapac.evidence.encoding import decode_evidence, encode_evidence
from metapac.evidence.joining import join_evidence
from metapac.exceptions import InvalidInput, Parameter
from metapac.explanation.paragraphs import explain_guarantee
from metapac.explanation.rules import Rule
from metapac.explanation.words import Words, inflect
from metapac.guarantee import Epsilon, Guarantee, Split
from metapac.meaning.duplicates import judge_copies
from metapac.meaning.findings import report
from metapac.meaning.judges import judge_near_names
from metapac.meaning.sets import SetCounts, count_sets
from metapac.outcome import Outcome
from metapac.ranks import Level


class MetaPS(ThresholdSets):
    """Prediction sets with a bounded miss rate on at least ``1 - alpha`` of new tasks.

    With confidence ``1 - delta`` over the calibration tasks, at least a fraction ``1 - alpha`` of
    new tasks, each with its own adaptation examples, have sets that miss the true label at most a
    fraction ``epsilon`` of the time. Scores of a model that is not adapted to tasks work in the
    same way.

    Parameters
    ----------
    epsilon : float or mapping from class to float
        Miss rate allowed on a task. With ``per_class``, a mapping gives each class its own.
    alpha : float
        Fraction of new tasks on which the miss rate may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee. None gives a guarantee in expectation, which is
        weaker and needs far fewer tasks: 10 at ``alpha=0.1``.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps. "joint" usually gives the smallest sets;
        "tight" lets a site send a single number; "even" is the paper's. A number, at most 1/2, is
        the level within tasks and must be chosen before seeing the data.
    per_class : bool, default False
        Whether to bound the miss rate of each class separately, with a threshold for each, so that
        a rare class cannot be missed unnoticed. ``delta`` is divided among the classes.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with ``per_class``, of the class). The guarantee then
        covers only tasks with at least this many.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do if the data are too few: raise ``InfeasibleGuarantee``, or keep every label (for
        numbers, infinite intervals).

    Attributes
    ----------
    threshold_ : float
        The smallest score that is kept. Not available with ``per_class``.
    thresholds_ : ndarray, shape (classes,)
        With ``per_class``, the smallest score that is kept for each class.
    classes_ : tuple or None
        With ``per_class``, the classes, in the order of the columns of ``predict_set``.
    tasks_ : ndarray
        Calibration tasks, without those that ``min_examples`` leaves out; with ``per_class``, all.
    task_sizes_ : ndarray
        Number of examples of each task; with ``per_class``, one column for each class.
    task_thresholds_ : ndarray
        Threshold of each task; with ``per_class``, one column for each class.
    left_out_ : int or ndarray
        Number of tasks that ``min_examples`` leaves out; with ``per_class``, for each class.
    clusters_ : ndarray or None
        If calibrated with ``clusters``, the cluster of each of ``tasks_``.
    guarantee_ : Guarantee
        What is guaranteed.
    level_ : Level or tuple of Level
        The level with the largest threshold; with ``per_class``, one for each class.
    precision_ : numpy.dtype
        Precision of the calibration scores.
    promise_ : str
        The guarantee in one sentence.

    Notes
    -----
    One inequality is applied twice. Within each task it finds a threshold whose miss rate is at
    most ``epsilon``; across tasks it finds a threshold that is low enough for at least a fraction
    ``1 - alpha`` of new tasks. docs/guarantee.md has the theorem and its proof.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS
    >>> rng = np.random.default_rng(0)
    >>> scores, hospitals = rng.random(120 * 50), np.repeat(np.arange(120), 50)
    >>> method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, hospitals)
    >>> method.predict_set([[0.9, 0.5, 0.001]])
    array([[ True,  True, False]])
    """

    _kind = "MetaPS"
    guarantee_: Guarantee
    level_: Level | tuple[Level, ...]
    tasks_: NDArray[Any]
    task_sizes_: NDArray[np.int64]
    task_thresholds_: NDArray[np.float64]
    left_out_: int | NDArray[np.int64]
    clusters_: NDArray[Any] | None

    @reject_foreign_keywords
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
        *,
        classes: Sequence[Any] | None = None,
        clusters: ClusterIds | None = None,
        rng: int = 0,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Find the threshold from labelled examples of the calibration tasks.

        Parameters
        ----------
        scores : array_like, shape (n,) or (n, classes)
            Scores of the true labels, or with ``labels`` those of all classes; higher means more
            plausible.
        tasks : array_like, shape (n,)
            Task of each example: strings, integers, or anything hashable.
        labels : array_like, shape (n,), optional
            True label of each example. Needed with scores of all classes and with ``per_class``,
            and only then.
        classes : sequence, optional
            Class of each column of ``scores``, such as ``model.classes_``; by default the column
            names of a data frame, or 0, 1, ... ``predict_set`` then expects the same order.
        clusters : array_like, shape (n,), or mapping from task, optional
            Cluster of each example or task, such as its alphabet or hospital group. Tasks of one
            cluster may depend on each other; clusters are independent. One random task of each
            cluster is calibrated on, and the guarantee is for new tasks of new clusters.
        rng : int, default 0
            Seed of that draw, which does not look at scores. Fix it beforehand: choosing the seed
            by its result breaks the guarantee.
        context : Context, optional
            What the guarantee is about: model, training tasks, vocabulary.
        allow : iterable of str, default ()
            Checks of the data to skip, such as "duplicates"; the message of a check names it.

        Returns
        -------
        MetaPS
            The object itself, calibrated.

        Raises
        ------
        InfeasibleGuarantee
            If the tasks are too few or too small; the message says what would work.
        """
        guarantee, tasks = self._make_guarantee(), keep_tasks(tasks)
        evidence = collect_from_arrays(guarantee, scores, tasks, labels, classes, allow)
        if clusters is not None:
            evidence = draw_from_clusters(evidence, tasks, clusters, rng, context, allow)
        return self._calibrate_across(guarantee, evidence, context, allow)

    def calibrate_intervals(
        self,
        y: ArrayLike,
        prediction: ArrayLike,
        tasks: ArrayLike | Iterable[object],
        scale: ArrayLike | None = None,
        *,
        clusters: ClusterIds | None = None,
        rng: int = 0,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Find the threshold of prediction intervals, from numbers that a model predicted.

        The threshold is that of ``calibrate`` on `residual_scores`. The guarantee then speaks of
        intervals, which ``predict_interval`` returns.

        Parameters
        ----------
        y : array_like, shape (n,)
            True values.
        prediction : array_like, shape (n,)
            Predicted values.
        tasks : array_like, shape (n,)
            Task of each example, as in ``calibrate``.
        scale : array_like, shape (n,), optional
            Scale of each residual, such as a predicted standard deviation; 1 by default.
        clusters : array_like, shape (n,), or mapping from task, optional
            Clusters, as in ``calibrate``.
        rng : int, default 0
            Seed of the draw from clusters.
        context : Context, optional
            What the guarantee is about.
        allow : iterable of str, default ()
            Checks of the data to skip.

        Returns
        -------
        MetaPS
            The object itself, calibrated.

        Raises
        ------
        InfeasibleGuarantee
            If the tasks are too few or too small; the message says what would work.

        Examples
        --------
        >>> import numpy as np
        >>> from metapac import MetaPS
        >>> rng = np.random.default_rng(0)
        >>> y, hospitals = rng.normal(50, 2, size=120 * 50), np.repeat(np.arange(120), 50)
        >>> method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05)
        >>> method = method.calibrate_intervals(y, np.full(len(y), 50.0), hospitals)
        >>> method.predict_interval([50.0, 60.0]).round(1)
        array([[45.7, 54.3],
               [55.7, 64.3]])
        """
        if self.per_class:
            raise InvalidInput(
                "calibrate_intervals is for numbers, which have no classes. Leave out {}.",
                Parameter("per_class", True),
            )
        guarantee, tasks = self._make_guarantee(), keep_tasks(tasks)
        scores = score_numbers(y, prediction, tasks, scale)
        evidence = collect_from_arrays(guarantee, scores, tasks, None, None, allow)
        warn_if_exact(evidence)
        if clusters is not None:
            evidence = draw_from_clusters(evidence, tasks, clusters, rng, context, allow)
        names = {**(evidence.columns or {}), **name_columns(y, prediction, tasks, scale)}
        return self._calibrate_across(guarantee, evidence._replace(columns=names), context, allow)

    @classmethod
    def from_evidence(
        cls,
        guarantee: Guarantee,
        evidence: Evidence,
        *,
        on_infeasible: str = "raise",
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Return a predictor calibrated on evidence that was collected elsewhere.

        This is the second step alone, for engines and sites that take the first one themselves.

        Parameters
        ----------
        guarantee : Guarantee
            What is to be guaranteed. The evidence has to be collected at its levels.
        evidence : Evidence
            Threshold of each task at each level, from ``metapac.evidence``.
        on_infeasible : {"raise", "trivial"}, default "raise"
            What to do if the data are too few: raise ``InfeasibleGuarantee``, or keep every label
            (for numbers, infinite intervals).
        context : Context, optional
            What the guarantee is about.
        allow : iterable of str, default ()
            Checks of the tasks to skip, such as "duplicates"; the message of a check names it.

        Returns
        -------
        MetaPS
            The calibrated predictor.

        Raises
        ------
        InfeasibleGuarantee
            If the tasks are too few or too small; the message says what would work.
        """
        check_on_infeasible(on_infeasible)
        method = cls(**asdict(guarantee), on_infeasible=on_infeasible)
        return method._calibrate_across(guarantee, evidence, context, allow)

    def add(
        self,
        scores: ArrayLike,
        tasks: ArrayLike | Iterable[object],
        labels: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        clusters: ClusterIds | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Add new tasks; the result is that of calibrating on all tasks from scratch.

        Each guarantee is for a number of tasks fixed in advance. Adding tasks until you like the
        result multiplies the failure probability, by up to 8 with 500 tasks and 18 with 2000. If
        you want to look while adding, use ``delta / (j * (j + 1))`` at look j: that is valid for
        any number of looks.

        Parameters
        ----------
        scores : array_like, shape (n,) or (n, classes)
            Scores as in ``calibrate``; after ``calibrate_intervals``, those of `residual_scores`.
            If old and new scores differ in precision, the coarser one is used for sets.
        tasks : array_like, shape (n,)
            Task of each example. None of them may have been calibrated on before.
        labels : array_like, shape (n,), optional
            True labels, as in ``calibrate``.
        classes : sequence, optional
            Class of each column of ``scores``, in the same order as before.
        clusters : array_like, shape (n,), or mapping from task, optional
            Clusters as in ``calibrate``, if it had them; none may have been calibrated on before.
        allow : iterable of str, default ()
            Checks of the data to skip.

        Returns
        -------
        MetaPS
            The object itself, calibrated on all tasks.

        Raises
        ------
        InfeasibleGuarantee
            If the tasks are too few or too small; the message says what would work.
        """
        self.check_calibrated()
        guarantee, tasks = self._make_guarantee(), keep_tasks(tasks)
        if classes is not None or np.ndim(scores) == 2:
            self._check_order(scores, classes)
        new = collect_from_arrays(guarantee, scores, tasks, labels, classes, allow)
        if clusters is not None:
            rng = 0 if self._evidence.clusters is None else self._evidence.clusters.rng
            new = draw_from_clusters(new, tasks, clusters, rng, self.context_, allow)
        _same, near = match_names(new.names.tolist(), self._evidence.names.tolist())
        report([judge_near_names(near, "calibration tasks")], allow)
        joined = join_evidence(self._evidence, new)
        return self._calibrate_across(guarantee, joined, self.context_, allow)

    def task_threshold(self, scores: ArrayLike, *, allow: Iterable[str] = ()) -> Any:
        """Return all that one site has to send to ``combine``: one number for each level.

        No other score leaves the site. With ``split="tight"`` it is a single number.

        Parameters
        ----------
        scores : array_like, shape (n,)
            Scores of the true labels of one task.
        allow : iterable of str, default ()
            Checks of the data to skip.

        Returns
        -------
        scalar or ndarray, shape (levels,)
            The numbers, in the precision of the scores.
        """
        self._check_not_per_class("task_threshold")
        sent = find_task_thresholds(self._make_guarantee(), scores, allow)
        return sent if len(sent) > 1 else sent[0]

    def combine(
        self,
        task_thresholds: ArrayLike | Mapping[Any, Any],
        tasks: ArrayLike | Iterable[object] | None = None,
        *,
        sizes: ArrayLike | Mapping[Any, int] | None = None,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Find the threshold from what ``task_threshold`` returned at each site.

        The result is that of ``calibrate`` on all scores, provided that every site used the same
        parameters and none sent its numbers under two names. Bare numbers cannot show that; the
        files written by ``metapac site`` can.

        Parameters
        ----------
        task_thresholds : array_like or mapping from task
            What each task sent. If precisions differ, the coarsest is used for sets.
        tasks : array_like, optional
            Names of the tasks; by default 0, 1, and so on. Not with a mapping.
        sizes : array_like or mapping from task, optional
            Number of examples of each task. Without it, a threshold of ``-inf`` is taken to mean
            that the task is too small.
        context : Context, optional
            What the guarantee is about.
        allow : iterable of str, default ()
            Checks of the data to skip, such as "task-names"; the message of a check names it.

        Returns
        -------
        MetaPS
            The object itself, calibrated.
        """
        self._check_not_per_class("combine")
        guarantee = self._make_guarantee()
        sent = read_task_thresholds(guarantee, task_thresholds, tasks, sizes, allow)
        return self._calibrate_across(guarantee, sent, context, allow)

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, followed by ``remarks_`` if there are any."""
        self.check_calibrated()
        g = self.guarantee_
        if self.classes_ is None:
            thresholds: sentences.Thresholds = self.threshold_
        else:
            thresholds = dict(zip(self.classes_, self.thresholds_.tolist(), strict=True))
        # Each class leaves out different tasks, so there is no single number of tasks.
        tasks = None if g.per_class and g.min_examples else len(self.tasks_)
        sentence = g.sentence(
            tasks=tasks, threshold=thresholds, columns=self.columns_, cluster=self._cluster_words()
        )
        return " ".join([sentence, *self.remarks_])

    @property
    def remarks_(self) -> list[str]:
        """What makes the guarantee uninformative: too few data, or ties at the lowest score."""
        self.check_calibrated()
        return [remark for outcome in self._outcomes if (remark := self._remark(outcome))]

    def _remark(self, outcome: Outcome) -> str:
        """Return what makes a guarantee uninformative, in the words of labels or of intervals."""
        return outcome.remark(is_interval="prediction" in (self.columns_ or {}))

    def explain(self) -> str:
        """Return the guarantee in plain words, for people who are not statisticians.

        Tasks and examples are called as ``context`` names them. Percentages are exact; thresholds
        are rounded down, so that whoever applies them keeps at least as many labels.

        Returns
        -------
        str
            What was checked, what holds, how sure one can be, what it does not say, and what to do
            with lists of several labels or none. Items of a list start with "- ".

        Examples
        --------
        >>> import textwrap
        >>> import numpy as np
        >>> from metapac import MetaPS
        >>> rng = np.random.default_rng(0)
        >>> scores, hospitals = rng.random(120 * 50), np.repeat(np.arange(120), 50)
        >>> method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, hospitals)
        >>> print(textwrap.fill(method.explain().split("\\n\\n")[1], 80))
        For at least 90% of new tasks of the same kind, at most 10% of the examples get
        a list without the right label.
        """
        self.check_calibrated()
        return explain_guarantee(
            self.guarantee_,
            self._rules(),
            len(self.tasks_),
            self._about(),
            self.columns_,
            self._cluster_words(),
        )

    def _cluster_words(self) -> tuple[str, str] | None:
        """Return what clusters are called, in singular and plural, if there are any."""
        if self.clusters_ is None:
            return None
        named = self._about().cluster or (self.columns_ or {}).get("cluster", "cluster")
        return inflect(named)

    def _rules(self) -> list[Rule]:
        """Return what the sets keep and what that rests on, for each class or for all together."""
        parts = self._evidence.parts(self.guarantee_)
        is_interval = "prediction" in (self.columns_ or {})
        return [
            Rule.from_outcome(part, outcome, is_interval=is_interval)
            for part, outcome in zip(parts, self._outcomes, strict=True)
        ]

    def _basis(self) -> str:
        return Words.from_context(self._about()).count_units(len(self.tasks_))

    def _make_guarantee(self) -> Guarantee:
        check_on_infeasible(self.on_infeasible)
        return Guarantee(**{field.name: getattr(self, field.name) for field in fields(Guarantee)})

    def _check_not_per_class(self, method: str) -> None:
        if self.per_class:
            raise InvalidInput(
                f"{method} supports a single guarantee, and per_class=True has one for each class. "
                "Use metapac.tables.site_table and metapac.sites.combine_sites."
            )

    def _calibrate_across(
        self,
        guarantee: Guarantee,
        evidence: Evidence,
        context: Context | None,
        allow: Iterable[str],
    ) -> Self:
        """Check that the tasks support the guarantee, then take the second step."""
        about = as_context(context, evidence.names.tolist(), allow)
        report([judge_copies(evidence.contents)], allow)
        feasible = check_feasible(guarantee, evidence, self.on_infeasible)
        self._take_second_step(guarantee, evidence)
        self.context_ = about
        for outcome, is_feasible in zip(self._outcomes, feasible, strict=True):
            if is_feasible and (remark := self._remark(outcome)):
                warn(remark)
        return self

    def _take_second_step(self, guarantee: Guarantee, evidence: Evidence) -> None:
        """Find the thresholds across tasks and set the fitted attributes."""
        evidence = evidence._replace(thresholds=evidence.thresholds + 0.0)  # no negative zero
        sample, evidence = evidence.sample, evidence._replace(sample=None)
        outcomes = [part.outcome() for part in evidence.parts(guarantee)]
        self.guarantee_, self.columns_ = guarantee, evidence.columns
        self._evidence, self._outcomes = evidence, outcomes
        self.classes_, self._score_range = evidence.classes, _get_score_range(evidence)
        self.clusters_ = None
        if evidence.classes is None:
            self._set_shared(evidence, outcomes[0])
        else:
            self._set_per_class(evidence, outcomes)
        self._sets = None if sample is None else count_sets(sample, self._result()[1])
        self._mark_calibrated(evidence.precision)

    def _set_shared(self, evidence: Evidence, outcome: Outcome) -> None:
        used = outcome.used
        self._set_threshold(outcome.threshold)
        self.level_ = self.guarantee_.levels[outcome.level]
        self.tasks_, self.task_sizes_ = evidence.names[used], evidence.sizes[used, 0]
        self.task_thresholds_ = evidence.thresholds[used, 0, outcome.level]
        self.left_out_ = int(np.count_nonzero(~used))
        if evidence.clusters is not None:
            self.clusters_ = evidence.clusters.names[used]

    def _set_per_class(self, evidence: Evidence, outcomes: list[Outcome]) -> None:
        used = np.stack([outcome.used for outcome in outcomes], axis=1)  # (tasks, classes)
        levels = [outcome.level for outcome in outcomes]
        self._set_threshold(np.array([outcome.threshold for outcome in outcomes]))
        self.level_ = tuple(self.guarantee_.levels[level] for level in levels)
        self.tasks_, self.task_sizes_ = evidence.names, evidence.sizes
        at_level = evidence.thresholds[:, np.arange(len(levels)), levels]  # (tasks, classes)
        self.task_thresholds_ = np.where(used, at_level, np.nan)
        self.left_out_ = np.count_nonzero(~used, axis=0)
        if evidence.clusters is not None:
            self.clusters_ = evidence.clusters.names

    def _name_columns(self, names: dict[str, str]) -> Self:
        """Keep the names of the columns that a table of these scores has."""
        self.columns_ = {**(self.columns_ or {}), **names} or None
        self._evidence = self._evidence._replace(columns=self.columns_)
        return self

    def _body(self) -> dict[str, Any]:
        evidence = encode_evidence(self._evidence)
        return {"columns": self.columns_, "evidence": evidence, **self._encode_sets()}

    def _restore(self, body: dict[str, Any]) -> None:
        precision = as_precision(body["precision"])
        guarantee = self._make_guarantee()
        stored = decode_evidence(body["evidence"], len(guarantee.levels), precision)
        stored.check_certified(guarantee, "evidence.thresholds")
        self._take_second_step(guarantee, stored._replace(columns=body.get("columns")))
        self._sets = SetCounts(**body["sets"]) if "sets" in body else None


def _get_score_range(evidence: Evidence) -> tuple[float, float] | None:
    """Return the lowest and the highest score of a true label, if they are known."""
    if evidence.highest is None:
        return None
    return float(evidence.lowest.min()), float(evidence.highest.max())
