"""Score functions: from a model's outputs to the score of each label.

The bounds take the highest and the lowest log-odds of every label against the true one, of shape
(n, classes + 1). The column of the true label is -inf; the last column is the mass of labels
without a column. The proofs are in `metapac.ScoreFunction.lower`.

A guarantee holds for one score function. The same `ScoreFunction` therefore gives two kinds of
scores: those of the true labels, lowered so that rounding in deployment cannot give lower ones, and
those of all labels, from which sets are made.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from metapac._common import Counts, Doubles, Floats, check_one_of
from metapac._text import FITTED_ON
from metapac.errors import InvalidInput

# Steps between the smallest numbers, whose rounding error is not relative.
_TINY = 2.0**-1060


def take(matrix: Floats, labels: Counts) -> Floats:
    """Return the entry of each row at its label, (n,)."""
    return np.asarray(np.take_along_axis(matrix, labels[:, None], 1)[:, 0])


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


def lower_log(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a log-probability, (n,)."""
    lowered = -np.logaddexp(0.0, log_sum(highest)[:, 0])
    return np.asarray(lowered - rounding * (1 - lowered))


def lower_probability(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a probability, (n,)."""
    lowered = np.exp(-np.logaddexp(0.0, log_sum(highest)[:, 0])) * (1 - rounding)
    return np.asarray(np.maximum(lowered - _TINY, 0.0))


def lower_margin(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a margin, (n,)."""
    top = np.maximum(highest.max(1), 0.0)  # all weights are divided by exp(top)
    true = np.exp(-top)
    ahead = true - np.exp(highest[:, :-1].max(1) - top)
    others = np.where((ahead >= 0)[:, None], highest, lowest)
    total = true + np.exp(others - top[:, None]).sum(1)
    return np.asarray(np.maximum(ahead / np.maximum(total, 1e-300), -1.0) - rounding)


def lower_cumulative(highest: Doubles, lowest: Doubles, rounding: float) -> Doubles:
    """Return a lower bound on a cumulative score, (n,)."""
    top = np.maximum(highest.max(1), 0.0)
    is_below = highest <= -rounding
    is_below[:, -1] = False  # labels without a column may be more probable
    below = np.exp(-top) + np.where(is_below, np.exp(lowest - top[:, None]), 0.0).sum(1)
    above = np.where(is_below, 0.0, np.exp(highest - top[:, None])).sum(1)
    return np.asarray(np.maximum(below / (below + above) * (1 - rounding) - _TINY, 0.0))


LOWER = {
    "probability": lower_probability,
    "log_probability": lower_log,
    "margin": lower_margin,
    "cumulative": lower_cumulative,
}
NAMES = (*LOWER, "raw")
KINDS = ("probabilities", "logits", "scores")

# Eight units of rounding. A softmax over k labels is off by less than k + 800 of them, relatively:
# an exponential by its argument, which is below 746 unless the result is 0, and the sum by k.
_UNIT = 2.0**-50
_EXPONENT = 800
# Rounding error of a probability, in floats of its precision, beyond that of its logits.
_FLOATS = 8
# A larger slack bounds nothing; the exponential of this one does not overflow.
_LARGEST_SLACK = 300.0
_TEXT = re.compile(r"(\w+)\(temperature=([^()]+)\)")


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

    Raises
    ------
    InvalidInput
        If the name is unknown, or the temperature is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import ScoreFunction
    >>> probabilities = np.array([[0.5, 0.3, 0.2]])
    >>> ScoreFunction("margin")(probabilities).round(6).tolist()
    [[0.2, -0.2, -0.3]]
    >>> ScoreFunction("cumulative")(probabilities).round(6).tolist()
    [[1.0, 0.5, 0.2]]
    >>> str(ScoreFunction("margin", temperature=1.5, fitted_on=frozenset(["0a", "1b"])))
    'margin(temperature=1.5); fitted_on=0a+1b'
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
            raise InvalidInput(f"temperature must be {rule}, got {t!r}.", parameter="temperature")

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
            softmax is a probability. Of scores, only the order matters.

        Returns
        -------
        ndarray, shape (n, classes)
            The scores; higher means more plausible.

        Raises
        ------
        InvalidInput
            If the outputs are scores, but the function needs probabilities.
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

    def lower(
        self,
        outputs: ArrayLike,
        labels: ArrayLike,
        *,
        kind: str = "probabilities",
        slack: ArrayLike = 0.0,
        spread: ArrayLike = 0.0,
    ) -> Floats:
        """Return lower bounds on the scores of the true labels, for any rounding in deployment.

        Parameters
        ----------
        outputs : array_like, shape (n, classes)
            What the model returned.
        labels : array_like of int, shape (n,)
            True labels.
        kind : {"probabilities", "logits", "scores"}, default "probabilities"
            What the outputs are.
        slack : array_like, shape (n,) or (), default 0.0
            Bound on how far rounding moves the difference of the logits of any label and of the
            true one; for raw outputs, on how far it moves an output.
        spread : array_like, shape (n,) or (), default 0.0
            Bound on how far rounding moves the probability of another label, beyond the slack.

        Returns
        -------
        ndarray, shape (n,)
            The bounds.

        Notes
        -----
        Let a be the probability of the true label and q that of another, so that q / a is the
        exponential of a difference of logits. Rounding leaves each q / a between a lowest and a
        highest value, and

        - the probability is 1 / (1 + sum of q / a): least if each q / a is highest;
        - the margin is (1 - max of q / a) / (1 + sum of q / a): its numerator is least if each is
          highest. Its denominator is then taken with the highest values if the numerator is
          positive, and with the lowest if it is negative;
        - the cumulative score is B / (B + A) with B the mass that is no more probable than the
          label and A the rest. It rises with B and falls with A. So labels that rounding could
          lift above the true one count in A at their highest, the others in B at their lowest.
        """
        values, y, reach = _as_outputs(outputs), np.asarray(labels), np.asarray(slack)
        self.check_kind(kind)
        true = take(values, y)
        if self.name == "raw":
            return np.asarray((true - reach).astype(values.dtype))
        rounding = (values.shape[1] + _EXPONENT) * _UNIT
        possible = true > -np.inf  # that its probability is above 0, and rounding cannot erase it
        if kind == "probabilities":
            rounding += _FLOATS * float(np.finfo(values.dtype).eps)
            possible = true >= np.finfo(values.dtype).tiny  # below it, digits are lost
        odds = self._bound_odds(values, y, kind, reach, np.asarray(spread))
        lowered = LOWER[self.name](*odds, rounding)
        return np.where(possible, lowered, self._lowest_score(values, kind, reach, rounding))

    def _lowest_score(self, values: Floats, kind: str, slack: Doubles, rounding: float) -> Any:
        """Return lower bounds on the score of a label of probability 0.

        Its margin is minus the highest probability, which rises at most exp(slack)-fold.
        """
        if self.name != "margin":
            return -np.inf if self.name == "log_probability" else 0.0
        reach = np.minimum(slack / self.temperature, _LARGEST_SLACK)
        highest = self._probabilities(values, kind).max(1) * np.exp(2 * reach)
        return -np.minimum(highest * (1 + rounding), 1.0)

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
            raise InvalidInput(f"{text}. {remedy}", parameter="score")

    def _keeps(self, kind: str) -> bool:
        """Return whether outputs are probabilities already."""
        return kind == "probabilities" and self.temperature == 1

    def _log_weights(self, values: Floats, kind: str) -> Doubles:
        """Return logits, (n, classes), less their maximum and divided by the temperature."""
        wide = values.astype(np.float64)
        if kind == "probabilities":
            with np.errstate(divide="ignore"):
                wide = np.log(wide / self._total(values))
        if self._keeps(kind):
            return wide
        return np.asarray((wide - finite(wide.max(1, keepdims=True))) / self.temperature)

    def _probabilities(self, values: Floats, kind: str) -> Doubles:
        """Return probabilities in float64, (n, classes), that add up to 1 at most."""
        if self._keeps(kind):
            return np.asarray(values / self._total(values))
        weights = self._log_weights(values, kind)
        return np.asarray(np.exp(weights - finite(log_sum(weights))))

    @staticmethod
    def _total(values: Floats) -> Doubles:
        """Return the sum of each row of probabilities, (n, 1); at least 1."""
        return np.asarray(np.maximum(values.sum(1, keepdims=True, dtype=np.float64), 1.0))

    def _bound_odds(
        self, values: Floats, y: Counts, kind: str, slack: Doubles, spread: Doubles
    ) -> tuple[Doubles, Doubles]:
        """Return the highest and lowest log-odds of each label against the true one.

        Shapes: (n, classes + 1), where the last column is the mass of labels without a column.
        The true label's own entry is -inf.
        """
        wide = values.astype(np.float64)
        if kind == "probabilities":
            wide = wide / self._total(values)
            around = np.maximum(spread, float(np.finfo(values.dtype).tiny))
            around = np.broadcast_to(around, y.shape)[:, None]
            rest = np.maximum(1 - wide.sum(1, keepdims=True), 0) * (self.temperature == 1)
            with np.errstate(divide="ignore"):
                high = np.log(np.hstack([wide + around, rest]))
                low = np.log(np.hstack([np.maximum(wide - around, 0), rest]))
                true = finite(np.log(take(wide, y)))
        else:
            high = low = np.hstack([wide, np.full((len(y), 1), -np.inf)])
            true = finite(np.asarray(take(wide, y), dtype=np.float64))
        reach = np.broadcast_to(np.minimum(slack, _LARGEST_SLACK), y.shape)
        highest = (high - (true - reach)[:, None]) / self.temperature
        lowest = (low - (true + reach)[:, None]) / self.temperature
        for odds in (highest, lowest):
            np.put_along_axis(odds, y[:, None], -np.inf, 1)
        return np.asarray(highest), np.asarray(lowest)


def as_score_function(
    score: str | ScoreFunction | None, kind: str = "probabilities"
) -> ScoreFunction:
    """Return a score function by its name."""
    if score is None:
        score = "raw" if kind == "scores" else "probability"
    function = score if isinstance(score, ScoreFunction) else _parse(score)
    function.check_kind(kind)
    return function


def _parse(text: Any) -> ScoreFunction:
    """Return the score function that ``str`` wrote."""
    if not isinstance(text, str):
        return ScoreFunction(text)
    computed, _, tasks = text.partition(FITTED_ON)
    fitted_on = frozenset(tasks.split("+")) - {""}
    found = _TEXT.fullmatch(computed)
    if found is None:
        return ScoreFunction(computed, fitted_on=fitted_on)
    try:
        return ScoreFunction(found[1], float(found[2]), fitted_on)
    except ValueError:
        text = f"score must have a positive temperature, got {text!r}."
        raise InvalidInput(text, parameter="score") from None


def _as_outputs(outputs: ArrayLike) -> Floats:
    values = np.asarray(outputs)
    return values if values.dtype.kind == "f" else values.astype(np.float64)
