"""Write what the transcripts show: ``python -m tests.transcripts.make [PAGE ...]``.

To add a transcript, write the commands alone and run this. Do it for an old one only if its result
is meant to change, and read the difference before you commit it. Placeholders that you write, such
as ``"<number>"``, are kept; so are the words that a message must name, which you choose.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from pathlib import Path

from tests.transcripts.settings import settled
from tests.transcripts.transcript import (
    PAGES,
    Transcript,
    compare,
    keep_placeholders,
    read_page,
    run,
    write_step,
)

_STEP = re.compile(r"^\$ .*?(?=^\$ |^```$)", re.MULTILINE | re.DOTALL)


def main(chosen: list[str]) -> None:
    """Run the transcripts of the pages and write them anew."""
    for path in sorted(PAGES.glob("*.md")):
        if not chosen or path.stem in chosen:
            path.write_text(rewrite(path))


def rewrite(path: Path) -> str:
    """Return a page with its steps as they are now."""
    steps = iter([text for found in read_page(path) for text in rerun(found)])
    return _STEP.sub(lambda _: next(steps), path.read_text())


def rerun(transcript: Transcript) -> list[str]:
    """Return the steps of a transcript as they are now, and print what changed."""
    texts = []
    with tempfile.TemporaryDirectory() as folder, settled(Path(folder)):
        for step, outcome in run(transcript, Path(folder).resolve()):
            for line in compare(step, outcome):
                print(f"{transcript.name}: {step.text[:60]}: {line[:300]}")
            step.code = outcome.code
            if outcome.message and not step.named:
                step.named = ["?"]  # to be replaced by a word of the message
            step.shown = keep_placeholders(step.shown, outcome.shown)
            texts.append(write_step(step) + "\n")
    return texts


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
