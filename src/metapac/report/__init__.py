"""Reports for people who are responsible for a model: one HTML file, without external scripts."""

from metapac.report.builder import report

__all__ = ["report"]
