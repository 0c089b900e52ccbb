"""An evaluation on disk: what it was run with, its finished draws, and the table at the end."""

from __future__ import annotations

import errno
import json
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from metapac import persistence
from metapac._version import __version__
from metapac.evaluation.draws import Study
from metapac.evaluation.methods import Method
from metapac.evaluation.rows import Rows, read_table, write_rows
from metapac.guarantee import Guarantee
from metapac.persistence import BadArtefact

FORMAT = "metapac evaluation"
SCHEMA = 1
SETTINGS, TABLE = "evaluation.json", "rows.csv.gz"


def describe(
    study: Study, guarantee: Guarantee, methods: Iterable[Method], *, draws: int, rng: int
) -> dict[str, Any]:
    """Return all that the rows depend on, as JSON holds it."""
    settings = {
        "format": FORMAT,
        "schema": SCHEMA,
        "guarantee": {name: getattr(guarantee, name) for name in ("epsilon", "alpha", "delta")},
        "draws": draws,
        "rng": rng,
        "methods": [method.describe() for method in methods],
        "study": study.describe(),
        "versions": {
            "metapac": __version__,
            "numpy": np.__version__,
            "scipy": scipy.__version__,
            "python": platform.python_version(),
        },
    }
    try:
        plain: dict[str, Any] = json.loads(json.dumps(settings, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"study.describe() must return what JSON can hold ({error}). Pass numbers, strings, "
            "lists and dicts, and checksums of arrays."
        ) from error
    return plain


class EvaluationFolder:
    """The files of one evaluation; another one is refused by the setting that differs."""

    def __init__(self, path: str | os.PathLike[str], settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / SETTINGS).exists():
            self._refuse_other(settings)
        _write_settings(self.path / SETTINGS, settings)
        # Named by what they were drawn with, so that no draw of anything else is ever taken. Draw i
        # is the same however many there are.
        alike = {name: value for name, value in settings.items() if name != "draws"}
        self._draws = self.path / f"draws-{persistence.checksum(alike)[7:19]}"
        self._draws.mkdir(exist_ok=True)

    def _refuse_other(self, settings: dict[str, Any]) -> None:
        old, new = dict(_flat(read_settings(self.path))), dict(_flat(settings))
        for name in [*new, *old]:
            if name != "draws" and old.get(name) != new.get(name):
                raise ValueError(
                    f"{self.path} holds an evaluation with {name}={old.get(name)!r}, and this one "
                    f"has {name}={new.get(name)!r}. Go on with the same, or pass another folder."
                )

    def keep(self, number: int, rows: Rows) -> None:
        """Write one finished draw, all at once or not at all."""
        write_rows(self._file(number), rows)

    def finished(self, draws: int) -> dict[int, Rows]:
        """Return the draws that are done; one whose file is damaged is not."""
        found = {}
        for number in range(draws):
            try:
                found[number] = read_table(self._file(number))
            except (FileNotFoundError, BadArtefact):
                continue
        return found

    def finish(self, rows: Rows) -> None:
        """Write the table of all draws."""
        write_rows(self.path / TABLE, rows)

    def _file(self, number: int) -> Path:
        return self._draws / f"{number:05d}.csv.gz"


def _flat(settings: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each setting by its full name, such as guarantee.epsilon."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def _write_settings(path: Path, settings: dict[str, Any]) -> None:
    document = {**settings, "checksum": persistence.checksum(settings)}
    with persistence.replacing(path) as file:
        json.dump(document, file, indent=1)
        file.write("\n")


def read_settings(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what the evaluation in ``folder`` was run with: promise, seed, study, versions."""
    path = Path(folder) / SETTINGS
    if not path.exists():
        why = "no evaluation is here; pass the folder that evaluate wrote to"
        raise FileNotFoundError(errno.ENOENT, why, str(path))
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        intact = document.pop("checksum") == persistence.checksum(document)
        schema = document["schema"] if document["format"] == FORMAT else None
    except (ValueError, KeyError, TypeError, AttributeError):
        intact = False
    if not intact or schema is None:
        raise BadArtefact(
            f"{path} was not written by evaluate, or was edited or damaged since. "
            "Restore it from a backup, or evaluate into another folder."
        )
    if schema > SCHEMA:
        raise BadArtefact(
            f"{path} has schema {schema}, written by metapac {document['versions']['metapac']}; "
            f"this is metapac {__version__}, which reads schemas up to {SCHEMA}. Upgrade metapac."
        )
    return document


def read_guarantee(folder: str | os.PathLike[str]) -> Guarantee:
    """Return the promise that the evaluation in ``folder`` was run at."""
    return Guarantee(**read_settings(folder)["guarantee"])


def read_rows(folder: str | os.PathLike[str]) -> Rows:
    """Return the table of a finished evaluation."""
    read_settings(folder)  # a table without what it was run with is no result
    path = Path(folder) / TABLE
    if not path.exists():
        why = "the evaluation is not finished; call evaluate again with the same settings"
        raise FileNotFoundError(errno.ENOENT, why, str(path))
    return read_table(path)
