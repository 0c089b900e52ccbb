"""The data that ``metapac train`` and ``metapac study`` train on."""

from __future__ import annotations

from typing import Any

from metapac._checks import listed
from metapac.cli.console import format_count
from metapac.datasets.pools import LoadedPools, load_pools


def load_training_pools(
    data: str, *, shots: int, queries: int, **options: Any
) -> tuple[LoadedPools, tuple[str, ...]]:
    """Return pools whose classes or groups are all large enough for a task of training.

    Smaller ones are left out of all pools. They would otherwise be noticed after training, when
    calibration tasks are drawn.

    Parameters
    ----------
    data : str
        The data, as `load_pools` takes them.
    shots, queries : int
        Support and query examples per class or group.
    **options
        Arguments of `load_pools`.

    Returns
    -------
    loaded : LoadedPools
        The pools.
    notes : tuple of str
        A sentence that names those that are left out; empty if there are none.
    """
    # The surveys of heart are divided by year; its state-years have thousands of respondents.
    minimum = None if data == "heart" else shots + queries
    loaded = load_pools(data, min_size=minimum, **options)
    if not loaded.left_out:
        return loaded, ()
    noun = ("class", "classes") if loaded.pools.train.unit == "class" else ("group",)
    found = [f"{name!r} with {size}" for name, size in loaded.left_out.items()]
    note = (
        f"left out {format_count(len(found), *noun)} with fewer than {minimum} examples, the "
        f"{shots} shots + {queries} queries of a training task: {listed(found)}."
    )
    return loaded, (note,)
