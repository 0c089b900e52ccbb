"""The command ``metapac``. Needs the extra ``cli``."""

import sys


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        from metapac.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(
            f"The command line needs {error.name}. Install it with: pip install 'metapac[cli]'"
        )
    app(prog_name="metapac")
