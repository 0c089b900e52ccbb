"""Write docs/results.md and its figures from the stored results: python experiments/page.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from metapac import _document
from metapac._files import replacing
from metapac.demands import min_tasks
from metapac.evaluation import (
    Rows,
    compare_sizes,
    read_guarantee,
    read_rows,
    read_settings,
    summarise,
)
from metapac.guarantee import Guarantee
from metapac.reproduce.claims import (
    FAILS,
    UNCHECKED,
    Claim,
    check_claims,
)
from metapac.reproduce.experiments import EXPERIMENTS
from metapac.reproduce.figures import draw_figures
from metapac.reproduce.run import LEARNER
from metapac.verdict.wording import HOLDS, UNDECIDED

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "experiments" / "results"
PAGE = ROOT / "docs" / "results.md"
FIGURES = ROOT / "docs" / "figures"
CAPTIONS = {
    "error": "Error on new tasks",
    "size": "Size of sets on new tasks",
    "error_per_set": "Error given each of 20 calibration sets, Meta-PS beside Meta-CP",
    "error_per_delta": "Error given each of 20 calibration sets, for two deltas",
}


class Result:
    """The stored results of one experiment."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.guarantee: Guarantee = read_guarantee(folder)
        self.settings: dict[str, Any] = read_settings(folder)
        self.learner: dict[str, Any] = _document.read(folder / "learner.json", LEARNER)
        self.experiment: dict[str, Any] = self.learner["experiment"]
        self.differences = EXPERIMENTS[self.name].differences
        rows = _without_old_methods(read_rows(folder))
        # The rows were stored before they said how many examples an error was counted on.
        examples = self.experiment["evaluation_examples"] * (self.experiment["ways"] or 1)
        self.rows: Rows = replace(rows, examples=np.full(len(rows), examples))

    @property
    def has_independent_draws(self) -> bool:
        """Whether no two draws share a task or a state-year, so that intervals can be given."""
        return bool(self.experiment["tasks_from"] == "pools" and self.experiment["ways"])


def _without_old_methods(rows: Rows) -> Rows:
    """Return the rows without those of the adaptive split, which "joint" has replaced."""
    return rows.take(rows.method != "Meta-PS adaptive")


def read_results(results: Path = RESULTS) -> list[Result]:
    """Return the stored results, in the order of the experiments."""
    return [Result(results / name) for name in EXPERIMENTS if (results / name).is_dir()]


def page(results: Sequence[Result]) -> str:
    """Return the page as text."""
    parts = [
        _opening(results),
        _tight_against_even(results),
        *(_section(result) for result in results),
    ]
    return "\n\n".join(parts) + "\n"


def _opening(results: Sequence[Result]) -> str:
    there = {str(method) for result in results for method in result.rows.method}
    shown = [method for method in _METHODS if method in there]
    lines = [
        "# Results on the paper's data sets",
        "",
        "The protocol is that of the paper: 100 calibration draws and, in each draw, every method "
        "on the same new tasks (the test tasks). `python experiments/page.py` writes this page and "
        "its figures from the rows in `experiments/results`; a test checks that they agree.",
        "",
        "The methods:",
        "",
        "- **PS** takes one threshold from the pooled examples of all calibration tasks.",
        "- **PS-Test** takes one from labelled examples of the test task itself.",
        "- **Meta-CP** is the baseline of Fisch et al. in the variant of the paper "
        '(`over="examples"`). Its quantile predictor is trained on 1000 tasks of the training '
        "pool.",
        "- **Meta-PS even** is the method of the paper with the paper's split; **Meta-PS tight** "
        "has the [tight split](guarantee.md#the-splits).",
        "- The **oracle** takes the largest threshold whose error on the evaluation examples "
        "themselves is at most epsilon. It is not a method but a reference for the set size.",
        "",
        "The columns:",
        "",
        "- *90 % error* is the 1 - alpha quantile of the error over test tasks (alpha is 0.1 on "
        "this page). It is at most epsilon if and only if at least 1 - alpha of the test tasks "
        "have an error of at most epsilon.",
        "- *Tasks within* is the share of test tasks whose error is at most epsilon.",
        "- *Draws within* is the share of draws in which at least 1 - alpha of the test tasks have "
        "an error of at most epsilon, and *by chance* the share to expect if all draws had equally "
        "good thresholds: with 50 tasks of which 92 % are within, a draw falls below 90 % in one "
        "of five cases.",
        "- The *verdict* is *holds* if the whole interval of *tasks within* is at least 1 - alpha. "
        "It is *violated* only if neither few tasks nor few examples can explain it: a task then "
        "counts only if its miss rate is above epsilon beyond doubt (Clopper-Pearson, level 0.05), "
        "and more than alpha of the tasks must remain. Otherwise it is *cannot tell yet*.",
        "",
        "Intervals in brackets have 95 % confidence: Student's t over the draws, given one trained "
        "learner and one division of the classes. They are given only where draws are independent, "
        "not where they share tasks or state-years; there the verdict treats draws as independent.",
        "",
        "Test tasks come from other classes, relations or state-years than calibration tasks, as "
        "in the paper. The guarantee assumes that both come from one distribution, so these "
        "results also show how similar the pools are. PS bounds the *mean error* by epsilon on "
        "tasks like the calibration tasks; where its mean error is larger, the test tasks are "
        "harder. Tasks drawn from 16 classes are independent only given these 16 classes.",
        "",
        "These rows were measured before the joint split existed, which is now the default. Its "
        "effect is measured [on synthetic tasks](splits.md).",
        "",
        "| experiment | learner | " + " | ".join(shown) + " |",
        "|---|---:" + "|---:" * len(shown) + "|",
    ]
    for result in results:
        lines_of = {s.method: s for s in _summaries(result)}
        cells = [_cell(lines_of.get(method)) for method in shown]
        lines.append(f"| {_link(result)} | {_quality(result)} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Each cell of a method shows the mean set size and the 90 % error. The learner's column "
        "shows its accuracy on test tasks. † marks a method that keeps every label because there "
        "are too few data.",
    ]
    return "\n".join(lines)


