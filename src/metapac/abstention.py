"""Answer or abstain: a prediction set with one label answers, any other set does not.

A wrong answer is a set that misses the true label, so on a task whose miss rate is at most epsilon,
at most a fraction epsilon of *all* its questions is answered wrongly. Among the *answered*
questions the error rate may be higher, because the same errors are divided by a smaller number: it
is at most epsilon divided by the fraction answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from metapac import _checks, _ids
from metapac.binomial import clopper_pearson_upper
from metapac.exceptions import InvalidInput
from metapac.sets import label_lists


class AnswerErrors(NamedTuple):
    """How many answers are wrong.

    Attributes
    ----------
    wrong : int
        Number of wrong answers.
    of_all : float
        Wrong answers divided by all questions; at most epsilon on tasks where the guarantee holds.
    of_answered : float
        Wrong answers divided by answered questions, which has no such bound; NaN without answers.
    """

    wrong: int
    of_all: float
    of_answered: float


@dataclass(frozen=True, eq=False)
class Answers:
    """The answer to each question, or None.

    Attributes
    ----------
    labels : list
        The only label of each set; None where a set has no label or several.
    answered : ndarray of bool, shape (n,)
        Whether each question is answered.

    Examples
    --------
    >>> from metapac import answers
    >>> found = answers([["yes"], ["no", "yes"], [], ["no"]])
    >>> found.labels, found.share
    (['yes', None, None, 'no'], 0.5)
    """

    labels: list[Any]
    answered: NDArray[np.bool_]

    @property
    def share(self) -> float:
        """Fraction of the questions that are answered; NaN without questions."""
        return float(self.answered.mean()) if len(self.answered) else float("nan")

    def __repr__(self) -> str:
        return f"<Answers: {int(self.answered.sum())} of {len(self.answered)} answered>"

    def count_errors(self, y: Iterable[Any]) -> AnswerErrors:
        """Return how many answers are wrong.

        Parameters
        ----------
        y : iterable, length n
            True label of each question.

        Returns
        -------
        AnswerErrors
            Their number, and their fraction of all questions and of those answered.

        Raises
        ------
        InvalidInput
            If there is not one label for each question, or labels and answers differ in type.
        """
        truth = [_ids.as_plain_label(label) for label in y]
        _checks.check_same_length("y", np.empty(len(truth)), "answers", self.answered)
        pairs = [p for p in zip(self.labels, truth, strict=True) if p[0] is not None]
        for answer, label in pairs[:1]:
            if _ids.kind_of(answer) != _ids.kind_of(label):
                raise InvalidInput(
                    f"y must hold labels of the type of the answers, got {label!r}, where an "
                    f"answer is {answer!r}. Pass classes= the names of the columns to answers."
                )
        wrong = sum(answer != label for answer, label in pairs)
        return AnswerErrors(
            wrong,
            wrong / len(truth) if truth else float("nan"),
            wrong / len(pairs) if pairs else float("nan"),
        )

    def bound_errors(self, epsilon: float, *, confidence: float = 0.95) -> float:
        """Return a bound on the error rate among the questions of one task that are answered.

        Parameters
        ----------
        epsilon : float
            Miss rate of the guarantee.
        confidence : float, default 0.95
            Confidence of the bound, over the draw of the questions, on tasks whose miss rate is at
            most ``epsilon``.

        Returns
        -------
        float
            ``epsilon`` divided by a lower confidence bound on the share of questions that are
            answered, and at most 1. No labels are needed.

        Notes
        -----
        P(wrong | answered) = P(wrong and answered) / P(answered) <= epsilon / P(answered), since
        a wrong answer is a miss. The bound of Clopper and Pearson replaces P(answered).
        """
        epsilon = _checks.as_probability("epsilon", epsilon)
        confidence = _checks.as_probability("confidence", confidence)
        if not self.answered.any():
            return 1.0
        n = len(self.answered)
        silent = clopper_pearson_upper(n - int(self.answered.sum()), n, 1 - confidence)
        return min(1.0, epsilon / (1 - silent))


def answers(sets: Any, classes: Sequence[Any] | None = None) -> Answers:
    """Return the answer of each prediction set: its label if it has one, otherwise None.

    Parameters
    ----------
    sets : array_like of bool, shape (n, classes), or iterable of list
        What ``predict_set`` returned; or the labels of each set, such as the column ``set`` of a
        table that was predicted.
    classes : sequence, optional
        Names of the columns of a matrix; by default 0, 1, and so on.

    Returns
    -------
    Answers
        The answers. ``share`` is the fraction answered, ``count_errors(y)`` compares them with true
        labels.

    Notes
    -----
    On a task whose miss rate is at most epsilon, at most a fraction epsilon of all questions is
    answered wrongly, because a wrong answer is a set that misses the true label. The guarantee does
    not say that at most epsilon of the *answered* questions is wrong: see
    ``Answers.bound_errors``.

    Examples
    --------
    >>> from metapac import answers
    >>> found = answers([[True, False], [True, True], [False, False]], ["no", "yes"])
    >>> found.labels
    ['no', None, None]
    >>> found.count_errors(["yes", "yes", "no"])
    AnswerErrors(wrong=1, of_all=0.3333333333333333, of_answered=1.0)
    """
    lists = _as_label_lists(sets, classes)
    answered = np.array([len(labels) == 1 for labels in lists], dtype=np.bool_)
    return Answers([labels[0] if len(labels) == 1 else None for labels in lists], answered)


def _as_label_lists(sets: Any, classes: Sequence[Any] | None) -> list[list[Any]]:
    """Return the labels of each set, from a boolean matrix or from such lists."""
    if len(getattr(sets, "shape", ())) != 2:
        rows = list(sets)
        if any(isinstance(row, str) or not hasattr(row, "__iter__") for row in rows):
            raise InvalidInput(
                "sets must hold the labels of each set, such as ['cat', 'dog'] or [], got "
                f"{_checks.brief(rows)}. Pass what predict_set or label_lists returned."
            )
        lists = [list(row) for row in rows]
        if not _is_boolean(lists):
            return _check_no_classes(lists, classes)
        if len({len(row) for row in lists}) > 1:
            raise InvalidInput(
                "sets must be a boolean matrix, or lists of labels that are not booleans, got "
                f"{_checks.brief(lists)}. Name the labels, for example 'no' and 'yes'."
            )
        sets = lists
    return label_lists(sets, classes)


def _is_boolean(lists: list[list[Any]]) -> bool:
    """Whether lists are the rows of a boolean matrix."""
    values = [value for row in lists for value in row]
    return bool(values) and all(isinstance(value, bool | np.bool_) for value in values)


def _check_no_classes(lists: list[list[Any]], classes: Sequence[Any] | None) -> list[list[Any]]:
    if classes is not None:
        raise InvalidInput(
            "classes names the columns of a matrix, but sets holds labels already. Leave it out."
        )
    return lists
