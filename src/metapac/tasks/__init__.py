"""Few-shot tasks, and the pools of classes or groups that they are drawn from."""

from metapac.tasks.glyphs import glyphs
from metapac.tasks.pools import ClassPool, GroupPool, Pools, split_classes, split_groups
from metapac.tasks.task import Task

__all__ = ["ClassPool", "GroupPool", "Pools", "Task", "glyphs", "split_classes", "split_groups"]
