"""Small pictures of characters, drawn from the fonts that ship with matplotlib: no download.

Letters and digits of five scripts in eight faces, each picture bent, thickened, blurred and made
noisy at random, so that 5-way 5-shot recognition of unseen characters is neither hopeless nor
certain: that is where prediction sets matter.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from metapac import _checks
from metapac.tasks._seeds import Seed, child, root

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

FACES = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSans-Oblique",
    "DejaVuSansMono",
    "DejaVuSansMono-Bold",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSerif-Italic",
)
CATEGORIES = ("Lu", "Ll", "Lo", "Nd")
POINTS, CANVAS, SOFTENING = 36, 56, 1.5  # font size, side of a shape, deviation of its blur
ALIKE = 0.945  # the cosine, averaged over faces, at which two shapes count as one

# Drawn uniformly for each picture. Lengths are fractions of the side of the picture.
RANGES = {
    "angle": (-0.35, 0.35),  # radians
    "shear": (-0.3, 0.3),
    "stretch": (-0.3, 0.3),  # logarithm of width over height
    "fill": (0.55, 0.9),  # longer side of the character
    "right": (-0.12, 0.12),
    "down": (-0.12, 0.12),
    "level": (0.1, 0.4),  # softened ink at which the character begins: low is thick
    "ramp": (0.1, 0.6),  # softened ink over which it becomes full: wide is blurred
    "contrast": (0.4, 1.0),
    "noise": (0.1, 0.4),  # deviation; from black to white is 1
}

Array = NDArray[Any]


def glyphs(
    *, characters: int = 400, per_character: int = 60, rng: Seed = 0, size: int = 28
) -> tuple[NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Return pictures ``(n, size, size)``, the number of each one's character, the characters.

    No two characters look alike: of Latin A, Greek Alpha and Cyrillic A one is kept. The
    pictures of a character are the same whichever others are asked for.
    """
    characters = _checks.whole_number("characters", characters)
    per_character = _checks.whole_number("per_character", per_character)
    size = _checks.whole_number("size", size, least=8)
    names, shapes, extents = _distinct_shapes()
    if characters > len(names):
        raise ValueError(
            f"characters must be at most {len(names)}, the number of distinct shapes in the "
            f"fonts, got {characters}. Ask for more pictures of each with per_character."
        )
    chosen = np.linspace(0, len(names) - 1, characters).round().astype(int)  # from every script
    seed = root(rng)
    x = np.empty((characters, per_character, size, size), dtype=np.uint8)
    for pictures, i in zip(x, chosen, strict=True):
        draw = child(seed, ord(names[i]))
        pictures[...] = _pictures(shapes[i], extents[i], per_character, size, draw)
    y = np.repeat(np.arange(characters), per_character)
    return x.reshape(-1, size, size), y, [names[i] for i in chosen]


@cache
def _distinct_shapes() -> tuple[list[str], Array, Array]:
    return _distinct(*_shapes(_fonts()))


def _fonts() -> list[FT2Font]:
    try:
        import matplotlib
        from matplotlib.ft2font import FT2Font
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "glyphs are drawn from the fonts of matplotlib. "
            "Install it with: pip install 'metapac[plot]'"
        ) from error
    folder = Path(matplotlib.get_data_path(), "fonts", "ttf")
    fonts = [FT2Font(str(folder / f"{face}.ttf")) for face in FACES]
    for font in fonts:
        font.set_size(POINTS, 72)
    return fonts


def _shapes(fonts: list[FT2Font]) -> tuple[list[str], Array, Array]:
    """Return characters, softened shapes (characters, faces, CANVAS, CANVAS), longer sides.

    Ink is 0 to 255.
    """
    names = _characters(fonts)
    ink = np.zeros((len(names), len(fonts), CANVAS, CANVAS), dtype=np.uint8)
    extents = np.zeros(ink.shape[:2])
    for i, name in enumerate(names):
        for j, font in enumerate(fonts):
            drawn = _drawn(font, name)
            height, width = drawn.shape
            top, left = (CANVAS - height) // 2, (CANVAS - width) // 2
            ink[i, j, top : top + height, left : left + width] = drawn
            extents[i, j] = max(height, width)
    full = np.flatnonzero((extents > 0).all(axis=1))
    soft = ndimage.gaussian_filter(ink[full], (0, 0, SOFTENING, SOFTENING))
    return [names[i] for i in full], soft, extents[full]


