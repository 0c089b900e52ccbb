"""Sites that cannot share their data: each sends a few numbers, and a coordinator combines them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from metapac import _checks, _document, _ids
from metapac._types import PathLike
from metapac.calibration import MetaPS
from metapac.evidence import Evidence, coarsest_precision
from metapac.exceptions import BadArtefact, InfeasibleGuarantee, InvalidInput, Parameter
from metapac.guarantee import Guarantee

FORMAT = _document.Format("metapac site", written_by="'metapac site -o'")


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
        site = Site(
            str(body["site"]),
            Guarantee(**_document.decode_parameters(body["parameters"])),
            tuple(_checks.as_whole_numbers("examples", body["examples"], minimum=0).tolist()),
            tuple(tuple(float(value) for value in row) for row in body["thresholds"]),
            np.dtype(body["precision"]),
            None if body["classes"] is None else tuple(body["classes"]),
        )
        levels, expected = body["levels"], _levels(site.guarantee)
        count = 1 if site.classes is None else len(site.classes)
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise BadArtefact(
            f"{path} is not a complete site file ({type(error).__name__}: {error}). "
            "Write it again with 'metapac site'."
        ) from error
    shape = [len(site.examples), *{len(row) for row in site.thresholds}, len(site.thresholds)]
    if levels != expected or shape != [count, len(levels), count]:
        raise BadArtefact(
            "{} has {} rows of thresholds at levels {}, but this metapac expects {} at {} for {}. "
            "Use one version at all sites.",
            path,
            len(site.thresholds),
            levels,
            count,
            expected,
            Parameter("split", site.guarantee.split),
        )
    return site


def combine_sites(sites: Iterable[Site | PathLike], *, on_infeasible: str = "raise") -> MetaPS:
    """Return what ``MetaPS.calibrate`` returns on the scores of all sites, tasks sorted by name.

    Parameters
    ----------
    sites : iterable of Site or path
        The sites or their files. Each site counts once, and all must agree on the guarantee.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do if the sites are too few: raise ``InfeasibleGuarantee``, or keep every label.

    Returns
    -------
    MetaPS
        The calibrated predictor.

    Raises
    ------
    InfeasibleGuarantee
        If the sites are too few or too small; the message says what would work.
    BadArtefact
        If a file is not a site file, or was edited or damaged.

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
    _check_distinct(named)
    ordered = sorted((site for _where, site in named), key=lambda site: site.name)
    guarantee, thresholds = ordered[0].guarantee, np.array([site.thresholds for site in ordered])
    evidence = Evidence(
        _ids.as_task_names([site.name for site in ordered]),
        np.array([site.examples for site in ordered]),
        thresholds,
        np.full(thresholds.shape[1], -np.inf),  # sites do not send their lowest score
        coarsest_precision(site.precision for site in ordered),
        ordered[0].classes,
    )
    evidence.check_certified(guarantee)
    try:
        return MetaPS.from_evidence(guarantee, evidence, on_infeasible=on_infeasible)
    except InfeasibleGuarantee as error:
        raise InfeasibleGuarantee(
            "{} For another guarantee, every site has to write its file again.", error.message
        ) from None


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


def _check_distinct(named: list[tuple[str, Site]]) -> None:
    seen: dict[str, str] = {}
    for where, site in named:
        if site.name in seen:
            raise InvalidInput(
                f"{where} and {seen[site.name]} are both of site {site.name!r}, and a site counts "
                "only once. Leave one out; if they are two sites, give them two names."
            )
        seen[site.name] = where
