"""How the command line ends: exit codes, signals, and errors that nobody expected.

This module is the first that the program imports, so it imports almost nothing itself: a signal
that comes earlier, while Python itself starts, ends the program as it ends any program in Python.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal itself imports enum, which takes long
import os
import sys

_ENDS = {
    "SIGINT": (130, "interrupted."),
    "SIGTERM": (143, "terminated."),
    "SIGHUP": (129, "terminated, because its terminal was closed."),
}


def _expect_signals() -> None:
    """Let a signal end the program at once, while it is imported; leave other programs alone."""
    folder, name = os.path.split(sys.argv[0] if sys.argv else "")
    is_module = name == "__main__.py" and os.path.basename(folder) == "metapac"  # noqa: PTH119
    if not is_module and os.path.splitext(name)[0] != "metapac":  # noqa: PTH122
        return
    ends = {getattr(_signal, name, None): end for name, end in _ENDS.items()}
    ends.pop(None, None)  # Windows has no SIGHUP

    def stop(number: int, _frame: object) -> None:
        code, words = ends[number]
        try:
            os.write(2, f"metapac: {words}\n".encode())
        finally:
            os._exit(code)

    for number in ends:
        if _signal.getsignal(number) not in (_signal.SIG_IGN, None):
            _signal.signal(number, stop)


_expect_signals()

import errno  # noqa: E402
import signal  # noqa: E402
from contextlib import suppress  # noqa: E402
from enum import IntEnum  # noqa: E402

TYPE_CHECKING = False  # importing typing takes long
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import NoReturn

ISSUES = "https://github.com/metapac/metapac/issues"
SHOW_TRACEBACK = "METAPAC_TRACEBACK"
_PREFIX, _SUFFIX = "metapac-traceback-", ".txt"
_TRACEBACKS = 5  # files that are kept


class ExitCode(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    INFEASIBLE = 1
    BAD_INPUT = 2
    VIOLATED = 3
    BUG = 70
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


_WORDS = {ExitCode(code): words for code, words in _ENDS.values()}
_SIGNALS = {
    getattr(signal, name): ExitCode(code)
    for name, (code, _) in _ENDS.items()
    if hasattr(signal, name)
}
_handled: list[signal.Signals] = []
_received: list[ExitCode] = []  # code of the signal that ends the program, once it has come
_expected: list[ExitCode] = []  # code that the command will end with, once it is known


def run(program: Callable[[], object]) -> NoReturn:
    """Run the program and exit, with one line for whatever ended it.

    After a signal, the process ends without Python's own clean-up, in which a second one would
    change the exit code.
    """
    try:
        _handle_signals()
        _open_streams()
        code = _call(program)
        code = _flush() or code
    except BaseException as error:  # a signal, or one that came while an error was reported
        code = end(error)
    if _received:
        _leave(_received[0])
    for number in _handled:  # nothing is left to clean up: a signal may end it at once
        signal.signal(number, signal.SIG_DFL)
    sys.exit(code)


def _call(program: Callable[[], object]) -> int | str | None:
    try:
        program()
    except SystemExit as error:
        if _received:  # typer makes an exit code of its own from an interrupt
            return end(error)
        if isinstance(error.__context__, BrokenPipeError):  # which typer and rich turn into 1
            return end(error.__context__)
        return error.code
    return ExitCode.OK


def end(error: BaseException, hint: str = "") -> ExitCode:
    """Report why the program ends early, and return its exit code."""
    if not _received and isinstance(error, KeyboardInterrupt):
        _received.append(ExitCode.INTERRUPTED)
    if _received:
        code, unsaid = _received[0], len(_received) == 1
        if unsaid:
            _received.append(code)
            print_line(f"{_WORDS[code]} {hint}".rstrip())
        return code
    if isinstance(error, BrokenPipeError):
        _discard_output()
        return _expected[0] if _expected else ExitCode.OK
    if is_full(error):
        _discard_output()
        print_line(f"standard output: {os.strerror(error.errno)}")  # type: ignore[attr-defined]
        return ExitCode.BAD_INPUT
    if isinstance(error, MemoryError):
        print_line(
            f"not enough memory{f' ({error})' if str(error) else ''}. Use a machine with more, or "
            "fewer data at a time."
        )
        return ExitCode.BAD_INPUT
    print_line(_describe_bug(error))
    return ExitCode.BUG


def is_full(error: BaseException) -> bool:
    """Whether standard output cannot be written, since its disk is full or its limit reached."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return isinstance(error, OSError) and error.errno in full and error.filename is None


