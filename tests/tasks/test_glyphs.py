"""Images of characters: every face draws each of them, no two look the same, few are easy."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from metapac.fewshot import glyphs

module: Any = sys.modules["metapac.fewshot.datasets.glyphs"]

Array = NDArray[Any]
Shapes = tuple[list[str], Array, Array]
COLUMN = {name: i for i, name in enumerate(module.RANGES)}


@pytest.fixture(scope="module")
def everything() -> Shapes:
    shapes: Shapes = module._draw_shapes(module._load_fonts())
    return shapes


@pytest.fixture(scope="module")
def distinct() -> Shapes:
    shapes: Shapes = module._load_shapes()
    return shapes


def test_images_are_ordered_by_character_and_do_not_depend_on_the_others() -> None:
    x, y, names = glyphs(characters=7, per_character=3, rng=1, size=20)
    assert (x.shape, x.dtype.name, y.dtype.name) == ((21, 20, 20), "uint8", "int64")
    assert y.tolist() == sorted([*range(7)] * 3)
    assert len(set(names)) == 7
    assert len(np.unique(x.reshape(21, -1), axis=0)) == 21
    assert np.array_equal(x, glyphs(characters=7, per_character=3, rng=1, size=20)[0])
    assert not np.array_equal(x, glyphs(characters=7, per_character=3, rng=2, size=20)[0])
    few, _, some = glyphs(characters=3, per_character=3, rng=1, size=20)
    shared = [name for name in some if name in names]
    assert len(shared) >= 2
    for name in shared:
        alone = few.reshape(3, 3, 20, 20)[some.index(name)]
        assert np.array_equal(alone, x[y == names.index(name)])


def test_every_face_has_every_character_clear_of_the_border(everything: Shapes) -> None:
    names, soft, extents = everything
    assert extents.min() > 0
    assert soft.shape == (len(names), len(module.FACES), module.CANVAS, module.CANVAS)
    assert max(soft[..., [0, -1], :].max(), soft[..., [0, -1]].max()) <= 2  # of 255
    for font in module._load_fonts():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the face warns that it lacks this character
            fallback = module._draw_ink(font, "\U0010fffe").tobytes()
        assert all(module._draw_ink(font, name).tobytes() != fallback for name in names)


def test_of_characters_that_look_the_same_one_is_kept(distinct: Shapes) -> None:
    alike = ["A\u0391\u0410", "B\u0392\u0412", "O\u039f\u041e", "o\u03bf\u043e"]  # three scripts
    for lookalikes in (*alike, "Xx\u0425\u0445", "Ss\u0405\u0455", "\u00d0\u0110\u0189"):
        assert sum(name in lookalikes for name in distinct[0]) == 1
    assert set("1235789AEFGHKMNRWagkßΞΨЖЮ") <= set(distinct[0])
    assert len(distinct[0]) >= 400


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


def sides(image: Array) -> Array:
    ink = image > image.max() / 2
    return np.array([ink.any(axis=1).sum(), ink.any(axis=0).sum()])


def test_distortions_match_geometry(distinct: Shapes) -> None:
    still, moved = place(distinct, "F"), place(distinct, "F", right=0.1, down=-0.05)
    assert centre(moved) - centre(still) == pytest.approx([-0.05 * 28, 0.1 * 28], abs=0.02)
    for quarter in (1, 2, 3):
        turned = place(distinct, "F", angle=quarter * np.pi / 2)
        assert np.allclose(turned, np.rot90(still, quarter), atol=1e-4)
    plain = sides(place(distinct, "H", 200))
    assert plain[0] == pytest.approx(0.6 * 200, abs=4)
    assert sides(place(distinct, "H", 200, fill=0.3)) == pytest.approx(plain / 2, abs=3)
    wide = sides(place(distinct, "H", 200, stretch=0.3))
    assert wide == pytest.approx(plain * np.exp([-0.15, 0.15]), abs=3)
    leaning = place(distinct, "I", 200, shear=0.3)  # x + 0.3 y is constant along the stem
    rows = np.flatnonzero(leaning.sum(axis=1) > 0.5 * leaning.sum(axis=1).max())
    middle = leaning[rows] @ np.arange(200) / leaning[rows].sum(axis=1)
    assert np.polyfit(rows, middle, 1)[0] == pytest.approx(-0.3, abs=0.01)


def test_bad_input_and_a_missing_extra(distinct: Shapes, monkeypatch: pytest.MonkeyPatch) -> None:
    most = len(distinct[0])
    assert glyphs(characters=most, per_character=1)[2] == distinct[0]
    for name, value in (("characters", most + 1), ("per_character", 0), ("size", 7)):
        with pytest.raises(ValueError, match=f"{name} must be .* got {value}"):
            glyphs(**{name: value})
    module._load_shapes.cache_clear()
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'metapac\[plot\]'"):
        glyphs(characters=1, per_character=1)
