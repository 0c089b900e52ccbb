"""The experiments of the paper and their controls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from metapac._common import Array, Counts, Floats, check_one_of
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.methods import (
    META_CP,
    META_PS,
    PS_TEST,
    SECOND_DELTA,
    Chosen,
    Method,
    Rule,
    neighbour_methods,
    paper_methods,
    same_for_all,
)
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
class Published:
    """A published accuracy, to compare a learner with."""

    accuracy: float
    learner: str
    source: str


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper, or one beside it: data, learner, tasks and guarantee.

    Numbers of examples are per class if tasks have ``ways`` classes, and per task if tasks are
    groups (``ways=None``).
    """

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
    differences: tuple[str, ...] = ()
    published: tuple[Published, ...] = ()

    @property
    def test_examples(self) -> int:
        """Number of query examples of a test task, labelled ones included."""
        return self.labelled_examples + self.evaluation_examples

    @property
    def task_shape(self) -> dict[str, Any]:
        """Arguments of a pool's ``tasks`` other than ``queries``."""
        return {"shots": self.shots} | ({} if self.ways is None else {"ways": self.ways})

    def describe(self) -> dict[str, Any]:
        """Return everything that the results depend on, as JSON can hold it."""
        fields = asdict(self) | {"guarantee": self.guarantee.describe()}
        return {k: v for k, v in fields.items() if k not in _WITHOUT_EFFECT}

    def describe_training(self) -> dict[str, Any]:
        """Return everything but data and seed that the trained learner depends on."""
        return {name: value for name, value in self.describe().items() if name in _TRAINED_BY}


_WITHOUT_EFFECT = ("title", "draws", "seeds", "differences", "published")
_TRAINED_BY = ("data", "backbone", "training", "ways", "shots", "groups", "min_group_size")

_MINI = Experiment(
    name="miniimagenet",
    title="mini-ImageNet, Conv4",
    data="miniimagenet",
    backbone="conv4",
    training=Training(lr=1e-3, episodes_per_epoch=1600),
    differences=(
        "The images were compressed with WebP at quality 75.",
        "An epoch has 1600 episodes instead of 800, and an optimiser step 8.",
        "8 of the 64 training classes are held out from training. The best epoch is chosen on "
        "them, not on the calibration classes, and Meta-CP's quantile predictor is trained on "
        "them.",
    ),
    published=(
        Published(
            0.6577,
            "ProtoNet, Conv4, trained on 5-way episodes of all 64 classes",
            "Snell, Swersky and Zemel 2017, Table 6",
        ),
        Published(
            0.6820,
            "ProtoNet, Conv4, trained on 20-way episodes of all 64 classes",
            "Snell, Swersky and Zemel 2017, Table 2",
        ),
        Published(
            0.669,
            "the same, trained again by others",
            "github.com/yinboc/prototypical-network-pytorch",
        ),
    ),
)
_LEE = "Lee, Maji, Ravichandran and Soatto 2019, Table 3"
_STRONG = (
    "Not in the paper: the learner is pre-trained to classify the training images, with "
    "augmentation, and then tuned on episodes (see [Training](training.md)).",
    _MINI.differences[0],
    "8 of the 64 training classes are held out from training, and Meta-CP's quantile predictor is "
    "trained on them.",
)
_HEART = Experiment(
    name="heart",
    title="CDC Heart, MLP",
    data="heart",
    backbone="mlp",
    training=Training(
        lr=1e-3, episodes_per_epoch=200, queries=100, class_weights=(1.0, 10.0), patience=40
    ),
    ways=None,
    shots=10,
    calibration_examples=3000,
    evaluation_examples=1000,
    labelled_examples=40,
    calibration_tasks=250,
    groups=(20, 4, 40, 18),
    min_group_size=3050,
    differences=(
        "Data of 2021 and 2022 instead of 2011 to 2020, with 10 features that both years code in "
        "the same way and that are missing in at most 5 % of the rows: 107 state-years instead of "
        "530, 82 of them with the 3050 rows that the protocol needs.",
        "The best epoch is the one with the highest accuracy, labels weighted as in the loss.",
        "Pools are random state-years, not years: 20 to train on, 4 to choose the epoch and to "
        "train Meta-CP's quantile predictor on, 40 to calibrate on and 18 to test on. As in the "
        "paper's code, 250 calibration tasks are drawn from the 40 with replacement: they are not "
        "250 independent state-years, and the guarantee is for tasks drawn from these 40.",
    ),
)

