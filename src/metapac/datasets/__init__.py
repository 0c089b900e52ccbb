"""The data sets of the paper, from their publishers' files.

Prepare one with ``metapac data prepare NAME``; then its loader returns pools at once.
"""

from metapac.datasets.cache import Prepared
from metapac.datasets.cifar10c import cifar10c
from metapac.datasets.fewrel import fewrel
from metapac.datasets.heart import heart, heart_groups
from metapac.datasets.images import image_folder
from metapac.datasets.miniimagenet import miniimagenet

__all__ = [
    "Prepared",
    "cifar10c",
    "fewrel",
    "heart",
    "heart_groups",
    "image_folder",
    "miniimagenet",
]