_METHODS = ("PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")


def _cell(line: Any) -> str:
    if line is None:
        return ""
    mark = "" if line.feasible else " †"
    return f"{line.size:.2f}, {line.error_quantile:.3f}{mark}"


def _link(result: Result) -> str:
    title = result.experiment["title"]
    return f"[{title}](#{_anchor(title)})"


def _anchor(title: str) -> str:
    allowed = [c for c in title.lower() if c.isalnum() or c in " -"]
    return "".join(allowed).replace(" ", "-")


def _quality(result: Result) -> str:
    words = f"{result.learner['accuracy']:.1%}"
    if "auroc" in result.learner:
        words += f", AUROC {result.learner['auroc']:.3f}"
    return words


def _summaries(result: Result) -> Iterable[Any]:
    lines = summarise(result.rows, result.guarantee)
    return [line for line in lines if line.delta == result.guarantee.delta]


def _tight_against_even(results: Sequence[Result]) -> str:
    lines = [
        "## The tight split against the even split",
        "",
        "The table shows the mean set size of both splits on the same draws, their paired "
        "difference, and the minimum number of calibration tasks. The 95 % interval is Student's t "
        "over the means of the draws.",
        "",
        "| experiment | even | tight | difference | 95 % interval | min. tasks, even | tight |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        sizes = compare_sizes(
            result.rows, "Meta-PS tight", "Meta-PS even", delta=result.guarantee.delta
        )
        minimum = [
            min_tasks(replace(result.guarantee, split=split), 0) for split in ("even", "tight")
        ]
        interval = f"{sizes.low:+.3f} to {sizes.high:+.3f}"
        interval = interval if result.has_independent_draws else "none"
        lines.append(
            f"| {result.experiment['title']} | {sizes.second_size:.3f} | {sizes.first_size:.3f} "
            f"| {sizes.difference:+.3f} | {interval} | {minimum[0]} | {minimum[1]} |"
        )
    return "\n".join(lines)


def _section(result: Result) -> str:
    parts = [
        f"## {result.experiment['title']}",
        _configuration(result),
        _table(result),
        _claims(result),
        _differences(result),
        _pictures(result),
        f"Command: `metapac reproduce {result.name} -o experiments/results/{result.name}`. The "
        "folder must be empty, or the stored run is resumed.",
    ]
    return "\n\n".join(part for part in parts if part)


def _configuration(result: Result) -> str:
    e, learner, g = result.experiment, result.learner, result.guarantee
    per = "of each class" if e["ways"] else "in all"
    ways = f"{e['ways']} classes" if e["ways"] else "a group"
    quality = f"accuracy {learner['accuracy']:.1%} on test tasks"
    if "auroc" in learner:
        quality += (
            f", mean AUROC {learner['auroc']:.3f}; {learner['auroc_both_labels']:.3f} on the "
            f"{learner['tasks_with_both_labels']:.0%} of tasks whose support set has both labels "
            "(on the others all examples score the same: 0.5)"
        )
    return (
        f"The guarantee has epsilon {g.miss_rate:g}, alpha {g.alpha:g} and delta {g.delta:g}. "
        f"There are {result.settings['draws']} draws of {e['calibration_tasks']} calibration "
        f"tasks and {e['test_tasks']} test tasks. A task is {ways}; examples {per}: {e['shots']} "
        f"to adapt, {e['calibration_examples'] or 'all others'} to calibrate, "
        f"{e['evaluation_examples']} to evaluate, {e['labelled_examples']} for PS-Test. The "
        f"learner is a ProtoNet with the backbone {e['backbone']}, trained by Adam with learning "
        f"rate {e['training']['lr']:g}. Training took {learner['episodes']:,} episodes, "
        f"{e['training']['episodes_per_step']} per step, in {learner['epochs']} "
        f"epochs{_limit(result)}, and {learner['seconds']:,.0f} s on an {learner['device']}. The "
        f"weights are those of the best epoch, {learner['best_epoch']}: {quality}."
    )


