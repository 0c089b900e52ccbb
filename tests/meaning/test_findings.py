"""Findings: errors are raised, warnings given, and what is allowed is silent."""

from __future__ import annotations

import pytest

from metapac import InvalidInput
from metapac.data_checks import CHECKS, CheckWarning, Finding, report

ERROR, WARNING = (Finding("levels", is_error, "seen.") for is_error in (True, False))


def test_an_error_is_raised_and_a_warning_is_given_with_the_way_on() -> None:
    with pytest.raises(InvalidInput, match=r"^t.csv: seen. To go on, pass allow=\('levels',\)\.$"):
        report([None, WARNING, ERROR], where="t.csv")
    with pytest.warns(CheckWarning, match="^seen. To silence this, pass allow=") as caught:
        report([WARNING, None])
    assert caught[0].filename == __file__


@pytest.mark.parametrize("finding", [ERROR, WARNING])
def test_a_check_that_is_allowed_is_silent(finding: Finding) -> None:
    report([finding], allow=["levels"])
    report([finding], allow="levels")


def test_an_unknown_name_is_refused_with_the_list() -> None:
    with pytest.raises(InvalidInput, match=f"out of {', '.join(CHECKS)}, got 'duplicate'"):
        report([], allow=["duplicate"])
