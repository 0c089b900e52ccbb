"""The verdict on a guarantee, from labelled new tasks. The proof is in docs/verdict.md."""

from metapac.verdict.intervals import clopper_pearson_interval as clopper_pearson_interval
from metapac.verdict.verdict import Verdict as Verdict
from metapac.verdict.verdict import judge as judge
from metapac.verdict.verdict import judge_classes as judge_classes
