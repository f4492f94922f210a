"""Files whose checksum is right and whose content is not: what somebody could make on purpose."""

import hashlib
import json

from multimargin.models.container import read_container, write_container

_MARK = b'{"__metadata__":{"checksum":"'


def signed(header, data):
    """A file of a header (a dict or bytes) and bytes, with its checksum."""
    if not isinstance(header, bytes):
        metadata = header.pop("__metadata__")
        text = {"__metadata__": {"checksum": "0" * 64} | metadata} | header
        header = json.dumps(text, separators=(",", ":")).encode()
    content = len(header).to_bytes(8, "little") + header + data
    place = 8 + len(_MARK)
    return content[:place] + hashlib.sha256(content).hexdigest().encode() + content[place + 64 :]


def parts(path):
    """Header, as a dict, and data of a file."""
    content = path.read_bytes()
    n_header = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + n_header]), content[8 + n_header :]


def changed(path, change):
    """Write a model file anew, after a function has changed its description and arrays."""
    description, arrays = read_container(path)
    change(description, arrays)
    write_container(path, description, arrays)
