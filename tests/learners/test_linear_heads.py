"""Heads against exact arithmetic: their rounding error is within the bound they state."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metapac.fewshot.learners.vectors import (
    SupportSets,
    fit_cosine,
    fit_euclidean,
    fit_ridge,
    to_unit_length,
)


def draw(seed: int, scale: float, offset: float, size: int, width: int) -> tuple[Any, Any, Any]:
    """Support vectors (s, d), indicators of 3 labels, the last perhaps absent, and queries."""
    rng = np.random.default_rng(seed)
    support = offset + scale * rng.normal(size=(size, width))
    query = offset + scale * rng.normal(size=(4, width))
    labels = rng.integers(0, 3, size)
    return support, (labels[:, None] == np.arange(3)).astype(float), query


def exact(matrix: Any) -> list[list[Fraction]]:
    return [[Fraction(float(value)) for value in row] for row in matrix]


def means(rows: list[list[Fraction]], one_hot: Any) -> dict[int, list[Fraction]]:
    result = {}
    for label in range(one_hot.shape[1]):
        members = [row for row, is_member in zip(rows, one_hot[:, label], strict=True) if is_member]
        if members:
            result[label] = [sum(column) / len(members) for column in zip(*members, strict=True)]
    return result


def assert_within(head: Any, query: Any, reference: Any, one_hot: Any) -> None:
    """Differences of logits are those of the reference, up to an error each."""
    logits, error = head.logits(query[None])
    present = np.flatnonzero(one_hot.any(0))
    assert np.isneginf(np.delete(logits[0], present, axis=1)).all()
    for row, bound, expected in zip(logits[0], error[0], reference, strict=True):
        for a in present:
            for b in present:
                wrong = abs(Fraction(row[a]) - Fraction(row[b]) - (expected[a] - expected[b]))
                assert wrong <= 2 * Fraction(bound)


ordinary = {
    "seed": st.integers(0, 10**6),
    "scale": st.sampled_from([1e-3, 1.0, 1e3]),
    "offset": st.sampled_from([0.0, 1.0, 1e6]),
}


@settings(max_examples=60)
@given(**ordinary, temperature=st.sampled_from([1.0, 0.01]))
def test_euclidean_logits_are_within_their_bound(
    seed: int, scale: float, offset: float, temperature: float
) -> None:
    support, one_hot, query = draw(seed, scale, offset, size=5, width=6)
    centres = means(exact(support), one_hot)
    reference = [
        {c: -sum((a - b) ** 2 for a, b in zip(q, p, strict=True)) for c, p in centres.items()}
        for q in exact(query)
    ]
    scaled = [{c: v / Fraction(temperature) for c, v in row.items()} for row in reference]
    head = fit_euclidean(SupportSets(support[None], one_hot[None]), temperature)
    assert_within(head, query, scaled, one_hot)
    logits = head.logits(query[None])[0][0]
    for row, expected in zip(logits, scaled, strict=True):  # not only their differences
        for c, value in expected.items():
            assert row[c] == pytest.approx(float(value), rel=1e-6, abs=1e-20)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), reach=st.sampled_from([0.0, 1e3, 1e6]))
def test_euclidean_bounds_hold_at_the_centre_and_far_from_it(seed: int, reach: float) -> None:
    support, one_hot, query = draw(seed, 1.0, 0.0, size=5, width=6)
    query = support.mean(0) + reach * query
    centres = means(exact(support), one_hot)
    reference = [
        {c: -sum((a - b) ** 2 for a, b in zip(q, p, strict=True)) for c, p in centres.items()}
        for q in exact(query)
    ]
    head = fit_euclidean(SupportSets(support[None], one_hot[None]), 1.0)
    assert_within(head, query, reference, one_hot)


@settings(max_examples=40)
@given(**ordinary)
def test_cosines_are_within_their_bound(seed: int, scale: float, offset: float) -> None:
    support, one_hot, query = draw(seed, scale, offset, size=5, width=6)
    wide = np.longdouble
    prototypes = one_hot.T.astype(wide) @ support.astype(wide)
    with np.errstate(invalid="ignore"):
        prototypes = prototypes / np.sqrt((prototypes**2).sum(1, keepdims=True))
    unit = query.astype(wide) / np.sqrt((query.astype(wide) ** 2).sum(1, keepdims=True))
    head = fit_cosine(SupportSets(support[None], one_hot[None]), 0.5)
    logits, error = head.logits(query[None])
    present = one_hot.any(0)
    wrong = np.abs(logits[0] - unit @ prototypes.T / 0.5)[:, present]
    assert (wrong <= error[0][:, None]).all()


def solve(matrix: list[list[Fraction]], right: list[list[Fraction]]) -> list[list[Fraction]]:
    """Gauss-Jordan elimination without rounding."""
    rows = [[*a, *b] for a, b in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k, row in enumerate(rows):
            if k != i and row[i]:
                rows[k] = [a - row[i] * b for a, b in zip(row, rows[i], strict=True)]
    return [row[len(matrix) :] for row in rows]


def exact_ridge(support: Any, one_hot: Any, query: Any, penalty: float) -> list[list[Fraction]]:
    """Logits of ridge regression without rounding."""
    size, width = support.shape
    rows, targets = exact(support), exact(one_hot)
    centre = [sum(column) / size for column in zip(*rows, strict=True)]
    share = [sum(column) / size for column in zip(*targets, strict=True)]
    z = [[a - b for a, b in zip(row, centre, strict=True)] for row in rows]
    y = [[a - b for a, b in zip(row, share, strict=True)] for row in targets]
    gram = [
        [sum(r[i] * r[j] for r in z) + (i == j) * Fraction(penalty) for j in range(width)]
        for i in range(width)
    ]
    right = [[sum(z[k][i] * y[k][c] for k in range(size)) for c in range(3)] for i in range(width)]
    weights = solve(gram, right)
    return [
        [sum((q[i] - centre[i]) * weights[i][c] for i in range(width)) + share[c] for c in range(3)]
        for q in exact(query)
    ]


@settings(max_examples=25, deadline=None)
@given(
    **ordinary,
    size=st.sampled_from([3, 6]),
    width=st.sampled_from([2, 4]),
    penalty=st.sampled_from([1e-3, 1.0]),
)
def test_ridge_logits_are_within_their_bound(
    seed: int, scale: float, offset: float, size: int, width: int, penalty: float
) -> None:
    support, one_hot, query = draw(seed, scale, offset, size, width)
    reference = exact_ridge(support, one_hot, query, penalty)
    assert_within(
        fit_ridge(SupportSets(support[None], one_hot[None]), penalty, 1.0),
        query,
        reference,
        one_hot,
    )


@pytest.mark.parametrize("size", [3, 8])  # the dual, and the primal
@pytest.mark.parametrize("seed", range(5))
def test_ridge_that_amplifies_rounding_says_so(size: int, seed: int) -> None:
    # Columns that are nearly the same, and hardly a penalty: errors are far above one unit.
    support, one_hot, query = draw(seed, 1.0, 0.0, size, 4)
    support[:, 1:] = support[:, :1] + 1e-5 * support[:, 1:]
    reference = exact_ridge(support, one_hot, query, 1e-12)
    head = fit_ridge(SupportSets(support[None], one_hot[None]), 1e-12, 1.0)
    assert_within(head, query, reference, one_hot)
    present = one_hot.any(0)
    wrong = head.logits(query[None])[0][0] - np.array(reference, dtype=float)
    assert np.ptp(wrong[:, present], axis=1).max() > 1e-9


def test_many_tasks_are_fitted_as_one_by_one() -> None:
    drawn = [draw(seed, 1.0, 0.0, 5, 6) for seed in range(4)]
    support, one_hot, query = (np.stack(part) for part in zip(*drawn, strict=True))
    for fit in (fit_euclidean, fit_cosine):
        logits = fit(SupportSets(support, one_hot), 1.0).logits(query)[0]
        for i in range(4):
            one = slice(i, i + 1)
            alone = fit(SupportSets(support[one], one_hot[one]), 1.0).logits(query[one])[0]
            np.testing.assert_allclose(logits[i], alone[0], rtol=1e-10)


def test_unit_length_keeps_zeros() -> None:
    actual = to_unit_length(np.array([[3.0, 4.0], [0.0, 0.0]]))
    assert actual.tolist() == [[0.6, 0.8], [0.0, 0.0]]
