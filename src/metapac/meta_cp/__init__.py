"""Meta-CP, the baseline of Fisch et al. (2021): sets that are valid on average over tasks.

``QuantilePredictor`` and ``leave_one_out`` need the extra ``torch``, imported when they are used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from metapac import _optional
from metapac.meta_cp.estimator import MetaCP

if TYPE_CHECKING:
    from metapac.meta_cp.quantiles import QuantilePredictor, leave_one_out

__all__ = ["MetaCP", "QuantilePredictor", "leave_one_out"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_optional.require(f"{__name__}.quantiles", extra="torch", purpose=name), name)
