"""Plans, and whether tasks of one size support a guarantee."""

from __future__ import annotations

from typing import Any

import numpy as np

from metapac import Guarantee, Plan, plan
from metapac.planning import Demand


def make_plan(**asked: Any) -> Plan:
    """Return the plan for a guarantee."""
    result = plan(**asked)
    assert isinstance(result, Plan)
    return result


def supports(g: Guarantee, tasks: int, examples: int) -> bool:
    """Return whether tasks, with as many examples each, support a guarantee."""
    return Demand(g, np.array([examples]), np.array([tasks])).is_feasible()
