"""Open the monitor in a state file, for one process at a time, and save it at the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from metapac._types import PathLike
from metapac.base import ThresholdSets
from metapac.exceptions import InvalidInput, Parameter
from metapac.monitoring import state
from metapac.monitoring.monitor import FALSE_ALARM, Monitor
from metapac.monitoring.terms import Terms


@contextmanager
def open_monitor(
    path: PathLike,
    promise: ThresholdSets,
    *,
    false_alarm: float | None = None,
    min_examples: int | None = None,
) -> Iterator[Monitor]:
    """Open the monitor in a state file, or start a new one, and save it at the end.

    Meanwhile, other processes cannot update the file. After an exception, the file is unchanged.

    Parameters
    ----------
    path : str or path
        State file.
    promise : MetaPS
        The calibrated predictor.
    false_alarm : float, optional
        As in `Monitor`, 0.01 for a new file; that of an existing file cannot be changed.
    min_examples : int, optional
        As in `Monitor`, 0 for a new file; that of an existing file cannot be changed.

    Yields
    ------
    Monitor
        The monitor.

    Raises
    ------
    InvalidInput
        If the file is for another guarantee or other parameters, or is in use.
    BadArtefact
        If it is not a state file, or damaged.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from metapac import MetaPS, Monitor
    >>> from metapac.monitoring import open_monitor
    >>> rng = np.random.default_rng(0)
    >>> promise = MetaPS(epsilon=0.1, alpha=0.2, delta=0.1)
    >>> promise = promise.calibrate(rng.random(4000), np.repeat(np.arange(40), 100))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "monitor.json")
    ...     for month in ("2026-01", "2026-02"):
    ...         tasks = np.repeat([f"{month} {i}" for i in range(3)], 100)
    ...         with open_monitor(path, promise) as monitor:
    ...             added = monitor.add(rng.random(300), tasks, batch=month)
    ...     Monitor.load(path).batches
    ['2026-01', '2026-02']
    """
    with state.locking(path):
        if Path(path).exists():
            monitor = Monitor.load(path, promise)
            if min_examples is not None:  # the guarantee may leave out more
                rate = monitor.terms.false_alarm
                min_examples = Terms.from_promise(promise, rate, min_examples).min_examples
            _check_terms(path, monitor.terms, false_alarm, min_examples)
        else:
            rate = FALSE_ALARM if false_alarm is None else false_alarm
            monitor = Monitor(promise, false_alarm=rate, min_examples=min_examples or 0)
        yield monitor
        monitor.save(path)


def _check_terms(
    path: PathLike, terms: Terms, false_alarm: float | None, min_examples: int | None
) -> None:
    """Raise if a parameter differs from the one stored in the file."""
    for name, value in (("false_alarm", false_alarm), ("min_examples", min_examples)):
        fixed = getattr(terms, name)
        if value is not None and value != fixed:
            raise InvalidInput(
                "{} must stay at {!r}, with which {} was begun, got {!r}: an alarm would mean "
                "nothing if its level could be chosen afterwards. Leave it out.",
                Parameter(name),
                fixed,
                path,
                value,
            )
