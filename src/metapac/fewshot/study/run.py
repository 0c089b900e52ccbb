"""Running a study: draws in parallel, stored and resumed."""

from __future__ import annotations

import errno
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from numbers import Integral
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import numpy as np
import scipy

from metapac import artefact
from metapac._common import PathLike, Progress, Seed, as_whole_number, ignore_progress, require
from metapac._version import __version__
from metapac.artefact import lock_folder
from metapac.errors import BadArtefact, InvalidInput, keyword
from metapac.fewshot.drawing import spawn_rng, spawn_seed
from metapac.fewshot.study.draws import Study
from metapac.fewshot.study.methods import Method, Rule, paper_methods
from metapac.fewshot.study.rows import Rows, evaluate_draw, read_table, write_table
from metapac.fewshot.study.summary import Summary, summarise
from metapac.guarantee import Guarantee


class _Settings(TypedDict):
    guarantee: dict[Literal["epsilon", "alpha", "delta"], Any]
    draws: Annotated[int, lambda draws: draws >= 1]
    rng: Annotated[int, lambda rng: rng >= 0]
    methods: list[dict[str, Any]]
    study: Any
    versions: dict[str, Any]


FORMAT = artefact.Format(
    "metapac evaluation",
    written_by="run_study",
    remedy="Restore it from a backup, or run the study into another folder.",
    shape=_Settings,
)
SETTINGS, TABLE = "evaluation.json", "rows.csv.gz"
_MAY_DIFFER = ("draws", "versions.metapac", "study.notes")  # rules have versions of their own


