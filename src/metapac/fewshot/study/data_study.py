"""Methods compared on your own data: where learner and tasks come from, and what is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from metapac._common import Progress, check_one_of, ignore_progress, name_progress, require
from metapac.data_checks import check_levels
from metapac.errors import InvalidInput, keyword
from metapac.fewshot import options
from metapac.fewshot.adapters import check_uses_unlabelled
from metapac.fewshot.datasets.pools import is_named, load_run_pools, make_pool, take_named
from metapac.fewshot.learners.vectors import LEARNERS, build_vector_learner
from metapac.fewshot.options import Embeddings, PoolSizes, Run, StudyTasks, Training
from metapac.fewshot.pools import Pools, split_pool
from metapac.fewshot.scored_tables import load_run_learner
from metapac.fewshot.study.pool_study import TASKS, PoolStudy
from metapac.fewshot.study.run import run_seeds, seed_folder
from metapac.fewshot.study.summary import Summary
from metapac.fewshot.tasks import ClassReuse, count_noun
from metapac.fewshot.vectors import Vectors, holds_vectors, read_vectors
from metapac.guarantee import Guarantee

_TRAINED = ("protonet", "maml")
_TRAINING = ("backbone", "recipe", "epochs", "episodes")
_READABLE = (".npz", ".npy", ".parquet", ".pq")
# Shares of the classes or groups of vectors: for Meta-CP's predictor, calibration and test.
_VALIDATION, _TEST = 0.2, 0.4
_SEEDS, _SHOWN = 3, 12  # names of columns
_FIGURE = "error-and-size.png"


@dataclass(frozen=True)
class DrawSizes:
    """Numbers of a draw."""

    calibration_tasks: int
    new_tasks: int
    examples: tuple[int, int]
    labelled: int
    labels: int

    @classmethod
    def measure(cls, study: PoolStudy, tasks: StudyTasks) -> DrawSizes:
        pool, counts = study.calibration, (study.tasks, study.tests)
        if pool.unit == "group":
            spare = [len(members) - tasks.shots - tasks.unlabelled for members in pool.positions]
            sizes = [min(each, study.queries or each) for each in spare]
            return cls(*counts, (min(sizes), max(sizes)), study.labelled, pool.classes)
        ways, examples = tasks.ways, tasks.ways * (study.queries or 0)
        return cls(*counts, (examples, examples), ways * study.labelled, ways)

    @classmethod
    def join(cls, by_seed: Iterable[DrawSizes]) -> DrawSizes:
        """Return the numbers that hold for a draw of any seed."""
        fields = zip(*(vars(each).values() for each in by_seed), strict=True)
        known, new, examples, labelled, labels = fields
        fewest, most = zip(*examples, strict=True)
        return cls(min(known), min(new), (min(fewest), max(most)), min(labelled), max(labels))

    def __str__(self) -> str:
        fewest, most = self.examples
        examples = f"{fewest} to " * (fewest < most) + count_noun(most, "example")
        labelled = f", with {count_noun(self.labelled, 'labelled example')} each for PS-Test"
        return (
            f"A draw has {count_noun(self.calibration_tasks, 'calibration task')} of {examples}, "
            f"and {count_noun(self.new_tasks, 'new task')}{labelled if self.labelled else ''}. A "
            f"set can have up to {count_noun(self.labels, 'label')}."
        )


@dataclass(frozen=True, eq=False)
class DataStudy:
    """Results of `study_data`, and the files that hold them."""

    data: str
    learner: str
    summary: Summary
    sizes: DrawSizes
    files: tuple[str, ...]
    vectors: Vectors | None = None

    def to_dict(self) -> dict[str, Any]:
        guarantee, vectors = self.summary.guarantee, self.vectors
        return {
            **self.summary.describe(),
            "guarantee": {name: getattr(guarantee, name) for name in ("epsilon", "alpha", "delta")},
            **vars(self.sizes),
            "examples": list(self.sizes.examples),
            "learner": self.learner,
            "features": None if vectors is None else vectors.x.shape[1],
            "feature_columns": None if vectors is None else list(vectors.columns) or None,
            "files": list(self.files),
        }

    def __str__(self) -> str:
        return f"{self.data}, {self.learner}\n\n{self.summary}"


class _Source(NamedTuple):
    """Learner and pools by seed, with notes, and what they are about."""

    open: Callable[[int], tuple[Any, Pools[Any], tuple[str, ...]]]
    learner: str
    can_vary: bool = True
    vectors: Vectors | None = None


def study_data(
    data: str,
    folder: Path,
    *,
    guarantee: Guarantee,
    seeds: int | None = None,
    draws: int = 20,
    pools: str | PoolSizes | Sequence[int] | None = None,
    tasks: StudyTasks = StudyTasks(),
    training: Training = Training(),
    embeddings: Embeddings = Embeddings(),
    device: str | None = None,
    home: Path | None = None,
    allow: Sequence[str] = (),
    progress: Progress = ignore_progress,
    **workers: int,
) -> DataStudy:
    """Compare the paper's methods on a file, a run or a data set; an interrupted study resumes."""
    if guarantee.delta is None:
        raise InvalidInput("delta must be a number for a study.", parameter="delta")
    check_levels(guarantee.miss_rate, guarantee.alpha, guarantee.delta, allow=allow)
    require("matplotlib", extra="plot", purpose="a study")
    progress("reading the data", 0, None)
    run = Run(device=device, home=home)
    source = _open_source(data, folder, tasks, training, embeddings, run, progress, pools)
    if not source.can_vary and seeds not in (None, 1):
        rule = f"seeds must be 1 for {data}, which was trained with one seed."
        raise InvalidInput(rule, parameter="seeds")
    seeds = (_SEEDS if source.can_vary else 1) if seeds is None else seeds
    sizes: list[DrawSizes] = []

    def make_study(seed: int) -> PoolStudy:
        study = _build_study(*source.open(seed), tasks, guarantee.miss_rate)
        sizes.append(DrawSizes.measure(study, tasks))
        return study

    settings: Any = {"guarantee": guarantee, "seeds": seeds, "draws": draws, **workers}
    summary = run_seeds(make_study, **settings, folder=folder, progress=progress)
    of_draw = DrawSizes.join(sizes)
    notes = (str(of_draw), *_describe_features(source.vectors), *summary.notes)
    summary = replace(summary, notes=notes)
    progress("drawing the figure", 0, None)
    summary.plot(folder / _FIGURE, title=f"{data}, {source.learner}")
    files = tuple(str(path) for path in (*summary.write(folder), folder / _FIGURE))
    return DataStudy(data, source.learner, summary, of_draw, files, source.vectors)


