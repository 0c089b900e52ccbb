"""Meta-PS and PS: per task, then across tasks, the same inequality twice."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _checks, persistence, planning
from metapac._checks import own_words
from metapac._estimator import ThresholdSets
from metapac.binomial import allowed_errors, certifies, threshold
from metapac.grouping import group, task_thresholds
from metapac.guarantee import Guarantee, InfeasibleGuarantee, Level, Split, pooled_sentence

ON_INFEASIBLE = ("raise", "trivial")
TRIVIAL = "Every label is kept, so it holds trivially."
_UNKNOWN = -1


class Evidence(NamedTuple):
    """What the second step sees of the calibration tasks: N numbers, no scores."""

    names: NDArray[Any]  # (tasks,)
    sizes: NDArray[np.int64]  # (tasks,), _UNKNOWN where a site did not say
    thresholds: NDArray[np.float64]  # (tasks, levels)
    precision: np.dtype[Any]
    columns: dict[str, Any] | None = None  # of the table that they come from

    def sizes_and_counts(self, g: Guarantee) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the distinct sizes and their counts; an unsaid size is what its thresholds need.

        A threshold above ``-inf`` shows that its task was large enough for that level.
        """
        sizes = self.sizes
        if (sizes == _UNKNOWN).any():
            needs = [planning.least_size(g.epsilon, level.alpha_within) for level in g.levels]
            shown = np.where(self.thresholds > -np.inf, needs, 0).max(axis=1)
            sizes = np.where(sizes == _UNKNOWN, shown, sizes)
        return np.unique(sizes, return_counts=True)

    def refuse_uncertified(self, g: Guarantee) -> None:
        """Refuse a threshold that no task of its size can have sent at these levels."""
        for level, within in zip(g.levels, self.thresholds.T, strict=True):
            certified = certifies(0, self.sizes, g.epsilon, level.alpha_within)
            bad = np.flatnonzero(~certified & (within > -np.inf) & (self.sizes != _UNKNOWN))
            if len(bad):
                raise ValueError(
                    f"task_thresholds holds {within[bad[0]]:g} for task "
                    f"{self.names.tolist()[bad[0]]!r}, whose {self.sizes[bad[0]]} examples are too "
                    "few for any. Was it computed with another epsilon, alpha or split?"
                )