def describe_evaluation(
    study: Study, guarantee: Guarantee, methods: Iterable[Method], *, draws: int, rng: int
) -> dict[str, Any]:
    """Return everything that the rows depend on, as JSON holds it."""
    settings = {
        "guarantee": {name: getattr(guarantee, name) for name in ("epsilon", "alpha", "delta")},
        "draws": draws,
        "rng": rng,
        "methods": [method.describe() for method in methods],
        "study": study.describe(),
        "versions": {
            "metapac": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
    }
    plain: dict[str, Any] = artefact.as_json("study.describe()", settings)
    return plain


class EvaluationFolder:
    """The files of one evaluation."""

    def __init__(self, path: PathLike, settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / SETTINGS).exists():
            known = read_settings(self.path)
            _check_versions(self.path, known["methods"], settings["methods"])
            # Before 0.3.0 no version was stored: the library's rules were what is now version 1.
            methods = [{"version": "1"} | method for method in known["methods"]]
            check_settings(self.path, known | {"methods": methods}, settings)
            self._check_draws(settings["draws"])
            settings = known | {"draws": settings["draws"]}
        artefact.write(self.path / SETTINGS, settings, FORMAT)
        # The name depends on the settings, so draws of other settings are never mixed in. Draw i
        # is the same however many there are.
        rest = {name: value for name, value in settings.items() if name != "draws"}
        self._draws = self.path / f"draws-{artefact.checksum(rest)[7:19]}"
        self._draws.mkdir(exist_ok=True)

    def _check_draws(self, draws: int) -> None:
        """Raise if the table of a finished evaluation would lose draws."""
        held = read_settings(self.path)["draws"]
        if held > draws and (self.path / TABLE).exists():
            raise InvalidInput(
                f"{self.path} already holds {held} draws, more than {keyword('draws', draws)}. "
                f"Pass at least {keyword('draws', held)}, or choose another folder."
            )

    def save_draw(self, number: int, rows: Rows) -> None:
        """Write one finished draw, completely or not at all."""
        write_table(self._file(number), rows)

    def load_draws(self, draws: int) -> dict[int, Rows]:
        """Return the finished draws; those with a damaged file count as not finished."""
        finished = {}
        for number in range(draws):
            try:
                finished[number] = read_table(self._file(number))
            except (FileNotFoundError, BadArtefact):
                continue
        return finished

    def save_table(self, rows: Rows) -> None:
        """Write the table of all draws."""
        write_table(self.path / TABLE, rows)

    def _file(self, number: int) -> Path:
        return self._draws / f"{number:05d}.csv.gz"


def check_settings(
    path: PathLike, old: dict[str, Any], new: dict[str, Any], what: str = "an evaluation"
) -> None:
    """Raise if two evaluations differ in a setting other than draws and metapac's version."""
    known, wanted = dict(_flatten(old)), dict(_flatten(new))
    for name in [*wanted, *known]:
        if name not in _MAY_DIFFER and known.get(name) != wanted.get(name):
            raise InvalidInput(
                f"{path} holds {what} with {name}={known.get(name)!r}, but this one "
                f"has {name}={wanted.get(name)!r}. Use the same settings, or another folder."
            )


def _check_versions(path: Path, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
    """Raise if a method has another version, or other code, than in the evaluation in a folder."""
    unknown = 'none stored before 0.3.0; pass Method(..., version="1") if the rule is the same'
    for known, method in zip(old, new, strict=False):
        if known["name"] == method["name"] and known.get("version", "1") != method["version"]:
            raise InvalidInput(
                f"{path} may hold rows of another rule: that of method {method['name']!r}, or a "
                f"value that it uses, has version {method['version']}, and before it had "
                f"{known.get('version', unknown)}. Use another folder, or delete this one."
            )


def _flatten(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting by its full name, such as guarantee.epsilon."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def read_settings(folder: PathLike) -> dict[str, Any]:
    """Return the settings of an evaluation: guarantee, seed, methods, study and versions."""
    path = Path(folder) / SETTINGS
    if not path.exists():
        reason = "no evaluation is here; pass a folder that run_study wrote to"
        raise FileNotFoundError(errno.ENOENT, reason, str(path))
    document = artefact.read(path, FORMAT)
    with artefact.decoding(path, FORMAT):
        Guarantee(**document["guarantee"])
    return {k: v for k, v in document.items() if k not in ("format", "schema", "metapac")}


def read_guarantee(folder: PathLike) -> Guarantee:
    """Return the guarantee that an evaluation was run at."""
    return Guarantee(**read_settings(folder)["guarantee"])


def read_rows(folder: PathLike) -> Rows:
    """Return the table of a finished evaluation."""
    read_settings(folder)  # a table without its settings is not a result
    path = Path(folder) / TABLE
    if not path.exists():
        reason = "the evaluation is not finished; call run_study again with the same settings"
        raise FileNotFoundError(errno.ENOENT, reason, str(path))
    return read_table(path)


_Job = tuple[Study, Sequence[Method], np.random.SeedSequence, int]


def run_study(
    study: Study,
    *,
    guarantee: Guarantee,
    methods: Sequence[Method] | None = None,
    draws: int = 100,
    rng: Seed = 0,
    folder: PathLike | None = None,
    n_jobs: int = 1,
    backend: str | None = None,
    progress: Progress | None = None,
) -> Rows:
    """Return error and set size of each method on the new tasks of each calibration draw.

    Draw i is the same, to the last bit, whether it runs alone, in parallel or after a restart.

    Parameters
    ----------
    study : Study
        Source of the draws.
    guarantee : Guarantee
        The guarantee to aim at.
    methods : sequence of Method, optional
        Methods to run; by default ``paper_methods(guarantee)``.
    draws : int, default 100
        Number of calibration draws; a larger value extends a finished evaluation.
    rng : int or numpy.random.Generator, default 0
        Seed; with ``folder`` it must be an int.
    folder : str or path, optional
        Keeps every finished draw, and the table at the end. Called again with the same settings,
        the evaluation resumes there.
    n_jobs : int, default 1
        Number of joblib workers; -1 uses all cores.
    backend : str, optional
        Backend of joblib, such as "loky", "threading" or "dask"; by default the study's
        ``preferred_backend``, or else "loky".
    progress : callable, optional
        Called as ``progress(stage, done, total)``, with ``total=None`` where it is not known.

    Returns
    -------
    Rows
        One row for each draw, method and new task.

    Raises
    ------
    InvalidInput
        If an argument is not valid, if the study predicts quantiles for another epsilon than the
        guarantee's, if the folder holds an evaluation with other settings, of a method whose rule
        has changed (see `Method`) or a table of more draws, or if another process is using it.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.fewshot import SyntheticStudy, run_study, summarise
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> rows = run_study(SyntheticStudy(tasks=100, examples=50), guarantee=guarantee, draws=5)
    >>> [(line.method, line.verdict) for line in summarise(rows, guarantee)][-2:]
    [('Meta-PS joint', 'observed within'), ('oracle', 'observed within')]
    """
    draws = as_whole_number("draws", draws)
    methods = paper_methods(guarantee) if methods is None else tuple(methods)
    _check_workers(n_jobs)
    _check_names(methods)
    _check_epsilon(study, guarantee)
    if folder is None:
        return _run_draws(study, methods, draws, rng, None, n_jobs, backend, progress)
    seed = _as_integer(rng)
    settings = describe_evaluation(study, guarantee, methods, draws=draws, rng=seed)
    with lock_folder(folder, "metapac evaluation"):
        store = EvaluationFolder(folder, settings)
        return _run_draws(study, methods, draws, rng, store, n_jobs, backend, progress)


def _run_draws(
    study: Study,
    methods: Sequence[Method],
    draws: int,
    rng: Seed,
    store: EvaluationFolder | None,
    n_jobs: int,
    backend: str | None,
    progress: Progress | None,
) -> Rows:
    """Return the rows of all draws, of which the store keeps each as soon as it is finished."""
    rows = store.load_draws(draws) if store else {}
    root_seed, report = _seed(rng), progress or ignore_progress
    jobs = [(study, methods, root_seed, i) for i in range(draws) if i not in rows]
    if jobs and hasattr(study, "prepare"):
        study.prepare(report)
    for number, finished in _run_parallel(jobs, n_jobs, backend):
        if store:
            store.save_draw(number, finished)
        rows[number] = finished
        report("draws", len(rows), draws)
    table = Rows.concatenate(rows[number] for number in range(draws))
    if store:
        store.save_table(table)
    return table


def _run(
    study: Study, methods: Sequence[Method], seed: np.random.SeedSequence, number: int
) -> tuple[int, Rows]:
    try:
        return number, evaluate_draw(number, study.draw(spawn_rng(seed, number)), methods)
    except Exception as error:
        error.add_note(f"This was draw {number}.")
        raise


def _run_parallel(
    jobs: Sequence[_Job], n_jobs: int, backend: str | None
) -> Iterator[tuple[int, Rows]]:
    """Yield draws as they finish, from this process or from joblib's workers."""
    if not jobs or (n_jobs == 1 and backend is None):
        yield from (_run(*job) for job in jobs)
        return
    joblib = require("joblib", extra="parallel", purpose="a study with workers")
    calls = [joblib.delayed(_run)(*job) for job in jobs]
    # Dask would send the study with each draw; scattered, it is sent once.
    options = {"scatter": [jobs[0][0]]} if backend == "dask" else {}
    chosen = backend or getattr(jobs[0][0], "preferred_backend", "loky")
    with joblib.parallel_config(backend=chosen, n_jobs=n_jobs, **options):
        workers = joblib.effective_n_jobs(n_jobs)
        try:
            parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
            workers = len(calls)
        except ValueError:  # multiprocessing and Ray return whole lists: one round at a time
            parallel = joblib.Parallel(batch_size=1)
    with parallel:
        for start in range(0, len(calls), workers):
            yield from parallel(calls[start : start + workers])


def _check_workers(n_jobs: object) -> None:
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise InvalidInput(
            f"n_jobs must be a whole number of workers, or -1 for all cores, got {n_jobs!r}.",
            parameter="n_jobs",
        )


def _check_names(methods: Sequence[Method]) -> None:
    for method in methods:
        if not isinstance(getattr(method, "rule", None), Rule):
            raise InvalidInput(
                f"methods must hold Method(name, Rule(choose), guarantee), where choose(draw, "
                f"guarantee) returns Chosen(thresholds, feasible), got {method!r}."
            )
    names = [(method.name, method.guarantee.delta) for method in methods]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated or not names:
        problem = "{!r} at delta={:g} twice".format(*repeated) if repeated else "none"
        raise InvalidInput(
            f"methods must be distinguishable by name and delta, got {problem}. "
            "Give each a distinct name or delta."
        )


def _check_epsilon(study: Study, guarantee: Guarantee) -> None:
    """Raise if Meta-CP would be judged at another epsilon than its predictor is trained for."""
    trained = getattr(study, "epsilon", None)
    if trained is not None and trained != guarantee.miss_rate:
        raise InvalidInput(
            f"the study predicts the quantiles of Meta-CP for epsilon={trained:g}, and the "
            f"guarantee has epsilon={guarantee.miss_rate:g}. Use one epsilon for both, such as "
            f"PoolStudy(..., epsilon={guarantee.miss_rate:g})."
        )


def _seed(rng: Seed) -> np.random.SeedSequence:
    return np.random.SeedSequence(int(rng)) if isinstance(rng, Integral) else spawn_seed(rng)


def _as_integer(rng: Seed) -> int:
    if not isinstance(rng, Integral):
        raise InvalidInput(
            f"rng must be a whole number if folder is given, got {rng!r}: an evaluation that "
            "resumes must draw the same again. Pass rng=0."
        )
    return int(rng)


def run_seeds(
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
        As in `run_study`; or if the folder holds more seeds.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.fewshot import SyntheticStudy, run_seeds
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> summary = run_seeds(
    ...     lambda seed: SyntheticStudy(tasks=60, examples=50, tests=10),
    ...     guarantee=guarantee, seeds=3, draws=2,
    ... )
    >>> summary.covers
    "95 % intervals, Student's t over 3 seeds: they cover what a seed changes, such as the \
division of the data or the training, and the calibration draws and new tasks, not what all seeds \
share, such as the data."
    """
    seeds = as_whole_number("seeds", seeds)
    rng = as_whole_number("rng", rng, minimum=0)
    options: dict[str, Any] = {"guarantee": guarantee, "methods": methods, "draws": draws}
    options |= {"n_jobs": n_jobs, "backend": backend}
    if folder is None:
        return _run_each(make_study, None, range(rng, rng + seeds), options, progress)
    with lock_folder(folder, "metapac study"):
        check_seeds(folder, rng, seeds)
        return _run_each(make_study, Path(folder), range(rng, rng + seeds), options, progress)


def _run_each(
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
        rows.append(run_study(study, **options, rng=seed, folder=place, progress=advance))
        notes |= dict.fromkeys(getattr(study, "notes", ()))
    return summarise(rows, options["guarantee"], notes=tuple(notes) or None)


def seed_folder(folder: PathLike, seed: int) -> Path:
    """Return the folder of one seed."""
    return Path(folder) / f"seed-{seed}"


def read_seeds(folder: PathLike) -> Summary:
    """Return the summary of a finished evaluation of several seeds."""
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
    """Return the seeds whose evaluation has begun in a folder."""
    paths = Path(folder).glob(f"seed-*/{SETTINGS}")
    numbers = [path.parent.name.removeprefix("seed-") for path in paths]
    return sorted(int(number) for number in numbers if number.isdecimal())


def check_seeds(folder: PathLike, rng: int, seeds: int) -> None:
    """Raise if a folder holds a seed that is not asked for, and that would be left out."""
    others = [seed for seed in find_seeds(folder) if not rng <= seed < rng + seeds]
    if others:
        first, last = min(rng, others[0]), max(rng + seeds - 1, others[-1])
        raise InvalidInput(
            f"{folder} already holds seed {others[0]}, and this call has the seeds {rng} to "
            f"{rng + seeds - 1}. Pass {keyword('rng', first)} and "
            f"{keyword('seeds', last - first + 1)}, or choose another folder."
        )
