"""The four data sets of the paper: who publishes them, on what terms, and what reads them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from metapac import _checks
from metapac.datasets import archives, cache
from metapac.datasets.download import Download, download
from metapac.persistence import replacing

FetchProgress = Callable[[str, int, int | None], None]  # what is done, bytes, bytes in all

_LSTM = "https://raw.githubusercontent.com/twitter-research/meta-learning-lstm/master/data/miniImagenet/"
_FEWREL = "https://raw.githubusercontent.com/thunlp/FewRel/master/data/"
_BRFSS = "https://www.cdc.gov/brfss/annual_data/"


class Reader(Protocol):
    """What the module of a data set offers."""

    def missing(self, folder: str | os.PathLike[str]) -> list[str]: ...
    def prepare(
        self,
        folder: str | os.PathLike[str],
        *,
        home: cache.Home = None,
        progress: cache.Progress | None = None,
        **options: Any,
    ) -> cache.Prepared: ...


@dataclass(frozen=True)
class DataSet:
    """A published data set; ``by_hand`` says what no program may fetch, and where it goes."""

    name: str
    title: str
    licence: str
    downloads: tuple[Download, ...]
    by_hand: str = ""

    @property
    def reader(self) -> Reader:
        """The module that reads it; imported now, for it may need torch or pandas."""
        module: Any = import_module(f"metapac.datasets.{self.name}")
        return module  # type: ignore[no-any-return]

    def source(self, home: cache.Home = None) -> Path:
        """Return the folder to which it is fetched."""
        return cache.data_home(home) / self.name / "source"

    def told(self, home: cache.Home = None) -> str:
        """Return what a person has to download by hand, and where to put it."""
        return self.by_hand.format(folder=self.source(home))

    def fetch(self, *, home: cache.Home = None, progress: FetchProgress | None = None) -> Path:
        """Download and unpack all that may be fetched; what is there already is kept."""
        folder = self.source(home)
        folder.mkdir(parents=True, exist_ok=True)
        for item in self.downloads:
            _fetch(item, folder, progress or (lambda what, done, total: None))
        return folder


def _fetch(item: Download, folder: Path, progress: FetchProgress) -> None:
    path = download(item, folder, progress=partial(progress, item.name))
    if not path.name.lower().endswith((".zip", ".gz")):
        return
    note = folder / f".{item.name}.unpacked"  # what this very archive held
    state = [path.stat().st_size, path.stat().st_mtime_ns]
    if not _unpacked(note, state):
        files = archives.unpack(path, folder, progress=partial(progress, f"unpacking {item.name}"))
        names = [str(file.relative_to(folder)) for file in files]
        with replacing(note) as file:
            json.dump({"archive": state, "files": names}, file)


def _unpacked(note: Path, state: list[int]) -> bool:
    """Whether the archive was unpacked as it is now, and all its files are still there."""
    try:
        known = json.loads(note.read_bytes())
        there = all((note.parent / name).is_file() for name in known["files"])
        return bool(known["archive"] == state and there)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


def _glove() -> Download:
    return Download(
        "https://nlp.stanford.edu/data/glove.6B.zip",
        "glove.6B.zip",
        "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
    )


CATALOGUE = {
    entry.name: entry
    for entry in (
        DataSet(
            "miniimagenet",
            "mini-ImageNet: 100 classes of 600 images, 84 x 84, split 64 / 16 / 20",
            "ImageNet's terms: non-commercial research, after registration",
            tuple(
                Download(f"{_LSTM}{split}.csv", f"{split}.csv")
                for split in ("train", "val", "test")
            ),
            "The images are ImageNet's and must be downloaded by hand: register at "
            "https://image-net.org, download the ILSVRC2012 training images, and put those that "
            "the csv files name into {folder}/images. Or put a pickled cache that you have "
            "(mini-imagenet-cache-train.pkl, -val.pkl, -test.pkl) into {folder}.",
        ),
        DataSet(
            "cifar10c",
            "CIFAR10-C in the paper's sense: CIFAR-10 through random corruptions",
            "none stated; the publisher asks to be cited (Krizhevsky, 2009)",
            (
                Download(
                    "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
                    "cifar-10-python.tar.gz",
                    "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
                ),
            ),
        ),
        DataSet(
            "fewrel",
            "FewRel 1.0: 64 + 16 relations of 700 sentences, with GloVe word vectors",
            "MIT (FewRel), PDDL 1.0 (GloVe)",
            (
                *(
                    Download(f"{_FEWREL}{name}.json", f"{name}.json")
                    for name in ("train_wiki", "val_wiki", "pid2name")
                ),
                _glove(),
            ),
        ),
        DataSet(
            "heart",
            "CDC Heart: heart attacks in the BRFSS surveys 2011 to 2020, by state and year",
            "public domain (a US federal agency)",
            tuple(
                Download(f"{_BRFSS}{year}/files/LLCP{year}XPT.zip", f"LLCP{year}XPT.zip")
                for year in range(2011, 2021)
            ),
        ),
    )
}


def data_set(name: str) -> DataSet:
    """Return the entry of the catalogue, or name those there are."""
    _checks.one_of("name", name, tuple(CATALOGUE))
    return CATALOGUE[name]
