"""Write docs/results.md and its figures from the stored results; no number is typed by hand.

python experiments/page.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from metapac import figures
from metapac.demands import least_tasks
from metapac.evaluation import (
    Rows,
    paired,
    read_guarantee,
    read_rows,
    read_settings,
    summarise,
    verdicts,
)
from metapac.guarantee import Guarantee
from metapac.persistence import replacing
from metapac.reproduce.experiments import EXPERIMENTS

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
    """One experiment as it was stored."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.rows: Rows = _of_today(read_rows(folder))
        self.guarantee: Guarantee = read_guarantee(folder)
        self.settings: dict[str, Any] = read_settings(folder)
        self.learner: dict[str, Any] = json.loads((folder / "learner.json").read_text())
        self.experiment: dict[str, Any] = self.learner["experiment"]
        self.differences = EXPERIMENTS[self.name].differences


def _of_today(rows: Rows) -> Rows:
    """Return the rows without those of the adaptive split, which "joint" has replaced since."""
    return rows.take(rows.method != "Meta-PS adaptive")


def stored(results: Path = RESULTS) -> list[Result]:
    """Return the stored results, in the order of the experiments."""
    return [Result(results / name) for name in EXPERIMENTS if (results / name).is_dir()]


def page(results: Sequence[Result]) -> str:
    """Return the page as text."""
    parts = [_opening(results), _worth(results), *(_section(result) for result in results)]
    return "\n\n".join(parts) + "\n"


def _opening(results: Sequence[Result]) -> str:
    there = {str(method) for result in results for method in result.rows.method}
    shown = [method for method in _METHODS if method in there]
    lines = [
        "# Results on the paper's data sets",
        "",
        "The paper's protocol: 100 calibration draws; for each one, every method on the same new "
        "tasks. This page and its figures are written by `python experiments/page.py` from the "
        "rows in `experiments/results`; a test checks that they agree.",
        "",
        "*90 % error*: the 90th percentile of error over new tasks, which a method that keeps the "
        "promise has at or below epsilon. *Tasks within*: the share of new tasks whose error is at "
        "most epsilon. *Draws within*: the share of calibration draws in which at least 1 - alpha "
        "of the new tasks are; errors are counted on few tasks and examples, so that where *tasks "
        "within* is near 1 - alpha some draws fall below it by chance alone. *Oracle*: the largest "
        "threshold whose error on the very examples judged is at most epsilon: no method, but "
        "the least that a threshold within epsilon on that task needs (others may be smaller).",
        "",
        "Test tasks come from other classes, relations or state-years than calibration tasks, as "
        "in the paper. The promise is for tasks alike, so these figures also show how alike the "
        "pools are; and tasks made of 16 classes are independent only given these 16. PS promises "
        "a *mean error* of at most epsilon over tasks like the calibration tasks: where it has "
        "more, "
        'the test tasks are harder. Meta-CP is the paper\'s variant (`over="examples"`), its '
        "quantile predictor trained on 1000 tasks of the training pool.",
        "",
        "These rows were measured before the joint split, the default today, was there; what it "
        "buys is measured [on synthetic tasks](splits.md).",
        "",
        "| experiment | learner | " + " | ".join(shown) + " |",
        "|---|---:" + "|---:" * len(shown) + "|",
    ]
    for result in results:
        lines_of = {s.method: s for s in _summaries(result)}
        cells = [_brief(lines_of.get(method)) for method in shown]
        lines.append(f"| {_linked(result)} | {_quality(result)} | " + " | ".join(cells) + " |")
    lines += [
        "",
        "Each cell: mean size, 90 % error; † where a method keeps every label for want of data.",
    ]
    return "\n".join(lines)


_METHODS = ("PS", "PS-Test", "Meta-CP", "Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")


def _brief(line: Any) -> str:
    if line is None:
        return ""
    mark = "" if line.feasible else " †"
    return f"{line.size:.2f}, {line.error_90:.3f}{mark}"


def _linked(result: Result) -> str:
    title = result.experiment["title"]
    return f"[{title}](#{_anchor(title)})"


def _anchor(title: str) -> str:
    kept = [c for c in title.lower() if c.isalnum() or c in " -"]
    return "".join(kept).replace(" ", "-")


def _quality(result: Result) -> str:
    words = f"{result.learner['accuracy']:.1%}"
    if "auroc" in result.learner:
        words += f", AUROC {result.learner['auroc']:.3f}"
    return words


def _summaries(result: Result) -> Iterable[Any]:
    own = result.guarantee.delta
    return [line for line in summarise(result.rows, result.guarantee) if line.delta == own]


