"""Episodes drawn in bulk follow the rules of tasks drawn one by one; images are augmented."""

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

from metapac.fewshot import Conv4
from metapac.fewshot.pools import ClassPool, GroupPool
from metapac.fewshot.training import episodes
from metapac.fewshot.training.loop import Recipe

CPU = torch.device("cpu")


def generator(seed: int = 0) -> torch.Generator:
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
def test_episodes_are_tasks(given_pool: tuple[Any, int, int, int], seed: int, count: int) -> None:
    y, ways, shots, queries = given_pool
    shape = {"ways": ways, "shots": shots, "queries": queries}
    drawn = episodes.EpisodeSampler(ClassPool(np.arange(len(y)), y), CPU, **shape).draw(count, seed)
    for support, support_y, query, query_y in zip(*(x.numpy() for x in drawn[:4]), strict=True):
        assert len({*support, *query}) == ways * (shots + queries)  # no example twice
        assert support_y.tolist() == np.repeat(np.arange(ways), shots).tolist()
        assert query_y.tolist() == np.repeat(np.arange(ways), queries).tolist()
        classes = [{*y[support[support_y == w]], *y[query[query_y == w]]} for w in range(ways)]
        assert all(len(names) == 1 for names in classes)  # one label, one class
        assert len(set.union(*classes)) == ways  # two labels, two classes
    groups, labels = y, np.random.default_rng(seed).integers(3, size=len(y))
    pool = GroupPool(np.arange(len(y)), labels, groups, classes=4)
    sampler = episodes.EpisodeSampler(pool, CPU, **{**shape, "ways": 5})
    assert sampler.classes == 4
    for support, support_y, query, query_y in zip(*sampler.draw(8, seed)[:4], strict=True):
        both = np.concatenate([support, query])
        assert (len(support), len(query), len({*both})) == (shots, queries, shots + queries)
        assert len({*groups[both]}) == 1
        assert np.concatenate([support_y, query_y]).tolist() == labels[both].tolist()


def uniformity_p_value(outcomes: list[Any], rows: Tensor) -> float:
    """Return the p-value of the hypothesis that all outcomes are equally likely."""
    actual, counts = np.unique(rows.numpy(), axis=0, return_counts=True)
    found = dict(zip(map(tuple, actual.tolist()), counts.tolist(), strict=True))
    assert found.keys() <= set(outcomes)
    return float(stats.chisquare([found.get(outcome, 0) for outcome in outcomes]).pvalue)


def test_every_choice_is_equally_likely() -> None:
    # False alarms: 1 in 10**6 each. The control shows that the test can fail.
    for size, count in ((5, 1), (4, 3), (3, 3)):
        outcomes = list(itertools.permutations(range(size), count))
        sizes = torch.tensor([size, size + 3] * 20_000)  # rows of the other size are not counted
        rows = episodes.draw_distinct(sizes, count, generator())[::2]
        assert uniformity_p_value(outcomes, rows) > 1e-6
        rows[:2000] = torch.arange(count)
        assert uniformity_p_value(outcomes, rows) < 1e-6
    # Large groups and classes are not preferred.
    y = np.repeat(np.arange(4), [2, 3, 20, 5])
    for ways, pool in ((1, GroupPool(y, 0 * y, y)), (2, ClassPool(y, y))):
        sampler = episodes.EpisodeSampler(pool, CPU, ways=ways, shots=1, queries=1)
        chosen = torch.from_numpy(y)[sampler.draw(20_000, seed=2).support]
        assert uniformity_p_value(list(itertools.permutations(range(4), ways)), chosen) > 1e-6


def test_large_data_are_handled_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "_KEYS", 7)
    rows = episodes.draw_distinct(torch.tensor([3, 4, 5] * 50), 3, generator()).tolist()
    for size, row in zip([3, 4, 5] * 50, rows, strict=True):
        assert len(set(row)) == 3
        assert max(row) < size
    assert len({tuple(row) for row in rows}) > 20
    monkeypatch.setattr(episodes, "_CHUNK", 50)
    x = np.random.default_rng(0).integers(256, size=(33, 4, 2), dtype=np.uint8)
    copy = episodes.copy_to_device(x, CPU)
    assert copy.dtype == torch.uint8
    np.testing.assert_array_equal(copy.numpy(), x)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (200, 1000))
    gpu = torch.device("cuda", 0)
    fits = [episodes.fits_on_device(np.empty(n, np.uint8), gpu) for n in (100, 101)]
    assert fits == [True, False]  # half of the free memory
    assert not episodes.fits_on_device(np.empty(1, np.uint8), CPU)


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


