"""Runs of bytes with dense ids, found by a hash table; and strings with ids on top of it.

One thread at a time adds; lookups may run beside it.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from precompute.kernels.bytes import find_runs, first_of_equal_runs, gather_runs, hash_runs, place_runs
from precompute.samples import I32, I64, U8, U64


class Column:
    """A numpy column that grows at its end by doubling."""

    def __init__(self, dtype: type, width: int | None = None) -> None:
        self.data: Any = np.empty(16 if width is None else (16, width), dtype)
        self.length = 0

    def extend(self, values: object, count: int) -> None:
        """Add `count` items, one value for all or one each."""
        need = self.length + count
        if need > len(self.data):
            grown = np.empty((max(need, 2 * len(self.data)), *self.data.shape[1:]), self.data.dtype)
            grown[: self.length] = self.data[: self.length]
            self.data = grown
        self.data[self.length : need] = values
        self.length = need

    def size_bytes(self) -> int:
        return self.length * int(self.data[:1].nbytes)


class RunTable:
    """Distinct runs of bytes, numbered in order of their adding."""

    def __init__(self, hash_seed: int) -> None:
        self._seed = hash_seed
        self._arena = Column(np.uint8)
        self._hash, self._start, self._length = Column(np.uint64), Column(np.int64), Column(np.int32)
        self._slots = np.full(64, -1, np.int32)

    def __len__(self) -> int:
        return self._length.length

    def find(self, buf: U8, start: I64, length: I64) -> I32:
        """Ids of n runs `buf[start:start+length]`; -1 where not known. Bytes are compared, not only hashes."""
        # the count first: columns read after it hold at least that many runs
        known, slots = self._length.length, self._slots
        columns = self._hash.data, self._start.data, self._length.data, self._arena.data
        found: I32 = find_runs(slots, known, *columns, buf, start, length, self._seed)
        return found

    def find_one(self, raw: bytes) -> int:
        """Id of one run, -1 if it is not known."""
        return int(self.find(*_single(raw))[0])

    def add_one(self, raw: bytes) -> int:
        """Id of a run that is not known yet."""
        return int(self.add(*_single(raw))[0])

    def add(self, buf: U8, start: I64, length: I64) -> I32:
        """Ids of n runs that are not known yet and differ from one another, int32[n]; consecutive."""
        first, count = len(self), len(start)
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(length, out=offsets[1:])
        copied = np.empty(int(offsets[-1]), np.uint8)
        gather_runs(buf, start, length, np.arange(count), copied, offsets[:-1])
        self._start.extend(self._arena.length + offsets[:-1], count)
        self._arena.extend(copied, len(copied))
        self._hash.extend(hash_runs(buf, start, length, self._seed), count)
        self._length.extend(length, count)
        self._place(first)
        return np.arange(first, first + count, dtype=np.int32)

    def distinct(self, buf: U8, start: I64, length: I64) -> I64:
        """For each of n runs the index of the first one that equals it, int64[n]."""
        found: I64 = first_of_equal_runs(buf, start, length, self._seed)
        return found

    def bytes_of(self, runs: I32) -> tuple[U8, I64]:
        """The bytes of these runs, one after another, and their offsets int64[n + 1]."""
        offsets = np.zeros(len(runs) + 1, np.int64)
        np.cumsum(self._length.data[runs], out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        gather_runs(self._arena.data, self._start.data, self._length.data, runs, out, offsets[:-1])
        return out, offsets

    def length_of(self, runs: I32) -> I64:
        """How long these runs are, int64[n]."""
        return np.asarray(self._length.data[runs], np.int64)

    def hash_of(self, runs: I32) -> U64:
        """Seeded hashes of these runs, uint64[n]."""
        return np.asarray(self._hash.data[runs])

    def size_bytes(self) -> int:
        columns = self._arena, self._hash, self._start, self._length
        return sum(column.size_bytes() for column in columns) + self._slots.nbytes

    def _place(self, first: int) -> None:
        if 2 * len(self) > len(self._slots):
            size = len(self._slots)
            while 2 * len(self) > size:
                size *= 4
            slots = np.full(size, -1, np.int32)
            place_runs(slots, self._hash.data, 0, len(self))
            self._slots = slots
        else:
            place_runs(self._slots, self._hash.data, first, len(self))


def _single(raw: bytes) -> tuple[U8, I64, I64]:
    return np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), np.array([len(raw)], np.int64)


class SymbolTable:
    """Strings with dense int32 ids; id 0 is the empty string."""

    def __init__(self) -> None:
        self._runs = RunTable(0)
        self._texts: list[str] = []
        self.intern("")

    def __len__(self) -> int:
        return len(self._texts)

    def intern(self, text: str) -> int:
        """The id of `text`, a new one if it was not known."""
        raw = text.encode()
        known = self._runs.find_one(raw)
        if known >= 0:
            return known
        self._texts.append(text)
        return self._runs.add_one(raw)

    def intern_runs(self, buf: U8, start: I64, length: I64) -> I32:
        """Ids of n strings that stand in `buf` as UTF-8, int32[n]."""
        ids = self._runs.find(buf, start, length)
        unknown = np.flatnonzero(ids < 0)
        if len(unknown):
            first = self._runs.distinct(buf, start[unknown], length[unknown])
            new = unknown[np.unique(first)]
            spans = zip(start[new].tolist(), (start[new] + length[new]).tolist(), strict=True)
            raw = buf.tobytes()
            self._texts.extend(raw[a:b].decode() for a, b in spans)
            ids[new] = self._runs.add(buf, start[new], length[new])
            ids[unknown] = ids[unknown[first]]
        return ids

    def intern_texts(self, texts: Iterable[str]) -> I32:
        """Ids of many strings at once, int32[n]."""
        raw = [text.encode() for text in texts]
        length = np.fromiter(map(len, raw), np.int64, len(raw))
        return self.intern_runs(np.frombuffer(b"".join(raw), np.uint8), np.cumsum(length) - length, length)

    def find(self, text: str) -> int:
        """The id of `text`, -1 if it is not known."""
        return self._runs.find_one(text.encode())

    def text(self, symbol: int) -> str:
        return self._texts[symbol]

    def lengths(self, symbols: I32) -> I64:
        """How many bytes of UTF-8 each has, int64[n]."""
        return self._runs.length_of(symbols)

    def texts(self, symbols: Iterable[int]) -> list[str]:
        texts = self._texts
        return [texts[s] for s in symbols]

    def size_bytes(self) -> int:
        """Memory held; a Python string costs about 60 bytes beside its characters."""
        return self._runs.size_bytes() + int(self._runs._arena.length) + 60 * len(self)
