"""Episodes drawn in bulk follow the same rules as tasks drawn one by one."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor

from metapac.fewshot.drawing import TransformSampler
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.training import episodes
from metapac.fewshot.training.episodes import (
    EpisodeSampler,
    copy_to_device,
    draw_distinct,
    fingerprint,
    fits_on_device,
    take,
)

CPU = torch.device("cpu")


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@st.composite
def pools(draw: st.DrawFn) -> tuple[Any, int, int, int]:
    """Unequal classes in mixed order, each with at least shots + queries examples."""
    ways, shots, queries = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    minimum = shots + queries
    sizes = draw(st.lists(st.integers(minimum, minimum + 5), min_size=ways, max_size=6))
    names = np.repeat(np.arange(len(sizes)) * 7 + 3, sizes)
    y = np.random.default_rng(draw(st.integers(0, 99))).permutation(names)
    return y, ways, shots, queries


@given(pools(), st.integers(0, 2**64 - 1), st.integers(1, 9))
@settings(deadline=None, max_examples=60)
def test_class_episodes_are_few_shot_tasks(
    given_pool: tuple[Any, int, int, int], seed: int, count: int
) -> None:
    y, ways, shots, queries = given_pool
    pool = ClassPool(np.arange(len(y)), y)
    sampler = EpisodeSampler(pool, CPU, ways=ways, shots=shots, queries=queries)
    drawn = sampler.draw(count, seed)[:4]
    assert sampler.classes == ways
    for support, support_y, query, query_y in zip(*(part.numpy() for part in drawn), strict=True):
        assert len({*support, *query}) == ways * (shots + queries)  # no example twice
        assert support_y.tolist() == np.repeat(np.arange(ways), shots).tolist()
        assert query_y.tolist() == np.repeat(np.arange(ways), queries).tolist()
        classes = [
            set(y[support[support_y == w]]) | set(y[query[query_y == w]]) for w in range(ways)
        ]
        assert all(len(names) == 1 for names in classes)  # one label, one class
        assert len(set.union(*classes)) == ways  # two labels, two classes


@given(pools(), st.integers(0, 2**64 - 1))
@settings(deadline=None, max_examples=40)
def test_group_episodes_stay_in_their_group_and_keep_its_labels(
    given_pool: tuple[Any, int, int, int], seed: int
) -> None:
    groups, _, shots, queries = given_pool
    y = np.random.default_rng(seed).integers(3, size=len(groups))
    pool = GroupPool(np.arange(len(y)), y, groups, classes=4)
    sampler = EpisodeSampler(pool, CPU, ways=5, shots=shots, queries=queries)
    drawn = sampler.draw(8, seed)[:4]
    assert sampler.classes == 4
    for support, support_y, query, query_y in zip(*(part.numpy() for part in drawn), strict=True):
        both = np.concatenate([support, query])
        assert len(support) == shots
        assert len(query) == queries
        assert len(set(both)) == shots + queries
        assert len(set(groups[both])) == 1
        assert np.concatenate([support_y, query_y]).tolist() == y[both].tolist()


def uniformity_p_value(outcomes: list[Any], counts: dict[Any, int]) -> float:
    """Return the p-value of the hypothesis that all outcomes are equally likely."""
    assert set(counts) <= set(outcomes)
    return float(stats.chisquare([counts.get(outcome, 0) for outcome in outcomes]).pvalue)


def tally(rows: Tensor) -> dict[Any, int]:
    actual, counts = np.unique(rows.numpy(), axis=0, return_counts=True)
    return dict(zip(map(tuple, actual.tolist()), counts.tolist(), strict=True))


@pytest.mark.parametrize(("size", "count"), [(5, 1), (4, 2), (4, 3), (3, 3)])
def test_every_ordered_choice_is_equally_likely(size: int, count: int) -> None:
    # False alarms: 1 in 10**6. The control shows that the test can fail.
    outcomes = list(itertools.permutations(range(size), count))
    sizes = torch.tensor([size, size + 3] * 20_000)  # the rows of the other size are not counted
    rows = draw_distinct(sizes, count, generator(0))[::2]
    assert uniformity_p_value(outcomes, tally(rows)) > 1e-6
    biased = rows.clone()
    biased[:2000] = torch.arange(count)
    assert uniformity_p_value(outcomes, tally(biased)) < 1e-6


def test_groups_are_drawn_with_replacement_and_equally_often() -> None:
    groups = np.repeat(np.arange(5), [2, 2, 9, 30, 2])  # large groups are not preferred
    pool = GroupPool(np.arange(45), np.zeros(45, dtype=int), groups)
    sampler = EpisodeSampler(pool, CPU, ways=1, shots=1, queries=1)
    chosen = torch.from_numpy(groups)[sampler.draw(20_000, seed=1).support]
    assert uniformity_p_value([(g,) for g in range(5)], tally(chosen)) > 1e-6


def test_classes_of_an_episode_are_equally_likely_in_any_order() -> None:
    y = np.repeat(np.arange(4), [2, 3, 20, 5])
    sampler = EpisodeSampler(ClassPool(np.arange(30), y), CPU, ways=2, shots=1, queries=1)
    chosen = torch.from_numpy(y)[sampler.draw(20_000, seed=2).support]
    assert uniformity_p_value(list(itertools.permutations(range(4), 2)), tally(chosen)) > 1e-6


def test_drawing_in_chunks_gives_valid_choices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "_KEYS", 7)
    rows = draw_distinct(torch.tensor([3, 4, 5] * 50), 3, generator(0))
    assert rows.shape == (150, 3)
    for size, row in zip([3, 4, 5] * 50, rows.tolist(), strict=True):
        assert len(set(row)) == 3
        assert max(row) < size
    assert len({tuple(row) for row in rows.tolist()}) > 20


@dataclass(frozen=True)
class Step:
    """Adds one number to all examples of a task, and a small random one to each."""

    size: int

    @property
    def name(self) -> str:
        return f"step {self.size}"

    def __call__(self, images: Tensor, rng: np.random.Generator) -> Tensor:
        small = torch.from_numpy(rng.integers(10, size=images.shape))
        return images + 1000 * self.size + 100 * small.to(images.device)


def random_step(rng: np.random.Generator) -> Step:
    return Step(int(rng.integers(1, 10**6)))


def a_sampler(x: Any, transform: TransformSampler | None = None) -> EpisodeSampler:
    y = np.repeat(np.arange(4), len(x) // 4)
    return EpisodeSampler(ClassPool(x, y, transform=transform), CPU, ways=3, shots=2, queries=1)


def test_each_episode_has_one_transform_for_all_its_examples() -> None:
    sampler = a_sampler(np.arange(40), random_step)
    drawn = sampler.draw(50, seed=3)
    actual = sampler.gather(drawn)
    both = torch.cat([actual.support_x, actual.query_x], dim=1)  # (50, 9)
    positions = torch.cat([drawn.support, drawn.query], dim=1)
    steps = both // 1000
    assert torch.equal(both % 100, positions)  # examples keep their places
    assert (steps == steps[:, :1]).all()
    assert len(set(steps[:, 0].tolist())) == 50
    assert len(set((both // 100 % 10).flatten().tolist())) == 10  # with a small number each
    assert not (both // 100 % 10 == (both // 100 % 10)[:1]).all(1)[1:].any()


def test_the_transform_of_an_episode_does_not_depend_on_the_others() -> None:
    sampler, again = (a_sampler(np.arange(40), random_step) for _ in range(2))
    drawn = sampler.draw(8, seed=1)
    whole = sampler.gather(drawn)
    again.draw(3, seed=5)
    part = again.gather(again.draw(8, seed=1).part(5, 7))
    assert torch.equal(part.support_x, whole.support_x[5:7])
    assert torch.equal(part.query_x, whole.query_x[5:7])
    assert torch.equal(sampler.gather(drawn).query_x, whole.query_x)
    other = sampler.gather(sampler.draw(8, seed=2))
    assert not (other.support_x // 1000 == whole.support_x // 1000).any()
    assert drawn.seeds.device.type == "cpu"  # so that no transform waits for a GPU


def test_a_transform_that_loses_examples_is_rejected() -> None:
    class Half:
        name = "half"

        def __call__(self, images: Any, rng: object) -> Any:
            return images[::2]

    sampler = a_sampler(np.arange(40), lambda rng: Half())
    with pytest.raises(ValueError, match=r"transform 'half' must return as many .* got 5 for 9"):
        sampler.gather(sampler.draw(1, seed=0))


def test_episodes_depend_on_the_seed_alone() -> None:
    sampler, again = a_sampler(np.arange(40)), a_sampler(np.arange(40))
    sampler.draw(3, seed=5)
    torch.manual_seed(99)
    for one, other in zip(sampler.draw(6, seed=1), again.draw(6, seed=1), strict=True):
        assert torch.equal(one, other)
    assert not torch.equal(sampler.draw(6, seed=1).support, sampler.draw(6, seed=2).support)


def test_the_global_generator_of_torch_does_not_change() -> None:
    before = torch.get_rng_state()
    a_sampler(np.arange(40)).draw(6, seed=1)
    assert torch.equal(torch.get_rng_state(), before)


def read_only(x: Any, folder: Path) -> Any:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


def memory_mapped(x: Any, folder: Path) -> Any:
    np.save(folder / "x.npy", x)
    return np.load(folder / "x.npy", mmap_mode="r")


@pytest.mark.parametrize(
    "keep",
    [
        lambda x, _: x,
        lambda x, _: x[::-1][::-1],
        lambda x, _: np.asfortranarray(x),
        read_only,
        memory_mapped,
        lambda x, _: torch.from_numpy(x),
    ],
    ids=["numpy", "strided", "fortran", "read-only", "memory-mapped", "torch"],
)
def test_data_are_gathered_from_any_kind_of_memory(keep: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(256, size=(40, 3, 2), dtype=np.uint8)
    sampler = a_sampler(keep(x, tmp_path))
    drawn = sampler.draw(4, seed=0)
    actual = sampler.gather(drawn)
    assert actual.support_x.dtype == torch.uint8
    assert actual.support_x.shape == (4, 6, 3, 2)
    assert actual.classes == 3
    np.testing.assert_array_equal(actual.support_x.numpy(), x[drawn.support.numpy()])
    np.testing.assert_array_equal(actual.query_x.numpy(), x[drawn.query.numpy()])
    assert torch.equal(actual.query_y, drawn.query_y)


@pytest.mark.parametrize(
    ("given_type", "expected"),
    [("f8", torch.float32), ("f4", torch.float32), ("i8", torch.int64), ("u1", torch.uint8)],
)
def test_only_floats_change_their_type(given_type: str, expected: torch.dtype) -> None:
    for x in (np.arange(4, dtype=given_type), torch.from_numpy(np.arange(4, dtype=given_type))):
        taken = take(x, torch.tensor([[3, 1]]), CPU)
        assert taken.dtype == expected
        assert taken.tolist() == [[3, 1]]


def test_a_part_of_a_draw_holds_the_same_episodes() -> None:
    drawn = a_sampler(np.arange(40)).draw(6, seed=0)
    part = drawn.part(2, 5)
    assert all(torch.equal(a[2:5], b) for a, b in zip(drawn, part, strict=True))


def test_data_are_copied_to_the_device_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "_CHUNK", 50)
    x = np.random.default_rng(0).integers(256, size=(33, 4, 2), dtype=np.uint8)
    copy = copy_to_device(x, CPU)
    np.testing.assert_array_equal(copy.numpy(), x)
    assert copy.dtype == torch.uint8
    x[:] = 0
    assert copy.any()


def test_data_stay_on_the_device_if_they_take_half_of_the_free_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (200, 1000))
    gpu = torch.device("cuda", 0)
    assert fits_on_device(np.empty(100, np.uint8), gpu)
    assert fits_on_device(torch.empty(50, dtype=torch.int16), gpu)
    assert not fits_on_device(np.empty(101, np.uint8), gpu)
    assert not fits_on_device(np.empty(1, np.uint8), CPU)


def test_a_pool_that_is_too_small_is_rejected_with_its_counts() -> None:
    pool = ClassPool(np.arange(9), list("aaaabbbcc"))
    with pytest.raises(ValueError, match=r"shots \+ queries = 4 examples, got 'b' with 3, 'c' wi"):
        EpisodeSampler(pool, CPU, ways=2, shots=3, queries=1)
    with pytest.raises(ValueError, match=r"ways must be at most 3, the number of classes"):
        EpisodeSampler(pool, CPU, ways=4, shots=1, queries=1)


def test_different_data_have_different_fingerprints() -> None:
    x, y = np.arange(200).reshape(100, 2), np.repeat(np.arange(10), 10)
    same = fingerprint(ClassPool(x.copy(), y))
    assert "10 classes, 100 examples" in same
    assert "shape (2,), int64" in same
    assert same == fingerprint(ClassPool(x, y))
    others: list[ClassPool | GroupPool] = [
        ClassPool(x + 1, y),
        ClassPool(x, y[::-1]),
        ClassPool(x[:90], y[:90]),
        ClassPool(x.astype(float), y),
        GroupPool(x, y, y),
        GroupPool(x, y % 2, y, classes=10),
        ClassPool(x, y, transform=random_step),
        ClassPool(x, y, transform=lambda rng: Step(1)),
        ClassPool(x, y, transform=lambda rng: Step(2)),
    ]
    assert len({same, *(fingerprint(other) for other in others)}) == 10
    again = fingerprint(ClassPool(x, y, transform=lambda rng: Step(2)))
    assert again == fingerprint(others[-1])  # does not depend on the address of the function


@pytest.mark.needs_gpu
@pytest.mark.parametrize("share", [0.5, 0.0], ids=["on the GPU", "on the host"])
def test_on_a_gpu_episodes_do_not_depend_on_where_the_data_are(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "_SHARE", share)
    x = np.random.default_rng(0).integers(256, size=(40, 3, 2), dtype=np.uint8)
    y = np.repeat(np.arange(4), 10)
    sampler = EpisodeSampler(ClassPool(x, y), "cuda", ways=3, shots=2, queries=1)
    assert isinstance(sampler.data, Tensor) == (share > 0)
    drawn = sampler.draw(4, seed=0)
    actual = sampler.gather(drawn)
    assert {part.device.type for part in actual[:-1] if isinstance(part, Tensor)} == {"cuda"}
    np.testing.assert_array_equal(actual.query_x.cpu().numpy(), x[drawn.query.cpu().numpy()])


@pytest.mark.needs_gpu
def test_on_a_gpu_transforms_run_there_and_depend_on_the_seed_alone() -> None:
    pool = ClassPool(np.arange(40), np.repeat(np.arange(4), 10), transform=random_step)
    sampler = EpisodeSampler(pool, "cuda", ways=3, shots=2, queries=1)
    drawn = sampler.draw(4, seed=0)
    actual, again = sampler.gather(drawn), sampler.gather(sampler.draw(4, seed=0))
    assert actual.query_x.device.type == "cuda"
    assert torch.equal(actual.query_x, again.query_x)
    assert torch.equal(actual.query_x % 100, drawn.query)
