"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def checked_target(path: str | os.PathLike[str]) -> Path:
    """Where a file will be written; what cannot work is refused here, before there is work to lose."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"{target} is a directory; name a file in it, such as {target / 'report.html'}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: there is no directory {target.parent}")
    return target.resolve()  # a link stays a link to the new text


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write to a temporary file beside it, then rename; what was there stays until then."""
    target = checked_target(path)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:80]}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _usual_mode(target))
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _usual_mode(target: Path) -> int:
    """That of the file that is replaced, or what a new file would have; temporary files are private."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
