"""Tables of scores with their provenance: of a run, of embeddings, of logs, of new examples."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metapac._common import (
    Array,
    PathLike,
    Progress,
    check_one_of,
    ignore_progress,
    listed,
    require,
    warn,
)
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.adapters import as_score_function
from metapac.fewshot.datasets.images import image_files, image_folder, read_images
from metapac.fewshot.datasets.pools import load_run_pools, read_run
from metapac.fewshot.drawing import Choice, count_noun
from metapac.fewshot.learners.vectors import build_vector_learner
from metapac.fewshot.options import Drawing, Embeddings, NewExamples, Run, SampleLogs, reject_given
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.prompts import name_model, read_samples
from metapac.fewshot.scoring import fit_temperature, score_examples, tabulate
from metapac.fewshot.tasks import Task, class_reuse
from metapac.fewshot.tensors import data_checksum
from metapac.fewshot.vectors import Vectors, read_examples, read_vectors
from metapac.provenance import Provenance, write_scores

_TASKS, _WAYS, _SHOTS = 500, 5, 5
QUERIES = 15
_FIT_TASKS = 200  # validation tasks that a temperature is fitted on
_UNNAMED = "The {} is not named, so another one cannot be noticed. Pass --model."


class ScoredTable(NamedTuple):
    """A table of scores, where they come from, and what to know before calibrating on them."""

    table: dict[str, Any]
    provenance: Provenance
    notes: tuple[str, ...] = ()

    def write(self, path: PathLike) -> None:
        """Write the table to a Parquet file, as `metapac.write_scores` does."""
        write_scores(path, self.table, self.provenance)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the table, as JSON can hold it."""
        names = {"model": self.provenance.model, "score": self.provenance.score}
        return names | {"notes": list(self.notes), **self.provenance.details}

    def __str__(self) -> str:
        facts, origin, accuracy = self.provenance.details, "", ""
        if "pool" in facts:
            units = "classes" if facts["unit"] == "class" else "groups"
            origin = f" drawn from {facts['units']} {units} ({facts['pool']})"
        if "accuracy" in facts:  # new examples have no labels
            accuracy = f", accuracy {facts['accuracy']:.1%}"
        examples = count_noun(facts["examples"], "example")
        counts = f"{examples} of {count_noun(facts['tasks'], 'task')}"
        lines = [f"{counts}{origin}{accuracy}.", f"Model: {self.provenance.model}."]
        is_test = facts.get("pool") in ("train", "validation", "test")
        return "\n".join([*lines, *(() if is_test else self.notes)])


def score_run(
    folder: PathLike,
    drawing: Drawing = Drawing(),
    run: Run = Run(),
    *,
    progress: Progress = ignore_progress,
) -> ScoredTable:
    """Score tasks of a pool of a run of ``metapac train``, with its learner."""
    record, learner, model, checksum = load_run_learner(folder, run.device)
    progress("loading data", 0, None)
    loaded = load_run_pools(folder, data=run.data, home=run.home, progress=progress)
    name = drawing.pool or "calibration"
    pools = {key: pool for key, pool in vars(loaded.pools).items() if pool is not None}
    if name not in pools:
        remedy = " Train again in another folder, so that classes are kept for it."
        raise InvalidInput(
            f"pool must be a pool of {folder}, which has {', '.join(pools)}, got {name!r}."
            f"{remedy if name == 'calibration' else ''}",
            parameter="pool",
        )
    # Tasks of classes have names of their own, which cannot be compared with those of classes.
    seen = [*record["pools"]["train"], *record["pools"]["validation"]]
    training: dict[str, Any] = {"training": f"{len(seen)} other classes, as the run records"}
    if pools[name].unit == "group":
        training = {"trained_on": seen}
    details = {
        "kind": "run",
        "pool": name,
        "architecture": record["architecture"],
        "weights_checksum": checksum,
        "data": Path(record["data"]).name,
        "data_checksum": loaded.checksum,
    }
    sizes = {key: record["options"][key] for key in ("ways", "shots")}
    return score_pool(
        learner, pools[name], drawing, model, details | training, progress=progress, **sizes
    )


