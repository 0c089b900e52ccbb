"""Offers: the smallest epsilon, and no smaller one."""

from __future__ import annotations

from metapac import Guarantee, plan
from metapac.planning import OFFERED_ALPHAS, OFFERED_DELTAS, Offer
from metapac.sample_size import Demand


def test_offers_are_the_smallest_epsilon() -> None:
    sizes = [50] * 20 + [400] * 20
    result = plan(sizes=sizes)
    assert isinstance(result, list)
    assert [(o.alpha, o.delta) for o in result] == [
        (alpha, delta) for alpha in OFFERED_ALPHAS for delta in OFFERED_DELTAS
    ]
    assert OFFERED_DELTAS == (0.05, None)
    for offer in result:
        if offer.epsilon is None:
            g = Guarantee(epsilon=1 - 1e-9, alpha=offer.alpha, delta=offer.delta)
            assert not Demand.from_sizes(g, sizes).is_feasible()
            continue
        g = Guarantee(epsilon=offer.epsilon, alpha=offer.alpha, delta=offer.delta)
        demand = Demand.from_sizes(g, sizes)
        assert demand.is_feasible()
        assert not demand.with_parameters(epsilon=offer.epsilon * (1 - 1e-9)).is_feasible()
    # 40 tasks are too few at alpha = .05, delta = .05, and enough in expectation.
    assert result[0] == Offer(0.05, 0.05, None)
    assert result[1].epsilon is not None
