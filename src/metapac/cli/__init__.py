"""The command ``metapac``. Needs the extra ``cli``."""

import sys


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        from metapac.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        needed = f"The command line needs {error.name}."
        print(f"{needed} Install it with: pip install 'metapac[cli]'", file=sys.stderr)
        sys.exit(2)
    app(prog_name="metapac")
