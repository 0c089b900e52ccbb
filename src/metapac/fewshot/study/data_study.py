"""Methods compared on your own data: where learner and tasks come from, and what is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metapac._common import Array, Progress, check_one_of, ignore_progress, require
from metapac.artefact import replacing
from metapac.data_checks import check_levels
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.datasets.pools import load_run_pools
from metapac.fewshot.drawing import count_noun
from metapac.fewshot.learners.vectors import LEARNERS, build_vector_learner
from metapac.fewshot.options import Embeddings, Run, StudyTasks, Training, reject_given
from metapac.fewshot.pools import Pools, split_classes, split_groups
from metapac.fewshot.scored_tables import load_run_learner
from metapac.fewshot.study.pool_study import TASKS, PoolStudy
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.run import run_seeds, seed_folder
from metapac.fewshot.study.summary import Summary
from metapac.fewshot.tasks import ClassReuse
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
    def measure(cls, study: PoolStudy, options: StudyTasks) -> DrawSizes:
        """Return the numbers of a draw of a study."""
        pool, counts = study.calibration, (study.tasks, study.tests)
        if pool.unit == "group":
            spare = [len(members) - options.shots for members in pool.positions]
            sizes = [min(each, study.queries or each) for each in spare]
            return cls(*counts, (min(sizes), max(sizes)), study.labelled, pool.classes)
        ways, examples = options.ways, options.ways * (study.queries or 0)
        return cls(*counts, (examples, examples), ways * study.labelled, ways)

    @classmethod
    def join(cls, by_seed: Iterable[DrawSizes]) -> DrawSizes:
        """Return the numbers that hold for a draw of any seed."""
        known, new, examples, labelled, labels = zip(
            *(vars(each).values() for each in by_seed), strict=True
        )
        fewest, most = zip(*examples, strict=True)
        return cls(min(known), min(new), (min(fewest), max(most)), min(labelled), max(labels))

    def __str__(self) -> str:
        fewest, most = self.examples
        examples = f"{fewest} to " * (fewest < most) + count_noun(most, "example")
        return (
            f"A draw has {count_noun(self.calibration_tasks, 'calibration task')} of {examples}, "
            f"and {count_noun(self.new_tasks, 'new task')}, with "
            f"{count_noun(self.labelled, 'labelled example')} each for PS-Test. A set can have up "
            f"to {count_noun(self.labels, 'label')}."
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
        """Return the results as JSON can hold them."""
        guarantee, vectors = self.summary.guarantee, self.vectors
        aim = {name: getattr(guarantee, name) for name in ("epsilon", "alpha", "delta")}
        return {
            **self.summary.describe(),
            "guarantee": aim,
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
    tasks: StudyTasks = StudyTasks(),
    training: Training = Training(),
    embeddings: Embeddings = Embeddings(),
    device: str | None = None,
    home: Path | None = None,
    n_jobs: int = 1,
    rng: int = 0,
    allow: Sequence[str] = (),
    progress: Progress = ignore_progress,
) -> DataStudy:
    """Compare the paper's methods on a file, a run or a data set; an interrupted study resumes."""
    if guarantee.delta is None:
        raise InvalidInput(
            "delta must be a number: a study compares methods at a failure probability.",
            parameter="delta",
        )
    check_levels(guarantee.miss_rate, guarantee.alpha, guarantee.delta, allow=allow)
    require("matplotlib", extra="plot", purpose="a study")
    progress("reading the data", 0, None)
    run = Run(device=device, home=home)
    source = _open_source(data, folder, tasks, training, embeddings, run, progress)
    sizes: list[DrawSizes] = []

    def make_study(seed: int) -> PoolStudy:
        study = _build_study(*source.open(seed), tasks, guarantee.miss_rate)
        sizes.append(DrawSizes.measure(study, tasks))
        return study

    summary = run_seeds(
        make_study,
        guarantee=guarantee,
        seeds=_count_seeds(source, data, seeds),
        draws=draws,
        rng=rng,
        folder=folder,
        n_jobs=n_jobs,
        progress=progress,
    )
    of_draw = DrawSizes.join(sizes)
    notes = (str(of_draw), *_describe_features(source.vectors), *summary.notes)
    summary = replace(summary, notes=notes)
    progress("drawing the figure", 0, None)
    files = _write(summary, folder, f"{data}, {source.learner}")
    return DataStudy(data, source.learner, summary, of_draw, files, source.vectors)


def _open_source(
    data: str,
    folder: Path,
    tasks: StudyTasks,
    training: Training,
    embeddings: Embeddings,
    run: Run,
    progress: Progress,
) -> _Source:
    """Return where learner and pools come from: a run, vectors, or data to train on."""
    if Path(data).is_dir() and data != "glyphs":
        for given in (training, embeddings):
            reject_given(given, "a training run")
        record, learner, _, _ = load_run_learner(data, run.device)
        pools = load_run_pools(data, home=run.home).pools
        name = str(record["architecture"]["class"])
        return _Source(lambda seed: (learner, pools, ()), name, can_vary=False)
    vectors = _find_vectors(data, training.learner, embeddings)
    if vectors is not None:
        reject_given(training, "vectors, whose learner is not trained", _TRAINING)
        head, described = build_vector_learner(replace(embeddings, learner=training.learner))
        return _Source(lambda seed: (head, _divide(vectors, seed), ()), described, vectors=vectors)
    reject_given(embeddings, "a learner that is trained")

    def train(seed: int) -> tuple[Any, Pools[Any], tuple[str, ...]]:
        def advance(stage: str, done: int, total: int | None) -> None:
            progress(f"seed {seed}: {stage}", done, total)

        runs = require("metapac.fewshot.training.runs", extra="torch", purpose="training")
        shape = {"ways": tasks.ways, "shots": tasks.shots, "queries": runs.QUERIES}
        loaded, notes = runs.load_training_pools(data, **shape, rng=seed, home=run.home)
        place = seed_folder(folder, seed) / "training"  # where an interrupted training resumes
        options: Any = {"device": run.device, "checkpoint": place, "progress": advance}
        model, _, _ = runs.fit_learner(loaded, training, shape, rng=seed, **options)
        return model, loaded.pools, notes

    return _Source(train, training.learner or "protonet")


