"""Calibrated predictors: Meta-PS, which applies the inequality twice, and PS, once."""

from __future__ import annotations

import functools
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NotRequired, Self, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from metapac import _common, artefact, data_checks, guarantee, inputs, planning, sets, words
from metapac._common import Floats, PathLike, Progress, reject_foreign_keywords
from metapac._text import inflect
from metapac.binomial import allowed_errors, min_integer, threshold
from metapac.columns import hold_losses, hold_numbers
from metapac.context import Context, as_context, decode_context, encode_context
from metapac.data_checks import SetCounts
from metapac.errors import InfeasibleGuarantee, InvalidInput, NotCalibrated
from metapac.evidence import (
    UNKNOWN,
    Evidence,
    Outcome,
    Part,
    count_absent,
    decode_evidence,
    encode_evidence,
    first_step,
    join_evidence,
)
from metapac.grouping import ClusterIds, Data, Scored, as_data
from metapac.guarantee import Epsilon, Guarantee, PerClass, Split, drop_defaults, keep_rule
from metapac.lists import check_drawn
from metapac.ranks import Level
from metapac.words import Rule, Words, describe_draw

if TYPE_CHECKING:
    from metapac.exploration import Exploration
    from metapac.score_functions import ScoreFunction


class _Sets(TypedDict):
    rows: Annotated[artefact.Count, bool]
    sampled: bool
    sizes: list[artefact.Count]
    classes: list[artefact.Count]
    spread: NotRequired[list[float] | None]


class _Document(TypedDict):
    promise: artefact.Name
    columns: NotRequired[dict[str, Any] | None]
    context: NotRequired[dict[str, Any] | None]
    sets: NotRequired[_Sets]


def _upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the rule for ranks that its version had."""
    return keep_rule(document) if document.get("kind") == "MetaPS" else document


FORMAT = artefact.Format(
    "metapac promise",
    written_by=".save() or by 'metapac calibrate -o'",
    remedy="Calibrate again, or restore it from a backup.",
    schema=2,
    shape=_Document,
    upgrade=_upgrade,
)


ON_INFEASIBLE = ("raise", "trivial")
_MOST_SHIFTED = (2_000, 400)  # with more tasks, with a delta and without, `free_shift` takes long


class Calibrated(ABC):
    """A predictor whose calibrated result comes with a guarantee. Subclasses calibrate it."""

    context_: Context
    precision_: np.dtype[np.floating[Any]]
    _kind: ClassVar[str]  # its name in promise files; a subclass is saved as its parent
    _calibrated_with: dict[str, Any] | None = None  # None until it is calibrated

    @property
    @abstractmethod
    def promise_(self) -> str:
        """The guarantee in one sentence, with its numbers and its assumptions."""

    @abstractmethod
    def explain(self) -> str:
        """Return the guarantee in plain words, for people who are not statisticians.

        Tasks and examples are called as ``context`` names them. Percentages are exact; thresholds
        are rounded down, so that whoever applies them keeps at least as many labels.

        Returns
        -------
        str
            What was checked, what holds, how sure one can be, what it does not say, and what to do
            with sets: paragraphs separated by empty lines; items of a list start with "- ".
        """

    @abstractmethod
    def _result(self) -> tuple[str, Any]:
        """Return what was calibrated: its name in promise files, and its value."""

    @abstractmethod
    def _body(self) -> dict[str, Any]:
        """Return the rest of a promise file, such as the evidence."""

    @abstractmethod
    def _restore(self, body: dict[str, Any]) -> None:
        """Set all results from the content of a promise file."""

    def save(self, path: PathLike) -> None:
        """Write a promise file: the result, its guarantee and its evidence as versioned JSON.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        self.check_calibrated()
        artefact.write(path, self._to_json(), FORMAT)

    def _to_json(self) -> dict[str, Any]:
        """Return what a promise file holds."""
        name, result = self._encoded_result()
        return {
            "kind": self._kind,
            "parameters": artefact.encode_parameters(drop_defaults(self.get_params())),
            "promise": self.promise_,
            name: result,
            "precision": self.precision_.name,
            "context": encode_context(self._about()),
            **self._body(),
        }

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters, as scikit-learn expects.

        Parameters
        ----------
        deep : bool, default True
            Ignored; no parameter is an estimator.

        Returns
        -------
        dict
            Value of each parameter by name.
        """
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Set constructor parameters by name, as scikit-learn expects.

        Parameters
        ----------
        **params : object
            New values. Calibrate again after a change.

        Returns
        -------
        Calibrated
            The object itself.
        """
        names = self._parameter_names()
        for name, value in params.items():
            if name not in names:
                kind = type(self).__name__
                raise InvalidInput(f"{name!r} is not a parameter of {kind}: {', '.join(names)}.")
            setattr(self, name, value)
        return self

    def check_calibrated(self) -> None:
        """Raise NotCalibrated before calibration, or if the parameters have changed since."""
        name, then, now = type(self).__name__, self._calibrated_with, self._guarantee_params()
        if then is None:
            raise NotCalibrated(f"this {name} is not calibrated yet. Call .calibrate(...) first.")
        if then != now:
            change = f"was calibrated with {then}, and its parameters were changed to {now}"
            raise NotCalibrated(f"this {name} {change}. Call .calibrate(...) again.")

    @classmethod
    @functools.cache
    def _parameters(cls) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(cls).parameters

    @classmethod
    def _parameter_names(cls) -> tuple[str, ...]:
        return tuple(cls._parameters())

    def _mark_calibrated(self, precision: np.dtype[Any]) -> Self:
        self.precision_ = precision
        self._calibrated_with = self._guarantee_params()
        return self

    def _guarantee_params(self) -> dict[str, Any]:
        """Return the parameters that the guarantee depends on; mappings are copied."""
        params = {k: v for k, v in self.get_params().items() if k != "on_infeasible"}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in params.items()}

    def _encoded_result(self) -> tuple[str, Any]:
        """Return the result with its name, as JSON can hold it."""
        name, value = self._result()
        return name, artefact.encode_floats(np.asarray(value, dtype=float).tolist())

    def __repr__(self) -> str:
        params, state = self.get_params(), ""
        if self._calibrated_with == self._guarantee_params():
            defaults = self._parameters()
            params = {k: v for k, v in params.items() if v != defaults[k].default}
            state = f" {self._state()}"
        listed = ", ".join(f"{name}={value!r}" for name, value in params.items())
        text = f"{type(self).__name__}({listed}){state}"
        return f"<{text}>" if state else text

    @abstractmethod
    def _state(self) -> str:
        """Return what was calibrated and on what, such as "calibrated on 60 tasks ..."."""

    def _about(self) -> Context:
        """Return what the guarantee is about."""
        return getattr(self, "context_", None) or Context()

    def _repr_html_(self) -> str:
        """Return a card for notebooks: the explanation, and the guarantee in one sentence."""
        if self._calibrated_with != self._guarantee_params():
            return words.render_text(repr(self))
        return words.render_card(repr(self), self.explain(), self.promise_)

    def __str__(self) -> str:
        return repr(self) if self._calibrated_with is None else self.promise_