def load_run_learner(folder: PathLike, device: str | None) -> tuple[dict[str, Any], Any, str, str]:
    """Return the record of a run, its learner on a device, its name and its checksum."""
    record = read_run(folder)
    weights = require(
        "metapac.fewshot.training.checkpoints", extra="torch", purpose="scoring tasks of a run"
    )
    from metapac.fewshot.training.loop import choose_device

    learner = weights.load_learner(folder)
    checksum = weights.weights_checksum(learner)
    if record.get("weights_checksum", checksum) != checksum:
        raise InvalidInput(
            f"the weights in {folder} are not those that run.json describes: the run was "
            "interrupted while it was extended, or a file was replaced. Start 'metapac train' "
            "again with the same options."
        )
    learner.module.to(choose_device(device))
    digits = checksum.removeprefix("sha256:")[:12]
    return record, learner, f"{record['architecture']['class']} {digits}", checksum


def score_embeddings(
    file: Path,
    drawing: Drawing = Drawing(),
    options: Embeddings = Embeddings(),
    *,
    model: str | None = None,
    progress: Progress = ignore_progress,
) -> ScoredTable:
    """Score tasks drawn from stored vectors."""
    name, is_fitted = drawing.pool or "all", options.fit_temperature
    if is_fitted and options.temperature is not None:
        raise InvalidInput(
            "temperature and fit_temperature exclude each other. Leave one of them out.",
            parameter=("temperature", "fit_temperature"),
        )
    # With a temperature, also if it is yet to be fitted: fails for a learner that has none.
    learner, described = build_vector_learner(
        replace(options, temperature=1.0) if is_fitted else options
    )
    check_one_of("pool", name, ("all", "calibration", "test"))
    progress("reading vectors", 0, None)
    vectors = read_vectors(file, options.labels, options.groups, options.columns)
    notes: tuple[str, ...] = () if model else (_UNNAMED.format("encoder"),)
    if is_fitted:
        temperature, note = _fit_temperature(learner, vectors, drawing)
        learner, described = build_vector_learner(replace(options, temperature=temperature))
        notes = note, *notes
    pool, rows = _make_pool(vectors, name, is_fitted=is_fitted)
    details = {
        "kind": "embeddings",
        "pool": name,
        "encoder": model,
        "learner": described,
        "data": file.name,
        "data_checksum": data_checksum(*vectors.arrays),
    }
    full_name = _name_encoder(model, described, vectors.x)
    scored = score_pool(learner, pool, drawing, full_name, details, progress=progress)
    table = scored.table | {"example": rows[scored.table["example"]]}
    provenance = scored.provenance
    if vectors.groups is not None:  # labels mean the same in all tasks
        table["label"] = vectors.names[table["label"]]
        columns = {**provenance.columns, "classes": vectors.names.tolist()}
        provenance = replace(provenance, columns=columns)
    return ScoredTable(table, provenance, (*scored.notes, *notes))


def _name_encoder(model: str | None, learner: str, x: Array) -> str:
    return f"{f'{model}, ' if model else ''}{learner} of {x.shape[1]} dimensions"


