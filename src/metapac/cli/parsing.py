"""Values of options that several commands share, read from text."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from metapac.exceptions import InvalidInput
from metapac.guarantee import Epsilon
from metapac.meaning.findings import check_allowed


def parse_epsilon(texts: list[str]) -> Epsilon:
    """Return the miss rate, or the miss rate of each class.

    Parameters
    ----------
    texts : list of str
        Values of ``--epsilon``.

    Returns
    -------
    float or dict
        One number, or a number for each class.
    """
    if not any("=" in text for text in texts):
        if len(texts) > 1:
            raise InvalidInput(
                f"--epsilon must be one number, got {' and '.join(texts)}. For a different one in "
                "each class, pass --epsilon CLASS=NUMBER for each."
            )
        return _parse_number("--epsilon", texts[0], texts[0])
    rates: dict[str, float] = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        if not equals or not name:
            raise InvalidInput(
                f"--epsilon must be either one number or CLASS=NUMBER for each class, got {text!r} "
                f"among {', '.join(texts)}."
            )
        if name in rates:
            raise InvalidInput(f"--epsilon gives class {name!r} twice. Give each class once.")
        rates[name] = _parse_number("--epsilon", number, text)
    return rates


def parse_delta(text: str) -> float | None:
    """Return the failure probability, or None for "none".

    Parameters
    ----------
    text : str
        Value of ``--delta``.

    Returns
    -------
    float or None
        The failure probability.
    """
    return None if text.strip().lower() == "none" else _parse_number("--delta", text, text)


def parse_split(text: str) -> str | float:
    """Return the name of a split, or a number.

    Parameters
    ----------
    text : str
        Value of ``--split``.

    Returns
    -------
    str or float
        The split.
    """
    try:
        return float(text)
    except ValueError:
        return text


def parse_allowed(texts: list[str] | None) -> list[str]:
    """Return the names of the checks to skip.

    Parameters
    ----------
    texts : list of str or None
        Values of ``--allow``; each may hold several names, separated by commas.

    Returns
    -------
    list of str
        The names.

    Raises
    ------
    InvalidInput
        If there is no check of that name.
    """
    names = [name for text in texts or () for name in parse_names(text) or ()]
    return sorted(check_allowed(names))


def parse_names(text: str | None) -> list[str] | None:
    """Return names separated by commas as a list.

    Parameters
    ----------
    text : str or None
        Value of ``--classes``.

    Returns
    -------
    list of str or None
        The names, or None if there are none.
    """
    return None if text is None else [name.strip() for name in text.split(",")]


def parse_columns(text: str) -> str | list[str]:
    """Return a pattern or the name of a column as it is, and several names as a list.

    Parameters
    ----------
    text : str
        Value of ``--columns``.

    Returns
    -------
    str or list of str
        The columns.
    """
    is_list = "," in text and "*" not in text
    return [name.strip() for name in text.split(",")] if is_list else text


def _parse_number(flag: str, number: str, text: str) -> float:
    try:
        return float(number)
    except ValueError:
        context = "" if number == text else f" in {text!r}"
        remedy = _rewrite_number(number)
        raise InvalidInput(f"{flag} must be a number, got {number!r}{context}.{remedy}") from None


def _rewrite_number(text: str) -> str:
    """Return how to write a percentage, or a number with a decimal comma; otherwise nothing."""
    plain = text.strip().replace(",", ".")
    try:
        value = Decimal(plain.removesuffix("%")) / (100 if plain.endswith("%") else 1)
    except InvalidOperation:
        return ""
    return f" Write {value.normalize():f}." if value.is_finite() else ""