class ThresholdSets(Calibrated):
    """Prediction sets of all labels whose score is at least a calibrated threshold."""

    epsilon: Any
    classes_: tuple[Any, ...] | None = None
    columns_: dict[str, Any] | None = None
    threshold_: float
    thresholds_: NDArray[np.float64]
    _score_range: tuple[float, float] | None = None  # in calibration, of true labels; if known
    _sets: SetCounts | None = None  # of the calibration rows, if all labels had scores

    def __getattr__(self, name: str) -> Any:
        """Explain why a result is missing."""
        if name.endswith("_") and not name.startswith("_"):
            self.check_calibrated()
        if name in ("threshold_", "thresholds_"):
            text = "with per_class=True each class has a threshold, in .thresholds_; otherwise all"
            text += f" share .threshold_, so there is no {name} here. Use .threshold_of(label)."
            raise NotCalibrated(text)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _set_threshold(self, threshold: float | NDArray[np.float64]) -> None:
        """Set the threshold, or with ``per_class`` that of each class, and drop an earlier one."""
        for name in ("threshold_", "thresholds_"):
            vars(self).pop(name, None)
        setattr(self, "threshold_" if isinstance(threshold, float) else "thresholds_", threshold)

    def threshold_of(self, label: Any) -> float:
        """Return the threshold that decides whether a label is kept.

        Parameters
        ----------
        label : object
            With ``per_class``, one of ``classes_``; otherwise any label, since all share one.

        Returns
        -------
        float
            The threshold.
        """
        self.check_calibrated()
        if self.classes_ is None:
            return self.threshold_
        if label not in self.classes_:
            raise InvalidInput(f"label must be one of {self.classes_}, got {label!r}.")
        return float(self.thresholds_[self.classes_.index(label)])

    def predict_set(
        self,
        scores: ArrayLike,
        *,
        classes: Sequence[Any] | None = None,
        score: str | ScoreFunction | Callable[[Any], Any] | None = None,
    ) -> NDArray[np.bool_]:
        """Return which labels are kept: those whose score is at least the threshold.

        The comparison is made in the coarser of the precisions of these scores and of the
        calibration scores: rounding preserves order, so it cannot lose a label that was certified.

        Parameters
        ----------
        scores : array_like, usually of shape (n, classes)
            Scores of labels. If calibrated on all classes, or with ``per_class``, the last axis
            holds the classes in the same order; the column names of a data frame are compared.
        classes : sequence, optional
            Class of each column, to be compared with the calibrated ones.
        score : str or ScoreFunction, optional
            Score function, to be compared with the calibrated one, ``Context(score=...)``.

        Returns
        -------
        ndarray of bool
            Whether each label is kept, in the shape of ``scores``.

        Warns
        -----
        CheckWarning
            If the first scores look like percentages or logarithms and those of calibration did not
            (or the reverse); if all sets are empty, or at least 200 unlike those of calibration.
        """
        self.check_calibrated()
        if self._is_interval:
            raise InvalidInput("this predictor was calibrated for intervals. Use predict_interval.")
        self._about().check_score(score)
        self._check_order(scores, classes)
        array = np.atleast_1d(inputs.as_score_array("scores", scores))
        data_checks.warn_of_scale(array, self._score_range)
        kept = inputs.is_at_least(scores, self._result()[1], self.precision_)
        if kept.ndim == 2:
            data_checks.warn_of_sets(kept, self._sets, self._known_classes)
        return kept

    def predict(
        self,
        table: Data,
        output: PathLike | None = None,
        *,
        booleans: bool = False,
        answer: bool = False,
        model: str | None = None,
        allow: Iterable[str] = (),
    ) -> Any:
        """Return the rows of a table with their prediction sets, and write them to ``output``.

        Nothing is written if a score is null or NaN. For arrays, use ``predict_set`` or
        ``predict_interval``.

        Parameters
        ----------
        table : Table
            What ``open_table`` returned. Columns that it does not name are those of the
            calibration, or ``p_*``. For intervals, columns ``lower`` and ``upper`` are added.
        output : path, optional
            Parquet or CSV file to write. It is replaced atomically.
        booleans : bool, default False
            Whether to add a column in_CLASS for each class, instead of the columns ``set``, a list
            of labels (JSON text in CSV and in SQLite), and ``set_size``.
        answer : bool, default False
            Whether to add a column ``answer``: the label of a set of one, null for any other set.
            At most a fraction epsilon of all rows of a task is answered wrongly where the guarantee
            holds; see `metapac.answers`.
        model : str, optional
            Model that gave the scores, to be compared with the calibrated one; by default the one
            that ``metapac score`` stored in the table.
        allow : iterable of str, default ()
            Checks of the data to skip; the message of a check names it.

        Returns
        -------
        ibis.Table
            The rows with their sets, computed when they are needed.

        Examples
        --------
        >>> import pandas as pd
        >>> from metapac import PS, open_table
        >>> promise = PS(epsilon=0.1, delta=0.1).calibrate([i / 100 for i in range(100)])
        >>> scores = pd.DataFrame({"p_cat": [0.9, 0.6], "p_dog": [0.02, 0.4]})
        >>> promise.predict(open_table(scores)).to_pandas()[["set", "set_size"]]
                  set  set_size
        0       [cat]         1
        1  [cat, dog]         2
        """
        self.check_calibrated()
        if not hasattr(table, "add_sets"):
            text = f"table must be what open_table returned, got {_common.brief(table)}."
            raise InvalidInput(f"{text} For arrays, use predict_set.")
        form: dict[str, Any] = {"booleans": booleans, "answer": answer}
        added = table.add_sets(self, output, model=model, allow=allow, **form)
        for warning in added.warnings:
            _common.warn(warning)
        return added.table

    def _thresholds_of(self, classes: Sequence[Any] | None) -> Floats:
        """Return the thresholds of some classes, as `Data.counts` takes them."""
        if self.classes_ is None:
            return np.full((1, 1, 1), self.threshold_)
        by_text = dict(zip(map(str, self.classes_), self.thresholds_.tolist(), strict=True))
        for name in (name for name in classes or () if str(name) not in by_text):
            rule = f"classes must be among {_common.listed([*map(repr, self.classes_)])}"
            raise InvalidInput(f"{rule}, got {name!r}.")
        used = self.classes_ if classes is None else classes
        return np.array([[[by_text[str(name)] for name in used]]])

    @property
    def _is_interval(self) -> bool:
        """Whether it was calibrated for intervals; scores of residuals do not tell."""
        return hold_numbers(self.columns_)

    @property
    def _known_classes(self) -> Sequence[Any] | None:
        """Names of the columns of a matrix of scores; None if they are not known."""
        return self.classes_ or (self.columns_ or {}).get("classes")

    def _resolve(self, data: Data) -> Data:
        """Return labelled examples, with what the user left out as in calibration."""
        return data.resolve(self)

    def _check_order(self, scores: ArrayLike, classes: Sequence[Any] | None) -> None:
        """Raise unless the last axis of ``scores`` holds the calibrated classes, in their order."""
        known = self._known_classes
        if known is None and classes is not None:
            raise InvalidInput("classes cannot be compared: none were calibrated. Leave them out.")
        if known is not None:
            pattern = (self.columns_ or {}).get("columns", "p_*")
            inputs.check_column_order(known, pattern, scores, classes, self.classes_ is not None)

    def predict_interval(
        self,
        prediction: ArrayLike | None = None,
        scale: ArrayLike | None = None,
        *,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
    ) -> Floats:
        """Return an interval for each prediction, if calibrated for intervals.

        Parameters
        ----------
        prediction : array_like, optional
            Predicted values.
        scale : array_like, optional
            Scale of each residual, if calibrated with a scale; by default 1.
        lower, upper : array_like, optional
            Two predicted quantiles, if calibrated with these instead of ``prediction``.

        Returns
        -------
        ndarray
            Lower and upper ends, in the shape of the predictions with a last axis of length 2. From
            quantiles an interval can be empty: its ends are then ``inf`` and ``-inf``.
        """
        self.check_calibrated()
        if self.classes_ is not None:
            raise InvalidInput("an interval needs one threshold, and per_class=True has several.")
        numbers = {"prediction": prediction, "scale": scale, "lower": lower, "upper": upper}
        given, known = sets.name_numbers(**numbers), self.columns_ or {}
        if self._is_interval and ("lower" in known) != ("lower" in given):
            wanted = ("lower", "upper") if "lower" in known else ("prediction",)
            rule = f"{' and '.join(wanted)} must be passed, as in calibration"
            raise InvalidInput(f"{rule}: a guarantee holds for one score.", parameter=wanted)
        if "lower" in given:
            return sets.quantile_interval(self.threshold_, **given, precision=self.precision_)
        widths = 1.0 if scale is None else scale
        if "scale" in known and scale is None:
            raise InvalidInput("scale must be passed: the residuals were calibrated with a scale.")
        if self._is_interval and "scale" not in known and np.any(np.asarray(widths) != 1):
            raise InvalidInput("scale must be left out: the residuals were calibrated without.")
        centre = given["prediction"]
        return sets.interval(self.threshold_, centre, widths, precision=self.precision_)

    def _body(self) -> dict[str, Any]:
        kept = {} if self._sets is None else {"sets": self._sets._asdict()}
        return {"columns": self.columns_, "evidence": self._encode_evidence(), **kept}

    @abstractmethod
    def _encode_evidence(self) -> dict[str, Any]:
        """Return what the threshold rests on, as JSON can hold it."""

    def _result(self) -> tuple[str, Any]:
        name = "threshold" if self.classes_ is None else "thresholds"
        return name, getattr(self, f"{name}_")

    def _state(self) -> str:
        name, value = self._result()
        shown = map(words.round_down, np.atleast_1d(value).tolist())
        if self.classes_ is not None:
            shown = map("{} {}".format, self.classes_, shown)
        return f"calibrated on {self._basis()}, {name} {_common.listed([*shown], shown=3)}"

    @abstractmethod
    def _basis(self) -> str:
        """Return what the threshold rests on, such as "60 hospitals"."""


