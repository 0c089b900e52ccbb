"""``metapac train`` and ``metapac score``: learners, and the scores of their tasks."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from metapac._common import PathLike, require
from metapac.artefact import check_folder, check_not_input
from metapac.cli import console
from metapac.errors import InvalidInput
from metapac.fewshot import scored_tables
from metapac.fewshot.options import (
    Drawing,
    Embeddings,
    NewExamples,
    Run,
    SampleLogs,
    Training,
    reject_given,
)
from metapac.fewshot.scored_tables import QUERIES, ScoredTable, most_queries


def train(
    data: str,
    *,
    output: Path,
    pools: Sequence[int] | None = None,
    image_size: int | None = None,
    ways: int | None = None,
    shots: int = 5,
    queries: int = 5,
    training: Training,
    device: str | None = None,
    rng: int = 0,
    home: Path | None = None,
) -> None:
    """Train a few-shot learner.

    Examples:

        metapac train glyphs --epochs 20 -o run
        metapac train images --recipe strong --backbone resnet12 -o run
        torchrun --nproc-per-node 4 -m metapac train images.npz -o run

    The classes (or groups) are divided into four pools, listed in run.json: for training, for
    choosing the best epoch (validation), for calibration, and for test, on which the final accuracy
    is measured. 'metapac score' draws tasks from the pools for calibration and test.

    An interrupted run resumes when it is started again with the same options.

    Parameters
    ----------
    data : DATA
        A folder of images with one folder per class; an .npz file with arrays x and y, and groups
        if each group is a task; a prepared data set (miniimagenet, cifar10c, fewrel, heart); or
        glyphs.
    output : FOLDER
        Folder of the run.
    pools : NUMBERS
        Classes (or groups) for training, validation, calibration and test, such as 60,10,15,15. By
        default 56, 8, 16 and 20 percent of them, and at least ``ways`` for each.
    image_size : PIXELS
        Height and width to which the images of a folder are resized, by default 84.
    ways : NUMBER
        Classes per task; not used if the data have groups. By default 5, or 10 for cifar10c.
    shots : NUMBER
        Support examples per class (or per group), to which the learner adapts.
    queries : NUMBER
        Query examples per class (or per group), on which it is scored.
    """
    runs = require("metapac.fewshot.training.runs", extra="torch", purpose="training")
    is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts
    with console.progress_bar(visible=is_first) as progress:
        run = runs.train_run(
            data,
            output,
            training,
            pools=pools,
            image_size=image_size,
            ways=ways,
            shots=shots,
            queries=queries,
            device=device,
            rng=rng,
            home=home,
            progress=progress,
        )
    if run is not None:
        text, pool = str(run), run.pools.calibration
        if pool is not None:
            spare = most_queries(pool, run.ways, shots) if pool.unit == "class" else QUERIES
            more = f" --queries {spare}" if spare < QUERIES else ""
            text += f"\nNext: metapac score {output}{more} -o calibration.parquet"
        console.show(run, text=text, wrote=[run.weights])


# What SOURCE may be, by the suffix of its name; a folder is a training run, or holds logs.
_KINDS = dict.fromkeys((".npy", ".npz", ".parquet", ".pq"), "embeddings")
_KINDS |= dict.fromkeys((".jsonl", ".gz"), "a sample log")
_DRAWN = ("pool", "tasks", "ways", "shots", "queries", "rng")


def score(
    source: list[Path],
    *,
    output: Path,
    drawing: Drawing,
    run: Run,
    embeddings: Embeddings,
    examples: NewExamples,
    logs: SampleLogs,
    model: str | None = None,
    json: bool = False,
) -> None:
    """Score tasks, to calibrate on them.

    Examples:

        metapac score run -o calibration.parquet
        metapac score run --pool test -o test.parquet
        metapac score run --support labelled.npz --new images.npy -o new.parquet
        metapac score embeddings.npy --labels y.npy --ways 5 --shots 5 -o scores.parquet
        metapac score samples_*.jsonl --task doc.subject -o scores.parquet

    Tasks of a run or of embeddings are drawn at random, and the learner adapts to the support
    examples of each. Every query becomes a row of the table: its task, its label, the score of its
    label and the scores of all labels. The file records which model, data and options gave the
    scores. So 'calibrate', 'predict' and 'evaluate' need no column names, and refuse scores of
    another model.

    New examples of one task, without labels, are scored with --new.

    Sample logs ('lm_eval --log_samples') hold the log-likelihood of each choice of a question.
    Every question becomes a row, and nothing is drawn.

    Parameters
    ----------
    source : SOURCE
        Folder of a run of 'metapac train'; embeddings in an .npy, .npz or .parquet file; or sample
        logs of lm-evaluation-harness, .jsonl files or their folder.
    output
        Parquet file to write.
    model : NAME
        Name and version of the encoder or language model. A promise then holds for it only.
    """
    first, kind = source[0], _find_kind(source)
    why = f"{first}, which is {kind}"
    for options, used_by in ((run, "a run"), (embeddings, "embeddings"), (logs, "a sample log")):
        if kind != used_by:
            reject_given(options, why)
    reject_given(examples, why, {"a run": (), "embeddings": ("support",)}.get(kind))
    if model is not None and kind == "a run":
        raise InvalidInput(f"model does not apply to {why}. Leave it out.", parameter="model")
    beside = (embeddings.labels, embeddings.groups, examples.new, examples.support)
    _check_output(output, [*source, *(path for path in beside if path is not None)])
    named: Any = {"model": model}
    with console.progress_bar() as progress:
        if kind == "a sample log":
            reject_given(drawing, f"{why}, whose questions are all read", _DRAWN)
            scored = scored_tables.score_logs(source, logs, score=drawing.score, **named)
        elif kind == "a run" and examples == NewExamples():
            scored = scored_tables.score_run(first, drawing, run, progress=progress)
        elif kind == "a run":
            scored = scored_tables.score_new_by_run(first, examples, drawing, device=run.device)
        elif examples.new is None:
            named |= {"progress": progress}
            scored = scored_tables.score_embeddings(first, drawing, embeddings, **named)
        else:
            file = examples.new
            scored = scored_tables.score_new_vectors(first, file, drawing, embeddings, **named)
    scored.write(output)
    text = "\n".join([str(scored), *_next_steps(scored, output)])
    console.show(scored, as_json=json, text=text, wrote=[output], output=str(output))


def _find_kind(sources: list[Path]) -> str:
    """Return the kind of the sources; only logs may be several."""
    kinds = {source: _find_one_kind(source) for source in sources}
    other = [source for source, kind in kinds.items() if kind != "a sample log"]
    if len(sources) > 1 and other:
        raise InvalidInput(
            f"{other[0]} must be the only source: one table of scores is of one run or of one file "
            "of embeddings. Only sample logs may be several."
        )
    return kinds[sources[0]]


def _find_one_kind(source: Path) -> str:
    if source.is_dir():
        is_run = (source / "run.json").exists() or not any(source.rglob("samples_*.jsonl*"))
        return "a run" if is_run else "a sample log"
    if not source.exists():
        raise FileNotFoundError(errno.ENOENT, "No such file or folder", str(source))
    kind = _KINDS.get(source.suffix.lower())
    if kind is None:
        raise InvalidInput(
            f"{source} must be a folder that 'metapac train' wrote, embeddings in an .npy, .npz or "
            ".parquet file, or a log samples_*.jsonl of lm-evaluation-harness."
        )
    return kind


def _check_output(output: Path, inputs: Sequence[PathLike]) -> None:
    """Fail fast: check the output path before scoring."""
    if output.suffix.lower() not in (".parquet", ".pq"):
        raise InvalidInput(f"output must end in .parquet, got {str(output)!r}.", parameter="output")
    check_folder(output.absolute().parent)
    check_not_input(output, inputs)


def _next_steps(scored: ScoredTable, output: Path) -> Iterator[str]:
    """Yield the commands that may follow."""
    facts = scored.provenance.details
    predict = f"metapac predict promise.json {output} -o sets.parquet"
    if "accuracy" not in facts:  # new examples, without labels
        yield f"Next: {predict}"
    elif facts.get("pool") not in ("train", "validation", "test"):
        levels = "--epsilon 0.1 --alpha 0.1 --delta 0.05"
        yield f"Next: metapac calibrate {output} {levels} -o promise.json"
    if facts["kind"] == "prompts":  # of which one cannot tell whether they are to calibrate on
        yield f"Or, of new tasks: {predict}"
