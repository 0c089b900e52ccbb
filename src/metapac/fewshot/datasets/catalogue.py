"""The data sets of the paper: files, checksums, preparation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from metapac._common import PathLike, Progress, check_one_of, data_home
from metapac.artefact import replacing
from metapac.errors import BadArtefact
from metapac.fewshot.datasets import cache, downloads
from metapac.fewshot.datasets.downloads import Download, download

_LSTM = "https://raw.githubusercontent.com/twitter-research/meta-learning-lstm/master/data/miniImagenet/"
_FEWREL = "https://raw.githubusercontent.com/thunlp/FewRel/master/data/"
_BRFSS = "https://www.cdc.gov/brfss/annual_data/"


@dataclass(frozen=True)
class DataSet:
    """A published data set."""

    name: str
    title: str
    licence: str
    downloads: tuple[Download, ...]
    by_hand: str = ""

    def source(self, home: cache.Home = None) -> Path:
        """Return the folder of the publisher's files."""
        return data_home(home) / self.name / "source"

    def manual_instructions(self, home: cache.Home = None) -> str:
        """Return what must be downloaded by hand, and where to put it."""
        return self.by_hand.format(folder=self.source(home))

    def fetch(self, *, home: cache.Home = None, progress: Progress | None = None) -> Path:
        """Download and unpack the files that are not there yet."""
        folder = self.source(home)
        folder.mkdir(parents=True, exist_ok=True)
        for item in self.downloads:
            path = download(item, folder, progress=progress)
            if path.name.lower().endswith((".zip", ".gz")):
                _unpack_once(path, progress)
        return folder

    def missing(self, folder: PathLike) -> list[str]:
        """Return what a folder lacks before it can be prepared."""
        missing: list[str] = self._loader().missing(folder)
        return missing

    def prepare(
        self,
        folder: PathLike,
        *,
        home: cache.Home = None,
        progress: Progress | None = None,
        **options: Any,
    ) -> cache.Prepared:
        """Convert the publisher's files into memory-mapped arrays."""
        prepared: cache.Prepared = self._loader().prepare(
            folder, home=home, progress=progress, **options
        )
        return prepared

    def find_prepared(self, home: cache.Home = None) -> cache.Prepared | None:
        """Return the prepared data; None if there are none."""
        try:
            return cache.open_prepared(self.name, home)
        except FileNotFoundError:
            return None

    def describe(self, home: cache.Home = None) -> dict[str, str]:
        """Return name, title, licence and state: absent, fetched, prepared or damaged."""
        state = "fetched" if self.source(home).is_dir() else "absent"
        try:
            state = state if self.find_prepared(home) is None else "prepared"
        except BadArtefact:
            state = "damaged"
        return {"name": self.name, "title": self.title, "licence": self.licence, "state": state}

    def _loader(self) -> Any:
        """Import the module of this data set on demand, since it may need optional packages."""
        return import_module(f"metapac.fewshot.datasets.{self.name}")


def _unpack_once(archive: Path, progress: Progress | None) -> None:
    """Unpack an archive into its folder, unless its files are there and it has not changed."""
    marker = archive.with_name(f".{archive.name}.unpacked")
    state = cache.file_state(archive)
    if not _is_unpacked(marker, state):
        files = downloads.unpack(archive, archive.parent, progress=progress)
        names = [str(file.relative_to(archive.parent)) for file in files]
        with replacing(marker) as file:
            json.dump({"archive": state, "files": names}, file)


def _is_unpacked(marker: Path, state: list[int]) -> bool:
    try:
        unpacked = json.loads(marker.read_bytes())
        complete = all((marker.parent / name).is_file() for name in unpacked["files"])
        return bool(unpacked["archive"] == state and complete)
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return False


_MINIIMAGENET = DataSet(
    "miniimagenet",
    "mini-ImageNet: 100 classes of 600 images, 84 x 84, split 64 / 16 / 20",
    "ImageNet's terms: non-commercial research, after registration",
    tuple(Download(f"{_LSTM}{split}.csv", f"{split}.csv") for split in ("train", "val", "test")),
    "The images belong to ImageNet and must be downloaded by hand: register at "
    "https://image-net.org, download the ILSVRC2012 training images, and put those that the csv "
    "files name into {folder}/images. If you have a pickled cache (mini-imagenet-cache-train.pkl, "
    "-val.pkl, -test.pkl), put it into {folder} instead.",
)
_CIFAR10C = DataSet(
    "cifar10c",
    "CIFAR10-C as in the paper: CIFAR-10 through random corruptions",
    "none stated; the publisher asks to be cited (Krizhevsky, 2009)",
    (
        Download(
            "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
            "cifar-10-python.tar.gz",
            "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
        ),
    ),
)
_FEWREL_1 = DataSet(
    "fewrel",
    "FewRel 1.0: 64 + 16 relations of 700 sentences, with GloVe word vectors",
    "MIT (FewRel), PDDL 1.0 (GloVe)",
    (
        *(
            Download(f"{_FEWREL}{name}.json", f"{name}.json")
            for name in ("train_wiki", "val_wiki", "pid2name")
        ),
        Download(
            "https://nlp.stanford.edu/data/glove.6B.zip",
            "glove.6B.zip",
            "617afb2fe6cbd085c235baf7a465b96f4112bd7f7ccb2b2cbd649fed9cbcf2fb",
        ),
    ),
)
_HEART = DataSet(
    "heart",
    "CDC Heart: heart attacks in the BRFSS surveys 2011 to 2020, by state and year",
    "public domain (a US federal agency)",
    tuple(
        Download(f"{_BRFSS}{year}/files/LLCP{year}XPT.zip", f"LLCP{year}XPT.zip")
        for year in range(2011, 2021)
    ),
)
CATALOGUE = {entry.name: entry for entry in (_MINIIMAGENET, _CIFAR10C, _FEWREL_1, _HEART)}


def get_data_set(name: str) -> DataSet:
    """Return a data set of the catalogue."""
    check_one_of("name", name, tuple(CATALOGUE))
    return CATALOGUE[name]
