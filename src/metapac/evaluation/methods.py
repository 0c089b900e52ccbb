"""Methods that choose a threshold for new tasks, each with the guarantee it is run at."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from metapac._selection import kth_smallest
from metapac._types import Array
from metapac.binomial import allowed_errors
from metapac.evaluation.descriptions import digest_code
from metapac.evaluation.draws import Draw
from metapac.evaluation.ordered import ordered_evidence
from metapac.exceptions import InvalidInput
from metapac.guarantee import Guarantee
from metapac.meta_cp.corrections import Correction
from metapac.meta_cp.estimator import MetaCP
from metapac.planning import plan
from metapac.sample_size import min_sample_size

SECOND_DELTA = 0.1  # of the paper's figure that compares two deltas


@dataclass(frozen=True, eq=False)
class Chosen:
    """Thresholds chosen for new tasks, and whether the data could support the guarantee.

    Parameters
    ----------
    thresholds : ndarray, shape (tests,)
        One for each new task; ``-inf`` where the guarantee is infeasible (every label is kept).
    feasible : ndarray of bool, shape (tests,)
        Whether there were enough data for the guarantee.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac.evaluation import Chosen
    >>> Chosen(thresholds=np.array([0.4]), feasible=np.array([True]))
    Chosen(thresholds=array([0.4]), feasible=array([ True]))
    """

    thresholds: Array
    feasible: Array


# A named function, since a rule travels to other processes and a lambda cannot be pickled.
def _more_data(g: Guarantee) -> str:
    return "more tasks or examples"


@dataclass(frozen=True)
class Rule:
    """A way to choose thresholds, and what it requires in words.

    Parameters
    ----------
    choose : callable
        Takes a draw and a guarantee, returns `Chosen`.
    requirement : callable, optional
        Takes a guarantee, returns how much data it needs, in words.
    needs_quantiles : bool, default False
        Whether it needs predicted quantiles.
    version : str, optional
        Version of the code, as in `Method`; "1" for the rules of this library until they change.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation.methods import META_PS
    >>> META_PS.requirement(Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5, split="tight"))
    '116 tasks of 29 examples'
    """

    choose: Callable[[Draw, Guarantee], Chosen]
    requirement: Callable[[Guarantee], str] = field(default_factory=lambda: _more_data)
    needs_quantiles: bool = False
    version: str | None = None


@dataclass(frozen=True)
class Method:
    """A rule with the guarantee it is run at, and the name it has in the rows.

    Parameters
    ----------
    name : str
        Name of the method.
    rule : Rule
        How thresholds are chosen.
    guarantee : Guarantee
        The guarantee to aim at.
    version : str, optional
        Version of the rule's code, to be changed whenever its results may change: a folder of
        ``evaluate`` never mixes two. By default the rule's; without one, a checksum of the code.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import Method
    >>> from metapac.evaluation.methods import PS
    >>> method = Method("pooled", PS, Guarantee(epsilon=0.1, alpha=0.1, delta=0.05))
    """

    name: str
    rule: Rule
    guarantee: Guarantee
    version: str | None = None

    def choose(self, draw: Draw) -> Chosen:
        """Return the thresholds of this method on one draw.

        Parameters
        ----------
        draw : Draw
            The draw.

        Returns
        -------
        Chosen
            Thresholds, and whether the guarantee is feasible.

        Raises
        ------
        InvalidInput
            If the rule returns something else.
        """
        chosen = self.rule.choose(draw, self.guarantee)
        arrays = (chosen.thresholds, chosen.feasible) if isinstance(chosen, Chosen) else (None,)
        if any(np.shape(array) != (len(draw.tests),) for array in arrays):
            raise InvalidInput(
                f"the rule of method {self.name!r} must return Chosen(thresholds, feasible), two "
                f"arrays with a value for each of {len(draw.tests)} new tasks, got {chosen!r}."
            )
        return chosen

    def describe(self) -> dict[str, Any]:
        """Return name, rule, version and guarantee as JSON can hold them.

        Returns
        -------
        dict
            The description.

        Raises
        ------
        InvalidInput
            If the method has no version and the code of its rule cannot be compared.
        """
        choose = self.rule.choose
        return {
            "name": self.name,
            "rule": getattr(choose, "__name__", type(choose).__name__).strip("_"),
            "version": self.version or self.rule.version or self._digest(),
            **self.guarantee.describe(),
        }

    def _digest(self) -> str:
        try:
            return digest_code(self.rule.choose)
        except Exception as error:  # whatever a value that the rule uses raises
            raise InvalidInput(
                f"method {self.name!r}: a stored evaluation could not notice that its rule changed "
                f'({error}). Pass Method(..., version="1"), and another version after a change.'
            ) from error


def paper_methods(guarantee: Guarantee, *, second_delta: float | None = None) -> tuple[Method, ...]:
    """Return the paper's four methods, our splits and an oracle.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee to aim at.
    second_delta : float, optional
        Another delta, at which Meta-CP and the even and tight splits are run too, as for the
        paper's figure that compares two deltas.

    Returns
    -------
    tuple of Method
        The methods.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import paper_methods
    >>> methods = paper_methods(Guarantee(epsilon=0.1, alpha=0.1, delta=0.1))
    >>> [method.name for method in methods]
    ['PS', 'PS-Test', 'Meta-CP', 'Meta-PS even', 'Meta-PS tight', 'Meta-PS joint', 'oracle']
    """
    even, tight, joint = (replace(guarantee, split=split) for split in ("even", "tight", "joint"))
    methods = (
        Method("PS", PS, guarantee),
        Method("PS-Test", PS_TEST, guarantee),
        Method("Meta-CP", META_CP, guarantee),
        Method("Meta-PS even", META_PS, even),
        Method("Meta-PS tight", META_PS, tight),
        Method("Meta-PS joint", META_PS, joint),
        Method("oracle", ORACLE, guarantee),
    )
    if second_delta in (None, guarantee.delta):
        return methods
    loose = replace(guarantee, delta=second_delta)
    return (
        *methods,
        Method("Meta-CP", META_CP, loose),
        Method("Meta-PS even", META_PS, replace(loose, split="even")),
        Method("Meta-PS tight", META_PS, replace(loose, split="tight")),
    )


def describe_need(guarantee: Guarantee, name: str, delta: float) -> str | None:
    """Return how much data one of the paper's methods needs, in words.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee to aim at.
    name : str
        Name of the method.
    delta : float
        Its delta.

    Returns
    -------
    str or None
        The need; None if the paper has no such method.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation.methods import describe_need
    >>> describe_need(Guarantee(epsilon=0.1, alpha=0.1, delta=0.05), "PS-Test", 0.05)
    '29 labels'
    """
    methods = {method.name: method for method in paper_methods(replace(guarantee, delta=delta))}
    method = methods.get(name)
    return None if method is None else method.rule.requirement(method.guarantee)


def _ps(draw: Draw, g: Guarantee) -> Chosen:
    """PS: all calibration scores pooled, as if they came from one task."""
    scores = draw.ordered.scores
    errors = allowed_errors(len(scores), g.miss_rate, g.failure_probability)
    if errors < 0:
        return same_for_all(draw, -math.inf, feasible=False)
    return same_for_all(draw, kth_smallest(scores, errors) + 0.0)  # no negative zero


def _ps_test(draw: Draw, g: Guarantee) -> Chosen:
    """PS-Test: labelled examples of the new task itself."""
    known = [test.labelled_scores for test in draw.tests]
    errors = allowed_errors([*map(len, known)], g.miss_rate, g.failure_probability)
    cuts = [
        np.partition(scores, k)[k] + 0.0 if k >= 0 else -math.inf  # no negative zero
        for scores, k in zip(known, errors.tolist(), strict=True)
    ]
    return Chosen(np.array(cuts, float), errors >= 0)


def _meta_ps(draw: Draw, g: Guarantee) -> Chosen:
    """Meta-PS: a threshold for each calibration task, then one for all new tasks."""
    (part,) = ordered_evidence(draw.ordered, g).parts(g)
    return same_for_all(draw, part.outcome().threshold, feasible=part.demand().is_feasible())


def _meta_cp(draw: Draw, g: Guarantee) -> Chosen:
    """Meta-CP: a predicted quantile for each task, plus an offset from the calibration tasks."""
    assert draw.quantiles is not None  # evaluate_draw leaves the method out without them
    levels = {"epsilon": g.miss_rate, "delta": g.failure_probability}
    method = MetaCP(**levels, over="examples", on_infeasible="trivial")
    method.calibrate_grouped(draw.ordered, draw.quantiles)
    correction = Correction(method.correction_, method.split_)
    feasible = correction.leaves_room(g.miss_rate, len(method.tasks_))
    predicted = [test.quantile for test in draw.tests if test.quantile is not None]
    cuts = [method.threshold(quantile) for quantile in predicted]
    return Chosen(np.array(cuts), np.full(len(cuts), feasible))


def _oracle(draw: Draw, g: Guarantee) -> Chosen:
    """A lower bound for set size: the largest threshold that is valid on the test examples."""
    cuts = [test.largest_threshold(g.miss_rate) for test in draw.tests]
    return Chosen(np.array(cuts), np.ones(len(cuts), dtype=bool))


def same_for_all(draw: Draw, cut: float, *, feasible: bool = True) -> Chosen:
    """Return one threshold for all new tasks of a draw.

    Parameters
    ----------
    draw : Draw
        The draw.
    cut : float
        The threshold.
    feasible : bool, default True
        Whether there were enough data for the guarantee.

    Returns
    -------
    Chosen
        The threshold, for each new task.
    """
    return Chosen(np.full(len(draw.tests), cut), np.full(len(draw.tests), feasible))


def _labels(g: Guarantee) -> str:
    return f"{min_sample_size(g.miss_rate, g.failure_probability)} labels"


def _tasks(g: Guarantee) -> str:
    needed = plan(
        epsilon=g.miss_rate, alpha=g.alpha, delta=g.delta, split=g.split, allow=["levels"]
    )
    return f"{needed.tasks} tasks of {needed.examples_per_task} examples"


# Raise the version of a rule whenever its thresholds change: stored rows are then refused.
PS = Rule(_ps, _labels, version="1")
PS_TEST = Rule(_ps_test, _labels, version="1")
META_PS = Rule(_meta_ps, _tasks, version="1")
META_CP = Rule(_meta_cp, needs_quantiles=True, version="1")
ORACLE = Rule(_oracle, version="1")
