"""Orders of label sets and of their values."""

import re

import numpy as np

from precompute.evaluate.values import Frame
from precompute.kernels.labels import distinct
from precompute.samples import I64

_RUN = re.compile(r"[0-9]+")
_LONGEST = 0xD000
"""Longer runs of digits compare as if they were as long as this; a character can still say it."""


def label_order(frame: Frame) -> I64:
    """Row numbers in Prometheus' order of label sets: name by name, then value; a prefix before what it begins."""
    if not frame.names or len(frame) < 2:
        return np.arange(len(frame))
    columns = sorted(range(len(frame.names)), key=frame.names.__getitem__)
    codes = frame.codes[:, columns]
    used, place = distinct(codes)
    texts = frame.symbols.texts(used.tolist())
    rank = np.empty(len(used), np.int64)
    rank[np.array(sorted(range(len(used)), key=texts.__getitem__), np.int64)] = np.arange(len(used))
    ranks = rank[place]
    # where a label is absent the row goes on with a later name, which is more than any value, or ends, which is less
    absent = codes == 0
    goes_on = np.logical_or.accumulate(~absent[:, ::-1], axis=1)[:, ::-1]
    ranks[absent] = np.where(goes_on, len(used), -1)[absent]
    return np.lexsort(ranks.T[::-1])


def natural_ranks(texts: list[str]) -> I64:
    """The place of each text among all in natural order, int64[n]: `pod2` before `pod10`; equal ones share theirs."""
    keys = [_RUN.sub(_by_length, text) for text in texts]
    place = {key: k for k, key in enumerate(sorted(set(keys)))}
    return np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))


def _by_length(run: re.Match[str]) -> str:
    """Digits written so that they compare as a number: how many they are, then they.

    At a text's start they stand among other characters where digits do; after others, before whatever may follow there.
    """
    digits = run[0].lstrip("0")
    return ("\0" if run.start() else "0") + chr(min(len(digits), _LONGEST)) + digits
