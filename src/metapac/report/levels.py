"""Other levels than those of the guarantee: what they would cost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from metapac import artefact
from metapac._common import Floats, Progress, as_probability
from metapac.binomial import round_up
from metapac.data_checks import CHECKS
from metapac.errors import InfeasibleGuarantee, InvalidInput
from metapac.evaluation import Evaluation, evaluate
from metapac.evidence import UNKNOWN, Outcome, Part
from metapac.grouping import Data
from metapac.guarantee import Guarantee, format_share, percent
from metapac.planning import Affordable, Plan, plan
from metapac.predictors import MetaPS
from metapac.report.charts import draw_curves
from metapac.report.data import count_within, find_cluster_seed, format_size, format_width
from metapac.words import Words, describe_interval, round_down

EPSILONS = (0.01, 0.02, 0.03, 0.05, 0.08, 0.1, 0.15, 0.2, 0.25, 0.3)


class Trial(NamedTuple):
    """A guarantee at one miss rate."""

    epsilon: float
    is_promised: bool
    predictor: MetaPS | None
    evaluation: Evaluation | None

    @property
    def thresholds(self) -> list[float]:
        """The threshold, or that of each class; none if the data are too few."""
        if self.predictor is None:
            return []
        if self.predictor.classes_ is None:
            return [self.predictor.threshold_]
        values: list[float] = self.predictor.thresholds_.tolist()
        return values


def explain_why_not(promise: Any, calibration: Data | None) -> str | None:
    """Return why other miss rates cannot be tried; None if they can."""
    if not isinstance(promise, MetaPS):
        return "Other values can be tried only for a guarantee for new tasks, that of MetaPS."
    if isinstance(promise.epsilon, Mapping):
        return "Each class has a value of its own here, so there is no single one to change."
    if calibration is None:
        return (
            "This report was made without the calibration scores. A promise file holds the "
            "thresholds at one value only, and those at other values cannot be computed from them. "
            "Make the report again with --calibration and the table that was calibrated on."
        )
    return None


def try_epsilons(
    promise: MetaPS,
    calibration: Data,
    labelled: Data | None,
    epsilons: Sequence[float],
    *,
    false_alarm: float,
    allow: Iterable[str],
    progress: Progress,
) -> list[Trial]:
    """Return what the guarantee would be at other miss rates, in ascending order."""
    own = promise.guarantee_.miss_rate
    rates = sorted({own, *(as_probability("epsilons", rate) for rate in epsilons)})
    # Only "overlap" changes what is counted; the other checks were made for the promise itself.
    skipped = [name for name in CHECKS if name != "overlap" or name in {*allow}]
    calibration = calibration.as_calibrated(promise)
    _check_same(promise, _calibrate(promise, calibration, own))
    trials = []
    for done, rate in enumerate(rates):
        progress(f"trying other miss rates, {rate:g}", done, len(rates))
        predictor = _calibrate(promise, calibration, rate)
        evaluation = None
        if predictor is not None and labelled is not None:
            with warnings.catch_warnings(action="ignore"):
                options: Any = {"false_alarm": false_alarm, "allow": skipped}
                evaluation = evaluate(predictor, labelled, **options)
        trials.append(Trial(rate, rate == own, predictor, evaluation))
    return trials


def _calibrate(promise: MetaPS, calibration: Data, epsilon: float) -> MetaPS | None:
    with warnings.catch_warnings(action="ignore"):  # the remarks are shown for the promise itself
        try:
            method = MetaPS(**asdict(replace(promise.guarantee_, epsilon=epsilon)))
            seed, about = find_cluster_seed(promise) or 0, promise.context_
            return method.calibrate(calibration, rng=seed, context=about, allow=CHECKS)
        except InfeasibleGuarantee:
            return None


def _check_same(promise: MetaPS, again: MetaPS | None) -> None:
    """Raise InvalidInput unless calibrating again gives the same thresholds on the same tasks."""
    if again is None:
        raise InvalidInput(
            "calibration must hold the scores that were calibrated on, but holds too few for this "
            "guarantee. Pass the table that the promise file was made from.",
            parameter="calibration",
        )
    stated, found = (each._encoded_result()[1] for each in (promise, again))
    tasks = [{*map(str, each.tasks_.tolist())} for each in (promise, again)]
    if stated != found or tasks[0] != tasks[1]:
        differ = f"they give the threshold {found}, and the promise states {stated}"
        if tasks[0] != tasks[1]:
            other = sorted(tasks[0] ^ tasks[1])[0]
            differ = f"the task {other!r} is in only one of them"
        raise InvalidInput(
            f"calibration must hold the scores that were calibrated on: {differ}. Pass the table "
            "that the promise file was made from.",
            parameter="calibration",
        )


_SIZE, _WIDTH = "labels in a list", "width of the intervals"


def build_slider(
    trials: Sequence[Trial], words: Words, columns: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the slider for epsilon needs: rows of a table, a chart, and the data."""
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
    numbers = {name: artefact.encode_floats(value) for name, value in numbers.items()}
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


