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

from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any


class Parameter:
    """A parameter that a message mentions, with the value to pass if there is one."""

    def __init__(self, name: str, value: Any = ...) -> None:
        self.name = name
        self.value = value.item() if hasattr(value, "item") else value  # NumPy scalars

    @property
    def has_value(self) -> bool:
        """Whether a value is mentioned too."""
        return self.value is not ...

    def __str__(self) -> str:
        return f"{self.name}={self.value!r}" if self.has_value else self.name


class Message:
    """A text with placeholders, filled in when it is shown.

    Each reader sees parameters as they would type them: Python shows ``epsilon=0.1``, the command
    line ``--epsilon 0.1``.
    """

    def __init__(self, template: str, *values: Any) -> None:
        self.parts = _fill(template, values) if values else (str(template),)

    @classmethod
    def join(cls, separator: str, parts: Sequence[Any]) -> Message:
        """Return several texts as one message."""
        return cls(separator.join(["{}"] * len(parts)), *parts)

    def render(self, show: Callable[[Parameter], str] = str) -> str:
        """Return the text, with every parameter as ``show`` writes it."""
        return "".join(_render(part, show) for part in self.parts)

    def __str__(self) -> str:
        return self.render()


def _fill(template: str, values: Sequence[Any]) -> tuple[Any, ...]:
    """Return texts, parameters and messages; other values become text at once.

    So an exception holds no object of the user's, and can be sent to another process.
    """
    parts: list[Any] = []
    remaining = list(values)
    for text, field, spec, conversion in Formatter().parse(template):
        parts.append(text)
        if field is not None:
            value = remaining.pop(0)
            if not isinstance(value, Parameter | Message):
                value = format(Formatter().convert_field(value, conversion), spec or "")
            parts.append(value)
    if remaining:
        raise TypeError(f"{template!r} has no placeholder for {remaining!r}.")
    return tuple(parts)


def _render(part: Any, show: Callable[[Parameter], str]) -> str:
    if isinstance(part, Parameter):
        return show(part)
    return part.render(show) if isinstance(part, Message) else part


class MetapacError(Exception):
    """Base class of all exceptions that metapac raises on purpose.

    Parameters
    ----------
    message : str or Message, default ""
        The message, with a ``{}`` for each value.
    *values : object
        Values of the placeholders; the command line shows a `Parameter` as its option.

    Attributes
    ----------
    message : Message
        The message, for readers who pass parameters in another way than Python.

    Examples
    --------
    >>> from metapac import MetapacError, threshold
    >>> try:
    ...     threshold([], epsilon=0.1, delta=0.05)
    ... except MetapacError as error:
    ...     print(error)
    scores is empty; pass at least one labelled example.
    """

    def __init__(self, message: str | Message = "", *values: Any) -> None:
        self.message = message if isinstance(message, Message) else Message(message, *values)
        super().__init__(str(self.message))

    def render(self, show: Callable[[Parameter], str] = str) -> str:
        """Return the message, with every parameter as ``show`` writes it.

        Parameters
        ----------
        show : callable, optional
            Takes a `Parameter` and returns the text for it; by default as in Python.

        Returns
        -------
        str
            The message.
        """
        return self.message.render(show)


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
    >>> import tempfile
    >>> from pathlib import Path
    >>> from metapac import BadArtefact, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "notes.txt")
    ...     _ = path.write_text("not written by metapac")
    ...     try:
    ...         load(path)
    ...     except BadArtefact:
    ...         print("not a promise file")
    not a promise file
    """


class BadArchive(MetapacError, ValueError):
    """A downloaded archive is damaged, or would write outside its folder."""


class EngineError(MetapacError, ValueError):
    """A table engine could not read or write; the message names the file or the server.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from metapac import EngineError
    >>> from metapac.tables import calibrate_table
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "scores.parquet")
    ...     _ = path.write_text("half of a table")
    ...     try:
    ...         calibrate_table(path, task="site", epsilon=0.1, alpha=0.2, delta=0.1)
    ...     except EngineError:
    ...         print("write it again")
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
    ...     from metapac.tables import calibrate_table
    ... except MissingExtra:  # pip install 'metapac[tables]'
    ...     calibrate_table = None
    """
