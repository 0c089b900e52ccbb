"""The paper's claims, checked on rows made by hand."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from metapac import Guarantee
from metapac.fewshot.reproduce import experiments
from metapac.fewshot.reproduce.claims import SOURCES, Claim, check_claims
from metapac.fewshot.study.rows import Rows
from tests.helpers.studies import method_rows as table

G = Guarantee(epsilon=0.1, alpha=0.2, delta=0.05)
LOW, EDGE, HIGH = ([[error] * 10] * 5 for error in (0.05, 0.1, 0.3))
FEW = [[0.0] * 8 + [0.3] * 2] * 5  # as many above epsilon as alpha allows
MORE = [[0.0] * 7 + [0.3] * 3] * 5
YES, NO, OPEN, NEVER = "agrees", "does not agree", "cannot tell yet", "cannot be checked"


def check(rows: Rows | Sequence[Rows], data: str = "miniimagenet") -> list[Claim]:
    return check_claims(rows, G, data)


def claims(*parts: Rows) -> dict[str, str]:
    return {c.claim.split(":")[0]: c.status for c in check(Rows.concatenate(parts))}


def test_a_claim_is_checked_at_the_quantile_of_the_guarantee() -> None:
    cases: list[tuple[Any, int, str, str]] = [  # errors, examples of a task, Meta-PS, PS
        (LOW, 0, YES, NO),
        (EDGE, 0, YES, NO),
        (HIGH, 0, NO, YES),
        (FEW, 0, OPEN, OPEN),  # that fewer are above epsilon in truth is not settled
        (MORE, 0, OPEN, OPEN),  # 30 % are above, and 20 % may be: 50 tasks cannot tell
        (MORE * 10, 0, NO, YES),
        (MORE * 10, 500, NO, YES),
        (MORE * 10, 10, OPEN, OPEN),  # errors counted on ten examples may be noise
    ]
    for errors, examples, valid, invalid in cases:
        for names, status in (
            (("Meta-PS even", "Meta-PS tight", "Meta-PS joint"), valid),
            (("PS", "Meta-CP"), invalid),
        ):
            parts = [table(errors, method=name, examples=examples) for name in names]
            assert claims(*parts) == dict.fromkeys(names, status)


def test_keeping_every_label_proves_nothing() -> None:
    for name in ("Meta-PS even", "PS", "Meta-CP"):
        assert claims(table(LOW, method=name, feasible=False)) == {name: NEVER}
    both = [table(LOW, method=name, feasible=False) for name in ("PS-Test", "Meta-PS even")]
    assert claims(*both)["PS-Test"] == NEVER
    for errors, status in ((LOW, YES), (HIGH, NO)):  # unless it is on some tasks only
        rows = table(errors, method="Meta-PS joint")
        assert claims(replace(rows, feasible=np.arange(len(rows)) > 0)) == {"Meta-PS joint": status}


def test_claims_are_made_at_the_delta_of_the_guarantee_only() -> None:
    strict, loose = (table(e, delta=d) for e, d in ((HIGH, 0.05), (LOW, 0.5)))
    assert claims(strict, loose) == claims(loose, strict) == {"PS": YES}


def sizes_of(shift: Any, feasible: bool = True) -> Rows:
    """PS-Test beside Meta-PS even, whose sets are smaller by ``shift`` in each draw."""
    errors, sizes = np.full((4, 2), 0.05), np.full((4, 2), 2.0)
    larger = sizes + np.reshape(shift, (-1, 1))
    ps_test = table(errors, larger, method="PS-Test", feasible=feasible)
    return Rows.concatenate([ps_test, table(errors, sizes, method="Meta-PS even")])


def test_ps_test_has_larger_sets_beyond_doubt() -> None:
    wide = 0.1 + np.array([1, -1, 1, -1])
    for shift, status in ((0.1, YES), (-0.1, NO), (wide, OPEN), (0.0, OPEN)):
        result = check(sizes_of(shift))[-1]
        assert result.claim == "PS-Test: its sets are larger on average than those of Meta-PS even"
        assert (result.status, result.agrees) == (status, status == YES)
        assert result.numbers["size of Meta-PS even"] == 2
    assert check(sizes_of(3.0, feasible=False))[-1].agrees  # all labels: it is conservative


def test_seeds_are_judged_together() -> None:
    # 30 % of 50 tasks may be chance; of 500 tasks, in ten seeds of five draws, they are not.
    seeds = [table(MORE, method="PS", examples=500) for _ in range(10)]
    assert [check(rows)[0].status for rows in (seeds[0], seeds)] == [OPEN, YES]
    for shifts, status in (((0.1, 0.1), YES), ((0.1, 0.1, 0.9), OPEN), ((1.0, 1.1, 0.9), YES)):
        assert check([sizes_of(shift) for shift in shifts])[-1].status == status


# The constants of the experiments, and the search of a grid


def test_claims_of_the_paper_cite_a_figure_and_a_sentence_and_others_do_not() -> None:
    assert {e.data for e in experiments.EXPERIMENTS.values()} - {"glyphs"} == set(SOURCES)
    names = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint", "PS", "Meta-CP", "PS-Test", "HCP")
    rows = Rows.concatenate([table(LOW, method=name) for name in names])
    for data in (*SOURCES, "glyphs"):
        for claim, method in zip(check(rows, data), names[:-1], strict=True):
            assert claim.claim.startswith(f"{method}:")
            if data == "glyphs" or method in ("Meta-PS tight", "Meta-PS joint"):
                assert claim.source == "not in the paper"
            else:
                panel = "b" if method == "PS-Test" else "a"
                assert re.fullmatch(rf'Figure [3458]\({panel}\): ".+[.t]"', claim.source)


MINI = experiments.EXPERIMENTS["miniimagenet"]


def test_the_description_says_all_that_matters() -> None:
    for name, e in experiments.EXPERIMENTS.items():
        described = e.describe()
        assert json.loads(json.dumps(described))["name"] == name == e.name
        left_out = {field.name for field in fields(experiments.Experiment)} - described.keys()
        assert left_out == {"title", "draws", "seeds"}
        assert e.describe_training().items() <= described.items()
        assert replace(e, draws=7, seeds=9).describe() == described
    other = replace(MINI, training=experiments.Training(lr=1e-3, episodes_per_epoch=1601))
    assert other.describe_training() != MINI.describe_training()
    for change in ({"backbone": "resnet12"}, {"ways": 4}, {"shots": 1}, {"min_group_size": 2}):
        assert replace(MINI, **change).describe_training() != MINI.describe_training()
    for change in ({"calibration_examples": 1}, {"predictor": "train"}, {"name": "other"}):
        assert replace(MINI, **change).describe_training() == MINI.describe_training()


# Methods


COARSE = 0.05
# Between the steps of the grid, on them, equal to each other, and at both ends.
SCORES = st.one_of(
    st.floats(0, 1, width=32),
    st.integers(0, 20).map(lambda step: step * COARSE),
    st.integers(0, 10**7).map(lambda step: step * experiments.STEP),
    st.sampled_from([0.0, 1.0, 0.5, 1e-8]),
)


def search_slowly(sample: list[float], epsilon: float, delta: float, step: float) -> float:
    """Try every step of the grid, from the last one down."""
    for number in range(round(1 / step), -1, -1):
        errors = sum(score < number * step for score in sample)
        # The Clopper-Pearson bound is at most epsilon if epsilon makes so few errors unlikely.
        if errors < len(sample) and stats.binom.cdf(errors, len(sample), epsilon) <= delta:
            return number * step
    return -math.inf


@given(
    samples=st.lists(st.lists(SCORES, min_size=1, max_size=30), min_size=1, max_size=5),
    epsilon=st.floats(0.02, 0.9),
    delta=st.floats(1e-4, 0.9),
)
@settings(max_examples=150, deadline=None)
def test_the_largest_step(samples: list[list[float]], epsilon: float, delta: float) -> None:
    for sample in samples:
        chances = stats.binom.cdf(np.arange(len(sample)), len(sample), epsilon)
        assume(not np.isclose(chances, delta, rtol=1e-9).any())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiments, "STEP", COARSE)
        found = experiments.search_grid([np.sort(sample) for sample in samples], epsilon, delta)
    expected = [search_slowly(sample, epsilon, delta, COARSE) for sample in samples]
    np.testing.assert_array_equal(found, expected)
