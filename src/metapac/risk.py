"""Any risk that grows with the threshold, with the guarantee of Meta-PS.

A loss L in [0, 1] is compared with a number V in [0, 1), a hash of seed, task and key that looks at
nothing else. The example is missed at a threshold where L > V. That happens with probability L, so
the miss rate of a task is its expected loss, its risk; and if L does not decrease with the
threshold, the example is missed above one threshold and not below: its score is the largest one
with L <= V. All else is `MetaPS`. The proof is in docs/theory/risk.md.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _common, inputs
from metapac._common import Array, Counts, Floats, brief, on_host
from metapac.context import Context
from metapac.errors import InfeasibleGuarantee, InvalidInput, keyword
from metapac.evidence import Evidence, Outcome
from metapac.grouping import ClusterIds, Data, Scored, as_data, name_units
from metapac.guarantee import Guarantee
from metapac.predictors import MetaPS

_BLOCK = 1 << 18  # so many losses are looked at together, so that they stay in the cache
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e-?\d+)?$")


def score_losses(data: Scored, rng: int, known: Any, at: float | None) -> Scored:
    """Return the score of each example: the largest threshold with a loss of at most V."""
    for name in ("tasks", "keys"):
        _common.check_same_index("losses", data.scores, name, getattr(data, name))
    grid = _as_grid(data.thresholds, known)
    losses, tasks = _as_losses(data.scores, grid, at), inputs.as_task_ids(data.tasks)
    _common.check_same_length("losses", losses, "tasks", tasks)
    names = None if data.columns is None else data.keys  # the rows of a table have no order
    limits = draw_limits(rng, tasks, data.keys, "keys" if names is None else "id")
    cuts = np.array([at], grid.dtype) if losses.ndim == 1 else grid
    count = _count_within(losses.reshape(-1, len(cuts)), cuts, limits, tasks, names)
    columns: dict[str, Any] = {"losses": "losses"} | ({} if data.keys is None else {"id": "keys"})
    columns |= {**(data.columns or {}), "thresholds": grid.tolist(), "seed": rng}
    values = np.append(np.full(1, -np.inf, grid.dtype), cuts)[count]
    return Scored(values, tasks, None, None, data.clusters, columns, data.within)


def draw_limits(rng: int, tasks: Array, keys: Any = None, name: str = "keys") -> Floats:
    """Return V of each example, in [0, 1): a hash of seed, task and key."""
    places: defaultdict[Any, Any] = defaultdict(count)
    names = np.array([next(places[task]) for task in tasks.tolist()])
    names = names if keys is None else name_units(keys, name)
    _common.check_same_length(name, names, "tasks", tasks)
    rows = [*zip(map(str, tasks.tolist()), map(str, names.tolist()), strict=True)]
    texts = [f"metapac risk/{rng}/{len(task)}/{task}/{key}" for task, key in rows]
    if len({*texts}) < len(texts):
        task, key = Counter(rows).most_common(1)[0][0]
        text = f"{name} holds {key!r} twice in task {task!r}, and each example needs its own"
        raise InvalidInput(f"{text}. Drop copies, or name them apart.", parameter=name)
    codes = [text.encode("utf-8", "backslashreplace") for text in texts]
    hashes = b"".join([hashlib.blake2b(code, digest_size=8).digest() for code in codes])
    return (np.frombuffer(hashes, ">u8") >> np.uint64(11)) / 2.0**53


def _as_grid(thresholds: Any, known: Mapping[str, Any] | None = None) -> Floats:
    """Return the thresholds; those that are passed must be those of the calibration."""
    stored = None if known is None else known["thresholds"]
    thresholds = stored if thresholds is None else thresholds
    if thresholds is None:
        raise InvalidInput("losses needs thresholds.", parameter=("losses", "thresholds"))
    grid = inputs.as_score_array("thresholds", thresholds)
    rule = "hold the finite threshold of each column of losses, in ascending order, each one once"
    if stored is not None and grid.tolist() != stored:
        rule = f"be those of the calibration, {brief(stored)}"
    elif grid.ndim == 1 and len(grid) and np.isfinite(grid).all() and (np.diff(grid) > 0).all():
        return grid
    raise InvalidInput(f"thresholds must {rule}, got {brief(grid.tolist())}.")


def _as_losses(losses: Any, grid: Floats, at: float | None) -> Array:
    """Return losses as an array with the columns of the thresholds, or of the one in use."""
    if callable(losses):
        columns = [np.asarray(on_host(losses(cut))) for cut in grid.tolist()]
        for column in columns:
            _common.check_same_shape("losses", column, "those of another threshold", columns[0])
        losses = np.stack(columns, axis=-1)
    array = np.asarray(on_host(losses))
    if array.dtype.kind not in "bui":
        array = inputs.as_score_array("losses", losses)
    if at is not None and array.shape[1:] == (1,):
        array = array[:, 0]
    if array.shape[1:] != grid.shape and (array.ndim != 1 or at is None):
        rule = f"losses must have a row for each example and a column for each of {len(grid)}"
        raise InvalidInput(f"{rule} thresholds, got shape {array.shape}.")
    check_order([*map(str, getattr(losses, "columns", ()))])
    return array


def check_order(names: Sequence[str]) -> None:
    """Raise InvalidInput if columns end in numbers that do not ascend."""
    numbers = [float(match[0]) for match in map(_NUMBER.search, names) if match]
    if len(numbers) == len(names) and numbers != sorted(numbers):
        text = f"losses must be in the order of the thresholds, and the columns are {brief(names)}"
        raise InvalidInput(f"{text}. List them in ascending order.")


def _count_within(
    losses: Array, grid: Floats, limits: Floats, tasks: Array, names: Any = None
) -> Counts:
    """Return at how many thresholds the loss of each example is at most its V."""
    count = np.empty(len(losses), dtype=np.int64)
    step = max(1, _BLOCK // len(grid))
    for start in range(0, len(losses), step):
        rows, here = losses[start : start + step], slice(start, start + step)
        is_fine = (rows[:, :-1] <= rows[:, 1:]).all() and rows[:, 0].min() >= 0
        if not (is_fine and rows[:, -1].max() <= 1):  # false for NaN
            where = None if names is None else [*names][here]
            _report_losses(rows.astype(np.float64), grid, tasks[here].tolist(), start, where)
        count[here] = np.count_nonzero(rows <= limits[here, None], axis=1)
    return count


def _report_losses(
    rows: Floats, grid: Floats, tasks: list[Any], start: int, names: list[Any] | None
) -> None:
    """Raise InvalidInput for the first loss that no monotone loss in [0, 1] can have."""
    outside = np.argwhere(~((rows >= 0) & (rows <= 1)))
    row, place = (outside if len(outside) else np.argwhere(np.diff(rows) < 0))[0].tolist()
    here = [f"{rows[row, i]:g} at threshold {grid[i]:g}" for i in (place, (place + 1) % len(grid))]
    where = f"row {start + row}" if names is None else f"id {names[row]!r}"
    where += f", in task {tasks[row]!r}"
    text = f"be between 0 and 1, got {here[0]} ({where}). Cap and scale the loss beforehand."
    if not len(outside):
        text = f"not decrease along the thresholds, and fall from {' to '.join(here)} ({where}). "
        text += "If less is lost further up, certified thresholds have unsafe ones below. Pass the "
        text += "running maximum, np.maximum.accumulate(losses, axis=1), or negate the thresholds."
    raise InvalidInput(f"losses must {text}")


def _pair(scores: Any, name: str, others: Any) -> list[tuple[Array, Array]]:
    """Return the scores of each example with what else is known of them, checked."""
    scores, others = ([np.asarray(on_host(x)) for x in given] for given in (scores, others))
    _common.check_same_length("scores", scores, name, others)
    for pair in zip(scores, others, strict=True):
        inputs.as_score_array("scores", pair[0])
        _common.check_same_shape("scores", pair[0], name, pair[1])
        if any(values.dtype.kind == "f" and np.isnan(values).any() for values in pair):
            text = f"scores and {name} must not hold NaN: what cannot be compared is never missed."
            raise InvalidInput(text)
    return [*zip(scores, others, strict=True)]


class MetaRisk(MetaPS):
    """A threshold whose risk is bounded on at least ``1 - alpha`` of new tasks.

    With confidence ``1 - delta`` over the calibration tasks, at least a fraction ``1 - alpha`` of
    new tasks have an expected loss of at most ``epsilon`` at the threshold. The loss is any number
    between 0 and 1 that does not decrease with the threshold, such as the share of a tumour that a
    mask misses.

    Parameters
    ----------
    epsilon : float
        Expected loss allowed on a task.
    alpha : float
        Fraction of new tasks on which the expected loss may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee; None for a guarantee in expectation.
    rng : int, default 0
        Seed of the random numbers that losses are compared with, and of the draws from clusters
        and units. Fix it beforehand: another seed after looking is a second look.
    **options : object
        The other parameters of `MetaPS`, such as ``split`` and ``min_examples``, but not
        ``per_class``.

    Attributes
    ----------
    threshold_ : float
        The largest threshold that is certified; all lower ones are safe too.
    columns_ : dict
        As in `MetaPS`, like all other attributes, and thresholds and seed.

    Notes
    -----
    Each loss becomes a miss: it counts as one if it exceeds a number V in [0, 1), a hash of the
    seed, the task and the key of the example. The expectation is the same, so that the exact counts
    of `MetaPS` apply, and the confidence is over these numbers too. docs/theory/risk.md has the
    proof.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaRisk
    >>> rng, grid = np.random.default_rng(0), np.linspace(0, 1, 101)
    >>> losses = rng.random((120 * 50, 1)) * grid
    >>> hospitals = np.repeat(np.arange(120), 50)
    >>> method = MetaRisk(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(losses, hospitals, grid)
    >>> method.threshold_
    0.07
    >>> method.predict([[0.7, 0.04]])
    array([[ True, False]])
    """

    _kind = "MetaRisk"
    epsilon: float

    @_common.reject_foreign_keywords
    def __init__(
        self, *, epsilon: float, alpha: float, delta: float | None, rng: int = 0, **options: Any
    ) -> None:
        if options.pop("per_class", False):
            raise InvalidInput("per_class is for labels, not for a loss.", parameter="per_class")
        super().__init__(epsilon=epsilon, alpha=alpha, delta=delta, **options)
        self.rng = rng

    @classmethod
    @functools.cache
    def _parameters(cls) -> Mapping[str, inspect.Parameter]:
        every = {**MetaPS._parameters(), **inspect.signature(cls).parameters}
        return {k: v for k, v in every.items() if k not in ("per_class", "offsets", "options")}

    def calibrate(  # type: ignore[override]
        self,
        losses: Any,
        tasks: ArrayLike | Iterable[object] | None = None,
        thresholds: ArrayLike | None = None,
        keys: ArrayLike | Iterable[object] | None = None,
        *,
        clusters: ClusterIds | None = None,
        within: ArrayLike | Iterable[object] | None = None,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Find the largest threshold at which the risk is certified.

        Parameters
        ----------
        losses : array_like, shape (n, thresholds), callable, Scored or Table
            Loss of each example at each threshold: between 0 and 1, and not decreasing along the
            thresholds. Or a function of the threshold that returns the losses of all examples; or a
            table from ``open_table`` whose ``Columns`` name ``losses``, ``thresholds`` and ``id``.
        tasks : array_like, shape (n,), optional
            Task of each example. Needed with arrays.
        thresholds : array_like, shape (thresholds,), optional
            The thresholds, ascending and fixed beforehand. Needed with arrays.
        keys : array_like, shape (n,), optional
            Name of each example, distinct within its task, so that the result does not depend on
            the order of the rows. By default, its place within its task.
        clusters, within, context, allow : optional
            As in ``MetaPS.calibrate``.

        Returns
        -------
        MetaRisk
            The object itself, calibrated.

        Raises
        ------
        InfeasibleGuarantee
            If the tasks are too few or too small, or if the loss at the lowest threshold is too
            large in too many of them.
        """
        data = as_data(losses, tasks, None, None, clusters, within)
        if isinstance(data, Scored) and data.thresholds is None:
            data = replace(data, thresholds=thresholds, keys=keys)
        return super().calibrate(self._read(data), rng=self.rng, context=context, allow=allow)

    def predict(self, scores: ArrayLike) -> NDArray[np.bool_]:  # type: ignore[override]
        """Return what is kept: the labels, pixels or answers whose score is at least the threshold.

        Parameters
        ----------
        scores : array_like
            Scores of any shape, such as those of the pixels of images.

        Returns
        -------
        ndarray of bool
            Whether each is kept, in the shape of ``scores``.
        """
        self.check_calibrated()
        return inputs.is_at_least(scores, self.threshold_, self.precision_)

    def _read(self, data: Any, known: Any = None, at: float | None = None, name: Any = None) -> Any:
        """Return losses as scores; those of a site, which is one task, with its name."""
        data = data if isinstance(data, Scored) else data.read_losses(known)
        if data.labels is not None:
            raise InvalidInput("labels must be left out: losses know them.")
        if name is not None and data.tasks is not None:
            raise InvalidInput("tasks must be left out: a site is one task.", parameter="task")
        data = data if name is None else replace(data, tasks=np.full(len(data.scores), name))
        return score_losses(data, _common.as_whole_number("rng", self.rng, minimum=0), known, at)

    def _resolve(self, data: Data) -> Any:
        return self._read(data, self.columns_, self.threshold_)

    def _as_scores(self, data: Any, name: str | None = None) -> Any:
        return self._read(data, self.columns_ if name is None else None, name=name)

    @classmethod
    def from_evidence(cls, guarantee: Guarantee, evidence: Evidence, **options: Any) -> Self:
        """Return a predictor calibrated on evidence that was collected elsewhere.

        Parameters
        ----------
        guarantee, evidence : Guarantee and Evidence
            As in ``MetaPS.from_evidence``; the evidence names thresholds and seed.
        **options : object
            As there.

        Returns
        -------
        MetaRisk
            The calibrated predictor.
        """
        method = super().from_evidence(guarantee, evidence, **options)
        method.rng = (evidence.columns or {})["seed"]
        return method._mark_calibrated(method.precision_)

    def _check_not_per_class(self, method: str) -> None:
        raise InvalidInput(f"{method} is for scores of labels. Use make_site and combine_sites.")

    def _check_feasible(self, guarantee: Any, evidence: Any, outcomes: Any) -> list[bool]:
        feasible = super()._check_feasible(guarantee, evidence, outcomes)
        if outcomes[0].threshold == -np.inf and self.on_infeasible == "raise":
            tasks = np.sum(evidence.thresholds == -np.inf, axis=0).min()
            text = f"{keyword('epsilon', self.epsilon)} cannot be guaranteed at any threshold: the"
            text += f" lowest, {evidence.columns['thresholds'][0]:g}, is not certified in {tasks}"
            raise InfeasibleGuarantee(f"{text} tasks. Add lower ones, at which less is lost.")
        return feasible

    def _remark(self, outcome: Outcome) -> str:
        return "No threshold is certified: nothing is guaranteed." * (outcome.threshold == -np.inf)

    def _describe_draw(self) -> str:
        named = "key" if "id" in (self.columns_ or {}) else "place within its task"
        drawn = f"Losses are compared with random numbers, given by the seed {self.rng} and the "
        drawn += f"{named} of each; the confidence is over these numbers too."
        return f"{super()._describe_draw()} {drawn}".lstrip()

    def _restore(self, body: dict[str, Any]) -> None:
        super()._restore(body)
        columns: dict[str, Any] = self.columns_ or {}
        grid = [*_as_grid(columns.get("thresholds")), -np.inf]
        if columns.get("seed") != self.rng or not np.isin(self._evidence.thresholds, grid).all():
            text = f"the thresholds of the evidence and the seed {self.rng}"
            raise InvalidInput(f"columns must name {text}, got {brief(columns)}.")

    @staticmethod
    def missed_share(scores: Any, truth: Any, thresholds: ArrayLike) -> Floats:
        """Return the share of the true labels, pixels or spans of each example that is not kept.

        Parameters
        ----------
        scores, truth : sequence of array_like
            For each example, scores in any shape, and whether each is true. A true span that the
            model did not find has the score ``-inf``.
        thresholds : array_like, shape (thresholds,)
            Thresholds, ascending.

        Returns
        -------
        ndarray, shape (n, thresholds)
            Losses for ``calibrate``; 0 if nothing is true.

        Examples
        --------
        >>> from metapac import MetaRisk
        >>> MetaRisk.missed_share([[0.9, 0.2, 0.1]], [[True, True, False]], [0.1, 0.5, 1.0])
        array([[0. , 0.5, 1. ]])
        """
        grid, pairs = _as_grid(thresholds), _pair(scores, "truth", truth)
        if not all(np.isin(y, [0, 1]).all() for _s, y in pairs):
            raise InvalidInput("truth must say of each score whether it is true: True or False.")
        true = [np.sort(s[y.astype(bool)]) for s, y in pairs]
        return np.stack([np.searchsorted(s, grid) / max(1, len(s)) for s in true])

    @staticmethod
    def missed_cost(scores: ArrayLike, costs: ArrayLike, thresholds: ArrayLike) -> Floats:
        """Return what it costs that each example scores below the threshold.

        Weighted misses: scores of true labels, and what it costs to miss them. Wrong answers: how
        much the model doubts each answer, and whether it is wrong; answers whose doubt is below the
        threshold are given, and those that ``predict`` keeps are left to a person.

        Parameters
        ----------
        scores : array_like, shape (n,)
            Scores of the true labels, or doubts such as 1 minus the highest probability.
        costs : array_like, shape (n,)
            Costs between 0 and 1, such as 1 for a missed "yes" and 0.1 for a missed "no"; or 1 for
            a wrong answer and 0 for a right one.
        thresholds : array_like, shape (thresholds,)
            Thresholds, ascending.

        Returns
        -------
        ndarray, shape (n, thresholds)
            Losses for ``calibrate``.

        Examples
        --------
        >>> from metapac import MetaRisk
        >>> MetaRisk.missed_cost([0.3, 0.7], [1.0, 0.1], [0.5, 0.9])
        array([[1. , 1. ],
               [0. , 0.1]])
        """
        ((s, c),) = _pair([scores], "costs", [costs])
        return np.asarray(c[:, None] * (s[:, None] < _as_grid(thresholds)))

    @staticmethod
    def capped_distance(scores: Any, distances: Any, thresholds: ArrayLike, limit: float) -> Floats:
        """Return the distance of the truth to the nearest candidate that is kept, up to a limit.

        Parameters
        ----------
        scores, distances : sequence of array_like
            For each example, scores of candidates, and their distances from the truth.
        thresholds : array_like, shape (thresholds,)
            Thresholds, ascending.
        limit : float
            Distance that counts as a loss of 1, as farther ones do, and no candidate.

        Returns
        -------
        ndarray, shape (n, thresholds)
            Losses for ``calibrate``: distances divided by the limit.

        Examples
        --------
        >>> from metapac import MetaRisk
        >>> MetaRisk.capped_distance([[0.9, 0.3]], [[4.0, 1.0]], [0.2, 0.5, 1.0], limit=10)
        array([[0.1, 0.4, 1. ]])
        """
        if not limit > 0:
            raise InvalidInput(f"limit must be above 0, got {limit!r}.")
        pairs, grid = _pair(scores, "distances", distances), _as_grid(thresholds).tolist()
        return np.array([[d[s >= t].min(initial=limit) / limit for t in grid] for s, d in pairs])
