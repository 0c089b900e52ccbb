"""Image files as arrays: every pixel in order, and every unreadable file named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from metapac.fewshot.datasets import images
from metapac.fewshot.datasets.images import Pixels


def paint(path: Path, pixels: Pixels, mode: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(pixels)
    (picture.convert(mode) if mode else picture).save(path)
    return path


def noise(rng: int, size: int = 8) -> Pixels:
    return np.random.default_rng(rng).integers(0, 256, (size, size, 3), dtype=np.uint8)


def test_pixels_come_in_the_order_of_the_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_BLOCK", 3)  # several blocks for several threads
    pictures = [noise(i) for i in range(20)]
    paths = [paint(tmp_path / f"{i}.png", picture) for i, picture in enumerate(pictures)]
    blocks = list(images.read_images(paths, 8))
    assert [len(block) for block in blocks] == [3] * 6 + [2]
    np.testing.assert_array_equal(np.concatenate(blocks), pictures)


def test_other_sizes_are_resized_and_other_modes_are_made_rgb(tmp_path: Path) -> None:
    flat = np.full((30, 50, 3), 90, np.uint8)
    paths = [
        paint(tmp_path / "wide.png", flat),
        paint(tmp_path / "grey.png", flat[..., 0]),
        tmp_path / "palette.gif",
        paint(tmp_path / "alpha.png", flat, "RGBA"),
    ]
    Image.fromarray(flat).quantize().save(paths[2])
    (block,) = images.read_images(paths, 16)
    assert block.shape == (4, 16, 16, 3)
    np.testing.assert_allclose(block, 90, atol=1)


def test_all_faults_are_reported_at_once(tmp_path: Path) -> None:
    good = paint(tmp_path / "good.jpg", noise(0, 64))
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(good.read_bytes()[:-200])
    empty = tmp_path / "empty.jpg"
    empty.touch()
    text = tmp_path / "text.jpg"
    text.write_text("not an image")
    paths = [good, cut, empty, text, tmp_path / "absent.jpg"]
    with pytest.raises(ValueError, match="4 of 5 images cannot be read") as caught:
        list(images.read_images(paths, 64))
    message = str(caught.value)
    for words in (
        f"{cut} (image file is truncated",
        f"{empty} (it has zero bytes)",
        f"{text} (it is not an image)",
        f"{paths[4]} (No such file or directory)",
        "Copy those files again from their source, or remove them.",
    ):
        assert words in message


@pytest.mark.parametrize(
    "limit", [10, 40]
)  # 64 pixels: an error above twice the limit, otherwise a warning
def test_a_huge_image_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    good = paint(tmp_path / "good.png", noise(0, 2))
    huge = paint(tmp_path / "huge.png", noise(1, 8))
    message = rf"1 of 2 images .*{huge} \(Image size \(64 pixels\) exceeds limit .* or remove them"
    with pytest.raises(ValueError, match=message):
        list(images.read_images([good, huge], 8))


def test_running_out_of_memory_is_not_blamed_on_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(path: Path) -> None:
        raise MemoryError

    path = paint(tmp_path / "good.png", noise(0))
    monkeypatch.setattr(Image, "open", exhausted)
    with pytest.raises(MemoryError):
        list(images.read_images([path], 8))


@pytest.mark.parametrize(
    ("name", "kind", "mode"),
    [
        ("deep.png", np.uint16, "I;16"),
        ("deep.tif", np.uint16, "I;16"),
        ("deep.tif", np.int32, "I"),
        ("deep.tif", np.float32, "F"),
    ],
)
def test_more_than_eight_bits_are_refused_and_not_clipped(
    tmp_path: Path, name: str, kind: type, mode: str
) -> None:
    path = tmp_path / name
    Image.fromarray(np.full((8, 8), 300, kind)).save(path)
    message = rf"{name} \(it has mode {mode}: save it with 8 bits per channel\)"
    with pytest.raises(ValueError, match=message):
        list(images.read_images([path], 8))


def test_many_faults_are_counted(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.jpg" for i in range(9)]
    with pytest.raises(ValueError, match="9 of 9 images .* and 4 more. Copy"):
        list(images.read_images(paths, 8))


def test_a_folder_of_folders(tmp_path: Path) -> None:
    pictures = {"cat": [noise(1), noise(2)], "dog": [noise(3)]}
    for name, members in pictures.items():
        for i, picture in enumerate(members):
            paint(tmp_path / name / f"{i}.PNG", picture)
    (tmp_path / "cat" / "notes.txt").write_text("not an image")
    (tmp_path / "cat" / ".hidden.png").touch()
    (tmp_path / "empty").mkdir()
    seen: list[tuple[str, int, int | None]] = []
    x, y, names = images.image_folder(tmp_path, size=8, progress=lambda *call: seen.append(call))
    np.testing.assert_array_equal(x, pictures["cat"] + pictures["dog"])
    assert (y.tolist(), names) == ([0, 0, 1], ["cat", "dog"])
    assert seen == [("reading images", 3, 3)]


def test_a_lazy_folder_reads_what_is_asked_for(tmp_path: Path) -> None:
    pictures = [noise(i) for i in range(6)]
    for i, picture in enumerate(pictures):
        paint(tmp_path / ("cat" if i < 4 else "dog") / f"{i}.png", picture)
    x, y, names = images.image_folder(tmp_path, size=8, lazy=True)
    (tmp_path / "cat" / "1.png").write_bytes(b"torn")
    np.testing.assert_array_equal(x[[5, 0]], [pictures[5], pictures[0]])
    assert (x.shape, x.dtype, y.tolist(), names) == (
        (6, 8, 8, 3),
        np.uint8,
        [0] * 4 + [1] * 2,
        ["cat", "dog"],
    )
    with pytest.raises(ValueError, match=r"1 of 2 images cannot be read: .*1\.png"):
        x[:2]
    assert x[[]].shape == (0, 8, 8, 3)


def test_a_folder_without_classes_is_refused(tmp_path: Path) -> None:
    paint(tmp_path / "loose.png", noise(0))
    with pytest.raises(ValueError, match="has no folder with images in it. Put the images of each"):
        images.image_folder(tmp_path, size=8)
    with pytest.raises(ValueError, match="size must .*whole number"):
        images.image_folder(tmp_path, size=0)