_TINY = 1e-5  # limits below it are not spelled out
_SEARCHED = 4  # classes up to which the strictest possible values are searched
_MOST = 2_000  # tasks up to which the strictest possible values are searched


class PlanFacts(NamedTuple):
    """What a guarantee needs, and what was there."""

    label: Any
    guarantee: Guarantee
    tasks: int
    tasks_needed: int
    examples_needed: int
    sizes: tuple[int, int, int] | None
    spare: int
    affordable: Affordable | None
    threshold: float
    rank: int | None
    thresholds: Floats


def find_plan(promise: MetaPS) -> list[PlanFacts]:
    """Return what the guarantee rests on: data, slack, and the rank of the threshold."""
    parts = promise._evidence.parts(promise.guarantee_)
    plans: dict[Guarantee, Plan] = {}  # classes with the same limits need the same
    for part in parts:
        g = part.guarantee
        if g not in plans:
            levels: dict[str, Any] = {"epsilon": g.miss_rate, "alpha": g.alpha, "delta": g.delta}
            plans[g] = plan(**levels, split=g.split, allow=["levels"])
    return [
        _plan_facts(part, outcome, plans[part.guarantee], is_searched=len(parts) <= _SEARCHED)
        for part, outcome in zip(parts, promise._outcomes, strict=True)
    ]


def _plan_facts(part: Part, outcome: Outcome, need: Plan, *, is_searched: bool) -> PlanFacts:
    g, demand = part.guarantee, part.demand()
    own = part.sizes[part.used]
    known = len(own) > 0 and bool(np.all(own != UNKNOWN))
    allowed = g.allowed_low_thresholds(len(own))[outcome.level] if len(own) else -1
    return PlanFacts(
        part.label,
        g,
        len(own),
        need.tasks,
        need.examples_per_task,
        (int(own.min()), int(np.median(own)), int(own.max())) if known else None,
        max(demand.spare_tasks()),
        demand.affordable() if is_searched and known and len(own) <= _MOST else None,
        outcome.threshold,
        allowed + 1 if math.isfinite(outcome.threshold) and allowed >= 0 else None,
        part.thresholds[part.used][:, outcome.level],
    )


def describe_rank(facts: PlanFacts, words: Words) -> str:
    """Return how the threshold was chosen."""
    if facts.rank is None:
        return (
            f"Nothing is ruled out: the {words.units} are too few, or too small, for a threshold."
        )
    low = facts.rank - 1
    below = (
        f"{words.count_units(low)} may lie below it" if low else f"no {words.unit} lies below it"
    )
    small = int(np.count_nonzero(facts.thresholds == -np.inf))
    text = (
        f"Each of the {facts.tasks:,} {words.units} gives a threshold of its own. The one in use "
        f"is the {_ordinal(facts.rank)} of them, {round_down(facts.threshold)} (rounded "
        f"down): {below}. That place follows from the guarantee and from how many {words.units} "
        "there are; nobody chose it by hand."
    )
    if small:
        has = "has" if small == 1 else "have"
        noun = words.unit if small == 1 else words.units
        text += (
            f" {small:,} {noun} {has} too few {words.examples} for a threshold and "
            f"{'counts' if small == 1 else 'count'} as the lowest; the chart leaves "
            f"{'it' if small == 1 else 'them'} out."
        )
    return text


def _ordinal(number: int) -> str:
    """Return a place from below, such as "lowest" or "3rd lowest"."""
    if number == 1:
        return "lowest"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{'th' if number % 100 in (11, 12, 13) else ending} lowest"


def describe_slack(facts: PlanFacts, words: Words) -> str:
    """Return how much data the guarantee needs, and what the data could support."""
    if facts.spare < 0:
        return "The data are too few for this guarantee, so nothing is ruled out."
    text = (
        f"This guarantee needs at least {words.count_units(facts.tasks_needed)} with "
        f"{words.count_examples(facts.examples_needed)} each; there are {facts.tasks:,}."
    )
    stricter = _list_stricter(facts, words)
    if not stricter:
        return text
    return (
        f"{text} Changing one number and keeping the others, these data could support: "
        f"{'; or '.join(stricter)}."
    )


def _list_stricter(facts: PlanFacts, words: Words) -> list[str]:
    """Return the strictest value of each number that these data support, beside its own."""
    g, best = facts.guarantee, facts.affordable
    if best is None:
        return []
    rate = percent(g.miss_rate)
    risk = "a risk of {}" if facts.label is None else "a risk of {} for this class"
    texts = {
        "epsilon": (g.miss_rate, "{} missed"),
        "alpha": (g.alpha, f"{{}} of {words.units} above {rate}"),
        "delta": (g.delta, risk),
    }
    found = []
    for name, (own, text) in texts.items():
        value = getattr(best, name)
        if value is not None and own is not None and value < own:
            shown = _round_up_percent(value)
            if shown != percent(own):
                found.append(f"{text.format(shown)} instead of {percent(own)}")
    return found


def _round_up_percent(value: float) -> str:
    """Return a limit in percent, never stricter than it is; of a tiny one, how tiny it is."""
    return percent(round_up(value, 2)) if value > _TINY else f"less than {percent(_TINY)}"
