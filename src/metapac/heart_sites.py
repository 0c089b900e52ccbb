"""The shipped sample of the CDC's survey: heart attacks in 53 states and territories."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from metapac._common import Array, Counts, Floats, as_whole_number, require
from metapac.errors import InvalidInput

LABELS = ("no", "yes")
YEARS = ("2021", "2022")  # the second, of the training states, is the pilot


class HeartSites(NamedTuple):
    """Respondents in four groups of states, as pandas frames.

    Attributes
    ----------
    train, pilot, calibration, new : DataFrame
        One row per respondent: the coded answers (the columns ``features``, -1 where an answer is
        missing), ``attack`` ("yes" or "no") and ``state``. The index numbers the respondents.
    """

    train: Any
    pilot: Any
    calibration: Any
    new: Any

    def __repr__(self) -> str:
        counts = (f"{name} {frame['state'].nunique()}" for name, frame in self._asdict().items())
        return f"<HeartSites, states: {', '.join(counts)}>"

    @property
    def features(self) -> list[str]:
        """Names of the columns that hold the answers."""
        return [name for name in self.train.columns if name not in ("attack", "state")]


def load_heart_sites(
    train: int = 10, calibration: int = 20, *, rng: int | np.random.Generator = 0
) -> HeartSites:
    """Return a sample of a US health survey, split by state: one binary label, real shifts.

    The label is whether a respondent ever had a heart attack (about 5% did). A task is one state.
    Nothing is downloaded.

    Parameters
    ----------
    train : int, default 10
        Number of states to fit a model on.
    calibration : int, default 20
        Number of states to calibrate on. The rest of the 53 are new.
    rng : int or Generator, default 0
        Seed of the split. States are drawn at random, and no state is in two of the groups, except
        that ``pilot`` holds the training states, asked again a year later. The model knows these
        states, so that what a pilot promises may be too good.

    Returns
    -------
    HeartSites
        The frames ``train``, ``pilot``, ``calibration`` and ``new``, and the list ``features``.
        States are in the order in which they were drawn.

    Notes
    -----
    The source is the Behavioral Risk Factor Surveillance System (BRFSS) of the US Centers for
    Disease Control and Prevention, which is in the public domain: 2021, and 2022 for ``pilot``.
    The sample holds 1,700 respondents of each state, drawn at random without replacement, or all
    of them where there are fewer; no respondent was selected by the label. The states of 2021 were
    inferred from the order of the file and the CDC's number of rows per state, and 2022 keeps
    complete answers only. Survey weights are not included: rates describe the respondents, not the
    population. ``heart_sites.txt`` beside this module lists the codes.

    Examples
    --------
    >>> from metapac import load_heart_sites
    >>> sites = load_heart_sites()
    >>> sites.features[:3]
    ['female', 'age_group', 'bmi_group']
    >>> [frame["state"].nunique() for frame in sites]
    [10, 10, 20, 23]
    """
    pandas = require("pandas", extra="tables", purpose="load_heart_sites")
    sample = read_sample()
    if not isinstance(rng, np.random.Generator):
        rng = as_whole_number("rng", rng, minimum=0)
    states = np.random.default_rng(rng).permutation(sample.states)
    ends = np.cumsum([as_whole_number("train", train), as_whole_number("calibration", calibration)])
    if ends[-1] >= len(states):
        rule = f"train and calibration must leave one of {len(states)} states new"
        raise InvalidInput(f"{rule}, got {ends[-1]} together.")

    def frame(states: Array, year: str) -> Any:
        rows = sample.find_rows(states, year)
        answers = pandas.DataFrame(sample.x[rows], columns=sample.features, index=rows)
        labels = np.array(LABELS)[sample.y[rows]]
        return answers.rename_axis("person").assign(attack=labels, state=sample.state[rows])

    first, second, third = np.split(states, ends)
    now, later = YEARS
    return HeartSites(*map(frame, (first, first, second, third), (now, later, now, now)))


class Sample(NamedTuple):
    """The stored arrays, one row per respondent; a state asked in both years occurs twice."""

    x: Floats
    y: Counts
    state: Array
    year: Array
    features: list[str]

    @property
    def states(self) -> Array:
        """The states asked in the first year, sorted."""
        return np.unique(self.state[self.year == YEARS[0]])

    def find_rows(self, states: Array, year: str = YEARS[0]) -> Counts:
        """Return the rows of some states in one year, state by state in their order."""
        found = [np.flatnonzero((self.year == year) & (self.state == state)) for state in states]
        return np.concatenate(found)


def read_sample() -> Sample:
    """Return the sample as arrays, which needs no pandas."""
    with files("metapac").joinpath("heart_sites.npz").open("rb") as file, np.load(file) as stored:
        label, *answers = stored["answers"]
        year, _, state = np.char.partition(stored["task_names"], " ").T
        x, y = np.stack(answers, axis=1).astype(float), label.astype(np.int64)
        state, year = (np.repeat(names, stored["sizes"]) for names in (state, year))
        return Sample(x, y, state, year, stored["feature_names"].tolist())
