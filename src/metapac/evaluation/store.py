"""An evaluation on disk: its settings, its finished draws, and the table of all draws."""

from __future__ import annotations

import errno
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from metapac import _document
from metapac._types import PathLike
from metapac._version import __version__
from metapac.evaluation.draws import Study
from metapac.evaluation.methods import Method
from metapac.evaluation.rows import Rows, read_table, write_table
from metapac.exceptions import BadArtefact, InvalidInput, Parameter
from metapac.guarantee import Guarantee

FORMAT = _document.Format(
    "metapac evaluation",
    written_by="evaluate",
    remedy="Restore it from a backup, or evaluate into another folder.",
    shape="evaluation",
)
SETTINGS, TABLE = "evaluation.json", "rows.csv.gz"
_MAY_DIFFER = ("draws", "versions.metapac", "study.notes")  # rules have versions of their own


def describe_evaluation(
    study: Study, guarantee: Guarantee, methods: Iterable[Method], *, draws: int, rng: int
) -> dict[str, Any]:
    """Return everything that the rows depend on, as JSON holds it.

    Parameters
    ----------
    study : Study
        Source of the draws.
    guarantee : Guarantee
        The guarantee to aim at.
    methods : iterable of Method
        Methods to run.
    draws : int
        Number of calibration draws.
    rng : int
        Seed.

    Returns
    -------
    dict
        The settings.
    """
    settings = {
        "guarantee": {name: getattr(guarantee, name) for name in ("epsilon", "alpha", "delta")},
        "draws": draws,
        "rng": rng,
        "methods": [method.describe() for method in methods],
        "study": study.describe(),
        "versions": {
            "metapac": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
    }
    plain: dict[str, Any] = _document.as_json("study.describe()", settings)
    return plain


class EvaluationFolder:
    """The files of one evaluation.

    Parameters
    ----------
    path : str or path
        The folder; it is created if necessary.
    settings : dict
        What `describe_evaluation` returned. A folder with other settings is refused, except for
        the number of draws and the version of metapac, and so are fewer draws than a finished
        table has. The folder keeps the versions that it was begun with.
    """

    def __init__(self, path: PathLike, settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / SETTINGS).exists():
            known = read_settings(self.path)
            _check_versions(self.path, known["methods"], settings["methods"])
            # Before 0.3.0 no version was stored: the library's rules were what is now version 1.
            methods = [{"version": "1"} | method for method in known["methods"]]
            check_settings(self.path, known | {"methods": methods}, settings)
            self._check_draws(settings["draws"])
            settings = known | {"draws": settings["draws"]}
        _document.write(self.path / SETTINGS, settings, FORMAT)
        # The name depends on the settings, so draws of other settings are never mixed in. Draw i
        # is the same however many there are.
        rest = {name: value for name, value in settings.items() if name != "draws"}
        self._draws = self.path / f"draws-{_document.checksum(rest)[7:19]}"
        self._draws.mkdir(exist_ok=True)

    def _check_draws(self, draws: int) -> None:
        """Raise if the table of a finished evaluation would lose draws."""
        held = read_settings(self.path)["draws"]
        if held > draws and (self.path / TABLE).exists():
            raise InvalidInput(
                "{} already holds {} draws, more than {}. Pass at least {}, or choose another "
                "folder.",
                self.path,
                held,
                Parameter("draws", draws),
                Parameter("draws", held),
            )

    def save_draw(self, number: int, rows: Rows) -> None:
        """Write one finished draw, completely or not at all.

        Parameters
        ----------
        number : int
            Number of the draw.
        rows : Rows
            Its rows.
        """
        write_table(self._file(number), rows)

    def load_draws(self, draws: int) -> dict[int, Rows]:
        """Return the finished draws; those with a damaged file count as not finished.

        Parameters
        ----------
        draws : int
            Number of draws wanted.

        Returns
        -------
        dict from int to Rows
            The rows of each finished draw.
        """
        finished = {}
        for number in range(draws):
            try:
                finished[number] = read_table(self._file(number))
            except (FileNotFoundError, BadArtefact):
                continue
        return finished

    def save_table(self, rows: Rows) -> None:
        """Write the table of all draws.

        Parameters
        ----------
        rows : Rows
            All rows.
        """
        write_table(self.path / TABLE, rows)

    def _file(self, number: int) -> Path:
        return self._draws / f"{number:05d}.csv.gz"


def check_settings(
    path: PathLike, old: dict[str, Any], new: dict[str, Any], what: str = "an evaluation"
) -> None:
    """Raise if two evaluations differ in a setting other than draws and metapac's version.

    Parameters
    ----------
    path : str or path
        Folder of the old evaluation, for the message.
    old : dict
        Its settings, or some of them.
    new : dict
        The same settings of the new one.
    what : str, default "an evaluation"
        What the folder holds, for the message.

    Raises
    ------
    InvalidInput
        If they differ; the message names the first setting that does.
    """
    known, wanted = dict(_flatten(old)), dict(_flatten(new))
    for name in [*wanted, *known]:
        if name not in _MAY_DIFFER and known.get(name) != wanted.get(name):
            raise InvalidInput(
                f"{path} holds {what} with {name}={known.get(name)!r}, but this one "
                f"has {name}={wanted.get(name)!r}. Use the same settings, or another folder."
            )


def _check_versions(path: Path, old: list[dict[str, Any]], new: list[dict[str, Any]]) -> None:
    """Raise if a method has another version, or other code, than in the evaluation in a folder."""
    unknown = 'none stored before 0.3.0; pass Method(..., version="1") if the rule is the same'
    for known, method in zip(old, new, strict=False):
        if known["name"] == method["name"] and known.get("version", "1") != method["version"]:
            raise InvalidInput(
                f"{path} may hold rows of another rule: that of method {method['name']!r}, or a "
                f"value that it uses, has version {method['version']}, and before it had "
                f"{known.get('version', unknown)}. Use another folder, or delete this one."
            )


def _flatten(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting by its full name, such as guarantee.epsilon."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def read_settings(folder: PathLike) -> dict[str, Any]:
    """Return the settings of an evaluation: guarantee, seed, methods, study and versions.

    Parameters
    ----------
    folder : str or path
        Folder that ``evaluate`` wrote to.

    Returns
    -------
    dict
        The settings.

    Raises
    ------
    BadArtefact
        If the file of the settings is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate, read_settings
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = SyntheticStudy(tasks=60, examples=50, tests=3)
    ...     rows = evaluate(study, guarantee=guarantee, draws=2, folder=folder)
    ...     read_settings(folder)["draws"]
    2
    """
    path = Path(folder) / SETTINGS
    if not path.exists():
        reason = "no evaluation is here; pass a folder that evaluate wrote to"
        raise FileNotFoundError(errno.ENOENT, reason, str(path))
    document = _document.read(path, FORMAT)
    return {k: v for k, v in document.items() if k not in ("format", "schema", "metapac")}


def read_guarantee(folder: PathLike) -> Guarantee:
    """Return the guarantee that an evaluation was run at.

    Parameters
    ----------
    folder : str or path
        Folder that ``evaluate`` wrote to.

    Returns
    -------
    Guarantee
        The guarantee.

    Examples
    --------
    >>> import tempfile
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate, read_guarantee
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = SyntheticStudy(tasks=60, examples=50, tests=3)
    ...     rows = evaluate(study, guarantee=guarantee, draws=2, folder=folder)
    ...     read_guarantee(folder) == guarantee
    True
    """
    return Guarantee(**read_settings(folder)["guarantee"])


def read_rows(folder: PathLike) -> Rows:
    """Return the table of a finished evaluation.

    Parameters
    ----------
    folder : str or path
        Folder that ``evaluate`` wrote to.

    Returns
    -------
    Rows
        The table.

    Raises
    ------
    FileNotFoundError
        If the evaluation is not finished.
    BadArtefact
        If a file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from metapac import Guarantee
    >>> from metapac.evaluation import SyntheticStudy, evaluate, read_rows
    >>> guarantee = Guarantee(epsilon=0.1, alpha=0.1, delta=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = SyntheticStudy(tasks=60, examples=50, tests=3)
    ...     rows = evaluate(study, guarantee=guarantee, draws=2, folder=folder)
    ...     len(read_rows(folder)) == len(rows)
    True
    """
    read_settings(folder)  # a table without its settings is not a result
    path = Path(folder) / TABLE
    if not path.exists():
        reason = "the evaluation is not finished; call evaluate again with the same settings"
        raise FileNotFoundError(errno.ENOENT, reason, str(path))
    return read_table(path)
