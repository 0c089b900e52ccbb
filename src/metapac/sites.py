"""Sites that may not share data: each sends a few numbers, a coordinator combines them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from metapac import _checks, persistence
from metapac.calibration import MetaPS
from metapac.evidence import Evidence, coarsest, unknown_lowest
from metapac.guarantee import Guarantee, InfeasibleGuarantee
from metapac.persistence import BadArtefact

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Site:
    """What a site sends: its threshold at each level, and how many examples are behind it.

    Attributes
    ----------
    name : str
        Name of the site; no two may share it.
    guarantee : Guarantee
        What all sites agreed on.
    examples : tuple of int
        Number of examples; with a guarantee per class, of each class.
    thresholds : tuple of tuple of float
        One number for each level; with a guarantee per class, a row for each class.
    precision : numpy.dtype
        Precision of the scores.
    classes : tuple or None
        The classes, where the guarantee is per class.
    """

    name: str
    guarantee: Guarantee
    examples: tuple[int, ...]
    thresholds: tuple[tuple[float, ...], ...]
    precision: np.dtype[Any]
    classes: tuple[Any, ...] | None = None

    @classmethod
    def of_evidence(cls, name: str, guarantee: Guarantee, found: Evidence) -> Site:
        """Return what a site sends whose scores are those of one task."""
        return cls(
            name,
            guarantee,
            tuple(found.sizes[0].tolist()),
            tuple(tuple(row) for row in found.thresholds[0].tolist()),
            found.precision,
            found.classes,
        )

    def save(self, path: Path) -> None:
        """Write the site as versioned JSON, atomically. No score but the thresholds is in it.

        Parameters
        ----------
        path : str or path
            File to write.
        """
        body = {
            "site": self.name,
            "parameters": _parameters(self.guarantee),
            "levels": _levels(self.guarantee),
            "classes": None if self.classes is None else list(self.classes),
            "examples": list(self.examples),
            "thresholds": persistence.encode_all([list(row) for row in self.thresholds]),
            "precision": self.precision.name,
        }
        persistence.write(path, body, persistence.SITE)


def read_site(path: Path) -> Site:
    """Return what ``Site.save`` wrote; refuse a file that is not as it was.

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
        If the file is not a site's, is damaged, or was written by another version of metapac.
    """
    body = persistence.read(path, persistence.SITE)
    try:
        site = Site(
            str(body["site"]),
            Guarantee(**persistence.restored(body["parameters"])),
            tuple(_checks.whole_numbers("examples", body["examples"], least=0).tolist()),
            tuple(tuple(float(value) for value in row) for row in body["thresholds"]),
            np.dtype(body["precision"]),
            None if body["classes"] is None else tuple(body["classes"]),
        )
        levels, expected = body["levels"], _levels(site.guarantee)
        count = 1 if site.classes is None else len(site.classes)
    except (KeyError, TypeError, ValueError) as error:
        raise BadArtefact(
            f"{path} does not hold what a site sends ({type(error).__name__}: {error}). "
            "Write it again with 'metapac site'."
        ) from error
    shape = [len(site.examples), *{len(row) for row in site.thresholds}, len(site.thresholds)]
    if levels != expected or shape != [count, len(levels), count]:
        raise BadArtefact(
            f"{path} has {len(site.thresholds)} rows of thresholds at levels {levels}, where this "
            f"metapac has {count} at {expected} for split={site.guarantee.split!r}. Use one "
            "version at all sites."
        )
    return site


def combine_sites(sites: Iterable[Site | Path], *, on_infeasible: str = "raise") -> MetaPS:
    """Return what ``MetaPS.calibrate`` returns on the scores of all sites, tasks sorted by name.

    Parameters
    ----------
    sites : iterable of Site or path
        The sites or their files. A site counts once, and all must agree on the guarantee.
    on_infeasible : {"raise", "trivial"}, default "raise"
        What to do where the sites are too few.

    Returns
    -------
    MetaPS
        The calibrated object.
    """
    named = [
        (str(each), read_site(each))
        if not isinstance(each, Site)
        else (f"site {each.name!r}", each)
        for each in sites
    ]
    if not named:
        raise ValueError("sites is empty; pass at least one file written by 'metapac site'.")
    _refuse_different(named)
    _refuse_repeated(named)
    ordered = sorted((site for _where, site in named), key=lambda site: site.name)
    thresholds = np.array([site.thresholds for site in ordered])
    found = Evidence(
        _checks.task_names([site.name for site in ordered]),
        np.array([site.examples for site in ordered]),
        thresholds,
        unknown_lowest(thresholds.shape[1]),
        coarsest(site.precision for site in ordered),
        ordered[0].classes,
    )
    guarantee = ordered[0].guarantee
    found.refuse_uncertified(guarantee)
    try:
        return MetaPS(**asdict(guarantee), on_infeasible=on_infeasible)._conclude(found)
    except InfeasibleGuarantee as error:
        raise InfeasibleGuarantee(
            f"{error} For another guarantee, every site has to write its file again."
        ) from None


def _levels(guarantee: Guarantee) -> list[float]:
    return [level.alpha_within for level in guarantee.levels]


def _parameters(guarantee: Guarantee) -> dict[str, Any]:
    return {name: persistence.plain(value) for name, value in asdict(guarantee).items()}


def _refuse_different(named: list[tuple[str, Site]]) -> None:
    first_where, first = named[0]
    for where, site in named[1:]:
        ours = asdict(first.guarantee) | {"classes": first.classes}
        theirs = asdict(site.guarantee) | {"classes": site.classes}
        for key in ours:
            if ours[key] != theirs[key]:
                raise ValueError(
                    f"{where} was computed with {key}={theirs[key]!r}, but {first_where} with "
                    f"{key}={ours[key]!r}. Run 'metapac site' with the same options everywhere."
                )


def _refuse_repeated(named: list[tuple[str, Site]]) -> None:
    seen: dict[str, str] = {}
    for where, site in named:
        if site.name in seen:
            raise ValueError(
                f"{where} and {seen[site.name]} are both of site {site.name!r}, and a site counts "
                "only once. Leave one out; if they are two sites, give them two names."
            )
        seen[site.name] = where
