"""The four corruptions have exactly the distributions of their formulas."""

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

from metapac.fewshot.datasets import corruptions
from metapac.fewshot.datasets.corruptions import (
    KINDS,
    NINE,
    Corruption,
    Corruptions,
    corrupt,
    displace,
    move,
    random_corruptions,
    shot_units,
    smooth,
)

Array = NDArray[Any]

FALSE_ALARM = 1e-6
NOISES = ("gaussian noise", "shot noise", "impulse noise")
IDENTITY = Corruption("identity", 0)
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def flat(level: int, n: int = 20, kind: Any = np.uint8) -> Array:
    """Images of one constant level."""
    images = np.full((n, 3, 32, 32), level, np.uint8)
    return images if kind == np.uint8 else (images / 255).astype(kind)


def pictures(n: int, side: int = 32, seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(256, size=(n, 3, side, side), dtype=np.uint8)


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
    photons = {1: 500, 2: 250}[severity]
    counts = np.arange(2 * photons)
    return np.bincount(
        shot_level(counts, photons), stats.poisson.pmf(counts, photons * before), 256
    )


def shot_level(counts: Array, photons: int) -> Array:
    """Level of a number of photons; the quotient is exact at a tie, which is rounded to even."""
    level: Array = np.rint(255 * np.minimum(counts, photons) / photons).astype(int)
    return level


def as_levels(noise: str, severity: int, outcome: Array) -> Array:
    photons = {1: 500, 2: 250}[severity] if noise == "shot noise" else 255
    return shot_level(np.rint(photons * outcome), photons)


def p_value(outcome: Array, expected: Array) -> float:
    """P-value of a chi-square test of the levels; rare levels are pooled."""
    counts, mean = (
        np.bincount(outcome.ravel(), minlength=256),
        expected * outcome.size,
    )
    if counts[expected == 0].any():
        return 0.0
    rare = mean < 10
    observed = [*counts[~rare], counts[rare].sum()]
    theory = [*mean[~rare], mean[rare].sum()]
    if theory[-1] < 10:  # too few even if pooled: require that they are rare
        tail = float(stats.poisson.sf(observed[-1] - 1, theory[-1]))
        return min(tail, 1.0) if len(theory) == 2 else min(tail, _chi(observed[:-1], theory[:-1]))
    return _chi(observed, theory)


def _chi(observed: list[int], theory: list[float]) -> float:
    if len(observed) < 2:
        return 1.0
    scaled = np.array(theory) * sum(observed) / sum(theory)
    return float(stats.chisquare(observed, scaled).pvalue)


def test_there_are_nine_corruptions_and_one_of_them_is_the_identity() -> None:
    assert len(NINE) == len(set(NINE)) == 9
    assert set(NINE) == {Corruption(kind, level) for kind in KINDS for level in (0, 1, 2)}
    assert Corruption("shot noise", 0) == IDENTITY == Corruption("identity", 2)
    assert [corruption.name for corruption in NINE[:3]] == [
        "identity",
        "gaussian noise 1",
        "shot noise 1",
    ]
    assert Corruptions((NINE[2], NINE[8])).name == "shot noise 1, elastic transform 2"


def test_constants_are_those_of_the_first_two_severities() -> None:
    assert corruptions._DEVIATION == {1: 0.04, 2: 0.06}
    assert corruptions._PHOTONS == {1: 500, 2: 250}
    assert corruptions._SHARE == {1: 0.01, 2: 0.02}
    elastic = [corruptions._STRENGTH, corruptions._WIDTH, corruptions._MOVE]
    assert [row[1] for row in elastic] == [0, 0, 0.08]
    assert [row[2] for row in elastic] == [0.05, 0.2, 0.07]


@pytest.mark.parametrize(("kind", "severity"), [("fog", 1), ("shot noise", 3), ("shot noise", -1)])
def test_unknown_corruptions_are_refused(kind: str, severity: int) -> None:
    message = f"must be gaussian noise, .* at severity 0, 1 or 2, got '{kind}' at {severity}. Pass"
    with pytest.raises(ValueError, match=message):
        Corruption(kind, severity)


def uniform(outcome: list[Any], cells: int) -> float:
    counts = Counter(outcome)
    assert len(counts) <= cells
    return float(stats.chisquare([*counts.values(), *[0] * (cells - len(counts))]).pvalue)


def test_sequences_are_ordered_choices_of_one_to_three() -> None:
    rng = np.random.default_rng(0)
    drawn = [random_corruptions(rng).sequence for _ in range(24_000)]
    assert uniform([len(sequence) for sequence in drawn], 3) > FALSE_ALARM
    for length in (1, 2, 3):
        of_length = [sequence for sequence in drawn if len(sequence) == length]
        assert {len(set(sequence)) for sequence in of_length} == {length}
        assert uniform(of_length, math.perm(9, length)) > FALSE_ALARM
    in_order = [tuple(sorted(triple, key=NINE.index)) for triple in drawn if len(triple) == 3]
    assert uniform(in_order, math.perm(9, 3)) < FALSE_ALARM


def test_a_random_transform_applies_its_sequence_and_can_be_pickled() -> None:
    transform = random_corruptions(np.random.default_rng(3))
    x = pictures(2)
    assert np.array_equal(transform(x, 1), corrupt(x, transform.sequence, 1))
    assert pickle.loads(pickle.dumps((random_corruptions, transform))) == (
        random_corruptions,
        transform,
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@pytest.mark.parametrize("level", [0, 1, 2, 100, 254, 255])
@pytest.mark.parametrize("severity", [1, 2])
@pytest.mark.parametrize("noise", NOISES)
def test_every_level_has_the_probability_of_the_formula(
    noise: str, severity: int, level: int, kind: Any, device: str
) -> None:
    x = torch.from_numpy(flat(level, kind=kind)).to(device)
    outcome = corrupt(x, [Corruption(noise, severity)], level).cpu().numpy()
    if kind == np.float32:
        assert outcome.dtype == np.float32
        assert outcome.min() >= 0
        assert outcome.max() <= 1
        outcome = as_levels(noise, severity, outcome)
    assert p_value(outcome, probabilities(noise, severity, level)) > FALSE_ALARM
    if level == 100:  # the other severity is recognised
        assert p_value(outcome, probabilities(noise, 3 - severity, level)) < FALSE_ALARM


@pytest.mark.parametrize("severity", [1, 2])
def test_gaussian_noise_has_its_variance(severity: int) -> None:
    deviation = {1: 0.04, 2: 0.06}[severity]
    x = flat(127, kind=np.float64)
    noise = (corrupt(x, [Corruption("gaussian noise", severity)], 0) - x).ravel()
    assert stats.kstest(noise / deviation, "norm").pvalue > FALSE_ALARM
    squares = float(np.square(noise / deviation).sum())
    below = stats.chi2.cdf(squares, len(noise))
    assert FALSE_ALARM / 2 < below < 1 - FALSE_ALARM / 2
    assert stats.chi2.cdf(1.1 * squares, len(noise)) > 1 - FALSE_ALARM


@pytest.mark.parametrize("level", [0.0, 0.002, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("severity", [1, 2])
def test_shot_noise_has_the_mean_and_variance_of_poisson(severity: int, level: float) -> None:
    photons = {1: 500, 2: 250}[severity]
    x = np.full((40, 3, 32, 32), level)
    outcome = corrupt(x, [Corruption("shot noise", severity)], 1) * photons
    assert np.allclose(outcome, np.rint(outcome))
    counts = np.arange(2 * photons)
    chance, kept = stats.poisson.pmf(counts, photons * level), np.minimum(counts, photons)
    mean = chance @ kept
    second, fourth = chance @ (kept - mean) ** 2, chance @ (kept - mean) ** 4

    def far(values: Array, centre: float, variance: float) -> float:
        return float(abs(values.mean() - centre) / math.sqrt(variance / values.size + 1e-18))

    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert far(outcome, mean, second) <= limit
    assert far((outcome - mean) ** 2, second, fourth - second**2) <= limit
    if level:
        assert far(1.05 * outcome, mean, second) > limit


def test_impulse_noise_turns_equally_many_values_black_and_white() -> None:
    x = flat(100)
    outcome = corrupt(x, [Corruption("impulse noise", 2)], 0)
    for value in (0, 255):
        hits = int((outcome == value).sum())
        assert stats.binomtest(hits, x.size, 0.01).pvalue > FALSE_ALARM
        assert stats.binomtest(hits, x.size, 0.015).pvalue < FALSE_ALARM
    assert set(np.unique(outcome)) == {0, 100, 255}


@pytest.mark.parametrize("photons", [500, 250])
def test_the_table_of_shot_noise_is_exact_to_its_units(photons: int) -> None:
    units = shot_units(photons)
    assert (units >= 0).all()
    assert (units.sum(1) == 2**31).all()
    severity = {500: 1, 250: 2}[photons]
    for level in range(256):
        assert (
            np.abs(units[level] / 2**31 - probabilities("shot noise", severity, level)).max()
            < 2**-30
        )
    assert units[0].tolist() == [2**31] + [0] * 255
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


def displace_by_scipy(image: Array, field: Array) -> Array:
    rows, columns = np.mgrid[: image.shape[-1], : image.shape[-1]].astype(float)
    return sampled(image, rows + field[1], columns + field[0], "reflect")


@given(side=st.integers(8, 33), reach=st.sampled_from([0.0, 0.5, 3.0]), seed=st.integers(0, 99))
@settings(max_examples=50)
def test_affine_maps_are_those_of_scipy(side: int, reach: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, moves = rng.random((3, 3, side, side)), rng.uniform(-reach, reach, (3, 3, 2)) * side / 32
    outcome = move(torch.from_numpy(x), torch.from_numpy(moves)).numpy()
    slow = np.stack([move_by_scipy(*pair) for pair in zip(x, moves, strict=True)])
    np.testing.assert_allclose(outcome, slow, atol=1e-10)
    if reach == 0:
        np.testing.assert_allclose(outcome, x, atol=1e-12)


@given(side=st.integers(8, 33), reach=st.sampled_from([0.0, 1.0, 20.0]), seed=st.integers(0, 99))
@settings(max_examples=50)
def test_displacements_are_those_of_scipy(side: int, reach: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, field = rng.random((3, 3, side, side)), rng.uniform(-reach, reach, (3, 2, side, side))
    outcome = displace(torch.from_numpy(x), torch.from_numpy(field)).numpy()
    slow = np.stack([displace_by_scipy(*pair) for pair in zip(x, field, strict=True)])
    np.testing.assert_allclose(outcome, slow, atol=1e-10)
    if reach == 0:
        np.testing.assert_allclose(outcome, x, atol=1e-12)


@pytest.mark.parametrize("width", [0.6, 3.2, 6.4])
def test_fields_are_smoothed_as_by_scipy(width: float) -> None:
    field = np.random.default_rng(0).uniform(-1, 1, (2, 2, 32, 32))
    outcome = smooth(torch.from_numpy(field), width).numpy()
    axes = {"axes": (2, 3), "mode": "reflect", "truncate": 3}
    np.testing.assert_allclose(outcome, ndimage.gaussian_filter(field, width, **axes), atol=1e-12)


def ramps(n: int) -> Array:
    """Images whose values are their positions: column, row, zero."""
    rows, columns = np.mgrid[:32, :32] / 31
    return np.broadcast_to(np.stack([columns, rows, 0 * rows]), (n, 3, 32, 32))


@pytest.mark.parametrize(("severity", "reach"), [(1, 2.56), (2, 2.24)])
def test_the_three_points_move_uniformly_within_their_bounds(
    severity: int, reach: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(corruptions._STRENGTH, severity, 0.0)
    outcome = 31 * corrupt(ramps(2000), [Corruption("elastic transform", severity)], 0)
    # The sources of the pixels around the centre determine the map, and so the moves.
    source = np.moveaxis(outcome[:, :2, 14:18, 14:18], 1, 3).reshape(2000, 16, 2)
    rows, columns = (axis.ravel() for axis in np.mgrid[14:18, 14:18])
    pixels = np.c_[columns, rows, np.ones(16)]
    back = np.linalg.pinv(pixels) @ source  # (2000, 3, 2)
    points = np.array([[26.0, 26.0], [26.0, 6.0], [6.0, 6.0]])
    moves = (points - back[:, 2:]) @ np.linalg.inv(back[:, :2]) - points
    assert np.abs(moves).max() <= reach + 1e-9
    share = (moves.reshape(-1) / reach + 1) / 2
    assert stats.kstest(share, "uniform").pvalue > FALSE_ALARM
    assert stats.kstest(share / 1.1, "uniform").pvalue < FALSE_ALARM
    apart = np.corrcoef(moves.reshape(2000, 6).T) - np.eye(6)
    assert np.abs(apart).max() < stats.norm.isf(FALSE_ALARM / 60) / math.sqrt(2000)


def test_displacements_have_their_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(corruptions._MOVE, 2, 0.0)
    n, x = 2000, ramps(2000)
    outcome = 31 * (corrupt(x, [Corruption("elastic transform", 2)], 0) - x)[:, :2]
    blur = ndimage.gaussian_filter1d(np.eye(32), 6.4, axis=0, mode="reflect", truncate=3)
    for row, column in [(16, 16), (3, 9)]:
        weights = 1.6 * np.outer(blur[row], blur[column])
        variance = float((weights**2).sum()) / 3
        fourth = 3 * variance**2 - float((weights**4).sum()) * 2 / 15
        here = outcome[:, :, row, column]  # (n, 2)
        spread = math.sqrt((fourth - variance**2) / (2 * n))
        limit = stats.norm.isf(FALSE_ALARM / 4)
        assert abs((here**2).mean() - variance) < limit * spread
        assert abs((1.3 * here**2).mean() - variance) > limit * spread
        assert abs(here.mean()) < limit * math.sqrt(variance / (2 * n))
        assert abs(np.corrcoef(here.T)[0, 1]) < limit / math.sqrt(n)


@pytest.mark.parametrize("corruption", [c for c in NINE if c != IDENTITY])
@pytest.mark.parametrize("chunk", [1000, 3])
def test_every_image_gets_different_random_numbers(
    corruption: Corruption, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corruptions, "_CHUNK", chunk)
    x = np.repeat(pictures(1), 8, axis=0)
    outcome = corrupt(x, [corruption], 0)
    assert len({picture.tobytes() for picture in outcome}) == 8


@pytest.mark.parametrize("noise", NOISES)
def test_noise_is_independent_between_images(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corruptions, "_CHUNK", 3)
    values = corrupt(flat(127, 8), [Corruption(noise, 2)], 0).reshape(8, -1)
    limit = stats.norm.isf(FALSE_ALARM / 56) / math.sqrt(values.shape[1])
    related = np.corrcoef(values)
    assert np.abs(related - np.eye(8)).max() < limit
    assert np.corrcoef(values[[0, 0]])[0, 1] > limit


def test_channels_share_one_map_but_not_their_noise() -> None:
    x = np.repeat(pictures(3)[:, :1], 3, axis=1)
    for corruption in NINE[1:]:
        outcome = corrupt(x, [corruption], 0)
        is_equal = np.array_equal(outcome[:, 0], outcome[:, 1])
        assert is_equal == (corruption.kind == "elastic transform")


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
def test_severity_0_changes_nothing(kind: Any) -> None:
    x = pictures(3) if kind == np.uint8 else (pictures(3) / 255).astype(kind)
    outcome = corrupt(x, [Corruption(name, 0) for name in KINDS], 0)
    assert outcome.dtype == kind
    assert np.array_equal(outcome, x)
    assert not np.shares_memory(outcome, x)
    assert np.array_equal(corrupt(x, [], 0), x)


@pytest.mark.parametrize("corruption", [c for c in NINE if c.kind != "shot noise"])
def test_uint8_results_are_rounded_float_results(corruption: Corruption) -> None:
    x = pictures(5)
    as_floats = corrupt((x / 255).astype(np.float32), [corruption], 4)
    as_bytes = corrupt(x, [corruption], 4)
    assert as_bytes.dtype == np.uint8
    assert np.abs(as_bytes - 255.0 * as_floats).max() <= 0.5 + 1e-4


def test_a_sequence_is_applied_in_its_order(monkeypatch: pytest.MonkeyPatch) -> None:
    effects = {"gaussian noise": lambda x, *_: x / 2, "impulse noise": lambda x, *_: x + 0.25}
    for name, effect in effects.items():
        monkeypatch.setitem(corruptions._EFFECTS, name, effect)
    halve, add = Corruption("gaussian noise", 1), Corruption("impulse noise", 1)
    x = np.full((1, 1, 8, 8), 0.5)
    assert set(corrupt(x, [halve, add], 0).flat) == {0.5}
    assert set(corrupt(x, [add, halve, IDENTITY], 0).flat) == {0.375}
    assert set(corrupt(x, [add, add, add, halve], 0).flat) == {0.5}  # clipped in between
    levels = np.full((1, 1, 8, 8), 7, np.uint8)
    assert set(corrupt(levels, [halve, halve], 0).flat) == {2}  # 3.5 is rounded to 4 in between


def test_results_depend_on_rng_alone() -> None:
    x, sequence = pictures(4), NINE[5:8]
    before = torch.get_rng_state()
    once = corrupt(x, sequence, 5)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    assert np.array_equal(once, corrupt(x, sequence, np.random.default_rng(5)))
    assert not np.array_equal(once, corrupt(x, sequence, 6))
    generator = np.random.default_rng(5)
    assert not np.array_equal(corrupt(x, sequence, generator), corrupt(x, sequence, generator))


def test_images_may_be_memory_mapped_and_are_not_modified(tmp_path: Path) -> None:
    x = pictures(4)
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    expected = corrupt(x, NINE, 0)
    assert type(expected) is np.ndarray
    for other in (mapped, np.asfortranarray(x), x.tolist(), torch.from_numpy(x)):
        given_images = np.array(other, np.uint8) if isinstance(other, list) else other
        outcome = corrupt(given_images, NINE, 0)
        assert isinstance(outcome, torch.Tensor) == isinstance(other, torch.Tensor)
        assert np.array_equal(np.asarray(outcome), expected)
    assert np.array_equal(x, pictures(4))
    assert corrupt(x[:0], NINE, 0).shape == (0, 3, 32, 32)
    assert corrupt(x[:0] / 255, NINE, 0).shape == (0, 3, 32, 32)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((2, 3, 32, 32), int), "must be uint8, float32 or float64, got int64. Convert"),
        (torch.zeros(2, 3, 32, 32, dtype=torch.float16), "float32 or float64, got float16"),
        (
            np.zeros((2, 32, 32, 3)),
            r"must have shape \(n, channels, side, side\), .* Bring channels",
        ),
        (np.zeros((3, 32, 32)), r"got \(3, 32, 32\)"),
        (np.zeros((2, 3, 32, 31)), r"got \(2, 3, 32, 31\)"),
        (np.zeros((2, 1, 7, 7)), r"a side of at least 8, got \(2, 1, 7, 7\)"),
        (np.full((2, 3, 32, 32), 2.0), "must be from 0 to 1, got 2 to 2. Divide pixels"),
        (np.full((2, 3, 32, 32), -0.5), "must be from 0 to 1, got -0.5"),
        (torch.full((2, 3, 32, 32), torch.nan), "must be from 0 to 1, got nan"),
    ],
)
def test_invalid_images_are_refused(images: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"images .*{message}"):
        corrupt(images, NINE, 0)


@pytest.mark.needs_gpu
def test_maps_agree_on_gpu_and_cpu() -> None:
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.random((5, 3, 32, 32), dtype=np.float32))
    moves = torch.from_numpy(rng.uniform(-3, 3, (5, 3, 2)).astype(np.float32))
    field = torch.from_numpy(rng.uniform(-9, 9, (5, 2, 32, 32)).astype(np.float32))
    for function, how in ((move, moves), (displace, field)):
        there = function(x.cuda(), how.cuda()).cpu()
        torch.testing.assert_close(there, function(x, how), rtol=0, atol=1e-4)


@pytest.mark.needs_gpu
def test_on_a_gpu_results_depend_on_rng_alone() -> None:
    x = torch.from_numpy(pictures(4)).cuda()
    outcome = corrupt(x, NINE[5:], 5)
    assert (outcome.device.type, outcome.dtype) == ("cuda", torch.uint8)
    assert torch.equal(outcome, corrupt(x, NINE[5:], 5))
    assert not torch.equal(outcome, corrupt(x, NINE[5:], 6))
