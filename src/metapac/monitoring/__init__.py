"""Monitor a guarantee while new tasks come in: an alarm with labels, a warning without."""

from metapac.monitoring.drift import Drift, Shift, compare_scores
from metapac.monitoring.monitor import Monitor
from metapac.monitoring.opening import open_monitor
from metapac.monitoring.steps import Added, Power, Step

__all__ = [
    "Added",
    "Drift",
    "Monitor",
    "Power",
    "Shift",
    "Step",
    "compare_scores",
    "open_monitor",
]
