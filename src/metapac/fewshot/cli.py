"""Commands of the few-shot wing: train, score, study, reproduce, demo, data."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from rich.progress import DownloadColumn

from metapac._common import data_home, require
from metapac.artefact import check_folder, check_not_input
from metapac.cli import console
from metapac.cli.app import Group
from metapac.errors import InvalidInput
from metapac.fewshot import options as opt
from metapac.fewshot.datasets.catalogue import CATALOGUE, get_data_set
from metapac.guarantee import Guarantee


def train(
    data: str,
    *,
    output: Path,
    pools: str | None = None,
    image_size: int | None = None,
    ways: int | None = None,
    shots: int = 5,
    queries: int = 5,
    training: opt.Training,
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
    pools : NUMBERS|FILE
        Classes (or groups) for training, validation, calibration and test: how many, such as
        60,10,15,15, or a JSON file with the names of each pool, for a published split. By default
        56, 8, 16 and 20 percent of them, and at least ``ways`` for each.
    image_size : PIXELS
        Height and width to which the images of a folder are resized, by default 84.
    ways : NUMBER
        Classes per task; not used if the data have groups. By default 5, or 10 for cifar10c.
    shots : NUMBER
        Support examples per class (or per group), to which the learner adapts.
    queries : NUMBER
        Query examples per class (or per group), on which it is scored.
    """
    from metapac.fewshot.scored_tables import QUERIES, most_queries

    runs = require("metapac.fewshot.training.runs", extra="torch", purpose="training")
    is_first = os.environ.get("RANK", "0") == "0"  # of the processes that torchrun starts
    options: Any = {"pools": pools, "image_size": image_size, "ways": ways}
    options |= {"shots": shots, "queries": queries, "device": device, "rng": rng, "home": home}
    with console.progress_bar(visible=is_first) as progress:
        run = runs.train_run(data, output, training, **options, progress=progress)
    if run is not None:
        text, pool = str(run), run.pools.calibration
        if pool is not None:
            spare = most_queries(pool, run.ways, shots) if pool.unit == "class" else QUERIES
            more = f" --queries {spare}" if spare < QUERIES else ""
            text += f"\nNext: metapac score {output}{more} -o calibration.parquet"
        console.show(run, text=text, wrote=[run.weights])


# What SOURCE may be, by the suffix of its name; a folder is a training run, or holds logs.
_KINDS = dict.fromkeys((".npy", ".npz", ".parquet", ".pq"), "embeddings")
_KINDS |= dict.fromkeys((".jsonl", ".gz"), "a sample log") | {".safetensors": "weights"}
_DRAWN = ("pool", "tasks", "ways", "shots", "queries", "rng")


def score(
    source: list[Path],
    *,
    output: Path,
    drawing: opt.Drawing,
    run: opt.Run,
    embeddings: opt.Embeddings,
    examples: opt.NewExamples,
    logs: opt.SampleLogs,
    model: str | None = None,
    json: bool = False,
) -> None:
    """Score tasks, to calibrate on them.

    Examples:

        metapac score run -o calibration.parquet
        metapac score run --pool test -o test.parquet
        metapac score run --support labelled.npz --new images.npy -o new.parquet
        metapac score weights.safetensors --data new-classes.npz -o scores.parquet
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
        Folder of a run of 'metapac train'; weights in a .safetensors file, with --data; embeddings
        in an .npy, .npz or .parquet file; or sample logs of lm-evaluation-harness, .jsonl files or
        their folder.
    output
        Parquet file to write.
    model : NAME
        Name and version of the encoder or language model. A promise then holds for it only.
    """
    from metapac.fewshot import scored_tables

    first, kind = source[0], _find_kind(source)
    why, is_run = f"{first}, which is {kind}", kind in ("a run", "weights")
    used = {"a sample log": (logs,), "embeddings": (embeddings, examples)}
    for given in (run, embeddings, logs, examples):
        if given not in used.get(kind, (run, examples)):
            opt.reject_given(given, why)
    if model is not None and is_run:
        raise InvalidInput(f"model does not apply to {why}. Leave it out.", parameter="model")
    if output.suffix.lower() not in (".parquet", ".pq"):
        raise InvalidInput(f"output must end in .parquet, got {str(output)!r}.", parameter="output")
    check_folder(output.absolute().parent)
    beside = (embeddings.labels, embeddings.groups, examples.new, examples.support, run.data)
    check_not_input(output, [*source, *(path for path in beside if path is not None)])
    with console.progress_bar() as progress:
        if kind == "a sample log":
            opt.reject_given(drawing, f"{why}, whose questions are all read", _DRAWN)
            scored = scored_tables.score_logs(source, logs, score=drawing.score, model=model)
        elif is_run:
            scored = scored_tables.score_run(first, drawing, run, examples, progress=progress)
        else:
            opt.reject_given(examples, why, ("support",))
            options: Any = {"new": examples.new, "model": model, "progress": progress}
            scored = scored_tables.score_embeddings(first, drawing, embeddings, **options)
    scored.write(output)
    text = "\n".join([str(scored), *_next_steps(scored.provenance.details, output)])
    console.show(scored, as_json=json, text=text, wrote=[output], output=str(output))


