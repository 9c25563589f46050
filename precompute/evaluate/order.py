"""Orders of label sets and of their values."""

import re

import numpy as np

from precompute.evaluate.values import Frame
from precompute.samples import I64

_CHUNK = re.compile(r"[0-9]+|[^0-9]+")


def label_order(frame: Frame) -> I64:
    """Row numbers in Prometheus' order of label sets: name by name, then value; a prefix before what it begins."""
    if not frame.names or len(frame) < 2:
        return np.arange(len(frame))
    columns = sorted(range(len(frame.names)), key=frame.names.__getitem__)
    codes = frame.codes[:, columns]
    used, place = np.unique(codes, return_inverse=True)
    texts = frame.symbols.texts(used.tolist())
    rank = np.empty(len(used), np.int64)
    rank[np.array(sorted(range(len(used)), key=texts.__getitem__), np.int64)] = np.arange(len(used))
    ranks = rank[place.reshape(codes.shape)]
    # where a label is absent the row goes on with a later name, which is more than any value, or ends, which is less
    absent = codes == 0
    goes_on = np.logical_or.accumulate(~absent[:, ::-1], axis=1)[:, ::-1]
    ranks[absent] = np.where(goes_on, len(used), -1)[absent]
    return np.lexsort(ranks.T[::-1])


def natural_ranks(texts: list[str]) -> I64:
    """The place of each text among all in natural order, int64[n]: `pod2` before `pod10`; equal ones share theirs."""
    keys = [[_chunk_key(chunk) for chunk in _CHUNK.findall(text)] for text in texts]
    order = sorted(range(len(texts)), key=keys.__getitem__)
    ranks = np.zeros(len(texts), np.int64)
    rises = [False, *(keys[a] != keys[b] for a, b in zip(order, order[1:], strict=False))][: len(order)]
    ranks[order] = np.cumsum(rises)
    return ranks


def _chunk_key(chunk: str) -> tuple[int, int, str]:
    """Numbers by size; against other text as their first digit stands in ASCII."""
    if "0" <= chunk[0] <= "9":
        return 1, len(chunk.lstrip("0")), chunk.lstrip("0")
    return (0 if chunk < "0" else 2), 0, chunk
