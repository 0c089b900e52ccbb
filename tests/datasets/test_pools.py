"""Pools by name: prepared data, glyphs, files and images are split into disjoint pools."""

from __future__ import annotations

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from metapac import BadArtefact, InvalidInput, artefact
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets import pools as module
from metapac.fewshot.datasets.cifar10c import prepare as prepare_cifar10c
from metapac.fewshot.datasets.glyphs import glyphs
from metapac.fewshot.datasets.heart import prepare as prepare_heart
from metapac.fewshot.datasets.pools import RUN, LoadedPools, load_pools, load_run_pools
from metapac.fewshot.pools import ClassPool, GroupPool
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
    assert pool_sizes(pools) == {"train": 5, "validation": 1, "calibration": 2, "test": 2}
    assert sorted(name for pool in vars(pools).values() for name in pool.names) == [*range(10)]
    assert load_pools(arrays(tmp_path), rng=3).pools.test.names == pools.test.names
    others = {tuple(load_pools(arrays(tmp_path), rng=seed).pools.test.names) for seed in range(40)}
    assert len(others) > 1


def test_a_file_with_groups_is_split_by_group(tmp_path: Path) -> None:
    path = arrays(tmp_path, y=np.zeros(40, int), groups=np.arange(40) % 8)
    pools = load_pools(path, ways=5).pools  # groups need no number of classes
    assert isinstance(pools.train, GroupPool)
    assert pool_sizes(pools) == {"train": 4, "validation": 1, "calibration": 1, "test": 2}


def test_the_shares_are_those_of_mini_imagenet(tmp_path: Path) -> None:
    pools = load_pools(arrays(tmp_path, 100), ways=5).pools
    assert pool_sizes(pools) == {"train": 56, "validation": 8, "calibration": 16, "test": 20}


@given(count=st.integers(1, 400), ways=st.integers(1, 40))
def test_every_pool_has_enough_classes_for_a_task(count: int, ways: int) -> None:
    if count >= 4 * ways:
        sizes = module._default_sizes(count, ways)
        assert min(sizes.values()) >= ways
        assert sum(sizes.values()) == count


def test_sizes_are_as_given(tmp_path: Path) -> None:
    sizes = {"train": 4, "validation": 0, "calibration": 3, "test": 1}
    pools = load_pools(arrays(tmp_path), sizes=sizes).pools
    assert pool_sizes(pools) == {"train": 4, "calibration": 3, "test": 1}


@pytest.mark.parametrize("ways", [4, 5, 9])
def test_too_few_classes_are_refused(tmp_path: Path, ways: int) -> None:
    message = rf"has 10 classes; .* need {ways} each, {4 * ways} in all, .* or lower ways\."
    with pytest.raises(ValueError, match=message):
        load_pools(arrays(tmp_path), ways=ways)
    sizes = pool_sizes(load_pools(arrays(tmp_path, 4 * ways), ways=ways).pools)
    assert set(sizes.values()) == {ways}


def test_small_classes_are_in_no_pool(tmp_path: Path) -> None:
    y = np.repeat(np.arange(10), [4] * 9 + [3])
    data = arrays(tmp_path, x=np.zeros((39, 2)), y=y)
    loaded = load_pools(data, min_size=4)
    assert loaded.left_out == {9: 3}
    assert sum(pool_sizes(loaded.pools).values()) == 9
    assert loaded.checksum == load_pools(data).checksum
    assert load_pools(data, min_size=3).left_out == {}
    sizes = {"train": 4, "validation": 2, "calibration": 2, "test": 2}
    message = r"pools must ask for at most 9 classes with at least 4 examples, as many .*, got 10\."
    with pytest.raises(ValueError, match=message):
        load_pools(data, sizes=sizes, min_size=4)
    message = r"has 0 classes with at least 5 examples; .* or lower ways or the examples of each"
    with pytest.raises(ValueError, match=message):
        load_pools(data, min_size=5)
    short = arrays(tmp_path, x=np.zeros((38, 2)), y=y)
    with pytest.raises(ValueError, match="y and x must have the same length, got 39 and 38"):
        load_pools(short, min_size=4)


def test_a_label_that_only_a_small_group_has_is_the_same_in_a_run(tmp_path: Path) -> None:
    groups, y = np.repeat(np.arange(6), [8] * 5 + [2]), np.arange(42) % 2
    y[41] = 2
    data = arrays(tmp_path, x=np.zeros((42, 2)), y=y, groups=groups)
    loaded = load_pools(data, min_size=3)
    assert loaded.left_out == {5: 2}
    found = load_pools(write_run(tmp_path / "run", data, loaded)).pools
    assert_same_pools(found, loaded.pools)
    assert found.train.classes == loaded.pools.train.classes == 2