def _open_source(
    data: str,
    folder: Path,
    tasks: StudyTasks,
    training: Training,
    embeddings: Embeddings,
    run: Run,
    progress: Progress,
    given_pools: str | PoolSizes | Sequence[int] | None = None,
) -> _Source:
    """Return where learner and pools come from: a run, vectors, or data to train on."""
    sizes = options.as_pools(given_pools, data, needed=("calibration", "test"))
    if Path(data).is_dir() and data != "glyphs":
        if sizes is not None:
            raise InvalidInput("pools does not apply to a run.", parameter="pools")
        for given in (training, embeddings):
            options.reject_given(given, "a training run")
        record, learner, _, _ = load_run_learner(data, run.device)
        opened = learner, load_run_pools(data, home=run.home).pools, ()
        return _Source(lambda seed: opened, str(record["architecture"]["class"]), can_vary=False)
    vectors = _find_vectors(data, training.learner, embeddings)
    if vectors is not None:
        options.reject_given(training, "vectors, whose learner is not trained", _TRAINING)
        head, described = build_vector_learner(replace(embeddings, learner=training.learner))
        divide = partial(_divide, data, vectors, sizes)
        return _Source(lambda seed: (head, divide(seed), ()), described, True, vectors)
    options.reject_given(embeddings, "a learner that is trained")

    def train(seed: int) -> tuple[Any, Pools[Any], tuple[str, ...]]:
        runs = require("metapac.fewshot.training.runs", extra="torch", purpose="training")
        shape = {"ways": tasks.ways, "shots": tasks.shots, "queries": runs.QUERIES}
        place = {"sizes": sizes, "rng": seed, "home": run.home}
        loaded, notes = runs.load_training_pools(data, **shape, **place)
        checkpoint = seed_folder(folder, seed) / "training"  # where an interrupted training resumes
        how = {"rng": seed, "device": run.device, "checkpoint": checkpoint}
        report = name_progress(progress, f"seed {seed}")
        model, _, _ = runs.fit_learner(loaded, training, shape, **how, progress=report)
        return model, loaded.pools, notes

    return _Source(train, training.learner or "protonet")


