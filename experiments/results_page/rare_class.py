"""Tasks on which every set lacks the rare class, because the support set has no example of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from experiments.results_page.markdown import enumerate_names, percent
from experiments.results_page.splits import JOINT
from experiments.results_page.stored import Result
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import CONFIDENCE, WITHIN


def find(results: Sequence[Result]) -> str:
    """Return where the criterion is met although the rare class is missed on many tasks."""
    shares = [
        f"{percent(float(np.mean(_lacks_class(result))), '.1%')} in *{result.title}*"
        for result in results
        if _may_lack_class(result) and result.line(JOINT).verdict == WITHIN
    ]
    if not shares:
        return ""
    return (
        "**This criterion is about all examples of a task together.** The joint split meets it, "
        f"at {percent(CONFIDENCE)} confidence, although on many new tasks "
        f"({enumerate_names(shares)}) every heart attack is missed. Ask for [a guarantee for each "
        "class](docs/learn/rare-class.md)."
    )


def observe(result: Result) -> list[str]:
    """Return how the sets of an experiment look where a support set may lack a class."""
    if not _may_lack_class(result):
        return []
    rows, lacks = Rows.concatenate(result.rows(JOINT)), _lacks_class(result)
    both = np.mean([learner["auroc_both_labels"] for learner in result.learners])
    share = float(np.mean([learner["tasks_with_both_labels"] for learner in result.learners]))
    right = float(1 - np.mean(rows.error[lacks]))
    return [
        f"On {percent(float(np.mean(lacks)), '.1%')} of the new tasks every set of {JOINT} has one "
        "label. There the support set has no positive example, so the positive label has "
        "probability zero, every positive example is missed, and the error is the share of "
        f"positives. On the other tasks the sets have {np.mean(rows.size[~lacks]):.2f} of "
        f"{rows.labels.max()} labels on average. Accuracy says little here: on the tasks with one "
        f"label, always answering no is right for {percent(right, '.1%')} of the examples. On the "
        f"{percent(share)} of tasks whose support set has both labels, the area under the ROC "
        f"curve is {both:.3f}; on the others all examples score the same."
    ]


def _may_lack_class(result: Result) -> bool:
    return "tasks_with_both_labels" in result.learners[0]


def _lacks_class(result: Result) -> NDArray[np.bool_]:
    """Return on which new tasks every set of the joint split has the one label seen in the support.

    Rows do not tell the support set, but if it has one label, the scores of the true labels are one
    or zero, and so is the oracle's threshold.
    """
    rows, oracle = (Rows.concatenate(result.rows(name)) for name in (JOINT, "oracle"))
    return np.asarray((rows.size == 1) & np.isin(oracle.threshold, (0, 1)))
