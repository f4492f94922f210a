"""What commands say."""

from multimargin.commands.terminal import Terminal


class Notes(Terminal):
    """A terminal that keeps what it was told."""

    def __init__(self):
        super().__init__(quiet=True)
        self.notes = []

    def note(self, text):
        self.notes.append(text)
