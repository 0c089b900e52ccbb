"""The first screen: what was tested, the main table, what is found, and how to read it."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.results_page import (
    controls,
    learners,
    narrow_intervals,
    neighbours,
    rare_class,
    research_code,
    sampling_noise,
    splits,
)
from experiments.results_page.markdown import (
    MARKS,
    SHORT,
    all_or,
    bullets,
    either,
    enumerate_names,
    error_name,
    join,
    link,
    method_rows,
    percent,
    table,
)
from experiments.results_page.splits import EVEN, JOINT, SPLITS, TIGHT, state_zero
from experiments.results_page.stored import Result
from metapac.fewshot.study.summary import CONFIDENCE, LEVEL, MIN_SEEDS, TOO_FEW, WITHIN
from metapac.verdict import UNDECIDED, VIOLATED

FIGURE = "overview.svg"


def summary(results: Sequence[Result]) -> str:
    """Return one page: what was tested, what is found, a figure and a table."""
    return join(
        [
            "# Does it work?",
            _what_was_tested(results),
            bullets([_state_meta_ps(results), _state_baselines(results), _state_splits(results)]),
            "![Tasks within epsilon, with a dashed line at 1 - alpha, and mean set size of PS, "
            f"Meta-CP and the splits of Meta-PS, for each experiment](docs/figures/{FIGURE})",
            f"Bars are {percent(CONFIDENCE)} intervals: over seeds, but over draws in "
            f"{narrow_intervals.name_over_draws(results)}. Hollow marks: too few data, so every "
            "label is kept. PS pools all examples; Meta-CP bounds the average over tasks; the "
            "oracle knows the labels of the new task. Even is the paper's split, joint our "
            "default.",
            _short_table(results),
            "*Tasks within* is the share of new tasks whose measured miss rate is at most epsilon; "
            f"the guarantee asks for {percent(1 - results[0].guarantee.alpha)}. At "
            f"{percent(CONFIDENCE)} confidence, {MARKS[WITHIN]} it is met, {MARKS[VIOLATED]} "
            f"violated, {MARKS[UNDECIDED]} cannot tell yet: where examples are few, "
            "[chance](#sampling-noise) may explain a low share.",
            "## What else was found",
            bullets(filter(None, _findings(results))),
        ]
    )


def opening(results: Sequence[Result]) -> str:
    """Return the first screen of the notebook on all data sets."""
    return join(
        [
            "# Results: methods and checks",
            "[Does it work?](docs/understand/results.md) has the summary.",
            _main_table(results),
            _legend(results),
            narrow_intervals.find(results),
            bullets(
                each.find(results) for each in (sampling_noise, controls, research_code, learners)
            ),
            _how_to_read(results),
        ]
    )


def _short_table(results: Sequence[Result]) -> str:
    methods = ("PS", "Meta-CP", JOINT)
    header = ["experiment", *(f"within: {name}" for name in methods)]
    header += [f"size: {name}" for name in (JOINT, "oracle")]
    return table(header, [_short_row(result, methods) for result in results])


def _short_row(result: Result, methods: Sequence[str]) -> list[str]:
    lines = [result.line(name) for name in methods]
    shares = [f"{line.tasks_within:.1%} {MARKS[line.verdict]}" for line in lines]
    sizes = [f"{result.line(name).size:.2f}" for name in (JOINT, "oracle")]
    return [link(result.title), *shares, *sizes]


def _what_was_tested(results: Sequence[Result]) -> str:
    data = {result.experiment.data for result in results}
    seeds = either(result.seeds for result in results)
    draws = sum(result.seeds * result.draws for result in results)
    tests = either(result.experiment.test_tasks for result in results)
    return (
        f"We reran the paper's {len(data)} data sets: {len(results)} experiments with {seeds} "
        f"trained learners each and {draws:,} calibration draws in all, each with {tests} new "
        "tasks. `python experiments/page.py` writes this page from rows stored with version 0.2.0."
    )


def _main_table(results: Sequence[Result]) -> str:
    header = ["experiment", "method", "mean size", error_name(results[0].guarantee), "tasks within"]
    methods = ("PS", "Meta-CP", EVEN, JOINT)
    rows = [row for result in results for row in method_rows(result, methods, _facts(result))]
    return table(header, rows, aligned="ll")


def _facts(result: Result) -> list[str]:
    """Return what stands beside the methods of an experiment."""
    levels = f"epsilon {result.guarantee.miss_rate:g}, delta {result.delta:g}"
    units = "" if result.has_seed_intervals else ", intervals over draws"
    return [
        f"**{link(result.title)}**",
        f"{levels}; {result.seeds} seeds{units}",
        f"accuracy {learners.accuracy(result)}",
        f"published: {learners.published(result)}" if result.published else "",
    ]


def _legend(results: Sequence[Result]) -> str:
    quantile = error_name(results[0].guarantee)
    return (
        "The *error* of a new task is the share of its evaluation examples whose true label is "
        "not in the prediction set. *Mean size* is over tasks. *Tasks within* is the share "
        "of new tasks whose error is at "
        f"most epsilon. The *{quantile}*: {quantile.removesuffix(' error')} of the new tasks have "
        "at most this error. The criterion of Meta-PS is that *tasks within* is at least "
        f"1 - alpha or, which is the same, that the {quantile} is at most epsilon. Alpha is "
        f"{either(result.guarantee.alpha for result in results)}. Brackets are "
        f"{percent(CONFIDENCE)} intervals. At {percent(CONFIDENCE)} confidence, "
        f"{MARKS[WITHIN]} the criterion is met, {MARKS[VIOLATED]} it is violated, "
        f"{MARKS[UNDECIDED]} cannot tell yet; {SHORT} too few data, so every label is kept. "
        f"{MARKS[WITHIN]} is about errors as they "
        "were counted; *holds*, the verdict of [`evaluate`](docs/howto/check.md), is about true "
        f"miss rates and asks for more. {MARKS[UNDECIDED]} may stand beside an "
        "interval below 1 - alpha: errors are counted on "
        f"{either(result.test_examples for result in results)} examples, and "
        f"{MARKS[VIOLATED]} needs more than their [sampling noise](#sampling-noise) can explain. "
        "Meta-PS even is the paper's method; tight and joint are our splits, and joint is the "
        "default of the library."
    )


def _findings(results: Sequence[Result]) -> list[str]:
    return [
        rare_class.find(results),
        splits.find(results),
        neighbours.find(results),
    ]


def _verdicts(results: Sequence[Result], method: str) -> dict[str, list[str]]:
    """Return the titles of the experiments with each verdict."""
    found: dict[str, list[str]] = {verdict: [] for verdict in MARKS}
    for result in results:
        line = result.line(method)
        is_open = line.verdict in (UNDECIDED, VIOLATED)
        share = f", {percent(line.tasks_within, '.1%')} within" if is_open else ""
        found[line.verdict].append(f"*{result.title}*{share}")
    return found


def _state_meta_ps(results: Sequence[Result]) -> str:
    met = sum(result.line(JOINT).verdict == WITHIN for result in results)
    others = [words for result in results if (words := _state_open(result, JOINT))]
    return (
        "**With Meta-PS, joint split, at least "
        f"{percent(1 - results[0].guarantee.alpha)} of the new tasks were within epsilon in "
        f"{all_or(met, len(results))} experiments**, at {percent(CONFIDENCE)} confidence."
        f"{''.join(f' In {words}.' for words in others)} These draws are too few to test delta: "
        "see [what a mark does not say](#what-a-mark-does-not-say)."
    )


def _state_splits(results: Sequence[Result]) -> str:
    return (
        f"The paper's even split: within epsilon in {_count_within(results, EVEN)}. The tight "
        f"split: in {_count_within(results, TIGHT)}."
    )


def _state_open(result: Result, method: str) -> str:
    """Return why the criterion is not said to be met; nothing if it is."""
    line = result.line(method)
    where = f"*{result.title}*"
    share = ("" if line.satisfied else "only ") + percent(line.tasks_within, ".1%")
    words = {
        WITHIN: "",
        UNDECIDED: f"{where}, {share} were, but {result.seeds} seeds are too few to be sure",
        VIOLATED: f"{where}, {share} were, which is a violation",
        TOO_FEW: f"{where}, there were too few data",
    }
    return words[line.verdict]


def _count_within(results: Sequence[Result], method: str) -> str:
    """Return in how many experiments a split is within, and where not or every label is kept."""
    found = _verdicts(results, method)
    words = all_or(len(found[WITHIN]), len(results) - len(found[TOO_FEW]))
    words += " with enough data" if found[TOO_FEW] else ""
    parts = _list_exceptions(found, (UNDECIDED, VIOLATED, TOO_FEW))
    parts += [
        f"every label kept in {draws} of *{result.title}*"
        for result in results
        if (draws := state_zero(result, method))
    ]
    return words + (f" ({'; '.join(parts)})" if parts else "")


def _state_baselines(results: Sequence[Result]) -> str:
    parts = []
    for method in ("PS", "Meta-CP"):
        found = _verdicts(results, method)
        words = f"by **{method}** in {all_or(len(found[VIOLATED]), len(results))}"
        others = _list_exceptions(found, (UNDECIDED, WITHIN, TOO_FEW))
        parts.append(words + (f" ({'; '.join(others)})" if others else ""))
    return (
        f"The same criterion is violated, at {percent(CONFIDENCE)} confidence, "
        f"{enumerate_names(parts)}."
    )


def _list_exceptions(found: dict[str, list[str]], verdicts: Sequence[str]) -> list[str]:
    """Return the other verdicts: where, if they are few, or how many."""
    return [f"{verdict}: {_few(found[verdict])}" for verdict in verdicts if found[verdict]]


def _few(titles: Sequence[str], most: int = 2) -> str:
    return enumerate_names(titles) if len(titles) <= most else str(len(titles))


def _how_to_read(results: Sequence[Result]) -> str:
    return join(
        [
            "## How to read this page",
            "In each calibration draw, every method sees the same calibration tasks and is "
            "evaluated on the same new tasks.",
            bullets(_explain_methods()),
            "The verdicts and intervals:",
            bullets(_explain_verdicts(results)),
            _what_marks_do_not_say(results),
        ]
    )


def _explain_methods() -> list[str]:
    return [
        "**PS** takes one threshold from the pooled examples of all calibration tasks.",
        "**PS-Test** takes one from labelled examples of the new task itself.",
        "**Meta-CP** is the baseline of Fisch et al. (2021) in the variant of the paper "
        '(`over="examples"`).',
        "**Meta-PS** has the even split of the paper, or our [tight or joint "
        "split](docs/theory/guarantee.md#the-splits).",
        "The **oracle** takes the largest threshold whose error on the new task's own examples is "
        "at most epsilon. It is not a method but a reference for the set size.",
    ]


def _explain_verdicts(results: Sequence[Result]) -> list[str]:
    g = results[0].guarantee
    return [
        f"The *verdict* is *{WITHIN}* if the lower end of the interval of *tasks within* is at "
        f"least 1 - alpha = {percent(1 - g.alpha)}. Here a task on which the method had too "
        "few data, so that it kept every label, counts as above epsilon: its error is "
        "zero whatever the scores, which says nothing for the method.",
        "It is *violated* if neither few tasks nor few examples can explain what is seen. Here a "
        "task counts only if it is *clearly above* epsilon: even the lower Clopper-Pearson limit "
        f"of its miss rate, one-sided at {percent(1 - LEVEL)} confidence, exceeds epsilon. If the "
        "guarantee holds, a share alpha of the tasks may be above epsilon, and of the others a "
        f"share {LEVEL:g} may be counted by chance. So the lower end of the interval of the share "
        f"*clearly above* must exceed alpha + {LEVEL:g} (1 - alpha) = "
        f"{sampling_noise.state_allowed(results)}. This interval is over draws, for these "
        "learners alone, since a guarantee is about one learner.",
        "It is *too few data* if the tasks with too few data decide: counted by their error, they "
        "would lift *tasks within*, or its whole interval, to 1 - alpha.",
        "Otherwise it is *cannot tell yet*.",
        *narrow_intervals.explain_verdicts(results),
        "*Draws within* is the share of draws in which at least 1 - alpha of the new tasks have an "
        "error of at most epsilon; see [draws within, by chance](#draws-within-by-chance).",
        f"Intervals have {percent(CONFIDENCE)} confidence: Student's t over the training seeds. "
        "They cover what a seed changes (training, calibration draws, new tasks), not other "
        "classes, relations or state-years than those of the pools. With fewer than "
        f"{MIN_SEEDS} seeds they are Student's t over the draws, for these learners alone, and do "
        "not cover the training.",
        "Intervals of shares are at least as wide as the Clopper-Pearson interval of as many "
        f"independent tasks. That of the {error_name(g)} follows from them: it has every error x "
        "for which the interval of the share of tasks up to x contains 1 - alpha.",
    ]


def _what_marks_do_not_say(results: Sequence[Result]) -> str:
    """Return what a verdict leaves open: the number of verdicts, and delta."""
    lines = [result.line(method) for result in results for method in SPLITS]
    judged = sum(line.verdict != TOO_FEW for line in lines)
    seeds = [result.seeds for result in results if result.has_seed_intervals]
    counts = {result.seeds * result.draws for result in results}
    missed = max(1 - (1 - CONFIDENCE) ** (1 / count) for count in counts)
    return join(
        [
            "### What a mark does not say",
            f"A mark stands for one interval at {percent(CONFIDENCE)} confidence. Over "
            f"{either(seeds)} seeds, that interval has {either(count - 1 for count in seeds)} "
            "degrees of freedom: it is wide, and relies on seeds that vary as a normal "
            f"distribution does. The {judged} verdicts on Meta-PS, one for each split and "
            "experiment with enough data, are not corrected for their number. And no mark tests "
            f"delta. Even if the {either(counts)} draws of an experiment were independent and none "
            f"failed, a failure probability of up to {percent(missed, '.1%')} could not be ruled "
            f"out at {percent(CONFIDENCE)} confidence, and delta is "
            f"{either(result.delta for result in results)}. That delta holds is "
            "[proven](docs/theory/guarantee.md) under its assumptions, not measured.",
        ]
    )
