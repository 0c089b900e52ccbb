"""Figures of plans, evaluations, results and prediction sets. Needs the extra ``plot``."""

from metapac.plots.evaluation import draw_evaluation
from metapac.plots.figures import INK as INK
from metapac.plots.figures import LIMIT as LIMIT
from metapac.plots.figures import create_figure, draw_boxes, save
from metapac.plots.images import draw_images_with_sets
from metapac.plots.needs import draw_needs

__all__ = [
    "create_figure",
    "draw_boxes",
    "draw_evaluation",
    "draw_images_with_sets",
    "draw_needs",
    "save",
]
