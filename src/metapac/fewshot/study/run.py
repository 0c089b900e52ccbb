"""Running a study: draws in parallel, stored and resumed."""

from __future__ import annotations

import errno
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext, suppress
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from metapac import _common, artefact
from metapac._common import PathLike, Progress, Seed, ignore_progress
from metapac._version import __version__
from metapac.artefact import lock_folder
from metapac.errors import BadArtefact, InvalidInput, keyword
from metapac.fewshot.study.draws import Study
from metapac.fewshot.study.methods import Method, paper_methods
from metapac.fewshot.study.rows import Rows, evaluate_draw, read_table, write_table
from metapac.fewshot.study.summary import Summary, summarise
from metapac.fewshot.tasks import spawn_rng, spawn_seed
from metapac.guarantee import Guarantee

_REMEDY = "Restore it from a backup, or run the study into another folder."
FORMAT = artefact.Format("metapac evaluation", "run_study", _REMEDY)
SETTINGS, TABLE = "evaluation.json", "rows.csv.gz"
_MAY_DIFFER = ("draws", "versions.metapac", "study.notes")  # rules have versions of their own


def describe_evaluation(
    study: Study, guarantee: Guarantee, methods: Iterable[Method], *, draws: int, rng: int
) -> dict[str, Any]:
    """Return everything that the rows depend on, as JSON holds it."""
    versions = {"metapac": __version__, "numpy": np.__version__, "scipy": scipy.__version__}
    settings = {
        "guarantee": {name: getattr(guarantee, name) for name in ("epsilon", "alpha", "delta")},
        "draws": draws,
        "rng": rng,
        "methods": [method.describe() for method in methods],
        "study": study.describe(),
        "versions": versions | {"python": platform.python_version()},
    }
    return dict(artefact.as_json("study.describe()", settings))


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
            held, draws = known["draws"], settings["draws"]
            if held > draws and (self.path / TABLE).exists():
                fewer = f"{self.path} holds more draws than {keyword('draws', draws)}"
                raise InvalidInput(f"{fewer}: pass {keyword('draws', held)} or another folder.")
            settings = known | {"draws": draws}
        artefact.write(self.path / SETTINGS, settings, FORMAT)
        # The name depends on the settings, so draws of other settings are never mixed in. Draw i
        # is the same however many there are.
        rest = {name: value for name, value in settings.items() if name != "draws"}
        self._draws = self.path / f"draws-{artefact.checksum(rest)[7:19]}"
        self._draws.mkdir(exist_ok=True)

    def load_draws(self, draws: int) -> dict[int, Rows]:
        """Return the finished draws; those with a damaged file count as not finished."""
        finished = {}
        for number in range(draws):
            with suppress(FileNotFoundError, BadArtefact):
                finished[number] = read_table(self.name_draw(number))
        return finished

    def name_draw(self, number: int) -> Path:
        return self._draws / f"{number:05d}.csv.gz"


def check_settings(
    path: PathLike, old: dict[str, Any], new: dict[str, Any], what: str = "an evaluation"
) -> None:
    """Raise if two evaluations differ in a setting other than draws and metapac's version."""
    known, wanted = dict(_flatten(old)), dict(_flatten(new))
    for name in [*wanted, *known]:
        if name not in _MAY_DIFFER and known.get(name) != wanted.get(name):
            first, second = (f"{name}={each.get(name)!r}" for each in (known, wanted))
            rule = f"{path} holds {what} with {first}, but this one has {second}"
            raise InvalidInput(f"{rule}. Use the same settings, or another folder.")


