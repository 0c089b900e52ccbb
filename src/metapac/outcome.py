"""The second step: from the thresholds within tasks to one threshold across tasks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac import sentences
from metapac._types import Counts, Floats
from metapac.demands import Demand
from metapac.guarantee import Guarantee
from metapac.sample_size import min_sample_size

UNKNOWN = -1  # the size of a task whose site did not send it


class Part(NamedTuple):
    """The evidence for one class, or for all of them together, and its guarantee.

    Attributes
    ----------
    guarantee : Guarantee
        The guarantee; with ``per_class``, that of this class.
    label : object
        The class, or None for all of them together.
    used : ndarray of bool, shape (tasks,)
        False for tasks that ``min_examples`` leaves out.
    sizes : ndarray, shape (tasks,)
        Number of examples.
    thresholds : ndarray, shape (tasks, levels)
        Threshold within each task.
    lowest : float
        Lowest score; ``-inf`` if it is not known.
    highest : float
        Highest score; ``inf`` if it is not known.
    """

    guarantee: Guarantee
    label: Any
    used: NDArray[np.bool_]
    sizes: Counts
    thresholds: Floats
    lowest: float
    highest: float

    def demand(self) -> Demand:
        """Return the demand on these tasks; an unknown size is inferred from the thresholds.

        A threshold above ``-inf`` shows that its task was large enough for that level.

        Returns
        -------
        Demand
            The guarantee with the sizes of the tasks.
        """
        g, sizes, unknown = self.guarantee, self.sizes, self.sizes == UNKNOWN
        if unknown.any():
            needs = [min_sample_size(g.miss_rate, level.alpha_within) for level in g.levels]
            inferred = np.where(self.thresholds > -np.inf, needs, 0).max(axis=1)
            sizes = np.where(unknown, inferred, sizes)
        return Demand.from_sizes(g, sizes, label=self.label, sizes_known=not unknown.any())

    def outcome(self) -> Outcome:
        """Take the second step: a threshold across tasks at each level, and their maximum.

        Returns
        -------
        Outcome
            The threshold, and what it rests on.
        """
        used = self.thresholds[self.used]
        ranks = self.guarantee.allowed_low_thresholds(len(used)) if len(used) else ()
        across = np.full(self.thresholds.shape[1], -np.inf)
        for level, rank in enumerate(ranks):
            if rank >= 0:
                across[level] = np.partition(used[:, level], rank)[rank]
        best = int(np.argmax(across))
        cut = float(across[best])
        return Outcome(self.label, self.used, best, cut, self._at_bottom(used[:, best], cut))

    def _at_bottom(self, thresholds: Floats, cut: float) -> int:
        """Return how many tasks push the threshold to the lowest score; 0 if it is higher."""
        # A threshold that is the lowest score of a single task is normal. A lowest score that
        # several tasks share, or a probability of 0, counts as the bottom of the scale. If no
        # score is higher, it may as well be the top of the scale, and is not reported. A threshold
        # of 0 is also reported if the lowest score is not known, because sites do not send it.
        if self.highest <= cut or (self.lowest < cut and not self.lowest == -np.inf < cut == 0):
            return 0
        tied = int(np.count_nonzero(thresholds == cut))
        return int(np.count_nonzero(thresholds <= cut)) if tied > 1 or cut == 0 else 0


class Outcome(NamedTuple):
    """The result of the second step for one class, or for all of them together.

    Attributes
    ----------
    label : object
        The class, or None for all of them together.
    used : ndarray of bool, shape (tasks,)
        False for tasks that ``min_examples`` leaves out.
    level : int
        Index of the level with the largest threshold.
    threshold : float
        The smallest score to keep.
    at_bottom : int
        Number of tasks that make the guarantee uninformative; 0 if it is informative.
    """

    label: Any
    used: NDArray[np.bool_]
    level: int
    threshold: float
    at_bottom: int

    def remark(self, *, is_interval: bool = False) -> str:
        """Return what makes the guarantee uninformative.

        Parameters
        ----------
        is_interval : bool, default False
            Whether sets are intervals.

        Returns
        -------
        str
            A sentence; empty if the guarantee is informative.
        """
        if self.threshold == -np.inf:
            return sentences.describe_trivial(self.label, is_interval=is_interval)
        # The score of a residual is at most 0: an interval of no width is the most informative.
        if not self.at_bottom or (is_interval and self.threshold == 0):
            return ""
        tasks = int(np.count_nonzero(self.used))
        return sentences.describe_uninformative(
            self.threshold, self.at_bottom, tasks, self.label, is_interval=is_interval
        )
