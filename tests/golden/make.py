"""Write the results that the cases must keep: ``python -m tests.golden.make``.

Do this only if a result is meant to change, and read the difference before you commit it. With
names of topics or cases, only the results of these are written anew.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from tests.golden.cases import CASES, find_differences

STORED = Path(__file__).with_name("cases.json")


def read_stored() -> dict[str, Any]:
    """Return the expected result of each case."""
    stored: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8"))
    return stored


def main(chosen: list[str]) -> None:
    """Run the cases and write their results."""
    before = read_stored() if STORED.exists() else {}
    found = {name: before[name] for name in before if name in CASES}
    for name in CASES:
        if not chosen or any(name.startswith(start) for start in chosen):
            found[name] = compute(name)
    lines = [f"{json.dumps(key)}: {json.dumps(found[key])}" for key in sorted(found)]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    changed = [key for key in found if find_differences(before.get(key), found[key])]
    gone = [key for key in before if key not in found]
    print(f"{len(found)} results, {len(changed)} changed, {len(gone)} removed", *changed, *gone)


def compute(name: str) -> Any:
    """Return the result of a case as it is after a round trip through JSON."""
    with tempfile.TemporaryDirectory() as folder:
        return json.loads(json.dumps(CASES[name](Path(folder))))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1:])
