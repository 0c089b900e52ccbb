"""From a learner and tasks to scores: those to calibrate on, and those to make sets from.

Names are imported when they are first used: the core needs the score functions alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the same names as below, for type checkers
    from metapac.scoring.functions import ScoreFunction as ScoreFunction
    from metapac.scoring.labels import tabulate as tabulate
    from metapac.scoring.provenance import Provenance as Provenance
    from metapac.scoring.provenance import read_provenance as read_provenance
    from metapac.scoring.provenance import write_scores as write_scores
    from metapac.scoring.stored import Stored as Stored
    from metapac.scoring.stored import read_stored as read_stored
    from metapac.scoring.tasks import score_examples as score_examples
    from metapac.scoring.tasks import score_matrix as score_matrix
    from metapac.scoring.tasks import score_tasks as score_tasks
    from metapac.scoring.tasks import store as store
    from metapac.scoring.temperature import fit_temperature as fit_temperature

_NAMES = {
    "functions": ("ScoreFunction",),
    "labels": ("tabulate",),
    "provenance": ("Provenance", "read_provenance", "write_scores"),
    "stored": ("Stored", "read_stored"),
    "tasks": ("score_examples", "score_matrix", "score_tasks", "store"),
    "temperature": ("fit_temperature",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
