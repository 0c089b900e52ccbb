"""Several seeds: independent draws, one summary, and folders that are extended, not shrunk."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac.fewshot import run_seeds, run_study, summarise
from metapac.fewshot.study.draws import Draw
from metapac.fewshot.study.run import check_seeds, find_seeds, read_seeds
from metapac.fewshot.study.summary import Summary
from tests.helpers.studies import GUARANTEE, SmallStudy, same_rows

MADE: list[int] = []
DRAWN: list[int] = []


@dataclass(frozen=True)
class Trained(SmallStudy):
    """The study of a seed, which it says in its description."""

    seed: int = 0

    @property
    def notes(self) -> tuple[str, ...]:
        return ("a note",)

    def draw(self, rng: np.random.Generator) -> Draw:
        DRAWN.append(self.seed)
        return super().draw(rng)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"notes": list(self.notes)}


def make(seed: int) -> Trained:
    MADE.append(seed)
    return Trained(seed=seed)


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    MADE.clear()
    DRAWN.clear()


def run(folder: Path | None = None, **options: Any) -> Summary:
    return run_seeds(make, guarantee=GUARANTEE, folder=folder, **({"draws": 3} | options))


def same(one: Summary, other: Summary) -> bool:
    pairs = zip(one.rows, other.rows, strict=True)
    return one.lines == other.lines and all(same_rows(*pair) for pair in pairs)


def test_each_seed_has_its_own_study_and_its_own_draws() -> None:
    summary = run(seeds=3, rng=5)
    assert MADE == [5, 6, 7]
    for seed, rows in zip(MADE, summary.rows, strict=True):
        alone = run_study(Trained(seed=seed), guarantee=GUARANTEE, draws=3, rng=seed)
        assert same_rows(rows, alone)
    assert summary.lines == summarise(summary.rows, GUARANTEE).lines
    assert not np.array_equal(summary.rows[0].threshold, summary.rows[1].threshold)
    assert summary.notes == ("a note",)
    assert "over 3 seeds" in summary.covers


def test_a_folder_is_read_extended_and_not_repeated(tmp_path: Path) -> None:
    first = run(tmp_path, seeds=2)
    assert same(read_seeds(tmp_path), first)
    assert read_seeds(tmp_path).notes == ("a note",)
    DRAWN.clear()
    more = run(tmp_path, seeds=3)
    assert DRAWN == [2, 2, 2]
    assert same(more, run(seeds=3))
    DRAWN.clear()
    longer = run(tmp_path, seeds=3, draws=4)
    assert DRAWN == [0, 1, 2]
    assert same(read_seeds(tmp_path), longer)


def test_a_folder_does_not_lose_seeds_or_draws(tmp_path: Path) -> None:
    run(tmp_path, seeds=2, draws=2)
    with pytest.raises(
        ValueError, match="already holds seed 1, and this call has the seeds 0 to 0"
    ):
        run(tmp_path, seeds=1, draws=2)
    with pytest.raises(
        ValueError, match="already holds seed 0, and this call has the seeds 1 to 3"
    ):
        run(tmp_path, seeds=3, rng=1, draws=2)
    with pytest.raises(ValueError, match="already holds 2 draws, more than draws=1"):
        run(tmp_path, seeds=2, draws=1)


def test_an_interrupted_study_resumes(tmp_path: Path) -> None:
    def stop(stage: str, done: int, total: int | None) -> None:
        if stage == "seed 1: draws" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, seeds=2, progress=stop)
    DRAWN.clear()
    assert same(run(tmp_path, seeds=2), run(seeds=2))
    assert DRAWN[:1] == [1]
    assert len(DRAWN) == 1 + 6


@pytest.mark.parametrize(("changes", "name"), [({"seeds": 0}, "seeds"), ({"rng": -1}, "rng")])
def test_numbers_are_checked(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number"):
        run(**changes)
    assert not MADE


def test_other_folders_are_explained(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no evaluation is here"):
        read_seeds(tmp_path)
    run_study(SmallStudy(), guarantee=GUARANTEE, draws=1, folder=tmp_path)
    with pytest.raises(ValueError, match="holds the evaluation of a single study. Read it with"):
        read_seeds(tmp_path)


def test_only_numbered_folders_are_seeds(tmp_path: Path) -> None:
    run(tmp_path, seeds=2)
    for name in ("seed-x", "seed-", "seed-1.old", "seed--1"):
        shutil.copytree(tmp_path / "seed-1", tmp_path / name)
    (tmp_path / "seed-7").mkdir()  # nothing has begun there
    assert find_seeds(tmp_path) == [0, 1]
    assert read_seeds(tmp_path).seeds == 2
    run(tmp_path, seeds=12)
    assert find_seeds(tmp_path) == [*range(12)]  # as numbers: 10 follows 9


@pytest.mark.parametrize(
    ("held", "rng", "seeds", "first", "count"),
    [((0, 1), 0, 1, 0, 2), ((3,), 5, 2, 3, 4), ((9,), 1, 2, 1, 9), ((0, 9), 4, 1, 0, 10)],
)
def test_the_remedy_for_a_seed_that_is_left_out_works(
    tmp_path: Path, held: tuple[int, ...], rng: int, seeds: int, first: int, count: int
) -> None:
    for seed in held:
        (tmp_path / f"seed-{seed}").mkdir()
        (tmp_path / f"seed-{seed}" / "evaluation.json").touch()
    with pytest.raises(ValueError, match=f"Pass rng={first} and seeds={count}, or choose"):
        check_seeds(tmp_path, rng, seeds)
    check_seeds(tmp_path, first, count)
    assert {*held, rng, rng + seeds - 1} <= {*range(first, first + count)}
