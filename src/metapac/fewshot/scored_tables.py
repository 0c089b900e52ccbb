"""Tables of scores with their provenance: of a run, of embeddings, of logs."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from metapac import _common, artefact
from metapac._common import PathLike, Progress, ignore_progress
from metapac.errors import InvalidInput, keyword
from metapac.fewshot import scoring
from metapac.fewshot.adapters import as_score_function, check_uses_unlabelled
from metapac.fewshot.datasets.images import image_files, image_folder, read_images
from metapac.fewshot.datasets.pools import load_run_pools, read_run
from metapac.fewshot.learners.vectors import build_vector_learner
from metapac.fewshot.offset import EPSILON, load_offset
from metapac.fewshot.options import Drawing, Embeddings, NewExamples, Run, SampleLogs, reject_given
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.prompts import name_model, read_samples
from metapac.fewshot.tasks import Choice, class_reuse, count_noun
from metapac.fewshot.tensors import data_checksum
from metapac.fewshot.vectors import Vectors, read_examples, read_vectors
from metapac.provenance import Provenance, write_scores

QUERIES = 15
_SHAPE = {"ways": 5, "shots": 5, "queries": QUERIES}
_TASKS = 500
_FIT_TASKS = 200  # validation tasks that a temperature is fitted on
_UNNAMED = "The {} is not named, so another one cannot be noticed. Pass --model."
_UNSEEN = "Weights do not say what they were trained on. Make sure that {} has other classes."
# What the columns of a table hold, in the words of calibration.
_COLUMNS = {"task": "task", "label": "label", "score": "score", "scores": "columns"}
_COLUMNS |= {"example": "id", "id": "id", "classes": "classes_column"}


class ScoredTable(NamedTuple):
    """A table of scores, where they come from, and what to know before calibrating on them."""

    table: dict[str, Any]
    provenance: Provenance
    notes: tuple[str, ...] = ()

    def write(self, path: PathLike) -> None:
        write_scores(path, self.table, self.provenance)

    def to_dict(self) -> dict[str, Any]:
        names = {"model": self.provenance.model, "score": self.provenance.score}
        return names | {"notes": list(self.notes), **self.provenance.details}

    def __str__(self) -> str:
        facts, origin, accuracy = self.provenance.details, "", ""
        if "pool" in facts:
            units = "classes" if facts["unit"] == "class" else "groups"
            origin = f" drawn from {facts['units']} {units} ({facts['pool']})"
        if "accuracy" in facts:  # new examples have no labels
            accuracy = f", accuracy {facts['accuracy']:.1%}"
        counts = [count_noun(facts[name], name[:-1]) for name in ("examples", "tasks")]
        notes = () if facts.get("pool") in ("train", "validation", "test") else self.notes
        first = f"{' of '.join(counts)}{origin}{accuracy}."
        return "\n".join([first, f"Model: {self.provenance.model}.", *notes])


class Model(NamedTuple):
    """A learner, its name, what is recorded of it, and the ways and shots of its training."""

    learner: Any
    name: str
    details: dict[str, Any]
    drawing: Drawing = Drawing()
    progress: Progress = ignore_progress
    sizes: dict[str, Any] | None = None

    def describe(self, table: Mapping[str, Any], score: Any, shape: Any, facts: Any) -> Provenance:
        """Return the provenance of its scores; the size of a task is part of the model's name."""
        numbers = {name: _show_choice(shape[name]) for name in ("ways", "shots") if name in shape}
        sizes = [f"{x} {name[: len(name) - (x == '1')]}" for name, x in numbers.items()]
        sizes += [f"{shape['unlabelled']} unlabelled"] if "unlabelled" in shape else []
        columns = {key: name for name, key in _COLUMNS.items() if name in table}
        name, details = ", ".join([self.name, *sizes]), {**self.details, **facts}
        return Provenance(model=name, score=str(score), columns=columns, details=details)


