"""The figure of prediction sets marks what they miss."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from metapac import plots


def test_a_missed_label_is_marked(tmp_path: Path) -> None:
    images = np.zeros((3, 4, 4), dtype=np.uint8)
    sets = np.array([[True, False], [True, True], [False, False]])
    path = tmp_path / "sets.svg"
    plots.draw_images_with_sets(images, [0, 1, 0], sets, "ab", title="Sets", path=path)
    content = path.read_text(encoding="utf-8")
    for text in ("{ a }", "{ a b }", "{ none }"):
        assert f"<!-- {text} -->" in content
    assert content.count(plots.LIMIT) == 2  # label and set of the third image