def test_a_pool_with_fewer_classes_than_ways_is_refused(tmp_path: Path) -> None:
    sizes = {"train": 5, "validation": 3, "calibration": 0, "test": 2}
    message = "pools gives test only 2 classes, and a task has 3. Give it more, or lower ways."
    with pytest.raises(ValueError, match=message):
        load_pools(arrays(tmp_path), sizes=sizes, ways=3)


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
    with pytest.raises(
        ValueError, match=r"data\.npz is not a complete NumPy file .*\(Bad CRC-32.*Write it"
    ):
        load_pools(str(path))


def test_as_many_glyphs_are_drawn_as_the_pools_need(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, int]] = []

    def few(**options: int) -> Any:
        asked.append(options)
        return glyphs(**{"characters": 20, **options}, per_character=4)

    monkeypatch.setattr(module, "glyphs", few)
    sizes = {"train": 5, "validation": 1, "calibration": 2, "test": 2}
    assert pool_sizes(load_pools("glyphs", sizes=sizes).pools) == sizes
    assert pool_sizes(load_pools("glyphs").pools) == {
        "train": 11,
        "validation": 2,
        "calibration": 3,
        "test": 4,
    }
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


def test_damaged_data_are_not_loaded(tmp_path: Path) -> None:
    (path,) = survey(tmp_path, range(2021, 2023)).glob("heart/prepared-*/x.npy")
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(
        BadArtefact, match="x.npy does not match its checksum. Run 'metapac data pr"
    ):
        load_pools("heart", home=tmp_path)


def test_heart_of_other_years_is_split_at_random(tmp_path: Path) -> None:
    home = survey(tmp_path, range(2021, 2023))
    assert pool_sizes(load_pools("heart", home=home).pools) == {
        "train": 4,
        "validation": 1,
        "calibration": 1,
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


def write_run(folder: Path, data: str, loaded: LoadedPools, **options: Any) -> Path:
    """Write what ``metapac train`` records of its data."""
    folder.mkdir()
    pools = {name: pool for name, pool in vars(loaded.pools).items() if pool is not None}
    body: dict[str, Any] = {
        "data": data,
        "data_checksum": loaded.checksum,
        "options": {"rng": 0, **options},
        "architecture": {"class": "ProtoNet", "weights": 1},
        "accuracy": 0.5,
        "pools": {name: list(pool.names) for name, pool in pools.items()},
        "classes": getattr(loaded.pools.train, "classes", None),
        "history": [],
    }
    artefact.write(folder / "run.json", body, RUN)
    return folder


def assert_same_pools(found: Any, expected: Any) -> None:
    assert pool_sizes(found) == pool_sizes(expected)
    for name, pool in vars(expected).items():
        if pool is not None:
            other = getattr(found, name)
            assert (type(other), other.name, other.names) == (type(pool), pool.name, pool.names)
            np.testing.assert_array_equal(other.x, pool.x)
            np.testing.assert_array_equal(other.y, pool.y)
            shape: dict[str, Any] = {"shots": 1, "queries": 1, "rng": 3}
            shape |= {"ways": 1} if pool.unit == "class" else {}
            for task, same in zip(other.tasks(2, **shape), pool.tasks(2, **shape), strict=True):
                assert task.query.tolist() == same.query.tolist()


@pytest.mark.parametrize("rng", [0, 7])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"y": np.array([f"class {i % 9}" for i in range(40)])},
        {"y": np.arange(40) % 3, "groups": np.arange(40) % 8},
        {"y": np.zeros(40, int), "groups": np.array(["a", "b", "c", "d"] * 10)},
    ],
)
def test_a_run_gives_back_its_pools(tmp_path: Path, more: dict[str, Any], rng: int) -> None:
    data = arrays(tmp_path, **more)
    loaded = load_pools(data, rng=rng)
    folder = write_run(tmp_path / "run", data, loaded, rng=rng)
    again = load_pools(folder)
    assert again.checksum == loaded.checksum
    assert_same_pools(again.pools, loaded.pools)
    moved = tmp_path / "moved.npz"
    Path(data).rename(moved)
    with pytest.raises(FileNotFoundError, match=r"run was trained on these data\. Pass where they"):
        load_pools(folder)
    assert_same_pools(load_run_pools(folder, data=str(moved)).pools, loaded.pools)


