"""Commands that are killed in the middle of writing.

They run in forks of one process, which imports what they need but once: starting Python for each
would take far longer. The process reads a request in JSON from each line of its standard input, and
answers in a line.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

WRITES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir")


class Writes:
    """Counts what the process does to files, and kills it just before one of them."""

    def __init__(self, root: str, fatal: int | None) -> None:
        self.root, self.fatal, self.count = root, fatal, 0
        sync: Any = os.fsync

        def counted_sync(descriptor: Any) -> None:
            self.next()
            sync(descriptor)

        mock.patch.object(os, "fsync", counted_sync).start()
        sys.addaudithook(self.watch)

    def watch(self, event: str, values: tuple[Any, ...]) -> None:
        is_write = event == "open" and (values[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if event in WRITES or (is_write and str(values[0]).startswith(self.root)):
            self.next()

    def next(self) -> None:
        if self.count == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1


def _run_command(words: list[str]) -> None:
    from metapac.cli import main

    sys.argv = ["metapac", *words]
    main()


def _reproduce(words: list[str]) -> None:
    from metapac.fewshot.reproduce import run
    from tests.helpers.experiments import GROUPS, group_pools

    load = mock.patch.object(run, "load", return_value=group_pools())
    with load, mock.patch.object(run, "QUANTILE_TASKS", 8):
        run.reproduce(GROUPS, words[0], device="cpu")


def _run_in_fork(request: dict[str, Any]) -> dict[str, Any]:
    """Run a command in a fork; say how it ended, and how often it wrote if it lived."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        code = 70
        try:
            if request["bytes"] is not None:  # the system kills what writes more into a file
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                resource.setrlimit(resource.RLIMIT_FSIZE, (request["bytes"], -1))
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            writes = Writes(request["root"], request["write"])
            command: Callable[[list[str]], None] = _run_command
            if request["words"][0] == "reproduce":
                command, request["words"] = _reproduce, request["words"][1:]
            try:
                command(request["words"])
                code = 0
            except SystemExit as error:
                code = int(error.code or 0)
            with os.fdopen(writing, "w") as pipe:
                json.dump({"writes": writes.count, "modules": [*sys.modules]}, pipe)
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        report = json.loads(pipe.read() or "{}")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _import_all(report.get("modules", []))
    return {"status": status, "writes": report.get("writes", 0)}


def _import_all(modules: list[str]) -> None:
    """Import what a fork imported, so that the next one need not."""
    for name in modules:
        if name not in sys.modules:
            with suppress(Exception):
                importlib.import_module(name)


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        print(json.dumps(_run_in_fork(json.loads(line))), file=answers, flush=True)
    os._exit(0)  # at once: there is nothing to clean up but modules


class Victims:
    """Starts the process, and has it run commands."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.temporary = root / "temporary"
        self.temporary.mkdir()
        environment = {"TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        with (root / "errors.txt").open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-B", "-m", "tests.helpers.kills"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | environment,
                cwd=root,
            )

    def run(self, *words: Any, write: int | None = None, size: int | None = None) -> Any:
        """Run a command; kill it before a write, or where a file exceeds a size in bytes."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"words": [str(word) for word in words], "write": write, "bytes": size}
        print(json.dumps(request | {"root": str(self.root)}), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def leftovers(self) -> list[Path]:
        """Return what should not be there once a command has ended."""
        return [*self.root.rglob(".*"), *self.temporary.glob("metapac-*")]

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


if __name__ == "__main__":
    _serve()