def _describe_features(vectors: Vectors | None) -> list[str]:
    if vectors is None:
        return []
    columns, count = vectors.columns, vectors.x.shape[1]
    if not columns:
        return [f"The features are the {count_noun(count, 'column')} of the array of vectors."]
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    names = f"{count_noun(columns, 'column')}: {', '.join(columns[:_SHOWN])}{more}"
    return [f"The features are in {names}. Choose others with --columns."]


def _find_vectors(data: str, learner: str | None, given: Embeddings) -> Vectors | None:
    """Return the vectors in a file; None if the learner is to be trained on something else."""
    file = Path(data)
    if file.is_file() and file.suffix.lower() not in _READABLE:
        rule = f"{file} must be an .npz, .npy or .parquet file, or the folder of a run"
        raise InvalidInput(f"{rule}. pandas.read_csv(...).to_parquet(...) converts a CSV file.")
    if learner is not None:
        check_one_of("learner", learner, (*LEARNERS, *_TRAINED))
    if learner not in _TRAINED and holds_vectors(file):
        return read_vectors(file, given.labels, given.groups, given.columns)
    if learner in LEARNERS:
        rule = f"{keyword('learner', learner)} needs vectors, and {data} has none"
        raise InvalidInput(f"{rule}. Pass learner='protonet'.")
    return None


def _divide(data: str, vectors: Vectors, sizes: Any, seed: int) -> Pools[Any]:
    """Divide classes or groups, by default at random: Meta-CP, calibration, test; no training."""
    y = vectors.y if vectors.groups is None else vectors.codes
    if is_named(sizes):
        return take_named(data, (vectors.x, y, vectors.groups), sizes)
    whole = make_pool((vectors.x, y, vectors.groups))
    if not sizes:
        count = len(whole.names)
        if count < 3:
            raise InvalidInput(f"a study needs 3 classes or groups or more, got {count}.")
        validation, test = round(_VALIDATION * count), max(1, round(_TEST * count))
        sizes = {"train": 0, "validation": validation, "calibration": count - validation - test}
        sizes["test"] = test
    return split_pool(whole, sizes, seed)


def _build_study(
    learner: Any, pools: Pools[Any], notes: tuple[str, ...], tasks: StudyTasks, epsilon: float
) -> PoolStudy:
    """Return the study of a learner; groups are divided anew in each draw, none used twice."""
    calibration, test = pools.calibration, pools.test
    if calibration is None:
        raise InvalidInput("the data leave no classes or groups for calibration. Pass more data.")
    if tasks.unlabelled:
        check_uses_unlabelled(learner)
    notes = (*_describe_reuse(calibration, tasks.tasks or TASKS, tasks.ways), *notes)
    how: Any = {**asdict(tasks), "distinct": calibration.unit == "group", "notes": notes}
    how |= {"predictor": pools.validation, "epsilon": epsilon}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Meta-CP is left out")  # a footnote says so
        return PoolStudy(learner, calibration, test, **how)


def _describe_reuse(pool: Any, tasks: int, ways: int) -> tuple[str, ...]:
    """Return a note if calibration tasks share classes, with the counts that are expected."""
    classes, draws = len(pool.names), tasks * ways
    if pool.unit == "group" or pool.transform is not None or draws <= classes:
        return ()
    return (ClassReuse(tasks, classes, draws / classes, ways**2 / classes).describe(),)
