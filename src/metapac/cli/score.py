"""``metapac score``: from a training run, embeddings or sample logs to a table of scores."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer

from metapac._files import check_folder, check_not_input
from metapac._types import PathLike
from metapac.cli.console import format_count, print_json, print_line, print_text
from metapac.cli.options import AsJson
from metapac.cli.progress import progress_bar
from metapac.cli.scoring.embeddings import EmbeddingOptions, score_embeddings
from metapac.cli.scoring.new import NewOptions, score_new_of_run, score_new_vectors
from metapac.cli.scoring.prompts import PromptOptions, reject_drawing, score_prompts
from metapac.cli.scoring.run import RunOptions, score_run
from metapac.cli.scoring.tasks import Scored, TaskOptions
from metapac.exceptions import InvalidInput, Parameter
from metapac.scoring.provenance import write_scores

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
                    "{} is for {}, and {} is {}. Leave it out.",
                    Parameter(name),
                    _NAMES[other],
                    source,
                    _NAMES[kind],
                )


def _check_output(output: Path, inputs: Sequence[PathLike]) -> None:
    """Fail fast: check the output path before scoring."""
    if output.suffix.lower() not in (".parquet", ".pq"):
        raise InvalidInput("{} must end in .parquet, got {!r}.", Parameter("output"), str(output))
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
