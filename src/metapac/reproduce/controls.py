"""Controls of an experiment: the same learner on other tasks, to tell one cause from another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from metapac.evaluation import Method
from metapac.guarantee import Guarantee
from metapac.reproduce.experiments import Experiment
from metapac.reproduce.methods import main_methods, meta_cp_methods, split_methods

DRAWS = 10  # of each seed
SMALL = (15, 30, 60)  # calibration examples of each class; with 5 classes 75, 150 and 300 a task


@dataclass(frozen=True)
class Control:
    """A variant of an experiment that shares its trained learner.

    Parameters
    ----------
    name : str
        Name of its folder.
    title : str
        What differs, in words.
    experiment : Experiment
        The variant.
    methods : callable
        Takes a guarantee, returns the methods to run.
    """

    name: str
    title: str
    experiment: Experiment
    methods: Callable[[Guarantee], tuple[Method, ...]]


def list_controls(experiment: Experiment) -> list[Control]:
    """Return the controls of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment.

    Returns
    -------
    list of Control
        New tasks from the calibration pool, so that there is no shift; Meta-CP with a predictor
        of what the learner has seen; and, for tasks of a few classes, small calibration tasks.
        Where each draw divides the groups anew, or tasks differ by their corruption alone, there
        is no shift to take away.
    """
    e, controls = replace(experiment, draws=min(DRAWS, experiment.draws)), []
    if e.predictor != "train":
        seen = replace(e, predictor="train")
        title = "Meta-CP's predictor trained on what the learner was trained on"
        controls.append(Control("seen", title, seen, meta_cp_methods))
    if e.tasks_from == "pools":
        same = replace(e, new_tasks="calibration")
        title = "new tasks from the calibration pool"
        controls.append(Control("no-shift", title, same, main_methods))
    if e.tasks_from == "pools" and e.ways is not None:
        for count in SMALL:
            if count >= (e.calibration_examples or 0):
                break
            small, n = replace(e, calibration_examples=count), e.ways * count
            title = f"{n} calibration examples per task"
            controls.append(Control(f"n-{n}", title, small, split_methods))
    return controls
