"""Optional dependencies: the module, or an error that says how to install it."""

from __future__ import annotations

import json

import pytest

from metapac import MissingExtra, _common


def test_an_installed_module_is_returned() -> None:
    assert _common.require("json", extra="plot", purpose="a figure") is json


@pytest.mark.parametrize("module", ["nowhere", "nowhere.figure"])
def test_a_missing_module_names_the_extra_that_installs_it(module: str) -> None:
    message = (
        r"^a figure needs nowhere. Install it with: pip install 'metapac\[plot\]' "
        r"\(in a checkout: pip install -e '\.\[plot\]'\)$"
    )
    with pytest.raises(MissingExtra, match=message) as caught:
        _common.require(module, extra="plot", purpose="a figure")
    assert caught.value.name == "nowhere"
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_a_missing_module_of_metapac_is_a_bug_and_not_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'metapac.nowhere'") as caught:
        _common.require("metapac.nowhere", extra="plot", purpose="a figure")
    assert not isinstance(caught.value, MissingExtra)
