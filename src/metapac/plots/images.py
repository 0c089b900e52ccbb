"""The figure of prediction sets: images, each with its label and its set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from metapac._types import Array, PathLike
from metapac.plots.figures import INK, LIMIT, create_figure, save


def draw_images_with_sets(
    images: Array,
    labels: Sequence[int],
    sets: Array,
    names: Sequence[str],
    *,
    title: str,
    path: PathLike,
) -> None:
    """Draw images in two rows, each with its true label above and its prediction set below.

    An image whose set misses the true label is marked in red.

    Parameters
    ----------
    images : ndarray of uint8, shape (n, height, width)
        The images.
    labels : sequence of int
        True label of each image.
    sets : ndarray of bool, shape (n, classes)
        Prediction set of each image.
    names : sequence of str
        Name of each class.
    title : str
        Title of the figure.
    path : path-like
        File to write.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from metapac.plots import draw_images_with_sets
    >>> images, sets = np.zeros((2, 4, 4), np.uint8), np.array([[True, False], [True, True]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/sets.svg"
    ...     draw_images_with_sets(images, [0, 1], sets, ["cat", "dog"], title="Sets", path=path)
    ...     print(*(path.name for path in pathlib.Path(folder).iterdir()))
    sets.svg
    """
    columns = (len(images) + 1) // 2
    figure, axes = create_figure(columns, rows=2, width=1.15 * columns, height=3.6)
    for ax in axes:
        ax.axis("off")
    for ax, image, label, members in zip(axes, images, labels, sets, strict=False):
        ax.imshow(image, cmap="gray_r", vmin=0, vmax=255)
        inside = " ".join(names[j] for j in np.flatnonzero(members).tolist()) or "none"
        colour = INK if members[label] else LIMIT
        ax.set_title(names[label], fontsize=11, color=colour)
        below: dict[str, Any] = {"ha": "center", "va": "top", "transform": ax.transAxes}
        ax.text(0.5, -0.06, "{ " + inside + " }", color=colour, fontsize=11, **below)
    figure.suptitle(title, fontsize=10)
    save(figure, path)
