"""A guarantee compared with labelled new tasks: misses, set sizes, and the verdict."""

from metapac.assessment.arrays import evaluate as evaluate
from metapac.assessment.counts import ClassMisses as ClassMisses
from metapac.assessment.counts import SetCounts as SetCounts
from metapac.assessment.evaluation import Evaluation as Evaluation
