"""The shipped sample of the CDC's survey: heart attacks in 107 state-years."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np

from metapac._types import Array, Counts, Floats


@dataclass(frozen=True)
class SitesSample:
    """Respondents of 107 surveys, one survey per state and year.

    Attributes
    ----------
    x : ndarray of float, shape (n, 11)
        Coded answers of each respondent; -1 where the answer is missing.
    y : ndarray of int, shape (n,)
        1 if the respondent ever had a heart attack, otherwise 0.
    tasks : ndarray of str, shape (n,)
        State-year of each respondent, such as ``"2021 Ohio"``.
    feature_names : tuple of str
        Names of the columns of ``x``.
    """

    x: Floats
    y: Counts
    tasks: Array
    feature_names: tuple[str, ...]


def sites_sample() -> SitesSample:
    """Return a sample of a US health survey: one binary label, 107 sites, real shifts.

    The label is whether a respondent ever had a heart attack (about 5 % did). A task is one state
    in one year. Nothing is downloaded, and no optional dependency is needed.

    Returns
    -------
    SitesSample
        The features ``x``, the labels ``y``, the state-year of each row in ``tasks``, and
        ``feature_names``. Rows are sorted by state-year and are in random order within each.

    Notes
    -----
    The source is the Behavioral Risk Factor Surveillance System (BRFSS) of the US Centers for
    Disease Control and Prevention, 2021 and 2022, which is in the public domain. The sample holds
    1,700 respondents of each state-year, drawn at random without replacement, or all of them where
    there are fewer; no respondent was selected by the label. The states of 2021 were inferred from
    the order of the file and the CDC's number of rows per state, and 2022 keeps complete answers
    only, so missing answers occur in 2021 alone. Survey weights are not included: rates describe
    the respondents, not the population. ``PROVENANCE.txt`` beside this module lists the codes.

    A state that was surveyed in both years gives two tasks, which are not independent of each
    other. Use one year only where that matters.

    Examples
    --------
    >>> from metapac.datasets import sites_sample
    >>> sample = sites_sample()
    >>> sample.x.shape
    (180411, 11)
    >>> sample.feature_names[:3]
    ('female', 'age_group', 'bmi_group')
    >>> rows = sample.tasks == "2021 Ohio"
    >>> print(f"{sample.y[rows].mean():.1%} of {rows.sum()} respondents")
    7.6% of 1700 respondents
    """
    with files(__package__).joinpath("sites.npz").open("rb") as file, np.load(file) as stored:
        label, *answers = stored["answers"]
        return SitesSample(
            x=np.stack(answers, axis=1).astype(float),
            y=label.astype(np.int64),
            tasks=np.repeat(stored["task_names"], stored["sizes"]),
            feature_names=tuple(stored["feature_names"].tolist()),
        )
