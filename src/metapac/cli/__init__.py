"""The command ``metapac``, which needs the extra ``cli``: how it starts and how it ends."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False  # importing typing takes long
if TYPE_CHECKING:
    from types import FrameType

OK, INFEASIBLE, BAD_INPUT, VIOLATED, BUG = 0, 1, 2, 3, 70  # exit codes; 128 + n after signal n
ISSUES = "https://github.com/metapac/metapac/issues"


def main() -> None:
    """Run the command that was typed, and exit."""
    if sys.argv[1:] == ["--version"]:  # answered before anything is imported
        from metapac._version import __version__

        print(__version__)
        return
    _prepare_streams()
    for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP; nohup ignores it
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _exit_on_signal)
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OSError as error:  # a full disk
        discard_output()
        print(f"error: standard output: {error.strerror}", file=sys.stderr)
        code = code or BAD_INPUT
    sys.exit(code)


def _run() -> int:
    try:
        from metapac.cli.app import app

        result = app.main(prog_name="metapac", standalone_mode=False)
        return result if isinstance(result, int) else OK
    except ModuleNotFoundError as error:
        from metapac._common import missing

        print(f"error: {missing(error, extra='cli', purpose='The command line')}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("error: interrupted.", file=sys.stderr)
        return 128 + signal.SIGINT
    except Exception as error:
        import traceback

        from metapac._text import scrub_line

        print(scrub_line("".join(traceback.format_exception(error))), file=sys.stderr)
        hint = f"Please report it, with the lines above: {ISSUES}"
        print(f"error: this is a bug in metapac.\nhint: {hint}", file=sys.stderr)
        return BUG


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    """Unwind the program, which removes its temporary files."""
    sys.exit(128 + number)


def _prepare_streams() -> None:
    """Let closed streams discard what is written, and print what the encoding lacks as escapes."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Redirect standard output to nowhere: its reader, such as ``head``, has stopped reading."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
