"""Prediction sets that hold up at new sites, not only on average."""

from metapac._lazy import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__)
