"""What the slider for epsilon shows: the guarantee at other miss rates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metapac import _document
from metapac._types import Floats
from metapac.assessment.evaluation import Evaluation
from metapac.calibration import MetaPS
from metapac.explanation.rules import describe_interval
from metapac.explanation.words import Words, round_down
from metapac.report.curves import draw_curves
from metapac.report.levels import Trial
from metapac.report.numbers import count_within, format_size, format_width
from metapac.sentences import format_share, percent

_SIZE, _WIDTH = "labels in a list", "width of the intervals"


def build_slider(
    trials: Sequence[Trial], words: Words, columns: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the slider for epsilon needs: rows of a table, a chart, and the data.

    Parameters
    ----------
    trials : sequence of Trial
        The guarantee at each miss rate, at least one.
    words : Words
        What tasks and examples are called.
    columns : mapping
        Columns that were calibrated on; they tell intervals from lists of labels.

    Returns
    -------
    dict
        Variables of the template.
    """
    curves = _find_curves(trials)
    drawn = np.all(np.isfinite([*curves.values()]), axis=0)  # a point that is not has no mark
    points = [int(drawn[:i].sum()) if is_drawn else None for i, is_drawn in enumerate(drawn)]
    names = " and ".join(f"the {name.removesuffix(' %')}" for name in curves)
    low, high = percent(trials[0].epsilon), percent(trials[-1].epsilon)
    label = f"How {names} would change between {low} and {high}. The table below has the numbers."
    return {
        "rows": [_trial_row(trial) for trial in trials],
        "start": next(i for i, trial in enumerate(trials) if trial.is_promised),
        "chart": draw_curves([trial.epsilon for trial in trials], curves, label),
        "measured": any(trial.evaluation is not None for trial in trials),
        "extent": next((name for name in curves if name in (_SIZE, _WIDTH)), None),
        "data": [
            _embed(trial, words, columns) | {"point": point}
            for trial, point in zip(trials, points, strict=True)
        ],
    }


def _trial_row(trial: Trial) -> dict[str, Any]:
    found = trial.evaluation
    cuts = [round_down(cut) for cut in trial.thresholds]
    extent = _mean(_find_extent(found))
    has_lists = found is not None and found.sizes is not None
    show = format_size if has_lists else format_width
    return {
        "epsilon": percent(trial.epsilon),
        "is_promised": trial.is_promised,
        "thresholds": ", ".join(cuts[:3]) + (", ..." if len(cuts) > 3 else ""),
        "within": None if found is None else format_share(found.within),
        "missed": None if found is None else format_share(float(np.mean(found.errors))),
        "extent": None if math.isnan(extent) else show(extent),
        "status": None if found is None or found.verdict is None else found.verdict.status,
    }


def _embed(trial: Trial, words: Words, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exact numbers of a trial, and a sentence about it, for the script of the page."""
    found = trial.evaluation
    numbers: dict[str, Any] = {
        "epsilon": trial.epsilon,
        "thresholds": trial.thresholds,
        "tasks": None if found is None else len(found.tasks),
        "within": None if found is None else found.within,
        "missed": None if found is None else float(np.mean(found.errors)),
        "size": None if found is None or found.sizes is None else float(np.mean(found.sizes)),
        "width": None if found is None or found.widths is None else float(np.mean(found.widths)),
    }
    numbers = {name: _document.encode_floats(value) for name, value in numbers.items()}
    text = _describe_trial(trial, words, columns)
    return numbers | {"share": percent(trial.epsilon), "text": text}


def _describe_trial(trial: Trial, words: Words, columns: Mapping[str, Any]) -> str:
    """Return what the guarantee would be at a miss rate."""
    share = percent(trial.epsilon)
    if trial.predictor is None:
        return (
            f"At {share} there would be no guarantee: the data are too few, and nothing could be "
            "ruled out."
        )
    text = f"At {share}, {_describe_sets(trial.predictor, trial.thresholds, columns)}."
    if trial.evaluation is None:
        return text
    return text + _describe_evaluation(trial.evaluation, share, words)


def _describe_evaluation(found: Evaluation, share: str, words: Words) -> str:
    """Return how the guarantee would fare on new tasks, as sentences to append."""
    within = f"Then {count_within(found):,} of the {len(found.tasks):,} new {words.units}"
    if found.by_class is not None:
        within = f"Then {format_share(found.within)} of the new {words.units}, in the worst class,"
    missed = format_share(float(np.mean(found.errors)))
    text = (
        f" {within} stay within {share}, and {missed} of the {words.examples} are missed on "
        "average."
    )
    if found.sizes is not None:
        size = format_size(float(np.mean(found.sizes)))
        text += f" A list holds {size} labels on average over {words.units}."
    if found.widths is not None:
        width = format_width(float(np.mean(found.widths)))
        text += f" An interval is {width} wide on average over {words.units}."
    return text


def _describe_sets(
    predictor: MetaPS, thresholds: Sequence[float], columns: Mapping[str, Any]
) -> str:
    """Return what the sets hold, as part of a sentence."""
    if "prediction" in columns:
        if thresholds[0] == -math.inf:
            return "every interval holds all numbers"
        return f"an interval is {describe_interval(thresholds[0], columns)}"
    cuts = [round_down(cut) for cut in thresholds]
    if predictor.classes_ is not None:
        pairs = zip(predictor.classes_, cuts, strict=True)
        cuts = [f"{cut} for {label}" for label, cut in pairs]
    elif thresholds[0] == -math.inf:
        return "every label is kept"
    more = ", and so on" if len(cuts) > 5 else ""
    return f"a label needs a score of at least {', '.join(cuts[:5])}{more}"


def _find_curves(trials: Sequence[Trial]) -> dict[str, Floats]:
    """Return what to draw against epsilon: sizes and misses or, without them, thresholds."""
    found = [trial.evaluation for trial in trials]
    curves = {}
    extents = [_find_extent(each) for each in found]
    if any(extent is not None for extent in extents):
        has_lists = any(each is not None and each.sizes is not None for each in found)
        curves[_SIZE if has_lists else _WIDTH] = np.array([*map(_mean, extents)])
    if any(each is not None for each in found):
        curves["share missed %"] = np.array([_mean(each and each.errors) for each in found])
    lowest = [min(trial.thresholds, default=math.nan) for trial in trials]
    return curves or {"threshold": np.array(lowest)}


def _find_extent(evaluation: Evaluation | None) -> Floats | None:
    """Return the mean set size, or width of the intervals, of each task."""
    if evaluation is None:
        return None
    return evaluation.widths if evaluation.sizes is None else evaluation.sizes


def _mean(values: Any) -> float:
    return math.nan if values is None else float(np.mean(values))
