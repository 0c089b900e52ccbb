"""Scores of tasks drawn from stored vectors, for ``metapac score``; torch is not needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from metapac import _document
from metapac._checks import check_one_of
from metapac._types import Array, Progress
from metapac.cli.scoring.pool_sizes import leave_out_small
from metapac.cli.scoring.tasks import Scored, TaskOptions, choose_shape, score_pool
from metapac.cli.vector_options import VectorOptions, build_vector_learner, embeddings_option
from metapac.cli.vectors import Vectors, read_vectors
from metapac.exceptions import InvalidInput, Parameter
from metapac.tasks.pools import ClassPool, GroupPool

_UNNAMED = "The encoder is not named, so another one cannot be noticed. Pass --model."
_POOLS = ("all", "calibration", "test")
_FIT_TASKS = 200  # validation tasks that a temperature is fitted on


@dataclass(frozen=True)
class EmbeddingOptions(VectorOptions):
    """The options for scoring tasks of stored vectors.

    Attributes
    ----------
    labels, groups : str or None
        A file, or a column of a table.
    columns : str or None
        Columns of a table that hold the vectors.
    metric : str or None
        Distance to prototypes.
    temperature, penalty : float or None
        Other parameters of the learner.
    learner : str or None
        Few-shot method.
    fit_temperature : bool or None
        Whether to fit the temperature on validation classes.
    model : str or None
        Name of the encoder.
    """

    learner: Annotated[
        str | None,
        embeddings_option(
            metavar="prototypes|ridge|logistic", help="Few-shot method. By default prototypes."
        ),
    ] = None
    fit_temperature: Annotated[
        bool | None,
        embeddings_option(
            "--fit-temperature",
            help="Fit the temperature to a third of the calibration classes (or groups). No task "
            "is drawn from these then.",
        ),
    ] = None
    model: Annotated[
        str | None,
        embeddings_option(
            metavar="NAME",
            help="Name and version of the encoder. A promise then holds for this encoder only.",
        ),
    ] = None


def score_embeddings(
    file: Path, tasks: TaskOptions, options: EmbeddingOptions, progress: Progress
) -> Scored:
    """Score tasks drawn from stored vectors.

    Parameters
    ----------
    file : Path
        The vectors.
    tasks : TaskOptions
        The tasks to draw.
    options : EmbeddingOptions
        Their labels, and the learner.
    progress : callable
        Called as ``progress(stage, done, total)``.

    Returns
    -------
    Scored
        The table and its provenance.
    """
    is_fitted = bool(options.fit_temperature)
    _check_temperature(options)
    learner, described = build_vector_learner(options.learner, options)
    name = tasks.pool or "all"
    check_one_of("pool", name, _POOLS)
    progress("reading vectors", 0, None)
    vectors = read_vectors(file, options.labels, options.groups, options.columns)
    notes: tuple[str, ...] = () if options.model else (_UNNAMED,)
    if is_fitted:
        options, note = _fit_temperature(learner, vectors, tasks, options)
        (learner, described), notes = build_vector_learner(options.learner, options), (note, *notes)
    pool, rows = _make_pool(vectors, name, is_fitted=is_fitted)
    scored = score_pool(
        learner,
        pool,
        tasks,
        model=name_model(options, described, vectors.x),
        details={
            "kind": "embeddings",
            "pool": name,
            "encoder": options.model,
            "learner": described,
            "data": file.name,
            "data_checksum": _document.data_checksum(*vectors.arrays),
        },
        progress=progress,
    )
    scored.table["example"] = rows[scored.table["example"]]
    scored = scored._replace(notes=(*scored.notes, *notes))
    return scored if vectors.groups is None else _name_labels(scored, vectors)


def name_model(options: EmbeddingOptions, description: str, x: Array) -> str:
    """Return the name of an encoder with a learner.

    Parameters
    ----------
    options : EmbeddingOptions
        The options, which may name the encoder.
    description : str
        The learner.
    x : ndarray, shape (n, d)
        Vectors of the encoder.

    Returns
    -------
    str
        The name.
    """
    encoder = f"{options.model}, " if options.model else ""
    return f"{encoder}{description} of {x.shape[1]} dimensions"


def _check_temperature(options: EmbeddingOptions) -> None:
    """Raise InvalidInput if there is a temperature already, or the learner has none."""
    if not options.fit_temperature:
        return
    if options.temperature is not None:
        raise InvalidInput(
            "{} and {} exclude each other. Leave one of them out.",
            Parameter("temperature"),
            Parameter("fit_temperature"),
        )
    build_vector_learner(options.learner, replace(options, temperature=1.0))


def _fit_temperature(
    learner: Any, vectors: Vectors, tasks: TaskOptions, options: EmbeddingOptions
) -> tuple[EmbeddingOptions, str]:
    """Return the options with a temperature fitted on validation classes, and a note on it.

    It is rounded to the digits that are printed, so that it can be typed for new examples.
    """
    from metapac.scoring.temperature import fit_temperature

    pool, _ = _make_pool(vectors, "validation")
    count = None if pool.unit == "group" else _FIT_TASKS
    shape = choose_shape(pool.unit, tasks)
    pool, _ = leave_out_small(pool, shape)
    drawn = pool.tasks(count, **shape, rng=0)
    temperature = float(f"{fit_temperature(learner, drawn).temperature:.3g}")
    units = "groups" if pool.unit == "group" else "classes"
    note = (
        f"The temperature {temperature} is fitted on {len(pool.names)} {units}, from which no task "
        f"is drawn. For new examples, pass --temperature {temperature}."
    )
    return replace(options, temperature=temperature), note


def _make_pool(vectors: Vectors, name: str, *, is_fitted: bool = False) -> tuple[Any, Array]:
    """Return all classes or groups, or some of them, and their rows in the file."""
    rows = np.arange(len(vectors.x))
    ids = vectors.y if vectors.groups is None else vectors.groups
    if name != "all" or is_fitted:
        rows = _split_rows(ids, name, is_fitted=is_fitted)
    x = vectors.x[rows]
    if vectors.groups is None:
        return ClassPool(x, vectors.y[rows], name=name), rows
    codes, groups = vectors.codes[rows], vectors.groups[rows]
    return GroupPool(x, codes, groups, name=name, classes=len(vectors.names)), rows


def _split_rows(ids: Array, name: str, *, is_fitted: bool) -> Array:
    """Return the rows of one half of the classes or groups, the same whatever the seed.

    A third of the calibration half is for validation, and left out if it was fitted on.
    """
    distinct = np.unique(ids)
    if len(distinct) < 2:
        raise InvalidInput(
            "{} needs at least 2 classes or groups, to divide them into two halves; got {}. Pass "
            "{}.",
            Parameter("pool", name),
            len(distinct),
            Parameter("pool", "all"),
        )
    calibration, test = np.array_split(np.random.default_rng(0).permutation(distinct), 2)
    validation = calibration[: len(calibration) // 3]
    parts = {"all": distinct, "calibration": calibration, "test": test, "validation": validation}
    seen = np.isin(ids, validation) if is_fitted else np.zeros(len(ids), dtype=bool)
    return np.flatnonzero(np.isin(ids, parts[name]) & ~seen)


def _name_labels(scored: Scored, vectors: Vectors) -> Scored:
    """Return a table of groups with the names of its labels, which mean the same in all tasks."""
    table = scored.table | {"label": vectors.names[scored.table["label"]]}
    columns = {**scored.provenance.columns, "classes": vectors.names.tolist()}
    return Scored(table, replace(scored.provenance, columns=columns), scored.notes)
