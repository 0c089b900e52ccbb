"""The second step at the coordinator: one calibrated predictor from the messages of all sites."""

from __future__ import annotations

from collections.abc import Iterable

from metapac._types import PathLike
from metapac.calibration import MetaPS
from metapac.context import Context, as_context
from metapac.exceptions import InfeasibleGuarantee, InvalidInput
from metapac.sites.agreement import add_origin, check_agreement
from metapac.sites.site import Site, join_sites, read_site


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
        What to do if the sites are too few: raise ``InfeasibleGuarantee``, or keep every label (for
        numbers, infinite intervals).
    context : Context, optional
        What the guarantee is about: model, training sites, vocabulary. By default, the model is
        the one that the sites name.
    allow : iterable of str, default ()
        Checks to skip: "task-names" takes sites whose names are alike for different sites,
        "duplicates" sites with the same number of examples and range of scores.

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
        have one name, names that are alike, or the same scores.

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
    check_agreement(named, allow=allow)
    about = add_origin(named, as_context(context))
    ordered = sorted((site for _where, site in named), key=lambda site: site.name)
    guarantee = ordered[0].guarantee
    try:
        return MetaPS.from_evidence(
            guarantee, join_sites(ordered), on_infeasible=on_infeasible, context=about, allow=allow
        )
    except InfeasibleGuarantee as error:
        raise InfeasibleGuarantee(
            "{} For another guarantee, every site has to write its file again.", error.message
        ) from None
