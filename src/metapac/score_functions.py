"""Score functions: from a model's outputs to the score of each label.

A guarantee holds for one score function. The same `ScoreFunction` therefore gives two kinds of
scores: those of the true labels, lowered so that rounding in deployment cannot give lower ones, and
those of all labels, from which sets are made.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from metapac._common import Doubles, Floats, check_one_of
from metapac._text import FITTED_ON
from metapac.errors import InvalidInput


def total(p: Floats) -> Doubles:
    """Return the sum of each row of probabilities, (n, 1); at least 1."""
    return np.asarray(np.maximum(p.sum(1, keepdims=True, dtype=np.float64), 1.0))


def log_sum(weights: Doubles) -> Doubles:
    """Return the logarithm of the sum of exponentials of each row, (n, 1)."""
    top = finite(weights.max(1, keepdims=True))
    total = np.exp(weights - top).sum(1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.asarray(top + np.log(total))


def finite(sums: Doubles) -> Doubles:
    """Return numbers, with 0 for those of rows in which no label is possible."""
    return np.where(np.isfinite(sums), sums, 0.0)


def highest_other(p: Doubles) -> Doubles:
    """Return, for each label, the highest probability of the others; 0 if there is none."""
    if p.shape[1] == 1:
        return np.zeros_like(p)
    top = np.partition(p, -2, axis=1)
    is_first = np.arange(p.shape[1]) == p.argmax(1)[:, None]
    return np.where(is_first, top[:, [-2]], top[:, [-1]])


def cumulate(p: Doubles) -> Doubles:
    """Return, for each label, the sum of the probabilities that are no higher than its own."""
    order = p.argsort(1, kind="stable")
    ascending = np.take_along_axis(p, order, 1)
    sums = ascending.cumsum(1)
    # Equal probabilities share the sum of the last of them.
    ends = np.diff(ascending, axis=1, append=np.inf) > 0
    sums = np.where(ends, sums, np.inf)
    sums = np.minimum.accumulate(sums[:, ::-1], axis=1)[:, ::-1]
    scores = np.empty_like(p)
    np.put_along_axis(scores, order, sums, 1)
    return scores


NAMES = ("probability", "log_probability", "margin", "cumulative", "raw")
KINDS = ("probabilities", "logits", "scores")


@dataclass(frozen=True)
class ScoreFunction:
    """The score that is compared with the threshold, computed from the outputs of a model.

    Parameters
    ----------
    name : str, default "probability"
        "probability": the probability of the label. "log_probability": its logarithm, which gives
        the same sets with a finer scale near 0. "margin": the probability minus the highest one of
        another label, from -1 to 1. "cumulative": the sum of the probabilities that are no higher
        than the label's own. It is 1 minus the mass that adaptive prediction sets (Romano, Sesia
        and Candes, 2020) put before the label, without randomisation. "raw": the output itself.
    temperature : float, default 1.0
        Number that logits, or logarithms of probabilities, are divided by first.
    fitted_on : frozenset of str, default frozenset()
        Fingerprints of the tasks that the temperature was fitted on, which must not be calibration
        tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import ScoreFunction
    >>> probabilities = np.array([[0.5, 0.3, 0.2]])
    >>> ScoreFunction("margin")(probabilities).round(6).tolist()
    [[0.2, -0.2, -0.3]]
    >>> ScoreFunction("cumulative")(probabilities).round(6).tolist()
    [[1.0, 0.5, 0.2]]
    """

    name: str = "probability"
    temperature: float = 1.0
    fitted_on: frozenset[str] = field(default=frozenset(), repr=False, compare=False)

    def __post_init__(self) -> None:
        check_one_of("score", self.name, NAMES)
        t = self.temperature
        is_number = isinstance(t, int | float) and not isinstance(t, bool) and 0 < t < math.inf
        if not is_number or (self.name == "raw" and t != 1):
            rule = "1 for raw outputs" if self.name == "raw" else "a positive number"
            raise InvalidInput(f"temperature must be {rule}, got {t!r}.")

    def __str__(self) -> str:
        scaled = "" if self.temperature == 1 else f"(temperature={float(self.temperature)!r})"
        fitted_on = FITTED_ON + "+".join(sorted(self.fitted_on)) if self.fitted_on else ""
        return f"{self.name}{scaled}{fitted_on}"

    def __call__(self, outputs: ArrayLike, kind: str = "probabilities") -> Floats:
        """Return the score of each label for each example, to make sets from.

        Parameters
        ----------
        outputs : array_like, shape (n, classes)
            What the model returned.
        kind : {"probabilities", "logits", "scores"}, default "probabilities"
            What the outputs are. Log-probabilities and negative distances are logits: their
            softmax is a probability. Of scores, only the order matters; only "raw" takes them.

        Returns
        -------
        ndarray, shape (n, classes)
            The scores; higher means more plausible.
        """
        values = _as_outputs(outputs)
        self.check_kind(kind)
        if self.name == "raw" or (self._keeps(kind) and self.name == "probability"):
            return values
        if self.name == "log_probability":
            weights = self._log_weights(values, kind)
            return weights if self._keeps(kind) else weights - finite(log_sum(weights))
        p = self._probabilities(values, kind)
        if self.name == "margin":
            return p - highest_other(p)
        return cumulate(p) if self.name == "cumulative" else p

    def check_kind(self, kind: str) -> None:
        """Raise InvalidInput unless outputs of this kind can be made into scores.

        Parameters
        ----------
        kind : str
            What the outputs are.
        """
        check_one_of("outputs", kind, KINDS)
        if kind == "scores" and self.name != "raw":
            text = f"score must be 'raw' for a learner whose outputs are scores, got {str(self)!r}"
            remedy = "If a softmax makes them probabilities, declare outputs='logits'."
            raise InvalidInput(f"{text}. {remedy}")

    def _keeps(self, kind: str) -> bool:
        """Return whether outputs are probabilities already."""
        return kind == "probabilities" and self.temperature == 1

    def _log_weights(self, values: Floats, kind: str) -> Doubles:
        """Return logits, (n, classes), less their maximum and divided by the temperature."""
        wide = values.astype(np.float64)
        if kind == "probabilities":
            with np.errstate(divide="ignore"):
                wide = np.log(wide / total(values))
        if self._keeps(kind):
            return wide
        return np.asarray((wide - finite(wide.max(1, keepdims=True))) / self.temperature)

    def _probabilities(self, values: Floats, kind: str) -> Doubles:
        """Return probabilities in float64, (n, classes), that add up to 1 at most."""
        if self._keeps(kind):
            return np.asarray(values / total(values))
        weights = self._log_weights(values, kind)
        return np.asarray(np.exp(weights - finite(log_sum(weights))))


def _as_outputs(outputs: ArrayLike) -> Floats:
    values = np.asarray(outputs)
    return values if values.dtype.kind == "f" else values.astype(np.float64)