def _find_kind(sources: list[Path]) -> str:
    """Return the kind of the sources; only logs may be several."""
    kinds = {}
    for source in sources:
        if not source.exists():
            raise FileNotFoundError(errno.ENOENT, "No such file or folder", str(source))
        kind = _KINDS.get(source.suffix.lower())
        if source.is_dir():
            has_logs = not (source / "run.json").exists() and any(source.rglob("samples_*.jsonl*"))
            kind = "a sample log" if has_logs else "a run"
        if kind is None:
            kinds_of = "a run, weights, embeddings (.npy, .npz, .parquet) or a log samples_*.jsonl"
            raise InvalidInput(f"{source} must be {kinds_of} of lm-evaluation-harness.")
        kinds[source] = kind
    other = [source for source, kind in kinds.items() if kind != "a sample log"]
    if len(sources) > 1 and other:
        raise InvalidInput(f"{other[0]} must be the only source; only sample logs may be several.")
    return kinds[sources[0]]


def _next_steps(facts: Mapping[str, Any], output: Path) -> Iterator[str]:
    """Yield the commands that may follow."""
    predict = f"metapac predict promise.json {output} -o sets.parquet"
    if "accuracy" not in facts:  # new examples, without labels
        yield f"Next: {predict}"
    elif facts.get("pool") not in ("train", "validation", "test"):
        levels = "--epsilon 0.1 --alpha 0.1 --delta 0.05"
        yield f"Next: metapac calibrate {output} {levels} -o promise.json"
    if facts["kind"] == "prompts":  # of which one cannot tell whether they are to calibrate on
        yield f"Or, of new tasks: {predict}"


def study(
    data: str,
    *,
    output: Path = Path("study"),
    seeds: int | None = None,
    draws: int = 20,
    pools: str | None = None,
    epsilon: float = 0.1,
    alpha: float = 0.1,
    delta: float | None = 0.05,
    allow: Sequence[str] = (),
    tasks: opt.StudyTasks,
    training: Annotated[opt.Training, "learner backbone recipe epochs episodes"],
    embeddings: Annotated[opt.Embeddings, "labels groups columns metric temperature penalty"],
    device: str | None = None,
    home: Path | None = None,
    jobs: int = 1,
    rng: int = 0,
    json: bool = False,
) -> None:
    """Compare methods on your own data.

    Examples:

        metapac study data.npz -o study
        metapac study embeddings.npy --labels y.npy --metric cosine --temperature 0.1 -o study

    Some classes (or groups) are for calibration, others for new tasks. Every method computes its
    threshold from the same calibration tasks and is tested on the same new tasks. The output folder
    holds the rows, the table as Markdown, CSV and LaTeX, and a figure.

    An interrupted study resumes when it is started again with the same options.

    Parameters
    ----------
    data : DATA
        An .npz file with arrays x and y, and groups if each group is a task; vectors in an .npy or
        .parquet file with --labels; the folder of a run of 'metapac train'; glyphs, or a prepared
        data set.
    output : FOLDER
        Folder of the study.
    seeds : NUMBER
        Number of seeds. Each seed divides the classes, trains and draws tasks anew; with at least
        3, intervals cover all of that. By default 3, or 1 for a run.
    draws : NUMBER
        Calibration draws of each seed; a larger value extends a finished study.
    pools : NUMBERS|FILE
        Classes (or groups) for training, validation, calibration and test, as for 'metapac train';
        the names in a file are those of every seed. By default divided at random.
    epsilon : NUMBER
        Miss rate allowed on a task. [default: 0.1]
    alpha : NUMBER
        Fraction of new tasks that may exceed the miss rate.
    delta : NUMBER
        Failure probability of the guarantee.
    allow : NAME
        Check to skip: 'levels', if you do mean an epsilon or delta above 0.5, or an alpha above
        0.75.
    jobs : NUMBER
        Number of workers that share the draws; -1 uses all cores.
    """
    from metapac.fewshot.study.data_study import study_data

    guarantee = Guarantee(epsilon=epsilon, alpha=alpha, delta=delta)
    options: Any = {"guarantee": guarantee, "seeds": seeds, "draws": draws, "allow": allow}
    options |= {"pools": pools, "device": device, "home": home, "n_jobs": jobs}
    options |= {"tasks": tasks, "training": training, "embeddings": embeddings, "rng": rng}
    with console.progress_bar() as progress:
        result = study_data(data, output, **options, progress=progress)
    console.show(result, as_json=json, wrote=result.files)


