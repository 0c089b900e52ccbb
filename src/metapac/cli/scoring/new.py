"""New examples of one task, which have no labels yet, for ``metapac score``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from metapac import _document
from metapac._types import Array
from metapac.cli.console import format_count
from metapac.cli.scoring.embeddings import EmbeddingOptions, name_model
from metapac.cli.scoring.run import RunOptions, load_run_learner
from metapac.cli.scoring.tasks import Scored, TaskOptions, choose_shape, name_sizes, show_choice
from metapac.cli.vector_options import build_vector_learner
from metapac.cli.vectors import read_examples, read_vectors
from metapac.datasets.store.images import image_files, image_folder, read_images
from metapac.exceptions import InvalidInput, Parameter
from metapac.scoring.provenance import Provenance

_new_option = partial(typer.Option, rich_help_panel="New examples of one task")
_COLUMNS = {"task": "task", "columns": "scores", "classes_column": "classes", "id": "example"}


@dataclass(frozen=True)
class NewOptions:
    """The options for scoring new examples of one task.

    Attributes
    ----------
    new : Path or None
        File of the new examples, or folder of images.
    support : Path or None
        File of the labelled examples of their task, or folder of images.
    """

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
    """Score new examples of one task with the learner of a run.

    Parameters
    ----------
    folder : Path
        Folder that ``metapac train`` wrote. Its data are not needed.
    tasks : TaskOptions
        Ways and shots, as in calibration, and the score function.
    options : RunOptions
        Where to compute.
    new : NewOptions
        The examples.

    Returns
    -------
    Scored
        The table and its provenance.
    """
    if new.new is None or new.support is None:
        raise InvalidInput(
            "{} and {} belong together: a learner adapts to the labelled examples of a task, and "
            "scores its new ones.",
            Parameter("new"),
            Parameter("support"),
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
    """Score new vectors of one task.

    Parameters
    ----------
    file : Path
        The labelled vectors of the task.
    tasks : TaskOptions
        Ways and shots, as in calibration, and the score function.
    options : EmbeddingOptions
        Labels and learner, as in calibration.
    new : NewOptions
        The new vectors.

    Returns
    -------
    Scored
        The table and its provenance.
    """
    for name, value in (("support", new.support), ("groups", options.groups)):
        if value is not None:
            raise InvalidInput(
                "{} does not go with new vectors: {} holds the labelled examples of their task.",
                Parameter(name),
                file,
            )
    if options.fit_temperature:
        raise InvalidInput(
            "{} needs labelled tasks, and new examples have no labels. Pass {}, with the number "
            "that was fitted for the calibration.",
            Parameter("fit_temperature"),
            Parameter("temperature"),
        )
    learner, description = build_vector_learner(options.learner, options)
    vectors = read_vectors(file, options.labels, None, options.columns)
    return _score_new(
        learner,
        (vectors.x, vectors.y),
        new,
        tasks,
        model=name_model(options, description, vectors.x),
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
    from metapac.scoring.functions import as_score_function
    from metapac.scoring.tasks import score_examples

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
    facts["data_checksum"] = _document.data_checksum(x)
    provenance = Provenance(
        model=name_sizes(model, shape),
        score=str(function),
        columns=_COLUMNS,
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
                "{} is for tasks that are drawn, and new examples are all scored. Leave it out.",
                Parameter(name),
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
        "{} must hold the labelled examples of the new task alone, of {} {}, got {}. A guarantee "
        "holds for tasks of the size that was calibrated: pass {} as in calibration.",
        file,
        show_choice(shape[name]),
        name,
        found,
        Parameter(name),
    )


def _as_list(choice: int | Sequence[int]) -> Sequence[int]:
    return [choice] if isinstance(choice, int) else choice
