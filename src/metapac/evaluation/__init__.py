"""Evaluation of methods side by side: from calibration draws to rows and summaries.

A *study* yields draws. A *draw* has the calibration scores, of shape (examples,), the task of each,
and new tasks. A new task is a `ScoredTask`: the score of every label for each of its n test
examples, of shape (n, classes), the scores of their true labels, of shape (n,), and those of some
labelled examples that only PS-Test may use. `evaluate` runs every *method* on every draw and
returns `Rows`, one for each method, draw and new task; `summarise` makes a table of them.

`PoolStudy` is the study of a learner on your own data, `SyntheticStudy` one that needs no data.
"""

from metapac._document import data_checksum
from metapac.evaluation.comparison import SizeComparison, compare_sizes
from metapac.evaluation.draws import Draw, NewTask, ScoredTask, Study
from metapac.evaluation.methods import Chosen, Method, Rule, paper_methods
from metapac.evaluation.neighbours import neighbour_methods
from metapac.evaluation.pool_study import PoolStudy
from metapac.evaluation.rows import Rows
from metapac.evaluation.run import evaluate
from metapac.evaluation.seeds import evaluate_seeds, read_seeds
from metapac.evaluation.store import read_guarantee, read_rows, read_settings
from metapac.evaluation.summary import MethodSummary, Summary, summarise
from metapac.evaluation.synthetic import SyntheticStudy

__all__ = [
    "Chosen",
    "Draw",
    "Method",
    "MethodSummary",
    "NewTask",
    "PoolStudy",
    "Rows",
    "Rule",
    "ScoredTask",
    "SizeComparison",
    "Study",
    "Summary",
    "SyntheticStudy",
    "compare_sizes",
    "data_checksum",
    "evaluate",
    "evaluate_seeds",
    "neighbour_methods",
    "paper_methods",
    "read_guarantee",
    "read_rows",
    "read_seeds",
    "read_settings",
    "summarise",
]
