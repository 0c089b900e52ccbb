"""The command ``metapac``, which needs the extra ``cli``: how it starts and how it ends."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # importing typing takes long
if TYPE_CHECKING:
    from types import FrameType

# Exit codes; 128 + n after signal n.
OK, INFEASIBLE, BAD_INPUT, VIOLATED, AMBER, BUG = 0, 1, 2, 3, 4, 70
ISSUES = "https://github.com/metapac/metapac/issues"
_RESUMABLE = {"fetch", "train", "reproduce"}
received: list[int] = []  # the signals that end the program


def main() -> None:
    """Run the command that was typed, and exit."""
    if sys.argv[1:] == ["--version"]:  # answered before anything is imported
        from metapac._version import __version__

        print(__version__)
        return
    _prepare_streams()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, _interrupt)
    sys.exit(_run())


def _run() -> int:
    """Run the command, and return the exit code."""
    code = OK
    try:
        from metapac.cli.app import app

        code = app.main(prog_name="metapac", standalone_mode=False) or OK
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of standard output, such as head, has stopped
        discard_output()
        return code
    except OSError as error:  # a full disk
        discard_output()
        print(f"error: standard output: {error.strerror}", file=sys.stderr)
        return code or BAD_INPUT
    except ModuleNotFoundError as error:
        from metapac._common import missing

        print(f"error: {missing(error, extra='cli', purpose='The command line')}", file=sys.stderr)
        return BAD_INPUT
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else BUG
    except BaseException as error:
        if received:  # DuckDB makes an error of its own from an interrupt
            hint = "\nhint: Run the same command again to resume."
            is_resumable = _RESUMABLE & {*sys.argv[1:3]}
            word = "interrupted" if received[0] == signal.SIGINT else "terminated"
            print(f"error: {word}.{hint if is_resumable else ''}", file=sys.stderr)
            return 128 + received[0]
        return _report_bug(error)


def _report_bug(error: BaseException) -> int:
    import traceback

    from metapac._text import scrub_line

    print(scrub_line("".join(traceback.format_exception(error))), file=sys.stderr)
    print("error: this is a bug in metapac.", file=sys.stderr)
    print(f"hint: Please report it, with the lines above: {ISSUES}", file=sys.stderr)
    return BUG


def _interrupt(number: int, _frame: FrameType | None) -> None:
    """Unwind the program, which removes its temporary files."""
    received.append(number)
    raise KeyboardInterrupt


def _prepare_streams() -> None:
    """Let closed streams discard what is written, and give ASCII terminals UTF-8."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif (stream.encoding or "").lower() in ("ascii", "us-ascii", "ansi_x3.4-1968"):
            stream.reconfigure(encoding="utf-8")  # as Python itself does for the C locale


def discard_output() -> None:
    """Redirect standard output to nowhere: it cannot be written."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # no file, as in tests
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
