"""Scores from the sample logs of lm-evaluation-harness."""

from metapac.lm_eval.samples import Samples, read_samples

__all__ = ["Samples", "read_samples"]
