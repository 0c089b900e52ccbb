"""Evaluation of methods side by side: from calibration draws to rows and summaries."""

from metapac._document import data_checksum
from metapac.evaluation.draws import Draw, NewTask, ScoredTask, Study
from metapac.evaluation.methods import Chosen, Method, Rule, paper_methods
from metapac.evaluation.rows import Rows
from metapac.evaluation.run import evaluate
from metapac.evaluation.store import read_guarantee, read_rows, read_settings
from metapac.evaluation.summary import SizeComparison, Summary, compare_sizes, summarise
from metapac.evaluation.synthetic import SyntheticStudy

__all__ = [
    "Chosen",
    "Draw",
    "Method",
    "NewTask",
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
    "paper_methods",
    "read_guarantee",
    "read_rows",
    "read_settings",
    "summarise",
]