def score_run(
    source: PathLike,
    drawing: Drawing = Drawing(),
    run: Run = Run(),
    examples: NewExamples = NewExamples(),
    *,
    progress: Progress = ignore_progress,
) -> ScoredTable:
    """Score tasks of a pool of a run, or of the data given with weights, or new examples."""
    record, learner, name, checksum = load_run_learner(source, run.device)
    options, is_file = record["options"], Path(source).is_file()
    sizes = {key: options[key] for key in ("ways", "shots") if key in options}
    kind = {"kind": "weights" if is_file else "run"}
    model = Model(learner, name, kind, drawing, progress, sizes)
    if examples != NewExamples():
        if examples.new is None or examples.support is None:
            raise InvalidInput("new and support belong together.", parameter=("new", "support"))
        size = options.get("image_size")
        model.details["support"] = examples.support.name
        labelled, new = _read_labelled(examples.support, size), _read_new(examples.new, size)
        return _score_new(model, labelled, new, record["classes"])
    progress("loading data", 0, None)
    model.details["pool"] = drawing.pool or ("all" if is_file else "calibration")
    model.details.update(architecture=record["architecture"], weights_checksum=checksum)
    if not is_file:
        return _score_pool_of_run(model, source, record, run)
    if run.data is None:
        raise InvalidInput("data must be given to score tasks with weights.", parameter="data")
    vectors = Vectors(*_read_labelled(Path(run.data), None))
    model.details.update(data=Path(run.data).name, data_checksum=data_checksum(*vectors.arrays))
    return _score_vectors(model, vectors, [_UNSEEN.format(run.data)])


def _score_pool_of_run(model: Model, folder: PathLike, record: Any, run: Run) -> ScoredTable:
    loaded = load_run_pools(folder, data=run.data, home=run.home, progress=model.progress)
    pools = {key: pool for key, pool in vars(loaded.pools).items() if pool is not None}
    name = model.details["pool"]
    if name not in pools:
        text = f"pool must be one of {folder}, {', '.join(pools)}, got {name!r}."
        raise InvalidInput(text, parameter="pool")
    model.details.update(data=Path(record["data"]).name, data_checksum=loaded.checksum)
    # Tasks of classes have names of their own, which cannot be compared with those of classes.
    seen = [*record["pools"]["train"], *record["pools"]["validation"]]
    if pools[name].unit == "group":
        model.details["trained_on"] = seen
    else:
        model.details["training"] = f"{len(seen)} other classes, as the run records"
    return score_pool(model, pools[name], pools.get("validation"))


def load_run_learner(source: PathLike, device: str | None) -> tuple[dict[str, Any], Any, str, str]:
    """Return the record of a run or of weights, the learner on a device, its name and checksum."""
    is_run = not Path(source).is_file()
    record: dict[str, Any] = read_run(source) if is_run else {"options": {}}
    module = "metapac.fewshot.training.checkpoints"
    weights = _common.require(module, extra="torch", purpose="scoring tasks of a run")
    from metapac.fewshot.training.loop import choose_device

    learner = weights.load_learner(source)
    checksum = weights.weights_checksum(learner)
    if record.get("weights_checksum", checksum) != checksum:
        text = f"the weights in {source} are not those of run.json"
        raise InvalidInput(f"{text}. Start 'metapac train' again with the same options.")
    record = {"classes": None, "architecture": weights.describe_architecture(learner), **record}
    learner.module.to(choose_device(device))
    digits = checksum.removeprefix("sha256:")[:12]
    return record, learner, f"{record['architecture']['class']} {digits}", checksum


