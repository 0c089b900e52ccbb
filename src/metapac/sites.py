"""Sites that cannot share their data: each sends a few numbers, and a coordinator combines them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from metapac import _checks, _document, _ids, _schema, _scores
from metapac._columns import check_columns
from metapac._types import Floats, PathLike
from metapac._warnings import warn
from metapac.calibration import MetaPS
from metapac.context import Context, as_context
from metapac.evidence import Evidence, as_precision, coarsest_precision
from metapac.exceptions import BadArtefact, InfeasibleGuarantee, InvalidInput, Message, Parameter
from metapac.guarantee import Guarantee
from metapac.meaning.checks import check_sites
from metapac.meaning.findings import CheckWarning


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


_ORIGINS = {"model": "model", "score": "score function"}  # what all sites must share


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
        object.__setattr__(self, "precision", as_precision(self.precision))
        per_class = self.guarantee.per_class
        if per_class != (self.classes is not None):
            needed = "must name the classes" if per_class else "must be None"
            raise InvalidInput(f"classes {needed}, since per_class is {per_class}.")
        if self.classes is not None:
            _ids.as_classes(list(self.classes))
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
        _scores.check_no_nan("thresholds", thresholds, remedy="Take it out of the scores.")
        _check_representable(thresholds, self.precision)
        check_columns(self.columns, self.classes)
        _join([self]).check_certified(self.guarantee, "thresholds")

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
        )

    def save(self, path: PathLike) -> None:
        """Write the site file, versioned JSON that holds no scores except the thresholds.

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
            **{
                name: value
                for name in ("columns", "model", "score")
                if (value := getattr(self, name)) is not None
            },
        }
        _document.write(path, body, FORMAT)


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
            as_precision(body["precision"]),
            None if body["classes"] is None else tuple(body["classes"]),
            body.get("columns"),
            body.get("model"),
            body.get("score"),
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


def combine_sites(
    sites: Iterable[Site | PathLike],
    *,
    on_infeasible: str = "raise",
    context: Context | None = None,
    allow: Iterable[str] = (),
) -> MetaPS:
    """Return what ``MetaPS.calibrate`` returns on the scores of all sites, tasks sorted by name.

    Parameters
    ----------
    sites : iterable of Site or path
        The sites or their files. Each site counts once, and all must agree on the guarantee.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do if the sites are too few: raise ``InfeasibleGuarantee``, or keep every label.
    context : Context, optional
        What the guarantee is about: model, training sites, vocabulary. By default, the model is
        the one that the sites name.
    allow : iterable of str, default ()
        Checks to skip: "task-names" takes sites whose names are alike for different sites.

    Returns
    -------
    MetaPS
        The calibrated predictor. It stores the columns of the tables, as ``columns_``, if all sites
        sent the same; of different ones, only the classes.

    Raises
    ------
    InfeasibleGuarantee
        If the sites are too few or too small; the message says what would work.
    BadArtefact
        If a file is not a site file, or was edited or damaged.
    InvalidInput
        If sites do not agree on the guarantee, on the order of classes or on the model, or two
        have one name or names that are alike.

    Warns
    -----
    CheckWarning
        If sites have scores from different columns or of different precision, or only some name
        their model.

    Examples
    --------
    >>> import numpy as np
    >>> from metapac import Guarantee
    >>> from metapac.sites import Site, combine_sites
    >>> agreed = Guarantee(epsilon=0.1, alpha=0.2, delta=0.1, split="tight")
    >>> precision = np.dtype("float64")
    >>> sites = [Site(f"site {i}", agreed, (100,), ((i / 40,),), precision) for i in range(40)]
    >>> promise = combine_sites(sites)
    >>> promise.threshold_
    0.075
    """
    named = [
        (f"site {site.name!r}", site) if isinstance(site, Site) else (str(site), read_site(site))
        for site in sites
    ]
    if not named:
        raise InvalidInput("sites is empty; pass at least one file written by 'metapac site'.")
    _check_agreement(named)
    _check_class_order(named)
    _check_distinct(named)
    check_sites([site.name for _where, site in named], allow=allow)
    _warn_of_precision([site for _where, site in named])
    _warn_of_columns(named)
    about = _add_origin(named, as_context(context))
    ordered = sorted((site for _where, site in named), key=lambda site: site.name)
    guarantee = ordered[0].guarantee
    try:
        return MetaPS.from_evidence(
            guarantee, _join(ordered), on_infeasible=on_infeasible, context=about
        )
    except InfeasibleGuarantee as error:
        raise InfeasibleGuarantee(
            "{} For another guarantee, every site has to write its file again.", error.message
        ) from None


def _join(sites: list[Site]) -> Evidence:
    """Return the evidence of sites that have agreed on the guarantee."""
    thresholds = np.array([site.thresholds for site in sites], dtype=np.float64)
    first = sites[0]
    return Evidence(
        _ids.as_task_names([site.name for site in sites]),
        np.array([site.examples for site in sites], dtype=np.int64),
        thresholds,
        np.full(thresholds.shape[1], -np.inf),  # sites do not send their lowest score
        coarsest_precision(site.precision for site in sites),
        first.classes,
        _shared_columns(sites),
    )


