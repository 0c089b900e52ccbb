"""The message of a site: its thresholds, the checks of them, and the file that it sends."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from metapac import _checks, _document, _ids, _schema, _scores
from metapac._columns import check_columns
from metapac._types import Floats, PathLike
from metapac.evidence import Evidence
from metapac.exceptions import BadArtefact, InvalidInput, Parameter
from metapac.guarantee import Guarantee


def _upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document of version 0.1.0, which knew no classes, as sites are written now."""
    if "classes" in document or not isinstance(document.get("examples"), int):
        return document
    rows = {name: [document[name]] for name in ("examples", "thresholds") if name in document}
    return document | rows | {"classes": None}


FORMAT = _document.Format(
    "metapac site",
    written_by="'metapac site -o'",
    remedy="Ask the site to write it again with 'metapac site'.",
    shape="site",
    upgrade=_upgrade,
)


@dataclass(frozen=True)
class Site:
    """The message of a site: its threshold at each level, and how many examples it rests on.

    Parameters
    ----------
    name : str
        Name of the site; no two may share it.
    guarantee : Guarantee
        What all sites have agreed on.
    examples : tuple of int
        Number of examples; with a guarantee per class, of each class.
    thresholds : tuple of tuple of float
        One number for each level; with a guarantee per class, a row for each class.
    precision : numpy.dtype
        Precision of the scores.
    classes : tuple, optional
        The classes, if the guarantee is per class.
    columns : dict, optional
        Columns of the table that the scores come from, and the classes that have scores in it.
    model : str, optional
        Name of the model that gave the scores, if their table names it.
    score : str, optional
        Score function that gave them.
    range : tuple of float, optional
        Lowest and highest score, which recognise a site under another name.

    Examples
    --------
    >>> from metapac import Guarantee
    >>> from metapac.evidence import collect_evidence
    >>> from metapac.sites import Site
    >>> agreed = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1, split="tight")
    >>> evidence = collect_evidence(agreed, range(100), ["ohio"] * 100)
    >>> site = Site.from_evidence("ohio", agreed, evidence)
    >>> site.examples, site.thresholds
    ((100,), ((5.0,),))
    """

    name: str
    guarantee: Guarantee
    examples: tuple[int, ...]
    thresholds: tuple[tuple[float, ...], ...]
    precision: np.dtype[Any]
    classes: tuple[Any, ...] | None = None
    columns: dict[str, Any] | None = None
    model: str | None = None
    score: str | None = None
    range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        for parameter, key in (("name", "site"), ("model", "model"), ("score", "score")):
            value = getattr(self, parameter)
            if value is None and parameter != "name":
                continue
            try:
                _schema.check(value, _schema.load_schema("site")["properties"][key])
            except _schema.Fault as fault:
                raise InvalidInput("{} {}.", Parameter(parameter), fault.rule) from None
        try:
            self._check_numbers()
        except InvalidInput as error:
            raise InvalidInput("site {!r}: {}", self.name, error.message) from error

    def _check_numbers(self) -> None:
        """Raise InvalidInput for a message that no data can give."""
        object.__setattr__(self, "precision", _scores.as_precision(self.precision))
        self._check_classes()
        thresholds = self._read_thresholds()
        _scores.check_no_nan("thresholds", thresholds, remedy="Take it out of the scores.")
        _check_representable(thresholds, self.precision)
        check_columns(self.columns, self.classes)
        if "prediction" in (self.columns or {}):
            _check_residuals(thresholds)
        evidence = join_sites([self])
        evidence.check_certified(self.guarantee, "thresholds")
        evidence.check_ranges()

    def _check_classes(self) -> None:
        """Raise InvalidInput if classes are named without a guarantee per class, or the reverse."""
        per_class = self.guarantee.per_class
        if per_class != (self.classes is not None):
            needed = "must name the classes" if per_class else "must be None"
            raise InvalidInput(f"classes {needed}, since per_class is {per_class}.")
        if self.classes is not None:
            _ids.as_classes(list(self.classes))

    def _read_thresholds(self) -> Floats:
        """Return the thresholds as an array; they and the examples must have the right shape."""
        rows = 1 if self.classes is None else len(self.classes)
        examples = _checks.as_whole_numbers("examples", self.examples, minimum=0)
        thresholds = _scores.as_score_array("thresholds", self.thresholds)
        levels = len(self.guarantee.levels)
        if examples.shape != (rows,) or thresholds.shape != (rows, levels):
            wanted = "one number" if self.classes is None else f"{rows} numbers, one for each class"
            lists = "one list" if self.classes is None else f"{rows} lists"
            raise InvalidInput(
                f"examples must hold {wanted}, and thresholds {lists} of {levels}, by the levels, "
                f"got shapes {examples.shape} and {thresholds.shape}."
            )
        return thresholds

    @classmethod
    def from_evidence(cls, name: str, guarantee: Guarantee, evidence: Evidence) -> Site:
        """Return the message of a site from its evidence.

        Parameters
        ----------
        name : str
            Name of the site.
        guarantee : Guarantee
            What all sites have agreed on.
        evidence : Evidence
            Evidence of a single task: the examples of the site.

        Returns
        -------
        Site
            The message.
        """
        return cls(
            name,
            guarantee,
            tuple(evidence.sizes[0].tolist()),
            tuple(tuple(row) for row in evidence.thresholds[0].tolist()),
            evidence.precision,
            evidence.classes,
            evidence.columns,
            range=None if evidence.ranges is None else tuple(evidence.ranges[0].tolist()),
        )

    def save(self, path: PathLike) -> None:
        """Write the site file, versioned JSON: no scores but thresholds, lowest and highest.

        Parameters
        ----------
        path : str or path
            File to write. It is replaced atomically.
        """
        body = {
            "site": self.name,
            "parameters": _document.encode_parameters(asdict(self.guarantee)),
            "levels": _levels(self.guarantee),
            "classes": None if self.classes is None else list(self.classes),
            "examples": list(self.examples),
            "thresholds": _document.encode_floats([list(row) for row in self.thresholds]),
            "precision": self.precision.name,
            **({} if self.range is None else {"range": _document.encode_floats([*self.range])}),
            **{
                name: value
                for name in ("columns", "model", "score")
                if (value := getattr(self, name)) is not None
            },
        }
        _document.write(path, body, FORMAT)


