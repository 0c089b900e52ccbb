"""Griffe extension: keep types such as ``ndarray, shape (n,)`` as they are written.

Griffe would take them for Python, a tuple of a name and a call.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_SHAPE = re.compile(r"^(\s*(?:[\w*]+(?:, [\w*]+)* : )?\w+), shape \(", re.MULTILINE)


class Shapes(griffe.Extension):
    """Rewrite ``ndarray, shape (n,)`` as ``ndarray of shape (n,)``, which is no Python."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Rewrite the docstring of an object."""
        if obj.docstring is not None:
            obj.docstring.value = _SHAPE.sub(r"\1 of shape (", obj.docstring.value)