def score_embeddings(
    file: Path,
    drawing: Drawing = Drawing(),
    options: Embeddings = Embeddings(),
    new: Path | None = None,
    *,
    model: str | None = None,
    progress: Progress = ignore_progress,
) -> ScoredTable:
    """Score tasks drawn from stored vectors, or new vectors of the task that a file holds."""
    is_fitted = options.fit_temperature
    if is_fitted and (options.temperature is not None or new is not None):
        text = "fit_temperature goes neither with temperature nor with new, which has no labels."
        raise InvalidInput(text, parameter=("fit_temperature", "temperature"))
    if new is not None:
        reject_given(options, "new vectors, which are of one task", ("groups",))
    # With a temperature, also if it is yet to be fitted: fails for a learner that has none.
    unfitted = replace(options, temperature=1.0) if is_fitted else options
    learner, described = build_vector_learner(unfitted)
    progress("reading vectors", 0, None)
    vectors = read_vectors(file, options.labels, options.groups, options.columns)
    notes = [] if model else [_UNNAMED.format("encoder")]
    if is_fitted:
        temperature, note = _fit_temperature(learner, vectors, drawing)
        learner, described = build_vector_learner(replace(options, temperature=temperature))
        notes = [note, *notes]
    name = f"{f'{model}, ' if model else ''}{described} of {vectors.x.shape[1]} dimensions"
    scored_by = Model(learner, name, {"kind": "embeddings"}, drawing, progress)
    if new is not None:
        scored_by.details["support"] = file.name
        return _score_new(scored_by, (vectors.x, vectors.y), _read_new(new))
    details = {"pool": drawing.pool or "all", "encoder": model, "learner": described}
    scored_by.details.update(details, data=file.name, data_checksum=data_checksum(*vectors.arrays))
    return _score_vectors(scored_by, vectors, notes, is_fitted)


def _score_vectors(
    model: Model, vectors: Vectors, more: Sequence[str], is_fitted: bool = False
) -> ScoredTable:
    """Score tasks drawn from all classes or groups of a file, or from half of them."""
    _common.check_one_of("pool", model.details["pool"], ("all", "calibration", "test"))
    is_fitted = is_fitted or model.drawing.offset is not None
    pool, rows = _make_pool(vectors, model.details["pool"], is_fitted=is_fitted)
    held_out = _make_pool(vectors, "validation")[0] if is_fitted else None
    table, provenance, notes = score_pool(model, pool, held_out)
    table = {**table, "example": rows[table["example"]]}
    if vectors.groups is not None:  # labels mean the same in all tasks
        table["label"] = vectors.names[table["label"]]
        columns = {**provenance.columns, "classes": vectors.names.tolist()}
        provenance = replace(provenance, columns=columns)
    return ScoredTable(table, provenance, (*notes, *more))


def _fit_temperature(learner: Any, vectors: Vectors, drawing: Drawing) -> tuple[float, str]:
    """Return a temperature fitted on validation classes, rounded as printed, and a note on it."""
    whole, _ = _make_pool(vectors, "validation")
    pool, drawn = _draw_held_out(whole, replace(drawing, unlabelled=0), once=True)
    temperature = float(f"{scoring.fit_temperature(learner, drawn).temperature:.3g}")
    note = f"The temperature {temperature} is fitted on {count_noun(pool.names, pool.unit)}, from"
    again = f"For new examples, pass --temperature {temperature}."
    return temperature, f"{note} which no task is drawn. {again}"


def _draw_held_out(pool: Any, drawing: Drawing, sizes: Any = None, once: bool = False) -> Any:
    """Return a pool without small classes, and tasks of it to fit on; groups perhaps once each."""
    shape = _choose_shape(pool.unit, drawing, sizes)
    pool, _ = leave_out_small(pool, shape)
    count = None if once and pool.unit == "group" else _FIT_TASKS
    return pool, pool.tasks(count, **shape, rng=0)