_GLYPHS = Experiment(
    name="glyphs",
    title="Glyphs, Conv4 (small, needs no data)",
    data="glyphs",
    backbone="conv4 narrow",
    training=Training(
        lr=1e-3, episodes_per_epoch=60, epochs=3, episodes_per_step=2, validation_tasks=50
    ),
    calibration_examples=50,
    evaluation_examples=30,
    calibration_tasks=400,
    draws=10,
    seeds=1,
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        _GLYPHS,
        _MINI,
        replace(
            _MINI,
            name="miniimagenet-conv4-strong",
            title="mini-ImageNet, Conv4, strong recipe",
            training=None,
            differences=_STRONG,
            published=(
                Published(0.7068, "ProtoNet, Conv4, with augmentation", _LEE),
                _MINI.published[1],
            ),
        ),
        replace(
            _MINI,
            name="miniimagenet-resnet12-strong",
            title="mini-ImageNet, ResNet-12, strong recipe",
            backbone="resnet12",
            training=None,
            differences=(
                *_STRONG,
                "The stored rows of Meta-CP come from a quantile predictor that saw the first 560 "
                "of the 600 images of each of these classes: only their embeddings were kept.",
            ),
            published=(
                Published(
                    0.7926,
                    "Meta-Baseline, ResNet-12: pre-training, then cosine prototypes",
                    "Chen, Liu, Xu, Darrell and Wang 2021",
                ),
                Published(0.7560, "ProtoNet, ResNet-12, with augmentation", _LEE),
                Published(0.7670, "TADAM, ResNet-12", "Oreshkin, Rodríguez López and Lacoste 2018"),
                Published(0.7863, "MetaOptNet-SVM, ResNet-12, 640 channels", _LEE),
            ),
        ),
        Experiment(
            name="cifar10c",
            title="CIFAR10-C, ResNet-50",
            data="cifar10c",
            backbone="resnet50",
            training=Training(
                lr=1e-2,
                episodes_per_epoch=1000,
                epochs=50,
                episodes_per_step=4,
                halve_every=10,
                validation_tasks=100,
            ),
            ways=10,
            guarantee=replace(GUARANTEE, epsilon=0.2),
            draws=50,
            seeds=2,
            tasks_from="bank",
            bank=(700, 350),
            differences=(
                "The images were compressed with JPEG, and their original order is lost.",
                "700 calibration tasks and 350 test tasks, the same for both seeds, are scored "
                "once by each learner; each draw takes 500 and 50 of them at random. Within a draw "
                "the tasks are independent; different draws share many tasks, so they vary less "
                "than independent draws would.",
                "50 epochs instead of 200, the learning rate is halved every 10 epochs instead of "
                "every 40, and the best epoch is chosen on 100 tasks. An optimiser step has 4 "
                "episodes. One learner that was trained for 70 epochs, with halving every 40, had "
                "an accuracy of 79.3 %.",
                "The images of tasks are embedded with TF32, which has three digits.",
            ),
        ),
        Experiment(
            name="fewrel",
            title="FewRel, CNN sentence encoder",
            data="fewrel",
            backbone="sentence_cnn",
            training=Training(lr=1e-3, episodes_per_epoch=800),
            differences=(
                "Learning rate 0.001: at the paper's 0.01, validation accuracy was best after the "
                "first epoch and then fell to chance (`learner-at-0.01.json` beside the rows).",
                "25 % of the training sentences are missing.",
                "GloVe vectors of 100 dimensions instead of 50, for 90.8 % of the words.",
                "Calibration relations are 16 of the paper's 64 training relations, held out from "
                "training; the paper calibrates on relations it also trains on. 8 more are held "
                "out to choose the epoch and to train Meta-CP's quantile predictor.",
            ),
            published=(
                Published(
                    0.8313,
                    "ProtoNet, CNN, trained again by others",
                    "github.com/tata1661/FSL-Mate, PaddleFSL",
                ),
                Published(
                    0.8479,
                    "ProtoNet, CNN, all 64 training relations; on 20 relations that are not public",
                    "Han et al. 2018, Table 4",
                ),
            ),
        ),
        _HEART,
        replace(
            _HEART,
            name="heart-distinct",
            title="CDC Heart, MLP, no state-year twice",
            calibration_examples=None,
            calibration_tasks=50,
            test_tasks=20,
            guarantee=replace(GUARANTEE, delta=0.01),
            tasks_from="distinct",
            groups=(30, 6, 50, 20),
            min_group_size=1100,
            differences=(
                "Not in the paper: in each draw a state-year is used at most once, either as a "
                "calibration task with all its rows or as a test task.",
                "delta = 0.01, which 50 tasks support with the tight and the joint split. The even "
                "split needs more tasks and keeps every label.",
            ),
        ),
    )
}


def find_experiment(name: str) -> Experiment:
    """Return the experiment with that name."""
    check_one_of("name", name, tuple(EXPERIMENTS))
    return EXPERIMENTS[name]


STEP = 1e-7  # of the grid that the published research code searches
GRID_NAME = "Meta-PS even, grid"


def all_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return all methods of the results page."""
    methods = paper_methods(guarantee, second_delta=SECOND_DELTA)
    even = replace(guarantee, split="even")
    methods += (*neighbour_methods(guarantee), Method(GRID_NAME, GRID, even))
    if guarantee.delta == SECOND_DELTA:
        return methods
    loose = replace(guarantee, delta=SECOND_DELTA)
    joint = replace(loose, split="joint")
    return (*methods, Method("PS-Test", PS_TEST, loose), Method("Meta-PS joint", META_PS, joint))


def main_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return the paper's methods, our splits, the oracle and related methods, at one delta."""
    return paper_methods(guarantee) + neighbour_methods(guarantee)


def split_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return Meta-PS with each split, and the oracle."""
    names = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint", "oracle")
    return tuple(method for method in paper_methods(guarantee) if method.name in names)


def meta_cp_methods(guarantee: Guarantee) -> tuple[Method, ...]:
    """Return Meta-CP at both deltas."""
    both = dict.fromkeys((guarantee, replace(guarantee, delta=SECOND_DELTA)))
    return tuple(Method("Meta-CP", META_CP, each) for each in both)


def _grid_search(draw: Draw, g: Guarantee) -> Chosen:
    """Meta-PS by searching a grid, as the research code does: Clopper-Pearson bounds, twice."""
    ordered = draw.ordered
    samples = np.split(ordered.scores, np.cumsum(ordered.sizes)[:-1])
    of_tasks = search_grid(samples, g.miss_rate, g.alpha / 2)
    (cut,) = search_grid([np.sort(of_tasks)], g.alpha / 2, g.failure_probability)
    return same_for_all(draw, float(cut), feasible=bool(np.isfinite(cut)))


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
    """A variant of an experiment that shares its trained learner."""

    name: str
    title: str
    experiment: Experiment
    methods: Callable[[Guarantee], tuple[Method, ...]]


def list_controls(experiment: Experiment) -> list[Control]:
    """Return the controls of an experiment."""
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
