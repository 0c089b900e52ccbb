"""Whether the calibration tasks are enough, and what to do if they are not."""

from __future__ import annotations

from metapac import _checks, shortage
from metapac.evidence import Evidence
from metapac.exceptions import InfeasibleGuarantee
from metapac.guarantee import Guarantee

ON_INFEASIBLE = ("raise", "trivial")


def check_on_infeasible(value: str) -> None:
    """Raise InvalidInput unless ``value`` is one of ``ON_INFEASIBLE``.

    Parameters
    ----------
    value : str
        What was passed as ``on_infeasible``.
    """
    _checks.check_one_of("on_infeasible", value, ON_INFEASIBLE)


def check_feasible(guarantee: Guarantee, evidence: Evidence, on_infeasible: str) -> list[bool]:
    """Return what the tasks are enough for: each class, or all of them together.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee at whose levels the evidence was collected.
    evidence : Evidence
        The evidence of the calibration tasks.
    on_infeasible : {"raise", "trivial"}
        Whether to raise if they are not enough.

    Returns
    -------
    list of bool
        One for each of ``evidence.parts(guarantee)``.

    Raises
    ------
    InfeasibleGuarantee
        If the tasks are too few or too small; the message says what would work.
    """
    demands = [part.demand() for part in evidence.parts(guarantee)]
    feasible = [demand.is_feasible() for demand in demands]
    if on_infeasible == "raise" and not all(feasible):
        is_interval = "prediction" in (evidence.columns or {})
        message = shortage.explain_too_few_tasks(demands, is_interval=is_interval)
        if evidence.clusters is not None:
            message = shortage.add_clusters(message, evidence.clusters)
        raise InfeasibleGuarantee(message)
    return feasible
