"""The paper's claims, checked on rows made by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from metapac import Guarantee
from metapac.evaluation import (
    Rows,
)
from metapac.reproduce.claims import check_claims

G = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)


def table(
    errors: Sequence[Sequence[float]],
    sizes: Sequence[Sequence[float]] | None = None,
    *,
    method: str = "PS",
    delta: float = G.failure_probability,
    feasible: bool = True,
) -> Rows:
    """Rows of one method, from the errors of the tasks of each draw."""
    shape = np.shape(errors)
    count = int(np.prod(shape))
    return Rows(
        draw=np.repeat(np.arange(shape[0]), shape[1]),
        method=np.full(count, method),
        delta=np.full(count, delta),
        task=np.tile(np.arange(shape[1]), shape[0]),
        threshold=np.zeros(count),
        feasible=np.full(count, feasible),
        error=np.ravel(errors),
        size=np.ones(count) if sizes is None else np.ravel(sizes),
    )


def claims(*parts: Rows) -> dict[str, bool]:
    return {v.claim.split(":")[0]: v.holds for v in check_claims(Rows.concatenate(parts), G)}


def test_the_papers_claims_are_checked_at_the_90th_percentile() -> None:
    low, edge, high = [[0.05] * 10], [[0.1] * 10], [[0.0] * 8 + [0.3] * 2]
    assert claims(table(low, method="Meta-PS even"), table(high, method="PS")) == {
        "Meta-PS even": True,
        "PS": True,
    }
    assert claims(table(edge, method="Meta-PS tight"), table(edge, method="Meta-CP")) == {
        "Meta-PS tight": True,
        "Meta-CP": False,
    }
    assert claims(table(high, method="Meta-PS joint"), table(low, method="PS")) == {
        "Meta-PS joint": False,
        "PS": False,
    }


def test_a_guarantee_satisfied_by_keeping_every_label_proves_nothing() -> None:
    assert claims(table([[0.0]], method="Meta-PS even", feasible=False)) == {"Meta-PS even": False}


def test_claims_are_made_at_the_delta_of_the_guarantee_only() -> None:
    strict = G.failure_probability
    strict_rows, loose = (
        table([[e]], method="PS", delta=d) for e, d in ((0.3, strict), (0.1, 0.5))
    )
    assert claims(strict_rows, loose) == claims(loose, strict_rows) == {"PS": True}


@pytest.mark.parametrize(
    ("error", "size", "holds"),
    [(0.08, 2.1, True), (0.08, 2.0, False), (0.04, 1.0, True), (0.041, 2.0, False)],
)
def test_ps_test_is_larger_or_far_more_conservative(error: float, size: float, holds: bool) -> None:
    result = check_claims(
        Rows.concatenate(
            [
                table([[error]], [[size]], method="PS-Test"),
                table([[0.08]], [[2.0]], method="Meta-PS even"),
            ]
        ),
        G,
    )[-1]
    assert result.claim == (
        "PS-Test: its sets are larger on average than those of Meta-PS even, or its 90th "
        "percentile of error is at most 1/2 of that of Meta-PS even"
    )
    assert result.holds == holds
    assert result.numbers["error_90"] == pytest.approx(error)
    assert result.numbers["size of Meta-PS even"] == 2


def test_two_trivial_methods_are_equal() -> None:
    rows = [table([[0.0]], method=name, feasible=False) for name in ("PS-Test", "Meta-PS even")]
    assert not claims(*rows)["PS-Test"]


def test_a_claim_has_its_numbers() -> None:
    (result,) = check_claims(table([[0.0, 0.3], [0.3, 0.3]], [[1, 2], [3, 4]]), G)
    assert result.claim == "PS: the 90th percentile of error is above epsilon = 0.1"
    assert result.numbers == {
        "size": 2.5, "error_90": pytest.approx(0.3), "tasks_within": 0.25,
        "draws_within": 0.0, "feasible": 1.0,
    }  # fmt: skip
