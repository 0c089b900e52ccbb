"""Glyphs: noisy, distorted pictures of characters in many faces, classes without a download."""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from metapac._common import Array, Seed, as_whole_number, require
from metapac.errors import InvalidInput
from metapac.fewshot.tasks import spawn_rng, spawn_seed

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font


FACES = (
    *("DejaVuSans", "DejaVuSans-Bold", "DejaVuSans-Oblique", "DejaVuSansMono"),
    *("DejaVuSansMono-Bold", "DejaVuSerif", "DejaVuSerif-Bold", "DejaVuSerif-Italic"),
)
CATEGORIES = ("Lu", "Ll", "Lo", "Nd")
POINTS, CANVAS, SOFTENING = 36, 56, 1.5  # font size, side of a shape, blur (standard deviation)
SAME_SHAPE = 0.945  # mean cosine over faces from which two characters count as one

# Drawn uniformly for each image. Lengths are fractions of the side of the image.
RANGES = {
    "angle": (-0.35, 0.35),  # radians
    "shear": (-0.3, 0.3),
    "stretch": (-0.3, 0.3),  # logarithm of width over height
    "fill": (0.55, 0.9),  # longer side of the character
    "right": (-0.12, 0.12),
    "down": (-0.12, 0.12),
    "level": (0.1, 0.4),  # softened ink at which the character begins; low is thick
    "ramp": (0.1, 0.6),  # softened ink over which it becomes full; wide is blurred
    "contrast": (0.4, 1.0),
    "noise": (0.1, 0.4),  # standard deviation; from black to white is 1
}


