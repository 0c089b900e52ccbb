"""Few-shot tasks, and the pools of classes, groups or domains that they are drawn from."""

from metapac.tasks.class_pool import ClassPool
from metapac.tasks.domain_pool import DomainPool
from metapac.tasks.glyphs import glyphs
from metapac.tasks.group_pool import GroupPool
from metapac.tasks.lazy import LazyArray
from metapac.tasks.pools import Pools, split_classes, split_domains, split_groups
from metapac.tasks.reuse import ClassReuse, class_reuse
from metapac.tasks.task import Task

__all__ = [
    "ClassPool",
    "ClassReuse",
    "DomainPool",
    "GroupPool",
    "LazyArray",
    "Pools",
    "Task",
    "class_reuse",
    "glyphs",
    "split_classes",
    "split_domains",
    "split_groups",
]
