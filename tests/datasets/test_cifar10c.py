"""CIFAR10-C: corruptions distributed as in their formulas, and pools that share no image."""

from __future__ import annotations

import itertools
import math
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import ndimage, stats

from metapac.fewshot import cifar10c
from metapac.fewshot.datasets import corruptions
from metapac.fewshot.datasets.cifar10c import missing, prepare
from metapac.fewshot.datasets.corruptions import KINDS, NINE, Corruption, corrupt
from metapac.fewshot.training.episodes import EpisodeSampler
from tests.helpers.cifar_files import BATCHES, CLASSES, fabricated, write_records
from tests.helpers.refusals import assert_refused
from tests.helpers.shared_data import needs_real_data, unpacked

pytestmark = pytest.mark.usefixtures("one_thread")

Array = NDArray[Any]

FALSE_ALARM = 1e-6
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
PHOTONS = {1: 500, 2: 250}


def pictures(n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(256, size=(n, 3, 32, 32), dtype=np.uint8)


def probabilities(kind: str, severity: int, level: int) -> Array:
    """Probability of each of 256 levels after a corruption, from its formula alone."""
    before, levels = level / 255, np.arange(256)
    if kind == "impulse noise":
        half = {1: 0.01, 2: 0.02}[severity] / 2
        outcome = half * np.isin(levels, (0, 255))
        outcome[level] += 1 - 2 * half
        return outcome
    if kind == "gaussian noise":
        borders = stats.norm.cdf((levels[1:] - 0.5) / 255, before, {1: 0.04, 2: 0.06}[severity])
        return np.diff(borders, prepend=0, append=1)
    counts, photons = np.arange(2 * PHOTONS[severity]), PHOTONS[severity]
    chance = stats.poisson.pmf(counts, photons * before)
    return np.bincount(shot_level(counts, photons), chance, 256)


def shot_level(counts: Array, photons: int) -> Array:
    """Level of a number of photons; the quotient is exact at a tie, which is rounded to even."""
    level: Array = np.rint(255 * np.minimum(counts, photons) / photons).astype(int)
    return level


def p_value(outcome: Array, expected: Array) -> float:
    """P-value of a chi-square test of the levels; rare ones join the most frequent one."""
    counts, mean = np.bincount(outcome.ravel(), minlength=256), expected * outcome.size
    if counts[expected == 0].any():
        return 0.0
    cells = np.where(mean < 10, mean.argmax(), np.arange(256))
    observed, theory = np.bincount(cells, counts, 256), np.bincount(cells, mean, 256)
    used = theory > 0
    theory *= observed.sum() / theory.sum()
    return float(stats.chisquare(observed[used], theory[used]).pvalue) if used.sum() > 1 else 1.0


def test_numbers_stay_as_they_are() -> None:
    # A change of seeds or draws would make stored results unrepeatable.
    stored = {
        "gaussian noise 1": [126.43, 129.89, 130.1],
        "shot noise 1": [126.51, 129.48, 129.89],
        "impulse noise 1": [126.75, 129.1, 129.74],
        "elastic transform 1": [126.55, 129.49, 130.79],
        "gaussian noise 2": [126.35, 129.94, 130.29],
        "shot noise 2": [126.47, 129.4, 130.31],
        "impulse noise 2": [126.92, 129.82, 129.43],
        "elastic transform 2": [126.52, 129.59, 130.43],
    }
    assert [corruption.name for corruption in NINE] == ["identity", *stored]
    for corruption in NINE[1:]:
        means = corrupt(pictures(2), [corruption], 7)[1].mean((1, 2))  # of the channels
        np.testing.assert_allclose(means, stored[corruption.name], atol=0.02)
    assert (
        corruptions.random_corruptions(0).name
        == "impulse noise 2, shot noise 1, elastic transform 1"
    )


def test_there_are_nine_corruptions_and_one_of_them_is_the_identity() -> None:
    assert set(NINE) == {Corruption(kind, level) for kind in KINDS for level in (0, 1, 2)}
    assert Corruption("shot noise", 0) == NINE[0] == Corruption("identity", 2)
    for x in (pictures(3), (pictures(3) / 255).astype(np.float32), pictures(3) / 255):
        outcome = corrupt(x, [Corruption(name, 0) for name in KINDS], 0)
        assert outcome.dtype == x.dtype
        assert np.array_equal(outcome, x)
        assert not np.shares_memory(outcome, x)


def uniform(outcome: list[Any], cells: int) -> float:
    counts = Counter(outcome)
    assert len(counts) <= cells
    return float(stats.chisquare([*counts.values(), *[0] * (cells - len(counts))]).pvalue)


def test_sequences_are_ordered_choices_of_one_to_three() -> None:
    rng = np.random.default_rng(0)
    drawn = [corruptions.random_corruptions(rng).sequence for _ in range(24_000)]
    assert uniform([len(sequence) for sequence in drawn], 3) > FALSE_ALARM
    for length in (1, 2, 3):
        of_length = [sequence for sequence in drawn if len(sequence) == length]
        assert {len(set(sequence)) for sequence in of_length} == {length}
        assert uniform(of_length, math.perm(9, length)) > FALSE_ALARM
    in_order = [tuple(sorted(triple, key=NINE.index)) for triple in drawn if len(triple) == 3]
    assert uniform(in_order, math.perm(9, 3)) < FALSE_ALARM
    transform = corruptions.random_corruptions(3)
    assert np.array_equal(transform(pictures(2), 1), corrupt(pictures(2), transform.sequence, 1))
    assert pickle.loads(pickle.dumps(transform)) == transform  # for loaders in other processes


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("noise", KINDS[:3])
def test_every_level_has_the_probability_of_the_formula(noise: str, device: str) -> None:
    for severity, level, kind in itertools.product(
        (1, 2), (0, 1, 2, 100, 254, 255), (torch.uint8, torch.float32)
    ):
        x = torch.full((20, 3, 32, 32), level, dtype=torch.uint8, device=device)
        x = x if kind == torch.uint8 else x / 255
        outcome = corrupt(x, [Corruption(noise, severity)], level).cpu().numpy()
        if kind == torch.float32:
            assert (outcome >= 0).all()
            assert (outcome <= 1).all()
            photons = PHOTONS[severity] if noise == "shot noise" else 255
            outcome = shot_level(np.rint(photons * outcome), photons)
        assert p_value(outcome, probabilities(noise, severity, level)) > FALSE_ALARM
        if level == 100:  # the other severity is recognised
            assert p_value(outcome, probabilities(noise, 3 - severity, level)) < FALSE_ALARM


def test_the_table_of_shot_noise_is_exact_to_its_units() -> None:
    for severity, photons in PHOTONS.items():
        units = corruptions.shot_units(photons)
        assert (units >= 0).all()
        assert (units.sum(1) == 2**31).all()
        theory = [probabilities("shot noise", severity, level) for level in range(256)]
        assert np.abs(units / 2**31 - theory).max() < 2**-30
        entries = corruptions._alias_table(photons, torch.device("cpu")).numpy().reshape(256, 256)
        shared = np.zeros_like(units)
        for level, column in itertools.product(range(256), range(256)):
            share, alias = entries[level, column] >> 8, entries[level, column] & 255
            shared[level, column] += share
            shared[level, alias] += 2**23 - share
        assert np.array_equal(shared, units)


def sampled(image: Array, rows: Array, columns: Array, mode: str) -> Array:
    return np.stack(
        [ndimage.map_coordinates(channel, [rows, columns], order=1, mode=mode) for channel in image]
    )


def move_by_scipy(image: Array, moves: Array) -> Array:
    """Move (column, row) points of one picture, through matrices and scipy."""
    side = image.shape[-1]
    centre, arm = side // 2, side // 3
    points = np.array([[centre + arm] * 2, [centre + arm, centre - arm], [centre - arm] * 2])
    forward = np.linalg.solve(np.c_[points, np.ones(3)], points + moves)  # (3, 2): row vectors
    rows, columns = np.mgrid[:side, :side].astype(float)
    away = np.stack([columns - forward[2, 0], rows - forward[2, 1]], -1)
    source = away @ np.linalg.inv(forward[:2])
    return sampled(image, source[..., 1], source[..., 0], "mirror")


@given(side=st.integers(8, 33), reach=st.sampled_from([0.0, 0.5, 3.0]), seed=st.integers(0, 99))
@settings(max_examples=50)
def test_maps_are_those_of_scipy(side: int, reach: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, moves = rng.random((3, 3, side, side)), rng.uniform(-reach, reach, (3, 3, 2)) * side / 32
    field = 7 * rng.uniform(-reach, reach, (3, 2, side, side))
    rows, columns = np.mgrid[:side, :side].astype(float)
    moved = corruptions.move(torch.from_numpy(x), torch.from_numpy(moves)).numpy()
    slow = np.stack([move_by_scipy(*pair) for pair in zip(x, moves, strict=True)])
    np.testing.assert_allclose(moved, slow, atol=1e-10)
    displaced = corruptions.displace(torch.from_numpy(x), torch.from_numpy(field)).numpy()
    for image, (right, down), outcome in zip(x, field, displaced, strict=True):
        expected = sampled(image, rows + down, columns + right, "reflect")
        np.testing.assert_allclose(outcome, expected, atol=1e-10)
    if reach == 0:
        np.testing.assert_allclose([moved, displaced], [x, x], atol=1e-12)


def test_a_sequence_is_applied_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    effects = {"gaussian noise": lambda x, *_: x / 2, "impulse noise": lambda x, *_: x + 0.25}
    for name, effect in effects.items():
        monkeypatch.setitem(corruptions._EFFECTS, name, effect)
    halve, add = Corruption("gaussian noise", 1), Corruption("impulse noise", 1)
    x = np.full((1, 1, 8, 8), 0.5)
    assert set(corrupt(x, [halve, add], 0).flat) == {0.5}
    assert set(corrupt(x, [add, halve, NINE[0]], 0).flat) == {0.375}
    assert set(corrupt(x, [add, add, add, halve], 0).flat) == {0.5}  # clipped in between
    levels = np.full((1, 1, 8, 8), 7, np.uint8)
    assert set(corrupt(levels, [halve, halve], 0).flat) == {2}  # 3.5 is rounded to 4 in between


def test_images_of_any_memory_are_read_and_not_modified(tmp_path: Any) -> None:
    x = pictures(4)
    np.save(tmp_path / "x.npy", x)
    expected = corrupt(x, NINE, 0)
    assert np.array_equal(x, pictures(4))
    for other in (np.load(tmp_path / "x.npy", mmap_mode="r"), np.asfortranarray(x)):
        assert np.array_equal(corrupt(other, NINE, 0), expected)
    assert np.array_equal(corrupt(torch.from_numpy(x), NINE, 0).numpy(), expected)
    assert corrupt(x[:0], NINE, 0).shape == (0, 3, 32, 32)


def prepared(folder: Path) -> Path:
    write_records(folder / "source", fabricated())
    prepare(folder / "source", home=folder)
    return folder


def test_records_become_arrays(tmp_path: Path) -> None:
    batches, seen = fabricated(), []
    inside = write_records(tmp_path, batches)
    assert missing(tmp_path) == missing(inside) == []
    made = prepare(tmp_path, home=tmp_path, progress=lambda *call: seen.append(call))
    assert seen == [("reading batches", i, 6) for i in range(1, 7)]
    assert made["x"].dtype == np.uint8
    assert made["x"].shape == (180, 3, 32, 32)
    rows = list(zip(made["part"], made["y"], made["x"], strict=True))
    for i, name in enumerate(BATCHES):
        result = [(int(y), x.tobytes()) for part, y, x in rows if part == i]
        images, labels = batches[name]
        pairs = zip(labels.tolist(), images, strict=True)
        assert sorted(result) == sorted((y, x.tobytes()) for y, x in pairs)
    assert set(made["part"][:120]) == {0, 1, 2, 3}
    assert set(made["part"][120:150]) == {4}
    assert prepare(inside, home=tmp_path).folder == made.folder


def test_pools_share_classes_but_no_image(tmp_path: Path) -> None:
    pools = cifar10c(validation=25, home=prepared(tmp_path))
    given = [pools.train, pools.validation, pools.calibration, pools.test]
    assert [len(pool.x) for pool in given] == [95, 25, 30, 30]
    assert [pool.name for pool in given] == ["train", "validation", "calibration", "test"]
    batches = fabricated()
    labels = {
        x.tobytes(): (CLASSES[y], name)
        for name, (images, ys) in batches.items()
        for x, y in zip(images, ys, strict=True)
    }
    assert len({x.tobytes() for pool in given for x in pool.x}) == len(labels) == 180
    for pool in given:
        assert isinstance(pool.x, np.memmap)
        assert pool.transform is corruptions.random_corruptions
        assert [labels[x.tobytes()][0] for x in pool.x] == pool.y.tolist()
    assert {labels[x.tobytes()][1] for x in pools.calibration.x} == {"data_batch_5"}
    assert {labels[x.tobytes()][1] for x in pools.test.x} == {"test_batch"}


def test_validation_is_as_even_as_possible(tmp_path: Path) -> None:
    batches = fabricated()
    for name in BATCHES[1:4]:
        batches[name][1][:15] = 4  # uneven classes
    write_records(tmp_path, batches)
    prepare(tmp_path, home=tmp_path)
    for validation in (1, 7, 10, 30):
        pools = cifar10c(validation=validation, home=tmp_path)
        counts = [int((pools.validation.y == name).sum()) for name in CLASSES]
        assert sum(counts) == validation
        assert max(counts) - min(counts) <= 1
        assert len(pools.train.x) == 120 - validation
    assert cifar10c(validation=0, home=tmp_path).validation is None
    for validation in (120, 5000, -1):
        assert_refused("validation", cifar10c, validation=validation, home=tmp_path)
    with pytest.raises(FileNotFoundError, match="metapac data prepare cifar10c"):
        cifar10c(home=tmp_path / "nowhere")


def test_missing_and_damaged_files_are_named_and_leave_no_cache(tmp_path: Path) -> None:
    folder = write_records(tmp_path, fabricated())
    for name, content, words in (
        ("data_batch_2.bin", b"", "3073"),
        ("data_batch_2.bin", bytes(3074), "3073"),
        ("data_batch_2.bin", b"\n" + bytes(3072), "labels 10"),
        ("batches.meta.txt", b"a b c d e f g h i i", "10 classes, 9"),
        ("batches.meta.txt", b"\xff", "10 classes, 1"),
    ):
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(content)
        words = f"{folder / name} {words} fetch cifar10c"
        assert_refused(words, prepare, tmp_path, home=tmp_path / "home")
        (folder / name).write_bytes(good)
    (folder / "data_batch_3.bin").unlink()
    (sentence,) = missing(tmp_path)
    assert f"{folder} lacks data_batch_3.bin of CIFAR-10. Run" in sentence
    (folder / "data_batch_1").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    with pytest.raises(FileNotFoundError, match=r"pickled .* not read.*cifar-10-binary.tar.gz"):
        prepare(tmp_path, home=tmp_path)


@pytest.mark.needs_gpu
def test_corruptions_do_not_synchronise_with_the_gpu(tmp_path: Path) -> None:
    pools = cifar10c(validation=0, home=prepared(tmp_path))
    sampler = EpisodeSampler(pools.train, "cuda", ways=5, shots=1, queries=2)
    drawn = sampler.draw(64, seed=8)
    sampler.gather(drawn)  # the first call builds the tables
    torch.cuda.set_sync_debug_mode("error")
    try:
        sampler.gather(drawn)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@needs_real_data
def test_real_data_have_6000_images_per_class(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    unpacked("cifar10", tmp_path)
    made = prepare(tmp_path, home=tmp_path)
    assert made.facts["counts"] == dict.fromkeys(CLASSES, 6000)
    assert made.facts["notes"] == []
    assert {name: digest[:16] for name, digest in made.digests.items()} == {
        "x": "8dbc013faba3e2ab",
        "y": "a51f8abdb1090366",
        "part": "2453f3b8ed38a64a",
    }
    pools = cifar10c(home=tmp_path)
    assert [len(pool.x) for pool in vars(pools).values()] == [35000, 5000, 10000, 10000]
    assert {int((pools.validation.y == name).sum()) for name in CLASSES} == {500}
