"""Options that belong together, for Python and for commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from metapac import artefact
from metapac._common import as_whole_number, brief, check_one_of
from metapac.errors import InvalidInput
from metapac.fewshot.tasks import Choice


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """Tasks to draw.

    Parameters
    ----------
    pool : NAME
        Classes (or groups) to draw from: calibration or test, which share none. Embeddings are
        divided into two halves of these names, always the same; 'all' takes every class. By default
        calibration, or all embeddings.
    tasks : NUMBER
        Number of tasks. By default 500; if the data have groups, each group once.
    ways : NUMBER
        Classes per task; 5-10 draws a number for each task. By default that of the run, or 5.
    shots : NUMBER
        Support examples per class (or per group), to which the learner adapts. By default that of
        the run, or 5.
    queries : NUMBER
        Query examples per class (or per group), which are scored. By default 15, or all the rest of
        a group.
    score : NAME
        Score function: probability, log_probability, margin, cumulative or raw (the outputs as they
        are).
    unlabelled : NUMBER
        Unlabelled examples of a task, divided evenly over its classes, to which prototypes adapt.
        They are not scored; of new examples, so many are taken at random.
    offset : FILE
        Score log-probabilities minus what unlabelled examples make expect of a task. The offset is
        read from this file or, if there is none, fitted and written: to validation tasks of a run,
        or to a third of the calibration classes (or groups), from which no task is drawn then.
    epsilon : NUMBER
        Miss rate that an offset is fitted for. By default 0.1.
    rng : SEED
        Random seed.
    """

    pool: str | None = None
    tasks: int | None = None
    ways: Choice | None = None
    shots: Choice | None = None
    queries: Choice | None = None
    score: str = "probability"
    unlabelled: int = 0
    offset: Path | None = None
    epsilon: float | None = None
    rng: int = 0


@dataclass(frozen=True, kw_only=True)
class Embeddings:
    """Embeddings.

    Parameters
    ----------
    learner : prototypes|ridge|logistic
        Few-shot method. By default prototypes.
    labels : FILE|COLUMN
        Class of each vector: an .npy file, a text file with a class in each line, or a column of a
        Parquet file. By default y in an .npz file, 'label' in Parquet.
    groups : FILE|COLUMN
        Group of each vector, given like ``labels``, if each group is a task.
    columns : PATTERN|NAMES
        Parquet: a column of lists, or columns of numbers, such as 'f_*'. By default the column of
        lists, or all columns of numbers.
    metric : euclidean|cosine
        Distance to prototypes. By default euclidean.
    temperature : NUMBER
        Number that logits are divided by. By default 1.
    penalty : NUMBER
        Ridge and logistic: strength of the penalty. By default 1.
    fit_temperature
        Fit the temperature to a third of the calibration classes (or groups). No task is drawn from
        these then.
    """

    learner: str | None = None
    labels: str | None = None
    groups: str | None = None
    columns: str | Sequence[str] | None = None
    metric: str | None = None
    temperature: float | None = None
    penalty: float | None = None
    fit_temperature: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training run.

    Parameters
    ----------
    data : FILE
        Where the data of the run are now, if they were moved. For weights: an .npz file with arrays
        x and y, and groups if each group is a task, none of which the learner was trained on.
    device : cpu|cuda
        Device to compute on. By default cuda if available.
    home : FOLDER
        Folder of the data sets. By default $METAPAC_DATA or, if that is not set, a folder in the
        user's cache.
    """

    data: str | None = None
    device: str | None = None
    home: Path | None = None


@dataclass(frozen=True, kw_only=True)
class NewExamples:
    """New examples of one task.

    Parameters
    ----------
    new : FILE|FOLDER
        New examples without labels: an .npy file, an .npz file with an array x or, for a run on a
        folder of images, another folder of images. No tasks are drawn then.
    support : FILE|FOLDER
        For a run: the labelled examples of the same task, an .npz file with arrays x and y, or
        images with one folder per class. For embeddings, the source holds them.
    """

    new: Path | None = None
    support: Path | None = None


@dataclass(frozen=True, kw_only=True)
class SampleLogs:
    """Logs of lm-evaluation-harness.

    Parameters
    ----------
    task : FIELD
        Field that names the task of a question, such as doc.subject. By default the harness's own
        task, from the name of the log.
    normalise : none|characters|bytes
        Divide log-likelihoods by the length of the choice, as the harness does for acc_norm
        (characters) and acc_bytes (bytes).
    target : auto|index|text
        Whether the target is the position or the text of the right choice. By default both are
        tried and compared with the logged accuracy.
    filter : NAME
        Filter to read, if the log has several.
    """

    task: str | None = None
    normalise: str = "none"
    target: str = "auto"
    filter: str | None = None


