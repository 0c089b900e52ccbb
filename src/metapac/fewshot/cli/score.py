"""``metapac score``: scores of tasks or new examples, written as a table."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from metapac._common import Array, PathLike, Progress, check_one_of, require
from metapac.artefact import check_folder, check_not_input
from metapac.cli.console import format_count, print_json, print_line, print_text, progress_bar
from metapac.cli.options import AsJson, Device, Home
from metapac.errors import InvalidInput, keyword
from metapac.fewshot.cli.scored_tasks import (
    Scored,
    TaskOptions,
    choose_shape,
    leave_out_small,
    name_sizes,
    score_pool,
    show_choice,
)
from metapac.fewshot.cli.training import weights_checksum
from metapac.fewshot.cli.vectors import (
    VectorOptions,
    Vectors,
    build_vector_learner,
    embeddings_option,
    read_examples,
    read_vectors,
)
from metapac.fewshot.datasets.images import image_files, image_folder, read_images
from metapac.fewshot.datasets.pools import LoadedPools, load_run_pools, read_run
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.prompts import Samples, name_model, read_samples
from metapac.fewshot.tensors import data_checksum
from metapac.provenance import Provenance, write_scores

_UNNAMED_ENCODER = "The encoder is not named, so another one cannot be noticed. Pass --model."
_POOLS = ("all", "calibration", "test")
_FIT_TASKS = 200  # validation tasks that a temperature is fitted on


@dataclass(frozen=True)
class EmbeddingOptions(VectorOptions):
    """The options for scoring tasks of stored vectors."""

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
    """Score tasks drawn from stored vectors."""
    is_fitted = bool(options.fit_temperature)
    _check_temperature(options)
    learner, described = build_vector_learner(options.learner, options)
    name = tasks.pool or "all"
    check_one_of("pool", name, _POOLS)
    progress("reading vectors", 0, None)
    vectors = read_vectors(file, options.labels, options.groups, options.columns)
    notes: tuple[str, ...] = () if options.model else (_UNNAMED_ENCODER,)
    if is_fitted:
        options, note = _fit_temperature(learner, vectors, tasks, options)
        (learner, described), notes = build_vector_learner(options.learner, options), (note, *notes)
    pool, rows = _make_pool(vectors, name, is_fitted=is_fitted)
    scored = score_pool(
        learner,
        pool,
        tasks,
        model=name_encoder(options, described, vectors.x),
        details={
            "kind": "embeddings",
            "pool": name,
            "encoder": options.model,
            "learner": described,
            "data": file.name,
            "data_checksum": data_checksum(*vectors.arrays),
        },
        progress=progress,
    )
    scored.table["example"] = rows[scored.table["example"]]
    scored = scored._replace(notes=(*scored.notes, *notes))
    return scored if vectors.groups is None else _name_labels(scored, vectors)


def name_encoder(options: EmbeddingOptions, description: str, x: Array) -> str:
    """Return the name of an encoder with a learner."""
    encoder = f"{options.model}, " if options.model else ""
    return f"{encoder}{description} of {x.shape[1]} dimensions"


def _check_temperature(options: EmbeddingOptions) -> None:
    """Raise InvalidInput if there is a temperature already, or the learner has none."""
    if not options.fit_temperature:
        return
    if options.temperature is not None:
        raise InvalidInput(
            "temperature and fit_temperature exclude each other. Leave one of them out.",
            parameter=("temperature", "fit_temperature"),
        )
    build_vector_learner(options.learner, replace(options, temperature=1.0))


def _fit_temperature(
    learner: Any, vectors: Vectors, tasks: TaskOptions, options: EmbeddingOptions
) -> tuple[EmbeddingOptions, str]:
    """Return the options with a temperature fitted on validation classes, and a note on it.

    It is rounded to the digits that are printed, so that it can be typed for new examples.
    """
    from metapac.fewshot.scoring import fit_temperature

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
            f"{keyword('pool', name)} needs at least 2 classes or groups, to divide them into two "
            f"halves; got {len(distinct)}. Pass pool='all'."
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


_run_option = partial(typer.Option, rich_help_panel="A training run")


@dataclass(frozen=True)
class RunOptions:
    """The options for scoring tasks of a run."""

    data: Annotated[
        str | None,
        _run_option(metavar="FILE", help="Where the data of the run are now, if they were moved."),
    ] = None
    device: Device = None
    home: Home = None


def score_run(folder: Path, tasks: TaskOptions, options: RunOptions, progress: Progress) -> Scored:
    """Score tasks of a pool of a run, with its learner."""
    record, learner, model = load_run_learner(folder, options.device)
    progress("loading data", 0, None)
    loaded = load_run_pools(folder, data=options.data, home=options.home, progress=progress)
    name = tasks.pool or "calibration"
    pool = _find_pool(folder, loaded, name)
    return score_pool(
        learner,
        pool,
        tasks,
        model=model,
        details={
            "kind": "run",
            "pool": name,
            "architecture": record["architecture"],
            "weights_checksum": weights_checksum(learner),
            "data": Path(record["data"]).name,
            "data_checksum": loaded.checksum,
            **_training_tasks(record, pool),
        },
        progress=progress,
        ways=record["options"]["ways"],
        shots=record["options"]["shots"],
    )


def load_run_learner(folder: Path, device: str | None) -> tuple[dict[str, Any], Any, str]:
    """Return the learner of a run."""
    record = read_run(folder)
    weights = require(
        "metapac.fewshot.training.checkpoints", extra="torch", purpose="scoring tasks of a run"
    )
    from metapac.fewshot.training.loop import choose_device

    learner = weights.load_learner(folder)
    checksum = weights_checksum(learner)
    if record.get("weights_checksum", checksum) != checksum:
        raise InvalidInput(
            f"the weights in {folder} are not those that run.json describes: the run was "
            "interrupted while it was extended, or a file was replaced. Start 'metapac train' "
            "again with the same options."
        )
    learner.module.to(choose_device(device))
    digits = checksum.removeprefix("sha256:")[:12]
    return record, learner, f"{record['architecture']['class']} {digits}"


def _training_tasks(record: dict[str, Any], pool: Any) -> dict[str, Any]:
    """Return what the learner has seen: the names of groups, or the number of classes.

    Tasks of classes have names of their own, which cannot be compared with those of classes.
    """
    seen = [*record["pools"]["train"], *record["pools"]["validation"]]
    if pool.unit == "group":
        return {"trained_on": seen}
    return {"training": f"{len(seen)} other classes, as the run records"}


def _find_pool(folder: Path, loaded: LoadedPools, name: str) -> Any:
    pools = {key: pool for key, pool in vars(loaded.pools).items() if pool is not None}
    if name in pools:
        return pools[name]
    remedy = ""
    if name == "calibration":
        remedy = " Train again in another folder, so that classes are kept for it."
    raise InvalidInput(
        f"pool must be a pool of {folder}, which has {', '.join(pools)}, got {name!r}.{remedy}",
        parameter="pool",
    )


_prompts_option = partial(typer.Option, rich_help_panel="Logs of lm-evaluation-harness")
_UNNAMED_MODEL = "The model is not named, so another one cannot be noticed. Pass --model."
_PROMPT_COLUMNS = {
    "task": "task",
    "label": "label",
    "score": "score",
    "columns": "scores",
    "id": "id",
}


@dataclass(frozen=True)
class PromptOptions:
    """The options for scoring logged questions."""

    task: Annotated[
        str | None,
        _prompts_option(
            metavar="FIELD",
            help="Field that names the task of a question, such as doc.subject. By default the "
            "harness's own task, from the name of the log.",
        ),
    ] = None
    normalise: Annotated[
        str | None,
        _prompts_option(
            metavar="none|characters|bytes",
            help="Divide log-likelihoods by the length of the choice, as the harness does for "
            "acc_norm (characters) and acc_bytes (bytes). By default none.",
        ),
    ] = None
    target: Annotated[
        str | None,
        _prompts_option(
            metavar="auto|index|text",
            help="Whether the target is the position or the text of the right choice. By default "
            "both are tried and compared with the logged accuracy.",
        ),
    ] = None
    filter: Annotated[
        str | None,
        _prompts_option(metavar="NAME", help="Filter to read, if the log has several."),
    ] = None


def reject_drawing(source: Path, options: TaskOptions) -> None:
    """Raise InvalidInput for an option that is about drawing tasks."""
    for name, value in vars(options).items():
        if name != "score" and value != getattr(TaskOptions, name):
            raise InvalidInput(
                f"{name} is for tasks that are drawn, and {source} is a sample log, whose "
                "questions are all read. Leave it out.",
                parameter=name,
            )


def score_prompts(
    logs: Sequence[Path], options: PromptOptions, *, score: str, model: str | None
) -> Scored:
    """Read logged questions and score their choices."""
    normalise = options.normalise or "none"
    samples = read_samples(
        logs,
        task=options.task,
        score=score,
        normalise=normalise,
        target=options.target or "auto",
        filter=options.filter,
        model=model,
    )
    table = {
        "task": samples.tasks,
        "id": samples.ids,
        "label": samples.labels,
        "score": samples.true_scores,
        "scores": samples.scores,
        "choices": [list(choices) for choices in samples.choices],
    }
    settings = {"task_field": options.task, "normalise": normalise}
    provenance = Provenance(
        model=samples.model or name_model("unnamed model", normalise),
        score=samples.score,
        columns=_PROMPT_COLUMNS,
        details=_describe(samples) | settings,
    )
    return Scored(table, provenance, (_UNNAMED_MODEL,) if samples.model is None else ())


def _describe(samples: Samples) -> dict[str, str | float]:
    best = np.array([np.argmax(scores) for scores in samples.scores])
    return {
        "kind": "prompts",
        "tasks": len(set(samples.tasks.tolist())),
        "examples": len(samples),
        "accuracy": float(np.mean(best == samples.labels)),
    }


_new_option = partial(typer.Option, rich_help_panel="New examples of one task")
_NEW_COLUMNS = {"task": "task", "columns": "scores", "classes_column": "classes", "id": "example"}


@dataclass(frozen=True)
class NewOptions:
    """The options for scoring new examples of one task."""

    new: Annotated[
        Path | None,
        _new_option(
            help="New examples without labels: an .npy file, an .npz file with an array x or, for "
            "a run on a folder of images, another folder of images. No tasks are drawn then.",
        ),
    ] = None
    support: Annotated[
        Path | None,
        _new_option(
            help="For a run: the labelled examples of the same task, an .npz file with arrays x "
            "and y, or images with one folder per class. For embeddings, SOURCE holds them.",
        ),
    ] = None


def score_new_of_run(
    folder: Path, tasks: TaskOptions, options: RunOptions, new: NewOptions
) -> Scored:
    """Score new examples of one task with the learner of a run."""
    if new.new is None or new.support is None:
        raise InvalidInput(
            "new and support belong together: a learner adapts to the labelled examples of a "
            "task, and scores its new ones.",
            parameter=("new", "support"),
        )
    record, learner, model = load_run_learner(folder, options.device)
    size = record["options"].get("image_size")
    shape = {key: record["options"][key] for key in ("ways", "shots")}
    return _score_new(
        learner,
        _read_labelled(new.support, size),
        new,
        tasks,
        model=model,
        details={"kind": "run", "support": new.support.name},
        classes=record.get("classes"),
        image_size=size,
        **shape,
    )


def score_new_vectors(
    file: Path, tasks: TaskOptions, options: EmbeddingOptions, new: NewOptions
) -> Scored:
    """Score new vectors of one task."""
    for name, value in (("support", new.support), ("groups", options.groups)):
        if value is not None:
            raise InvalidInput(
                f"{name} does not go with new vectors: {file} holds the labelled examples of their "
                "task.",
                parameter=name,
            )
    if options.fit_temperature:
        raise InvalidInput(
            "fit_temperature needs labelled tasks, and new examples have no labels. Pass "
            "temperature, with the number that was fitted for the calibration.",
            parameter=("fit_temperature", "temperature"),
        )
    learner, description = build_vector_learner(options.learner, options)
    vectors = read_vectors(file, options.labels, None, options.columns)
    return _score_new(
        learner,
        (vectors.x, vectors.y),
        new,
        tasks,
        model=name_encoder(options, description, vectors.x),
        details={"kind": "embeddings", "support": file.name},
    )


def _score_new(
    learner: Any,
    support: tuple[Any, Array],
    new: NewOptions,
    tasks: TaskOptions,
    *,
    model: str,
    details: Mapping[str, Any],
    classes: int | None = None,
    image_size: int | None = None,
    **defaults: int,
) -> Scored:
    """Return a table with a row for each new example, without labels."""
    from metapac.fewshot.adapters import as_score_function
    from metapac.fewshot.scoring import score_examples

    _reject_drawing(tasks)
    function, file = as_score_function(tasks.score), Path(str(new.new))
    shape = choose_shape("class" if classes is None else "group", tasks, **defaults)
    names, codes = _code_labels(support[1], classes)
    _check_size(codes, names, shape, classes, str(details["support"]))
    x, ids = _read_new(file, image_size)
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
    facts = {"tasks": 1, "examples": len(x), "data": file.name}
    facts["data_checksum"] = data_checksum(x)
    provenance = Provenance(
        model=name_sizes(model, shape),
        score=str(function),
        columns=_NEW_COLUMNS,
        details={**details, **facts},
    )
    return Scored(table, provenance)


def _read_labelled(path: Path, size: int | None) -> tuple[Any, Array]:
    """Return the labelled examples of a task, from a file or a folder of images."""
    if path.is_dir():
        x, y, names = image_folder(path, size=_require_size(path, size))
        return x, np.array(names)[y]
    found = read_examples(path)
    if "y" not in found:
        raise InvalidInput(
            f"{path} must hold arrays x and y; it has: {', '.join(found)}. Write it with "
            "np.savez(path, x=x, y=y)."
        )
    return found["x"], np.asarray(found["y"])


def _read_new(path: Path, size: int | None) -> tuple[Any, Array]:
    """Return new examples, and the row of each in its file or the name of its image."""
    if not path.is_dir():
        x = read_examples(path)["x"]
        return x, np.arange(len(x))
    size, files = _require_size(path, size), image_files(path)
    if not files:
        raise InvalidInput(f"{path} has no images in it. Put the new images directly into it.")
    return np.concatenate([*read_images(files, size)]), np.array([file.name for file in files])


def _require_size(path: Path, size: int | None) -> int:
    """Return the size of the images of a run; raise InvalidInput if it had none."""
    if size is None:
        raise InvalidInput(
            f"{path} is a folder, and the learner was not trained on a folder of images. Pass a "
            "file with examples like those it was trained on, written with np.savez(path, x=x), "
            "and y=y for the labelled ones."
        )
    return size


def _reject_drawing(tasks: TaskOptions) -> None:
    """Raise InvalidInput for an option that is about drawing tasks."""
    for name in ("pool", "tasks", "queries", "rng"):
        if getattr(tasks, name) != getattr(TaskOptions, name):
            raise InvalidInput(
                f"{name} is for tasks that are drawn, and new examples are all scored. Leave it "
                "out.",
                parameter=name,
            )


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
    if classes is None and len(names) not in _as_list(shape["ways"]):
        found, name = format_count(len(names), "class", "classes"), "ways"
    elif bad := [i for i, count in enumerate(counts) if count not in _as_list(shape["shots"])]:
        of_class = "" if classes is not None else f" of class {names[bad[0]]!r}"
        found, name = f"{format_count(counts[bad[0]], 'example')}{of_class}", "shots"
    else:
        return
    raise InvalidInput(
        f"{file} must hold the labelled examples of the new task alone, of "
        f"{show_choice(shape[name])} {name}, got {found}. A guarantee holds for tasks of the size "
        f"that was calibrated: pass {name} as in calibration.",
        parameter=name,
    )


def _as_list(choice: int | Sequence[int]) -> Sequence[int]:
    return [choice] if isinstance(choice, int) else choice


# What SOURCE may be, by the suffix of its name; a folder is a training run, or holds logs.
_KINDS = {
    ".npy": "embeddings",
    ".npz": "embeddings",
    ".parquet": "embeddings",
    ".pq": "embeddings",
    ".jsonl": "prompts",
    ".gz": "prompts",
}
_NAMES = {"run": "a training run", "embeddings": "embeddings", "prompts": "a sample log"}
_NAMES["new"] = "a run or embeddings"


def score(
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="SOURCE",
            help="Folder of a run of 'metapac train'; embeddings in an .npy, .npz or .parquet "
            "file; or sample logs of lm-evaluation-harness, .jsonl files or their folder.",
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Parquet file to write.", metavar="FILE")
    ],
    tasks: TaskOptions,
    run: RunOptions,
    embeddings: EmbeddingOptions,
    new: NewOptions,
    prompts: PromptOptions,
    as_json: AsJson = False,
) -> None:
    r"""Score the tasks of a training run, of embeddings or of sample logs, to calibrate on.

    Tasks of a run or of embeddings are drawn at random, and the learner adapts to the support
    examples of each. Every query becomes a row of the table: its task, its label, the score of its
    label and the scores of all labels. The file records which model, data and options gave the
    scores. So 'calibrate', 'predict' and 'evaluate' need no column names, and refuse scores of
    another model.

    New examples of one task, without labels, are scored with --new.

    Sample logs ('lm_eval --log_samples') hold the log-likelihood of each choice of a question.
    Every question becomes a row, and nothing is drawn.

    Examples:

        metapac score run -o calibration.parquet
        metapac score run --pool test -o test.parquet
        metapac score run --support labelled.npz --new images.npy -o new.parquet
        metapac score embeddings.npy --labels y.npy --ways 5 --shots 5 -o scores.parquet
        metapac score samples_*.jsonl --task doc.subject -o scores.parquet
    """
    kind = _find_kind(source)
    first, bundles = source[0], {"run": run, "embeddings": embeddings, "prompts": prompts}
    _reject_unused(first, kind, bundles | ({"new": new} if kind == "prompts" else {}))
    beside = [embeddings.labels, embeddings.groups, new.new, new.support]
    _check_output(output, [*source, *(path for path in beside if path is not None)])
    with progress_bar() as progress:
        if kind == "run" and new != NewOptions():
            scored = score_new_of_run(first, tasks, run, new)
        elif kind == "run":
            scored = score_run(first, tasks, run, progress)
        elif kind == "embeddings" and new != NewOptions():
            scored = score_new_vectors(first, tasks, embeddings, new)
        elif kind == "embeddings":
            scored = score_embeddings(first, tasks, embeddings, progress)
        else:
            reject_drawing(first, tasks)
            scored = score_prompts(source, prompts, score=tasks.score, model=embeddings.model)
    write_scores(output, scored.table, scored.provenance)
    _report(scored, output, as_json=as_json)


def _find_kind(sources: list[Path]) -> str:
    """Return the kind of the sources; only logs may be several."""
    kinds = [_find_one_kind(source) for source in sources]
    other = [source for source, kind in zip(sources, kinds, strict=True) if kind != "prompts"]
    if len(sources) > 1 and other:
        raise InvalidInput(
            f"{other[0]} must be the only source: one table of scores is of one run or of one file "
            "of embeddings. Only sample logs may be several."
        )
    return kinds[0]


def _find_one_kind(source: Path) -> str:
    if source.is_dir():
        is_run = (source / "run.json").exists() or not any(source.rglob("samples_*.jsonl*"))
        return "run" if is_run else "prompts"
    if not source.exists():
        raise FileNotFoundError(errno.ENOENT, "No such file or folder", str(source))
    kind = _KINDS.get(source.suffix.lower())
    if kind is None:
        raise InvalidInput(
            f"{source} must be a folder that 'metapac train' wrote, embeddings in an .npy, .npz or "
            ".parquet file, or a log samples_*.jsonl of lm-evaluation-harness."
        )
    return kind


def _reject_unused(source: Path, kind: str, bundles: dict[str, Any]) -> None:
    """Raise InvalidInput for an option that is for another kind of source."""
    for other, bundle in bundles.items():
        for name in (field.name for field in fields(bundle)):
            is_shared = name == "model" and kind == "prompts"
            if other != kind and getattr(bundle, name) is not None and not is_shared:
                raise InvalidInput(
                    f"{name} is for {_NAMES[other]}, and {source} is {_NAMES[kind]}. Leave it out.",
                    parameter=name,
                )


def _check_output(output: Path, inputs: Sequence[PathLike]) -> None:
    """Fail fast: check the output path before scoring."""
    if output.suffix.lower() not in (".parquet", ".pq"):
        raise InvalidInput(f"output must end in .parquet, got {str(output)!r}.", parameter="output")
    check_folder(output.absolute().parent)
    check_not_input(output, inputs)


def _report(scored: Scored, output: Path, *, as_json: bool) -> None:
    facts = scored.provenance.details
    if as_json:
        print_json(
            {
                "output": str(output),
                "model": scored.provenance.model,
                "score": scored.provenance.score,
                "notes": scored.notes,
                **facts,
            }
        )
        return
    origin = ""
    if "pool" in facts:
        units = "classes" if facts["unit"] == "class" else "groups"
        origin = f" drawn from {facts['units']} {units} ({facts['pool']})"
    print_line(
        f"{format_count(facts['examples'], 'example')} of {format_count(facts['tasks'], 'task')}"
        f"{origin} written to {output}"
    )
    print_line(f"model: {scored.provenance.model}")
    if "accuracy" not in facts:  # new examples, without labels
        print_line(f"next: metapac predict promise.json {output} -o sets.parquet")
        return
    print_line(f"accuracy {facts['accuracy']:.1%}")
    if facts.get("pool") not in ("train", "validation", "test"):
        for note in scored.notes:
            print_text(f"note: {note}")
        print_line(
            f"next: metapac calibrate {output} --epsilon 0.1 --alpha 0.1 --delta 0.05 -o "
            "promise.json"
        )
    if "pool" not in facts:  # logs, of which one cannot tell whether they are to calibrate on
        print_line(f"or, of new tasks: metapac predict promise.json {output} -o sets.parquet")