def test_pools_of_given_sizes_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {"train": 4, "validation": 1, "calibration": 0, "test": 2}
    monkeypatch.setattr(module, "glyphs", partial(glyphs, per_character=4))
    loaded = load_pools("glyphs", sizes=sizes)
    folder = write_run(tmp_path / "run", "glyphs", loaded, pools=sizes)
    assert_same_pools(load_pools(folder).pools, loaded.pools)


def test_changed_data_are_refused(tmp_path: Path) -> None:
    data = arrays(tmp_path)
    folder = write_run(tmp_path / "run", data, load_pools(data))
    arrays(tmp_path, y=np.arange(40)[::-1] % 10)
    message = r"the data changed: .*data\.npz is not what .*run was trained on \(checksum"
    with pytest.raises(ValueError, match=message):
        load_pools(folder)


def test_a_run_on_a_prepared_data_set(tmp_path: Path) -> None:
    home = survey(tmp_path, range(2021, 2023))
    loaded = load_pools("heart", rng=5, home=home)
    folder = write_run(tmp_path / "run", "heart", loaded, rng=5)
    assert_same_pools(load_pools(folder, home=home).pools, loaded.pools)
    (tmp_path / "heart.csv").write_text((tmp_path / "heart.csv").read_text() + "2022,4,1,77\n")
    prepare_heart(tmp_path / "heart.csv", home=home)
    with pytest.raises(ValueError, match="the data changed: heart is not what"):
        load_pools(folder, home=home)


def test_a_folder_named_like_a_data_set_is_not_taken_for_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "glyphs").mkdir()
    monkeypatch.setattr(module, "glyphs", partial(glyphs, characters=10, per_character=4))
    assert len(load_pools("glyphs").pools.train.names) == 5


def birds(folder: Path, classes: int = 8) -> Path:
    """A folder of images: 4 of each class, all of one shade."""
    for i in range(classes):
        (folder / f"bird {i}").mkdir(parents=True)
        for j in range(4):
            Image.new("RGB", (20, 24), (20 * i, j, 0)).save(folder / f"bird {i}" / f"{j}.png")
    return folder


def test_a_folder_of_images_is_split_by_class(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    loaded = load_pools(birds(tmp_path / "birds"), ways=2, progress=lambda *call: seen.append(call))
    assert set(pool_sizes(loaded.pools).values()) == {2}
    assert loaded.image_size == 84
    assert seen[-1] == ("reading images", 32, 32)
    for pool in (loaded.pools.train, loaded.pools.test):
        assert pool.x.shape == (8, 84, 84, 3)
        shades = [f"bird {shade // 20}" for shade in pool.x[:, 0, 0, 0]]
        assert pool.y.tolist() == shades
        assert set(pool.names) == set(shades)


def test_the_images_of_a_run_come_back_in_their_size(tmp_path: Path) -> None:
    data = birds(tmp_path / "birds")
    loaded = load_pools(data, ways=2, image_size=9)
    folder = write_run(tmp_path / "run", str(data), loaded, image_size=9)
    again = load_pools(folder)
    assert (again.checksum, again.image_size) == (loaded.checksum, 9)
    assert_same_pools(again.pools, loaded.pools)
    moved = data.rename(tmp_path / "moved")
    assert_same_pools(load_run_pools(folder, data=str(moved)).pools, loaded.pools)
    Image.new("RGB", (9, 9), (1, 2, 3)).save(moved / "bird 0" / "0.png")
    with pytest.raises(ValueError, match="the data changed: .*moved is not what .*run was trained"):
        load_run_pools(folder, data=str(moved))


def test_folders_that_hold_no_classes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="has no folder with images in it. Put the images of"):
        load_pools(tmp_path)
    Image.new("RGB", (9, 9)).save(tmp_path / "0.png")
    with pytest.raises(InvalidInput, match="has no folder with images in it. Put the images of"):
        load_pools(tmp_path)
    with pytest.raises(InvalidInput, match="has 3 classes; training, .* need 1 each, 4 in all"):
        load_pools(birds(tmp_path / "few", classes=3))


def test_an_image_size_is_for_folders_of_images(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    data = arrays(tmp_path)
    write_run(folder, data, load_pools(data))
    for other in ("glyphs", "heart", data, str(folder)):
        with pytest.raises(InvalidInput, match="image_size is for a folder of images, got"):
            load_pools(other, image_size=32)
