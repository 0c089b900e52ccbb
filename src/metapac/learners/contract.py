"""What a learner is: it adapts to a task and returns something that scores. Nothing to inherit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor, nn


class Scorer(Protocol):
    """A model adapted to one task."""

    def predict_proba(self, x: Any) -> NDArray[np.floating[Any]]:
        """Return one probability for each example and label, shape (n, classes).

        A label absent from the support set gets exactly 0. The row of an example depends on that
        example and on the support set alone, never on the other rows of ``x``: were it otherwise,
        the scores of a task would not be independent and nothing could be promised of them.
        """


class Learner(Protocol):
    """Anything that adapts to a task with a few labelled examples."""

    def adapt(self, support_x: Any, support_y: Any, *, classes: int | None = None) -> Scorer:
        """Return the model adapted to the support set; the learner itself stays as it was.

        Labels are 0 .. ``classes`` - 1 in the task's own numbering, some perhaps absent from the
        support set; without ``classes`` they are 0 .. max(support_y).
        """


class Trainable(Protocol):
    """A torch learner that ``train`` can train, many episodes at a time."""

    module: nn.Module

    def logits(
        self, support_x: Tensor, support_y: Tensor, query_x: Tensor, *, classes: int
    ) -> Tensor:
        """Return the query logits of a batch of episodes, -inf for labels absent from its support.

        Shapes: (episodes, S, ...), (episodes, S), (episodes, Q, ...) -> (episodes, Q, classes).
        """