def glyphs(
    *, characters: int = 400, per_character: int = 60, rng: Seed = 0, size: int = 28
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Return images of characters, the label of each image, and the characters.

    No two characters look the same: of Latin A, Greek Alpha and Cyrillic A only one is included.

    Parameters
    ----------
    characters, per_character : int, optional
        Number of characters, and of images of each.
    rng : int, numpy.random.Generator or None, optional
        Seed. The images of a character do not depend on the other characters.
    size : int, optional
        Height and width of an image, at least 8 pixels.

    Returns
    -------
    x : ndarray of uint8, shape (characters * per_character, size, size)
        The images, ordered by character.
    y : ndarray of int, shape (characters * per_character,)
        Position in ``names`` of the character of each image.
    names : list of str

    Examples
    --------
    >>> from metapac.fewshot import glyphs
    >>> x, y, names = glyphs(characters=3, per_character=2, rng=0)
    >>> x.shape, y.tolist()
    ((6, 28, 28), [0, 0, 1, 1, 2, 2])
    """
    characters = as_whole_number("characters", characters)
    per_character = as_whole_number("per_character", per_character)
    size = as_whole_number("size", size, minimum=8)
    names, shapes, extents = _load_shapes()
    if characters > len(names):
        rule = f"characters must be at most {len(names)}, as many as the fonts have"
        raise InvalidInput(f"{rule}, got {characters}. For more images raise per_character.")
    chosen = np.linspace(0, len(names) - 1, characters).round().astype(int)  # from every script
    seed = spawn_seed(rng)
    x = np.empty((characters, per_character, size, size), dtype=np.uint8)
    for images, i in zip(x, chosen, strict=True):
        draw = spawn_rng(seed, ord(names[i]))
        images[...] = _draw_images(shapes[i], extents[i], per_character, size, draw)
    y = np.repeat(np.arange(characters), per_character)
    return x.reshape(-1, size, size), y, [names[i] for i in chosen]


_Shapes = tuple[list[str], Array, Array]  # characters, softened shapes, longer sides


@cache
def _load_shapes() -> _Shapes:
    return _drop_lookalikes(*_draw_shapes(_load_fonts()))


def _load_fonts() -> list[FT2Font]:
    matplotlib = require("matplotlib", extra="plot", purpose="glyphs")
    from matplotlib.ft2font import FT2Font

    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    fonts = [FT2Font(str(folder / f"{face}.ttf")) for face in FACES]
    for font in fonts:
        font.set_size(POINTS, 72)
    return fonts


def _draw_shapes(fonts: list[FT2Font]) -> _Shapes:
    """Return characters, softened shapes and longer sides; ink is from 0 to 255."""
    names = _list_characters(fonts)
    ink = np.zeros((len(names), len(fonts), CANVAS, CANVAS), dtype=np.uint8)
    extents = np.zeros(ink.shape[:2])
    for i, name in enumerate(names):
        for j, font in enumerate(fonts):
            shape = _draw_ink(font, name)
            height, width = shape.shape
            top, left = (CANVAS - height) // 2, (CANVAS - width) // 2
            ink[i, j, top : top + height, left : left + width] = shape
            extents[i, j] = max(height, width)
    full = np.flatnonzero((extents > 0).all(axis=1))
    soft = ndimage.gaussian_filter(ink[full], (0, 0, SOFTENING, SOFTENING))
    return [names[i] for i in full], soft, extents[full]


def _list_characters(fonts: list[FT2Font]) -> list[str]:
    """Return unaccented letters and digits that every face has, in code point order."""
    codes = [{code for code, glyph in font.get_charmap().items() if glyph} for font in fonts]
    shared = map(chr, sorted(set.intersection(*codes)))
    letters = [name for name in shared if unicodedata.category(name) in CATEGORIES]
    return [name for name in letters if not unicodedata.decomposition(name)]


def _draw_ink(font: FT2Font, name: str) -> NDArray[np.uint8]:
    """Return the ink of a character without its margin."""
    font.clear()
    font.set_text(name)
    font.draw_glyphs_to_bitmap(antialiased=True)
    image = np.asarray(font.get_image())
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    if not len(rows):
        return image[:0, :0]
    return image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _drop_lookalikes(names: list[str], shapes: Array, extents: Array) -> _Shapes:
    """Keep the first of all characters that look the same at the same size."""
    plain = np.zeros((len(FACES), len(RANGES)))
    plain[:, list(RANGES).index("fill")] = 0.9
    faces, pairs = np.arange(len(FACES)), zip(shapes, extents, strict=True)
    placed = [_place(shape, extent, faces, plain, 24) for shape, extent in pairs]
    faces_flat = np.stack(placed).reshape(len(names), len(FACES), -1)
    faces_flat /= np.linalg.norm(faces_flat, axis=2, keepdims=True)
    flat = faces_flat.reshape(len(names), -1)  # (characters, faces * pixels)
    same = flat @ flat.T / len(FACES) >= SAME_SHAPE
    distinct: list[int] = []
    for i in range(len(names)):
        if not same[i, distinct].any():
            distinct.append(i)
    return [names[i] for i in distinct], shapes[distinct], extents[distinct]


def _draw_images(
    shapes: Array, extents: Array, count: int, size: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Return ``count`` images of one character, each in a random face."""
    low, high = np.array(list(RANGES.values())).T
    draws = rng.uniform(low, high, (count, len(RANGES)))
    faces = rng.integers(len(shapes), size=count)
    level, ramp, contrast, noise = draws[:, -4:].T[:, :, None, None].astype(np.float32)
    soft = _place(shapes, extents, faces, draws, size)
    ink = np.clip((soft - level) / ramp, 0, 1)
    grey = rng.standard_normal(ink.shape, dtype=np.float32)
    grey *= noise
    grey += contrast * (ink - 0.5) + 0.5
    return np.asarray(np.rint(np.clip(grey, 0, 1) * 255), dtype=np.uint8)


def _place(shapes: Array, extents: Array, faces: Array, draws: Array, size: int) -> Array:
    """Rotate, shear, stretch, scale and move softened shapes, (n, size, size)."""
    angle, shear, stretch, fill, right, down = draws[:, :6].T[:, :, None, None]
    grid = (np.arange(size) + 0.5) / size - 0.5
    across, along = grid - right, grid[:, None] - down  # (n, 1, size), (n, size, 1)
    scale = extents[faces][:, None, None] / fill
    rotated_x = np.cos(angle) * across - np.sin(angle) * along
    rotated_y = np.sin(angle) * across + np.cos(angle) * along
    x = scale * np.exp(-stretch / 2) * (rotated_x + shear * rotated_y) + (CANVAS - 1) / 2
    y = scale * np.exp(stretch / 2) * rotated_y + (CANVAS - 1) / 2
    # All faces are one sheet, one below the other; empty margins separate them.
    y = np.clip(y, 0, CANVAS - 1) + CANVAS * faces[:, None, None]
    sheet = shapes.reshape(-1, CANVAS)
    ink = ndimage.map_coordinates(sheet, (y, x), order=1, mode="nearest", output=np.float32)
    return np.asarray(ink / 255)
