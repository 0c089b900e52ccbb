"""Advice on labels that are not among the classes."""

import pytest

from metapac.inputs import advise_on_labels


@pytest.mark.parametrize(
    ("unknown", "columns", "advice"),
    [
        (["YES "], None, "'YES ' differs from 'yes' only in case or spaces: give it one spelling."),
        (
            ["No", "Yes", "fox"], ["p_no", "p_yes"],
            "'No' differs from 'no', 'Yes' differs from 'yes' only in case or spaces: give each "
            "one spelling.",
        ),
        (
            ["1", "0"], ["p_no", "p_yes"],
            "Name the class of each column in its order: if 'p_no' holds the scores of '0' and "
            "'p_yes' those of '1', pass columns=['p_no', 'p_yes'] and classes=['0', '1'].",
        ),
        (
            ["cat", "dog"], ["s_dog", "s_cat"],
            "Name the class of each column in its order: if 's_dog' holds the scores of 'dog' and "
            "'s_cat' those of 'cat', pass columns=['s_dog', 's_cat'] and classes=['dog', 'cat'].",
        ),
        (
            ["0", "1", "2"], ["p_no", "p_yes"],
            "Name the class of each column in its order: pass columns=['p_no', 'p_yes'] and "
            "classes.",
        ),
    ],
)  # fmt: skip
def test_the_advice_fits_the_names(
    unknown: list[str], columns: list[str] | None, advice: str
) -> None:
    assert str(advise_on_labels(unknown, ["no", "yes"], columns)) == advice


def test_many_columns_are_cut_short() -> None:
    columns = [f"p_{name}" for name in "abcde"]
    text = str(advise_on_labels([*"01234"], [*"abcde"], columns))
    assert "if 'p_a' holds the scores of '0', 'p_b' those of '1', 'p_c' those of '2' and 2" in text
    assert text.endswith("and classes=['0', '1', '2', '3', '4'].")


def test_names_that_tell_nothing() -> None:
    assert advise_on_labels(["fox"], ["no", "yes"]) is None
    assert advise_on_labels([], ["no", "yes"]) is None
