"""Names of states by code."""

from __future__ import annotations

from metapac.fewshot.datasets.heart_files import state_name


def test_states_have_their_names() -> None:
    names = {code: state_name(code) for code in (1, 11, 36, 39, 54, 56, 69, 78)}
    assert names == {
        1: "Alabama",
        11: "District of Columbia",
        36: "New York",
        39: "Ohio",
        54: "West Virginia",
        56: "Wyoming",
        69: "Northern Mariana Islands",
        78: "Virgin Islands",
    }


def test_codes_are_those_of_50_states_one_district_and_five_territories() -> None:
    codes = [code for code in range(100) if not state_name(code).startswith("state ")]
    assert len(codes) == 56
    assert not {3, 7, 14, 43, 52} & {*codes}  # never assigned
    assert len({state_name(code) for code in codes}) == 56


def test_an_unknown_code_is_shown() -> None:
    assert state_name(99) == "state 99"