def _shared_columns(sites: list[Site]) -> dict[str, Any] | None:
    """Return the columns of all sites; if they differ, only the classes that all name."""
    columns = [site.columns or {} for site in sites]
    if all(each == columns[0] for each in columns):
        return sites[0].columns
    named = all("classes" in each for each in columns)
    return {"classes": columns[0]["classes"]} if named else None


def _check_representable(thresholds: Floats, precision: np.dtype[Any]) -> None:
    """Raise InvalidInput for a threshold that cannot be a score of the stated precision."""
    with np.errstate(over="ignore"):  # overflow to inf is another number
        rounded = thresholds.astype(precision).astype(np.float64)
    for value in thresholds[rounded != thresholds][:1]:
        raise InvalidInput(
            f"thresholds holds {float(value)!r}, which no {precision.name} score can be. State the "
            "precision of the scores."
        )


def _levels(guarantee: Guarantee) -> list[float]:
    return [level.alpha_within for level in guarantee.levels]


def _check_agreement(named: list[tuple[str, Site]]) -> None:
    first_where, first = named[0]
    expected = asdict(first.guarantee) | {"classes": first.classes}
    for where, site in named[1:]:
        for key, value in (asdict(site.guarantee) | {"classes": site.classes}).items():
            if value != expected[key]:
                settings = where, Parameter(key, value), first_where, Parameter(key, expected[key])
                remedy = "Run 'metapac site' with the same options everywhere."
                raise InvalidInput("{} was computed with {}, but {} with {}. {}", *settings, remedy)


def _check_class_order(named: list[tuple[str, Site]]) -> None:
    """Raise InvalidInput if tables of two sites have other classes, or in another order."""
    orders = [
        (where, site.columns["classes"])
        for where, site in named
        if site.columns and "classes" in site.columns
    ]
    for where, classes in orders[1:]:
        first_where, expected = orders[0]
        if classes != expected:
            raise InvalidInput(
                f"{where} has scores of the classes {_checks.brief(classes)}, but {first_where} of "
                f"{_checks.brief(expected)}. Run 'metapac site' with the same classes in the same "
                "order everywhere."
            )


def _add_origin(named: list[tuple[str, Site]], context: Context) -> Context:
    """Return the context with the model and the score function that the sites name."""
    for key in ("model", "score"):
        stated = [(where, value) for where, site in named if (value := getattr(site, key))]
        if not stated:
            continue
        (first_where, first), *others = stated
        for where, other in others:
            if other != first:
                raise InvalidInput(
                    "{} has scores of the {} {!r}, but {} of {!r}. A guarantee holds for one: use "
                    "the same at every site.",
                    *(where, _ORIGINS[key], other, first_where, first),
                )
        given = getattr(context, key)
        if given not in (None, first):
            raise InvalidInput(
                "{} must be {!r}, which {} names as the {} of its scores, got {!r}. Leave it out.",
                *(Parameter(key), first, first_where, _ORIGINS[key], given),
            )
        context = replace(context, **{key: first})
    _warn_of_unnamed_models([site for _where, site in named])
    return context


def _warn_of_unnamed_models(sites: list[Site]) -> None:
    """Warn if only some sites name their model, so that those of the others may differ."""
    unnamed = [repr(site.name) for site in sites if site.model is None]
    if 0 < len(unnamed) < len(sites):
        names = f"site{'s' if len(unnamed) > 1 else ''} {_checks.listed(unnamed, shown=3)}"
        text = f"{names} did not name the model, so it cannot be compared with that of the others."
        warn(CheckWarning(Message(text)))


def _warn_of_precision(sites: list[Site]) -> None:
    """Warn if the precision of some sites decides the sets of all."""
    coarsest = coarsest_precision(site.precision for site in sites)
    coarse = [repr(site.name) for site in sites if site.precision == coarsest]
    if len(coarse) < len(sites):
        names = f"site{'s' if len(coarse) > 1 else ''} {_checks.listed(coarse, shown=3)}"
        text = f"sets are decided in {coarsest.name}, because of {names}."
        warn(CheckWarning(Message(text)))


def _warn_of_columns(named: list[tuple[str, Site]]) -> None:
    """Warn if sites name different columns, so that the promise cannot store them."""
    first_where, first = named[0]
    for where, site in named[1:]:
        if (site.columns or {}) != (first.columns or {}):
            text = (
                f"{where} and {first_where} have scores from different columns: "
                f"{_describe(site)} and {_describe(first)}. The promise stores none of them: name "
                "the columns when you predict."
            )
            warn(CheckWarning(Message(text)))
            return


def _describe(site: Site) -> str:
    names = {k: v for k, v in (site.columns or {}).items() if k != "classes"}
    return ", ".join(f"{key} {value!r}" for key, value in names.items()) or "an array"


def _check_distinct(named: list[tuple[str, Site]]) -> None:
    seen: dict[str, str] = {}
    for where, site in named:
        if site.name in seen:
            raise InvalidInput(
                f"{where} and {seen[site.name]} are both of site {site.name!r}, and a site counts "
                "only once. Leave one out; if they are two sites, give them two names."
            )
        seen[site.name] = where
