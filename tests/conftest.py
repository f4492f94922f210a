"""Signals as a shell has them: where the tests run in the background they may be ignored, and by children, too."""

import signal

for name, usual in (("SIGINT", signal.default_int_handler), ("SIGTERM", signal.SIG_DFL), ("SIGHUP", signal.SIG_DFL)):
    number = getattr(signal, name, None)  # Windows has no SIGHUP
    if number is not None and signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, usual)