class MetaPS(ThresholdSets):
    """Prediction sets with a bounded miss rate on at least ``1 - alpha`` of new tasks.

    With confidence ``1 - delta`` over the calibration tasks, at least a fraction ``1 - alpha`` of
    new tasks, each with its own adaptation examples if the model is adapted to tasks, have sets
    that miss the true label at most a fraction ``epsilon`` of the time.

    Parameters
    ----------
    epsilon : float or mapping from class to float
        Miss rate allowed on a task. With ``per_class``, a mapping gives each class its own.
    alpha : float
        Fraction of new tasks on which the miss rate may exceed ``epsilon``.
    delta : float or None
        Failure probability of the guarantee. None gives a guarantee in expectation, which is
        weaker and needs far fewer tasks: 10 at ``alpha=0.1``.
    split : {"joint", "tight", "even"} or float, default "joint"
        How ``alpha`` is shared between the two steps. "joint" usually gives the smallest sets;
        "tight" lets a site send a single number; "even" is the paper's. A number, at most 1/2, is
        the level within tasks and must be chosen before seeing the data.
    per_class : bool or "together", default False
        Whether to bound the miss rate of each class separately, with a threshold for each.
        ``delta`` is divided among the classes. With "together" there is one guarantee: on at least
        ``1 - alpha`` of new tasks, no class is missed too often. It needs ``offsets``, which may
        then also be an `Exploration` of pilot tasks.
    min_examples : int, default 0
        Leave out tasks with fewer examples (with ``per_class``, of the class). The guarantee then
        covers only tasks with at least this many. Rarely needed: small tasks are no obstacle.
    new_tasks, shift, dishonest, sampling, randomise, offsets : optional
        A finite list of new tasks, new tasks from elsewhere, dishonest sites, how the examples of a
        task are sampled, and the offsets of classes, as in `Guarantee`.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do if the data are too few: raise ``InfeasibleGuarantee``, or keep every label (for
        numbers, infinite intervals).

    Attributes
    ----------
    threshold_ : float
        The smallest score that is kept; with ``per_class="together"``, the smallest difference of
        score and offset. Not available with ``per_class=True``.
    thresholds_ : ndarray, shape (classes,)
        With ``per_class``, the smallest score that is kept for each class.
    classes_ : tuple or None
        With ``per_class``, the classes, in the order of the columns of ``predict_set``.
    tasks_ : ndarray
        Calibration tasks, without those that ``min_examples`` leaves out; with ``per_class``, all.
    task_sizes_, task_thresholds_ : ndarray
        Number of examples and threshold of each task; with ``per_class``, a column for each class
        (with "together", the threshold is one for all classes, compared after the offsets).
    left_out_ : int or ndarray
        Number of tasks that ``min_examples`` leaves out; with ``per_class``, for each class.
    clusters_ : ndarray or None
        If calibrated with ``clusters``, the cluster of each of ``tasks_``.
    level_ : Level or tuple of Level
        The level with the largest threshold; with ``per_class``, one for each class.
    guarantee_, context_, columns_ : Guarantee, Context, dict or None
        What is guaranteed, what it is about, and the columns if calibrated on a table.
    precision_ : numpy.dtype
        Precision of the calibration scores.
    promise_ : str
        The guarantee in one sentence.

    Notes
    -----
    One inequality is applied twice. Within each task it finds a threshold whose miss rate is at
    most ``epsilon``; across tasks it finds a threshold that is low enough for at least a fraction
    ``1 - alpha`` of new tasks. docs/theory/guarantee.md has the theorem and its proof.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import MetaPS
    >>> rng = np.random.default_rng(0)
    >>> scores, hospitals = rng.random(120 * 50), np.repeat(np.arange(120), 50)
    >>> method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05).calibrate(scores, hospitals)
    >>> method.predict_set([[0.9, 0.5, 0.001]])
    array([[ True,  True, False]])
    """

    _kind = "MetaPS"
    guarantee_: Guarantee
    level_: Level | tuple[Level, ...]
    tasks_: NDArray[Any]
    task_sizes_: NDArray[np.int64]
    task_thresholds_: NDArray[np.float64]
    left_out_: int | NDArray[np.int64]
    clusters_: NDArray[Any] | None

    @reject_foreign_keywords
    def __init__(
        self,
        *,
        epsilon: Epsilon,
        alpha: float,
        delta: float | None,
        split: Split = "joint",
        per_class: PerClass = False,
        min_examples: int = 0,
        new_tasks: int | None = None,
        shift: float = 0.0,
        dishonest: int = 0,
        sampling: str = "any",
        randomise: int | None = None,
        offsets: Mapping[Any, float] | Exploration | None = None,
        on_infeasible: str = "raise",
    ) -> None:
        self.epsilon = epsilon
        self.alpha = alpha
        self.delta = delta
        self.split = split
        self.per_class = per_class
        self.min_examples = min_examples
        self.new_tasks = new_tasks
        self.shift = shift
        self.dishonest = dishonest
        self.sampling = sampling
        self.randomise = randomise
        self.offsets = offsets
        self.on_infeasible = on_infeasible

    def calibrate(
        self,
        scores: ArrayLike | Data,
        tasks: ArrayLike | Iterable[object] | None = None,
        labels: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        clusters: ClusterIds | None = None,
        within: ArrayLike | Iterable[object] | None = None,
        lacking: Mapping[Any, Iterable[Any]] | None = None,
        rng: int = 0,
        context: Context | None = None,
        allow: Iterable[str] = (),
        progress: Progress | None = None,
    ) -> Self:
        """Find the threshold from labelled examples of the calibration tasks.

        Parameters
        ----------
        scores : array_like, shape (n,) or (n, classes), or Table
            Scores of the true labels, or with ``labels`` those of all classes; higher means more
            plausible. Or a table from ``open_table``, which gives the same result as its scores in
            arrays, with tasks sorted by name.
        tasks : array_like, shape (n,), optional
            Task of each example: strings, integers, or anything hashable. Needed with arrays.
        labels : array_like, shape (n,), optional
            True label of each example. Needed with scores of all classes and with ``per_class``,
            and only then.
        classes : sequence, optional
            Class of each column of ``scores``, such as ``model.classes_``; by default the column
            names of a data frame, or 0, 1, ... ``predict_set`` then expects the same order.
        clusters : array_like, shape (n,), or mapping from task, optional
            Cluster of each example or task, such as its hospital group. Tasks of one cluster may
            depend on each other; clusters are independent. One random task of each cluster is
            calibrated on, and the guarantee is for new tasks of new clusters.
        within : array_like, shape (n,), optional
            Unit of each example within its task, such as its household or patient. Examples of one
            unit may depend on each other; units are independent. One random example of each is
            calibrated on, and the guarantee is for a random example of a random unit. A name that
            occurs in two tasks names two units.
        lacking : mapping from class to iterable of tasks, optional
            With ``per_class="together"``, the tasks that have no example of a class at all, in the
            sample or elsewhere. Another task whose sample lacks a class keeps every label.
        rng : int, default 0
            Seed of these draws, which do not look at scores. Fix it beforehand: choosing the seed
            by its result breaks the guarantee.
        context : Context, optional
            What the guarantee is about: model, training tasks, vocabulary.
        allow : iterable of str, default ()
            Checks of the data to skip, such as "duplicates"; the message of a check names it.
        progress : callable, optional
            Called as ``progress(stage, done, total)`` at each step of reading a table.

        Returns
        -------
        MetaPS
            The object itself, calibrated.

        Raises
        ------
        InfeasibleGuarantee
            If the tasks are too few or too small; the message says what would work.
        """
        data = as_data(scores, tasks, labels, classes, clusters, within)
        stated, about = self._make_guarantee(), data.add_origin(as_context(context))
        explored: Any = self.offsets
        if _is_explored(explored):
            about = replace(about, pilot=[*(about.pilot or ()), *explored.tasks])
        guarantee, allow = match_classes(stated, data), data_checks.check_allowed(allow)
        evidence = self._first_step(data, guarantee, allow, rng, about, progress, lacking)
        return self._calibrate_across(guarantee, evidence, about, allow)

    def calibrate_intervals(
        self,
        y: ArrayLike,
        prediction: ArrayLike | None = None,
        tasks: ArrayLike | Iterable[object] | None = None,
        scale: ArrayLike | None = None,
        *,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        clusters: ClusterIds | None = None,
        within: ArrayLike | Iterable[object] | None = None,
        rng: int = 0,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Find the threshold of prediction intervals, from numbers that a model predicted.

        The threshold is that of ``calibrate`` on `residual_scores` or, with ``lower`` and
        ``upper``, on `quantile_scores`. The guarantee then speaks of intervals, which
        ``predict_interval`` returns.

        Parameters
        ----------
        y : array_like, shape (n,)
            True values.
        prediction, tasks : array_like, shape (n,), optional
            Predicted values, and the task of each example, which is always needed.
        scale : array_like, shape (n,), optional
            Scale of each residual, such as a predicted standard deviation; 1 by default.
        lower, upper : array_like, shape (n,), optional
            Two predicted quantiles, instead of ``prediction`` and ``scale``.
        clusters, within, rng, context, allow : optional
            As in ``calibrate``.

        Returns
        -------
        MetaPS
            The object itself, calibrated.

        Examples
        --------
        >>> import numpy as np
        >>> from metapac import MetaPS
        >>> rng = np.random.default_rng(0)
        >>> y, hospitals = rng.normal(50, 2, size=120 * 50), np.repeat(np.arange(120), 50)
        >>> method = MetaPS(epsilon=0.1, alpha=0.1, delta=0.05)
        >>> method = method.calibrate_intervals(y, np.full(len(y), 50.0), hospitals)
        >>> method.predict_interval([50.0]).round(1)
        array([[45.7, 54.3]])
        """
        if self.per_class or self._kind == "MetaRisk":
            what = "per_class=True for classes" if self.per_class else "a risk for losses"
            raise InvalidInput(f"calibrate_intervals is for numbers, and {what}.")
        if tasks is None:
            raise InvalidInput("tasks must give the task of each example.")
        tasks = inputs.keep_tasks(tasks)
        numbers = sets.name_numbers(prediction=prediction, scale=scale, lower=lower, upper=upper)
        scores = _score_numbers(y, numbers, tasks)
        columns = {name: name for name in (*numbers, "y")}
        columns |= inputs.find_names(task=tasks, y=y, **numbers)
        data = Scored(scores, tasks, clusters=clusters, columns=columns, within=within)
        return self.calibrate(data, rng=rng, context=context, allow=allow)

    def _first_step(
        self,
        data: Data,
        guarantee: Guarantee,
        allow: frozenset[str],
        rng: int = 0,
        context: Context | None = None,
        progress: Progress | None = None,
        lacking: Mapping[Any, Iterable[Any]] | None = None,
    ) -> Evidence:
        """Return the evidence of all tasks or, if there are clusters, of one task of each."""
        data_checks.check_levels(self.epsilon, self.alpha, self.delta, allow=allow)
        data.check_tasks()
        if isinstance(data, Scored) and not self.per_class:
            data.check_no_labels()
        data, drawn = data.draw_rows(rng)
        evidence = first_step(data, guarantee, allow, progress or _common.ignore_progress)
        evidence = evidence._replace(within=drawn).declare_lacking(guarantee, lacking)
        names = evidence.names.tolist()
        clusters = data.clusters_of(names)
        if clusters is None:
            return evidence
        as_context(context, names, allow)  # none may be trained on
        return evidence.draw_from(clusters, rng)

    @classmethod
    def from_evidence(
        cls,
        guarantee: Guarantee,
        evidence: Evidence,
        *,
        on_infeasible: str = "raise",
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Return a predictor calibrated on evidence that was collected elsewhere.

        This is the second step alone, for engines and sites that take the first one themselves.

        Parameters
        ----------
        guarantee : Guarantee
            What is to be guaranteed. The evidence has to be collected at its levels.
        evidence : Evidence
            Threshold of each task at each level, from ``metapac.evidence``.
        on_infeasible : {"raise", "trivial"}, default "raise"
            As in the constructor.
        context, allow : optional
            As in ``calibrate``.

        Returns
        -------
        MetaPS
            The calibrated predictor.
        """
        allow = data_checks.check_allowed(allow)
        method = cls(**asdict(guarantee), on_infeasible=on_infeasible)
        method._make_guarantee()  # fail fast
        return method._calibrate_across(guarantee, evidence, context, allow)

    def _rows(self) -> list[dict[str, Any]]:
        """Return the threshold of each class, or of all, and what it rests on."""
        names, rows = ("epsilon", "threshold", "tasks", "examples", "left_out"), []
        for rule in self._rules():
            numbers = {name: artefact.encode_floats(getattr(rule, name)) for name in names}
            rows.append({"class": rule.label} | numbers)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return thresholds and guarantee as JSON can hold them.

        Returns
        -------
        dict
            What ``metapac calibrate --json`` prints.
        """
        self.check_calibrated()
        rows = self._rows()
        first = {"threshold": rows[0]["threshold"], "left_out": self.left_out_}
        return (first if self.classes_ is None else {"thresholds": rows}) | {
            "tasks": len(self.tasks_),
            "examples": int(self.task_sizes_.sum()),
            "promise": self.promise_,
            "explanation": self.explain(),
            "remarks": self.remarks_,
            "columns": self.columns_,
        }

    def add(
        self,
        scores: ArrayLike | Data,
        tasks: ArrayLike | Iterable[object] | None = None,
        labels: ArrayLike | None = None,
        *,
        classes: Sequence[Any] | None = None,
        clusters: ClusterIds | None = None,
        within: ArrayLike | Iterable[object] | None = None,
        lacking: Mapping[Any, Iterable[Any]] | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Add new tasks; the result is that of calibrating on all tasks from scratch.

        Each guarantee is for a number of tasks fixed in advance. Adding tasks until you like the
        result multiplies the failure probability, by up to 8 with 500 tasks and 18 with 2000. If
        you want to look while adding, use ``delta / (j * (j + 1))`` at look j: that is valid for
        any number of looks.

        Parameters
        ----------
        scores : array_like, shape (n,) or (n, classes), or Table
            Scores as in ``calibrate``; after ``calibrate_intervals``, those of `residual_scores`
            or `quantile_scores`.
            If old and new scores differ in precision, the coarser one is used for sets.
        tasks, labels, classes : optional
            As in ``calibrate``; no task may have been calibrated on before.
        clusters, within, lacking, allow : optional
            As in ``calibrate``; no cluster may have been calibrated on before.

        Returns
        -------
        MetaPS
            The object itself, calibrated on all tasks.
        """
        self.check_calibrated()
        data = self._as_scores(as_data(scores, tasks, labels, classes, clusters, within))
        if not isinstance(data, Scored):
            data = data.resolve(self)
            data.check_origin(self.context_, None)
        elif classes is not None or np.ndim(data.scores) == 2:
            self._check_order(data.scores, classes)
        if self.new_tasks is not None:
            rule = "a finite list is drawn from once. Calibrate again on all tasks, with new_tasks"
            raise InvalidInput(f"add: {rule}.", parameter="new_tasks")
        guarantee, drawn = self._make_guarantee(), self._evidence.clusters or self._evidence.within
        about, allow = data.add_origin(self.context_), data_checks.check_allowed(allow)
        rng = 0 if drawn is None else drawn.rng
        new = self._first_step(data, guarantee, allow, rng, about, lacking=lacking)
        _same, near = inputs.match_names(new.names.tolist(), self._evidence.names.tolist())
        findings = [data_checks.judge_near_names(near, "calibration tasks")]
        then, now = self._score_range, new.score_range
        if then is not None and now is not None and np.isfinite([*now, *then]).all():
            findings.append(data_checks.judge_scale(now, then))
        data_checks.report(findings, allow)
        joined = join_evidence(self._evidence, new)
        return self._calibrate_across(guarantee, joined, about, allow)

    def task_threshold(self, scores: ArrayLike, *, allow: Iterable[str] = ()) -> Any:
        """Return all that one site has to send to ``combine``: one number for each level.

        No other score leaves the site. With ``split="tight"`` it is a single number.

        Parameters
        ----------
        scores : array_like, shape (n,)
            Scores of the true labels of one task.
        allow : iterable of str, default ()
            Checks of the data to skip.

        Returns
        -------
        scalar or ndarray, shape (levels,)
            The numbers, in the precision of the scores.
        """
        allow = data_checks.check_allowed(allow)
        self._check_not_per_class("task_threshold")
        evidence = self._first_step(Scored.of_one_task(scores), self._make_guarantee(), allow)
        sent = evidence.thresholds[0, 0].astype(evidence.precision)
        return sent if len(sent) > 1 else sent[0]

    def combine(
        self,
        task_thresholds: ArrayLike | Mapping[Any, Any],
        tasks: ArrayLike | Iterable[object] | None = None,
        *,
        sizes: ArrayLike | Mapping[Any, int] | None = None,
        invited: int | None = None,
        context: Context | None = None,
        allow: Iterable[str] = (),
    ) -> Self:
        """Find the threshold from what ``task_threshold`` returned at each site.

        The result is that of ``calibrate`` on all scores, provided that every site used the same
        parameters and none sent its numbers under two names. Bare numbers cannot show that; the
        files written by ``metapac site`` can.

        Parameters
        ----------
        task_thresholds : array_like or mapping from task
            What each task sent. If precisions differ, the coarsest is used for sets.
        tasks : array_like, optional
            Names of the tasks; by default 0, 1, and so on. Not with a mapping.
        sizes : array_like or mapping from task, optional
            Number of examples of each task. Without it, a threshold of ``-inf`` is taken to mean
            that the task is too small.
        invited : int, optional
            Number of tasks that were asked, fixed beforehand. One that did not answer counts as one
            of ``dishonest``. By default all of them answered.
        context : Context, optional
            What the guarantee is about.
        allow : iterable of str, default ()
            Checks of the data to skip, such as "task-names".

        Returns
        -------
        MetaPS
            The object itself, calibrated.
        """
        allow = data_checks.check_allowed(allow)
        self._check_not_per_class("combine")
        guarantee = self._make_guarantee()
        if isinstance(task_thresholds, Mapping):
            if tasks is not None:
                raise InvalidInput("tasks must not be passed when task_thresholds is a mapping.")
            tasks, task_thresholds = [*task_thresholds], [*task_thresholds.values()]
        precision = inputs.coarsest_precision(inputs.get_precisions(task_thresholds))
        array = inputs.as_score_array("task_thresholds", task_thresholds)
        matrix = inputs.as_threshold_matrix(array, levels=guarantee.numbers_per_task)
        names = np.arange(len(matrix)) if tasks is None else inputs.as_task_ids(tasks)
        _common.check_same_length("task_thresholds", matrix, "tasks", names)
        inputs.check_distinct(names.tolist())
        data_checks.check_levels(self.epsilon, self.alpha, self.delta, allow=allow)
        data_checks.check_names_differ(names.tolist(), what="site", allow=allow)
        counts = np.full(len(matrix), UNKNOWN)
        if sizes is not None:
            counts = inputs.as_task_sizes(sizes, names)
        thresholds, lowest = matrix.astype(np.float64)[:, None], np.array([-np.inf])  # not sent
        own = inputs.as_task_names(names.tolist()), counts[:, None], thresholds, lowest, precision
        sent = Evidence(*own, absent=count_absent(invited, len(matrix)))
        sent.check_certified(guarantee)
        return self._calibrate_across(guarantee, sent, context, allow)

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, followed by ``remarks_`` if there are any."""
        self.check_calibrated()
        g, thresholds = self.guarantee_, self._result()[1]
        if self.classes_ is not None:
            thresholds = dict(zip(self.classes_, thresholds.tolist(), strict=True))
        # Each class leaves out different tasks, so there is no single number of tasks.
        has_several = g.per_class is True and g.min_examples
        tasks = None if has_several else len(self.tasks_) + self._evidence.absent
        about: Any = {"columns": self.columns_, "cluster": self._cluster_words()}
        sentence = g.sentence(tasks=tasks, threshold=thresholds, **about)
        drawn = self._describe_draw(), self._describe_lacking(), self._describe_absent()
        return " ".join(filter(None, [sentence, *drawn, *self.remarks_]))

    @property
    def remarks_(self) -> list[str]:
        """What makes the guarantee uninformative: too few data, or ties at the lowest score."""
        self.check_calibrated()
        return [remark for outcome in self._outcomes if (remark := self._remark(outcome))]

    def _remark(self, outcome: Outcome) -> str:
        """Return what makes the guarantee uninformative."""
        if self.guarantee_.is_together and outcome.threshold > -math.inf:
            kept = [repr(rule.label) for rule in self._rules() if rule.keeps_all]
            text = f"No calibration score of class {_common.listed(kept)} is below its threshold,"
            return f"{text} so it may be kept whatever its score." if kept else ""
        return outcome.remark(is_interval=self._is_interval)

    def explain(self) -> str:
        self.check_calibrated()
        basis = self._rules(), len(self.tasks_), self._about(), self.columns_
        told = f"{self._describe_draw()} {self._describe_lacking()}".strip()
        more = self._cluster_words(), told
        rare: Any = {"absent": self._evidence.absent, "free_shift": self._find_free_shift()}
        return words.explain_guarantee(self.guarantee_, *basis, *more, **rare)

    def _find_free_shift(self) -> float | None:
        """Return the shift that every part of the guarantee would survive; None if it is slow."""
        parts = self._evidence.parts(self.guarantee_)
        limit = _MOST_SHIFTED[self.delta is None]
        if not 0 < min(part.tasks for part in parts) <= max(part.tasks for part in parts) <= limit:
            return None
        return min(part.guarantee.free_shift(part.tasks) for part in parts)

    def _describe_lacking(self) -> str:
        """Return which classes tasks were declared to lack, in a sentence; empty if none were."""
        if not self.guarantee_.is_together or not (counts := self._evidence.lacking.sum(0)).any():
            return ""
        words = Words.from_context(self._about())
        named = [
            f"{words.count_units(count)} lack{'s' * (count == 1)} class {str(label)!r}"
            for label, count in zip(self.classes_ or (), counts.tolist(), strict=True)
            if count
        ]
        text = f"It was declared beforehand that {_common.listed(named)}; this must be true of"
        return f"{text} them, not of their samples alone."

    def _describe_absent(self) -> str:
        """Return how many of the tasks sent nothing, in a sentence; empty if all did."""
        if not (absent := self._evidence.absent):
            return ""
        return f"Of these tasks, {absent} sent nothing, counted among the {self.dishonest}."

    def _cluster_words(self) -> tuple[str, str] | None:
        """Return what clusters are called, in singular and plural, if there are any."""
        if self.clusters_ is None:
            return None
        named = self._about().cluster or (self.columns_ or {}).get("cluster", "cluster")
        return inflect(named)

    def _describe_draw(self) -> str:
        """Return how the rows of each unit were drawn, in a sentence; empty without units."""
        if (drawn := self._evidence.within) is None:
            return ""
        return describe_draw(Words.from_context(self._about()), drawn, *self._unit_words())

    def _unit_words(self) -> tuple[str, str]:
        """Return what the units within a task are called, in singular and plural."""
        return inflect((self.columns_ or {}).get("within", "unit"))

    def _rules(self) -> list[Rule]:
        """Return what the sets keep and what that rests on, for each class or for all together."""
        parts = zip(self._evidence.parts(self.guarantee_), self._outcomes, strict=True)
        rules = [Rule.from_outcome(*part, is_interval=self._is_interval) for part in parts]
        if not self.guarantee_.is_together:
            return rules
        used, kept = self._outcomes[0].used, self._evidence.lowest.tolist()
        examples = self._evidence.sizes[used].sum(axis=0).tolist()
        tasks = (~self._evidence.lacking[used]).sum(axis=0).tolist()
        columns = self.classes_ or (), self.thresholds_.tolist(), examples, tasks, kept
        return [
            rules[0]._replace(
                label=label, threshold=cut, examples=count, tasks=n, keeps_all=cut <= low
            )
            for label, cut, count, n, low in zip(*columns, strict=True)
        ]

    def _as_scores(self, data: Any, name: str | None = None) -> Any:
        """Return labelled examples to calibrate on; those of a site with its name."""
        return data

    def _basis(self) -> str:
        return Words.from_context(self._about()).count_units(len(self.tasks_))

    def _make_guarantee(self) -> Guarantee:
        _common.check_one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        stated = {field.name: getattr(self, field.name) for field in fields(Guarantee)}
        if _is_explored(stated["offsets"]):
            stated["offsets"] = stated["offsets"].offsets(self.epsilon)
        guarantee = Guarantee(**stated)
        if guarantee.is_together and guarantee.offsets is None:
            text = "offsets must be passed with per_class='together', fixed beforehand: those of "
            raise InvalidInput(f"{text}pilot tasks, from explore(...), or a number for each class.")
        return guarantee

    def _check_not_per_class(self, method: str) -> None:
        if self.per_class:
            rule = f"{method} is for one guarantee, and per_class=True has one for each class"
            raise InvalidInput(f"{rule}. Use make_site and combine_sites.")

    def _calibrate_across(
        self,
        guarantee: Guarantee,
        evidence: Evidence,
        context: Context | None,
        allow: Iterable[str],
    ) -> Self:
        """Check that the tasks support the guarantee, then take the second step."""
        about = as_context(context, evidence.names.tolist(), allow)
        _check_draw(about, evidence, guarantee.new_tasks)
        data_checks.report([data_checks.judge_copies(evidence.contents)], allow)
        parts = evidence.parts(guarantee)
        outcomes = [part.second_step() for part in parts]
        feasible = self._check_feasible(guarantee, evidence, outcomes)
        self._set_results(guarantee, evidence, parts, outcomes)
        self.context_ = about
        for outcome, is_feasible in zip(outcomes, feasible, strict=True):
            if is_feasible and (remark := self._remark(outcome)):
                _common.warn(remark)
        return self

    def _check_feasible(
        self, guarantee: Guarantee, evidence: Evidence, outcomes: list[Outcome]
    ) -> list[bool]:
        """Return whether the tasks are enough for each class; a threshold above -inf shows it."""
        if all(outcome.threshold > -math.inf for outcome in outcomes):
            return [True] * len(outcomes)
        demands = [part.demand() for part in evidence.parts(guarantee)]
        feasible = [demand.is_feasible() for demand in demands]
        if self.on_infeasible == "raise" and not all(feasible):
            kept = "everything" if hold_losses(evidence.columns) else "every label"
            is_interval = hold_numbers(evidence.columns)
            trivial = "for intervals of infinite width" if is_interval else f"to keep {kept}"
            message = planning.explain_too_few_tasks(demands, trivial=trivial)
            message += evidence.hint_at_lacking(guarantee)
            if evidence.clusters is not None:
                message = planning.add_clusters(message, evidence.clusters)
            raise InfeasibleGuarantee(message)
        return feasible

    def _set_results(
        self, guarantee: Guarantee, evidence: Evidence, parts: list[Part], outcomes: list[Outcome]
    ) -> None:
        """Set the fitted attributes."""
        sample, clusters = evidence.sample, evidence.clusters
        # No negative zero among the thresholds.
        evidence = evidence._replace(sample=None, thresholds=evidence.thresholds + 0.0)
        used = np.stack([outcome.used for outcome in outcomes], axis=1)  # (tasks, classes)
        best = [outcome.level for outcome in outcomes]
        cuts = np.array([outcome.threshold for outcome in outcomes])
        self.guarantee_, self._evidence, self._outcomes = guarantee, evidence, outcomes
        if guarantee.epsilon != self.epsilon:  # its classes were passed as text
            self.epsilon = guarantee.epsilon
        # Tasks of an exploration stay apart in another calibration too.
        if not _is_explored(self.offsets) and guarantee.offsets != self.offsets:
            self.offsets = guarantee.offsets
        self.classes_, self.columns_ = evidence.classes, evidence.columns
        # Scores of quantiles and losses are in other units: they look like no percentages.
        has_units = "lower" in (self.columns_ or {}) or hold_losses(self.columns_)
        self._score_range = None if has_units else evidence.score_range
        pairs, left_out = zip(parts, best, strict=True), (~used).sum(axis=0)
        levels = tuple(part.guarantee.levels[level] for part, level in pairs)
        rows: Any = slice(None)
        if evidence.classes is not None and not guarantee.is_together:
            self._set_threshold(cuts)
            self.level_, self.left_out_, columns = levels, left_out, rows
        else:
            self._set_threshold(float(cuts[0]))
            if guarantee.is_together:
                self.thresholds_ = self._add_offsets(evidence)
            self.level_, self.left_out_ = levels[0], int(left_out[0])
            rows, columns = used[:, 0], 0
        of_class = slice(None) if guarantee.is_together else columns
        self.tasks_, self.task_sizes_ = evidence.names[rows], evidence.sizes[rows, of_class]
        chosen = [part.thresholds[:, level] for part, level in zip(parts, best, strict=True)]
        at_best = np.stack(chosen, axis=1) + 0.0  # (tasks, classes), no negative zero
        self.task_thresholds_ = np.where(used, at_best, np.nan)[rows, columns]
        self.clusters_ = None if clusters is None else clusters.names[rows]
        self._sets = None if sample is None else data_checks.count_sets(sample, self._result()[1])
        self._mark_calibrated(evidence.precision)

    def _add_offsets(self, evidence: Evidence) -> NDArray[np.float64]:
        """Return the smallest score of each class that is kept."""
        offsets, cut = self.guarantee_.offsets or {}, float(self.threshold_)
        smallest = functools.partial(_smallest_at_least, cut=cut, precision=evidence.precision)
        return np.array([smallest(offsets[label]) for label in evidence.classes or ()])

    def _name_columns(self, names: dict[str, str]) -> Self:
        """Keep the names of the columns that a table of these scores has."""
        self.columns_ = {**(self.columns_ or {}), **names} or None
        self._evidence = self._evidence._replace(columns=self.columns_)
        return self

    def _guarantee_params(self) -> dict[str, Any]:
        params = super()._guarantee_params()
        if _is_explored(self.offsets):  # as files and checksums have them
            params["offsets"] = dict(self._make_guarantee().offsets or {})
        return params

    def _to_json(self) -> dict[str, Any]:
        body = super()._to_json()
        if self.guarantee_.offsets is not None:
            stated = artefact.encode_parameters({"offsets": self.guarantee_.offsets})
            body["parameters"] = body["parameters"] | stated
        return body

    def _encode_evidence(self) -> dict[str, Any]:
        return encode_evidence(self._evidence)

    def _restore(self, body: dict[str, Any]) -> None:
        precision = inputs.as_precision(body["precision"])
        guarantee = self._make_guarantee()
        stored = decode_evidence(body["evidence"], guarantee.numbers_per_task, precision)
        if (stored.classes is not None) != bool(guarantee.per_class):
            raise InvalidInput(f"evidence.classes must be there if per_class, {self.per_class}.")
        stored.check_certified(guarantee, "evidence.thresholds")
        stored = stored._replace(columns=body.get("columns"))
        parts = stored.parts(guarantee)
        self._set_results(guarantee, stored, parts, [part.second_step() for part in parts])
        self._sets = SetCounts(**body["sets"]) if "sets" in body else None


def _is_explored(offsets: Any) -> bool:
    """Return whether offsets are to be those of an exploration of pilot tasks."""
    return offsets is not None and type(offsets).__name__ == "Exploration"


def _smallest_at_least(offset: float, *, cut: float, precision: np.dtype[Any]) -> float:
    """Return the smallest score of a precision whose difference from an offset reaches ``cut``.

    So a comparison with it gives the same sets as the subtraction, in arrays and in every engine.
    """
    if math.isinf(cut):
        return cut
    bits = np.dtype(f"i{precision.itemsize}")

    def score(rank: int) -> float:  # of all finite numbers, and the infinities, in order
        magnitude = float(np.array(abs(rank), bits).view(precision))
        return math.copysign(magnitude, rank)

    largest = int(np.array(np.inf, precision).view(bits))
    return score(min_integer(lambda rank: score(rank) - offset >= cut, -largest, largest)) + 0.0


def _check_draw(about: Context, evidence: Evidence, new_tasks: int | None) -> None:
    """Raise unless the tasks, or their clusters, are those drawn from a list, if there is one."""
    if about.draw is not None:
        units = evidence.names if evidence.clusters is None else evidence.clusters.names
        check_drawn(about.draw, units.tolist(), new_tasks, evidence.absent)


def _score_numbers(y: ArrayLike, numbers: Mapping[str, Any], tasks: Any) -> Floats:
    """Return the scores of numbers that were predicted, one for each example."""
    scores = sets.score_numbers(y, numbers)
    if scores.ndim != 1 or not len(scores):
        raise InvalidInput(f"y must hold one number for each example, got shape {scores.shape}.")
    _common.check_same_index("y", y, "tasks", tasks)
    _common.check_same_length("y", scores, "tasks", inputs.as_task_ids(tasks))
    return scores


def match_classes(guarantee: Guarantee, data: Data) -> Guarantee:
    """Return the guarantee with the classes of a table as keys, which may be passed as text."""
    stated = {name: getattr(guarantee, name) for name in ("epsilon", "offsets")}
    stated = {name: value for name, value in stated.items() if isinstance(value, Mapping)}
    if not stated or isinstance(data, Scored):
        return guarantee
    classes = data.class_names(by_class=True) or ()
    by_text = {str(name): name for name in classes}
    named: dict[str, Any] = {
        name: {by_text.get(str(label), label): number for label, number in value.items()}
        for name, value in stated.items()
    }
    matched = replace(guarantee, **named)
    matched.check_classes(classes)
    for name in classes:  # fail fast if one has no miss rate
        matched.for_class(name, classes)
    return matched


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
        What to do if the examples are too few: raise an error, or keep every label.

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
    >>> PS(epsilon=0.1, delta=0.05).calibrate(np.linspace(0, 1, 101)).threshold_
    0.04
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
            Scores of the true labels, or with ``labels`` those of all classes.
        labels : array_like, shape (n,), optional
            True label of each example. Needed with scores of all classes, and only then.
        classes, context, allow : optional
            As in ``MetaPS.calibrate``.

        Returns
        -------
        PS
            The object itself, calibrated.

        Raises
        ------
        InfeasibleGuarantee
            If the examples are too few; the message says what would work.
        """
        _common.check_one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        about = as_context(context)
        data = Scored.of_one_task(scores, labels, classes)
        data.check_no_labels()
        array, skipped = data.true_scores, data_checks.check_allowed(allow)
        cut_off, n = threshold(array, epsilon=self.epsilon, delta=self.delta), len(array)
        data_checks.check_levels(self.epsilon, None, self.delta, allow=allow)
        facts = data.facts(np.zeros(1, np.int64), np.array([n]), skipped)
        data_checks.check_facts(facts, skipped)
        if self.on_infeasible == "raise" and allowed_errors(n, self.epsilon, self.delta) < 0:
            text = planning.explain_too_few_examples(self.epsilon, self.delta, n)
            raise InfeasibleGuarantee(text)
        self.n_examples_ = n
        self.context_ = about
        precision, self.columns_ = data.describe()
        self._set_threshold(cut_off)
        self._sets = facts.sample and data_checks.count_sets(facts.sample, cut_off)
        return self._mark_calibrated(precision)

    @property
    def promise_(self) -> str:
        """The guarantee in one sentence, with its numbers and its assumptions."""
        self.check_calibrated()
        stated = self.epsilon, self.delta, self.n_examples_, self.threshold_
        sentence = guarantee.describe_example_guarantee(*stated)
        return sentence if self.threshold_ > -math.inf else f"{sentence} {guarantee.TRIVIAL}"

    def explain(self) -> str:
        self.check_calibrated()
        trivial = self.threshold_ == -math.inf
        rule = Rule(None, self.epsilon, self.threshold_, 0, self.n_examples_, keeps_all=trivial)
        return words.explain_examples(self.epsilon, self.delta, rule, self._about())

    def _basis(self) -> str:
        return Words.from_context(self._about()).count_examples(self.n_examples_)

    def _encode_evidence(self) -> dict[str, Any]:
        return {"examples": self.n_examples_}

    def _restore(self, body: dict[str, Any]) -> None:
        _common.check_one_of("on_infeasible", self.on_infeasible, ON_INFEASIBLE)
        n = _common.as_whole_number("examples", body["evidence"]["examples"])
        cut_off, precision = float(body["threshold"]), inputs.as_precision(body["precision"])
        if not inputs.is_representable(cut_off, precision):
            raise InvalidInput(f"threshold is {cut_off!r}, which no {precision.name} score can be.")
        if cut_off > -math.inf and allowed_errors(n, self.epsilon, self.delta) < 0:
            raise InvalidInput(f"threshold is {cut_off:g}, but {n} examples are too few for any.")
        self.n_examples_ = n
        self.columns_ = body.get("columns")
        self._sets = SetCounts(**body["sets"]) if "sets" in body else None
        self._set_threshold(cut_off)
        self._mark_calibrated(precision)


def check_predictor(promise: Any) -> None:
    """Raise unless ``promise`` is a calibrated predictor with thresholds."""
    if not isinstance(promise, ThresholdSets):
        rule = "promise, which comes first, must be a calibrated MetaPS or PS"
        raise InvalidInput(f"{rule}, got {type(promise).__name__}.", parameter="promise")
    promise.check_calibrated()


# The module of each kind; that of the few-shot wing by name, as the core never imports it.
_KINDS = {"MetaPS": __name__, "PS": __name__, "MetaRisk": "metapac.risk"}
_KINDS |= {"MetaCP": "metapac.fewshot.meta_cp"}


def load(path: PathLike) -> Any:
    """Return the calibrated predictor that ``save`` or ``metapac calibrate`` wrote.

    The thresholds of `MetaPS` are recomputed from the evidence in the file and compared with those
    that it states. The sentence is worded anew by this version.

    Parameters
    ----------
    path : str or path
        Promise file.

    Returns
    -------
    MetaPS, PS, MetaRisk or MetaCP
        The calibrated predictor.

    Raises
    ------
    BadArtefact
        If the file is not a promise file, was edited or damaged, or needs a newer metapac.

    Examples
    --------
    >>> from metapac import PS, load
    >>> PS(epsilon=0.1, delta=0.1).calibrate([0.5] * 50).save("example.json")
    >>> load("example.json").threshold_
    0.5
    """
    body = artefact.read(path, FORMAT)
    with artefact.decoding(path, FORMAT):
        parameters = artefact.decode_parameters(body["parameters"])
        predictor: Any = getattr(import_module(_KINDS[body["kind"]]), body["kind"])(**parameters)
        predictor._restore(body)
        inputs.check_columns(body.get("columns"), getattr(predictor, "classes_", None))
        predictor.context_ = decode_context(body.get("context"))
        tasks = getattr(predictor, "tasks_", ())
        predictor.context_.check_calibration_tasks(tasks, allow=["task-names"])
        if isinstance(predictor, MetaPS):
            _check_draw(predictor.context_, predictor._evidence, predictor.new_tasks)
        name, evident = predictor._encoded_result()
        if body[name] != evident:
            raise InvalidInput(f"{name} is {body[name]}, but the evidence gives {evident}.")
        others = {"promise": body["promise"], "context": body.get("context")}
        artefact.check_written(body, predictor._to_json() | others)
    return predictor
