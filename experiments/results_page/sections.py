"""The claims of the paper in one table, and a section for each experiment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.results_page.learners import state_first_epochs
from experiments.results_page.markdown import (
    SHORT,
    bullets,
    enumerate_names,
    error_name,
    join,
    percent,
    table,
    with_interval,
)
from experiments.results_page.splits import SPLITS, TIGHT, count_zero
from experiments.results_page.stored import Result
from metapac.evaluation import MethodSummary, Rows
from metapac.evaluation.intervals import CONFIDENCE, MIN_SEEDS
from metapac.evaluation.neighbours import PROMISES
from metapac.reproduce.claims import (
    EXPECTED_INVALID,
    FAILS,
    PAPER_SPLIT,
    PS_TEST,
    SOURCES,
    UNCHECKED,
    Claim,
    judge_claims,
)
from metapac.reproduce.methods import GRID_NAME
from metapac.verdict.wording import HOLDS, UNDECIDED

CLAIMED = (PAPER_SPLIT, *EXPECTED_INVALID, PS_TEST)
AGREEMENT = {
    HOLDS: "agrees",
    FAILS: "**does not agree**",
    UNDECIDED: "**cannot tell yet**",
    UNCHECKED: "cannot be checked",
}


def claims_of(result: Result) -> list[Claim]:
    """Return the claims of the paper about the data set of an experiment."""
    lines = {name: result.line(name) for name in CLAIMED if result.has(name)}
    sizes = result.compare(PS_TEST, PAPER_SPLIT) if result.has(PS_TEST, PAPER_SPLIT) else None
    return judge_claims(lines, sizes, result.guarantee, result.experiment.data)


def claims_section(results: Sequence[Result]) -> str:
    """Return the claims of the paper, each with figure, sentence and what the rows say."""
    known = [result for result in results if result.experiment.data in SOURCES]
    if not known:
        return ""
    grouped: dict[str, dict[str, list[str]]] = {}
    for result in known:
        for claim in claims_of(result):
            status = f"*{result.title}* {AGREEMENT[claim.status]} ({_decisive(claim)})"
            grouped.setdefault(claim.source, {}).setdefault(claim.claim, []).append(status)
    lines = []
    for source, claims in grouped.items():
        lines.append(f"- {source}")
        lines += [f"    - {claim}: {'; '.join(claims[claim])}." for claim in claims]
    return join(
        [
            "## The claims of the paper",
            "Each claim cites the figure and the sentence of the paper that make it, and is "
            f"checked as the verdicts are, at {percent(CONFIDENCE)} confidence. *Cannot be "
            f"checked* means that the method, or {PAPER_SPLIT} where {PS_TEST} is compared with "
            f"it, had too few data and kept every label. Where {PS_TEST} alone did, its sets are "
            "as large as can be, which agrees with the paper: it is conservative. In brackets: "
            f"{error_name(known[0].guarantee)} and tasks within, or the mean set sizes of the two "
            f"methods ({SHORT} keeps every label).{_beyond_paper(known)}",
            "\n".join(lines),
        ]
    )


def _beyond_paper(known: Sequence[Result]) -> str:
    """Return which experiments have the paper's data, but are not the paper's."""
    titles = [
        f"*{result.title}*"
        for result in known
        if any(words.startswith("Not in the paper") for words in result.experiment.differences)
    ]
    if not titles:
        return ""
    return (
        f" The experiments {enumerate_names(titles)} are not in the paper: there the claims about "
        "its data are checked with another learner or with other tasks."
    )


def _decisive(claim: Claim) -> str:
    n = claim.numbers
    if claim.claim.startswith(PS_TEST):
        return f"{_size(n)} against {_size(n, f' of {PAPER_SPLIT}')}"
    return f"{n['error_quantile']:.3f}, {n['tasks_within']:.1%}" + _mark_all(n["feasible"])


def _size(numbers: dict[str, float], whose: str = "") -> str:
    return f"{numbers[f'size{whose}']:.2f}" + _mark_all(numbers[f"feasible{whose}"])


def _mark_all(feasible: float) -> str:
    return "" if feasible else f" {SHORT}"


def experiment_section(result: Result) -> str:
    """Return the methods of the paper and ours, what to know of them, and the figures."""
    return join(
        [
            f"## {result.title}",
            _table(result),
            bullets(_observations(result)),
            _differences(result),
            *_pictures(result),
            f"Run it again: `metapac reproduce {result.name} --controls -o FOLDER`.",
        ]
    )


def _table(result: Result) -> str:
    lines = [line for line in result.lines() if line.method not in (GRID_NAME, *PROMISES)]
    lines.sort(key=lambda line: line.delta != result.delta)
    header = ["method", "mean size", "mean error", error_name(result.guarantee), "tasks within"]
    header += ["draws within", "by chance", "verdict"]
    return table(header, [_row(result, line) for line in lines], aligned="lrrrrrrl")


def _row(result: Result, s: MethodSummary) -> list[str]:
    return [
        _full_name(result, s) + ("" if s.feasible else f" {SHORT}"),
        with_interval(s.size, s.size_interval, ".2f"),
        f"{s.error_mean:.3f}",
        with_interval(s.error_quantile, s.error_quantile_interval, ".3f"),
        with_interval(s.tasks_within, s.tasks_within_interval, ".1%"),
        f"{s.draws_within:.0%}",
        f"{s.draws_expected:.0%}",
        s.verdict if s.feasible else "too few data",
    ]


def _full_name(result: Result, line: MethodSummary) -> str:
    return line.method if line.delta == result.delta else f"{line.method}, delta = {line.delta:g}"


def _observations(result: Result) -> list[str]:
    """Return what a reader must know of these rows."""
    return [
        *([] if result.seeds >= MIN_SEEDS else [result.covers]),
        *_shared_draws(result),
        *_open_verdicts(result),
        *_zero_thresholds(result),
        *_one_label(result),
        *filter(None, [state_first_epochs(result)]),
    ]


def _shared_draws(result: Result) -> list[str]:
    if not result.has_shared_draws:
        return []
    e = result.experiment
    test, calibration = result.pool("test"), result.pool("calibration")
    words = {
        "bank": f"Draws share tasks: each takes {e.test_tasks} of the same {e.bank[1]} test tasks",
        "pools": f"Draws share state-years: the test pool has {test} of them",
        "distinct": f"Draws share state-years: each divides the same {test + calibration} anew",
    }
    return [
        f"{words[e.tasks_from]}. Intervals and verdicts are about these, and too narrow for others."
    ]


def _open_verdicts(result: Result) -> list[str]:
    """Return where it is not settled that Meta-PS holds."""
    lines = [line for line in result.lines() if line.method in SPLITS and line.verdict != HOLDS]
    unsure = [
        f"{_full_name(result, s)} ({percent(s.tasks_within, '.1%')} within)"
        for s in lines
        if s.satisfied
    ]
    found = [
        f"**{_full_name(result, s)} {'violates' if s.violated else 'may violate'} its guarantee "
        f"on these test tasks**: the error is at most epsilon on {s.tasks_within:.1%} of them, and "
        f"clearly above epsilon on {s.tasks_above:.1%}."
        for s in lines
        if not s.satisfied
    ]
    if unsure:
        found.append(
            "Enough of these tasks are within epsilon, but the interval reaches below 1 - alpha, "
            f"so that we cannot tell yet: {enumerate_names(unsure)}."
        )
    return found


def _zero_thresholds(result: Result) -> list[str]:
    """Return where a threshold of 0 keeps every label although there are enough data."""
    found = []
    for method, delta in result.keys:
        zero = count_zero(result, method, delta) if method in SPLITS else 0
        if zero:
            name = _full_name(result, result.line(method, delta))
            draws = result.seeds * result.draws
            found.append(
                f"In {zero} of {draws} draws the threshold of {name} is zero: every label is kept."
            )
    return found


def _one_label(result: Result) -> list[str]:
    """Return how the sets look where a support set may lack a class."""
    if "tasks_with_both_labels" not in result.learners[0]:
        return []
    rows = Rows.concatenate(result.rows(TIGHT))
    has_one = rows.size == 1
    both = np.mean([learner["auroc_both_labels"] for learner in result.learners])
    share = np.mean([learner["tasks_with_both_labels"] for learner in result.learners])
    return [
        f"On {np.mean(has_one):.1%} of the new tasks every set of {TIGHT} has one label. "
        "There the support set has no positive example, so the positive label has probability "
        "zero, and the error is the share of positives. On the other tasks the sets have "
        f"{np.mean(rows.size[~has_one]):.2f} of {rows.labels.max()} labels on average. Accuracy "
        "says little here: on the tasks with one label, always answering no is right for "
        f"{1 - np.mean(rows.error[has_one]):.1%} of the examples. On the {share:.0%} of tasks "
        f"whose support set has both labels, the area under the ROC curve is {both:.3f}; on the "
        "others all examples score the same."
    ]


def _differences(result: Result) -> str:
    if not result.experiment.differences:
        return ""
    return "Where this differs from the paper:\n\n" + bullets(result.experiment.differences)


def _pictures(result: Result) -> list[str]:
    return [
        f"![{alt} {result.title}.](figures/{result.name}/{name}.png)"
        for name, alt in pictures_of(result).items()
    ]


def pictures_of(result: Result) -> dict[str, str]:
    """Return the figures of an experiment, by name, with their alternative texts."""
    shown = {
        "error_and_size": "Box plots over new tasks, a box for each method: error beside epsilon, "
        "and mean set size, as in figures (a) and (b) of the paper.",
    }
    per_set, per_delta = SHOWN_PER_SET.get(result.name, (False, False))
    if per_set:
        shown["error_per_set"] = (
            "Box plots of the error of Meta-PS and Meta-CP given each of the first calibration "
            "sets of the first seed, as in figure (c) of the paper."
        )
    if per_delta:
        shown["error_per_delta"] = (
            "Box plots of the error of Meta-PS at two deltas given each of the first calibration "
            "sets of the first seed, as in the paper's figure on delta."
        )
    return shown


# Experiments for which the paper has a figure of each calibration set, and of two deltas.
SHOWN_PER_SET = {"miniimagenet": (True, True), "fewrel": (True, False), "heart": (True, False)}
