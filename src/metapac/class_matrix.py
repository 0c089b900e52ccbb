"""Scores of all classes in one matrix: which column is which, and the score of the true label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from metapac import _ids, _scores
from metapac._checks import check_same_index, check_same_length, listed
from metapac._types import Counts, Floats
from metapac.exceptions import InvalidInput
from metapac.label_names import advise_on_labels


class ClassMatrix(NamedTuple):
    """Scores of all classes, and the true labels.

    Attributes
    ----------
    scores : ndarray, shape (n, classes)
        The scores.
    classes : tuple
        The class of each column.
    codes : ndarray of int, shape (n,)
        Column of each true label.
    labels : list
        True label of each example, as one of ``classes``.
    """

    scores: Floats
    classes: tuple[Any, ...]
    codes: Counts
    labels: list[Any]

    @property
    def true_scores(self) -> Floats:
        """Scores of the true labels."""
        return self.scores[np.arange(len(self.codes)), self.codes]


def read_class_matrix(
    scores: ArrayLike, labels: Any, classes: Sequence[Any] | None = None
) -> ClassMatrix | None:
    """Return a matrix of class scores with its labels; None if scores are those of true labels.

    Parameters
    ----------
    scores : array_like, shape (n,) or (n, classes)
        The scores; a data frame names its columns itself.
    labels : array_like, shape (n,), or None
        True labels.
    classes : sequence, optional
        Classes of the columns; by default the names of a data frame, or 0, 1, ...

    Returns
    -------
    ClassMatrix or None
        The matrix.

    Raises
    ------
    InvalidInput
        If classes, columns and labels do not fit together.
    """
    array = _scores.as_calibration_scores("scores", scores)
    if array.ndim != 2 or labels is None:
        if classes is not None:
            raise InvalidInput(
                "classes names the columns of a matrix, which needs labels too: pass scores of "
                f"shape (n, classes) and labels, got scores of shape {array.shape}"
                f"{' without labels' if labels is None else ''}."
            )
        return None
    names = _column_classes(array.shape[1], scores, classes)
    check_same_index("labels", labels, "scores", scores)
    found, codes = _ids.as_class_codes(labels)
    check_same_length("scores", array, "labels", codes)
    place = {name: column for column, name in enumerate(names)}
    by_text = {str(name): column for name, column in place.items()}  # as tables name classes
    position = [place.get(label, by_text.get(str(label), -1)) for label in found]
    unknown = [repr(label) for label, i in zip(found, position, strict=True) if i < 0]
    if unknown:
        texts = [str(label) for label, i in zip(found, position, strict=True) if i < 0]
        advice = advise_on_labels(texts, [*by_text])
        raise InvalidInput(
            "labels must be among the classes {}, got {}. {}",
            listed([*map(repr, names)]),
            listed(unknown),
            advice
            or "Pass the class of each column of scores as classes=[...], in the order of the "
            "columns, such as model.classes_.",
        )
    columns = np.array(position, dtype=np.int64)[codes]
    return ClassMatrix(array, names, columns, [names[column] for column in columns.tolist()])


def check_column_order(
    stored: Sequence[Any],
    pattern: str | Sequence[str],
    scores: Any,
    classes: Sequence[Any] | None = None,
    by_position: bool = True,
) -> None:
    """Raise InvalidInput unless the columns of ``scores`` are the calibrated classes, in order.

    Parameters
    ----------
    stored : sequence
        The calibrated classes.
    pattern : str or sequence of str
        Name of a column in the calibration table, the star being the class; or the columns.
    scores : array_like
        Scores of labels; a data frame names its columns itself.
    classes : sequence, optional
        Classes of the columns, if they were passed.
    by_position : bool, default True
        Whether each class has its own threshold, so that even one row needs every class.
    """
    shape = np.shape(_scores.as_score_array("scores", scores))
    expected = [str(name) for name in stored]
    if (by_position and not shape) or (
        (by_position or len(shape) > 1) and shape[-1] != len(expected)
    ):
        raise InvalidInput(
            f"scores must have a column for each of the {len(expected)} classes "
            f"{listed([*map(repr, stored)])}, in this order, got shape {shape}."
        )
    given = _given_names(scores, classes)
    if isinstance(pattern, str):
        pattern = [pattern.replace("*", name) for name in expected]
    if given is None or given in (expected, list(pattern)):
        return
    in_order = "Reorder the columns, such as scores[:, [...]] or frame[[...]]."
    raise InvalidInput(
        f"the columns of scores are {listed(given)}, but the classes were calibrated in the order "
        f"{listed(expected)}, and a set is decided by position. {in_order}"
    )


def _given_names(scores: Any, classes: Sequence[Any] | None) -> list[str] | None:
    """Return the names of the columns as texts; None if they have none."""
    if classes is not None:
        return [str(name) for name in classes]
    names = _frame_columns(scores)
    return None if names is None else [str(name) for name in names]


def _frame_columns(scores: Any) -> list[Any] | None:
    """Return the column names of a data frame; None if it was made without names."""
    if not hasattr(scores, "columns") or not hasattr(scores, "__array__"):
        return None
    names = [_ids.as_plain_label(name) for name in scores.columns]
    return None if names == list(range(len(names))) else names


def _column_classes(width: int, scores: Any, classes: Sequence[Any] | None) -> tuple[Any, ...]:
    named = _frame_columns(scores)
    if classes is None:
        return tuple(range(width) if named is None else named)
    names = tuple(_ids.as_plain_label(name) for name in classes)
    if len(names) != width or len({*map(str, names)}) != width:
        raise InvalidInput(
            f"classes must name each of the {width} columns of scores once, got "
            f"{listed([*map(repr, names)])}."
        )
    texts = [str(name) for name in names]
    if named is not None and {*map(str, named)} == {*texts} and [*map(str, named)] != texts:
        raise InvalidInput(
            f"classes are {listed([*map(repr, names)])}, but the frame has its columns in the "
            f"order {listed([*map(repr, named)])}. Leave classes out."
        )
    return names
