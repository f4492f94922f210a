"""Files whose checksum is right and whose content is not: what somebody could make on purpose."""

import hashlib
import json

from multimargin.data.container import read_container, write_container
from multimargin.models.envelope import MODEL

_MARK = b'{"__metadata__":{"checksum":"'


def signed(header, data):
    """A file of a header (a dict or bytes) and bytes, with its checksum."""
    if not isinstance(header, bytes):
        metadata = {"checksum": ""} | header["__metadata__"]
        header = json.dumps(
            {"__metadata__": metadata} | without(header, "__metadata__"), separators=(",", ":")
        ).encode()
        header = header.replace(f'"checksum":"{metadata["checksum"]}"'.encode(), b'"checksum":"' + b"0" * 64 + b'"', 1)
    content = len(header).to_bytes(8, "little") + header + data
    place = 8 + len(_MARK)
    content = content[:place] + b"0" * 64 + content[place + 64 :]
    return content[:place] + hashlib.sha256(content).hexdigest().encode() + content[place + 64 :]


def without(header, name):
    """All but one entry."""
    return {key: value for key, value in header.items() if key != name}


def parts(path):
    """Header, as a dict, and data of a file."""
    content = path.read_bytes()
    n_header = int.from_bytes(content[:8], "little")
    return json.loads(content[8 : 8 + n_header]), content[8 + n_header :]


def changed(path, change):
    """Write a model file anew, after a function has changed its description and arrays."""
    description, arrays = read_container(path, MODEL)
    change(description, arrays)
    write_container(path, MODEL, description, arrays)
