"""Images: folders as arrays in order, mini-ImageNet as pools, and every bad file named."""

from __future__ import annotations

import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metapac.fewshot import image_folder, miniimagenet
from metapac.fewshot.datasets import cache, images
from metapac.fewshot.datasets.images import Pixels
from metapac.fewshot.datasets.miniimagenet import missing, prepare
from tests.helpers import miniimagenet_files as mini
from tests.helpers.miniimagenet_files import CLASSES, EACH, LAYOUTS, colour, picture, with_csv

ROOT = Path(__file__).parents[2]


def paint(path: Path, pixels: Pixels) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def noise(rng: int, size: int = 8) -> Pixels:
    return np.random.default_rng(rng).integers(0, 256, (size, size, 3), dtype=np.uint8)


@pytest.mark.parametrize("lazy", [True, False])
def test_images_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lazy: bool) -> None:
    monkeypatch.setattr(images, "_BLOCK", 3)  # several blocks for several threads
    pictures = [noise(i) for i in range(20)]
    for i, pixels in enumerate(pictures):
        paint(tmp_path / ("cat" if i < 12 else "dog") / f"{i:02}.PNG", pixels)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "cat" / ".hidden.png").touch()
    (tmp_path / "empty").mkdir()
    seen: list[tuple[str, int, int | None]] = []
    x, y, names = image_folder(
        tmp_path, size=8, lazy=lazy, progress=lambda *call: seen.append(call)
    )
    assert (x.shape, x.dtype, names) == ((20, 8, 8, 3), np.uint8, ["cat", "dog"])
    assert y.tolist() == [0] * 12 + [1] * 8
    np.testing.assert_array_equal(x[[5, 19, 0]], [pictures[5], pictures[19], pictures[0]])
    np.testing.assert_array_equal(x[:], pictures)
    assert x[[]].shape == (0, 8, 8, 3)
    assert seen == ([] if lazy else [("reading images", min(i, 20), 20) for i in range(3, 22, 3)])


def test_other_sizes_are_resized_and_other_modes_are_made_rgb(tmp_path: Path) -> None:
    flat = np.full((30, 50, 3), 90, np.uint8)
    paint(tmp_path / "a" / "wide.png", flat)
    paint(tmp_path / "a" / "grey.png", flat[..., 0])
    Image.fromarray(flat).quantize().save(tmp_path / "a" / "palette.gif")
    Image.fromarray(flat).convert("RGBA").save(tmp_path / "a" / "alpha.png")
    x, _, _ = image_folder(tmp_path, size=16)
    assert x.shape == (4, 16, 16, 3)
    np.testing.assert_allclose(x, 90, atol=1)


def test_all_unreadable_images_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = paint(tmp_path / "a" / "good.jpg", noise(0, 16))
    (tmp_path / "a" / "cut.jpg").write_bytes(good.read_bytes()[:-200])
    (tmp_path / "a" / "empty.jpg").touch()
    (tmp_path / "a" / "text.jpg").write_text("not an image")
    for name, kind in (("deep.png", np.uint16), ("int.tif", np.int32), ("real.tif", np.float32)):
        Image.fromarray(np.full((8, 8), 300, kind)).save(tmp_path / "a" / name)  # not clipped
    paint(tmp_path / "a" / "huge.png", noise(1, 40))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # a warning up to twice the limit
    x, _, _ = image_folder(tmp_path, size=16, lazy=True)
    for path in sorted((tmp_path / "a").iterdir()):
        if path != good:
            with pytest.raises(ValueError, match=rf"1 of 1 images cannot be read: {path} \(.+\)"):
                x[[sorted((tmp_path / "a").iterdir()).index(path)]]
    with pytest.raises(ValueError, match=r"7 of 8 images .* and 2 more. Copy"):
        image_folder(tmp_path, size=16)

    def exhausted(path: Path) -> None:
        raise MemoryError  # not the fault of a file

    monkeypatch.setattr(Image, "open", exhausted)
    with pytest.raises(MemoryError):
        image_folder(tmp_path, size=16)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_pools(tmp_path: Path, layout: str) -> None:
    folder, seen = LAYOUTS[layout](tmp_path / "around" / "published"), []
    assert missing(folder) == missing(folder.parent) == []
    prepare(folder.parent, home=tmp_path, progress=lambda *call: seen.append(call))
    assert seen == [("reading images", done, 33) for done in (18, 24, 33)]
    pools = miniimagenet(home=tmp_path)
    assert pools.validation is None
    for pool, split in (("train", "train"), ("calibration", "val"), ("test", "test")):
        held = getattr(pools, pool)
        assert held.names == CLASSES[split]
        assert isinstance(held.x, np.memmap)
        for name, positions in zip(held.names, held.positions, strict=True):
            colours = sorted(map(tuple, held.x[positions][:, 5, 5].tolist()))
            assert colours == sorted(colour(name, i) for i in range(EACH))


