"""Pools by name: prepared data sets, glyphs and files are split into disjoint pools."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from metapac.datasets import pools as module
from metapac.datasets.cifar10c.load import prepare as prepare_cifar10c
from metapac.datasets.heart.load import prepare as prepare_heart
from metapac.datasets.pools import load_pools
from metapac.datasets.store import cache
from metapac.tasks.glyphs import glyphs
from metapac.tasks.pools import ClassPool, GroupPool
from tests.helpers.cifar_files import fabricated, write_pickles


def arrays(folder: Path, classes: int = 10, **more: Any) -> str:
    y = np.arange(4 * classes) % classes
    np.savez(folder / "data.npz", **{"x": np.arange(8.0 * classes).reshape(-1, 2), "y": y, **more})
    return str(folder / "data.npz")


def pool_sizes(pools: Any) -> dict[str, int]:
    return {name: len(pool.names) for name, pool in vars(pools).items() if pool is not None}


def test_a_file_is_split_by_class(tmp_path: Path) -> None:
    pools = load_pools(arrays(tmp_path), rng=3).pools
    assert isinstance(pools.train, ClassPool)
    assert pool_sizes(pools) == {"train": 6, "validation": 2, "test": 2}
    names = [name for pool in (pools.train, pools.validation, pools.test) for name in pool.names]
    assert sorted(names) == list(range(10))
    assert load_pools(arrays(tmp_path), rng=3).pools.test.names == pools.test.names
    others = {tuple(load_pools(arrays(tmp_path), rng=seed).pools.test.names) for seed in range(40)}
    assert len(others) > 1


def test_a_file_with_groups_is_split_by_group(tmp_path: Path) -> None:
    path = arrays(tmp_path, y=np.zeros(40, int), groups=np.arange(40) % 8)
    pools = load_pools(path, ways=5).pools  # groups need no number of classes
    assert isinstance(pools.train, GroupPool)
    assert pool_sizes(pools) == {"train": 5, "validation": 1, "test": 2}


def test_sizes_are_as_given(tmp_path: Path) -> None:
    sizes = {"train": 4, "validation": 0, "calibration": 3, "test": 1}
    pools = load_pools(arrays(tmp_path), sizes=sizes).pools
    assert pool_sizes(pools) == {"train": 4, "calibration": 3, "test": 1}


@pytest.mark.parametrize("ways", [4, 5, 9])
def test_too_few_classes_are_refused(tmp_path: Path, ways: int) -> None:
    message = rf"has 10 classes; .* need {ways} each, {3 * ways} in all, .* or lower ways\."
    with pytest.raises(ValueError, match=message):
        load_pools(arrays(tmp_path), ways=ways)
    assert pool_sizes(load_pools(arrays(tmp_path, 3 * ways), ways=ways).pools)["train"] == ways


def test_the_checksum_is_that_of_the_arrays(tmp_path: Path) -> None:
    first = load_pools(arrays(tmp_path)).checksum
    assert load_pools(arrays(tmp_path), rng=1).checksum == first
    assert load_pools(arrays(tmp_path, y=np.arange(40) % 9)).checksum != first
    with np.load(arrays(tmp_path)) as stored:
        digest = hashlib.sha256()
        for name in ("x", "y"):
            digest.update(f"{stored[name].dtype.str}{stored[name].shape}".encode())
            digest.update(stored[name].tobytes())
    assert first == f"sha256:{digest.hexdigest()}"


def test_bad_files_are_refused(tmp_path: Path) -> None:
    path = Path(arrays(tmp_path))
    with pytest.raises(FileNotFoundError, match="nothing.npz"):
        load_pools(str(tmp_path / "nothing.npz"))
    np.savez(tmp_path / "other.npz", images=np.zeros(3))
    with pytest.raises(ValueError, match="must hold arrays x and y, .* it has: images. Write it"):
        load_pools(str(tmp_path / "other.npz"))
    np.savez(tmp_path / "objects.npz", x=np.array([None, 1]), y=np.array([0, 1]))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load_pools(str(tmp_path / "objects.npz"))
    content = bytearray(path.read_bytes())
    path.write_bytes(content[:500])
    with pytest.raises(
        ValueError, match=r"is not a complete \.npz file\. Pass glyphs, miniimagene"
    ):
        load_pools(str(path))
    content[200] ^= 1  # in the array x, against its checksum
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"data\.npz is damaged \(Bad CRC-32.*Write it again"):
        load_pools(str(path))


def test_as_many_glyphs_are_drawn_as_the_pools_need(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, int]] = []

    def few(**options: int) -> Any:
        asked.append(options)
        return glyphs(**{"characters": 20, **options}, per_character=4)

    monkeypatch.setattr(module, "glyphs", few)
    sizes = {"train": 5, "validation": 1, "calibration": 2, "test": 2}
    assert pool_sizes(load_pools("glyphs", sizes=sizes).pools) == sizes
    assert pool_sizes(load_pools("glyphs").pools) == {"train": 13, "validation": 3, "test": 4}
    assert asked == [{"characters": 10}, {}]


def test_a_prepared_data_set_is_loaded_with_its_checksum(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="metapac data prepare cifar10c"):
        load_pools("cifar10c", home=tmp_path)
    prepared = prepare_cifar10c(write_pickles(tmp_path, fabricated(each=130)), home=tmp_path)
    loaded = load_pools("cifar10c", home=tmp_path)
    assert loaded.checksum == prepared.checksum
    assert (loaded.words, loaded.is_imagenet) == (None, False)
    assert len(loaded.pools.validation.x) == 5000


@pytest.mark.parametrize("name", ["miniimagenet", "fewrel", "heart"])
def test_every_data_set_is_loaded_by_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileNotFoundError, match=f"metapac data prepare {name}"):
        load_pools(name, home=tmp_path)


def survey(folder: Path, years: range) -> Path:
    lines = ["year,state,label,age"]
    lines += [f"{y},{s},{i % 2},{i}" for y in years for s in range(1, 5) for i in range(s + 1)]
    (folder / "heart.csv").write_text("\n".join(lines) + "\n")
    prepare_heart(folder / "heart.csv", home=folder)
    return folder


def test_heart_is_split_by_the_papers_years_where_they_are_prepared(tmp_path: Path) -> None:
    pools = load_pools("heart", home=survey(tmp_path, range(2011, 2021))).pools
    assert pool_sizes(pools) == {"train": 12, "validation": 4, "calibration": 20, "test": 4}
    assert {name[:4] for name in pools.validation.names} == {"2014"}


def test_heart_of_other_years_is_split_at_random(tmp_path: Path) -> None:
    home = survey(tmp_path, range(2021, 2023))
    assert pool_sizes(load_pools("heart", home=home).pools) == {
        "train": 5,
        "validation": 1,
        "test": 2,
    }
    sizes = {"train": 1, "validation": 1, "calibration": 1, "test": 1}
    pools = load_pools("heart", sizes=sizes, min_size=4, home=home).pools
    assert pool_sizes(pools) == sizes
    assert all("Alabama" not in name for name in pools.train.names)
    assert "without 4 state-years of fewer than 4 rows" in pools.train.name


def test_sentences_come_with_word_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.prepare("fewrel", [], lambda writer: {}, home=tmp_path)
    words = np.zeros((3, 5), np.float32)
    calls: list[dict[str, Any]] = []

    def fewrel(**options: Any) -> Any:
        calls.append(options)
        return "pools", words

    monkeypatch.setattr(module, "fewrel", fewrel)
    loaded = load_pools("fewrel", rng=7, home=tmp_path)
    assert loaded.words is words
    assert calls == [{"validation": 8, "rng": 7, "home": tmp_path}]


def test_mini_imagenet_is_normalised_as_imagenet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.prepare("miniimagenet", [], lambda writer: {}, home=tmp_path)
    monkeypatch.setattr(module, "miniimagenet", lambda **options: options)
    loaded = load_pools("miniimagenet", home=tmp_path)
    assert loaded.is_imagenet
    options: Any = loaded.pools
    assert options == {"validation": 8, "home": tmp_path}