def _fit_temperature(learner: Any, vectors: Vectors, drawing: Drawing) -> tuple[float, str]:
    """Return a temperature fitted on validation classes, and a note on it.

    It is rounded to the digits that are printed, so that it can be typed for new examples.
    """
    pool, _ = _make_pool(vectors, "validation")
    shape = _choose_shape(pool.unit, drawing)
    pool, _ = leave_out_small(pool, shape)
    drawn = pool.tasks(None if pool.unit == "group" else _FIT_TASKS, **shape, rng=0)
    temperature = float(f"{fit_temperature(learner, drawn).temperature:.3g}")
    units = "groups" if pool.unit == "group" else "classes"
    note = (
        f"The temperature {temperature} is fitted on {len(pool.names)} {units}, from which no task "
        f"is drawn. For new examples, pass --temperature {temperature}."
    )
    return temperature, note


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
            f"{keyword('pool', name)} needs at least 2 classes or groups, to divide them into two "
            f"halves; got {len(distinct)}. Pass pool='all'."
        )
    calibration, test = np.array_split(np.random.default_rng(0).permutation(distinct), 2)
    validation = calibration[: len(calibration) // 3]
    parts = {"all": distinct, "calibration": calibration, "test": test, "validation": validation}
    seen = np.isin(ids, validation) if is_fitted else np.zeros(len(ids), dtype=bool)
    return np.flatnonzero(np.isin(ids, parts[name]) & ~seen)


def score_logs(
    logs: Sequence[PathLike],
    options: SampleLogs = SampleLogs(),
    *,
    score: str = "probability",
    model: str | None = None,
) -> ScoredTable:
    """Score the choices of the questions in sample logs of lm-evaluation-harness."""
    samples = read_samples(logs, **vars(options), score=score, model=model)
    best = np.array([np.argmax(scores) for scores in samples.scores])
    table = {
        "task": samples.tasks,
        "id": samples.ids,
        "label": samples.labels,
        "score": samples.true_scores,
        "scores": samples.scores,
        "choices": [list(choices) for choices in samples.choices],
    }
    provenance = Provenance(
        model=samples.model or name_model("unnamed model", options.normalise),
        score=samples.score,
        columns={"columns": "scores"} | {key: key for key in ("task", "label", "score", "id")},
        details={
            "kind": "prompts",
            "tasks": len(set(samples.tasks.tolist())),
            "examples": len(samples),
            "accuracy": float(np.mean(best == samples.labels)),
            "task_field": options.task,
            "normalise": options.normalise,
        },
    )
    return ScoredTable(table, provenance, () if samples.model else (_UNNAMED.format("model"),))


def score_pool(
    learner: Any,
    pool: Any,
    drawing: Drawing,
    model: str,
    details: Mapping[str, Any],
    *,
    ways: int = _WAYS,
    shots: int = _SHOTS,
    progress: Progress = ignore_progress,
) -> ScoredTable:
    """Draw tasks from a pool and score them."""
    function = as_score_function(drawing.score)
    shape = _choose_shape(pool.unit, drawing, ways, shots)
    pool, left_out = leave_out_small(pool, shape)
    tasks = _draw(pool, drawing, shape)
    progress("scoring tasks", 0, None)
    table = tabulate(learner, tasks, score=function, progress=progress)
    columns = {"task": "task", "label": "label", "score": "score", "columns": "scores"}
    columns |= {"id": "example"} | ({"classes_column": "classes"} if "classes" in table else {})
    facts = {"unit": pool.unit, "units": len(pool.names), "rng": drawing.rng}
    facts |= {"tasks": len(tasks), "examples": len(table["task"]), "accuracy": _accuracy(table)}
    facts |= {name: list(x) if isinstance(x, Sequence) else x for name, x in shape.items()}
    facts |= {"left_out": left_out} if left_out else {}
    reuse = class_reuse(tasks) if "classes" in table else None
    if reuse is not None and reuse.per_class > 1:
        facts["drawn_from"] = f"{len(pool.names)} classes"
    provenance = Provenance(
        model=_name_sizes(model, shape),
        score=str(function),
        columns=columns,
        details={**details, **facts},
    )
    return ScoredTable(table, provenance, () if reuse is None else (reuse.describe(),))


def _accuracy(table: dict[str, Any]) -> float:
    """Return the share of rows whose highest score is that of the true label."""
    best = np.array([np.argmax(row) for row in table["scores"]])
    if "classes" in table:
        best = np.array([names[i] for names, i in zip(table["classes"], best, strict=True)])
    return float(np.mean(best == table["label"]))


def _choose_shape(
    unit: str, drawing: Drawing, ways: int = _WAYS, shots: int = _SHOTS
) -> dict[str, Any]:
    """Return ways, shots and queries of tasks: those given, otherwise the defaults."""
    given = {name: getattr(drawing, name) for name in ("ways", "shots", "queries")}
    given = {name: value for name, value in given.items() if value is not None}
    if unit != "group":
        return {"ways": ways, "shots": shots, "queries": QUERIES} | given
    if "ways" in given:
        raise InvalidInput(
            "ways does not apply to groups, whose tasks have all labels. Leave it out.",
            parameter="ways",
        )
    return {"shots": shots, "queries": None} | given


def _name_sizes(model: str, shape: Mapping[str, Any]) -> str:
    """Return the name of a model with the size of the tasks that it adapts to.

    A guarantee holds for tasks of one kind, so these numbers are part of the name that is compared.
    """
    numbers = {name: _show_choice(shape[name]) for name in ("ways", "shots") if name in shape}
    sizes = [f"{x} {name.removesuffix('s') if x == '1' else name}" for name, x in numbers.items()]
    return ", ".join([model, *sizes])


def _show_choice(choice: Choice) -> str:
    """Return a number, or numbers to choose from, as they are typed."""
    if isinstance(choice, range):
        return f"{choice[0]}-{choice[-1]}"
    return ",".join(map(str, choice)) if isinstance(choice, Sequence) else str(choice)


def _draw(pool: Any, drawing: Drawing, shape: Mapping[str, Any]) -> Sequence[Task]:
    """Return tasks, named after the pool and, if it is not 0, the seed.

    So tasks drawn with another seed are not taken for those that were calibrated on.
    """
    count = drawing.tasks
    if pool.unit != "group":
        count = _TASKS if count is None else count
        pool.name = f"{pool.name}.{drawing.rng}" if drawing.rng else pool.name
    tasks: Sequence[Task] = pool.tasks(count, **shape, rng=drawing.rng)
    return tasks


def leave_out_small(pool: Any, shape: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Leave out classes or groups with too few examples for a task, with a warning."""
    needed = int(np.max(shape["shots"])) + int(np.max(shape["queries"] or 1))
    sizes = dict(zip(pool.names, map(len, pool.positions), strict=True))
    small = [name for name, size in sizes.items() if size < needed]
    if not small:
        return pool, []
    _check_enough(pool, shape, needed)
    noun = ("class", "es") if pool.unit == "class" else ("group", "s")
    found = listed([f"{name!r} with {sizes[name]}" for name in small])
    warn(
        f"left out {count_noun(small, *noun)} of {pool.name} with fewer than {needed} examples, "
        f"the shots + queries of a task: {found}."
    )
    large = copy.copy(pool)
    large.names = [name for name, size in sizes.items() if size >= needed]
    large.positions = [members for members in pool.positions if len(members) >= needed]
    return large, small


def _check_enough(pool: Any, shape: Mapping[str, Any], needed: int) -> None:
    """Raise InvalidInput if a task needs more classes or groups than have enough examples."""
    ways = int(np.max(shape.get("ways", 1)))
    large = sum(len(members) >= needed for members in pool.positions)
    if large >= ways or len(pool.names) < ways:  # the latter is for the pool to say
        return
    spare = most_queries(pool, ways, int(np.max(shape["shots"])))
    lower = "Lower shots"
    if shape["queries"] and spare > 0:
        lower = f"Pass {keyword('queries', spare)} or fewer"
    elif large > 1:
        lower = f"Pass {keyword('ways', large)} or fewer"
    raise InvalidInput(
        f"a task needs {count_noun(ways, pool.unit, 'es' if pool.unit == 'class' else 's')} with "
        f"at least shots + {'queries' if shape['queries'] else 1} = {needed} examples, got {large} "
        f"in {pool.name}. {lower}.",
        parameter=("shots", "queries"),
    )


def most_queries(pool: Any, ways: int, shots: int) -> int:
    """Return the largest number of queries for which a pool has enough classes."""
    return sorted(map(len, pool.positions))[-ways] - shots


def score_new_by_run(
    folder: PathLike,
    examples: NewExamples,
    drawing: Drawing = Drawing(),
    *,
    device: str | None = None,
) -> ScoredTable:
    """Score new examples of one task with the learner of a run, adapted to labelled ones."""
    new, support = examples.new, examples.support
    if new is None or support is None:
        raise InvalidInput(
            "new and support belong together: a learner adapts to the labelled examples of a "
            "task, and scores its new ones.",
            parameter=("new", "support"),
        )
    record, learner, model, _ = load_run_learner(folder, device)
    size, classes = record["options"].get("image_size"), record.get("classes")
    sizes = {key: record["options"][key] for key in ("ways", "shots")}
    shape = _choose_shape("class" if classes is None else "group", drawing, **sizes)
    details = {"kind": "run", "support": support.name}
    labelled = _read_labelled(support, size)
    return _score_new(
        learner, labelled, _read_new(new, size), drawing, shape, model, details, classes
    )


def score_new_vectors(
    file: Path,
    new: Path,
    drawing: Drawing = Drawing(),
    options: Embeddings = Embeddings(),
    *,
    model: str | None = None,
) -> ScoredTable:
    """Score new vectors of one task, whose labelled vectors are in a file."""
    if options.groups is not None:
        raise InvalidInput(
            f"groups does not go with new vectors: {file} holds the labelled examples of their "
            "task.",
            parameter="groups",
        )
    if options.fit_temperature:
        raise InvalidInput(
            "fit_temperature needs labelled tasks, and new examples have no labels. Pass "
            "temperature, with the number that was fitted for the calibration.",
            parameter=("fit_temperature", "temperature"),
        )
    learner, described = build_vector_learner(options)
    vectors = read_vectors(file, options.labels, None, options.columns)
    full_name = _name_encoder(model, described, vectors.x)
    details = {"kind": "embeddings", "support": file.name}
    shape, found = _choose_shape("class", drawing), _read_new(new, None)
    return _score_new(learner, (vectors.x, vectors.y), found, drawing, shape, full_name, details)


def _score_new(
    learner: Any,
    support: tuple[Any, Array],
    new: tuple[Path, Any, Array],
    drawing: Drawing,
    shape: Mapping[str, Any],
    model: str,
    details: Mapping[str, Any],
    classes: int | None = None,
) -> ScoredTable:
    """Return a table with a row for each new example, without labels."""
    reject_given(drawing, "new examples, which are all scored", ("pool", "tasks", "queries", "rng"))
    function = as_score_function(drawing.score)
    names, codes = _code_labels(support[1], classes)
    _check_size(codes, names, shape, classes, str(details["support"]))
    file, x, ids = new
    if np.shape(x)[1:] != np.shape(support[0])[1:]:
        raise InvalidInput(
            f"{file} must hold examples like the labelled ones, of shape "
            f"{np.shape(support[0])[1:]}, got {np.shape(x)[1:]}."
        )
    scores = score_examples(learner, support[0], codes, x, classes=len(names), score=function)
    table = {
        "task": np.full(len(x), file.resolve().name if file.is_dir() else file.stem),
        "example": ids,
        "scores": list(scores),
        "classes": [names] * len(x),
    }
    facts = {"tasks": 1, "examples": len(x), "data": file.name, "data_checksum": data_checksum(x)}
    provenance = Provenance(
        model=_name_sizes(model, shape),
        score=str(function),
        columns={"task": "task", "columns": "scores", "classes_column": "classes", "id": "example"},
        details={**details, **facts},
    )
    return ScoredTable(table, provenance)


def _read_labelled(path: Path, size: int | None) -> tuple[Any, Array]:
    """Return the labelled examples of a task, from a file or a folder of images."""
    if path.is_dir():
        x, y, names = image_folder(path, size=_require_size(path, size))
        return x, np.array(names)[y]
    found = read_examples(path)
    if "y" not in found:
        raise InvalidInput(f"{path} must hold arrays x and y; it has: {', '.join(found)}.")
    return found["x"], np.asarray(found["y"])


def _read_new(path: Path, size: int | None) -> tuple[Path, Any, Array]:
    """Return new examples, and the row of each in its file or the name of its image."""
    if not path.is_dir():
        x = read_examples(path)["x"]
        return path, x, np.arange(len(x))
    size, files = _require_size(path, size), image_files(path)
    if not files:
        raise InvalidInput(f"{path} has no images in it. Put the new images directly into it.")
    names = np.array([file.name for file in files])
    return path, np.concatenate([*read_images(files, size)]), names


def _require_size(path: Path, size: int | None) -> int:
    """Return the size of the images of a run; raise InvalidInput if it had none."""
    if size is None:
        raise InvalidInput(
            f"{path} is a folder, and the learner was not trained on a folder of images. Pass a "
            "file written with np.savez(path, x=x), and y=y for labelled examples."
        )
    return size


def _code_labels(y: Array, classes: int | None) -> tuple[list[Any], Array]:
    """Return the names of the labels, and the position of each label among them."""
    if classes is None:
        names, codes = np.unique(y, return_inverse=True)
        return names.tolist(), codes
    if y.dtype.kind not in "iu" or y.min() < 0 or y.max() >= classes:
        raise InvalidInput(
            f"the labels of groups must be whole numbers from 0 to {classes - 1}, as in training, "
            f"got {sorted(set(y.tolist()))}."
        )
    return list(range(classes)), y


def _check_size(
    codes: Array, names: list[Any], shape: Mapping[str, Any], classes: int | None, file: str
) -> None:
    """Raise InvalidInput if the task is not of the size that was calibrated."""
    counts = np.bincount(codes).tolist() if classes is None else [len(codes)]
    bad = [i for i, count in enumerate(counts) if count not in np.atleast_1d(shape["shots"])]
    if classes is None and len(names) not in np.atleast_1d(shape["ways"]):
        found, name = count_noun(names, "class", "es"), "ways"
    elif bad:
        of_class = "" if classes is not None else f" of class {names[bad[0]]!r}"
        found, name = f"{count_noun(counts[bad[0]], 'example')}{of_class}", "shots"
    else:
        return
    raise InvalidInput(
        f"{file} must hold the labelled examples of the new task alone, of "
        f"{_show_choice(shape[name])} {name}, got {found}. A guarantee holds for tasks of the size "
        f"that was calibrated: pass {name} as in calibration.",
        parameter=name,
    )