def _check_representable(thresholds: Floats, precision: np.dtype[Any]) -> None:
    """Raise InvalidInput for a threshold that cannot be a score of the stated precision."""
    with np.errstate(over="ignore"):  # overflow to inf is another number
        rounded = thresholds.astype(precision).astype(np.float64)
    for value in thresholds[rounded != thresholds][:1]:
        raise InvalidInput(
            f"thresholds holds {float(value)!r}, which no {precision.name} score can be. State the "
            "precision of the scores."
        )


def _check_residuals(thresholds: Floats) -> None:
    """Raise InvalidInput for a threshold that cannot be a residual score."""
    for value in thresholds[thresholds > 0][:1]:
        raise InvalidInput(
            f"thresholds of predicted numbers must be at most 0, got {float(value)!r}: their "
            "scores, -|y - prediction| / scale, are never positive. Compute them with site_table."
        )


def read_site(path: PathLike) -> Site:
    """Return the site that `Site.save` or ``metapac site`` wrote.

    Parameters
    ----------
    path : str or path
        File to read.

    Returns
    -------
    Site
        The site.

    Raises
    ------
    BadArtefact
        If the file is not a site file, was edited or damaged, or is from an incompatible version.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from metapac import Guarantee
    >>> from metapac.sites import Site, read_site
    >>> agreed = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1, split="tight")
    >>> site = Site("ohio", agreed, (100,), ((0.25,),), np.dtype("float64"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     site.save(f"{folder}/ohio.json")
    ...     read_site(f"{folder}/ohio.json") == site
    True
    """
    body = _document.read(path, FORMAT)
    try:
        guarantee = Guarantee(**_document.decode_parameters(body["parameters"]))
        _check_levels(path, body["levels"], guarantee)
        return Site(
            body["site"],
            guarantee,
            tuple(map(int, body["examples"])),
            tuple(tuple(map(float, row)) for row in body["thresholds"]),
            _scores.as_precision(body["precision"]),
            None if body["classes"] is None else tuple(body["classes"]),
            body.get("columns"),
            body.get("model"),
            body.get("score"),
            tuple(map(float, body["range"])) if "range" in body else None,  # type: ignore[arg-type]
        )
    except InvalidInput as error:
        raise _document.inconsistent(path, FORMAT, error) from error


def _check_levels(path: PathLike, levels: list[float], guarantee: Guarantee) -> None:
    """Raise BadArtefact if a file has thresholds at other levels than this version uses."""
    if levels != _levels(guarantee):
        raise BadArtefact(
            "{} has thresholds at levels {}, but this metapac expects {} for {}. Use one version "
            "at all sites.",
            path,
            levels,
            _levels(guarantee),
            Parameter("split", guarantee.split),
        )


def _levels(guarantee: Guarantee) -> list[float]:
    """Return the levels within tasks, one for each threshold."""
    return [level.alpha_within for level in guarantee.levels]


def join_sites(sites: list[Site]) -> Evidence:
    """Return the evidence of sites, each of them a task.

    Parameters
    ----------
    sites : list of Site
        Sites that have agreed on the guarantee.

    Returns
    -------
    Evidence
        What `MetaPS.from_evidence` takes.
    """
    thresholds = np.array([site.thresholds for site in sites], dtype=np.float64)
    first = sites[0]
    return Evidence(
        _ids.as_task_names([site.name for site in sites]),
        np.array([site.examples for site in sites], dtype=np.int64),
        thresholds,
        np.full(thresholds.shape[1], -np.inf),  # sites do not send their lowest score
        _scores.coarsest_precision(site.precision for site in sites),
        first.classes,
        _shared_columns(sites),
        ranges=np.array([site.range or (np.nan, np.nan) for site in sites]),
    )


def _shared_columns(sites: list[Site]) -> dict[str, Any] | None:
    """Return the columns of all sites; if they differ, only the classes that all name."""
    columns = [site.columns or {} for site in sites]
    if all(each == columns[0] for each in columns):
        return sites[0].columns
    named = all("classes" in each for each in columns)
    return {"classes": columns[0]["classes"]} if named else None
