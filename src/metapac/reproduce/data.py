"""Data pools of the experiments."""

from __future__ import annotations

from metapac.datasets.pools import LoadedPools, load_pools
from metapac.datasets.store import cache
from metapac.reproduce.experiments import Experiment

_POOLS = ("train", "validation", "calibration", "test")
_CHARACTERS = (100, 20, 60, 60)  # of the glyphs, in each pool


def load(experiment: Experiment, *, home: cache.Home = None) -> LoadedPools:
    """Return the pools of an experiment.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    home : path_like, optional
        Folder of prepared data; by default $METAPAC_DATA, or ``metapac`` in the user's cache
        folder.

    Returns
    -------
    LoadedPools
        The pools, and a checksum of the data.

    Raises
    ------
    FileNotFoundError
        If the data are not prepared; the message says how to do that.
    """
    counts = _CHARACTERS if experiment.data == "glyphs" else experiment.groups
    return load_pools(
        experiment.data,
        sizes=dict(zip(_POOLS, counts, strict=True)),
        min_size=experiment.min_group_size or None,
        home=home,
    )