def _describe_features(vectors: Vectors | None) -> list[str]:
    """Return a sentence on the features, if the learner is on vectors."""
    if vectors is None:
        return []
    columns, count = vectors.columns, vectors.x.shape[1]
    if not columns:
        return [f"The features are the {count_noun(count, 'column')} of the array of vectors."]
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    return [
        f"The features are in {count_noun(columns, 'column')}: {', '.join(columns[:_SHOWN])}"
        f"{more}. Choose others with --columns."
    ]


def _count_seeds(source: _Source, data: str, seeds: int | None) -> int:
    if source.can_vary:
        return _SEEDS if seeds is None else seeds
    if seeds not in (None, 1):
        raise InvalidInput(
            f"seeds must be 1 for {data}, which was trained with one seed. Pass its data to train "
            "several.",
            parameter="seeds",
        )
    return 1


def _write(summary: Summary, folder: Path, title: str) -> tuple[str, ...]:
    """Write the table in three formats and the figure; return their paths."""
    from metapac.fewshot.reproduce.figures import draw_error_and_size

    texts = {
        "summary.md": summary.to_markdown(),
        "summary.csv": summary.to_csv(),
        "summary.tex": summary.to_latex(),
    }
    for name, text in texts.items():
        with replacing(folder / name) as file:
            file.write(text)
    rows = Rows.concatenate(summary.rows)
    draw_error_and_size(rows, summary.guarantee, title=title, path=folder / _FIGURE)
    return tuple(str(folder / name) for name in (*texts, _FIGURE))


def _find_vectors(data: str, learner: str | None, options: Embeddings) -> Vectors | None:
    """Return the vectors in a file; None if the learner is to be trained on something else."""
    file = Path(data)
    if file.is_file() and file.suffix.lower() not in _READABLE:
        raise InvalidInput(
            f"{file} must be an .npz, .npy or .parquet file, or the folder of a run. Convert a CSV "
            f"file in Python: pandas.read_csv({str(file)!r}).to_parquet('data.parquet')."
        )
    if learner is not None:
        check_one_of("learner", learner, (*LEARNERS, *_TRAINED))
    if learner not in _TRAINED and holds_vectors(file):
        return read_vectors(file, options.labels, options.groups, options.columns)
    if learner in LEARNERS:
        raise InvalidInput(
            f"{keyword('learner', learner)} takes vectors, and {data} does not hold vectors. Pass "
            "learner='protonet'."
        )
    return None


def _divide(vectors: Vectors, seed: int) -> Pools[Any]:
    """Divide classes or groups at random: Meta-CP, calibration and test; none for training."""
    ids = vectors.y if vectors.groups is None else vectors.groups
    sizes = _count_shares(ids)
    if vectors.groups is None:
        return split_classes(vectors.x, vectors.y, **sizes, rng=seed)
    return split_groups(vectors.x, vectors.codes, vectors.groups, **sizes, rng=seed)


def _count_shares(ids: Array) -> dict[str, int]:
    count = len(np.unique(ids))
    if count < 3:
        raise InvalidInput(
            f"the data have {count} classes or groups; a study needs at least 3, to calibrate on "
            "some and to judge on others."
        )
    validation, test = round(_VALIDATION * count), max(1, round(_TEST * count))
    sizes = {"train": 0, "validation": validation, "test": test}
    return sizes | {"calibration": count - validation - test}


def _build_study(
    learner: Any, pools: Pools[Any], notes: tuple[str, ...], tasks: StudyTasks, epsilon: float
) -> PoolStudy:
    """Return the study of a learner; groups are divided anew in each draw, none used twice."""
    calibration, test = pools.calibration, pools.test
    if calibration is None:
        raise InvalidInput("the data leave no classes or groups for calibration. Pass more data.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Meta-CP is left out")  # a footnote says so
        return PoolStudy(
            learner,
            calibration,
            test,
            **asdict(tasks),
            distinct=calibration.unit == "group",
            predictor=pools.validation,
            epsilon=epsilon,
            notes=(*_describe_reuse(calibration, tasks.tasks or TASKS, tasks.ways), *notes),
        )


def _describe_reuse(pool: Any, tasks: int, ways: int) -> tuple[str, ...]:
    """Return a note if calibration tasks share classes, with the counts that are expected."""
    classes, draws = len(pool.names), tasks * ways
    if pool.unit == "group" or pool.transform is not None or draws <= classes:
        return ()
    return (ClassReuse(tasks, classes, draws / classes, ways**2 / classes).describe(),)
