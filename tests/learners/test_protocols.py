"""The bound on scores that allows for rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac import InvalidInput
from metapac.fewshot.adapters import adapt_learner, lower_scores


@given(
    logits=st.lists(st.floats(-20, 20), min_size=2, max_size=5),
    slack=st.floats(0, 1),
    precision=st.sampled_from([np.float32, np.float64]),
)
def test_no_rise_of_the_other_logits_falls_below_the_bound(
    logits: list[float], slack: float, precision: type[np.floating]
) -> None:
    def true_score(raised: float) -> float:
        return float(1 / (1 + np.exp(np.array(logits[1:]) + raised - logits[0]).sum()))

    bound = lower_scores(np.array([true_score(0.0)]), slack, precision=precision)
    assert bound.dtype == precision
    assert bound[0] <= precision(true_score(slack)) * (1 + 1e-12)
    assert bound[0] < precision(true_score(0.0))


def test_zero_stays_zero_and_one_falls_by_one_float() -> None:
    bounds = lower_scores(np.array([0.0, 1.0], np.float32), 0.1)
    assert bounds.tolist() == [0.0, float(np.nextafter(np.float32(1), np.float32(0)))]


def test_the_bound_is_tight() -> None:
    (bound,) = lower_scores(np.array([0.5]), np.log(2), steps=0)
    assert bound == pytest.approx(1 / 3)  # odds of 1 to 1 become 1 to 2


class _Uniform:
    def __init__(self, columns: int) -> None:
        self.columns = columns

    def predict_proba(self, x: Any) -> Any:
        return np.full((len(x), self.columns), 1 / self.columns)


def _by_labels(self: Any, x: Any, y: Any) -> _Uniform:
    return _Uniform(len(set(y)))


def _by_classes(self: Any, x: Any, y: Any, *, classes: Any = None) -> _Uniform:
    return _Uniform(classes)


def _by_options(self: Any, x: Any, y: Any, **options: Any) -> _Uniform:
    return _Uniform(options["classes"])


@pytest.mark.parametrize(
    ("adapt", "columns"), [(_by_labels, 2), (_by_classes, 3), (_by_options, 3)]
)
def test_classes_are_passed_to_learners_that_take_them(adapt: Any, columns: int) -> None:
    learner = type("Own", (), {"adapt": adapt})()
    assert adapt_learner(learner, [[0], [1]], [0, 1], classes=3).columns == columns  # type: ignore[attr-defined]


def test_what_is_no_learner_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"a method adapt\(x, y\), got"):
        adapt_learner(len, [[0]], [0])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="must have a method adapt"):
        adapt_learner(type("Own", (), {"adapt": _by_labels}), [[0]], [0])  # type: ignore[arg-type]
    nothing = type("Own", (), {"adapt": lambda self, x, y: None})()
    with pytest.raises(InvalidInput, match=r"Own.adapt must return .*predict_proba\(x\), got"):
        adapt_learner(nothing, [[0]], [0])
