"""Data sets: those of the paper, a sample of real survey data, and folders of images.

Prepare a data set of the paper with ``metapac data prepare NAME``; its loader then returns pools.
"""

from metapac.datasets.cifar10c.load import cifar10c
from metapac.datasets.fewrel.load import fewrel
from metapac.datasets.heart.load import heart, heart_groups
from metapac.datasets.miniimagenet.load import miniimagenet
from metapac.datasets.pools import LoadedPools, load_pools
from metapac.datasets.sample.load import sites_sample
from metapac.datasets.store.cache import Prepared
from metapac.datasets.store.images import image_folder

__all__ = [
    "LoadedPools",
    "Prepared",
    "cifar10c",
    "fewrel",
    "heart",
    "heart_groups",
    "image_folder",
    "load_pools",
    "miniimagenet",
    "sites_sample",
]
