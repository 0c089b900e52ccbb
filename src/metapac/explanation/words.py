"""The words of a field in an explanation, and thresholds as people may apply them."""

from __future__ import annotations

import math
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, NamedTuple

from metapac._visible import visible

if TYPE_CHECKING:
    from metapac import context

_DIGITS = 3


class Words(NamedTuple):
    """What tasks and examples are called, in singular and plural.

    Attributes
    ----------
    unit, units : str
        A task, and tasks.
    example, examples : str
        An example, and examples.
    model : str
        The model, with its name if it is known.
    """

    unit: str
    units: str
    example: str
    examples: str
    model: str

    @classmethod
    def from_context(cls, about: context.Context) -> Words:
        """Return the words of a context.

        Parameters
        ----------
        about : Context
            What the guarantee is about.

        Returns
        -------
        Words
            The words.
        """
        model = "the model" if about.model is None else f"the model {visible(about.model)}"
        return cls(*inflect(visible(about.unit)), *inflect(visible(about.example)), model)

    def count_units(self, number: int) -> str:
        """Return a number of tasks, such as "1 hospital" or "60 hospitals".

        Parameters
        ----------
        number : int
            How many.

        Returns
        -------
        str
            The number and the noun.
        """
        return f"{number:,} {self.unit if number == 1 else self.units}"

    def count_examples(self, number: int) -> str:
        """Return a number of examples, such as "1 patient" or "60 patients".

        Parameters
        ----------
        number : int
            How many.

        Returns
        -------
        str
            The number and the noun.
        """
        return f"{number:,} {self.example if number == 1 else self.examples}"


def inflect(noun: str) -> tuple[str, str]:
    """Return the singular and the plural of a noun.

    Parameters
    ----------
    noun : str
        The singular; for an irregular plural both, such as "person/people".

    Returns
    -------
    tuple of str
        Singular and plural.

    Examples
    --------
    >>> from metapac.explanation.words import inflect
    >>> inflect("hospital"), inflect("city"), inflect("person/people")
    (('hospital', 'hospitals'), ('city', 'cities'), ('person', 'people'))
    """
    singular, _, plural = (part.strip() for part in noun.partition("/"))
    if plural:
        return singular, plural
    if singular.endswith("y") and singular[-2:-1] not in ("a", "e", "i", "o", "u"):
        return singular, f"{singular[:-1]}ies"
    return singular, f"{singular}{'es' if singular.endswith(('s', 'x', 'z', 'ch', 'sh')) else 's'}"


def round_down(threshold: float) -> str:
    """Return a threshold in three significant digits, never higher than it is.

    Parameters
    ----------
    threshold : float
        The threshold.

    Returns
    -------
    str
        The number as text.

    Examples
    --------
    >>> from metapac.explanation.words import round_down
    >>> round_down(0.07239), round_down(-1.2301), round_down(2.0)
    ('0.0723', '-1.24', '2')
    """
    if not math.isfinite(threshold):
        return str(threshold)
    shown = Context(prec=_DIGITS, rounding=ROUND_FLOOR).create_decimal(Decimal(repr(threshold)))
    if -7 < shown.adjusted() < 16:
        text = f"{shown:f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    return f"{shown.normalize():e}"