def reproduce(
    name: str,
    *,
    output: Path | None = None,
    seeds: int | None = None,
    draws: int | None = None,
    epochs: int | None = None,
    controls: bool = False,
    device: str | None = None,
    jobs: int = 1,
    backend: str | None = None,
    rng: int = 0,
    home: Path | None = None,
    json: bool = False,
) -> None:
    """Run an experiment of the paper.

    Examples:

        metapac reproduce glyphs -o glyphs-run
        metapac reproduce glyphs --seeds 3 --controls -o glyphs-run

    The learner is trained anew with each seed, and every method is evaluated on the same
    calibration draws and new tasks of that seed. The table is about all seeds together; figures are
    drawn too.

    Prepare the data first with 'metapac data'; glyphs needs no data. An interrupted run resumes
    when it is started again with the same options.

    Parameters
    ----------
    name : NAME
        Experiment: glyphs, miniimagenet, miniimagenet-conv4-strong, miniimagenet-resnet12-strong,
        cifar10c, fewrel, heart or heart-distinct.
    output : FOLDER
        Folder of the run. By default NAME.
    seeds : NUMBER
        Number of training seeds; a larger value extends a finished run. With at least 3, intervals
        cover the training. By default 3, 1 for glyphs, 2 for cifar10c.
    draws : NUMBER
        Number of calibration draws of each seed; a larger value extends a finished run. By default
        34, 10 for glyphs, 50 for cifar10c. Three seeds of 34 draws have the paper's 100 together.
    epochs : NUMBER
        Maximum number of training epochs. By default as in the stored results.
    controls
        Also run the controls: new tasks from the calibration classes, so that there is no shift;
        calibration tasks with few examples; and Meta-CP with a predictor trained on what the
        learner has seen.
    jobs : NUMBER
        Number of workers that share the draws; -1 uses all cores.
    backend : NAME
        joblib backend of the workers: loky (processes) or threading.
    rng : SEED
        First seed; the others follow it.
    """
    run = require("metapac.fewshot.reproduce.run", extra="torch", purpose="metapac reproduce")
    folder = output or Path(name)
    options: Any = {"seeds": seeds, "draws": draws, "epochs": epochs, "controls": controls}
    options |= {"device": device, "n_jobs": jobs, "backend": backend, "rng": rng, "home": home}
    with console.progress_bar() as progress:
        result = run.reproduce_by_name(name, folder, **options, progress=progress)
    console.show(result, as_json=json, wrote=[folder])


def demo(
    *,
    output: Path = Path("metapac-demo"),
    data: str | None = None,
    draws: int | None = None,
    rng: int = 0,
) -> None:
    """Show what a guarantee says and what not.

    Example:

        metapac demo --data sites

    --data sites takes seconds: one model for many states, a rare class that the plain guarantee
    lets it miss, and what a guarantee per class costs. The other data compare ways to choose a
    threshold. Characters take a few minutes: a few-shot learner is trained on some, calibrated on
    others and evaluated on a third part. --data synthetic takes seconds; it is also what runs where
    torch is not installed.

    Parameters
    ----------
    output : FOLDER
        Folder for the table and the figures.
    data : sites|glyphs|synthetic
        A health survey in 53 states, images of characters (needs the extra torch), or synthetic
        tasks. By default characters, and synthetic tasks where torch is not installed.
    draws : NUMBER
        Number of calibration draws, 20 by default; not for sites.
    """
    require("matplotlib", extra="plot", purpose="metapac demo")
    from metapac.fewshot.reproduce import demos

    with console.progress_bar() as progress:
        result = demos.demonstrate(data, output, draws=draws, rng=rng, progress=progress)
    console.show(result, wrote=result.files)


# Options of prepare that apply to one data set only.
_SPECIFIC = {"fewrel": ("glove",), "heart": ("label", "state", "year", "leave_out")}


