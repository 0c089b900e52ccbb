"""Sites that may not share data: each writes one number, a coordinator combines them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from metapac import _checks, persistence
from metapac.calibration import Evidence, MetaPS
from metapac.guarantee import Guarantee
from metapac.persistence import BadArtefact

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Site:
    """What a site sends: its threshold at each level, and how many examples are behind it."""

    name: str
    examples: int
    thresholds: tuple[float, ...]  # one for each level of the guarantee
    guarantee: Guarantee
    precision: np.dtype[Any]

    def save(self, path: Path) -> None:
        """Write the site as versioned JSON, atomically. No score but the thresholds is in it."""
        body = {
            "site": self.name,
            "examples": self.examples,
            "parameters": asdict(self.guarantee),
            "levels": _levels(self.guarantee),
            "thresholds": [persistence.encode(value) for value in self.thresholds],
            "precision": self.precision.name,
        }
        persistence.write(path, body, persistence.SITE)


def read_site(path: Path) -> Site:
    """Return what ``Site.save`` wrote; refuse a file that is not as it was."""
    body = persistence.read(path, persistence.SITE)
    try:
        guarantee = Guarantee(**body["parameters"])
        thresholds = tuple(float(value) for value in body["thresholds"])
        examples = _checks.whole_number("examples", body["examples"])
        site = Site(str(body["site"]), examples, thresholds, guarantee, np.dtype(body["precision"]))
        levels = body["levels"]
    except (KeyError, TypeError, ValueError) as error:
        raise BadArtefact(
            f"{path} does not hold what a site sends ({type(error).__name__}: {error}). "
            "Write it again with 'metapac site'."
        ) from error
    if levels != _levels(guarantee) or len(thresholds) != len(levels):
        raise BadArtefact(
            f"{path} has {len(thresholds)} thresholds at levels {levels}, where this metapac has "
            f"{_levels(guarantee)} for split={guarantee.split!r}. Use one version at all sites."
        )
    return site


def combine_sites(sites: Iterable[Site | Path], *, on_infeasible: str = "raise") -> MetaPS:
    """Return what ``MetaPS.calibrate`` returns on the scores of all sites, tasks sorted by name.

    ``sites`` are ``Site`` values or their files. A site counts once, and all must have the same
    epsilon, alpha, delta and split.
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
    evidence = Evidence(
        _checks.task_names([site.name for site in ordered]),
        np.array([site.examples for site in ordered]),
        np.array([site.thresholds for site in ordered]),
        min((site.precision for site in ordered), key=lambda dtype: dtype.itemsize),
    )
    guarantee = ordered[0].guarantee
    evidence.refuse_uncertified(guarantee)
    return MetaPS(**asdict(guarantee), on_infeasible=on_infeasible)._conclude(evidence)


def _levels(guarantee: Guarantee) -> list[float]:
    return [level.alpha_within for level in guarantee.levels]


def _refuse_different(named: list[tuple[str, Site]]) -> None:
    first_where, first = named[0]
    for where, site in named[1:]:
        ours, theirs = asdict(first.guarantee), asdict(site.guarantee)
        for key in ours:
            if ours[key] != theirs[key]:
                raise ValueError(
                    f"{where} was computed with {key}={theirs[key]!r}, but {first_where} with "
                    f"{key}={ours[key]!r}. Run 'metapac site' with the same levels everywhere."
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
