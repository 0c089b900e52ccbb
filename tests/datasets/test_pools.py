"""Pools by name or run: prepared data, glyphs, files and images are split into disjoint pools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from metapac import BadArtefact, InvalidInput, artefact
from metapac.fewshot import ClassPool, GroupPool, load_pools
from metapac.fewshot.datasets import cache
from metapac.fewshot.datasets import pools as module
from metapac.fewshot.datasets.cifar10c import prepare as prepare_cifar10c
from metapac.fewshot.datasets.glyphs import glyphs
from metapac.fewshot.datasets.heart import prepare as prepare_heart
from metapac.fewshot.datasets.pools import FILE, RUN, LoadedPools, is_run, load_run_pools, read_run
from metapac.fewshot.training import checkpoints
from tests.helpers.cifar_files import fabricated, write_records

NAMES = ("train", "validation", "calibration", "test")


def arrays(folder: Path, classes: int = 10, **more: Any) -> str:
    y = np.arange(4 * classes) % classes
    np.savez(folder / "data.npz", **{"x": np.arange(8.0 * classes).reshape(-1, 2), "y": y, **more})
    return str(folder / "data.npz")


def sizes_of(loaded: LoadedPools) -> dict[str, int]:
    pools = vars(loaded.pools).items()
    return {name: len(pool.names) for name, pool in pools if pool is not None}


def sizes(*counts: int) -> dict[str, int]:
    return dict(zip(NAMES, counts, strict=True))


def test_a_file_is_split_by_class_or_group(tmp_path: Path) -> None:
    data = arrays(tmp_path)
    loaded = load_pools(data, rng=3)
    assert isinstance(loaded.pools.train, ClassPool)
    assert sizes_of(loaded) == sizes(5, 1, 2, 2)
    pools = vars(loaded.pools).values()
    assert sorted(name for pool in pools for name in pool.names) == [*range(10)]
    drawn = [load_pools(data, rng=seed).pools.test.names for seed in (3, *range(40))]
    assert drawn[0] == loaded.pools.test.names
    assert len({*map(tuple, drawn)}) > 1
    given_sizes = load_pools(data, sizes=sizes(4, 0, 3, 1))
    assert sizes_of(given_sizes) == {"train": 4, "calibration": 3, "test": 1}
    data = arrays(tmp_path, y=np.zeros(40, int), groups=np.arange(40) % 8)
    by_group = load_pools(data, ways=5)  # groups need no number of classes
    assert isinstance(by_group.pools.train, GroupPool)
    assert sizes_of(by_group) == sizes(4, 1, 1, 2)
    assert sizes_of(load_pools(arrays(tmp_path, 100), ways=5)) == sizes(56, 8, 16, 20)


@given(ways=st.integers(1, 40), more=st.integers(0, 300))
def test_every_pool_has_enough_classes_for_a_task(ways: int, more: int) -> None:
    found = module._default_sizes(4 * ways + more, ways)
    assert min(found.values()) >= ways
    assert sum(found.values()) == 4 * ways + more


def test_impossible_splits_are_refused_by_name(tmp_path: Path) -> None:
    data = arrays(tmp_path)
    large = "classes with at least 5 examples"
    bad: list[tuple[dict[str, Any], str, str]] = [
        ({"ways": 4}, "ways", "10 classes; .* 4 each, 16 in all"),
        ({"min_size": 5}, "ways", f"0 {large}"),
        ({"min_size": 5, "sizes": sizes(1, 1, 1, 1)}, "pools", f"0 {large}"),
        ({"sizes": sizes(5, 3, 0, 2), "ways": 3}, "pools", "test only 2 classes, .* 3"),
        ({"sizes": sizes(5, 3, 0, 3)}, "pools", "at most the 10 classes of .* got 11"),
        ({"image_size": 32}, "image_size", "folder of images"),
    ]
    for options, parameter, message in bad:
        with pytest.raises(InvalidInput, match=message) as error:
            load_pools(data, **options)
        assert parameter in error.value.parameters
    run = write_run(tmp_path / "run", data, load_pools(data))
    for other in ("glyphs", "heart", run):
        with pytest.raises(InvalidInput, match="image_size is for a folder of images"):
            load_pools(other, image_size=32)
    short = arrays(tmp_path, x=np.zeros((38, 2)))
    with pytest.raises(InvalidInput, match="y and x must have the same length, got 40 and 38"):
        load_pools(short, min_size=5, sizes=sizes(1, 1, 1, 1))


def test_bad_files_and_folders_are_refused(tmp_path: Path) -> None:
    path = Path(arrays(tmp_path))
    content = bytearray(path.read_bytes())
    (tmp_path / "short.npz").write_bytes(content[:500])
    content[200] ^= 1  # in the array x, against its checksum
    path.write_bytes(content)
    np.savez(tmp_path / "other.npz", images=np.zeros(3))
    np.savez(tmp_path / "objects.npz", x=np.array([None, 1]), y=np.array([0, 1]))
    (tmp_path / "flat").mkdir()
    Image.new("RGB", (9, 9)).save(tmp_path / "flat" / "0.png")
    birds(tmp_path / "few", classes=3)
    for name, message in [
        ("other.npz", "arrays x and y.* it has: images"),
        ("objects.npz", "allow_pickle=False"),
        ("short.npz", "is not a complete NumPy file"),
        ("data.npz", "is not a complete NumPy file .*Bad CRC-32"),
        ("flat", "has no folder with images in it"),
        ("few", "has 3 classes; .* 1 each, 4 in all"),
    ]:
        with pytest.raises(ValueError, match=message):
            load_pools(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="nothing.npz"):
        load_pools(tmp_path / "nothing.npz")


def test_as_many_glyphs_as_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "glyphs").mkdir()  # a folder of that name is neither a run nor images
    monkeypatch.setattr(
        module, "glyphs", lambda characters=20: glyphs(characters=characters, per_character=4)
    )
    few = sizes(4, 1, 0, 2)
    loaded = load_pools("glyphs", sizes=few)
    assert {"calibration": 0} | sizes_of(loaded) == few
    assert len(np.unique(loaded.pools.train.x, axis=0)) == 16
    assert sizes_of(load_pools("glyphs")) == sizes(11, 2, 3, 4)
    assert_same_pools(load_pools(write_run(tmp_path / "run", "glyphs", loaded, pools=few)), loaded)


def survey(folder: Path, years: range) -> Path:
    lines = ["year,state,label,age"]
    lines += [f"{y},{s},{i % 2},{i}" for y in years for s in range(1, 5) for i in range(s + 1)]
    (folder / "heart.csv").write_text("\n".join(lines) + "\n")
    prepare_heart(folder / "heart.csv", home=folder)
    return folder


def test_prepared_data_are_loaded_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("miniimagenet", "fewrel", "heart", "cifar10c"):
        with pytest.raises(FileNotFoundError, match=f"metapac data prepare {name}"):
            load_pools(name, home=tmp_path)
    prepared = prepare_cifar10c(write_records(tmp_path, fabricated(each=130)), home=tmp_path)
    loaded = load_pools("cifar10c", home=tmp_path)
    assert (loaded.checksum, loaded.words, loaded.is_imagenet) == (prepared.checksum, None, False)
    assert len(loaded.pools.validation.x) == 5000
    for name in ("fewrel", "miniimagenet"):
        cache.prepare(name, [], lambda writer: {}, home=tmp_path)
    monkeypatch.setattr(module, "fewrel", lambda **options: (options, "words"))
    monkeypatch.setattr(module, "miniimagenet", lambda **options: options)
    sentences: Any = load_pools("fewrel", rng=7, home=tmp_path)
    assert sentences.words == "words"
    assert sentences.pools == {"validation": 8, "rng": 7, "home": tmp_path}
    images: Any = load_pools("miniimagenet", home=tmp_path)
    assert images.is_imagenet
    assert images.pools == {"validation": 8, "home": tmp_path}


def test_heart_is_split_by_the_papers_years_or_at_random(tmp_path: Path) -> None:
    loaded = load_pools("heart", home=survey(tmp_path, range(2011, 2021)))
    assert sizes_of(loaded) == sizes(12, 4, 20, 4)
    assert {name[:4] for name in loaded.pools.validation.names} == {"2014"}
    home = survey(tmp_path, range(2021, 2023))
    loaded = load_pools("heart", rng=5, home=home)
    assert sizes_of(loaded) == sizes(4, 1, 1, 2)
    run = write_run(tmp_path / "run", "heart", loaded, rng=5)
    assert_same_pools(load_pools(run, home=home), loaded)
    large = load_pools("heart", sizes=sizes(1, 1, 1, 1), min_size=4, home=home)
    assert "without 4 state-years of fewer than 4 rows" in large.pools.train.name
    (tmp_path / "heart.csv").write_text((tmp_path / "heart.csv").read_text() + "2022,4,1,77\n")
    prepare_heart(tmp_path / "heart.csv", home=home)
    with pytest.raises(InvalidInput, match="the data changed: heart is not what"):
        load_pools(run, home=home)
    for path in home.glob("heart/prepared-*/x.npy"):
        path.write_bytes(path.read_bytes()[:-1] + b"\x7f")
    with pytest.raises(BadArtefact, match=r"x\.npy does not match its checksum"):
        load_pools("heart", home=home)


def birds(folder: Path, classes: int = 8) -> Path:
    """A folder of images: 4 of each class, all of one shade."""
    for i in range(classes):
        (folder / f"bird {i}").mkdir(parents=True)
        for j in range(4):
            Image.new("RGB", (20, 24), (20 * i, j, 0)).save(folder / f"bird {i}" / f"{j}.png")
    return folder


def test_a_folder_of_images_is_split_by_class(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    data = birds(tmp_path / "birds")
    loaded = load_pools(data, ways=2, progress=lambda *call: seen.append(call))
    assert set(sizes_of(loaded).values()) == {2}
    assert (loaded.image_size, seen[-1]) == (84, ("reading images", 32, 32))
    for pool in (loaded.pools.train, loaded.pools.test):
        assert pool.x.shape == (8, 84, 84, 3)
        assert pool.y.tolist() == [f"bird {shade // 20}" for shade in pool.x[:, 0, 0, 0]]
    small = load_pools(data, ways=2, image_size=9)
    run = write_run(tmp_path / "run", str(data), small, image_size=9)
    assert_same_pools(load_pools(run), small)
    moved = data.rename(tmp_path / "moved")
    assert_same_pools(load_run_pools(run, data=str(moved)), small)
    Image.new("RGB", (9, 9), (1, 2, 3)).save(moved / "bird 0" / "0.png")
    with pytest.raises(InvalidInput, match="the data changed: .*moved is not what .*run was"):
        load_run_pools(run, data=str(moved))


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
    artefact.write(folder / FILE, body, RUN)
    return folder


def assert_same_pools(found: LoadedPools, expected: LoadedPools) -> None:
    assert (found.checksum, found.image_size) == (expected.checksum, expected.image_size)
    assert sizes_of(found) == sizes_of(expected)
    for name in sizes_of(expected):
        other, pool = getattr(found.pools, name), getattr(expected.pools, name)
        assert (type(other), other.name, other.names) == (type(pool), pool.name, pool.names)
        assert getattr(other, "classes", None) == getattr(pool, "classes", None)
        for field in ("x", "y"):
            np.testing.assert_array_equal(getattr(other, field), getattr(pool, field))


def test_a_run_gives_back_its_pools(tmp_path: Path) -> None:
    small = np.repeat(np.arange(6), [8] * 4 + [7, 1])  # a group of one, the only one of label 2
    kinds: list[dict[str, Any]] = [
        {},
        {"y": np.array([f"class {i % 9}" for i in range(40)])},
        {"y": np.arange(40) % 3, "groups": np.arange(40) % 8},
        {"y": np.zeros(40, int), "groups": np.array(["a", "b", "c", "d"] * 10)},
        {"y": np.array([*range(2)] * 19 + [0, 2]), "groups": small},
    ]
    for i, more in enumerate(kinds):
        data = arrays(tmp_path, **more)
        loaded = load_pools(data, rng=i, min_size=2)
        run = write_run(tmp_path / f"run {i}", data, loaded, rng=i)
        assert_same_pools(load_pools(run), loaded)
        moved = Path(data).rename(tmp_path / "moved.npz")
        with pytest.raises(FileNotFoundError, match="was trained on these data. Pass where they"):
            load_pools(run)
        assert_same_pools(load_run_pools(run, data=str(moved)), loaded)
    assert loaded.left_out == {5: 1}
    assert loaded.pools.train.classes == 2
    changed = arrays(tmp_path, y=np.arange(40)[::-1] % 10)
    stored, now = loaded.checksum[7:19], load_pools(changed).checksum[7:19]
    message = rf"the data changed: .*data\.npz .*run 4 .*{stored} then, {now} now"
    with pytest.raises(InvalidInput, match=message):
        load_pools(run)


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        assert not is_run(folder)
        with pytest.raises(InvalidInput, match=r"is not the folder of a run: it has no run\.json"):
            read_run(folder)
    (tmp_path / checkpoints.FILE).touch()
    assert is_run(tmp_path)
    with pytest.raises(InvalidInput, match="holds a run that has not ended"):
        read_run(tmp_path)
    data = arrays(tmp_path)
    run = write_run(tmp_path / "run", data, load_pools(data))
    assert is_run(run)
    (run / FILE).write_text((run / FILE).read_text().replace("ProtoNet", "OtherNet"))
    with pytest.raises(BadArtefact, match=r"was edited or damaged.*Run 'metapac train' again"):
        read_run(run)