def _worth(results: Sequence[Result]) -> str:
    lines = [
        "## What the tight split buys",
        "",
        "Against the paper's even split, on the same draws: mean size of both, the paired "
        "difference with its 95 % interval (Student's t over the draws' means; only where draws "
        "are "
        "independent, not where they share tasks or state-years), and the least number of "
        "calibration tasks for the promise.",
        "",
        "| experiment | even | tight | difference | 95 % interval | least tasks, even | tight |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        two = paired(result.rows, "Meta-PS tight", "Meta-PS even", delta=result.guarantee.delta)
        least = [
            least_tasks(replace(result.guarantee, split=split), 0) for split in ("even", "tight")
        ]
        independent = result.experiment["tasks_from"] == "pools" and result.experiment["ways"]
        interval = f"{two.low:+.3f} to {two.high:+.3f}" if independent else "none"
        lines.append(
            f"| {result.experiment['title']} | {two.second_size:.3f} | {two.first_size:.3f} "
            f"| {two.difference:+.3f} | {interval} | {least[0]} | {least[1]} |"
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
        f"Run with `metapac reproduce {result.name} -o experiments/results/{result.name}` into an "
        "empty folder; drawn with `python experiments/page.py`.",
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
            f"{learner['tasks_with_both_labels']:.0%} of tasks whose adaptation set has both "
            "labels (the others rank nothing: 0.5)"
        )
    return (
        f"epsilon {g.miss_rate:g}, alpha {g.alpha:g}, delta {g.delta:g}; {e['calibration_tasks']} "
        f"calibration tasks, {e['test_tasks']} test tasks a draw, "
        f"{result.settings['draws']} draws. A task is {ways}; {e['shots']} examples {per} to adapt "
        f"to, {e['calibration_examples'] or 'all others'} to calibrate on, "
        f"{e['judged_examples']} to "
        f"judge on, "
        f"{e['own_examples']} for PS-Test. ProtoNet with {e['backbone']}, Adam at "
        f"{e['training']['lr']:g}: {learner['episodes']:,} episodes, "
        f"{e['training']['episodes_per_step']} a step, in {learner['epochs']} epochs"
        f"{_limit(result)} "
        f"({learner['seconds']:,.0f} s on {learner['device']}), best after epoch "
        f"{learner['best_epoch']}; {quality}."
    )


def _limit(result: Result) -> str:
    at_limit = result.learner["epochs"] == result.experiment["training"]["epochs"]
    return ", the limit that was set" if at_limit else ""


def _table(result: Result) -> str:
    lines = [
        "| method | mean size | median size | mean error | 90 % error | tasks within "
        "| draws within |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for s in summarise(result.rows, result.guarantee):
        name = _named(result, s) + ("" if s.feasible else " †")
        lines.append(
            f"| {name} | {s.size:.3f} | {s.size_median:.3f} | {s.error_mean:.3f} "
            f"| {s.error_90:.3f} "
            f"| {s.tasks_within:.1%} | {s.draws_within:.0%} |"
        )
    return "\n".join(lines)


def _named(result: Result, line: Any) -> str:
    own = line.delta == result.guarantee.delta
    return line.method if own else f"{line.method}, delta = {line.delta:g}"


def _claims(result: Result) -> str:
    lines = [
        f"- {_judgement(v.holds, bool(v.numbers['feasible']), v.claim)}: {v.claim}."
        for v in verdicts(result.rows, result.guarantee)
    ]
    short = [s.method for s in _summaries(result) if not s.feasible]
    if short:
        lines.append(
            f"- † {', '.join(short)}: too few data for the promise, so that every label is kept."
        )
    lines += [f"- {each}" for each in _observations(result)]
    return "The paper's claims, on these rows:\n\n" + "\n".join(lines)


def _judgement(holds: bool, feasible: bool, claim: str) -> str:
    if not feasible and not claim.startswith("PS-Test"):
        return "Cannot be judged (it keeps every label)"
    return "Agrees" if holds else "**Does not agree**"


def _observations(result: Result) -> list[str]:
    """Return what the claims do not ask: broken promises, pools unlike, thresholds of zero."""
    g, found = result.guarantee, []
    for s in summarise(result.rows, g):
        if s.method.startswith("Meta-PS") and not s.kept:
            found.append(
                f"**{_named(result, s)} does not keep its promise on these test tasks**: "
                f"{s.tasks_within:.1%} of them are within epsilon."
            )
        if s.method == "PS" and s.error_mean > g.miss_rate:
            found.append(
                f"The test tasks are harder than the calibration tasks: PS has a mean error of "
                f"{s.error_mean:.3f} on them."
            )
        mine = result.rows.of(s.method, s.delta)
        draws = {int(draw) for draw in mine.draw[mine.feasible & (mine.threshold <= 0)]}
        if s.method.startswith("Meta-PS") and draws:
            found.append(
                f"In {len(draws)} of {result.settings['draws']} draws the threshold of "
                f"{_named(result, s)} is 0: every label is kept."
            )
    if "tasks_with_both_labels" in result.learner:
        tight = result.rows.of("Meta-PS tight", g.delta)
        sized = tight.size[tight.size != 1]
        found.append(
            f"On {(tight.size == 1).mean():.1%} of the test tasks every set of Meta-PS tight has "
            "one label: where the adaptation set has no positive at all, that label has "
            "probability 0, and the error is the share of positives. On the others its sets have "
            f"{sized.mean():.2f} of 2 labels on average. Accuracy says little here: always to "
            "answer no is right more often."
        )
    return found


def _differences(result: Result) -> str:
    lines = [f"- {each}" for each in result.differences]
    return "Where this differs from the paper:\n\n" + "\n".join(lines) if lines else ""


def _pictures(result: Result) -> str:
    return "\n\n".join(
        f"![{caption}: {result.experiment['title']}](figures/{result.name}/{name}.png)"
        for name, caption in CAPTIONS.items()
    )


def main() -> None:
    results = stored()
    for result in results:
        figures.draw_figures(
            result.rows,
            result.guarantee,
            FIGURES / result.name,
            title=result.experiment["title"],
        )
    with replacing(PAGE) as file:
        file.write(page(results))


if __name__ == "__main__":
    main()
