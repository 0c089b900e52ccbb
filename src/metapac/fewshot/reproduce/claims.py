"""The paper's claims, checked on the results."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from metapac.fewshot.study import summary
from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import MethodSummary, SizeComparison, compare_sizes, summarise
from metapac.guarantee import Guarantee
from metapac.verdict import UNDECIDED, VIOLATED

PAPER_SPLIT, PS_TEST = "Meta-PS even", "PS-Test"
EXPECTED_VALID = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint")
EXPECTED_INVALID = ("PS", "Meta-CP")
_OURS = EXPECTED_VALID[1:]
AGREES, DISAGREES, UNCHECKED = "agrees", "does not agree", "cannot be checked"
Source = Mapping[str, str] | None
NOT_IN_PAPER = "not in the paper"  # the source of claims about other splits and other data


# By data set: the figure that a claim of the paper is about, and its words.
SOURCES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


@dataclass(frozen=True)
class Claim:
    """A claim about a method, and whether an evaluation agrees with it."""

    claim: str
    source: str
    status: str
    numbers: dict[str, float]

    @property
    def agrees(self) -> bool:
        return self.status == AGREES


def check_claims(rows: Rows | Sequence[Rows], guarantee: Guarantee, data: str) -> list[Claim]:
    """Return the claims about the methods that were run at the guarantee's delta."""
    # A claim that a guarantee is kept or violated is believed only if chance cannot explain it.
    delta = guarantee.failure_probability
    names = (*EXPECTED_VALID, *EXPECTED_INVALID, PS_TEST)
    claimed = [
        each.take(np.isin(each.method, names) & (each.delta == delta))
        for each in ((rows,) if isinstance(rows, Rows) else rows)
    ]
    lines = {line.method: line for line in summarise(claimed, guarantee)}
    has_both = {PS_TEST, PAPER_SPLIT} <= lines.keys()
    sizes = compare_sizes(claimed, PS_TEST, PAPER_SPLIT) if has_both else None
    return judge_claims(lines, sizes, guarantee, data)


def judge_claims(
    lines: Mapping[str, MethodSummary],
    sizes: SizeComparison | None,
    guarantee: Guarantee,
    data: str,
) -> list[Claim]:
    """Return the claims about methods whose summaries are known."""
    source = SOURCES.get(data)
    expected = dict.fromkeys(EXPECTED_VALID, "valid") | dict.fromkeys(EXPECTED_INVALID, "invalid")
    claims = [
        # Of the valid methods, the paper has its own split alone.
        _judge_error(lines[name], guarantee, None if name in _OURS else source, claim)
        for name, claim in expected.items()
        if name in lines
    ]
    if sizes is not None:
        claims.append(_judge_sizes(sizes, lines[PS_TEST], lines[PAPER_SPLIT], source))
    return claims


def _judge_error(line: MethodSummary, g: Guarantee, source: Source, claim: str) -> Claim:
    """Return the claim that a method keeps its error below epsilon, or that it does not."""
    is_valid = claim == "valid"
    good, bad = (AGREES, DISAGREES) if is_valid else (DISAGREES, AGREES)
    status = {summary.WITHIN: good, VIOLATED: bad, summary.TOO_FEW: UNCHECKED}
    words, quantile = "at most" if is_valid else "above", f"{100 * (1 - g.alpha):g}% quantile"
    return Claim(
        f"{line.method}: the {quantile} of error is {words} epsilon = {g.miss_rate:g}",
        _cite(source, claim, "a"),
        status.get(line.verdict, UNDECIDED),
        _numbers(line),
    )


def _judge_sizes(
    sizes: SizeComparison, ps_test: MethodSummary, meta: MethodSummary, source: Source
) -> Claim:
    """Return the claim that PS-Test is conservative, which keeping every label agrees with."""
    status = AGREES if sizes.low > 0 else DISAGREES if sizes.high < 0 else UNDECIDED
    return Claim(
        f"{PS_TEST}: its sets are larger on average than those of {meta.method}",
        _cite(source, "larger", "b"),
        UNCHECKED if meta.too_few else status,
        {**_numbers(ps_test), **{f"{k} of {PAPER_SPLIT}": x for k, x in _numbers(meta).items()}},
    )


def _cite(source: Source, claim: str, panel: str) -> str:
    """Return the panel of the figure and the sentence that make a claim."""
    return f'{source["figure"]}({panel}): "{source[claim]}"' if source else NOT_IN_PAPER


def _numbers(line: MethodSummary) -> dict[str, float]:
    names = ("size", "error_quantile", "tasks_within", "tasks_above", "draws_within", "feasible")
    return {name: float(getattr(line, name)) for name in names}