def _limit(result: Result) -> str:
    at_limit = result.learner["epochs"] == result.experiment["training"]["epochs"]
    return " (the maximum)" if at_limit else ""


def _table(result: Result) -> str:
    lines = [
        "| method | mean size | mean error | 90 % error | tasks within | draws within | by chance "
        "| verdict |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for s in summarise(result.rows, result.guarantee):
        name = _full_name(result, s) + ("" if s.feasible else " †")
        size, quantile, within = (
            _ends(result, interval, digits)
            for interval, digits in (
                (s.size_interval, ".3f"),
                (s.error_quantile_interval, ".3f"),
                (s.tasks_within_interval, ".1%"),
            )
        )
        lines.append(
            f"| {name} | {s.size:.3f}{size} | {s.error_mean:.3f} | {s.error_quantile:.3f}{quantile}"
            f" | {s.tasks_within:.1%}{within} | {s.draws_within:.0%} | {s.draws_expected:.0%} "
            f"| {s.verdict} |"
        )
    return "\n".join(lines)


def _ends(result: Result, interval: tuple[float, float], digits: str) -> str:
    """Return an interval in brackets; nothing where draws depend on each other."""
    low, high = (format(end, digits).removesuffix("%") for end in interval)
    return f" [{low}, {high}]" if result.has_independent_draws else ""


def _full_name(result: Result, line: Any) -> str:
    at_guarantee = line.delta == result.guarantee.delta
    return line.method if at_guarantee else f"{line.method}, delta = {line.delta:g}"


def _claims(result: Result) -> str:
    claims = check_claims(result.rows, result.guarantee, result.experiment["data"])
    lines = [f"- {_AGREEMENT[c.status]}: {c.claim}. {_cite(result, c)}" for c in claims]
    short = [s.method for s in _summaries(result) if not s.feasible]
    if short:
        lines.append(
            f"- † {', '.join(short)}: too few data for the guarantee, so every label is kept."
        )
    lines += [f"- {each}" for each in _observations(result)]
    return "The paper's claims, on these rows:\n\n" + "\n".join(lines)


_AGREEMENT = {
    HOLDS: "Agrees",
    FAILS: "**Does not agree**",
    UNDECIDED: "**Cannot tell yet** (noise could explain it)",
    UNCHECKED: "Cannot be checked (too few data: it keeps every label)",
}


def _cite(result: Result, claim: Claim) -> str:
    """Return the figure and the sentence of the paper; our own splits are not in it."""
    is_ours = claim.claim.startswith(("Meta-PS tight", "Meta-PS joint"))
    return "This split is ours." if is_ours else f"Paper, {claim.source}"


def _observations(result: Result) -> list[str]:
    """Return further observations: violations, harder test tasks, thresholds of zero."""
    g, lines = result.guarantee, []
    for s in summarise(result.rows, g):
        if s.method.startswith("Meta-PS") and s.verdict != HOLDS:
            how = "violates" if s.violated else "may violate"
            lines.append(
                f"**{_full_name(result, s)} {how} its guarantee on these test tasks**: the error "
                f"is at most epsilon on {s.tasks_within:.1%} of them; it is above epsilon beyond "
                f"doubt on {s.tasks_above:.1%}."
            )
        if s.method == "PS" and s.error_mean > g.miss_rate:
            lines.append(
                f"The test tasks are harder than the calibration tasks: PS has a mean error of "
                f"{s.error_mean:.3f} on them."
            )
        rows = result.rows.select(s.method, s.delta)
        draws = {int(draw) for draw in rows.draw[rows.feasible & (rows.threshold <= 0)]}
        if s.method.startswith("Meta-PS") and draws:
            lines.append(
                f"In {len(draws)} of {result.settings['draws']} draws the threshold of "
                f"{_full_name(result, s)} is 0: every label is kept."
            )
    if "tasks_with_both_labels" in result.learner:
        tight = result.rows.select("Meta-PS tight", g.delta)
        sized = tight.size[tight.size != 1]
        lines.append(
            f"On {(tight.size == 1).mean():.1%} of the test tasks every set of Meta-PS tight has "
            "one label. There the support set has no positive example, so the positive label has "
            "probability 0, and the error is the share of positives. On the other tasks its sets "
            f"have {sized.mean():.2f} of 2 labels on average. Accuracy says little here: always "
            "answering no is right more often."
        )
    return lines


def _differences(result: Result) -> str:
    lines = [f"- {each}" for each in result.differences]
    return "Where this differs from the paper:\n\n" + "\n".join(lines) if lines else ""


def _pictures(result: Result) -> str:
    return "\n\n".join(
        f"![{caption}: {result.experiment['title']}](figures/{result.name}/{name}.png)"
        for name, caption in CAPTIONS.items()
    )


def main() -> None:
    results = read_results()
    for result in results:
        draw_figures(
            result.rows,
            result.guarantee,
            FIGURES / result.name,
            title=result.experiment["title"],
        )
    with replacing(PAGE) as file:
        file.write(page(results))


if __name__ == "__main__":
    main()