def list_(*, home: Path | None = None, json: bool = False) -> None:
    """List data sets with licence and local status.

    Example:

        metapac data list

    The status is absent, fetched, prepared or damaged.
    """
    rows = [entry.describe(home) for entry in CATALOGUE.values()]
    lines = ["{name} ({state}): {title}. Licence: {licence}.".format(**row) for row in rows]
    text = "\n".join([*lines, f"Data are stored in {data_home(home)}"])
    console.show(rows, as_json=json, text=text)


def fetch(name: str, *, home: Path | None = None) -> None:
    """Download a data set, or say how to do it by hand.

    Example:

        metapac data fetch cifar10c

    An interrupted download resumes. Files that the publisher never changes are verified.

    Parameters
    ----------
    name : NAME
        Data set: miniimagenet, cifar10c, fewrel or heart.
    """
    entry = get_data_set(name)
    try:
        with console.progress_bar(DownloadColumn()) as progress:
            folder = entry.fetch(home=home, progress=progress)
    finally:
        if entry.by_hand:
            console.print_line(entry.by_hand.format(folder=entry.source(home)))
    missing = entry.missing(folder)
    if missing and not entry.by_hand:
        raise InvalidInput(" ".join(missing))
    if not missing:
        console.print_line(f"Files in {folder}")
    console.print_line(f"Then run: metapac data prepare {name}")


def prepare(
    name: str,
    *,
    from_: Path | None = None,
    home: Path | None = None,
    glove: Path | None = None,
    label: str | None = None,
    state: str | None = None,
    year: str | None = None,
    leave_out: list[str] | None = None,
    json: bool = False,
) -> None:
    """Convert the publisher's files into a fast cache.

    Example:

        metapac data prepare miniimagenet --from downloads/mini

    The cache opens instantly. It is rebuilt only if the files have changed.

    Parameters
    ----------
    name : NAME
        Data set: miniimagenet, cifar10c, fewrel or heart.
    from_ : FOLDER
        Folder with the publisher's files. By default the one that 'metapac data fetch' fills.
    glove : FILE
        fewrel: file of word vectors. By default one in the folder.
    label : COLUMN
        heart: column of the labels.
    state : COLUMN
        heart: column of the states.
    year : COLUMN
        heart: column of the years.
    leave_out : COLUMN
        heart: feature to drop, such as _MICHD, which leaks the label.
    """
    entry = get_data_set(name)
    values = {"glove": glove, "label": label, "state": state, "year": year, "leave_out": leave_out}
    given: dict[str, Any] = {option: value for option, value in values.items() if value}
    for option in given:
        if option not in _SPECIFIC.get(name, ()):
            raise InvalidInput(f"{option} is not for {name}. Leave it out.", parameter=option)
    if leave_out:
        given["exclude"] = given.pop("leave_out")
    with console.progress_bar() as progress:
        prepared = entry.prepare(from_ or entry.source(home), home=home, progress=progress, **given)
    _show(name, prepared, json)


def check(
    name: str, *, from_: Path | None = None, home: Path | None = None, json: bool = False
) -> None:
    """Say what is complete, missing or damaged.

    Example:

        metapac data check miniimagenet

    The prepared data are checked or, if there are none, the publisher's files.

    Parameters
    ----------
    name : NAME
        Data set: miniimagenet, cifar10c, fewrel or heart.
    from_ : FOLDER
        Folder with the publisher's files. By default the one that 'metapac data fetch' fills.
    """
    entry = get_data_set(name)
    prepared = entry.find_prepared(home) if from_ is None else None
    if prepared is not None:
        prepared.verify()
        _show(name, prepared, json)
        return
    folder = from_ or entry.source(home)
    missing = entry.missing(folder)
    command = f"metapac data prepare {name}{'' if from_ is None else f' --from {folder}'}"
    if json or not missing:
        facts = {"name": name, "folder": str(folder), "missing": missing}
        text = f"{folder} has the files of {name}. To prepare them: {command}"
        console.show(facts, as_json=json, text=text)
    if missing:
        raise InvalidInput(" ".join(missing))


def _show(name: str, prepared: Any, json: bool) -> None:
    text = f"{CATALOGUE[name].title}\n{prepared}"
    console.show(prepared, as_json=json, text=text, name=name, missing=[])


_COMMANDS = {"list": list_, "fetch": fetch, "prepare": prepare, "check": check}
_SUMMARIES = {name: str(each.__doc__).partition("\n")[0] for name, each in _COMMANDS.items()}
data = Group(
    {"Commands": {name: (__name__, summary) for name, summary in _SUMMARIES.items()}},
    name="data",
    help="Fetch and prepare the paper's data sets.",
    no_args_is_help=True,
)
