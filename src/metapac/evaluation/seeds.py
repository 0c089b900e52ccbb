"""Several training seeds in one call, so that intervals also cover the training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from metapac import _checks
from metapac._runs import lock_folder
from metapac._types import PathLike, Progress, ignore_progress
from metapac.evaluation.draws import Study
from metapac.evaluation.methods import Method
from metapac.evaluation.run import evaluate
from metapac.evaluation.store import SETTINGS, read_guarantee, read_rows, read_settings
from metapac.evaluation.summary import Summary, summarise
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Guarantee


def evaluate_seeds(
    make_study: Callable[[int], Study],
    *,
    guarantee: Guarantee,
    seeds: int = 3,
    methods: Sequence[Method] | None = None,
    draws: int = 100,
    rng: int = 0,
    folder: PathLike | None = None,
    n_jobs: int = 1,
    backend: str | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Evaluate the studies of several training seeds, and summarise them together.

    Each seed has its own draws, so that the results of the seeds are independent given the data.

    Parameters
    ----------
    make_study : callable
        Takes a seed and returns the study of a learner that was trained with it. It may divide the
        data anew; the intervals then cover the division too.
    guarantee : Guarantee
        The guarantee to aim at.
    seeds : int, default 3
        Number of training seeds. From three on, intervals cover the training.
    methods : sequence of Method, optional
        Methods to run; by default ``paper_methods(guarantee)``.
    draws : int, default 100
        Number of calibration draws of each seed.
    rng : int, default 0
        The first seed; the others follow it.
    folder : str or path, optional
        Keeps every finished draw of seed i in ``folder/seed-i``, where an interrupted evaluation
        resumes. More seeds or draws extend a finished one.
    n_jobs : int, default 1
        Number of joblib workers; -1 uses all cores.
    backend : str, optional
        Backend of joblib, such as "loky", "threading" or "dask".
    progress : callable, optional
        Called as ``progress(stage, done, total)``, with ``total=None`` where it is not known.

    Returns
    -------
    Summary
        One line for each method, and ``rows`` with a table for each seed.

    Raises
    ------
    InvalidInput
        As in `evaluate`; or if the folder holds more seeds.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate_seeds
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> summary = evaluate_seeds(
    ...     lambda seed: SyntheticStudy(tasks=60, examples=50, tests=10),
    ...     guarantee=guarantee, seeds=3, draws=2,
    ... )
    >>> summary.covers
    "95 % intervals, Student's t over 3 seeds: they cover what a seed changes, such as the \
division of the data or the training, and the calibration draws and new tasks, not what all seeds \
share, such as the data."
    """
    seeds = _checks.as_whole_number("seeds", seeds)
    rng = _checks.as_whole_number("rng", rng, minimum=0)
    options: dict[str, Any] = {"guarantee": guarantee, "methods": methods, "draws": draws}
    options |= {"n_jobs": n_jobs, "backend": backend}
    if folder is None:
        return _evaluate(make_study, None, range(rng, rng + seeds), options, progress)
    with lock_folder(folder, "metapac study"):
        check_seeds(folder, rng, seeds)
        return _evaluate(make_study, Path(folder), range(rng, rng + seeds), options, progress)


def _evaluate(
    make_study: Callable[[int], Study],
    folder: Path | None,
    seeds: range,
    options: dict[str, Any],
    progress: Progress | None,
) -> Summary:
    report, rows = progress or ignore_progress, []
    notes: dict[str, None] = {}
    for seed in seeds:

        def advance(stage: str, done: int, total: int | None, seed: int = seed) -> None:
            report(f"seed {seed}: {stage}", done, total)

        advance("making the study", 0, None)
        study = make_study(seed)
        place = None if folder is None else seed_folder(folder, seed)
        rows.append(evaluate(study, **options, rng=seed, folder=place, progress=advance))
        notes |= dict.fromkeys(getattr(study, "notes", ()))
    return summarise(rows, options["guarantee"], notes=tuple(notes) or None)


def seed_folder(folder: PathLike, seed: int) -> Path:
    """Return the folder of one seed.

    Parameters
    ----------
    folder : str or path
        Folder of the evaluation.
    seed : int
        The seed.

    Returns
    -------
    Path
        The folder.
    """
    return Path(folder) / f"seed-{seed}"


def read_seeds(folder: PathLike) -> Summary:
    """Return the summary of a finished evaluation of several seeds.

    Parameters
    ----------
    folder : str or path
        Folder that ``evaluate_seeds`` or ``metapac study`` wrote to.

    Returns
    -------
    Summary
        One line for each method, and ``rows`` with a table for each seed.

    Raises
    ------
    FileNotFoundError
        If there is no evaluation, or one that is not finished.

    Examples
    --------
    >>> import tempfile
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate_seeds, read_seeds
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     summary = evaluate_seeds(
    ...         lambda seed: SyntheticStudy(tasks=60, examples=50, tests=10),
    ...         guarantee=guarantee, seeds=2, draws=2, folder=folder,
    ...     )
    ...     read_seeds(folder).seeds
    2
    """
    folders = [seed_folder(folder, seed) for seed in find_seeds(folder)]
    if not folders:
        read_settings(folder)  # says that no evaluation is here
        raise InvalidInput(
            f"{folder} holds the evaluation of a single study. Read it with read_rows(folder)."
        )
    studies = [read_settings(each)["study"] for each in folders]
    notes = [note for study in studies for note in _notes(study)]
    rows = [read_rows(each) for each in folders]
    return summarise(rows, read_guarantee(folders[0]), notes=tuple(dict.fromkeys(notes)) or None)


def _notes(study: Any) -> list[str]:
    return list(study.get("notes", [])) if isinstance(study, dict) else []


def find_seeds(folder: PathLike) -> list[int]:
    """Return the seeds whose evaluation has begun in a folder.

    Parameters
    ----------
    folder : str or path
        Folder of the evaluation.

    Returns
    -------
    list of int
        The seeds, in order.
    """
    paths = Path(folder).glob(f"seed-*/{SETTINGS}")
    numbers = [path.parent.name.removeprefix("seed-") for path in paths]
    return sorted(int(number) for number in numbers if number.isdecimal())


def check_seeds(folder: PathLike, rng: int, seeds: int) -> None:
    """Raise if a folder holds a seed that is not asked for, and that would be left out.

    Parameters
    ----------
    folder : str or path
        Folder of the evaluation.
    rng : int
        The first seed.
    seeds : int
        Number of seeds.

    Raises
    ------
    InvalidInput
        If it does.
    """
    others = [seed for seed in find_seeds(folder) if not rng <= seed < rng + seeds]
    if others:
        first, last = min(rng, others[0]), max(rng + seeds - 1, others[-1])
        raise InvalidInput(
            "{} already holds seed {}, and this call has the seeds {} to {}. Pass {} and {}, or "
            "choose another folder.",
            folder,
            others[0],
            rng,
            rng + seeds - 1,
            Parameter("rng", first),
            Parameter("seeds", last - first + 1),
        )
