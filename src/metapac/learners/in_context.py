"""In-context learning: a function that reads labelled texts and scores the labels of new texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from metapac._checks import as_whole_number, brief, check_one_of, on_host
from metapac._types import Array
from metapac.exceptions import InvalidInput
from metapac.learners import _checks
from metapac.learners.adapters import FunctionScorer
from metapac.scoring.functions import KINDS


class InContextLearner:
    """A prompted language model, or any function of labelled texts and new texts.

    Adapting costs nothing: the labelled texts go into the prompt. Nothing is cached, since a cache
    would hide from `metapac.scoring.score_tasks` that texts influence each other's scores.

    Parameters
    ----------
    function : callable
        Called as ``function(support_texts, support_labels, texts)`` with three lists. Returns a
        number for each text and label, of shape (n, classes), higher for more plausible labels.
        Each text needs a prompt of its own: texts that are scored in one prompt influence each
        other, and no guarantee would hold.
    labels : sequence of str, optional
        Names of labels 0, 1, ..., the same in every task. The function then gets names in place
        of numbers, and scores all of them, also those absent from the support set.
    outputs : {"probabilities", "logits", "scores"}, default "logits"
        What the numbers are. Log-likelihoods are logits: their softmax over the labels is a
        probability. See `CallableLearner`.
    batch_size : int, optional
        Largest number of texts in one call; by default all texts of a task.

    Raises
    ------
    InvalidInput
        If the function is not callable, or a parameter is not valid.

    Notes
    -----
    Log-likelihoods of a language model in bfloat16, or of a remote one, change by some hundredths
    from call to call. Return them as float16: `metapac.scoring.score_tasks` then allows for it.

    Examples
    --------
    >>> from metapac.learners import InContextLearner
    >>> names = ["refund", "delivery"]
    >>> def count_words(support_texts, support_labels, texts):  # stands in for a language model
    ...     words = {name: set() for name in names}
    ...     for text, label in zip(support_texts, support_labels):
    ...         words[label] |= set(text.split())
    ...     return [[len(words[name] & set(text.split())) for name in names] for text in texts]
    >>> learner = InContextLearner(count_words, labels=names)
    >>> scorer = learner.adapt(["my money back", "where is my parcel"], [0, 1])
    >>> scorer.predict_proba(["the parcel is lost"]).round(3).tolist()
    [[0.119, 0.881]]
    """

    def __init__(
        self,
        function: Callable[[list[str], list[Any], list[str]], Any],
        *,
        labels: Sequence[str] | None = None,
        outputs: str = "logits",
        batch_size: int | None = None,
    ) -> None:
        _checks.check_function(function)
        check_one_of("outputs", outputs, KINDS)
        self.function = function
        self.labels = None if labels is None else _as_label_names(labels)
        self.outputs = outputs
        self.batch_size = None if batch_size is None else as_whole_number("batch_size", batch_size)

    def adapt(
        self, support_x: Any, support_y: Any, *, classes: int | None = None
    ) -> FunctionScorer:
        """Return the function with the labelled texts filled in.

        Parameters
        ----------
        support_x : sequence of str, length s
            Labelled texts.
        support_y : array_like of int or str, shape (s,)
            Their labels, from 0 to ``classes - 1``, or their names, if the learner has ``labels``.
        classes : int, optional
            Number of labels; by default that of ``labels``, or one more than the largest label.

        Returns
        -------
        FunctionScorer
            The adapted model.
        """
        known = None if self.labels is None else len(self.labels)
        numbers, total = _checks.as_support_set(
            support_x, _as_numbers(support_y, self.labels), classes or known
        )
        if known is not None and total != known:
            raise InvalidInput(
                f"the learner names {known} labels, {brief(self.labels)}, and the task has "
                f"{total}. Name the labels of the tasks, or leave labels out."
            )
        texts = _as_texts("support_x", support_x)
        names = numbers.tolist() if self.labels is None else [self.labels[i] for i in numbers]
        return FunctionScorer(
            lambda x: self._score(texts, names, _as_texts("x", x)),
            np.unique(numbers) if self.labels is None else np.arange(total),
            total,
            self.outputs,
            _checks.name_function(self.function, "the function of InContextLearner"),
        )

    def __repr__(self) -> str:
        name = _checks.name_function(self.function, "lambda")
        return f"InContextLearner({name}, labels={self.labels!r}, outputs={self.outputs!r})"

    def _score(self, texts: list[str], labels: list[Any], queries: list[str]) -> Array:
        """Return the numbers of all queries, from as many calls as there are batches."""
        size = self.batch_size or max(len(queries), 1)
        parts: list[Array] = []
        for start in range(0, max(len(queries), 1), size):
            batch = queries[start : start + size]
            parts.append(np.asarray(on_host(self.function(list(texts), list(labels), batch))))
            if parts[-1].shape != (len(batch), *parts[0].shape[1:]):
                raise InvalidInput(
                    "{} must return a row for each text and a column for each label, got shape {} "
                    "for a batch of {}.",
                    _checks.name_function(self.function, "the function of InContextLearner"),
                    parts[-1].shape,
                    len(batch),
                )
        return np.concatenate(parts)


def _as_numbers(support_y: Any, labels: list[str] | None) -> Any:
    """Return the positions of names in ``labels``; anything but names as it is."""
    named = list(support_y) if isinstance(support_y, list | tuple | np.ndarray) else []
    if labels is None or not named or not all(isinstance(name, str) for name in named):
        return support_y
    unknown = [str(name) for name in named if name not in labels]
    if unknown:
        raise InvalidInput(
            f"support_y must hold labels of the learner, {brief(labels)}, got {unknown[0]!r}."
        )
    return [labels.index(name) for name in named]


def _as_texts(name: str, x: Any) -> list[str]:
    texts = [x] if isinstance(x, str) else list(x)
    wrong = [text for text in texts if not isinstance(text, str)]
    if wrong or isinstance(x, str):
        got = f"one text, {brief(x)}" if isinstance(x, str) else brief(wrong[0])
        raise InvalidInput(
            f"{name} must hold texts, got {got}. Pass a list of texts; for other examples use "
            "CallableLearner."
        )
    return [str(text) for text in texts]  # texts of NumPy too


def _as_label_names(labels: Sequence[str]) -> list[str]:
    names = [] if isinstance(labels, str) else list(labels)
    if len(names) < 2 or not all(isinstance(name, str) for name in names):
        raise InvalidInput(
            f"labels must name at least two labels, such as ['no', 'yes'], got {brief(labels)}."
        )
    if len(set(names)) < len(names):
        raise InvalidInput(f"labels must be distinct, got {brief(names)}.")
    return names
