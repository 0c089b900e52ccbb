"""The first screen: what was tested, the main table, what is found, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.results_page import (
    controls,
    learners,
    neighbours,
    research_code,
    sampling_noise,
    splits,
)
from experiments.results_page.markdown import (
    MARKS,
    SHORT,
    all_or,
    bullets,
    enumerate_names,
    error_name,
    join,
    link,
    method_rows,
    percent,
    table,
)
from experiments.results_page.splits import EVEN, JOINT, SPLITS, TIGHT
from experiments.results_page.stored import Result
from metapac.evaluation.intervals import CONFIDENCE, MIN_SEEDS
from metapac.evaluation.neighbours import PROMISES
from metapac.evaluation.noise import LEVEL
from metapac.verdict.wording import HOLDS, UNDECIDED, VIOLATED

FIGURE = "overview.png"


def opening(results: Sequence[Result]) -> str:
    """Return the first screen."""
    return join(
        [
            "# Results on the paper's data sets",
            _what_was_tested(results),
            "**What is found**",
            bullets(_findings(results)),
            "![Tasks within epsilon, with a dashed line at 1 - alpha, and mean set size of PS, "
            f"Meta-CP and the splits of Meta-PS, for each experiment](figures/{FIGURE})",
            _caption(results),
            _main_table(results),
            _legend(results),
            _how_to_read(results),
        ]
    )


def _what_was_tested(results: Sequence[Result]) -> str:
    data = {result.experiment.data for result in results}
    seeds = sorted({result.seeds for result in results})
    draws = sum(result.seeds * result.draws for result in results)
    tasks = sum(len(rows) for result in results for rows in result.rows(EVEN))
    return (
        "Meta-PS promises: with probability 1 - delta over the calibration data, at least "
        "1 - alpha of new tasks have prediction sets that miss at most epsilon of their examples. "
        f"Here that share is measured on the paper's data ({len(data)} data sets, {len(results)} "
        f"experiments) with {enumerate_names([str(count) for count in seeds], 'or')} trained "
        f"learners each, {draws:,} calibration draws and {tasks:,} new tasks in all, beside the "
        f"paper's baselines and {len(PROMISES)} related methods. `python experiments/page.py` "
        "writes this page and its figures from the rows in `experiments/results`; a test checks "
        "that they agree."
    )


def _caption(results: Sequence[Result]) -> str:
    """Return what the marks of the figure do not show."""
    without = [f"*{result.title}*" for result in results if not result.has(JOINT)]
    words = f"Bars are {percent(CONFIDENCE)} intervals. Hollow marks: too few data, so every label "
    words += "is kept."
    return words + (f" {enumerate_names(without)}: {JOINT} was not run." if without else "")


def _main_table(results: Sequence[Result]) -> str:
    header = ["experiment", "method", "mean size", error_name(results[0].guarantee), "tasks within"]
    rows = []
    for result in results:
        ours = JOINT if result.has(JOINT) else TIGHT
        rows += method_rows(result, ("PS", "Meta-CP", EVEN, ours), _facts(result))
    return table(header, rows, aligned="ll")


def _facts(result: Result) -> list[str]:
    """Return what stands beside the methods of an experiment."""
    known = result.experiment.published
    return [
        f"**{link(result.title)}**",
        f"epsilon {result.guarantee.miss_rate:g}, delta {result.delta:g}; {_count_seeds(result)}",
        f"accuracy {learners.accuracy(result)}",
        f"published: {learners.published(result)}" if known else "",
    ]


def _count_seeds(result: Result) -> str:
    return f"{result.seeds} seed{'s' if result.seeds > 1 else ''}"


def _legend(results: Sequence[Result]) -> str:
    quantile = error_name(results[0].guarantee)
    alphas = [f"{alpha:g}" for alpha in sorted({result.guarantee.alpha for result in results})]
    return (
        f"The *{quantile}* is the 1 - alpha quantile of the error over new tasks; the guarantee "
        "needs it to be at most epsilon. *Tasks within* is the share of new tasks whose error is "
        "at most epsilon; the guarantee needs 1 - alpha. Alpha is "
        f"{enumerate_names(alphas, 'or')}. Brackets are {percent(CONFIDENCE)} intervals. "
        f"At {percent(CONFIDENCE)} confidence, {MARKS[HOLDS]} the criterion of Meta-PS holds, "
        f"{MARKS[VIOLATED]} it is violated, {MARKS[UNDECIDED]} cannot tell yet; {SHORT} too few "
        "data, so every label is kept. Meta-PS even is the paper's method; tight and joint are our "
        "splits, and joint is the default of the library."
    )


def _findings(results: Sequence[Result]) -> list[str]:
    found = [
        _state_meta_ps(results),
        f"{_state_baselines(results)} {sampling_noise.find(results)}",
        splits.find(results),
        controls.find(results),
        research_code.find(results),
        neighbours.find(results),
        learners.find(results),
    ]
    return [sentence for sentence in found if sentence]


def _verdicts(results: Sequence[Result], method: str) -> dict[str, list[str]]:
    """Return the titles of the experiments with each verdict, and those with too few data."""
    found: dict[str, list[str]] = {HOLDS: [], VIOLATED: [], UNDECIDED: [], SHORT: []}
    for result in results:
        if not result.has(method):
            continue
        line = result.line(method)
        share = f", {percent(line.tasks_within, '.1%')} within" if line.verdict != HOLDS else ""
        found[line.verdict if line.feasible else SHORT].append(f"*{result.title}*{share}")
    return found


def _state_meta_ps(results: Sequence[Result]) -> str:
    parts: list[str] = []
    for method in SPLITS:
        found = _verdicts(results, method)
        judged = sum(map(len, found.values())) - len(found[SHORT])
        words = all_or(len(found[HOLDS]), judged)
        words += "" if parts else " experiments with enough data"
        words += f" for the {method.split()[-1]} split"
        parts.append(words + _exceptions(found, (UNDECIDED, VIOLATED, SHORT)))
    return (
        "**Meta-PS** keeps at least 1 - alpha of new tasks within epsilon, at "
        f"{percent(CONFIDENCE)} confidence, in {enumerate_names(parts)}. So few draws cannot test "
        "delta: see [what a mark does not say](#what-a-mark-does-not-say)."
    )


def _state_baselines(results: Sequence[Result]) -> str:
    parts = []
    for method in ("PS", "Meta-CP"):
        found = _verdicts(results, method)
        words = f"{all_or(len(found[VIOLATED]), len(results))} by **{method}**"
        parts.append(words + _exceptions(found, (UNDECIDED, HOLDS)))
    return (
        f"The same criterion is violated, at {percent(CONFIDENCE)} confidence, in "
        f"{enumerate_names(parts)}."
    )


def _exceptions(found: dict[str, list[str]], verdicts: Sequence[str]) -> str:
    """Return the other verdicts in brackets: where, if they are few, or how many."""
    names = {SHORT: "too few data"}
    parts = [
        f"{names.get(verdict, verdict)}: {_few(found[verdict])}"
        for verdict in verdicts
        if found[verdict]
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def _few(titles: Sequence[str], most: int = 2) -> str:
    return enumerate_names(titles) if len(titles) <= most else str(len(titles))


def _how_to_read(results: Sequence[Result]) -> str:
    g = results[0].guarantee
    return join(
        [
            "## How to read this page",
            "In each calibration draw, every method sees the same calibration tasks and is "
            "evaluated on the same new tasks.",
            bullets(
                [
                    "**PS** takes one threshold from the pooled examples of all calibration tasks.",
                    "**PS-Test** takes one from labelled examples of the new task itself.",
                    "**Meta-CP** is the baseline of Fisch et al. (2021) in the variant of the "
                    'paper (`over="examples"`).',
                    "**Meta-PS** has the even split of the paper, or our [tight or joint "
                    "split](guarantee.md#the-splits).",
                    "The **oracle** takes the largest threshold whose error on the new task's own "
                    "examples is at most epsilon. It is not a method but a reference for the set "
                    "size.",
                    "*Draws within* is the share of draws in which at least 1 - alpha of the new "
                    "tasks have an error of at most epsilon; see [draws within, by "
                    "chance](#draws-within-by-chance).",
                    "The *verdict* is *holds* if the lower end of the interval of *tasks within* "
                    f"is at least 1 - alpha = {percent(1 - g.alpha)}.",
                    "It is *violated* if neither few tasks nor few examples can explain what is "
                    "seen. Here a task counts only if it is *clearly above* epsilon: the lower "
                    f"Clopper-Pearson limit of its miss rate, at the level {LEVEL:g}, exceeds "
                    "epsilon. If the guarantee holds, alpha of the tasks may be above epsilon, and "
                    f"of the others a share of {LEVEL:g} may be counted by chance. So the lower "
                    "end of the interval of the share *clearly above* must exceed alpha + "
                    f"{LEVEL:g} (1 - alpha) = {sampling_noise.state_allowed(results)}. This "
                    "interval is given these learners: Student's t over their draws, not over the "
                    "seeds, since a guarantee is about one learner.",
                    "Otherwise the verdict is *cannot tell yet*.",
                    f"Intervals have {percent(CONFIDENCE)} confidence: Student's t over the "
                    "training seeds. They cover what a seed changes (training, calibration draws, "
                    "new tasks), not other classes, relations or state-years than those of the "
                    "pools. "
                    f"With fewer than {MIN_SEEDS} seeds they are Student's t over the draws, given "
                    "these learners. Intervals of shares are at least as wide as the "
                    "Clopper-Pearson interval of as many independent tasks. That of the "
                    f"{error_name(g)} follows from them: it has every error x for which the "
                    "interval of the share of tasks up to x contains 1 - alpha.",
                ]
            ),
            _what_marks_do_not_say(results),
        ]
    )


def _what_marks_do_not_say(results: Sequence[Result]) -> str:
    """Return what a verdict leaves open: the number of verdicts, and delta."""
    judged = sum(
        result.line(method).feasible
        for result in results
        for method in SPLITS
        if result.has(method)
    )
    freedom = sorted({result.seeds - 1 for result in results if result.seeds >= MIN_SEEDS})
    counts = sorted({result.seeds * result.draws for result in results})
    deltas = sorted({result.delta for result in results})
    missed = max(1 - (1 - CONFIDENCE) ** (1 / count) for count in counts)
    words = f"A mark stands for one interval at {percent(CONFIDENCE)} confidence. "
    if freedom:
        words += (
            "An interval over seeds has "
            f"{enumerate_names([str(count) for count in freedom], 'or')} degrees of freedom. "
        )
    return join(
        [
            "### What a mark does not say",
            words
            + f"The {judged} verdicts on Meta-PS, one for each split and experiment with enough "
            "data, are not corrected for their number. And no mark tests delta: even if none of "
            f"the {enumerate_names([str(count) for count in counts], 'or')} draws of an experiment "
            f"failed, its probability of failure could be as high as {percent(missed, '.1%')}, and "
            f"delta is {enumerate_names([f'{delta:g}' for delta in deltas], 'or')}. That delta "
            "holds is [proven](guarantee.md), not measured.",
        ]
    )
