"""Prediction sets: sizes, labels, intervals, answers, and what to expect of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import special

from metapac import _common
from metapac._common import Floats, as_probability, brief, listed
from metapac.binomial import clopper_pearson_upper
from metapac.columns import Columns
from metapac.errors import InvalidInput
from metapac.guarantee import percent
from metapac.inputs import as_number_array, as_plain_label, check_finite, kind_of

# Bounds on what a score and an end point together may lose to rounding, and to underflow.
ROUNDINGS = 4 * float(np.finfo(np.float64).eps)
_UNDERFLOW = 4 * float(np.finfo(np.float64).smallest_subnormal)
_FEW = 20  # rows in which most quantiles may cross; in more, they were probably swapped


def label_lists(sets: ArrayLike, classes: Sequence[Any] | None = None) -> list[list[Any]]:
    """Return each prediction set as the list of its labels.

    Parameters
    ----------
    sets : array_like of bool, shape (n, classes)
        What ``predict_set`` returned.
    classes : sequence, optional
        Names of the classes; by default 0, 1, and so on.

    Returns
    -------
    list of list
        Labels of each set.

    Examples
    --------
    >>> from metapac import label_lists
    >>> label_lists([[True, False, True], [False, False, False]], ["cat", "dog", "owl"])
    [['cat', 'owl'], []]
    """
    matrix, names = _read(sets, classes)
    labels = [names[j] for j in np.nonzero(matrix)[1].tolist()]
    ends = np.cumsum(np.count_nonzero(matrix, axis=1)).tolist()
    return [labels[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def set_sizes(sets: ArrayLike) -> NDArray[np.int64]:
    """Return the number of labels in each prediction set.

    Parameters
    ----------
    sets : array_like of bool, shape (n, classes)
        What ``predict_set`` returned.

    Returns
    -------
    ndarray of int, shape (n,)
        Size of each set.

    Examples
    --------
    >>> from metapac import set_sizes
    >>> set_sizes([[True, False, True], [False, False, False]])
    array([2, 0])
    """
    return np.asarray(np.count_nonzero(_read(sets)[0], axis=1))


def empty_sets(sets: ArrayLike) -> NDArray[np.bool_]:
    """Return which prediction sets are empty, because no label scored high enough.

    With probabilities, the model is torn between labels there. Treat an empty set as all labels.

    Parameters
    ----------
    sets : array_like of bool, shape (n, classes)
        What ``predict_set`` returned.

    Returns
    -------
    ndarray of bool, shape (n,)
        Whether each set is empty.

    Examples
    --------
    >>> from metapac import empty_sets
    >>> empty_sets([[True, False, True], [False, False, False]])
    array([False,  True])
    """
    return np.asarray(~_read(sets)[0].any(axis=1))


def residual_scores(y: ArrayLike, prediction: ArrayLike, scale: ArrayLike = 1.0) -> Floats:
    """Return ``-|y - prediction| / scale``, the scores whose prediction sets are intervals.

    Parameters
    ----------
    y, prediction : array_like
        True and predicted values, of one shape.
    scale : array_like, default 1.0
        Scale of each residual, such as a predicted standard deviation; or one for all.

    Returns
    -------
    ndarray
        Scores in the shape of ``y``; none is positive.

    Examples
    --------
    >>> from metapac import residual_scores
    >>> residual_scores([1.0, 2.0], [1.5, 2.0], scale=0.5)
    array([-1., -0.])
    """
    target = as_number_array("y", y)
    for name, values in (("prediction", prediction), ("scale", scale)):
        _common.check_same_index("y", y, name, values)
        array = as_number_array(name, values)
        if array.ndim or name == "prediction":
            _common.check_same_shape("y", target, name, array)
    centre, width = _centre_and_scale(prediction, scale)
    check_finite("y", target)
    return np.asarray(-np.abs(target - centre) / width)


def interval(
    threshold: float,
    prediction: ArrayLike,
    scale: ArrayLike = 1.0,
    *,
    precision: DTypeLike = np.float64,
) -> Floats:
    """Return the lower and upper ends of all y whose residual score is at least ``threshold``.

    The ends are rounded outwards, so that no such y is lost to floating point and the guarantee
    of the threshold holds for the interval.

    Parameters
    ----------
    threshold : float
        Threshold calibrated on `residual_scores`; at most 0.
    prediction : array_like
        Predicted values.
    scale : array_like, default 1.0
        Scale of each residual, as in `residual_scores`.
    precision : dtype, default numpy.float64
        Precision of the calibration scores.

    Returns
    -------
    ndarray
        Lower and upper ends, in the shape of ``prediction`` with a last axis of length 2.

    Examples
    --------
    >>> from metapac import interval
    >>> interval(-2.0, [10.0], scale=0.5).round(6)
    array([[ 9., 11.]])
    """
    centre, width = _centre_and_scale(prediction, scale)
    widest, relative, absolute = interval_radius(threshold, precision)
    radius = widest * width
    radius = radius + relative * (np.abs(centre) + radius) + absolute
    return np.stack([centre - radius, centre + radius], axis=-1)


def interval_radius(threshold: float, precision: DTypeLike) -> tuple[float, float, float]:
    """Return the numbers from which `interval` computes half the width of an interval."""
    if not threshold <= 0:
        text = f"threshold must be at most 0, as that of residual_scores is, got {threshold:g}."
        raise InvalidInput(text)
    info = np.finfo(precision)
    widest = -threshold * (1 + float(info.eps)) + float(info.smallest_subnormal)
    return widest, ROUNDINGS, _UNDERFLOW


def _centre_and_scale(prediction: ArrayLike, scale: ArrayLike) -> tuple[Floats, Floats]:
    centre = as_number_array("prediction", prediction)
    width = as_number_array("scale", scale)
    check_finite("prediction", centre)
    check_finite("scale", width, positive=True)
    if width.ndim:
        _common.check_same_shape("prediction", centre, "scale", width)
    return centre, width


def quantile_scores(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> Floats:
    """Return ``min(y - lower, upper - y)``, the scores of conformalised quantile regression.

    Quantiles may cross: a row whose ``lower`` is above its ``upper`` is scored like any other.

    Parameters
    ----------
    y, lower, upper : array_like
        True values, and a low and a high predicted quantile, of one shape.

    Returns
    -------
    ndarray
        Scores in the shape of ``y``: positive between the quantiles, negative outside.

    Raises
    ------
    InvalidInput
        If ``lower`` is above ``upper`` in most of 20 rows or more, as if they were swapped.

    References
    ----------
    Romano, Patterson and Candes (2019), Conformalized Quantile Regression.

    Examples
    --------
    >>> from metapac import quantile_scores
    >>> quantile_scores([1.0, 4.0], lower=[0.5, 1.0], upper=[3.0, 2.0])
    array([ 0.5, -2. ])
    """
    target = as_number_array("y", y)
    for name, values in (("lower", lower), ("upper", upper)):
        _common.check_same_index("y", y, name, values)
        _common.check_same_shape("y", target, name, as_number_array(name, values))
    low, high = _as_quantiles(lower, upper)
    check_finite("y", target)
    return np.asarray(np.minimum(target - low, high - target))


def quantile_interval(
    threshold: float, lower: ArrayLike, upper: ArrayLike, *, precision: DTypeLike = np.float64
) -> Floats:
    """Return the lower and upper ends of all y whose quantile score is at least ``threshold``.

    These are ``lower + threshold`` and ``upper - threshold``, rounded outwards as in `interval`. If
    no y scores that high, the interval is empty and its ends are ``inf`` and ``-inf``, so that
    every y is below the first and above the second; its width counts as 0.

    Parameters
    ----------
    threshold : float
        Threshold calibrated on `quantile_scores`. A positive one shrinks intervals.
    lower, upper : array_like
        Predicted quantiles, of one shape.
    precision : dtype, default numpy.float64
        Precision of the calibration scores.

    Returns
    -------
    ndarray
        Lower and upper ends, in the shape of ``lower`` with a last axis of length 2.

    Examples
    --------
    >>> from metapac import quantile_interval
    >>> quantile_interval(0.5, lower=[1.0, 1.0], upper=[3.0, 1.5]).round(6)
    array([[ 1.5,  2.5],
           [ inf, -inf]])
    """
    low, high = _as_quantiles(lower, upper)
    inward, slack = quantile_inset(threshold, precision)
    low = low + inward - (ROUNDINGS * np.abs(low) + slack)
    high = high - inward + (ROUNDINGS * np.abs(high) + slack)
    is_empty = ~(low <= high)
    return np.stack([np.where(is_empty, np.inf, low), np.where(is_empty, -np.inf, high)], axis=-1)


def quantile_inset(threshold: float, precision: DTypeLike) -> tuple[float, float]:
    """Return how far `quantile_interval` moves the quantiles inwards, and how much it rounds."""
    if not threshold < np.inf:
        text = f"threshold must be below inf, as that of quantile_scores is, got {threshold:g}."
        raise InvalidInput(text)
    info = np.finfo(precision)
    inward = threshold - abs(threshold) * float(info.eps) - float(info.smallest_subnormal)
    return inward, ROUNDINGS * abs(inward) + _UNDERFLOW


def _as_quantiles(lower: ArrayLike, upper: ArrayLike) -> tuple[Floats, Floats]:
    low, high = as_number_array("lower", lower), as_number_array("upper", upper)
    check_finite("lower", low)
    check_finite("upper", high)
    _common.check_same_index("lower", lower, "upper", upper)
    _common.check_same_shape("lower", low, "upper", high)
    check_order(int(np.sum(low > high)), low.size)
    return low, high


def check_order(crossed: int, rows: int, where: str = "") -> None:
    """Raise if quantiles cross in most of many rows: they were probably swapped."""
    if rows >= _FEW and 2 * crossed > rows:
        text = f"lower must be at most upper, and is above it in {crossed} of {rows} rows"
        raise InvalidInput(f"{where}{text}. Were they swapped?", parameter=("lower", "upper"))


def name_numbers(**numbers: Any) -> dict[str, Any]:
    """Return those of prediction, scale, lower and upper that were passed, once they fit."""
    given = {name: value for name, value in numbers.items() if value is not None}
    if not given:
        text = "pass the predicted numbers: prediction, or the quantiles lower and upper."
        raise InvalidInput(text, parameter=("prediction", "lower", "upper"))
    Columns(**{name: name for name in given})
    return given


def score_numbers(y: ArrayLike, numbers: Mapping[str, Any]) -> Floats:
    """Return the scores of true numbers beside what `name_numbers` returned."""
    return (quantile_scores if "lower" in numbers else residual_scores)(y, **numbers)


def _read(
    sets: ArrayLike, classes: Sequence[Any] | None = None
) -> tuple[NDArray[np.bool_], list[Any]]:
    """Return sets as a boolean matrix, and the names of its columns."""
    matrix = np.asarray(sets)
    if matrix.ndim != 2 or matrix.dtype != np.bool_:
        got = f"{matrix.dtype} of shape {matrix.shape}"
        raise InvalidInput(f"sets must be a boolean matrix (examples, classes), got {got}.")
    columns = range(matrix.shape[1]) if classes is None else classes
    names = columns.tolist() if isinstance(columns, np.ndarray) else list(columns)
    if len(names) != matrix.shape[1]:
        text = f"classes must name the {matrix.shape[1]} columns of sets, got {len(names)} names."
        raise InvalidInput(text)
    return matrix, names


# Fewer sets say little about a class; of many classes, each needs its share.
_ENOUGH = 100
_ENOUGH_PER_CLASS = 20
_RARE = 0.005
_CHANCE = 0.001  # that empty sets exceed their limit by chance
_SAME_MODEL = "Are the scores of the model that was calibrated, on the same scale?"


_SHOWN = 6  # of many classes, the most and the least frequent
_EMPTY = "Empty: no label scored high enough; with probabilities, the model is torn between labels."
_EMPTY += " Treat these sets as all labels."


@dataclass(frozen=True)
class SetSummary:
    """How many sets are empty, hold one label or all, and how often each class occurs.

    Attributes
    ----------
    rows, empty, single, full : int
        Number of sets, and of those without a label, with one, and with all of them.
    mean_size : float
        Mean number of labels over all sets; NaN without sets.
    by_class : mapping from class to int
        Number of sets that contain each class; empty if classes differ from row to row.
    low, high : float or None
        Lowest and highest finite score; None if unknown.
    """

    rows: int
    empty: int
    single: int
    full: int
    mean_size: float
    by_class: Mapping[Any, int]
    low: float | None = None
    high: float | None = None

    def warnings(
        self, calibrated: tuple[float, float] | None = None, epsilon: float | None = None
    ) -> list[str]:
        """Return what looks wrong; an empty list if nothing does, or if the sets are few.

        Parameters
        ----------
        calibrated : tuple of float, optional
            Lowest and highest score of the true labels in calibration.
        epsilon : float, optional
            Miss rate that the guarantee allows; the largest one of any class. More empty sets are
            a finding.

        Returns
        -------
        list of str
            A sentence for each finding.
        """
        found = [] if calibrated is None else self._out_of_range(*calibrated)
        too_empty = [] if epsilon is None else judge_empty(self.empty, self.rows, epsilon)
        if self.rows < max(_ENOUGH, _ENOUGH_PER_CLASS * len(self.by_class)):
            return found + too_empty
        return found + (self._alike() or too_empty + self._rare())

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON can hold them.

        Returns
        -------
        dict
            The attributes, with a list of classes and counts.
        """
        by_class = [{"class": name, "sets": count} for name, count in self.by_class.items()]
        mean_size = self.mean_size if self.rows else None
        return vars(self) | {"mean_size": mean_size, "by_class": by_class}

    def __str__(self) -> str:
        """Return the figures as text, and what full and empty sets mean."""
        if not self.rows:
            return "No sets."

        def share(count: int) -> str:
            return f"{count:,} ({count / self.rows:.1%})"

        kinds = f"one label in {share(self.single)}, all labels in {share(self.full)}"
        mean = f"mean size {self.mean_size:.4g} over rows"
        lines = [f"{self.rows:,} sets: {kinds}, empty {share(self.empty)}; {mean}."]
        ranked = sorted(self.by_class.items(), key=lambda item: -item[1])
        shown = [f"{name} in {share(count)}" for name, count in ranked]
        if len(shown) > _SHOWN:
            shown = [*shown[: _SHOWN // 2], "...", *shown[-_SHOWN // 2 :]]
        lines += [f"Sets that contain each class: {', '.join(shown)}."] if shown else []
        lines += ["All labels: the model cannot tell. Decide without it."] if self.full else []
        lines += [_EMPTY] if self.empty else []
        return "\n".join(lines)

    def _out_of_range(self, low: float, high: float) -> list[str]:
        most = high + max(high - low, abs(high))
        if self.high is None or not np.isfinite([low, high]).all() or self.high <= most:
            return []
        text = f"Scores reach {self.high:.4g}, but in calibration true labels reached {high:.4g}"
        return [f"{text}. {_SAME_MODEL}"]

    def _alike(self) -> list[str]:
        if not self.by_class and self.rows not in (self.empty, self.full):
            return []
        if any(0 < count < self.rows for count in self.by_class.values()):
            return []
        kept = [repr(name) for name, count in self.by_class.items() if count]
        which = f"each contains {listed(kept)} and nothing else" if kept else "each is empty"
        if self.full == self.rows:
            which = "each contains every class"
        return [f"All {self.rows} sets are alike: {which}. {_SAME_MODEL}"]

    def _rare(self) -> list[str]:
        counts, most = self.by_class.items(), _RARE * self.rows
        never = [repr(name) for name, count in counts if not count]
        rare = [f"{name!r} in {count}" for name, count in counts if 0 < count < most]
        found = {f"None of the {self.rows} sets contains {listed(never)}": never}
        found[f"Hardly any of the {self.rows} sets contains some classes ({listed(rare)})"] = rare
        remedy = "Evaluate the misses of each class, or calibrate a guarantee per class."
        return [f"{text}. {remedy}" for text, classes in found.items() if classes]


def judge_empty(
    empty: int, rows: int, epsilon: float, kind: tuple[str, str] = ("sets", "label")
) -> list[str]:
    """Say that more sets are empty than may miss, unless a few more are so by chance."""
    if not empty or special.bdtrc(empty - 1, rows, epsilon) > _CHANCE:
        return []
    text = f"{empty / rows:.1%} of the {kind[0]} are empty, which misses the true {kind[1]}"
    limit = f"at most {percent(epsilon)} may: the guarantee does not hold on these rows"
    return [f"{text}, but {limit}. {_SAME_MODEL}"]


def summarise_sets(sets: ArrayLike, classes: Sequence[Any] | None = None) -> SetSummary:
    """Return how many sets are empty, single or full, and how often each class occurs.

    Parameters
    ----------
    sets : array_like of bool, shape (n, classes)
        What ``predict_set`` returned.
    classes : sequence, optional
        Names of the columns; by default 0, 1, ...

    Returns
    -------
    SetSummary
        The figures. Its method ``warnings`` says what looks wrong.

    Examples
    --------
    >>> from metapac import summarise_sets
    >>> summarise_sets([[True, True], [True, False], [False, False]], ["no", "yes"]).by_class
    {'no': 2, 'yes': 1}
    """
    matrix, names = _read(sets, classes)
    sizes = np.count_nonzero(matrix, axis=1)
    empty, single, full = (int(np.count_nonzero(sizes == n)) for n in (0, 1, len(names)))
    mean_size = float(np.mean(sizes)) if len(matrix) else float("nan")
    by_class = dict(zip(names, matrix.sum(axis=0).tolist(), strict=True))
    return SetSummary(len(matrix), empty, single, full, mean_size, by_class)


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
        """
        truth = [as_plain_label(label) for label in y]
        _common.check_same_length("y", np.empty(len(truth)), "answers", self.answered)
        pairs = [p for p in zip(self.labels, truth, strict=True) if p[0] is not None]
        for answer, label in pairs[:1]:
            if kind_of(answer) != kind_of(label):
                rule = f"y must hold labels of the type of the answers, such as {answer!r}"
                raise InvalidInput(f"{rule}, got {label!r}.")
        wrong = sum(answer != label for answer, label in pairs)
        of_all, of_answered = (wrong / len(n) if n else float("nan") for n in (truth, pairs))
        return AnswerErrors(wrong, of_all, of_answered)

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
        epsilon = as_probability("epsilon", epsilon)
        confidence = as_probability("confidence", confidence)
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
        The answers. ``share`` is the fraction answered.

    Notes
    -----
    On a task whose miss rate is at most epsilon, at most a fraction epsilon of all questions is
    answered wrongly, because a wrong answer is a set that misses the true label. Of the *answered*
    questions, more may be wrong: see ``Answers.bound_errors``.

    Examples
    --------
    >>> from metapac import answers
    >>> answers([[True, False], [True, True], [False, False]], ["no", "yes"]).labels
    ['no', None, None]
    """
    lists = _as_label_lists(sets, classes)
    answered = np.array([len(labels) == 1 for labels in lists], dtype=np.bool_)
    return Answers([labels[0] if len(labels) == 1 else None for labels in lists], answered)


def _as_label_lists(sets: Any, classes: Sequence[Any] | None) -> list[list[Any]]:
    """Return the labels of each set, from a boolean matrix or from such lists."""
    if len(getattr(sets, "shape", ())) == 2:
        return label_lists(sets, classes)
    rows = list(sets)
    rule = "sets must be a boolean matrix, or hold the labels of each set, such as ['cat'] or []"
    if any(isinstance(row, str) or not hasattr(row, "__iter__") for row in rows):
        raise InvalidInput(f"{rule}, got {brief(rows)}.")
    lists = [list(row) for row in rows]
    kinds = {type(value) for row in lists for value in row}
    if kinds and kinds <= {bool, np.bool_}:
        if len({len(row) for row in lists}) > 1:
            raise InvalidInput(f"{rule}, got {brief(lists)}.")
        return label_lists(lists, classes)
    if classes is not None:
        raise InvalidInput("classes names the columns of a matrix, but sets holds labels already.")
    return lists
