"""The paper's protocol: many calibration draws, every method on the same new tasks of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral

import numpy as np

from metapac import _checks, _optional
from metapac._runs import lock_folder
from metapac._types import PathLike, Progress, Seed, ignore_progress
from metapac.evaluation.draws import Study
from metapac.evaluation.methods import Method, Rule, paper_methods
from metapac.evaluation.rows import Rows, evaluate_draw
from metapac.evaluation.store import EvaluationFolder, describe_evaluation
from metapac.exceptions import InvalidInput, Parameter
from metapac.guarantee import Guarantee
from metapac.tasks.seeds import spawn_rng, spawn_seed

_Job = tuple[Study, Sequence[Method], np.random.SeedSequence, int]


def evaluate(
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
    >>> from metapac.evaluation import SyntheticStudy, evaluate, summarise
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> rows = evaluate(SyntheticStudy(tasks=100, examples=50), guarantee=guarantee, draws=5)
    >>> [(line.method, line.verdict) for line in summarise(rows, guarantee)][-2:]
    [('Meta-PS joint', 'observed within'), ('oracle', 'observed within')]
    """
    draws = _checks.as_whole_number("draws", draws)
    methods = paper_methods(guarantee) if methods is None else tuple(methods)
    _check_workers(n_jobs)
    _check_names(methods)
    _check_epsilon(study, guarantee)
    if folder is None:
        return _evaluate(study, methods, draws, rng, None, n_jobs, backend, progress)
    seed = _as_integer(rng)
    settings = describe_evaluation(study, guarantee, methods, draws=draws, rng=seed)
    with lock_folder(folder, "metapac evaluation"):
        store = EvaluationFolder(folder, settings)
        return _evaluate(study, methods, draws, rng, store, n_jobs, backend, progress)


def _evaluate(
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
    joblib = _optional.require("joblib", extra="parallel", purpose="evaluate with workers")
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
        text = "{} must be a whole number of workers, or -1 for all cores, got {!r}."
        raise InvalidInput(text, Parameter("n_jobs"), n_jobs)


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
