"""Callbacks that end a training."""


class InterruptAt:
    """As Ctrl-C does, in a call that is counted."""

    def __init__(self, call):
        self.left = call

    def __call__(self, record):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


class StopAt(InterruptAt):
    """As users may."""

    def __call__(self, record):
        self.left -= 1
        return self.left == 0
