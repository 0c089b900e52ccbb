"""The command ``metapac``, which needs the extra ``cli``."""

from __future__ import annotations

import sys
from importlib import import_module

from metapac._version import __version__


def main() -> None:
    """Run the command line; if its dependencies are missing, print how to install them."""
    if sys.argv[1:] == ["--version"]:  # answered before anything is imported
        print(__version__)
        return
    try:
        from metapac.cli.app import app

        import_module("rich")  # which every command and the help import later
    except ModuleNotFoundError as error:
        from metapac._optional import missing

        print(missing(error, extra="cli", purpose="The command line"), file=sys.stderr)
        sys.exit(2)
    app(prog_name="metapac")