def test_validation_classes_are_not_used_for_training(tmp_path: Path) -> None:
    prepare(with_csv(tmp_path / "published"), home=tmp_path)
    pools = miniimagenet(validation=2, home=tmp_path)
    assert len(pools.validation.names) == 2
    assert sorted(pools.train.names + pools.validation.names) == CLASSES["train"]
    for pool in (pools.train, pools.validation):
        for name, positions in zip(pool.names, pool.positions, strict=True):
            assert set(pool.x[positions][:, 0, 0, 0]) == {colour(name, 0)[0]}
    for validation in (6, -1):
        with pytest.raises(ValueError, match="validation"):
            miniimagenet(validation=validation, home=tmp_path)


def add(name: str, line: str) -> Callable[[Path], None]:
    def append(folder: Path) -> None:
        with (folder / name).open("a") as file:
            file.write(line)

    return append


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


FAULTS: list[tuple[Callable[[Path], object], str]] = [
    (write("images/n2100000001.png", b"torn"), "1 of 9 images .*n2100000001.png"),
    (lambda f: (f / "images/n2100000001.png").unlink(), "test.csv lists 1 .*n2100000001.png"),
    (add("val.csv", "../../stray.png,n10\n"), r"val.csv lists 1 images .*\.\./\.\./stray.png"),
    (lambda folder: (folder / "val.csv").unlink(), "lacks val.csv"),
    (write("val.csv", b""), "val.csv lists no images"),
    (write("val.csv", b"filename,label\n"), "val.csv lists no images"),
    (write("val.csv", b"file;class\na;b\n"), "val.csv, line 2 must hold a filename and a label"),
    (write("val.csv", b"filename,label\n\xff\xfe\n"), "val.csv is not a csv file"),
    (add("val.csv", "\nlonely.png\n"), "val.csv, line 9 must hold a filename and a label"),
    (add("test.csv", "n1100000001.png,n29\n"), "n1100000001.png must be .*val.csv.*test.csv"),
    (add("val.csv", "n1100000001.png,n10\n"), "listed only once, .* line 6 .* line 8"),
    (add("val.csv", "n1100000001.png,n11\n"), "listed only once, .* line 6 .* line 8"),
    (add("val.csv", "new.png,n20\n"), "'n20' must be a class of only one"),
]


def test_faults_are_named_and_nothing_is_left_behind(tmp_path: Path) -> None:
    Image.fromarray(picture("n10", 0)).save(tmp_path / "stray.png")
    for i, (fault, message) in enumerate(FAULTS):
        folder = with_csv(tmp_path / str(i) / "published")
        Image.fromarray(picture("n20", 4)).save(folder / "images" / "new.png")
        fault(folder)
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            prepare(folder, home=tmp_path)
        with pytest.raises(FileNotFoundError, match="not prepared"):
            cache.open_prepared("miniimagenet", tmp_path)


def test_unknown_layouts_are_refused_with_the_known_ones(tmp_path: Path) -> None:
    for place, message in (
        (tmp_path, "no known layout: .*train.csv"),
        (tmp_path / "x", "no.*a fo"),
    ):
        with pytest.raises(FileNotFoundError, match=message):
            prepare(place, home=tmp_path)
    folder = mini.with_folders(tmp_path / "published")
    shutil.rmtree(folder / "val" / "n11")
    (folder / "val" / "n11").mkdir()
    with pytest.raises(ValueError, match="val/n11 has no images"):
        prepare(folder, home=tmp_path)
    pickled = tmp_path / "old" / "mini-imagenet-cache-train.pkl"
    pickled.parent.mkdir()
    pickled.touch()
    with pytest.raises(
        FileNotFoundError, match=rf"Convert {pickled.name} as docs/reference/data-sets\.md shows"
    ):
        prepare(pickled.parent, home=tmp_path)


def test_the_recipe_of_the_docs_converts_a_pickled_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for split, names in CLASSES.items():
        images = np.stack([picture(name, i) for name in names for i in range(EACH)])
        rows = {name: [*range(EACH * k, EACH * (k + 1))] for k, name in enumerate(names)}
        cached = pickle.dumps({"image_data": images, "class_dict": rows})
        Path(f"mini-imagenet-cache-{split}.pkl").write_bytes(cached)
    page = ROOT / "docs" / "reference" / "data-sets.md"
    (recipe,) = re.findall(r"^```py\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    exec(recipe, {"pickle": pickle, "Path": Path, "Image": Image})
    arrays = prepare("mini", home=tmp_path).arrays
    others = prepare(mini.with_folders(tmp_path / "published"), home=tmp_path / "other").arrays
    for name in ("x", "y"):
        np.testing.assert_array_equal(arrays[name], others[name])
