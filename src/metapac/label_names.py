"""What to do about labels that are not among the classes."""

from __future__ import annotations

from collections.abc import Sequence

from metapac._checks import listed
from metapac.exceptions import Message, Parameter

_SHOWN = 3  # pairs of names in a message


def advise_on_labels(
    unknown: Sequence[str], classes: Sequence[str], columns: Sequence[str] | None = None
) -> Message | None:
    """Return how to bring labels and classes together, if their names tell.

    Parameters
    ----------
    unknown : sequence of str
        Labels that are not classes.
    classes : sequence of str
        The classes.
    columns : sequence of str, optional
        The column of each class, if classes are named after columns and no label is a class.

    Returns
    -------
    Message or None
        One or more sentences; None if the names do not tell.

    Examples
    --------
    >>> from metapac.label_names import advise_on_labels
    >>> print(advise_on_labels(["Yes"], ["no", "yes"]))
    'Yes' differs from 'yes' only in case or spaces: give it one spelling.
    >>> print(advise_on_labels(["0", "1"], ["no", "yes"], ["p_no", "p_yes"]))
    Name the class of each column in its order: if 'p_no' holds the scores of '0' and 'p_yes' \
those of '1', pass columns=['p_no', 'p_yes'] and classes=['0', '1'].
    """
    by_fold = {_fold(name): name for name in classes}
    alike = [(label, by_fold[_fold(label)]) for label in unknown if _fold(label) in by_fold]
    if alike:
        pairs = [f"{label!r} differs from {name!r}" for label, name in alike]
        one = "it" if len(alike) == 1 else "each"
        return Message(
            f"{listed(pairs, shown=_SHOWN)} only in case or spaces: give {one} one spelling."
        )
    if columns is None:
        return None
    start = "Name the class of each column in its order:"
    if len(unknown) != len(columns):
        text = f"{start} pass {{}} and {{}}."
        return Message(text, Parameter("columns", [*columns]), Parameter("classes"))
    labels = _match(columns, sorted(unknown))
    pairs = [
        f"{column!r} those of {label!r}" for column, label in zip(columns, labels, strict=True)
    ]
    pairs[0] = pairs[0].replace(" those of ", " holds the scores of ", 1)
    held = " and ".join(pairs) if len(pairs) <= _SHOWN else listed(pairs, shown=_SHOWN)
    text = f"{start} if {{}}, pass {{}} and {{}}."
    return Message(text, held, Parameter("columns", [*columns]), Parameter("classes", labels))


def _match(columns: Sequence[str], labels: list[str]) -> list[str]:
    """Return the labels in the order of the columns that end with them, if each one does."""
    ends = [[name for name in labels if _fold(column).endswith(_fold(name))] for column in columns]
    longest = [max(names, key=len, default="") for names in ends]
    return longest if sorted(longest) == labels else labels


def _fold(name: str) -> str:
    return " ".join(name.split()).casefold()
