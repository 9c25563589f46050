"""Prometheus' hash of label sets: XXH64 of names and values in order of names, each behind its length.

Sources: prometheus/model/labels/labels_stringlabels.go for the bytes; xxHash's specification (Y. Collet, "XXH64
algorithm description") for the hash.
"""

import numpy as np

from precompute.evaluate.values import Frame
from precompute.kernels.xxh64 import hash_rows
from precompute.samples import U64


def label_hashes(frame: Frame) -> U64:
    """The hash of each row's label set, uint64[n]."""
    columns = sorted(range(len(frame.names)), key=frame.names.__getitem__)
    used, place = np.unique(frame.codes[:, columns], return_inverse=True)
    pieces = [_sized(frame.names[k]) for k in columns] + [_sized(text) for text in frame.symbols.texts(used.tolist())]
    ends = np.zeros(len(pieces) + 1, np.int64)
    np.cumsum([len(piece) for piece in pieces], out=ends[1:])
    values = np.where(frame.codes[:, columns] > 0, place.reshape(frame.codes.shape) + len(columns), -1)
    hashes: U64 = hash_rows(np.frombuffer(b"".join(pieces), np.uint8), ends, values)
    return hashes


def _sized(text: str) -> bytes:
    raw = text.encode()
    size = bytes([len(raw)]) if len(raw) < 255 else b"\xff" + len(raw).to_bytes(3, "little")
    return size + raw
