"""Options: what each split makes of given tasks."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from metapac import Guarantee
from metapac.binomial import allowed_errors
from metapac.sample_size import Demand, min_sample_size
from tests.helpers.plans import make_plan


def test_options_are_what_each_split_makes_of_the_tasks() -> None:
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.1, "delta": 0.05}
    sizes = [200] * 60
    result = make_plan(**asked, sizes=sizes)
    assert [option.split for option in result.options] == ["joint", "tight", "even"]
    for option in result.options:
        g = Guarantee(**asked, split=option.split)
        expected = [count + 1 for count in g.allowed_low_thresholds(60) if count >= 0]
        assert option.nth_lowest == tuple(expected)
        assert option.feasible == bool(expected)
    assert result.recommended == result.options[0]
    assert str(result).endswith("Recommended for your tasks: split='joint'.")
    assert make_plan(**asked).recommended is None
    assert make_plan(**asked).options == ()
    # As in calibration: the second lowest threshold at the lowest level, or a higher one.
    assert result.options[1].nth_lowest == (allowed_errors(60, 0.095, 0.05) + 1,)


def test_levels_that_need_larger_tasks_are_not_used() -> None:
    # 10 examples at .1 certify levels from .9 ** 10 = .349 on: the last three.
    asked: dict[str, Any] = {"epsilon": 0.1, "alpha": 0.2, "delta": 0.05}
    result = make_plan(**asked, sizes=[10] * 100)
    joint, tight, even = result.options
    assert len(joint.nth_lowest) == 3
    assert joint.examples_per_task == 7
    assert not tight.feasible
    assert not even.feasible
    assert tight.examples_per_task == min_sample_size(0.1, 0.1)
    assert result.recommended == joint


@settings(max_examples=40)
@given(
    sizes=st.lists(st.integers(0, 120), min_size=1, max_size=60),
    alpha=st.sampled_from([0.05, 0.1, 0.3]),
    delta=st.sampled_from([1e-3, 0.05, 0.2, None]),
    split=st.sampled_from(["joint", "tight", 0.3]),
)
def test_the_recommended_option_works_and_none_is_hidden(
    sizes: list[int], alpha: float, delta: float | None, split: str | float
) -> None:
    g = Guarantee(epsilon=0.1, alpha=alpha, delta=delta, split=split)
    result = make_plan(epsilon=0.1, alpha=alpha, delta=delta, split=split, sizes=sizes)
    demand = Demand.from_sizes(g, sizes)
    for option in result.options:
        asked = demand.with_parameters(split=option.split, delta=option.delta)
        assert option.feasible == asked.is_feasible()
    best = result.recommended
    if best is None:
        assert not any(
            demand.with_parameters(split=x).is_feasible() for x in ("joint", "tight", "even")
        )
        assert not demand.with_parameters(delta=None).is_feasible()
    else:
        assert best.feasible
        assert str(best) in str(result)
        if best.delta is None and delta is not None:
            assert not any(
                demand.with_parameters(split=s).is_feasible() for s in ("joint", "tight", "even")
            )


def test_few_tasks_are_offered_a_guarantee_in_expectation() -> None:
    result = make_plan(epsilon=0.1, alpha=0.1, delta=0.05, sizes=[200] * 15)
    assert result.recommended is not None
    assert result.recommended.delta is None
    assert str(result).endswith(
        "split='joint', delta=None, a weaker guarantee, on average over calibrations."
    )