def _characters(fonts: list[FT2Font]) -> list[str]:
    """Return unaccented letters and digits that every face draws itself, in code point order."""
    own = [{code for code, glyph in font.get_charmap().items() if glyph} for font in fonts]
    shared = map(chr, sorted(set.intersection(*own)))
    return [
        name
        for name in shared
        if unicodedata.category(name) in CATEGORIES and not unicodedata.decomposition(name)
    ]


def _drawn(font: FT2Font, name: str) -> NDArray[np.uint8]:
    """Return the ink of a character without the empty margin."""
    font.clear()
    font.set_text(name)
    font.draw_glyphs_to_bitmap(antialiased=True)
    image = np.asarray(font.get_image())
    rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
    if not len(rows):
        return image[:0, :0]
    return image[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def _distinct(names: list[str], shapes: Array, extents: Array) -> tuple[list[str], Array, Array]:
    """Keep the first of all characters whose shapes, brought to one size, look alike."""
    plain = np.zeros((len(FACES), len(RANGES)))
    plain[:, list(RANGES).index("fill")] = 0.9
    faces = np.arange(len(FACES))
    flat = np.stack(
        [
            _placed(shape, extent, faces, plain, 24).reshape(len(FACES), -1)
            for shape, extent in zip(shapes, extents, strict=True)
        ]
    )  # (characters, faces, pixels)
    flat /= np.linalg.norm(flat, axis=2, keepdims=True)
    flat = flat.reshape(len(names), -1)
    alike = flat @ flat.T / len(FACES) >= ALIKE
    kept: list[int] = []
    for i in range(len(names)):
        if not alike[i, kept].any():
            kept.append(i)
    return [names[i] for i in kept], shapes[kept], extents[kept]


def _pictures(
    shapes: Array, extents: Array, count: int, size: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """Return ``count`` pictures of one character, each in a random face."""
    low, high = np.array(list(RANGES.values())).T
    draws = rng.uniform(low, high, (count, len(RANGES)))
    faces = rng.integers(len(shapes), size=count)
    level, ramp, contrast, noise = draws[:, -4:].T[:, :, None, None].astype(np.float32)
    soft = _placed(shapes, extents, faces, draws, size)
    ink = np.clip((soft - level) / ramp, 0, 1)
    grey = rng.standard_normal(ink.shape, dtype=np.float32)
    grey *= noise
    grey += contrast * (ink - 0.5) + 0.5
    return np.asarray(np.rint(np.clip(grey, 0, 1) * 255), dtype=np.uint8)


def _placed(shapes: Array, extents: Array, faces: Array, draws: Array, size: int) -> Array:
    """Return the softened shapes, turned, sheared, stretched, scaled and moved: (n, size, size)."""
    angle, shear, stretch, fill, right, down = draws[:, :6].T[:, :, None, None]
    grid = (np.arange(size) + 0.5) / size - 0.5
    across, along = grid - right, grid[:, None] - down  # (n, 1, size), (n, size, 1)
    scale = extents[faces][:, None, None] / fill
    turned_x = np.cos(angle) * across - np.sin(angle) * along
    turned_y = np.sin(angle) * across + np.cos(angle) * along
    x = scale * np.exp(-stretch / 2) * (turned_x + shear * turned_y) + (CANVAS - 1) / 2
    y = scale * np.exp(stretch / 2) * turned_y + (CANVAS - 1) / 2
    # The faces lie below one another in one sheet; their empty margins keep them apart.
    y = np.clip(y, 0, CANVAS - 1) + CANVAS * faces[:, None, None]
    sheet = shapes.reshape(-1, CANVAS)
    found = ndimage.map_coordinates(sheet, (y, x), order=1, mode="nearest", output=np.float32)
    return np.asarray(found / 255)
