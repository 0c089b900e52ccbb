"""The columns that a promise or a site file stores: names of columns, and the order of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metapac._checks import brief
from metapac.exceptions import InvalidInput

_MEANINGS = ("task", "score", "label", "classes_column", "prediction", "y", "scale")


def find_names(*reserved: str, **columns: Any) -> dict[str, str]:
    """Return the names of Series by their meaning, if all have one, and no two the same."""
    names = {meaning: getattr(column, "name", None) for meaning, column in columns.items()}
    texts = {meaning: name for meaning, name in names.items() if isinstance(name, str) and name}
    distinct = {*reserved, *texts.values()}
    return texts if len(distinct) == len(reserved) + len(columns) else {}


def check_columns(columns: Mapping[str, Any] | None, classes: Sequence[Any] | None) -> None:
    """Raise InvalidInput for columns that no calibration stores.

    ``classes`` are those of the evidence, if the guarantee is per class. The schema of the file has
    checked types already.
    """
    if columns is None:
        return
    _check_distinct_columns(columns)
    named = columns.get("classes")
    if named is None:
        return
    texts = [str(name) for name in named]
    if not texts or len(set(texts)) < len(texts):
        raise InvalidInput(f"columns.classes must name each class once, got {brief(named)}.")
    listed = columns.get("columns")
    if isinstance(listed, list) and len(listed) != len(named):
        raise InvalidInput(
            f"columns.columns must hold a column for each of {len(named)} classes, got "
            f"{len(listed)}."
        )
    if classes is not None and [str(name) for name in classes] != texts:
        raise InvalidInput(
            f"columns.classes must be those of the evidence, {brief(list(classes))}, in the same "
            f"order, got {brief(named)}."
        )


def _check_distinct_columns(columns: Mapping[str, Any]) -> None:
    """Raise InvalidInput if one column has two meanings."""
    seen: dict[str, str] = {}
    for key in _MEANINGS:
        if key in columns:
            first = seen.setdefault(columns[key], key)
            if first != key:
                raise InvalidInput(
                    f"columns.{first} and columns.{key} must be two columns, got "
                    f"{columns[key]!r} for both."
                )
