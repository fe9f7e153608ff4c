"""A fingerprint of a directory: that reading changes nothing in it."""

import hashlib


def fingerprint(root):
    """Everything there is: names, bytes, and when it was changed.

    Of LMDB's ``lock.mdb`` only the name: that is where a reader tells the writer of itself.
    """
    return {
        path: None
        if path.name == "lock.mdb"
        else (path.stat().st_mtime_ns, path.stat().st_mode, digest(path))
        for path in [root, *sorted(root.rglob("*"))]
    }


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
