"""State-years as pools: every respondent in its place, features on one scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metapac.fewshot.datasets import cache, heart
from metapac.fewshot.datasets.heart import StateYears, mean_and_deviation, standardise
from metapac.fewshot.datasets.heart_files import state_name


def data_of(home: Path, **sizes: int) -> cache.Prepared:
    """State-years such as y2015_39 of some sizes, shuffled; x tells year, state and place."""
    groups = [tuple(map(int, name[1:].split("_"))) for name in sizes]
    year, state = (np.repeat([g[k] for g in groups], [*sizes.values()]) for k in (0, 1))
    order = np.random.default_rng(0).permutation(len(year))
    year, state = year[order].astype(np.int16), state[order].astype(np.int16)

    def fill(writer: cache.Writer) -> dict[str, Any]:
        writer.append("x", np.stack([year, state, np.arange(len(year))], 1).astype(np.float32))
        writer.append("y", np.zeros(len(year), np.int8))
        writer.append("year", year)
        writer.append("state", state)
        return {}

    return cache.prepare("heart", [], fill, home=home)


@given(
    rows=st.lists(st.integers(0, 19), min_size=1, unique=True).map(sorted),
    block=st.integers(1, 21),
    seed=st.integers(0, 99),
)
def test_the_scale_is_that_of_the_chosen_rows(rows: list[int], block: int, seed: int) -> None:
    x = np.random.default_rng(seed).normal(50, 3, (20, 3)).astype(np.float32)
    x[:, 1] = 0.1  # no binary fraction: sums of it may round
    chosen = np.array(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heart, "_BLOCK", block)
        centre, scale = mean_and_deviation(x, chosen)
        result = standardise(x, np.arange(20), centre, scale)
    training = x[chosen].astype(np.float64)
    spread = np.where(training.min(0) == training.max(0), 1, training.std(0))
    np.testing.assert_allclose(centre, training.mean(0), rtol=1e-12)
    np.testing.assert_allclose(scale, spread, rtol=1e-9)
    np.testing.assert_allclose(result, (x - training.mean(0)) / spread, rtol=1e-5, atol=1e-5)
    assert result.dtype == np.float32
    assert not result[:, 1].any()


def test_respondents_stay_with_their_state_and_year(tmp_path: Path) -> None:
    data = data_of(tmp_path, y2015_39=5, y2015_1=3, y2016_39=4, y2016_99=2)
    groups = StateYears(data, None)
    rows = {
        "train": np.flatnonzero(data["year"] == 2015),
        "test": np.flatnonzero(data["year"] > 2015),
    }
    pools = groups.pools(rows, {"train": "train", "test": "test"})
    assert pools.train.names == ["2015 Alabama", "2015 Ohio"]
    assert pools.test.names == ["2016 Ohio", "2016 state 99"]
    centre, scale = mean_and_deviation(data["x"], rows["train"])
    for pool in (pools.train, pools.test):
        coded = np.round(pool.x * scale + centre).astype(int)
        for name, positions in zip(pool.names, pool.positions, strict=True):
            for year, state, place in coded[positions].tolist():
                assert f"{year} {state_name(state)}" == name
                assert (data["year"][place], data["state"][place]) == (year, state)
    assert (pools.train.classes, pools.test.classes) == (2, 2)  # though nobody had one


def test_small_state_years_are_left_out_and_counted(tmp_path: Path) -> None:
    data = data_of(tmp_path, y2015_39=5, y2015_1=3, y2016_39=4, y2016_2=2)
    every = np.ones(14, np.bool_)
    sizes = {
        least: len(StateYears(data, least).rows("train", every)) for least in (None, 2, 3, 4, 5)
    }
    assert sizes == {None: 14, 2: 14, 3: 12, 4: 9, 5: 5}
    groups = StateYears(data, 4)
    assert groups.name("train", every) == "train, without 2 state-years of fewer than 4 rows"
    assert groups.name("train", data["state"] == 39) == "train"
    with pytest.raises(
        ValueError,
        match=r"min_size must leave some .* in test, got 6; the largest of all has 5 rows\.",
    ):
        StateYears(data, 6).rows("test", every)
    assert not len(groups.rows("validation", ~every))
    with pytest.raises(ValueError, match="min_size must .*whole number.* from 1"):
        StateYears(data, 0)


def test_states_have_the_names_of_their_numbers() -> None:
    known = {n: state_name(n) for n in range(100) if not state_name(n).startswith("state ")}
    assert len(known) == len(set(known.values())) == 50 + 1 + 5
    states = [name for n, name in known.items() if n <= 56 and n != 11]
    assert states == sorted(states)  # the numbers follow the alphabet
    assert (state_name(11), state_name(72)) == ("District of Columbia", "Puerto Rico")
    assert state_name(3) == "state 3"
