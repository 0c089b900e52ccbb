"""The commands as people type them: exit codes, JSON and files are those of the transcripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.commands import list_commands
from tests.transcripts.settings import settled
from tests.transcripts.transcript import (
    PAGES,
    Outcome,
    Transcript,
    compare,
    keep_placeholders,
    parse_step,
    read_page,
    run,
    write_step,
)

TRANSCRIPTS = [found for path in sorted(PAGES.glob("*.md")) for found in read_page(path)]


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda found: found.name)
def test_the_commands_do_what_the_transcript_shows(transcript: Transcript, tmp_path: Path) -> None:
    with settled(tmp_path):
        for step, outcome in run(transcript, tmp_path):
            faults = compare(step, outcome)
            shown = "\n".join(line[:500] for line in faults[:10])
            assert not faults, f"$ {step.text}\n{shown}"


def test_every_option_of_every_command_is_used() -> None:
    typed = [step.words[1:] for found in TRANSCRIPTS for step in found.steps]
    commands = [*list_commands()]
    assert len(commands) == 21
    unused = []
    for words, command in commands:
        options = {max(param.opts, key=len) for param in command.params if "--" in param.opts[0]}
        lines = [line for line in typed if tuple(line[: len(words)]) == words]
        used = {"--output" if word == "-o" else word for line in lines for word in line}
        left = options - used - {"--help", "--help-all"}
        unused += [f"{' '.join(words)} {option}" for option in sorted(left)]
    assert unused == []


def test_what_differs_is_noticed() -> None:
    for expected, found, is_same in (
        ('{"a": 1.5}', '{"a": 1.5}', True),
        ('{"a": 1.5}', '{"a": 1.25}', False),
        ('{"a": 1}', '{"a": 1, "b": 2}', False),
        ('{"a": 1, "b": 2}', '{"a": 1}', False),
        ('{"a": "<number>"}', '{"a": 0.5}', True),
        ('{"a": "<number>"}', '{"a": "<text>"}', False),
        ("[1, 2]", "[2, 1]", False),
        ("exit 3", "exit 2", False),
        ("exit 2: --alpha", "exit 2", False),
    ):
        step, other = (parse_step(f"metapac plan\n{text}") for text in (expected, found))
        assert write_step(step) == f"$ metapac plan\n{expected}"
        faults = compare(step, Outcome(other.shown, other.code, "", "text"))
        assert (faults == []) is is_same
        assert keep_placeholders(step.shown, step.shown) == step.shown
