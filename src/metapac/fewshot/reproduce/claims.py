"""The paper's claims, checked on the results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from metapac.fewshot.study.rows import Rows
from metapac.fewshot.study.summary import (
    TOO_FEW,
    WITHIN,
    MethodSummary,
    SizeComparison,
    compare_sizes,
    summarise,
)
from metapac.guarantee import Guarantee
from metapac.verdict import UNDECIDED, VIOLATED

PAPER_SPLIT, PS_TEST = "Meta-PS even", "PS-Test"
EXPECTED_VALID = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint")
EXPECTED_INVALID = ("PS", "Meta-CP")
AGREES, DISAGREES, UNCHECKED = "agrees", "does not agree", "cannot be checked"
NOT_IN_PAPER = "not in the paper"  # the source of claims about other splits and other data


@dataclass(frozen=True)
class Source:
    """Where the paper makes its claims about one data set."""

    figure: str
    valid: str
    invalid: str
    larger: str


SOURCES = {
    "miniimagenet": Source(
        "Figure 3",
        "The prediction set error of the proposed approach is below the desired level epsilon = "
        "0.1 at least a fraction 1 - alpha = 0.9 of the time.",
        "However, PS and Meta-CP do not empirically satisfy the meta PAC criterion, and PS-Test is "
        "too conservative.",
        "the proposed Meta-PS produces smaller prediction sets compared to the PS-Test approach "
        "that also satisfies the epsilon error constraint.",
    ),
    "fewrel": Source(
        "Figure 4",
        "Ours empirically satisfies the desired prediction set error specified by epsilon with "
        "empirical probabilities of at least 1 - alpha over the test adaptation set and 1 - delta "
        "over the (augmented) calibration data.",
        "In contrast, the other approaches either do not empirically satisfy the meta PAC "
        "criterion or are highly conservative.",
        "In contrast, the other approaches either do not empirically satisfy the meta PAC "
        "criterion or are highly conservative.",
    ),
    "heart": Source(
        "Figure 5",
        "The proposed Meta-PS empirically satisfies the epsilon = 0.1 constraint",
        "while PS and Meta-CP violate this constraint.",
        "Meanwhile, PS-Test conservatively satisfies it.",
    ),
    "cifar10c": Source(
        "Figure 8",
        "Meta-PS satisfies PAC constraint with epsilon = 0.2 a fraction 1 - alpha = 0.9 of the "
        "time (as shown in whiskers).",
        "Other approaches either violate the epsilon constraint or are more conservative than the "
        "proposed approach.",
        "In particular, PS-Test is slightly worse than the proposed approach.",
    ),
}


@dataclass(frozen=True)
class Claim:
    """A claim about a method, and whether an evaluation agrees with it."""

    claim: str
    source: str
    status: str
    numbers: dict[str, float]

    @property
    def agrees(self) -> bool:
        """Whether the rows agree."""
        return self.status == AGREES


def check_claims(rows: Rows | Sequence[Rows], guarantee: Guarantee, data: str) -> list[Claim]:
    """Return the claims about the methods that were run at the guarantee's delta.

    Those of the paper are about its own split and its data sets. The same is checked of our splits
    and on other data. That a method keeps or violates the guarantee is believed only if chance
    cannot explain it; see `metapac.fewshot.study.summary.MethodSummary`.
    """
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
    claims = [_is_valid(line, guarantee, source) for line in _pick(lines, EXPECTED_VALID)]
    claims += [_is_invalid(line, guarantee, source) for line in _pick(lines, EXPECTED_INVALID)]
    if sizes is not None:
        claims.append(_is_larger(sizes, lines[PS_TEST], lines[PAPER_SPLIT], source))
    return claims


def _pick(lines: Mapping[str, MethodSummary], names: Sequence[str]) -> list[MethodSummary]:
    return [lines[name] for name in names if name in lines]


def _is_valid(line: MethodSummary, g: Guarantee, source: Source | None) -> Claim:
    words = {WITHIN: AGREES, VIOLATED: DISAGREES, TOO_FEW: UNCHECKED}
    return Claim(
        f"{line.method}: the {_quantile(g)} of error is at most epsilon = {g.miss_rate:g}",
        _cite(source if line.method == PAPER_SPLIT else None, "valid", "a"),
        words.get(line.verdict, UNDECIDED),
        _numbers(line),
    )


def _is_invalid(line: MethodSummary, g: Guarantee, source: Source | None) -> Claim:
    words = {WITHIN: DISAGREES, VIOLATED: AGREES, TOO_FEW: UNCHECKED}
    return Claim(
        f"{line.method}: the {_quantile(g)} of error is above epsilon = {g.miss_rate:g}",
        _cite(source, "invalid", "a"),
        words.get(line.verdict, UNDECIDED),
        _numbers(line),
    )


def _is_larger(
    sizes: SizeComparison, ps_test: MethodSummary, meta: MethodSummary, source: Source | None
) -> Claim:
    """Return the claim that PS-Test is conservative, which keeping every label agrees with."""
    status = AGREES if sizes.low > 0 else DISAGREES if sizes.high < 0 else UNDECIDED
    return Claim(
        f"{PS_TEST}: its sets are larger on average than those of {meta.method}",
        _cite(source, "larger", "b"),
        UNCHECKED if meta.too_few else status,
        {**_numbers(ps_test), **{f"{k} of {PAPER_SPLIT}": x for k, x in _numbers(meta).items()}},
    )


def _cite(source: Source | None, claim: str, panel: str) -> str:
    """Return the panel of the figure and the sentence that make a claim."""
    return f'{source.figure}({panel}): "{getattr(source, claim)}"' if source else NOT_IN_PAPER


def _quantile(g: Guarantee) -> str:
    """Return the name of the (1 - alpha) quantile, such as "90 % quantile"."""
    return f"{100 * (1 - g.alpha):g} % quantile"


def _numbers(line: MethodSummary) -> dict[str, float]:
    names = ("size", "error_quantile", "tasks_within", "tasks_above", "draws_within", "feasible")
    return {name: float(getattr(line, name)) for name in names}
