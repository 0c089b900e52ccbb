"""Options that commands share look the same in all of them."""

from __future__ import annotations

from typing import get_args

import pytest

from metapac.cli import options
from tests.helpers.commands import metapac


@pytest.mark.parametrize("command", ["calibrate", "evaluate", "monitor", "report", "site"])
def test_a_shared_option_has_one_help_text(command: str) -> None:
    words = " ".join(metapac(command, "--help").output.replace("│", " ").split())
    _kind, option = get_args(options.Score)
    assert " ".join(option.help.split())[:40] in words
