"""Prediction sets with a guarantee for every new task, not on average over tasks."""

from metapac._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
