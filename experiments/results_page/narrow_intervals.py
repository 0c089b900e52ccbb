"""Intervals that are narrower than they look: over draws alone, or over draws that share tasks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.results_page.markdown import MARKS, enumerate_names, name_titles, percent
from experiments.results_page.stored import Result
from metapac.fewshot.study.summary import MethodSummary
from metapac.verdict import UNDECIDED


def name_over_draws(results: Sequence[Result]) -> str:
    """Return the titles of the experiments whose intervals are over draws."""
    return name_titles([result for result in results if not result.has_seed_intervals])


def find(results: Sequence[Result]) -> str:
    """Return which intervals leave out the training, and which are too narrow for other tasks."""
    shared = name_titles([result for result in results if result.has_shared_draws])
    return (
        f"**Narrow intervals.** Those of {name_over_draws(results)} are over draws, for its "
        "learners alone: they do not cover the training and are not comparable with the others, "
        f"which are over seeds. In {shared}, different draws have tasks or state-years in common, "
        "so that the intervals are too narrow for other tasks; see their sections."
    )


def observe(result: Result) -> list[str]:
    """Return what the intervals of an experiment leave out."""
    found = [] if result.has_seed_intervals else [result.covers]
    if result.has_shared_draws:
        found.append(_state_shared(result))
    if result.tasks is not None:
        found.append(
            "Verdicts do not rest on these intervals: each test task counts once, and each seed by "
            "itself. *Observed within* and *violated* are said only if they are true of each seed."
        )
    return found


def explain_verdicts(results: Sequence[Result]) -> list[str]:
    """Return how verdicts are found where draws have tasks in common."""
    shared = [result for result in results if result.tasks is not None]
    if not shared:
        return []
    return [
        f"In {name_titles(shared)}, the draws take their new tasks from one bank, and a task is in "
        "many draws. There each test task counts once, with intervals over tasks instead of draws, "
        "and each seed by itself. A verdict is given only if it is the same in each seed; "
        f"otherwise it is *{UNDECIDED}*. So {MARKS[UNDECIDED]} may stand beside an interval above "
        "1 - alpha, which is over the draws of all seeds."
    ]


def _state_shared(result: Result) -> str:
    e = result.experiment
    test, calibration = result.pool("test"), result.pool("calibration")
    words = {
        "bank": f"Draws share tasks: each takes {e.calibration_tasks} of the same {e.bank[0]} "
        f"calibration tasks and {e.test_tasks} of the same {e.bank[1]} test tasks, in every seed",
        "pools": f"Draws share state-years: the test pool has {test} of them",
        "distinct": f"Draws share state-years: each divides the same {test + calibration} anew",
    }
    return (
        f"{words[e.tasks_from]}. Intervals and verdicts are about these; for others the intervals "
        "are too narrow."
    )


def state_within(result: Result, line: MethodSummary) -> str:
    """Return the share of tasks within epsilon, and that of each seed if seeds are judged apart."""
    share = f"{percent(line.tasks_within, '.1%')} within"
    if result.tasks is None:
        return share
    epsilon = result.guarantee.miss_rate
    by_seed = [
        percent(float(np.mean(rows.error <= epsilon)), ".1%")
        for rows in result.rows(line.method, line.delta)
    ]
    return f"{share}: {enumerate_names(by_seed)} in the seeds"