@dataclass(frozen=True, kw_only=True)
class Training:
    """Training.

    Parameters
    ----------
    learner : NAME
        Few-shot method: protonet (the default) or maml, which are trained; in a study also
        prototypes, ridge or logistic on vectors, which need no training.
    backbone : NAME
        Network: conv4, resnet12 or resnet50 for images, mlp for rows of numbers, sentence_cnn for
        sentences. By default one that suits the data.
    recipe : paper|strong
        paper: train on episodes and keep the best epoch. strong: pre-train on all training classes,
        then tune on episodes; for a protonet on images.
    epochs : NUMBER
        Number of epochs, by default 20; a larger value extends a finished run. With strong: epochs
        of pre-training, by default 60 for conv4 and 44 otherwise.
    lr : NUMBER
        Initial learning rate, by default 0.001 (Adam), or 0.1 with strong (SGD).
    tuning_steps : NUMBER
        Optimiser steps of tuning (strong), by default 3000 for conv4 and 400 otherwise.
    flip
        Augment by mirrored images (strong). Pass --no-flip for letters and digits.
    tasks : NUMBER
        Number of validation and of test tasks.
    episodes : NUMBER
        Training tasks per epoch (paper), by default 400.
    batch : NUMBER
        Training tasks per optimiser step (paper), by default 8.
    halve_every : NUMBER
        Halve the learning rate after this many epochs (paper), by default 40.
    patience : NUMBER
        Stop after this many epochs without improvement (paper).
    class_weights : NUMBERS
        Weight of each label in the loss, separated by commas, such as 1,10 (paper).
    """

    learner: str | None = None
    backbone: str | None = None
    recipe: str = "paper"
    epochs: int | None = None
    lr: float | None = None
    tuning_steps: int | None = None
    flip: bool | None = None
    tasks: int = 400
    episodes: int | None = None
    batch: int | None = None
    halve_every: int | None = None
    patience: int | None = None
    class_weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_one_of("recipe", self.recipe, ("paper", "strong"))
        for name in ("epochs", "tasks", "episodes", "batch", "halve_every", "patience"):
            if getattr(self, name) is not None:
                as_whole_number(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class StudyTasks:
    """Tasks of a draw.

    Parameters
    ----------
    ways : NUMBER
        Classes per task; not used if the data have groups.
    shots : NUMBER
        Support examples per class (or per group), to which the learner adapts.
    queries : NUMBER
        Calibration examples per class (or per group). By default all that are left.
    test_queries : NUMBER
        Examples per class (or per group) of a new task that the sets are tested on. By default 100,
        or what is left.
    labelled : NUMBER
        Examples per class (or per group) of a new task for PS-Test. By default 20, or a quarter of
        what is left; 0 leaves PS-Test out.
    tasks : NUMBER
        Calibration tasks in a draw. By default 500, or each calibration group once.
    tests : NUMBER
        New tasks in a draw. By default 50, or each test group once.
    score : NAME
        Score function: probability, log_probability, margin or cumulative. By default probability.
    unlabelled : NUMBER
        Unlabelled examples of a task, divided evenly over its classes, to which prototypes adapt.
    """

    ways: int = 5
    shots: int = 5
    queries: int | None = None
    test_queries: int | None = None
    labelled: int | None = None
    tasks: int | None = None
    tests: int | None = None
    score: str | None = None
    unlabelled: int = 0


POOLS = ("train", "validation", "calibration", "test")
_DIVIDED = ("miniimagenet", "cifar10c", "fewrel")  # data sets whose publishers divided them
PoolSizes = Mapping[str, int] | Mapping[str, Sequence[Any]]  # how many classes, or which


def as_pools(
    pools: str | PoolSizes | Sequence[int] | None, data: str, needed: Sequence[str]
) -> PoolSizes | None:
    """Return the classes or groups of pools; text is typed: four numbers, or a JSON file."""
    if pools is None:
        return None
    given: Any = pools
    with suppress(ValueError, TypeError):  # neither numbers nor JSON
        if isinstance(pools, str):
            is_file = pools.lower().endswith(".json")
            given = artefact.parse(Path(pools).read_bytes()) if is_file else pools.split(",")
        if not isinstance(given, Mapping):
            given = dict(zip(POOLS, map(int, given), strict=True))
    kinds = [type(size) for size in given.values()] if isinstance(given, Mapping) else []
    if (
        {*kinds} not in ({int}, {list})
        or not given.keys() <= {*POOLS}
        or not all(given.get(name) for name in needed)
        or (int in kinds and min(given.values()) < 0)
    ):
        rule = "pools must be four whole numbers, such as 60,10,15,15, for train, validation"
        rule = f"{rule}, calibration (perhaps 0) and test, or JSON with a list of names for each"
        raise InvalidInput(f"{rule}; got {brief(pools)}.", parameter="pools")
    if data in _DIVIDED or (data == "heart" and list in kinds):
        raise InvalidInput(f"pools does not apply to {data}. Leave it out.", parameter="pools")
    return {name: given.get(name, kinds[0]()) for name in POOLS}


def reject_given(options: Any, reason: str, only: Sequence[str] | None = None) -> None:
    """Raise InvalidInput for the first option, or the first of some, that is not the default."""
    for field in fields(options):
        name, is_given = field.name, getattr(options, field.name) != field.default
        if is_given and (only is None or name in only):
            raise InvalidInput(f"{name} does not apply to {reason}. Leave it out.", parameter=name)
