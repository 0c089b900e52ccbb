"""``python -m metapac``: the same as the command ``metapac``."""

from metapac.cli import main

main()
