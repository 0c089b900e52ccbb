"""Reports for people who sign for a model: one HTML file, without scripts."""

from metapac.report.builder import SignOff, report

__all__ = ["SignOff", "report"]
