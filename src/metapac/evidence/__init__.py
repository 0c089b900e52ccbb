"""The evidence of the calibration tasks: a few numbers per task, all that the second step needs."""

from metapac.evidence.arrays import collect_evidence as collect_evidence
from metapac.evidence.evidence import Evidence as Evidence
