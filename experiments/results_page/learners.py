"""The learners: how they were trained, their accuracy beside published accuracy, their seeds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.results_page.markdown import (
    NONE,
    enumerate_names,
    join,
    link,
    percent,
    span,
    table,
    with_interval,
)
from experiments.results_page.stored import Result
from metapac.fewshot.study.summary import CONFIDENCE, MIN_SEEDS, mean_interval

BEST = "Meta-PS joint"  # the split shown for each seed: the library's default


def accuracy(result: Result) -> str:
    """Return the mean accuracy over seeds, with its interval from three seeds on."""
    values = [np.array([learner["accuracy"]]) for learner in result.learners]
    return with_interval(float(np.mean(values)), mean_interval(values), ".1%")


def published(result: Result) -> str:
    """Return the range of the published accuracies."""
    values = [each["accuracy"] for each in result.published]
    return span(values, ".1%").replace(" %", "%")


def find(results: Sequence[Result]) -> str:
    """Return how far the accuracies are from the published ones."""
    known = [result for result in results if result.published]
    return (
        "The accuracy of the learners differs from the published accuracy that is nearest in kind "
        "(and from the highest and the lowest that is published) by "
        f"{enumerate_names([_state_gaps(result) for result in known])}."
    )


def _state_gaps(result: Result) -> str:
    nearest, *_ = gaps = _gaps(result)
    ends = ", ".join(f"{gap:+.1f}" for gap in (min(gaps), max(gaps)))
    return f"{nearest:+.1f} points ({ends}) in *{result.title}*"


def _gaps(result: Result) -> list[float]:
    """Return the mean accuracy minus each of the published ones, in points."""
    mean = float(np.mean([learner["accuracy"] for learner in result.learners]))
    return [100 * (mean - each["accuracy"]) for each in result.published]


def section(results: Sequence[Result]) -> str:
    """Return the tables of published accuracies, of settings and of seeds."""
    return join(
        [
            "## Learners",
            f"Each learner is a ProtoNet. {_count_tasks(results)} The tasks have as many classes "
            "and labelled examples as in the publications; the paper itself states no accuracy. "
            "The published accuracy that is nearest in kind comes first, in bold. *Gap* is ours "
            "minus the published one, in points.",
            _published_table(results),
            _without_published(results),
            "### Settings",
            "A draw has calibration tasks / new tasks. A task has examples to adapt / to calibrate "
            "/ to evaluate / for PS-Test alone, all of them disjoint. The paper has a hundred "
            "draws of one learner; here as many are divided among the seeds.",
            _settings_table(results),
            "### Training seeds",
            "Each seed is trained and evaluated on its own: other initial weights, other "
            "episodes, other draws. `learner.json` beside the rows has the checksum of its "
            f"weights. Cells show accuracy, and mean set size and tasks within of {BEST}.",
            _seeds_table(results),
            " ".join(words for result in results if (words := state_first_epochs(result))),
        ]
    )


def _count_tasks(results: Sequence[Result]) -> str:
    """Return on how many tasks accuracy is measured, and how exactly that tells it."""
    learners = [learner for result in results for learner in result.learners]
    count = min(learner["accuracy_tasks"] for learner in learners)
    half = max(high - low for low, high in (each["accuracy_interval"] for each in learners)) / 2
    return (
        f"Accuracy is measured on {count:,} new tasks of the test pool for each seed, which gives "
        f"that of one seed to within \N{PLUS-MINUS SIGN}{100 * half:.1f} points, at "
        f"{percent(CONFIDENCE)} confidence. The interval beside a mean is Student's t "
        f"over the seeds; fewer than {MIN_SEEDS} seeds have none."
    )


def state_first_epochs(result: Result) -> str:
    """Return which seeds kept the weights of their first epoch, and how they differ from others."""
    first = [learner for learner in result.learners if learner["best_epoch"] == 1]
    others = [learner for learner in result.learners if learner["best_epoch"] > 1]
    if not first or not others:
        return ""
    seeds = enumerate_names(
        [f"of {learner['epochs']} epochs in seed {learner['rng']}" for learner in first]
    )
    pairs = [
        f"{span([learner[name] for learner in first], '.1%')} against "
        f"{span([learner[name] for learner in others], '.1%')}"
        for name in ("validation_accuracy", "accuracy")
    ]
    return (
        f"In *{result.title}*, validation accuracy, which chooses the epoch, was highest after the "
        f"first {seeds}. It is {pairs[0]} in the other seeds, and accuracy on new tasks "
        f"{pairs[1]}. That is why the intervals over these seeds are wide."
    )


def _published_table(results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        ours = [link(result.title), accuracy(result)]
        bold = "**"
        for each, gap in zip(result.published, _gaps(result), strict=True):
            known = f"{bold}{each['accuracy']:.2%}{bold}"
            rows.append([*ours, known, f"{gap:+.1f}", each["learner"], each["source"]])
            ours, bold = ["", ""], ""
    header = ["experiment", "accuracy", "published", "gap", "published learner", "source"]
    return table(header, rows, aligned="lrrrll")


def _without_published(results: Sequence[Result]) -> str:
    others = [result for result in results if not result.published]
    words = [f"{link(result.title)} {_quality(result)}" for result in others]
    return (
        "No accuracy is published for tasks like those of the other experiments: "
        f"{enumerate_names(words)}."
    )


def _quality(result: Result) -> str:
    words = accuracy(result)
    if "auroc" in result.learners[0]:
        area = float(np.mean([learner["auroc"] for learner in result.learners]))
        words += f" (area under the ROC curve {area:.3f})"
    return words


def _settings_table(results: Sequence[Result]) -> str:
    header = ["experiment", "task", "tasks in a draw", "examples of a task", "draws"]
    header += ["training of a seed"]
    return table(header, [_settings(result) for result in results], aligned="llllll")


def _settings(result: Result) -> list[str]:
    e, learner = result.experiment, result.learners[0]
    ways = e.ways or 1
    seconds = float(np.mean([each["seconds"] for each in result.learners]))
    episodes = int(np.mean([each["episodes"] for each in result.learners]))
    steps = f"{episodes:,} episodes" if e.training else f"pre-training, {episodes:,} episodes"
    examples = f"{e.shots * ways} / {result.examples_per_task or 'all others'} / "
    examples += f"{e.evaluation_examples * ways} / {e.labelled_examples * ways}"
    return [
        link(result.title),
        f"{e.ways} classes" if e.ways else "a state-year",
        f"{e.calibration_tasks} / {e.test_tasks}",
        examples,
        f"{result.seeds} times {result.draws}",
        f"{steps}, {seconds:,.0f} s ({learner['device']})",
    ]


def _seeds_table(results: Sequence[Result]) -> str:
    most = max(result.seeds for result in results)
    rows = [
        [link(result.title), *(_seed(result, seed) for seed in range(result.seeds))]
        + [NONE] * (most - result.seeds)
        for result in results
    ]
    return table(["experiment", *(f"seed {seed}" for seed in range(most))], rows)


def _seed(result: Result, seed: int) -> str:
    rows = result.rows(BEST)[seed]
    share = np.mean(rows.error <= result.guarantee.miss_rate)
    return f"{result.learners[seed]['accuracy']:.1%}, {np.mean(rows.size):.2f}, {share:.1%}"
