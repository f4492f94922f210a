"""The program ``multimargin``: one file a command."""
