"""``metapac study``, ``metapac reproduce`` and ``metapac demo``: methods compared."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from metapac._common import check_one_of, require, warn
from metapac.cli import console
from metapac.errors import InvalidInput, MissingExtra, keyword
from metapac.fewshot.options import Embeddings, StudyTasks, Training
from metapac.guarantee import Epsilon, Guarantee


def study(
    data: str,
    *,
    output: Path = Path("study"),
    seeds: int | None = None,
    draws: int = 20,
    epsilon: Epsilon = 0.1,
    alpha: float = 0.1,
    delta: float | None = 0.05,
    allow: Sequence[str] = (),
    tasks: StudyTasks,
    training: Annotated[Training, "learner backbone recipe epochs episodes"],
    embeddings: Annotated[Embeddings, "labels groups columns metric temperature penalty"],
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

    with console.progress_bar() as progress:
        result = study_data(
            data,
            output,
            guarantee=Guarantee(epsilon=epsilon, alpha=alpha, delta=delta),
            seeds=seeds,
            draws=draws,
            tasks=tasks,
            training=training,
            embeddings=embeddings,
            device=device,
            home=home,
            n_jobs=jobs,
            rng=rng,
            allow=allow,
            progress=progress,
        )
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
    with console.progress_bar() as progress:
        result = run.reproduce_by_name(
            name,
            folder,
            seeds=seeds,
            draws=draws,
            epochs=epochs,
            controls=controls,
            device=device,
            n_jobs=jobs,
            backend=backend,
            rng=rng,
            home=home,
            progress=progress,
        )
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

    data = _choose_data() if data is None else data
    check_one_of("data", data, ("sites", "glyphs", "synthetic"))
    with console.progress_bar() as progress:
        given: dict[str, Any] = {"rng": rng, "progress": progress}
        if data != "sites":
            given |= {} if draws is None else {"draws": draws}
            methods = demos.demonstrate_methods(data, output, **given)
        elif draws is None:
            sites, files = demos.demonstrate_sites(output, **given)
        else:
            raise InvalidInput(f"{keyword('draws', draws)} does not apply to data='sites'.")
    if data != "sites":
        console.show(methods, wrote=methods.files)
        return
    command = f"metapac show {shlex.quote(str(files[1]))}"
    console.show(sites, text=f"{sites}\n\nIn full, with its limits: {command}", wrote=files)


def _choose_data() -> str:
    """Return the characters, or synthetic tasks if the packages that they need are missing."""
    try:
        for module in ("torch", "safetensors"):
            require(module, extra="torch", purpose="the demo with characters")
    except MissingExtra as error:
        warn(f"{error}. Running the demo with synthetic tasks instead.")
        return "synthetic"
    return "glyphs"
