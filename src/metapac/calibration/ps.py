"""PS: the inequality applied once, to examples from one distribution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from metapac import _checks, _ids, _scores, sentences, shortage
from metapac._checks import reject_foreign_keywords
from metapac.base import ThresholdSets
from metapac.binomial import allowed_errors, threshold
from metapac.calibration.arrays import check_meaning
from metapac.calibration.feasibility import check_on_infeasible
from metapac.class_matrix import read_class_matrix
from metapac.context import Context, as_context
from metapac.exceptions import InfeasibleGuarantee, InvalidInput
from metapac.explanation.paragraphs import explain_examples
from metapac.explanation.rules import Rule
from metapac.explanation.words import Words
from metapac.meaning.checks import check_levels
from metapac.meaning.sets import SetCounts, count_sets


class PS(ThresholdSets):
    """Prediction sets for examples from one distribution: one application of the inequality.

    With confidence ``1 - delta`` over the calibration examples, the sets miss the true label of a
    new example from the same distribution at most a fraction ``epsilon`` of the time. On scores
    pooled over tasks it says nothing about any one task. Calibrated on labelled examples of the
    test task itself, it is the paper's PS-Test.

    Parameters
    ----------
    epsilon : float
        Miss rate allowed.
    delta : float
        Failure probability of the guarantee.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do if the examples are too few: raise ``InfeasibleGuarantee``, or keep every
        label.

    Attributes
    ----------
    threshold_ : float
        The smallest score that is kept.
    n_examples_ : int
        Number of calibration examples.
    promise_ : str
        The guarantee in one sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import PS
    >>> method = PS(epsilon=0.1, delta=0.05).calibrate(np.linspace(0, 1, 101))
    >>> method.threshold_
    0.04
    >>> method.predict_set([[0.7, 0.2, 0.01]])
    array([[ True,  True, False]])
    """

    _kind = "PS"
    epsilon: float
    n_examples_: int

    @reject_foreign_keywords
    def __init__(self, *, epsilon: float, delta: float, on_infeasible: str = "raise") -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.on_infeasible = on_infeasible

    def calibrate(
        self,
        scores: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Find the threshold from labelled examples.

        Parameters
        ----------
        scores : array_like, shape (n,) or (n, classes)
            Scores of the true labels, or with ``labels`` those of all classes; higher means more
            plausible.
        labels : array_like, shape (n,), optional
            True label of each example. Needed with scores of all classes, and only then.
        classes : sequence, optional
            Class of each column of ``scores``; by default the column names of a data frame, or 0,
            1, ...
        context : Context, optional
            What the guarantee is about.
        allow : iterable of str, default ()
            Checks of the data to skip, such as "duplicates"; the message of a check names it.

        Returns
        -------
        PS
            The object itself, calibrated.

        Raises
        ------
        InfeasibleGuarantee
            If the examples are too few; the message says what would work.
        """
        check_on_infeasible(self.on_infeasible)
        about = as_context(context)
        matrix = read_class_matrix(scores, labels, classes)
        if matrix is None and labels is not None:
            raise InvalidInput("labels must not be passed with the scores of the true labels.")
        given = scores if matrix is None else matrix.true_scores
        array = _scores.as_calibration_scores("scores", given)
        cut_off, n = threshold(array, epsilon=self.epsilon, delta=self.delta), len(array)
        check_levels(self.epsilon, None, self.delta, allow=allow)
        sample = check_meaning([0], np.zeros(n, np.int64), scores, matrix, allow)
        if self.on_infeasible == "raise" and self._is_infeasible(n):
            raise InfeasibleGuarantee(
                shortage.explain_too_few_examples(self.epsilon, self.delta, n)
            )
        self.n_examples_ = n
        self.context_ = about
        self.columns_ = matrix and {"classes": _ids.as_json_labels(matrix.classes)}
        self._set_threshold(cut_off)
        self._sets = sample and count_sets(sample, cut_off)
        return self._mark_calibrated(array.dtype)

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, with its numbers and its assumptions."""
        self.check_calibrated()
        sentence = sentences.describe_example_guarantee(
            self.epsilon, self.delta, examples=self.n_examples_, threshold=self.threshold_
        )
        return sentence if self.threshold_ > -math.inf else f"{sentence} {sentences.TRIVIAL}"

    def explain(self) -> str:
        """Return the guarantee in plain words, for people who are not statisticians.

        Returns
        -------
        str
            What was checked, what holds, how sure one can be, and what it does not say.
        """
        self.check_calibrated()
        trivial = self.threshold_ == -math.inf
        rule = Rule(None, self.epsilon, self.threshold_, 0, self.n_examples_, keeps_all=trivial)
        return explain_examples(self.epsilon, self.delta, rule, self._about())

    def _is_infeasible(self, examples: int) -> bool:
        return allowed_errors(examples, self.epsilon, self.delta) < 0

    def _basis(self) -> str:
        return Words.from_context(self._about()).count_examples(self.n_examples_)

    def _body(self) -> dict[str, Any]:
        evidence = {"examples": self.n_examples_}
        return {"columns": self.columns_, "evidence": evidence, **self._encode_sets()}

    def _restore(self, body: dict[str, Any]) -> None:
        check_on_infeasible(self.on_infeasible)
        n = _checks.as_whole_number("examples", body["evidence"]["examples"])
        cut_off = float(body["threshold"])
        if cut_off > -math.inf and self._is_infeasible(n):
            raise InvalidInput(f"threshold is {cut_off:g}, but {n} examples are too few for any.")
        self.n_examples_ = n
        self.columns_ = body.get("columns")
        self._sets = SetCounts(**body["sets"]) if "sets" in body else None
        self._set_threshold(cut_off)
        self._mark_calibrated(_scores.as_precision(body["precision"]))
