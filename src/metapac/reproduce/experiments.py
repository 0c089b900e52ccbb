"""The experiments of the paper and those beyond it, each as a value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from metapac import _checks
from metapac.guarantee import Guarantee

PROMISE = Guarantee(epsilon=0.1, alpha=0.1, delta=1e-5, split="tight")


@dataclass(frozen=True)
class Training:
    """How a learner is trained: the paper's rates; it may stop when validation does not improve."""

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
    """One column of the paper's table: data, learner, tasks, promise.

    Counts of examples are of each class where tasks have ``ways`` classes, and of the whole task
    where they are groups (``ways=None``).
    """

    name: str
    title: str
    data: str
    backbone: str
    training: Training
    ways: int | None = 5
    shots: int = 5
    calibration_examples: int | None = 500  # None: all the rest of a group
    judged_examples: int = 100
    own_examples: int = 20  # of the test task, for PS-Test
    calibration_tasks: int = 500
    test_tasks: int = 50
    guarantee: Guarantee = PROMISE
    draws: int = 100
    # How calibration and test tasks come about: "pools" draws them anew for each draw; "bank"
    # scores so many tasks once, of which a draw takes some; "distinct" uses no group twice.
    tasks_from: str = "pools"
    bank: tuple[int, int] = (0, 0)
    # Groups to train on, to choose the epoch on, to calibrate and to test on; their least size.
    groups: tuple[int, int, int, int] = (0, 0, 0, 0)
    least: int = 0
    differences: tuple[str, ...] = ()  # from the paper, in words

    @property
    def test_examples(self) -> int:
        return self.own_examples + self.judged_examples

    def describe(self) -> dict[str, Any]:
        """Return all that the results depend on, as JSON can hold it."""
        own = asdict(self) | {"guarantee": self.guarantee.describe()}
        del own["differences"], own["draws"]
        return own

    @property
    def shape(self) -> dict[str, Any]:
        """What a task of a pool needs besides its queries."""
        return {"shots": self.shots} | ({} if self.ways is None else {"ways": self.ways})


_MINI = Experiment(
    name="miniimagenet",
    title="mini-ImageNet, Conv4",
    data="miniimagenet",
    backbone="conv4",
    training=Training(lr=1e-3, episodes_per_epoch=1600),
    differences=(
        "The images went through WebP at quality 75.",
        "An epoch has 1600 episodes in place of 800, and a step of Adam 8.",
        "The best epoch is chosen on 8 of the 64 training classes, not on the calibration classes.",
    ),
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
    judged_examples=1000,
    own_examples=40,
    calibration_tasks=250,
    groups=(20, 4, 40, 18),
    least=3050,
    differences=(
        "Data of 2021 and 2022 in place of 2011 to 2020, with 10 features coded alike in both "
        "years that are missing for at most 5 % of the rows: 107 state-years in place of 530, 82 "
        "of them with the 3050 rows that the protocol takes.",
        "The best epoch is that of the highest accuracy with labels weighted as in the loss.",
        "Pools are random state-years, not years: 20 to train on, 4 to choose the epoch on, 40 to "
        "calibrate on and 18 to test on. As in the paper's code, 250 calibration tasks are drawn "
        "from them with replacement: they are not 250 independent state-years, and the promise is "
        "one for tasks drawn from these 40.",
    ),
)

_GLYPHS = Experiment(
    name="glyphs",
    title="Glyphs, Conv4 (small, needs no data)",
    data="glyphs",
    backbone="conv4 narrow",
    training=Training(
        lr=1e-3,
        episodes_per_epoch=60,
        epochs=3,
        episodes_per_step=2,
        validation_tasks=50,
    ),
    calibration_examples=50,
    judged_examples=30,
    calibration_tasks=400,
    draws=10,
)

EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        _GLYPHS,
        _MINI,
        replace(
            _MINI,
            name="miniimagenet-resnet12",
            title="mini-ImageNet, ResNet-12 (beyond the paper)",
            backbone="resnet12",
            training=Training(lr=1e-3, episodes_per_epoch=1600, epochs=45),
        ),
        Experiment(
            name="cifar10c",
            title="CIFAR10-C, ResNet-50",
            data="cifar10c",
            backbone="resnet50",
            training=Training(lr=1e-2, episodes_per_epoch=1000, epochs=70, episodes_per_step=4),
            ways=10,
            guarantee=replace(PROMISE, epsilon=0.2),
            tasks_from="bank",
            bank=(900, 450),
            differences=(
                "The images went through JPEG, and their original order is lost.",
                "900 calibration tasks and 450 test tasks were scored once; each draw takes 500 "
                "and 50 of them at random. Within a draw the tasks are independent; the draws "
                "share many of them and so look more alike than independent ones would.",
                "Training ended at its limit of 70 epochs in place of 200: validation accuracy "
                "rose when the rate was halved after epoch 40, and hardly since. A step of Adam "
                "has 4 episodes.",
            ),
        ),
        Experiment(
            name="fewrel",
            title="FewRel, CNN sentence encoder",
            data="fewrel",
            backbone="sentence_cnn",
            training=Training(lr=1e-3, episodes_per_epoch=800),
            differences=(
                "Adam at 0.001: at the paper's 0.01 validation accuracy was best after the first "
                "epoch and fell to chance (learner-at-0.01.json beside the rows).",
                "25 % of the training sentences are missing.",
                "GloVe vectors of 100 dimensions in place of 50, for 90.8 % of the words.",
                "Calibration relations are 16 of the 64 training relations that training has not "
                "seen, and 8 more choose the epoch; the paper calibrates on relations of training.",
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
            guarantee=replace(PROMISE, delta=0.01),
            tasks_from="distinct",
            groups=(30, 6, 50, 20),
            least=1100,
            differences=(
                "Not in the paper: each state-year is a calibration task once, with all its rows, "
                "or a test task once; which one it is is drawn anew for each draw.",
                "delta = 0.01, which 50 tasks carry with the tight split. The even split would "
                "need more tasks than that (see the table above) and keeps every label.",
            ),
        ),
    )
}


def experiment(name: str) -> Experiment:
    """Return the experiment of that name, or name those there are."""
    _checks.one_of("name", name, tuple(EXPERIMENTS))
    return EXPERIMENTS[name]
