"""The help of commands, in the notation of manual pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from metapac.cli.app import SUMMARIES, app
from tests.helpers.commands import metapac


def commands(
    group: Any = None, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield all groups and commands, each with the words that call it."""
    group = group or get_command(app)
    yield path, group
    for name in group.list_commands(None) if hasattr(group, "list_commands") else ():
        yield from commands(group.get_command(None, name), (*path, name))


def test_no_command_shows_a_type_of_python() -> None:
    helps = {words: metapac(*words, "--help").output for words, _ in commands()}
    assert {words[0] for words in helps if words} == {*SUMMARIES}
    assert ("data", "fetch") in helps
    for text in helps.values():
        assert "--help" in text
        assert not any(sign in text for sign in ("<", "{", "[[")), text


def test_every_option_but_a_flag_shows_what_it_takes() -> None:
    for words, command in commands():
        for option in command.params:
            if option.param_type_name == "option" and not option.is_flag:
                assert option.metavar, (words, option.name)


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        (["--help"], "metapac [OPTIONS] COMMAND [ARGS]..."),
        (["data", "--help"], "metapac data [OPTIONS] COMMAND [ARGS]..."),
        (["predict", "--help"], "metapac predict [OPTIONS] PROMISE SCORES..."),
        (["monitor", "--help"], "metapac monitor [OPTIONS] PROMISE [SCORES]..."),
        (["show", "--help"], "metapac show [OPTIONS] FILE"),
    ],
)
def test_usage(words: list[str], usage: str) -> None:
    lines = [line.strip() for line in metapac(*words).output.splitlines()]
    assert f"Usage: {usage}" in lines