def _make_pool(vectors: Vectors, name: str, *, is_fitted: bool = False) -> tuple[Any, Any]:
    """Return all classes or groups, or one half, the same whatever the seed, and their rows."""
    # A third of the calibration half is for validation, and left out if it was fitted on.
    ids = vectors.y if vectors.groups is None else vectors.groups
    distinct = np.unique(ids)
    if name != "all" and len(distinct) < 2:
        raise InvalidInput(f"{keyword('pool', name)} needs at least 2 classes or groups to divide.")
    calibration, test = np.array_split(np.random.default_rng(0).permutation(distinct), 2)
    validation = calibration[: len(calibration) // 3]
    parts = {"all": distinct, "calibration": calibration, "test": test, "validation": validation}
    seen = validation if is_fitted else distinct[:0]
    rows = np.flatnonzero(np.isin(ids, parts[name]) & ~np.isin(ids, seen))
    if vectors.groups is None:
        return ClassPool(vectors.x[rows], vectors.y[rows], name=name), rows
    codes, groups = vectors.codes[rows], vectors.groups[rows]
    return GroupPool(vectors.x[rows], codes, groups, name=name, classes=len(vectors.names)), rows


def score_logs(
    logs: Sequence[PathLike],
    options: SampleLogs = SampleLogs(),
    *,
    score: str = "probability",
    model: str | None = None,
) -> ScoredTable:
    """Score the choices of the questions in sample logs of lm-evaluation-harness."""
    samples = read_samples(logs, **vars(options), score=score, model=model)
    table = {"task": samples.tasks, "id": samples.ids, "label": samples.labels}
    table |= {"score": samples.true_scores, "scores": samples.scores}
    table["choices"] = [list(choices) for choices in samples.choices]
    facts: Any = {"tasks": len({*samples.tasks.tolist()}), "examples": len(samples)}
    facts |= {"accuracy": _accuracy(table), "task_field": options.task}
    facts |= {"normalise": options.normalise}
    name = samples.model or name_model("unnamed model", options.normalise)
    provenance = Model(None, name, {"kind": "prompts"}).describe(table, samples.score, {}, facts)
    notes = () if samples.model else (_UNNAMED.format("model"),)
    return ScoredTable(table, provenance, notes)


def _choose_score(model: Model, held_out: Any = None) -> tuple[Any, list[str]]:
    """Return the score function, with an offset that is read or fitted, and a note on that."""
    # Without a pool of held-out classes or groups the offset can only be read.
    drawing, file = model.drawing, model.drawing.offset
    if file is None:
        reject_given(drawing, "scores without an offset", ("epsilon",))
        if drawing.unlabelled:
            check_uses_unlabelled(model.learner)
        return as_score_function(drawing.score), []
    if not drawing.unlabelled:
        text = "offset needs unlabelled examples of the tasks. Pass, say, --unlabelled 100."
        raise InvalidInput(text, parameter="unlabelled")
    if drawing.score not in ("probability", "log_probability"):
        raise InvalidInput("score must be log_probability with an offset.", parameter="score")
    if file.exists():
        offset = load_offset(file)
        learner = artefact.as_json("learner", scoring.describe_learner(model.learner))
        parts = {**offset.learner, **learner}
        if differ := [name for name in parts if offset.learner.get(name) != learner.get(name)]:
            others = _common.listed(differ)
            text = f"offset {str(file)!r} was fitted for a learner with another {others}"
            raise InvalidInput(f"{text}. Pass the name of a new file.", parameter="offset")
        if drawing.epsilon not in (None, offset.epsilon):
            text = f"epsilon must be {offset.epsilon}, for which {file} was fitted"
            raise InvalidInput(f"{text}, got {drawing.epsilon}.", parameter="epsilon")
        return offset, [f"The offset is that of {file}."]
    if held_out is None:
        text = f"there is no offset in {file}, and none can be fitted. Score the calibration tasks"
        raise InvalidInput(f"{text} first, with the same offset.", parameter="offset")
    pool, drawn = _draw_held_out(held_out, drawing, model.sizes)
    offset = scoring.fit_offset(model.learner, drawn, epsilon=drawing.epsilon or EPSILON)
    offset.save(file)
    units = count_noun(pool.names, pool.unit)
    note = f"The offset is fitted on {units}, from which no task is drawn, and written to {file}."
    return offset, [note]


def score_pool(model: Model, pool: Any, held_out: Any = None) -> ScoredTable:
    """Draw tasks from a pool and score them."""
    drawing, is_group = model.drawing, pool.unit == "group"
    function, notes = _choose_score(model, held_out)
    shape = _choose_shape(pool.unit, drawing, model.sizes)
    pool, left_out = leave_out_small(pool, shape)
    # Tasks of another seed have other names, so that they are not taken for those of this one.
    named = {"name": f"{pool.name}.{drawing.rng}"} if drawing.rng and not is_group else {}
    count = _TASKS if drawing.tasks is None and not is_group else drawing.tasks
    tasks = pool.tasks(count, **shape, **named, rng=drawing.rng)
    model.progress("scoring tasks", 0, None)
    table = scoring.tabulate(model.learner, tasks, score=function, progress=model.progress)
    facts = {"unit": pool.unit, "units": len(pool.names), "rng": drawing.rng}
    facts |= {"tasks": len(tasks), "examples": len(table["task"]), "accuracy": _accuracy(table)}
    facts |= {name: list(x) if isinstance(x, Sequence) else x for name, x in shape.items()}
    facts |= {"left_out": left_out} if left_out else {}
    reuse = class_reuse(tasks) if "classes" in table else None
    if reuse is not None and reuse.per_class > 1:
        facts["drawn_from"] = f"{len(pool.names)} classes"
    provenance = model.describe(table, function, shape, facts)
    notes += [] if reuse is None else [reuse.describe()]
    return ScoredTable(table, provenance, tuple(notes))


def _accuracy(table: Mapping[str, Any]) -> float:
    best = np.array([np.argmax(row) for row in table["scores"]])
    if "classes" in table:
        best = np.array([names[i] for names, i in zip(table["classes"], best, strict=True)])
    return float(np.mean(best == table["label"]))


def _choose_shape(unit: str, drawing: Drawing, sizes: dict[str, Any] | None = None) -> Any:
    """Return ways, shots and queries of tasks: those given, otherwise the defaults."""
    defaults = _SHAPE | (sizes or {})
    given = {name: x for name in _SHAPE if (x := getattr(drawing, name)) is not None}
    given |= {"unlabelled": drawing.unlabelled} if drawing.unlabelled else {}
    if unit != "group":
        return defaults | given
    if "ways" in given:
        raise InvalidInput("ways does not apply to groups; leave it out.", parameter="ways")
    return {"shots": defaults["shots"], "queries": None} | given


def _show_choice(choice: Choice) -> str:
    """Return a number, or numbers to choose from, as they are typed."""
    if isinstance(choice, range):
        return f"{choice[0]}-{choice[-1]}"
    return ",".join(map(str, choice)) if isinstance(choice, Sequence) else str(choice)


def leave_out_small(pool: Any, shape: Mapping[str, Any]) -> tuple[Any, list[Any]]:
    """Leave out classes or groups with too few examples for a task, with a warning."""
    ways = int(np.max(shape.get("ways", 1)))
    others = -(-shape.get("unlabelled", 0) // int(np.min(shape.get("ways", 1))))
    shots = int(np.max(shape["shots"])) + others  # none of which is scored
    needed = shots + int(np.max(shape["queries"] or 1))
    sizes = dict(zip(pool.names, map(len, pool.positions), strict=True))
    small = [name for name, size in sizes.items() if size < needed]
    if not small:
        return pool, []
    sizes_named = f"shots + {'queries' if shape['queries'] else 1}"
    sizes_named += " + unlabelled ones of each class" * (others > 0)
    count = len(sizes) - len(small)
    if count < ways <= len(sizes):  # with too few classes of any size, the pool says so
        remedy = "Take fewer unlabelled ones" if others else "Lower shots"
        spare = most_queries(pool, ways, shots)
        if shape["queries"] and spare > 0:
            remedy = f"Pass {keyword('queries', spare)} or fewer"
        elif count > 1:
            remedy = f"Pass {keyword('ways', count)} or fewer"
        rule = f"a task needs {count_noun(ways, pool.unit)} with at least {sizes_named} = {needed}"
        got = f"got {count} in {pool.name}. {remedy}"
        raise InvalidInput(f"{rule} examples, {got}.", parameter=("shots", "queries"))
    found = _common.listed([f"{name!r} with {sizes[name]}" for name in small])
    left_out = f"left out {count_noun(small, pool.unit)} of {pool.name} with fewer than {needed}"
    _common.warn(f"{left_out} examples, the {sizes_named} of a task: {found}.")
    large = copy.copy(pool)
    large.names = [name for name, size in sizes.items() if size >= needed]
    large.positions = [members for members in pool.positions if len(members) >= needed]
    return large, small


def most_queries(pool: Any, ways: int, shots: int) -> int:
    """Return the largest number of queries for which a pool has enough classes."""
    return sorted(map(len, pool.positions))[-ways] - shots


def _score_new(model: Model, labelled: Any, new: Any, classes: int | None = None) -> ScoredTable:
    """Return a table with a row for each new example of a task, without labels."""
    drawing, (file, x, ids) = model.drawing, new
    reject_given(drawing, "new examples of one task", ("pool", "tasks", "queries", "rng"))
    function, notes = _choose_score(model)
    shape = _choose_shape("class" if classes is None else "group", drawing, model.sizes)
    names, codes = _code_labels(labelled[1], shape, classes, model.details["support"])
    if np.shape(x)[1:] != np.shape(labelled[0])[1:]:
        rule = f"must hold examples of shape {np.shape(labelled[0])[1:]}"
        raise InvalidInput(f"{file} {rule}, like the others, got {np.shape(x)[1:]}.")
    options: Any = {"classes": len(names), "score": function}
    if drawing.unlabelled:
        if drawing.unlabelled >= len(x):
            rule = f"unlabelled must be less than {len(x)}, the examples in {file}"
            raise InvalidInput(f"{rule}, got {drawing.unlabelled}.", parameter="unlabelled")
        order = np.random.default_rng(0).permutation(len(x))
        known, rows = order[: drawing.unlabelled], np.sort(order[drawing.unlabelled :])
        options["unlabelled"], x, ids = x[known], x[rows], ids[rows]
        text = f"{drawing.unlabelled} of the examples, at random, are taken as unlabelled examples"
        notes.append(f"{text} and not scored: the guarantee is for others.")
    scores = scoring.score_examples(model.learner, labelled[0], codes, x, **options)
    task = file.resolve().name if file.is_dir() else file.stem
    table = {"task": np.full(len(x), task), "example": ids, "scores": list(scores)}
    table["classes"] = [names] * len(x)
    facts = {"tasks": 1, "examples": len(x), "data": file.name, "data_checksum": data_checksum(x)}
    return ScoredTable(table, model.describe(table, function, shape, facts), tuple(notes))


def _code_labels(y: Any, shape: Any, classes: int | None, file: str) -> tuple[list[Any], Any]:
    """Return the names of the labels and the position of each, of a task as calibrated."""
    # The labels of groups are those of training, and some may be absent.
    distinct, codes = np.unique(y, return_inverse=True)
    names, counts = distinct.tolist(), np.bincount(codes).tolist()
    sizes: dict[str, dict[str, int]] = {"ways": {"": len(names)}}
    sizes["shots"] = {f" of {name!r}": n for name, n in zip(names, counts, strict=True)}
    if classes is not None:
        if y.dtype.kind not in "iu" or names[0] < 0 or names[-1] >= classes:
            raise InvalidInput(f"the labels of groups must be 0 to {classes - 1}, got {names}.")
        names, codes, sizes = list(range(classes)), y, {"shots": {"": len(y)}}
    for name, parts in sizes.items():
        for part, count in parts.items():
            if count not in np.atleast_1d(shape[name]):
                rule = f"{file} must hold {_show_choice(shape[name])} {name} of the new task alone"
                remedy = f"If calibration tasks had {count}, pass {keyword(name, count)}"
                raise InvalidInput(f"{rule}, got {count}{part}. {remedy}.", parameter=name)
    return names, codes


def _read_labelled(path: Path, size: int | None) -> tuple[Any, ...]:
    """Return labelled examples and perhaps their groups, from a file or a folder of images."""
    if path.is_dir():
        x, y, names = image_folder(path, size=_require_size(path, size))
        return x, np.array(names)[y]
    found = read_examples(path)
    if "y" not in found:
        raise InvalidInput(f"{path} must hold arrays x and y; it has: {', '.join(found)}.")
    return tuple(found[name] for name in ("x", "y", "groups") if name in found)


def _read_new(path: Path, size: int | None = None) -> tuple[Path, Any, Any]:
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
        text = f"{path} is a folder, and the learner was not trained on a folder of images"
        raise InvalidInput(f"{text}. Pass a file written with np.savez(path, x=x, y=y).")
    return size
