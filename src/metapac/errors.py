"""Errors of the library: what is wrong, which argument, and the way out.

::

    MetapacError
    ├── InvalidInput (ValueError)              an argument or the data violate a rule
    ├── InfeasibleGuarantee (ValueError)       too few tasks or examples for the guarantee
    ├── NotCalibrated (ValueError, AttributeError)
    ├── BadArtefact (ValueError)               a file that is not, or no longer, what metapac wrote
    ├── BadArchive (ValueError)                a downloaded archive that is unsafe or damaged
    ├── EngineError (ValueError)               a table engine could not read or write
    ├── DownloadFailed (OSError)
    └── MissingExtra (ModuleNotFoundError)     an optional dependency is not installed

Files that cannot be opened raise ``OSError``, and wrong argument names ``TypeError``, as usual.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any


def keyword(name: str, value: Any) -> str:
    """Return an argument as one passes it, such as ``alpha=0.2``; commands show it as an option."""
    return f"{name}={value.item() if hasattr(value, 'item') else value!r}"


class MetapacError(Exception):
    """Base class of all exceptions that metapac raises on purpose.

    Parameters
    ----------
    message : str, default ""
        What is wrong, and the way out.
    parameter : str or sequence of str, default ()
        The arguments that it is about, which the command line shows as options. By default the
        word that the message begins with, if "must" follows.

    Attributes
    ----------
    parameters : tuple of str
        The same, always as a tuple.

    Examples
    --------
    >>> from metapac import MetapacError, threshold
    >>> try:
    ...     threshold([], epsilon=0.1, delta=0.05)
    ... except MetapacError as error:
    ...     print(error)
    scores is empty; pass at least one labelled example.
    """

    def __init__(self, message: str = "", *, parameter: str | Sequence[str] = ()) -> None:
        super().__init__(message)
        names = (parameter,) if isinstance(parameter, str) else tuple(parameter)
        self.parameters = names or tuple(re.findall(r"^(\w+) must\b", message))


class InvalidInput(MetapacError, ValueError):
    """An argument or the data violate a rule; the message names the rule, value and remedy.

    Examples
    --------
    >>> from metapac import InvalidInput, allowed_errors
    >>> try:
    ...     allowed_errors(100, epsilon=10, delta=0.05)
    ... except InvalidInput as error:
    ...     print(str(error).partition(". ")[0])
    epsilon must be a number strictly between 0 and 1, got 10
    """


class InfeasibleGuarantee(MetapacError, ValueError):
    """The data are too few for the guarantee; the message says what is missing and what works.

    Examples
    --------
    >>> from metapac import PS, InfeasibleGuarantee
    >>> try:
    ...     PS(epsilon=0.1, delta=0.05).calibrate([0.5] * 28)
    ... except InfeasibleGuarantee as error:
    ...     print(str(error).partition(". ")[0])
    epsilon=0.1, delta=0.05 cannot be guaranteed: this takes 29 examples, but there are 28
    """


class NotCalibrated(MetapacError, ValueError, AttributeError):
    """A result was requested before ``calibrate``, or after the parameters changed.

    Examples
    --------
    >>> from metapac import PS, NotCalibrated
    >>> try:
    ...     PS(epsilon=0.1, delta=0.05).predict_set([[0.7, 0.3]])
    ... except NotCalibrated:
    ...     print("call calibrate first")
    call calibrate first
    """


class BadArtefact(MetapacError, ValueError):
    """A file is not, or is no longer, what metapac wrote.

    Examples
    --------
    >>> import pathlib
    >>> from metapac import BadArtefact, load
    >>> _ = pathlib.Path("notes.txt").write_text("not written by metapac")
    >>> try:
    ...     load("notes.txt")
    ... except BadArtefact:
    ...     print("not a promise file")
    not a promise file
    """


class BadArchive(MetapacError, ValueError):
    """A downloaded archive is damaged, or would write outside its folder."""


class EngineError(MetapacError, ValueError):
    """A table engine could not read or write; the message names the file or the server.

    Examples
    --------
    >>> import pathlib
    >>> from metapac import EngineError, open_table
    >>> _ = pathlib.Path("half.parquet").write_text("half of a table")
    >>> try:
    ...     open_table("half.parquet")
    ... except EngineError:
    ...     print("write it again")
    write it again
    """


class DownloadFailed(MetapacError, OSError):
    """A download failed; the bytes that arrived are stored, and the next attempt resumes it."""


class MissingExtra(MetapacError, ModuleNotFoundError):
    """An optional dependency is not installed; the message says how to install it.

    Examples
    --------
    >>> from metapac import MissingExtra
    >>> try:
    ...     from metapac import open_table
    ... except MissingExtra:  # pip install 'metapac[tables]'
    ...     open_table = None
    """
