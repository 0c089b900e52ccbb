"""The experiments of the paper, and some beyond it, as values."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from metapac import _checks
from metapac.guarantee import Guarantee

GUARANTEE = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5, split="tight")


@dataclass(frozen=True)
class Training:
    """How a learner is trained; the defaults are the paper's.

    Parameters
    ----------
    lr : float
        Initial learning rate (Adam).
    episodes_per_epoch : int
        Number of episodes in an epoch.
    epochs : int, default 200
        Maximum number of epochs.
    episodes_per_step : int, default 8
        Number of episodes in an optimiser step.
    patience : int, default 30
        Stop after this many epochs without improvement.
    halve_every : int, default 40
        Halve the learning rate after this many epochs.
    queries : int, default 5
        Query examples per class, or per group.
    validation_tasks : int, default 400
        Number of tasks on which an epoch is validated.
    class_weights : tuple of float, optional
        Weight of each class in the loss.
    """

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
    """A published accuracy, to compare a learner with.

    Parameters
    ----------
    accuracy : float
        Accuracy on new tasks of the same ways and shots.
    learner : str
        The learner and what it was trained on, where that differs from ours.
    source : str
        The publication, with its table.
    """

    accuracy: float
    learner: str
    source: str


@dataclass(frozen=True)
class Experiment:
    """An experiment of the paper, or one beside it: data, learner, tasks and guarantee.

    Numbers of examples are per class if tasks have ``ways`` classes, and per task if tasks are
    groups (``ways=None``).

    Parameters
    ----------
    name, title : str
        Name on the command line, and title of the figures.
    data, backbone : str
        Names of the data set and of the backbone.
    training : Training, optional
        How the learner is trained on episodes; by default by the strong recipe of its backbone
        (`metapac.learners.train_strong`).
    ways : int or None, default 5
        Number of classes in a task; None if tasks are groups.
    shots : int, default 5
        Number of support examples.
    calibration_examples : int or None, default 500
        Number of calibration examples; None for all examples of a group outside its support set.
    evaluation_examples : int, default 100
        Number of examples of a test task on which error and size are counted.
    labelled_examples : int, default 20
        Number of labelled examples of a test task for PS-Test.
    calibration_tasks : int, default 500
        Number of calibration tasks in a draw.
    test_tasks : int, default 50
        Number of test tasks in a draw.
    guarantee : Guarantee, optional
        The guarantee to aim at; by default epsilon 0.1, alpha 0.1 and delta 1e-5, split "tight".
    draws : int, default 34
        Number of calibration draws of each seed; three seeds have the paper's hundred together.
    seeds : int, default 3
        Number of training seeds.
    tasks_from : {"pools", "bank", "distinct"}, default "pools"
        "pools" samples new tasks for each draw. "bank" scores a number of tasks once, and each
        draw takes some of them. "distinct" uses every group at most once in a draw.
    bank : tuple of int, default (0, 0)
        Number of calibration and test tasks in the bank.
    groups : tuple of int, default (0, 0, 0, 0)
        Number of groups for training, validation, calibration and test.
    min_group_size : int, default 0
        Smaller groups are left out.
    new_tasks : {"test", "calibration"}, default "test"
        Pool of the new tasks. Those of the calibration pool are new tasks without a shift.
    predictor : {"validation", "train"}, default "validation"
        Pool that Meta-CP's quantile predictor is trained on. The learner has seen the classes or
        groups of the training pool.
    differences : tuple of str, default ()
        Differences from the paper, in words.
    published : tuple of Published, default ()
        Published accuracies of comparable learners, the nearest in kind first.
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
        """Return everything that the results depend on, as JSON can hold it.

        Returns
        -------
        dict
            The fields, without the numbers of draws and seeds and what is only said in words.
        """
        fields = asdict(self) | {"guarantee": self.guarantee.describe()}
        return {k: v for k, v in fields.items() if k not in _WITHOUT_EFFECT}

    def describe_training(self) -> dict[str, Any]:
        """Return everything but data and seed that the trained learner depends on.

        Returns
        -------
        dict
            Fields of the experiment. A control differs from its experiment in others.
        """
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
    """Return the experiment with that name.

    Parameters
    ----------
    name : str
        One of ``EXPERIMENTS``.

    Returns
    -------
    Experiment
        The experiment.
    """
    _checks.check_one_of("name", name, tuple(EXPERIMENTS))
    return EXPERIMENTS[name]
