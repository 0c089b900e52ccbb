"""The paper's experiments, from scored draws to rows and what they say."""

from metapac.evaluation.draws import Draw, Judged, NewTask, Study, data_checksum
from metapac.evaluation.folder import read_guarantee, read_rows, read_settings
from metapac.evaluation.methods import Chosen, Method, Rule, paper_methods
from metapac.evaluation.rows import Rows
from metapac.evaluation.summary import Paired, Summary, Verdict, paired, summarise, verdicts
from metapac.evaluation.trials import evaluate

__all__ = [
    "Chosen",
    "Draw",
    "Judged",
    "Method",
    "NewTask",
    "Paired",
    "Rows",
    "Rule",
    "Study",
    "Summary",
    "Verdict",
    "data_checksum",
    "evaluate",
    "paired",
    "paper_methods",
    "read_guarantee",
    "read_rows",
    "read_settings",
    "summarise",
    "verdicts",
]
