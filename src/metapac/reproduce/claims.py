"""The claims of the paper, checked against the rows of an evaluation."""

from __future__ import annotations

from dataclasses import dataclass

from metapac.evaluation.rows import Rows
from metapac.evaluation.summary import Summary, summarise
from metapac.guarantee import Guarantee

# PS-Test counts as far more conservative if its error is at most 1 / CONSERVATIVE_FACTOR of
# that of Meta-PS.
CONSERVATIVE_FACTOR = 2.0
PAPER_SPLIT = "Meta-PS even"
EXPECTED_VALID = ("Meta-PS even", "Meta-PS tight", "Meta-PS joint")
EXPECTED_INVALID = ("PS", "Meta-CP")


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and whether an evaluation agrees with it.

    Parameters
    ----------
    claim : str
        The claim in words.
    holds : bool
        Whether the rows agree.
    numbers : dict from str to float
        The numbers that decide.
    """

    claim: str
    holds: bool
    numbers: dict[str, float]


def check_claims(rows: Rows, guarantee: Guarantee) -> list[Claim]:
    """Return the claims of the paper about the methods that were run at the guarantee's delta.

    A Meta-PS that kept every label, because there were too few data, shows nothing: the claim
    about it does not hold.

    Parameters
    ----------
    rows : Rows
        Results of an evaluation.
    guarantee : Guarantee
        The guarantee they were evaluated at.

    Returns
    -------
    list of Claim
        One for each method that the paper makes a claim about.
    """
    lines = {s.method: s for s in summarise(rows, guarantee) if s.delta == guarantee.delta}
    claims = [_is_valid(lines[name], guarantee) for name in EXPECTED_VALID if name in lines]
    claims += [_is_invalid(lines[name], guarantee) for name in EXPECTED_INVALID if name in lines]
    if "PS-Test" in lines and PAPER_SPLIT in lines:
        claims.append(_is_conservative(lines["PS-Test"], lines[PAPER_SPLIT]))
    return claims


def _is_valid(line: Summary, g: Guarantee) -> Claim:
    claim = f"{line.method}: the 90th percentile of error is at most epsilon = {g.miss_rate:g}"
    return Claim(claim, line.error_90 <= g.miss_rate and line.feasible, _numbers(line))


def _is_invalid(line: Summary, g: Guarantee) -> Claim:
    claim = f"{line.method}: the 90th percentile of error is above epsilon = {g.miss_rate:g}"
    return Claim(claim, line.error_90 > g.miss_rate, _numbers(line))


def _is_conservative(ps_test: Summary, meta: Summary) -> Claim:
    factor = CONSERVATIVE_FACTOR
    far_below = ps_test.error_90 < meta.error_90 and factor * ps_test.error_90 <= meta.error_90
    return Claim(
        f"PS-Test: its sets are larger on average than those of {meta.method}, or its 90th "
        f"percentile of error is at most 1/{factor:g} of that of {meta.method}",
        ps_test.size > meta.size or far_below,
        {**_numbers(ps_test), **{f"{k} of {PAPER_SPLIT}": x for k, x in _numbers(meta).items()}},
    )


def _numbers(line: Summary) -> dict[str, float]:
    names = ("size", "error_90", "tasks_within", "draws_within", "feasible")
    return {name: float(getattr(line, name)) for name in names}
