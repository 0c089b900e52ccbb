"""What sites must agree on, and what the coordinator is warned of, before they are combined."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace

from metapac import _checks, _scores
from metapac._visible import name_score
from metapac._warnings import warn
from metapac.context import Context
from metapac.exceptions import InvalidInput, Message, Parameter
from metapac.meaning.checks import check_sites
from metapac.meaning.findings import CheckWarning
from metapac.sites.site import Site

_Named = tuple[str, Site]  # what messages call the site, by its name or by its file, and the site
_ORIGINS = {"model": "model", "score": "score function"}


def check_agreement(named: list[_Named], *, allow: Iterable[str] = ()) -> None:
    """Check that sites can be combined: one guarantee, one order of classes, no site twice.

    Parameters
    ----------
    named : list of tuple of str and Site
        What messages call each site, and the site.
    allow : iterable of str, default ()
        Checks to skip.

    Raises
    ------
    InvalidInput
        If they cannot.

    Warns
    -----
    CheckWarning
        If sites have scores from different columns or of different precision.
    """
    _check_settings(named)
    _check_class_order(named)
    _check_distinct(named)
    sites = [site for _where, site in named]
    check_sites([site.name for site in sites], allow=allow)
    _warn_of_precision(sites)
    _warn_of_columns(named)


def _check_settings(named: list[_Named]) -> None:
    """Raise InvalidInput if two sites have computed with other parameters or other classes."""
    first_where, first = named[0]
    expected = asdict(first.guarantee) | {"classes": first.classes}
    for where, site in named[1:]:
        for key, value in (asdict(site.guarantee) | {"classes": site.classes}).items():
            if value != expected[key]:
                settings = where, Parameter(key, value), first_where, Parameter(key, expected[key])
                remedy = "Run 'metapac site' with the same options everywhere."
                raise InvalidInput("{} was computed with {}, but {} with {}. {}", *settings, remedy)


def _check_class_order(named: list[_Named]) -> None:
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


def _check_distinct(named: list[_Named]) -> None:
    """Raise InvalidInput if two messages are of one site."""
    seen: dict[str, str] = {}
    for where, site in named:
        if site.name in seen:
            raise InvalidInput(
                f"{where} and {seen[site.name]} are both of site {site.name!r}, and a site counts "
                "only once. Leave one out; if they are two sites, give them two names."
            )
        seen[site.name] = where


def _warn_of_precision(sites: list[Site]) -> None:
    """Warn if the precision of some sites decides the sets of all."""
    coarsest = _scores.coarsest_precision(site.precision for site in sites)
    coarse = [site for site in sites if site.precision == coarsest]
    if len(coarse) < len(sites):
        text = f"sets are decided in {coarsest.name}, because of {_name_sites(coarse)}."
        warn(CheckWarning(Message(text)))


def _warn_of_columns(named: list[_Named]) -> None:
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
    """Return the columns that the scores of a site come from."""
    names = {k: v for k, v in (site.columns or {}).items() if k != "classes"}
    return ", ".join(f"{key} {value!r}" for key, value in names.items()) or "an array"


def add_origin(named: list[_Named], context: Context) -> Context:
    """Return the context with the model and the score function that the sites name.

    Parameters
    ----------
    named : list of tuple of str and Site
        What messages call each site, and the site.
    context : Context
        What the guarantee is about, as far as the coordinator knows.

    Returns
    -------
    Context
        The context.

    Raises
    ------
    InvalidInput
        If two sites name different ones, or a site and the context do.

    Warns
    -----
    CheckWarning
        If only some sites name their model.
    """
    for key in _ORIGINS:
        stated = [(where, value) for where, site in named if (value := getattr(site, key))]
        if stated:
            _check_one_origin(key, stated, getattr(context, key))
            context = replace(context, **{key: getattr(context, key) or stated[0][1]})
    _warn_of_unnamed_models([site for _where, site in named])
    return context


def _check_one_origin(key: str, stated: list[tuple[str, str]], given: str | None) -> None:
    """Raise InvalidInput if sites, or the first of them and the context, name different ones."""
    (first_where, first), *others = [(where, name_score(value)) for where, value in stated]
    for where, other in others:
        if other != first:
            raise InvalidInput(
                "{} has scores of the {} {!r}, but {} of {!r}. A guarantee holds for one: use "
                "the same at every site.",
                *(where, _ORIGINS[key], other, first_where, first),
            )
    if given is not None and name_score(given) != first:
        raise InvalidInput(
            "{} must be {!r}, which {} names as the {} of its scores, got {!r}. Leave it out.",
            *(Parameter(key), first, first_where, _ORIGINS[key], given),
        )


def _warn_of_unnamed_models(sites: list[Site]) -> None:
    """Warn if only some sites name their model, so that those of the others may differ."""
    unnamed = [site for site in sites if site.model is None]
    if 0 < len(unnamed) < len(sites):
        names = _name_sites(unnamed)
        text = f"{names} did not name the model, so it cannot be compared with that of the others."
        warn(CheckWarning(Message(text)))


def _name_sites(sites: list[Site]) -> str:
    """Return the names of sites; of many, the first."""
    names = _checks.listed([repr(site.name) for site in sites], shown=3)
    return f"site{'s' if len(sites) > 1 else ''} {names}"
