"""The paper's claims, checked on rows made by hand."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from metapac import Guarantee
from metapac.evaluation import Rows
from metapac.reproduce.claims import SOURCES, check_claims
from metapac.reproduce.experiments import EXPERIMENTS
from tests.helpers.studies import method_rows as table

G = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)
LOW, EDGE, HIGH = ([[error] * 10] * 5 for error in (0.05, 0.1, 0.3))
FEW = [[0.0] * 8 + [0.3] * 2] * 5  # as many above epsilon as alpha allows
MORE = [[0.0] * 7 + [0.3] * 3] * 5


def claims(*parts: Rows) -> dict[str, str]:
    return {c.claim.split(":")[0]: c.status for c in check_claims(Rows.concatenate(parts), G)}


def test_a_claim_is_checked_at_the_quantile_of_the_guarantee() -> None:
    assert claims(table(LOW, method="Meta-PS even"), table(HIGH, method="PS")) == {
        "Meta-PS even": "holds",
        "PS": "holds",
    }
    assert claims(table(EDGE, method="Meta-PS tight"), table(EDGE, method="Meta-CP")) == {
        "Meta-PS tight": "holds",
        "Meta-CP": "does not hold",
    }
    assert claims(table(HIGH, method="Meta-PS joint"), table(LOW, method="PS")) == {
        "Meta-PS joint": "does not hold",
        "PS": "does not hold",
    }
    # As many tasks are above epsilon as may be: that fewer are in truth is not settled.
    assert claims(table(FEW, method="Meta-PS even"), table(FEW, method="PS")) == {
        "Meta-PS even": "cannot tell yet",
        "PS": "cannot tell yet",
    }


def test_what_noise_can_explain_is_undecided() -> None:
    # 30 % of the tasks are seen above epsilon, and 20 % may be: 50 tasks cannot tell.
    assert claims(table(MORE, method="Meta-PS even"), table(MORE, method="PS")) == {
        "Meta-PS even": "cannot tell yet",
        "PS": "cannot tell yet",
    }
    # 50 draws can, if the errors are exact or counted on many examples, but not on ten.
    many = MORE * 10
    for examples, status in ((0, "holds"), (500, "holds"), (10, "cannot tell yet")):
        assert claims(table(many, method="PS", examples=examples)) == {"PS": status}
    assert claims(table(many, method="Meta-PS even")) == {"Meta-PS even": "does not hold"}


def test_a_guarantee_satisfied_by_keeping_every_label_proves_nothing() -> None:
    trivial = table([[0.0]], method="Meta-PS even", feasible=False)
    assert claims(trivial) == {"Meta-PS even": "cannot be checked"}


def test_claims_are_made_at_the_delta_of_the_guarantee_only() -> None:
    strict, loose = (table(e, delta=d) for e, d in ((HIGH, 0.05), (LOW, 0.5)))
    assert claims(strict, loose) == claims(loose, strict) == {"PS": "holds"}


@pytest.mark.parametrize(
    ("shift", "spread", "status"),
    [
        (0.1, 0.0, "holds"),
        (-0.1, 0.0, "does not hold"),
        (0.1, 1.0, "cannot tell yet"),
        (0.0, 0.0, "cannot tell yet"),
    ],
)
def test_ps_test_has_larger_sets_beyond_doubt(shift: float, spread: float, status: str) -> None:
    errors, sizes = np.full((4, 2), 0.05), np.full((4, 2), 2.0)
    wobble = spread * np.array([[1, 1], [-1, -1], [1, 1], [-1, -1]])
    rows = Rows.concatenate(
        [
            table(errors, sizes + shift + wobble, method="PS-Test"),
            table(errors, sizes, method="Meta-PS even"),
        ]
    )
    result = check_claims(rows, G)[-1]
    assert result.claim == "PS-Test: its sets are larger on average than those of Meta-PS even"
    assert result.status == status
    assert result.holds == (status == "holds")
    assert result.numbers["size of Meta-PS even"] == 2


def test_two_trivial_methods_cannot_be_compared() -> None:
    rows = [table(LOW, method=name, feasible=False) for name in ("PS-Test", "Meta-PS even")]
    assert claims(*rows)["PS-Test"] == "cannot be checked"


def test_a_claim_has_its_numbers_and_its_source() -> None:
    (result,) = check_claims(table([[0.0, 0.3], [0.3, 0.3]], [[1, 2], [3, 4]]), G)
    assert result.claim == "PS: the 80 % quantile of error is above epsilon = 0.1"
    assert result.numbers == {
        "size": 2.5, "error_quantile": 0.3, "tasks_within": 0.25, "tasks_above": 0.75,
        "draws_within": 0.0, "feasible": 1.0,
    }  # fmt: skip
    assert result.source == (
        'Figure 3(a): "However, PS and Meta-CP do not empirically satisfy the meta PAC criterion, '
        'and PS-Test is too conservative."'
    )


@pytest.mark.parametrize("data", [*SOURCES, "glyphs"])
def test_every_claim_cites_a_figure_and_a_sentence(data: str) -> None:
    names: Any = ("Meta-PS even", "PS", "Meta-CP", "PS-Test")
    rows = Rows.concatenate([table(LOW, method=name) for name in names])
    result = check_claims(rows, G, data)
    assert len(result) == 4
    for claim in result:
        assert re.fullmatch(r'Figure [3458]\([ab]\): ".+[.t]"', claim.source)


def test_every_data_set_of_the_paper_has_its_sentences() -> None:
    assert {e.data for e in EXPERIMENTS.values()} - {"glyphs"} == set(SOURCES)
