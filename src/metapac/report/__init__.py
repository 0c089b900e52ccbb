"""Reports for people who are responsible for a model: one HTML file, without external scripts."""

from metapac.report.builder import report
from metapac.report.data import Scored

__all__ = ["Scored", "report"]
