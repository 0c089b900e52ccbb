"""The paper's protocol: many calibration draws, every method on the same new tasks of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from numbers import Integral
from typing import Any

import numpy as np

from metapac import _checks
from metapac.evaluation.draws import Study
from metapac.evaluation.folder import EvaluationFolder, describe
from metapac.evaluation.methods import Method, paper_methods
from metapac.evaluation.rows import Rows, judge
from metapac.guarantee import Guarantee
from metapac.tasks._seeds import Seed, child, root


def evaluate(
    study: Study,
    *,
    guarantee: Guarantee,
    methods: Sequence[Method] | None = None,
    draws: int = 100,
    rng: Seed = 0,
    folder: str | os.PathLike[str] | None = None,
    n_jobs: int = 1,
    backend: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> Rows:
    """Return error and size of each method on the new tasks of each calibration draw.

    Draw i is the same alone, in parallel, and after a resume, to the last bit. With ``folder``
    every finished draw is kept there, a call with the same settings goes on where the last one
    was stopped, and the table is written at the end. ``n_jobs`` workers of joblib share the
    draws; ``backend="dask"``, or ``"ray"`` where it is registered, sends them to a cluster.
    ``progress`` is told how many draws are done.
    """
    draws = _checks.whole_number("draws", draws)
    methods = paper_methods(guarantee) if methods is None else tuple(methods)
    _check_workers(n_jobs)
    _check_names(methods)
    store = None
    if folder is not None:
        settings = describe(study, guarantee, methods, draws=draws, rng=_whole_seed(rng))
        store = EvaluationFolder(folder, settings)
    found = store.finished(draws) if store else {}
    seed = _seed(rng)
    jobs = [(study, methods, seed, number) for number in range(draws) if number not in found]
    for number, rows in _spread(jobs, n_jobs, backend):
        if store:
            store.keep(number, rows)
        found[number] = rows
        if progress:
            progress(len(found))
    table = Rows.joined(found[number] for number in range(draws))
    if store:
        store.finish(table)
    return table


Job = tuple[Study, Sequence[Method], np.random.SeedSequence, int]


def _trial(
    study: Study, methods: Sequence[Method], seed: np.random.SeedSequence, number: int
) -> tuple[int, Rows]:
    try:
        return number, judge(number, study.draw(child(seed, number)), methods)
    except Exception as error:
        error.add_note(f"This was draw {number}.")
        raise


def _spread(jobs: Sequence[Job], n_jobs: int, backend: str | None) -> Iterator[tuple[int, Rows]]:
    """Yield finished draws as they come, from this process or from joblib's workers."""
    if not jobs or (n_jobs == 1 and backend is None):
        yield from (_trial(*job) for job in jobs)
        return
    joblib = _joblib()
    calls = [joblib.delayed(_trial)(*job) for job in jobs]
    # Dask would send the study again with each draw; scattered, it travels once.
    options = {"scatter": [jobs[0][0]]} if backend == "dask" else {}
    with joblib.parallel_config(backend=backend or "loky", n_jobs=n_jobs, **options):
        workers = joblib.effective_n_jobs(n_jobs)
        try:
            parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
            workers = len(calls)
        except ValueError:  # multiprocessing and Ray hand back whole lists: one round at a time
            parallel = joblib.Parallel(batch_size=1)
    with parallel:
        for start in range(0, len(calls), workers):
            yield from parallel(calls[start : start + workers])


def _joblib() -> Any:
    try:
        return import_module("joblib")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "draws in parallel need joblib. Install it with: pip install 'metapac[parallel]', or "
            "pass n_jobs=1 and no backend."
        ) from error


def _check_workers(n_jobs: object) -> None:
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise ValueError(
            f"n_jobs must be a whole number of workers, or -1 for one on each core, got {n_jobs!r}."
        )


def _check_names(methods: Sequence[Method]) -> None:
    names = [(method.name, method.guarantee.delta) for method in methods]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated or not names:
        found = "{!r} at delta={:g} twice".format(*repeated) if repeated else "none"
        raise ValueError(
            f"methods must have names that rows can tell apart, got {found}. "
            "Give each its own name or delta."
        )


def _seed(rng: Seed) -> np.random.SeedSequence:
    return np.random.SeedSequence(int(rng)) if isinstance(rng, Integral) else root(rng)


def _whole_seed(rng: Seed) -> int:
    if not isinstance(rng, Integral):
        raise ValueError(
            f"rng must be a whole number where folder is given, got {rng!r}: an evaluation that "
            "goes on has to draw the same again. Pass rng=0."
        )
    return int(rng)
