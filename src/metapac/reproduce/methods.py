"""The methods of the stored results: the paper's, ours, related ones, and a grid search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._types import Array, Counts, Floats
from metapac.evaluation import Method, neighbour_methods, paper_methods
from metapac.evaluation.draws import Draw
from metapac.evaluation.methods import (
    META_CP,
    META_PS,
    PS_TEST,
    SECOND_DELTA,
    Chosen,
    Rule,
    same_for_all,
)
from metapac.guarantee import Guarantee

STEP = 1e-7  # of the grid that the published research code searches
GRID_NAME = "Meta-PS even, grid"


def all_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return all methods of the results page.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee to aim at.

    Returns
    -------
    tuple of Method
        The paper's methods, our splits, the oracle, related methods and the grid search; at the
        second delta also those whose guarantee depends on delta.
    """
    methods = paper_methods(guarantee, second_delta=SECOND_DELTA)
    even = replace(guarantee, split="even")
    methods += (*neighbour_methods(guarantee), Method(GRID_NAME, GRID, even))
    if guarantee.delta == SECOND_DELTA:
        return methods
    loose = replace(guarantee, delta=SECOND_DELTA)
    joint = replace(loose, split="joint")
    return (*methods, Method("PS-Test", PS_TEST, loose), Method("Meta-PS joint", META_PS, joint))


def main_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return the paper's methods, our splits, the oracle and related methods, at one delta.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee to aim at.

    Returns
    -------
    tuple of Method
        The methods.
    """
    return paper_methods(guarantee) + neighbour_methods(guarantee)


def split_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return Meta-PS with each split, and the oracle.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee to aim at.

    Returns
    -------
    tuple of Method
        The methods.
    """
    names = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")
    return tuple(method for method in paper_methods(guarantee) if method.name in names)


def meta_cp_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return Meta-CP at both deltas.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee to aim at.

    Returns
    -------
    tuple of Method
        The methods.
    """
    both = dict.fromkeys((guarantee, replace(guarantee, delta=SECOND_DELTA)))
    return tuple(Method("Meta-CP", META_CP, each) for each in both)


def _grid_search(draw: Draw, g: Guarantee) -> Chosen:
    """Meta-PS by searching a grid, as the research code does: Clopper-Pearson bounds, twice."""
    ordered = draw.ordered
    samples = np.split(ordered.scores, np.cumsum(ordered.sizes)[:-1])
    of_tasks = search_grid(samples, g.miss_rate, g.alpha / 2)
    (cut,) = search_grid([np.sort(of_tasks)], g.alpha / 2, g.failure_probability)
    return same_for_all(draw, float(cut), feasible=bool(np.isfinite(cut)))


def search_grid(samples: Sequence[Array], epsilon: float, delta: float) -> Floats:
    """Return for each sample the largest step of the grid whose error is certified.

    Parameters
    ----------
    samples : sequence of ndarray
        Scores from 0 to 1, each sample sorted.
    epsilon : float
        Miss rate allowed.
    delta : float
        Probability with which the Clopper-Pearson bound may fail.

    Returns
    -------
    ndarray, shape (samples,)
        The thresholds, found by bisection; ``-inf`` where even the step 0 is too large.
    """
    sizes = np.array([len(sample) for sample in samples])

    def is_valid(steps: Counts) -> NDArray[np.bool_]:
        cuts = zip(samples, steps * STEP, strict=True)
        below = np.array([np.searchsorted(sample, cut) for sample, cut in cuts])
        bound = special.betaincinv(below + 1, np.maximum(sizes - below, 1), 1 - delta)
        return np.asarray((below < sizes) & (bound <= epsilon))

    low = np.zeros(len(samples), dtype=np.int64)
    high = np.full_like(low, round(1 / STEP) + 1)  # above all scores
    feasible = is_valid(low)
    while (high - low > 1).any():
        middle = (low + high) // 2
        valid = is_valid(middle)
        low, high = np.where(valid, middle, low), np.where(valid, high, middle)
    return np.where(feasible, low * STEP, -np.inf)


GRID = Rule(_grid_search, version="1")
