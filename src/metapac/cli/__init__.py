"""The command ``metapac``, which needs the extra ``cli``."""

from __future__ import annotations

from metapac.cli import exits  # isort: skip (first, since it handles signals)

import sys


def main() -> None:
    """Run the command line and exit."""
    exits.run(_run)


def _run() -> None:
    """Run the command that was typed; if dependencies are missing, print how to install them."""
    from importlib import import_module

    from metapac._version import __version__

    if sys.argv[1:] == ["--version"]:  # answered before anything is imported
        print(__version__)
        return
    try:
        from metapac.cli.app import app

        import_module("rich")  # which every command and the help import later
    except ModuleNotFoundError as error:
        from metapac._common import missing

        print(missing(error, extra="cli", purpose="The command line"), file=sys.stderr)
        sys.exit(exits.ExitCode.BAD_INPUT)
    app(prog_name="metapac")
