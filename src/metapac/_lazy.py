"""Public names, listed in a stub, that are imported on first use: the command line starts fast."""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # importing typing would take longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def attach_stub(
    package: str, extra: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    Its file ``__init__.pyi`` has one line ``from module import name as name`` for each name, also
    for submodules. If a module that a name needs is missing, the error names the ``extra``.
    """
    this: Any = sys.modules[package]
    stub = this.__spec__.loader.get_data(f"{this.__spec__.origin}i").decode()
    lines = [line.split() for line in stub.splitlines() if line.startswith("from ")]
    modules = {name: module for _, module, _, name, *_ in lines}
    public = sorted(name for name, module in modules.items() if module != package)

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] == package:
            return import_module(f"{package}.{name}")
        if extra:
            from metapac._common import require

            module = require(modules[name], extra=extra, purpose=name)
        else:
            module = import_module(modules[name])
        setattr(this, name, getattr(module, name))
        return getattr(this, name)

    return load, lambda: public, public
