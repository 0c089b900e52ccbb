"""The experiments of the paper and their controls."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._common import Array, Counts, Floats, check_one_of
from metapac.fewshot.study import methods as rules
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.methods import Chosen, Method, Rule, neighbour_methods, paper_methods
from metapac.guarantee import Guarantee

GUARANTEE = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5, split="tight")


@dataclass(frozen=True)
class Training:
    """How a learner is trained; the defaults are the paper's."""

    lr: float
    episodes_per_epoch: int
    epochs: int = 200
    episodes_per_step: int = 8
    patience: int = 30
    halve_every: int = 40
    queries: int = 5
    validation_tasks: int = 400
    class_weights: tuple[float, ...] | None = None


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper, or one beside it: data, learner, tasks and guarantee."""

    # Numbers of examples are per class if tasks have ``ways`` classes, and per task if tasks are
    # groups (``ways=None``). Without ``training``, the learner is trained by the strong recipe.
    name: str
    title: str
    data: str
    backbone: str
    training: Training | None = None
    ways: int | None = 5
    shots: int = 5
    calibration_examples: int | None = 500
    evaluation_examples: int = 100
    labelled_examples: int = 20
    calibration_tasks: int = 500
    test_tasks: int = 50
    guarantee: Guarantee = GUARANTEE
    draws: int = 34
    seeds: int = 3
    tasks_from: str = "pools"
    bank: tuple[int, int] = (0, 0)
    groups: tuple[int, int, int, int] = (0, 0, 0, 0)
    min_group_size: int = 0
    new_tasks: str = "test"
    predictor: str = "validation"

    @property
    def test_examples(self) -> int:
        """Number of query examples of a test task, labelled ones included."""
        return self.labelled_examples + self.evaluation_examples

    @property
    def task_shape(self) -> dict[str, Any]:
        """Arguments of a pool's ``tasks`` other than ``queries``."""
        return {"shots": self.shots} | ({} if self.ways is None else {"ways": self.ways})

    @property
    def study_shape(self) -> dict[str, Any]:
        """Arguments of `PoolStudy` that say how large a draw is."""
        return self.task_shape | {
            "queries": self.calibration_examples,
            "test_queries": self.evaluation_examples,
            "labelled": self.labelled_examples,
            "tasks": self.calibration_tasks,
            "tests": self.test_tasks,
        }

    def describe(self) -> dict[str, Any]:
        fields = asdict(self) | {"guarantee": self.guarantee.describe()}
        return {k: v for k, v in fields.items() if k not in ("title", "draws", "seeds")}

    def describe_training(self) -> dict[str, Any]:
        """Return everything but data and seed that the trained learner depends on."""
        return {name: value for name, value in self.describe().items() if name in _TRAINED_BY}


_TRAINED_BY = ("data", "backbone", "training", "ways", "shots", "groups", "min_group_size")


def _read_experiments(file: Path) -> Iterator[Experiment]:
    """Yield the experiments of a file, in which 0 ways or calibration examples mean None."""
    for name, facts in tomllib.loads(file.read_text("utf-8")).items():
        fields = _with_tuples(facts)
        fields["guarantee"] = replace(GUARANTEE, **facts.get("guarantee", {}))
        if "training" in facts:
            fields["training"] = Training(**_with_tuples(facts["training"]))
        yield Experiment(name, **fields)


def _with_tuples(facts: dict[str, Any]) -> dict[str, Any]:
    return {key: tuple(x) if isinstance(x, list) else x or None for key, x in facts.items()}


_FILE = Path(__file__).with_suffix(".toml")
EXPERIMENTS = {experiment.name: experiment for experiment in _read_experiments(_FILE)}


def find_experiment(name: str) -> Experiment:
    check_one_of("name", name, tuple(EXPERIMENTS))
    return EXPERIMENTS[name]


STEP = 1e-7  # of the grid that the published research code searches across tasks
GRID_NAME = "Meta-PS even, grid"


def all_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    methods = paper_methods(guarantee, second_delta=rules.SECOND_DELTA)
    even = replace(guarantee, split="even")
    methods += (*neighbour_methods(guarantee), Method(GRID_NAME, GRID, even))
    if guarantee.delta == rules.SECOND_DELTA:
        return methods
    loose = {m.name: m for m in paper_methods(replace(guarantee, delta=rules.SECOND_DELTA))}
    return (*methods, loose["PS-Test"], loose["Meta-PS joint"])


def main_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    return paper_methods(guarantee) + neighbour_methods(guarantee)


def split_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    names = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")
    return tuple(method for method in paper_methods(guarantee) if method.name in names)


def meta_cp_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    both = dict.fromkeys((guarantee, replace(guarantee, delta=rules.SECOND_DELTA)))
    return tuple(Method("Meta-CP", rules.META_CP, each) for each in both)


def _grid_search(draw: Draw, g: Guarantee) -> Chosen:
    """Meta-PS by searching a grid: Clopper-Pearson bounds, within tasks and across them."""
    ordered = draw.ordered
    samples = np.split(ordered.scores, np.cumsum(ordered.sizes)[:-1])
    of_tasks = search_grid(samples, g.miss_rate, g.alpha / 2)
    (cut,) = search_grid([np.sort(of_tasks)], g.alpha / 2, g.failure_probability)
    return rules.same_for_all(float(cut), feasible=bool(np.isfinite(cut)))


def search_grid(samples: Sequence[Array], epsilon: float, delta: float) -> Floats:
    """Return for each sample the largest step of the grid whose error is certified."""
    sizes = np.array([len(sample) for sample in samples])

    def is_valid(steps: Counts) -> NDArray[np.bool_]:
        cuts = zip(samples, steps * STEP, strict=True)
        below = np.array([np.searchsorted(sample, cut) for sample, cut in cuts])
        bound = special.betaincinv(below + 1, np.maximum(sizes - below, 1), 1 - delta)
        return np.asarray((below < sizes) & (bound <= epsilon))

    low = np.zeros(len(samples), dtype=np.int64)
    high = np.full_like(low, round(1 / STEP) + 1)  # above all scores
    feasible = is_valid(low)
    while (high - low > 1).any():
        middle = (low + high) // 2
        valid = is_valid(middle)
        low, high = np.where(valid, middle, low), np.where(valid, high, middle)
    return np.where(feasible, low * STEP, -np.inf)


GRID = Rule(_grid_search, version="1")

DRAWS = 10  # of each seed
SMALL = (15, 30, 60)  # calibration examples of each class; with 5 classes 75, 150 and 300 a task


@dataclass(frozen=True)
class Control:
    """A variant of an experiment that shares its trained learner; or the experiment itself."""

    name: str
    title: str
    experiment: Experiment
    methods: Callable[[Guarantee], tuple[Method, ...]]


def list_controls(experiment: Experiment) -> list[Control]:
    e, controls = replace(experiment, draws=min(DRAWS, experiment.draws)), []
    if e.predictor != "train":
        title = "Meta-CP's predictor trained on what the learner was trained on"
        controls.append(Control("seen", title, replace(e, predictor="train"), meta_cp_methods))
    if e.tasks_from == "pools":
        same, title = replace(e, new_tasks="calibration"), "new tasks from the calibration pool"
        controls.append(Control("no-shift", title, same, main_methods))
    if e.tasks_from == "pools" and e.ways is not None:
        for count in (count for count in SMALL if count < (e.calibration_examples or 0)):
            small, n = replace(e, calibration_examples=count), e.ways * count
            title = f"{n} calibration examples per task"
            controls.append(Control(f"n-{n}", title, small, split_methods))
    return controls