def expect(code: ExitCode) -> None:
    """Set the exit code that a reader who stops reading, such as head, does not change."""
    _expected[:] = [code]


def has_signal() -> bool:
    """Whether a signal is ending the program."""
    return bool(_received)


def print_line(text: str) -> None:
    """Print a message in one line to standard error, if that is still possible."""
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    with suppress(OSError, ValueError, AttributeError):  # closed, or not there
        print(f"metapac: {line}", file=sys.stderr, flush=True)


def _handle_signals() -> None:
    """Let signals unwind the program, which cleans up; those that nohup ignores stay ignored."""
    _received.clear()
    _expected.clear()
    _handled[:] = [n for n in _SIGNALS if signal.getsignal(n) not in (signal.SIG_IGN, None)]
    for number in _handled:
        signal.signal(number, _unwind)


def _leave(code: ExitCode) -> NoReturn:
    """End the process after a signal, once everything is cleaned up and written."""
    import atexit

    with suppress(Exception):
        atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
    os._exit(code)


def _unwind(number: int, _frame: FrameType | None) -> None:
    """Raise in the main thread; a second Ctrl-C ends a clean-up that takes too long."""
    if _received:
        if number == signal.SIGINT:
            os._exit(_SIGNALS[number])
        return
    _received.append(_SIGNALS[signal.Signals(number)])
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(_received[0])


def _open_streams() -> None:
    """Make standard streams usable: those that are closed discard, and ASCII becomes UTF-8."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif (stream.encoding or "").lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):
            stream.reconfigure(encoding="utf-8")  # as Python itself does for the C locale


def _flush() -> ExitCode | None:
    """Write what is still buffered, while an error can be reported."""
    try:
        sys.stdout.flush()
    except OSError as error:
        return end(error)
    return None


def _discard_output() -> None:
    """Let the rest of standard output go nowhere, so that Python's last flush succeeds."""
    with suppress(OSError, ValueError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())
        os.close(devnull)


def _describe_bug(error: BaseException) -> str:
    import traceback

    from metapac._text import scrub_line

    summary = scrub_line(traceback.format_exception_only(error)[-1].strip())
    details = scrub_line("".join(traceback.format_exception(error)))
    request = f"This is a bug in metapac: please report it at {ISSUES}"
    if os.environ.get(SHOW_TRACEBACK, "0") not in ("", "0"):
        with suppress(OSError, ValueError, AttributeError):
            print(details, end="", file=sys.stderr)
        return f"{summary}. {request}."
    try:
        path = _write_traceback(details)
    except OSError:
        return f"{summary}. {request}, with the output of {SHOW_TRACEBACK}=1."
    return f"{summary}. {request}, with the file {path}."


def _write_traceback(text: str) -> str:
    """Write a traceback to a new file that only this user can read, and return its path.

    All but the newest of earlier ones are deleted.
    """
    import platform
    import tempfile

    from metapac._version import __version__

    descriptor, path = tempfile.mkstemp(prefix=_PREFIX, suffix=_SUFFIX)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"metapac {__version__}, Python {platform.python_version()}, ")
        file.write(f"{platform.platform()}\n\n{text}")
    _delete_old_tracebacks(os.path.dirname(path))  # noqa: PTH120
    return path


def _delete_old_tracebacks(folder: str) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        files = [
            (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path)
            for entry in entries
            if entry.name.startswith(_PREFIX)
            and entry.name.endswith(_SUFFIX)
            and entry.is_file(follow_symlinks=False)
            and (os.name != "posix" or entry.stat(follow_symlinks=False).st_uid == os.geteuid())
        ]
        for _, path in sorted(files)[:-_TRACEBACKS]:
            with suppress(OSError):
                os.remove(path)  # noqa: PTH107
