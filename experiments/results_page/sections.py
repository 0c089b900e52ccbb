"""The claims of the paper in one table, and a section for each experiment."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.results_page import narrow_intervals, rare_class
from experiments.results_page.learners import state_first_epochs
from experiments.results_page.markdown import (
    SHORT,
    bullets,
    enumerate_names,
    error,
    error_name,
    full_name,
    join,
    name_titles,
    percent,
    size,
    table,
    with_interval,
)
from experiments.results_page.splits import SPLITS, state_zero
from experiments.results_page.stored import Result
from metapac.fewshot.reproduce.claims import (
    AGREES,
    DISAGREES,
    EXPECTED_INVALID,
    PAPER_SPLIT,
    PS_TEST,
    UNCHECKED,
    Claim,
    judge_claims,
)
from metapac.fewshot.reproduce.experiments import GRID_NAME
from metapac.fewshot.study.methods import PROMISES
from metapac.fewshot.study.summary import CONFIDENCE, MethodSummary
from metapac.verdict import UNDECIDED, VIOLATED

OPEN = (UNDECIDED, VIOLATED)
CLAIMED = (PAPER_SPLIT, *EXPECTED_INVALID, PS_TEST)
AGREEMENT = {
    AGREES: AGREES,
    DISAGREES: f"**{DISAGREES}**",
    UNDECIDED: "**cannot tell yet**",
    UNCHECKED: UNCHECKED,
}


def claims_of(result: Result) -> list[Claim]:
    """Return the claims of the paper about the data set of an experiment."""
    lines = {name: result.line(name) for name in CLAIMED}
    sizes = result.compare(PS_TEST, PAPER_SPLIT)
    return judge_claims(lines, sizes, result.guarantee, result.experiment.data)


def claims_section(results: Sequence[Result]) -> str:
    """Return the claims of the paper, each with figure, sentence and what the rows say."""
    grouped: dict[str, dict[str, list[str]]] = {}
    for result in results:
        for claim in claims_of(result):
            status = f"*{result.title}* {AGREEMENT[claim.status]} ({_decisive(result, claim)})"
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
            "as large as can be, which agrees with the paper: it is conservative. In brackets: the "
            f"{error_name(results[0].guarantee)} and *tasks within*, or the mean set sizes of the "
            f"two methods ({SHORT} keeps every label).{_beyond_paper(results)}",
            "\n".join(lines),
        ]
    )


def _beyond_paper(results: Sequence[Result]) -> str:
    """Return which experiments have the paper's data, but are not the paper's."""
    others = [
        result
        for result in results
        if any(words.startswith("Not in the paper") for words in result.differences)
    ]
    return (
        f" The experiments {name_titles(others)} are not in the paper: there the claims about "
        "its data are checked with another learner or with other tasks."
    )


def _decisive(result: Result, claim: Claim) -> str:
    """Return the numbers that decide, and how often the paper's split kept every label."""
    n = claim.numbers
    words = f"{n['error_quantile']:.3f}, {n['tasks_within']:.1%}" + _mark_all(n["feasible"])
    if claim.claim.startswith(PS_TEST):
        words = f"{_size(n)} against {_size(n, f' of {PAPER_SPLIT}')}"
    draws = state_zero(result, PAPER_SPLIT) if PAPER_SPLIT in claim.claim else ""
    return words + (f"; {PAPER_SPLIT} keeps every label in {draws}" if draws else "")


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
        full_name(result, s),
        size(s),
        f"{s.error_mean:.3f}",
        error(s),
        with_interval(s.tasks_within, s.tasks_within_interval, ".1%"),
        f"{s.draws_within:.0%}",
        f"{s.draws_expected:.0%}",
        s.verdict,
    ]


def _observations(result: Result) -> list[str]:
    """Return what a reader must know of these rows."""
    return [
        *narrow_intervals.observe(result),
        *_open_verdicts(result),
        *_zero_thresholds(result),
        *rare_class.observe(result),
        *filter(None, [state_first_epochs(result)]),
    ]


def _open_verdicts(result: Result) -> list[str]:
    """Return where Meta-PS is not said to be within."""
    lines = [line for line in result.lines() if line.method in SPLITS and line.verdict in OPEN]
    unsure = [
        f"{full_name(result, s)} ({narrow_intervals.state_within(result, s)})"
        for s in lines
        if s.satisfied
    ]
    found = [
        f"**{full_name(result, s)} {'violates' if s.violated else 'may violate'} its guarantee "
        f"on these test tasks**: the error is at most epsilon on {percent(s.tasks_within, '.1%')} "
        f"of them, and clearly above epsilon on {percent(s.tasks_above, '.1%')}."
        for s in lines
        if not s.satisfied
    ]
    if unsure:
        found.append(
            "Enough of these tasks are within epsilon, but that may be chance, so that we cannot "
            f"tell yet: {enumerate_names(unsure)}."
        )
    return found


def _zero_thresholds(result: Result) -> list[str]:
    """Return where a threshold of 0 keeps every label although there are enough data."""
    found = []
    for method, delta in result.keys:
        draws = state_zero(result, method, delta) if method in SPLITS else ""
        if draws:
            name = full_name(result, result.line(method, delta))
            found.append(f"In {draws} the threshold of {name} is zero: every label is kept.")
    return found


def _differences(result: Result) -> str:
    if not result.differences:
        return ""
    return "Where this differs from the paper:\n\n" + bullets(result.differences)


def _pictures(result: Result) -> list[str]:
    return [
        f"![{alt} {result.title}.](docs/figures/{result.name}/{name}.svg)"
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
