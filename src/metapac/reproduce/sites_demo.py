"""The demonstration of ``metapac demo --data sites``: a rare class, missed and not missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from metapac._types import Array, Counts, Floats, PathLike
from metapac.assessment.arrays import evaluate
from metapac.assessment.evaluation import Evaluation
from metapac.calibration import MetaPS
from metapac.context import Context
from metapac.datasets import sites_sample
from metapac.plots import INK, LIMIT, create_figure, save
from metapac.report import Scored, report

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CLASSES = ("no", "yes")
EPSILON, ALPHA, DELTA = 0.1, 0.2, 0.05
_TRAIN, _CALIBRATE = 10, 20
_STEPS = 25
_PLAIN, _PER_CLASS = "plain", "per-class"
_COLOURS = {_PLAIN: "#e69f00", _PER_CLASS: "#009e73"}
_KINDS = {"empty": "#d55e00", "single": "#56b4e9", "full": "#bbbbbb"}


@dataclass(frozen=True, eq=False)
class Attempt:
    """One guarantee, calibrated, and compared with the new states.

    Parameters
    ----------
    name : {"plain", "per-class"}
        Which guarantee.
    predictor : MetaPS
        The calibrated predictor.
    evaluation : Evaluation
        How it fares on the new states.
    of_yes : Evaluation
        The same for respondents with a heart attack alone.
    """

    name: str
    predictor: MetaPS
    evaluation: Evaluation
    of_yes: Evaluation


@dataclass(frozen=True, eq=False)
class SitesDemo:
    """A plain guarantee and a guarantee per class, for the same model and states.

    Parameters
    ----------
    train, known, new : ndarray of str
        States of training, of calibration, and new ones.
    frequency : float
        Fraction of the calibration respondents with a heart attack.
    plain, per_class : Attempt
        The two guarantees.
    calibration, test : Scored
        Respondents of the calibration states and of the new ones, with their scores.
    """

    train: Array
    known: Array
    new: Array
    frequency: float
    plain: Attempt
    per_class: Attempt
    calibration: Scored
    test: Scored


def compare_guarantees(rng: int) -> SitesDemo:
    """Train on ten states, calibrate two guarantees on twenty others, check them on the rest.

    Only 2021 is used: a state that was asked in two years is not two independent tasks.

    Parameters
    ----------
    rng : int
        Seed of the split of the states.

    Returns
    -------
    SitesDemo
        The two guarantees and how they fare.
    """
    sample = sites_sample()
    year, _, state = np.char.partition(sample.tasks, " ").T
    shuffled = np.random.default_rng(rng).permutation(np.unique(state[year == "2021"]))
    train, known, new = np.split(shuffled, [_TRAIN, _TRAIN + _CALIBRATE])

    labels = np.array(CLASSES)[sample.y]

    def rows(states: Array) -> Array:
        return np.flatnonzero((year == "2021") & np.isin(state, states))

    predict = fit_logistic(sample.x[rows(train)], sample.y[rows(train)])

    def score(rows: Array) -> Scored:
        return Scored(predict(sample.x[rows]), state[rows], labels[rows], CLASSES)

    calibration, test = score(rows(known)), score(rows(new))
    plain, per_class = (
        _attempt(name, calibration, test, train.tolist()) for name in (_PLAIN, _PER_CLASS)
    )
    frequency = float(np.mean(calibration.labels == "yes"))
    return SitesDemo(train, known, new, frequency, plain, per_class, calibration, test)


def _attempt(name: str, calibration: Scored, test: Scored, train: list[str]) -> Attempt:
    """Calibrate a guarantee on some states and evaluate it on others."""
    about = Context(
        model="logistic regression", trained_on=train, unit="state", example="respondent"
    )
    method = MetaPS(epsilon=EPSILON, alpha=ALPHA, delta=DELTA, per_class=name == _PER_CLASS)
    known, new = ((data.scores, data.tasks, data.labels) for data in (calibration, test))
    method.calibrate(*known, classes=CLASSES, context=about)
    yes = (column[test.labels == "yes"] for column in new)
    return Attempt(name, method, evaluate(method, *new), evaluate(method, *yes))


def fit_logistic(x: Floats, y: Counts) -> Callable[[Floats], Floats]:
    """Fit a logistic regression by Newton's method.

    A ridge penalty of one observation keeps it finite where a column separates the labels.

    Parameters
    ----------
    x : ndarray of float, shape (n, d)
        Examples.
    y : ndarray of int, shape (n,)
        Their labels, 0 or 1.

    Returns
    -------
    callable
        Function from examples to probabilities of 0 and 1, shape (n, 2).
    """
    centre, scale = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-9)

    def design(x: Floats) -> Floats:
        return np.column_stack([np.ones(len(x)), (x - centre) / scale])  # (n, d + 1)

    columns = design(x)
    penalty = np.diag([0.0, *np.ones(x.shape[1])])
    weights = np.zeros(columns.shape[1])
    for _ in range(_STEPS):
        p = special.expit(columns @ weights)  # (n,)
        gradient = columns.T @ (y - p) - penalty @ weights
        hessian = (columns * (p * (1 - p))[:, None]).T @ columns + penalty
        weights += np.linalg.solve(hessian, gradient)

    def predict_proba(x: Floats) -> Floats:
        margin = design(x) @ weights
        return np.column_stack([special.expit(-margin), special.expit(margin)])

    return predict_proba


def save_promises(demo: SitesDemo, folder: PathLike) -> list[Path]:
    """Write the two promise files, for ``metapac show``.

    Parameters
    ----------
    demo : SitesDemo
        The two guarantees.
    folder : path-like
        Folder to write to; it is created if necessary.

    Returns
    -------
    list of Path
        The files written.
    """
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = [Path(folder) / "plain.json", Path(folder) / "per_class.json"]
    for attempt, path in zip((demo.plain, demo.per_class), paths, strict=True):
        attempt.predictor.save(path)
    return paths


def write_reports(demo: SitesDemo, folder: PathLike) -> list[Path]:
    """Write a report on each of the two promise files.

    Parameters
    ----------
    demo : SitesDemo
        The two guarantees.
    folder : path-like
        Folder of the promise files, as ``save_promises`` wrote them.

    Returns
    -------
    list of Path
        The files written.

    Raises
    ------
    MissingExtra
        If the extra ``report`` is not installed.
    """
    paths = [Path(folder) / "plain.html", Path(folder) / "per_class.html"]
    question = "Who has had a heart attack?"
    titles = (question, f"{question} A guarantee for each answer")
    for path, title in zip(paths, titles, strict=True):
        report(
            path.with_suffix(".json"),
            demo.test,
            calibration=demo.calibration,
            output=path,
            title=title,
        )
    return paths


def draw_comparison(demo: SitesDemo, path: PathLike) -> None:
    """Draw the miss rates of each new state, over all respondents and over heart attacks.

    Parameters
    ----------
    demo : SitesDemo
        The two guarantees.
    path : path-like
        File to write.
    """
    figure, axes = create_figure(3, width=11, height=4.2)
    attempts = (demo.plain, demo.per_class)
    for attempt in attempts:
        _draw_rates(axes[0], attempt.name, attempt.evaluation)
        _draw_rates(axes[1], attempt.name, attempt.of_yes)
    axes[0].set_title("missed, of all respondents", fontsize=10)
    axes[1].set_title("missed, of those with a heart attack", fontsize=10)
    for ax in axes[:2]:
        ax.axhline(
            EPSILON, color=LIMIT, linewidth=1, linestyle="--", label=f"allowed: {EPSILON:.0%}"
        )
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("new states, in ascending order")
        ax.set_xticks([])
    axes[0].legend(fontsize=9, frameon=False)
    _draw_kinds(axes[2], attempts)
    for ax in axes:
        ax.yaxis.set_major_formatter("{x:.0%}")
        ax.spines[["top", "right"]].set_visible(False)
    save(figure, path)


def _draw_rates(axes: Axes, name: str, evaluation: Evaluation) -> None:
    """Draw the miss rate of each state with its exact interval."""
    order = np.argsort(evaluation.errors, kind="stable")
    error = evaluation.errors[order]
    low, high = (end[order] for end in (evaluation.low, evaluation.high))
    ends = np.maximum([error - low, high - error], 0)
    style: dict[str, Any] = {"color": _COLOURS[name], "markersize": 4, "linewidth": 1}
    axes.errorbar(np.arange(len(order)), error, ends, fmt="o", label=f"{name} guarantee", **style)


def _draw_kinds(axes: Axes, attempts: tuple[Attempt, ...]) -> None:
    """Draw the shares of empty sets and of sets with one label and with both."""
    names = {"empty": "no label", "single": "one label", "full": "both labels"}
    bottom = np.zeros(len(attempts))
    for kind, colour in _KINDS.items():
        shares = [(attempt.evaluation.set_shares or {})[kind] for attempt in attempts]
        bars = axes.bar(
            [attempt.name for attempt in attempts],
            shares,
            bottom=bottom,
            color=colour,
            label=names[kind],
            width=0.6,
        )
        shown = [f"{share:.0%}" if share > 0.04 else "" for share in shares]
        axes.bar_label(bars, shown, label_type="center", color=INK, fontsize=9)
        bottom += shares
    axes.set_title("labels in the sets", fontsize=10)
    axes.legend(fontsize=9, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=3)
