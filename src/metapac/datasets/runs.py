"""The folder of a training run: what it was trained on, and how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metapac import _document
from metapac._types import PathLike
from metapac.exceptions import InvalidInput

RUN = _document.Format(
    "metapac run",
    written_by="'metapac train'",
    remedy="Run 'metapac train' again with the same options.",
    shape="run",
)
FILE = "run.json"
_CHECKPOINT = "checkpoint.safetensors"  # of a run that has not ended


def read_run(folder: PathLike) -> dict[str, Any]:
    """Return the record that ``metapac train`` wrote at the end of a run.

    Parameters
    ----------
    folder : str or path-like
        Folder of the run.

    Returns
    -------
    dict
        The fields of run.json.

    Raises
    ------
    InvalidInput
        If the folder holds no finished run.
    BadArtefact
        If run.json was edited or damaged.
    """
    path = Path(folder)
    if not path.is_dir():
        raise InvalidInput(f"{path} is not a folder. Pass the folder that 'metapac train' wrote.")
    if (path / FILE).exists():
        return _document.read(path / FILE, RUN)
    if (path / _CHECKPOINT).exists():
        raise InvalidInput(
            f"{path} holds a run that has not ended. Start 'metapac train' again with the same "
            "options: it resumes."
        )
    remedy = "Pass the folder that 'metapac train' wrote."
    if any(entry.is_dir() for entry in path.iterdir()):
        remedy += f" If it holds images, a folder for each class, run 'metapac train {path}' first."
    raise InvalidInput(f"{path} holds no {FILE}, so it is not the folder of a run. {remedy}")


def is_run(folder: PathLike) -> bool:
    """Return whether ``metapac train`` wrote a folder, be it to the end or not.

    Parameters
    ----------
    folder : str or path-like
        The folder.

    Returns
    -------
    bool
        Whether it holds a run.
    """
    return any((Path(folder) / name).exists() for name in (FILE, _CHECKPOINT))


def check_same_data(folder: PathLike, data: str, stored: str, found: str) -> None:
    """Raise InvalidInput if the data of a run are no longer those that it was trained on.

    Parameters
    ----------
    folder : str or path-like
        Folder of the run.
    data : str
        Name or path of the data.
    stored : str
        Checksum in run.json.
    found : str
        Checksum of the data now.
    """
    if stored != found:
        raise InvalidInput(
            f"the data changed: {data} is not what {folder} was trained on (checksum "
            f"{_shorten(stored)} then, {_shorten(found)} now). Restore the data, or train on the "
            "new ones in another folder."
        )


def _shorten(checksum: str) -> str:
    """Return the first characters of a checksum, enough to tell two apart."""
    return checksum.removeprefix("sha256:")[:12]