def _check_versions(path: Path, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
    """Raise if a method has another version, or other code, than in the evaluation in a folder."""
    unknown = 'none; pass Method(..., version="1") if the rule is the same'  # before 0.3.0
    for known, method in zip(old, new, strict=False):
        if known["name"] == method["name"] and known.get("version", "1") != method["version"]:
            differs = f"method {method['name']!r}, or a value that it uses, has version"
            text = f"{differs} {method['version']}; before it had {known.get('version', unknown)}"
            raise InvalidInput(f"{path} may hold rows of another rule: {text}. Use a new folder.")


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
    return {k: v for k, v in document.items() if k not in ("format", "schema", "metapac")}


def read_guarantee(folder: PathLike) -> Guarantee:
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
        If an argument is not valid, if the study predicts quantiles for another epsilon, or if the
        folder is in use, or holds more draws, other settings or another version of a rule.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.fewshot import SyntheticStudy, run_study
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> len(run_study(SyntheticStudy(tests=3), guarantee=guarantee, draws=2).select("PS").size)
    6
    """
    draws = _common.as_whole_number("draws", draws)
    methods = paper_methods(guarantee) if methods is None else tuple(methods)
    _check_run(study, guarantee, methods, n_jobs)
    report, store, rows = progress or ignore_progress, None, {}
    with ExitStack() as stack:
        if folder is not None:
            if not isinstance(rng, Integral):
                raise InvalidInput(f"rng must be a whole number if folder is given, got {rng!r}.")
            settings = describe_evaluation(study, guarantee, methods, draws=draws, rng=int(rng))
            stack.enter_context(lock_folder(folder, "metapac evaluation"))
            store = EvaluationFolder(folder, settings)
            rows = store.load_draws(draws)
        seed = np.random.SeedSequence(int(rng)) if isinstance(rng, Integral) else spawn_seed(rng)
        jobs = [(study, methods, seed, i) for i in range(draws) if i not in rows]
        if jobs and hasattr(study, "prepare"):
            study.prepare(report)
        for number, finished in _run_parallel(jobs, n_jobs, backend):
            if store:  # keeps each draw as soon as it is finished, completely or not at all
                write_table(store.name_draw(number), finished)
            rows[number] = finished
            report("draws", len(rows), draws)
        table = Rows.concatenate(rows[number] for number in range(draws))
        if store:
            write_table(store.path / TABLE, table)
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
    joblib = _common.require("joblib", extra="parallel", purpose="a study with workers")
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


def _check_run(study: Study, guarantee: Guarantee, methods: Sequence[Any], n_jobs: Any) -> None:
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        rule = f"n_jobs must be a number of workers, or -1 for all cores, got {n_jobs!r}."
        raise InvalidInput(rule, parameter="n_jobs")
    for method in methods:
        if not isinstance(method, Method):
            raise InvalidInput(f"methods must hold Method(name, rule, guarantee), got {method!r}.")
    names = [(method.name, method.guarantee.delta) for method in methods]
    if not names or len({*names}) < len(names):
        raise InvalidInput(f"methods must have distinct names or deltas, got {names}.")
    trained = getattr(study, "epsilon", None)  # what Meta-CP's predictor is trained for
    if trained not in (None, guarantee.miss_rate):
        given = f"epsilon={guarantee.miss_rate:g}, and the study predicts for epsilon={trained:g}"
        raise InvalidInput(f"guarantee has {given}; they must be equal.")


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
        As in `run_study`.
    draws : int, default 100
        Number of calibration draws of each seed.
    rng : int, default 0
        The first seed; the others follow it.
    folder : str or path, optional
        Keeps every finished draw of seed i in ``folder/seed-i``, where an interrupted evaluation
        resumes. More seeds or draws extend a finished one.
    n_jobs, backend, progress : object, optional
        As in `run_study`.

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
    >>> study = SyntheticStudy(tasks=60, examples=50, tests=10)
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> run_seeds(lambda seed: study, guarantee=guarantee, draws=2).covers[:43]
    "95% intervals, Student's t over 3 seeds: th"
    """
    seeds = _common.as_whole_number("seeds", seeds)
    rng = _common.as_whole_number("rng", rng, minimum=0)
    options: Any = {"guarantee": guarantee, "methods": methods, "draws": draws}
    options |= {"n_jobs": n_jobs, "backend": backend}
    rows: list[Rows] = []
    notes: dict[str, None] = {}

    with nullcontext() if folder is None else lock_folder(folder, "metapac study"):
        if folder is not None:
            check_seeds(folder, rng, seeds)
        for seed in range(rng, rng + seeds):
            report = _common.name_progress(progress, f"seed {seed}")
            report("making the study", 0, None)
            study = make_study(seed)
            place = None if folder is None else seed_folder(folder, seed)
            rows.append(run_study(study, **options, rng=seed, folder=place, progress=report))
            notes |= dict.fromkeys(getattr(study, "notes", ()))
            del study  # before the next one is made
    return summarise(rows, guarantee, notes=tuple(notes) or None)


def seed_folder(folder: PathLike, seed: int) -> Path:
    return Path(folder) / f"seed-{seed}"


def find_seeds(folder: PathLike) -> list[int]:
    paths = Path(folder).glob(f"seed-*/{SETTINGS}")
    numbers = [path.parent.name.removeprefix("seed-") for path in paths]
    return sorted(int(number) for number in numbers if number.isdecimal())


def check_seeds(folder: PathLike, rng: int, seeds: int) -> None:
    """Raise if a folder holds a seed that is not asked for, and that would be left out."""
    others = [seed for seed in find_seeds(folder) if not rng <= seed < rng + seeds]
    if others:
        first, last = min(rng, others[0]), max(rng + seeds - 1, others[-1])
        remedy = f"pass {keyword('rng', first)} and {keyword('seeds', last - first + 1)}"
        held = f"already holds seed {others[0]}: {remedy}, or choose another folder"
        raise InvalidInput(f"{folder} {held}.")