class MetaPS(ThresholdSets):
    """Prediction sets that keep their promise on each of at least ``1 - alpha`` of new tasks.

    With probability at least ``1 - delta`` over the calibration tasks, at least a fraction
    ``1 - alpha`` of new tasks, each with its own adaptation examples, have sets that miss the
    true label at most a fraction ``epsilon`` of the time. Scores from a model that is not adapted
    are used in the same way.

    ``on_infeasible="trivial"`` keeps every label where the data are too few, instead of raising
    ``InfeasibleGuarantee``.
    """

    guarantee_: Guarantee
    level_: Level
    tasks_: NDArray[Any]
    task_sizes_: NDArray[np.int64]
    task_thresholds_: NDArray[np.float64]

    @own_words
    def __init__(
        self,
        *,
        epsilon: float,
        alpha: float,
        delta: float,
        split: Split = "tight",
        on_infeasible: str = "raise",
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.delta = delta
        self.split = split
        self.on_infeasible = on_infeasible

    def calibrate(self, scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Self:
        """Find the threshold from the true labels' scores and the task id of each."""
        return self._conclude(self._within(scores, tasks))

    def add(self, scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Self:
        """Take in new tasks: the result is that of calibrating on all tasks from scratch.

        Of scores of two precisions the coarser decides sets.
        """
        self._check_calibrated()
        old, new = self._evidence, self._within(scores, tasks)
        return self._conclude(
            Evidence(
                _checks.new_names(old.names, new.names),
                np.concatenate([old.sizes, new.sizes]),
                np.concatenate([old.thresholds, new.thresholds]),
                min(old.precision, new.precision, key=lambda dtype: dtype.itemsize),
                old.columns,
            )
        )

    def task_threshold(self, scores: ArrayLike) -> Any:
        """Return all that one site has to send to ``combine``: one number (adaptive: one a level).

        Its own scores never leave it. The number has their precision.
        """
        g, array = self._guarantee(), _checks.score_array("scores", scores)
        found = [threshold(array, epsilon=g.epsilon, delta=lv.alpha_within) for lv in g.levels]
        return np.array(found if len(found) > 1 else found[0], dtype=array.dtype)[()]

    def combine(
        self,
        task_thresholds: ArrayLike | Mapping[Any, Any],
        tasks: ArrayLike | Iterable[object] | None = None,
        *,
        sizes: ArrayLike | Mapping[Any, int] | None = None,
    ) -> Self:
        """Find the threshold from one ``task_threshold`` per task, or a mapping from task to it.

        The result is that of ``calibrate`` on all scores, if every site had these parameters: a
        bare number cannot tell. Without ``sizes``, the numbers of examples behind each, a
        threshold of ``-inf`` is taken for that of a task too small.
        """
        guarantee = self._guarantee()
        if isinstance(task_thresholds, Mapping):
            if tasks is not None:
                raise ValueError("tasks must be left out where task_thresholds is a mapping.")
            tasks = list(task_thresholds)
            task_thresholds = list(task_thresholds.values())
        found = _checks.score_array("task_thresholds", task_thresholds)
        found = _checks.threshold_table(found, levels=len(guarantee.levels))
        names = np.arange(len(found)) if tasks is None else _checks.task_ids(tasks)
        _checks.same_length("task_thresholds", found, "tasks", names)
        _checks.distinct(names.tolist())
        if isinstance(sizes, Mapping):
            sizes = _checks.in_order("sizes", sizes, "task_thresholds", names.tolist())
        counts = np.full(len(found), _UNKNOWN)
        if sizes is not None:
            counts = _checks.whole_numbers("sizes", sizes, least=1)
            _checks.same_shape("sizes", counts, "tasks", names)
        names = _checks.task_names(names.tolist())
        evidence = Evidence(names, counts, found.astype(np.float64), found.dtype)
        evidence.refuse_uncertified(guarantee)
        return self._conclude(evidence)

    @property
    def promise_(self) -> str:
        """The promise in one sentence, with its numbers and its assumptions."""
        self._check_calibrated()
        sentence = self.guarantee_.sentence(tasks=len(self.tasks_), threshold=self.threshold_)
        return sentence if self.threshold_ > -math.inf else f"{sentence} {TRIVIAL}"

    def _guarantee(self) -> Guarantee:
        return Guarantee(epsilon=self.epsilon, alpha=self.alpha, delta=self.delta, split=self.split)

    def _check_parameters(self) -> Guarantee:
        _checks.one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        return self._guarantee()

    def _within(self, scores: ArrayLike, tasks: ArrayLike | Iterable[object]) -> Evidence:
        """The first step: a threshold for each task, at each level."""
        guarantee = self._guarantee()
        grouped = group(scores, tasks)
        alphas = [level.alpha_within for level in guarantee.levels]
        found = task_thresholds(grouped, guarantee.epsilon, alphas)
        return Evidence(grouped.names, grouped.sizes, found, grouped.scores.dtype)

    def _conclude(self, evidence: Evidence) -> Self:
        """The second step, if these tasks can carry the promise at all."""
        guarantee = self._check_parameters()
        sizes, counts = evidence.sizes_and_counts(guarantee)
        if self.on_infeasible == "raise" and not planning.feasible(guarantee, sizes, counts):
            said = bool((evidence.sizes != _UNKNOWN).all())
            raise InfeasibleGuarantee(planning.shortage(guarantee, sizes, counts, said=said))
        return self._settle(evidence)

    def _settle(self, evidence: Evidence) -> Self:
        """The second step: the threshold of the thresholds; the largest over the levels wins."""
        guarantee = self._guarantee()
        evidence = evidence._replace(thresholds=evidence.thresholds + 0.0)  # no negative zero
        across = [
            threshold(within, epsilon=level.alpha_across, delta=level.delta)
            for within, level in zip(evidence.thresholds.T, guarantee.levels, strict=True)
        ]
        best = int(np.argmax(across))
        self.guarantee_ = guarantee
        self.level_ = guarantee.levels[best]
        self.tasks_ = evidence.names
        self.task_sizes_ = evidence.sizes
        self.task_thresholds_ = evidence.thresholds[:, best].copy()
        self.columns_ = evidence.columns
        self._evidence = evidence
        return self._calibrated(across[best], evidence.precision)

    def _body(self) -> dict[str, Any]:
        return {
            "columns": self.columns_,
            "evidence": {
                "tasks": _checks.json_names(self.tasks_),
                "sizes": self._evidence.sizes.tolist(),
                "thresholds": [
                    [persistence.encode(value) for value in row]
                    for row in self._evidence.thresholds.tolist()
                ],
            },
        }

    def _restore(self, body: dict[str, Any]) -> None:
        evidence = body["evidence"]
        self._settle(
            Evidence(
                _checks.task_names(evidence["tasks"]),
                np.array(evidence["sizes"], dtype=np.int64),
                np.array([[float(value) for value in row] for row in evidence["thresholds"]]),
                np.dtype(body["precision"]),
                body.get("columns"),
            )
        )


class PS(ThresholdSets):
    """Prediction sets for one distribution of examples: the inequality once.

    With probability at least ``1 - delta`` over the calibration examples, the sets miss the true
    label of a new example from the same distribution at most a fraction ``epsilon`` of the time.
    On scores pooled over tasks this says nothing of any one task; on a test task's own labelled
    examples it is the paper's PS-Test.
    """

    n_examples_: int

    @own_words
    def __init__(self, *, epsilon: float, delta: float, on_infeasible: str = "raise") -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.on_infeasible = on_infeasible

    def calibrate(self, scores: ArrayLike) -> Self:
        """Find the threshold from the true labels' scores."""
        _checks.one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        array = _checks.score_array("scores", scores)
        found = threshold(array, epsilon=self.epsilon, delta=self.delta)
        n = len(array)
        if self.on_infeasible == "raise" and allowed_errors(n, self.epsilon, self.delta) < 0:
            raise InfeasibleGuarantee(planning.pooled_shortage(self.epsilon, self.delta, n))
        self.n_examples_ = n
        return self._calibrated(found, array.dtype)

    @property
    def promise_(self) -> str:
        """The promise in one sentence, with its numbers and its assumptions."""
        self._check_calibrated()
        sentence = pooled_sentence(
            self.epsilon, self.delta, examples=self.n_examples_, threshold=self.threshold_
        )
        return sentence if self.threshold_ > -math.inf else f"{sentence} {TRIVIAL}"

    def _body(self) -> dict[str, Any]:
        return {"evidence": {"examples": self.n_examples_}}

    def _restore(self, body: dict[str, Any]) -> None:
        self.n_examples_ = _checks.whole_number("examples", body["evidence"]["examples"])
        self._calibrated(float(body["threshold"]), np.dtype(body["precision"]))
