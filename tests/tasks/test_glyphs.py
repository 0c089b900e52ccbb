"""Images of characters: every face draws each of them, no two look the same, few are easy."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from numpy.typing import NDArray

from metapac.fewshot import ClassPool, glyphs

module: Any = sys.modules["metapac.fewshot.datasets.glyphs"]

Array = NDArray[Any]
Shapes = tuple[list[str], Array, Array]
COLUMN = {name: i for i, name in enumerate(module.RANGES)}


@pytest.fixture(scope="module")
def everything() -> Shapes:
    shapes: Shapes = module._draw_shapes(module._load_fonts())
    return shapes


@pytest.fixture(scope="module")
def distinct(everything: Shapes) -> Shapes:
    shapes: Shapes = module._drop_lookalikes(*everything)
    return shapes


def place(shapes: Shapes, name: str, size: int = 28, **draws: float) -> Array:
    """One character in the first face, with the given draws and no other distortion."""
    names, soft, extents = shapes
    row = np.zeros((1, len(COLUMN)))
    for key, value in {"fill": 0.6, **draws}.items():
        row[0, COLUMN[key]] = value
    i = names.index(name)
    image: Array = module._place(soft[i], extents[i], np.zeros(1, dtype=int), row, size)[0]
    return image


def centre(image: Array) -> Array:
    grid = np.arange(len(image))
    return np.array([float(image.sum(axis) @ grid / image.sum()) for axis in (1, 0)])


def test_images_are_ordered_by_character() -> None:
    x, y, names = glyphs(characters=7, per_character=3, rng=1, size=20)
    assert x.shape == (21, 20, 20)
    assert (x.dtype.name, y.dtype.name) == ("uint8", "int64")
    assert y.tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3 + [5] * 3 + [6] * 3
    assert len(set(names)) == 7
    assert len(np.unique(x.reshape(21, -1), axis=0)) == 21
    assert np.array_equal(x, glyphs(characters=7, per_character=3, rng=1, size=20)[0])
    assert not np.array_equal(x, glyphs(characters=7, per_character=3, rng=2, size=20)[0])


def test_images_of_a_character_do_not_depend_on_the_other_characters() -> None:
    few, _, some = glyphs(characters=3, per_character=4)
    many, y, names = glyphs(characters=11, per_character=4)
    shared = [name for name in some if name in names]
    assert len(shared) >= 2
    for name in shared:
        alone = few.reshape(3, 4, 28, 28)[some.index(name)]
        assert np.array_equal(alone, many[y == names.index(name)])


def test_every_face_has_every_character(everything: Shapes) -> None:
    names, soft, extents = everything
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    assert extents.min() > 0
    assert soft.shape == (len(names), len(module.FACES), module.CANVAS, module.CANVAS)
    for font in module._load_fonts():
        assert Path(font.fname).parent == folder
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the face warns that it lacks this character
            fallback = module._draw_ink(font, "\U0010fffe").tobytes()
        assert all(module._draw_ink(font, name).tobytes() != fallback for name in names)


def test_shapes_keep_clear_of_the_border_of_the_canvas(everything: Shapes) -> None:
    _, soft, _ = everything
    assert max(soft[..., 0, :].max(), soft[..., -1, :].max()) <= 2  # of 255
    assert max(soft[..., 0].max(), soft[..., -1].max()) <= 2


@pytest.mark.parametrize(
    "lookalikes",
    [
        "A\u0391\u0410",  # Latin, Greek, Cyrillic
        "B\u0392\u0412",
        "O\u039f\u041e",
        "o\u03bf\u043e",
        "Xx\u0425\u0445",
        "Ss\u0405\u0455",
        "\u00d0\u0110\u0189",  # eth, D with stroke, African D
    ],
)
def test_of_characters_that_look_the_same_one_is_kept(lookalikes: str, distinct: Shapes) -> None:
    assert sum(name in lookalikes for name in distinct[0]) == 1


def test_characters_that_look_different_are_kept(distinct: Shapes) -> None:
    assert set("1235789AEFGHKMNRWagkßΞΨЖЮ") <= set(distinct[0])
    assert len(distinct[0]) >= 400


def test_similarity_is_the_mean_cosine_over_faces(everything: Shapes, distinct: Shapes) -> None:
    names, soft, extents = everything
    faces = len(module.FACES)
    row = np.zeros((1, len(COLUMN)))
    row[0, COLUMN["fill"]] = 0.9

    def cosine(i: int, j: int) -> float:
        total = 0.0
        for face in range(faces):
            a, b = (
                module._place(soft[k], extents[k], np.array([face]), row, 24).ravel()
                for k in (i, j)
            )
            total += float(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))
        return total / faces

    rng = np.random.default_rng(0)
    kept = [i for i, name in enumerate(names) if name in set(distinct[0])]
    for i, j in (rng.choice(kept, 2, replace=False) for _ in range(100)):
        assert cosine(i, j) < module.SAME_SHAPE + 1e-6
    dropped = [i for i in range(len(names)) if i not in set(kept)]
    for i in rng.choice(dropped, 5, replace=False):
        assert max(cosine(i, j) for j in kept if j < i) >= module.SAME_SHAPE - 1e-6


def test_shifts_and_rotations_match_geometry(distinct: Shapes) -> None:
    still = place(distinct, "F")
    moved = place(distinct, "F", right=0.1, down=-0.05)
    assert centre(moved) - centre(still) == pytest.approx([-0.05 * 28, 0.1 * 28], abs=0.02)
    for quarter in (1, 2, 3):
        turned = place(distinct, "F", angle=quarter * np.pi / 2)
        assert np.allclose(turned, np.rot90(still, quarter), atol=1e-4)


def test_fill_and_stretch_set_height_and_width(distinct: Shapes) -> None:
    def sides(image: Array) -> Array:
        ink = image > image.max() / 2
        return np.array([ink.any(axis=1).sum(), ink.any(axis=0).sum()])

    size = 200
    plain = sides(place(distinct, "H", size))
    assert plain[0] == pytest.approx(0.6 * size, abs=4)
    assert sides(place(distinct, "H", size, fill=0.3)) == pytest.approx(plain / 2, abs=3)
    wide = sides(place(distinct, "H", size, stretch=0.3))
    assert wide == pytest.approx(plain * np.exp([-0.15, 0.15]), abs=3)


def test_a_sheared_stem_leans_by_the_shear(distinct: Shapes) -> None:
    leaning = place(distinct, "I", 200, shear=0.3)  # x + 0.3 y is constant along the stem
    rows = np.flatnonzero(leaning.sum(axis=1) > 0.5 * leaning.sum(axis=1).max())
    middle = leaning[rows] @ np.arange(200) / leaning[rows].sum(axis=1)
    assert np.polyfit(rows, middle, 1)[0] == pytest.approx(-0.3, abs=0.01)


def draw(
    shapes: Shapes, patch: pytest.MonkeyPatch, count: int = 1, faces: int = 1, **draws: float
) -> Array:
    """Images of one character in the first faces, with the given draws and no other."""
    plain = {"fill": 0.7, "level": 0.25, "ramp": 0.2, "contrast": 1.0, **draws}
    patch.setattr(module, "RANGES", {key: (plain.get(key, 0.0),) * 2 for key in COLUMN})
    i, rng = shapes[0].index("R"), np.random.default_rng(0)
    images = module._draw_images(shapes[1][i, :faces], shapes[2][i, :faces], count, 28, rng)
    return np.asarray(images / 255)


def test_thick_blurred_faint_and_noisy_images(
    distinct: Shapes, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = draw(distinct, monkeypatch)
    assert (plain.min(), plain.max()) == (0, 1)
    assert draw(distinct, monkeypatch, level=0.1).sum() > 1.2 * plain.sum()
    blurred = draw(distinct, monkeypatch, ramp=0.6)
    assert np.abs(np.diff(blurred)).max() < 0.8 * np.abs(np.diff(plain)).max()
    faint = draw(distinct, monkeypatch, contrast=0.4)
    assert np.allclose(faint, 0.3 + 0.4 * plain, atol=0.004)
    noise = draw(distinct, monkeypatch, contrast=0.4, noise=0.05) - faint
    assert noise.std() == pytest.approx(0.05, rel=0.15)  # 784 draws: 6 standard deviations


def test_images_use_all_faces(distinct: Shapes, monkeypatch: pytest.MonkeyPatch) -> None:
    images = draw(
        distinct, monkeypatch, count=200, faces=8
    )  # one is missing with probability 2e-11
    assert len(np.unique(images.reshape(200, -1), axis=0)) == len(module.FACES) == 8


def test_unseen_characters_are_neither_hopeless_nor_certain() -> None:
    # Prototypes of raw pixels, without any training: above chance, far from solved.
    x, y, _ = glyphs(characters=60, per_character=20)
    accuracy = []
    for task in ClassPool(x, y).tasks(100, ways=5, shots=5, queries=15, rng=0):
        support = task.support_x.reshape(5, 5, -1).mean(axis=1)
        query = task.query_x.reshape(75, 1, -1).astype(float)
        nearest = ((query - support) ** 2).sum(axis=2).argmin(axis=1)
        accuracy.append(float(np.mean(nearest == task.query_y)))
    assert 0.3 < np.mean(accuracy) < 0.7


def test_more_characters_than_the_fonts_have_is_an_error(distinct: Shapes) -> None:
    available = len(distinct[0])
    assert glyphs(characters=available, per_character=1)[2] == distinct[0]
    with pytest.raises(
        ValueError, match=f"characters must be at most {available}, .* got {available + 1}"
    ):
        glyphs(characters=available + 1)
    with pytest.raises(ValueError, match="per_character must be a whole number from 1"):
        glyphs(per_character=0)


def test_without_matplotlib_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module._load_shapes.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'metapac\[plot\]'"):
        glyphs(characters=1, per_character=1)