def a_sampler(x: Any, transform: Any = None, device: Any = CPU) -> episodes.EpisodeSampler:
    y = np.repeat(np.arange(4), len(x) // 4)
    return episodes.EpisodeSampler(
        ClassPool(x, y, transform=transform), device, ways=3, shots=2, queries=1
    )


def test_each_episode_has_one_transform_that_depends_on_its_seed_alone() -> None:
    sampler, again = (a_sampler(np.arange(40), random_step) for _ in range(2))
    drawn = sampler.draw(50, seed=3)
    whole = sampler.gather(drawn)
    both = torch.cat([whole[0], whole[2]], dim=1)  # (50, 9)
    assert torch.equal(both % 100, torch.cat([drawn.support, drawn.query], dim=1))
    steps, small = both // 1000, both // 100 % 10
    assert (steps == steps[:, :1]).all()
    assert len(set(steps[:, 0].tolist())) == 50
    assert len(set(small.flatten().tolist())) == 10  # with a small number each
    again.draw(3, seed=5)
    part = again.gather(again.draw(50, seed=3).part(5, 7))
    assert torch.equal(part[0], whole[0][5:7])
    assert torch.equal(part[2], whole[2][5:7])
    assert drawn.seeds.device.type == "cpu"  # so that no transform waits for a GPU


def test_data_are_gathered_from_any_kind_of_memory(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(256, size=(40, 3, 2), dtype=np.uint8)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")  # read-only
    for data in (x[::-1][::-1], np.asfortranarray(x), mapped, torch.from_numpy(x)):
        sampler = a_sampler(data)
        drawn = sampler.draw(4, seed=0)
        actual = sampler.gather(drawn)
        np.testing.assert_array_equal(actual[0].numpy(), x[drawn.support.numpy()])
        np.testing.assert_array_equal(actual[2].numpy(), x[drawn.query.numpy()])
        assert torch.equal(actual[3], drawn.query_y)
    kinds = {"f8": torch.float32, "f4": torch.float32, "i8": torch.int64, "u1": torch.uint8}
    for kind, expected in kinds.items():  # only floats change their type
        for numbers in (np.arange(4, dtype=kind), torch.from_numpy(np.arange(4, dtype=kind))):
            taken = episodes.take(numbers, torch.tensor([[3, 1]]), CPU)
            assert (taken.dtype, taken.tolist()) == (expected, [[3, 1]])


def test_different_data_have_different_fingerprints() -> None:
    x, y = np.arange(200).reshape(100, 2), np.repeat(np.arange(10), 10)
    pools: list[ClassPool | GroupPool] = [
        ClassPool(x, y),
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
    texts = [episodes.fingerprint(pool) for pool in pools]
    assert len({*texts}) == 10
    assert texts[0] == episodes.fingerprint(ClassPool(x.copy(), y))
    # It does not depend on the address of a function.
    assert texts[-1] == episodes.fingerprint(ClassPool(x, y, transform=lambda rng: Step(2)))


@pytest.mark.needs_gpu
@pytest.mark.parametrize("share", [0.5, 0.0], ids=["on the GPU", "on the host"])
def test_gpu_episodes_are_those_of_the_host(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "_SHARE", share)
    x = np.random.default_rng(0).integers(256, size=(40, 3, 2), dtype=np.uint8)
    sampler = a_sampler(x, device="cuda")
    assert isinstance(sampler.data, Tensor) == (share > 0)
    drawn = sampler.draw(4, seed=0)
    actual = sampler.gather(drawn)
    assert {part.device.type for part in actual[:-1] if isinstance(part, Tensor)} == {"cuda"}
    np.testing.assert_array_equal(actual[2].cpu().numpy(), x[drawn.query.cpu().numpy()])
    sampler = a_sampler(np.arange(40), random_step, device="cuda")
    drawn = sampler.draw(4, seed=0)
    actual, again = sampler.gather(drawn), sampler.gather(sampler.draw(4, seed=0))
    assert actual[2].device.type == "cuda"
    assert torch.equal(actual[2], again[2])
    assert torch.equal(actual[2] % 100, drawn.query)


# Augmented images.


def coloured() -> tuple[Any, Any]:
    """Images whose first pixel says which image it is; the class is its number modulo 3."""
    number = np.arange(18, dtype=np.uint8)
    x = np.zeros((18, 16, 16, 3), np.uint8)
    x[:, 0, 0, 0] = number
    return x, number % 3


def images_of(x: Any, y: Any, backbone: Any = None, **recipe: Any) -> episodes.Images:
    pool = ClassPool(x, y)
    sampler = episodes.EpisodeSampler(pool, CPU, ways=2, shots=1, queries=1)
    return episodes.Images(pool, sampler, backbone or Conv4(size=16, rng=0), Recipe(**recipe))


def test_an_epoch_shows_every_image_once_with_its_class() -> None:
    options: dict[str, Any] = {"batch": 6, "crop": 1.0, "flip": False, "colour": 0.0}
    images = images_of(*coloured(), rotate=False, **options)
    batches = list(images.epoch(generator()))
    assert [len(batch) for batch, _ in batches] == [6, 6, 6]
    shown = (torch.cat([batch[:, 0, 0, 0] for batch, _ in batches]) * 255).round().long()
    assert sorted(shown.tolist()) == list(range(18))
    assert torch.equal(shown % 3, torch.cat([labels for _, labels in batches]))
    # Rotated copies are classes of their own: the first pixel has moved to another corner.
    rotated = images_of(*coloured(), **options)
    assert (images.outputs, rotated.outputs) == (3, 12)
    corners = {0: (0, 0), 1: (15, 0), 2: (15, 15), 3: (0, 15)}
    pairs = [pair for batch in rotated.epoch(generator(1)) for pair in zip(*batch, strict=True)]
    assert {int(label) % 4 for _, label in pairs} == {0, 1, 2, 3}
    for image, label in pairs:
        assert round(float(image[0][corners[int(label) % 4]]) * 255) % 3 == label // 4
    augmented = images_of(*coloured(), batch=1000)
    assert augmented.batch == 18
    plain = torch.cat(list(augmented.plain(generator())))
    assert sorted((plain[:, 0, 0, 0] * 255).round().int().tolist()) == list(range(18))


def test_crops_of_a_ramp_are_ramps_of_the_given_width() -> None:
    # The value of a pixel is the horizontal position of its centre, from 0 to 1.
    ramp = ((torch.arange(16) + 0.5) / 16).expand(4000, 1, 16, 16).clone()
    parts = episodes.crop_and_flip(ramp, generator(), crop=0.25, flip=True)
    line = parts[:, 0, 0]
    torch.testing.assert_close(parts, parts[:, :, :1].expand_as(parts), atol=1e-5, rtol=0)
    assert 0 <= float(line.min()) <= float(line.max()) <= 1
    steps = line.diff(dim=1) * torch.sign(line[:, 8] - line[:, 7])[:, None]
    assert float(steps.min()) > -1e-6
    width = (line[:, 8] - line[:, 7]).abs() * 16  # slope of the ramp: share of the image
    low = (0.25 * 3 / 4) ** 0.5
    assert low - 1e-3 <= float(width.min()) < low + 0.05  # both ends are reached
    assert 0.99 < float(width.max()) <= 1 + 1e-3
    mirrored = float((line[:, 8] < line[:, 7]).float().mean())
    assert abs(mirrored - 0.5) < 5.1 * 0.5 / 4000**0.5  # standard deviations
    upright = episodes.crop_and_flip(ramp, generator(), crop=0.25, flip=False)[:, 0, 0]
    assert bool((upright.diff(dim=1) > -1e-6).all())
