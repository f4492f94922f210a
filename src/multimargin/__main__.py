"""The program ``multimargin``, which ``python -m multimargin`` is, too.

Nothing of it is loaded before Ctrl-C is minded: loading takes longer than it takes to notice a mistake.
"""

import contextlib
import sys


def start() -> int:
    """Run the program and return its exit code; Ctrl-C is no traceback while it is being loaded, or ends."""
    try:
        import signal

        from multimargin.commands.main import main

        code = main()
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python is about to end, and would show where it was
        return code
    except KeyboardInterrupt:
        with contextlib.suppress(OSError):  # nobody can hear it
            print("multimargin: interrupted", file=sys.stderr, flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(start())
