"""Series and their labels.

A SeriesTable gives each label set an int32 id, dense from 0. Labels are kept once, in columns:

    symbols        every label name and value, once, as a string with an int32 id; id 0 is ""
    pairs          per series its (name id, value id) pairs, sorted by name, one after another
    canonical      per series the labels as protobuf Label messages sorted by name, which is what
                   Prometheus sends; bytes -> id by a hash table (`lookup`)
    postings       (name id, value id) -> ids of the series that have the pair, ascending

The label hash is a seeded 64-bit hash of the canonical bytes. The shard is the hash's place on the ring,
`hash * shards >> 64`, so an order by hash is also an order by shard.

`intern` and `alias` are called by one thread at a time; everything else may run beside them.
"""

from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from precompute.kernels.bytes import find_runs, gather_runs, hash_run, place_runs
from precompute.kernels.labels import label_columns, mark_names
from precompute.samples import I32, I64, U8, U64

Labels = tuple[tuple[str, str], ...]
"""A label set: sorted by name, no empty values, `__name__` included."""

METRIC_NAME = "__name__"


def canonical_bytes(labels: Labels) -> bytes:
    """The label set as consecutive `labels` fields of a protobuf TimeSeries (prompb/types.proto)."""
    out = bytearray()
    for name, value in labels:
        n, v = name.encode(), value.encode()
        message = b"\x0a" + _varint(len(n)) + n + b"\x12" + _varint(len(v)) + v
        out += b"\x0a" + _varint(len(message)) + message
    return bytes(out)


def parse_labels(raw: bytes) -> list[tuple[str, str]]:
    """Labels of one run of `labels` fields, in wire order.

    Raises ValueError for bytes that are no such run and for text that is not UTF-8.
    """
    labels, at = [], 0
    while at < len(raw):
        message, at = _field(raw, at, (0x0A,))
        labels.append(_parse_label(message[1]))
    return labels


def _parse_label(message: bytes) -> tuple[str, str]:
    texts, at = {0x0A: b"", 0x12: b""}, 0
    while at < len(message):
        (tag, text), at = _field(message, at, (0x0A, 0x12))
        texts[tag] = text
    return texts[0x0A].decode(), texts[0x12].decode()


def _field(raw: bytes, at: int, tags: tuple[int, ...]) -> tuple[tuple[int, bytes], int]:
    tag = raw[at]
    if tag not in tags:
        raise ValueError(f"unexpected field tag {tag:#x} in labels")
    length, shift, at = 0, 0, at + 1
    while True:
        if at >= len(raw) or shift > 28:
            raise ValueError("bad length in labels")
        byte = raw[at]
        length |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            break
    if at + length > len(raw):
        raise ValueError("labels end early")
    return (tag, raw[at : at + length]), at + length


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class SymbolTable:
    """Strings with dense int32 ids; id 0 is the empty string."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {"": 0}
        self._texts: list[str] = [""]
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._texts)

    def intern(self, text: str) -> int:
        """The id of `text`, a new one if it was not known."""
        known = self._ids.get(text)
        if known is None:
            known = len(self._texts)
            self._texts.append(text)
            self._ids[text] = known
            self._bytes += len(text) + 120
        return known

    def find(self, text: str) -> int:
        """The id of `text`, -1 if it is not known."""
        return self._ids.get(text, -1)

    def text(self, symbol: int) -> str:
        return self._texts[symbol]

    def texts(self, symbols: Iterable[int]) -> list[str]:
        texts = self._texts
        return [texts[s] for s in symbols]

    def size_bytes(self) -> int:
        return self._bytes


class _Column:
    """A numpy column that grows at its end by doubling."""

    def __init__(self, dtype: type, width: int | None = None) -> None:
        self.data: Any = np.empty(16 if width is None else (16, width), dtype)
        self.length = 0

    def reserve(self, more: int) -> None:
        need = self.length + more
        if need > len(self.data):
            shape = (max(need, 2 * len(self.data)), *self.data.shape[1:])
            grown = np.empty(shape, self.data.dtype)
            grown[: self.length] = self.data[: self.length]
            self.data = grown

    def extend(self, values: object, count: int) -> None:
        self.reserve(count)
        self.data[self.length : self.length + count] = values
        self.length += count


class SeriesTable:
    """All label sets known to one head, log writer or reader; see the module's text."""

    def __init__(self, hash_seed: int = 0, shards: int = 16) -> None:
        self.hash_seed, self.shards = hash_seed, shards
        self.symbols = SymbolTable()
        self._pairs = _Column(np.int32, 2)
        self._pair_off = _Column(np.int64)
        self._pair_off.extend(0, 1)
        self._hash = _Column(np.uint64)
        self._run_of = _Column(np.int32)
        self._arena = _Column(np.uint8)
        self._run_hash, self._run_start = _Column(np.uint64), _Column(np.int64)
        self._run_length = _Column(np.int32)
        self._run_sid, self._run_tag = _Column(np.int32), _Column(np.int32)
        self._slots = np.full(64, -1, np.int32)
        self._postings: dict[int, dict[int, array[int]]] = {}
        self._postings_bytes = 0

    def __len__(self) -> int:
        return self._hash.length

    # -- from labels or bytes to ids

    def intern(self, labels: Labels, raw: bytes | None = None) -> int:
        """Id of a label set (sorted, unique names, no empty values), new or known.

        raw: its canonical bytes, where the caller has them.
        """
        raw = canonical_bytes(labels) if raw is None else raw
        known = self._find(raw)
        if known >= 0 and self._run_of.data[self._run_sid.data[known]] == known:
            return int(self._run_sid.data[known])
        return self._add(labels, raw)

    def lookup(self, buf: U8, start: I64, length: I64) -> tuple[I32, I32]:
        """Ids and tags, int32[n] each, of n raw runs `buf[start:start+length]`; id -1 where not known."""
        runs = find_runs(*self._runs(), buf, start, length, self.hash_seed)
        sids, tags = self._run_sid.data[runs], self._run_tag.data[runs]
        sids[runs < 0] = -1
        return sids, tags

    def alias(self, raw: bytes, sid: int, tag: int = 0) -> None:
        """Let `lookup` answer (sid, tag) for another writing of a series' labels. Replaces an earlier alias."""
        known = self._find(raw)
        if known >= 0:
            self._run_sid.data[known], self._run_tag.data[known] = sid, tag
        else:
            self._place_run(self._append_run(raw, sid, tag))

    # -- from ids to labels

    def labels_of(self, sid: int) -> Labels:
        first, last = self._pair_off.data[sid], self._pair_off.data[sid + 1]
        texts = self.symbols.texts(self._pairs.data[first:last].ravel().tolist())
        return tuple(zip(texts[::2], texts[1::2], strict=True))

    def canonical(self, sids: I32) -> tuple[U8, I64]:
        """Canonical bytes of these series, one after another, and their offsets int64[n + 1]."""
        runs = self._run_of.data[sids]
        offsets = np.zeros(len(sids) + 1, np.int64)
        np.cumsum(self._run_length.data[runs], out=offsets[1:])
        out = np.empty(int(offsets[-1]), np.uint8)
        gather_runs(self._arena.data, self._run_start.data, self._run_length.data, runs, out, offsets[:-1])
        return out, offsets

    def columns(self, sids: I32, names: Iterable[str]) -> I32:
        """Value ids int32[n, k] of the labels `names`; 0 where a series has none."""
        ids = np.array([self.symbols.find(name) for name in names], np.int32)
        found: I32 = label_columns(self._pairs.data, self._pair_off.data, sids, ids)
        return found

    def names_of(self, sids: I32) -> list[str]:
        """Every label name that one of these series has, sorted."""
        seen = np.zeros(len(self.symbols), np.bool_)
        mark_names(self._pairs.data, self._pair_off.data, sids, seen)
        return sorted(self.symbols.texts(np.flatnonzero(seen).tolist()))

    def metric_ids(self, sids: I32) -> I32:
        """Symbol id of each series' metric name; 0 where it has none."""
        return self.columns(sids, (METRIC_NAME,))[:, 0]

    def hashes(self, sids: I32) -> U64:
        """Label hashes uint64[n]."""
        return np.asarray(self._hash.data[sids])

    def shard_of(self, sids: I32) -> I32:
        """Shards int32[n]."""
        high = (self._hash.data[sids] >> np.uint64(32)) * np.uint64(self.shards)
        return np.asarray(high >> np.uint64(32), np.int32)

    def in_hash_order(self, sids: I32) -> I32:
        """The same series by shard, then label hash; ties by canonical bytes."""
        hashes = self._hash.data[sids]
        order = np.argsort(hashes, kind="stable")
        hashes, sids = hashes[order], sids[order]
        if len(sids) > 1 and (hashes[1:] == hashes[:-1]).any():
            ties = sorted(sids.tolist(), key=lambda s: (int(self._hash.data[s]), self.labels_of(s)))
            return np.array(ties, np.int32)
        return sids

    # -- the inverted index

    def names(self) -> list[str]:
        """Every label name in use, sorted."""
        return sorted(self.symbols.texts(list(self._postings)))

    def values(self, name: str) -> list[str]:
        """Every value of a label, sorted."""
        return sorted(self.symbols.texts(list(self._postings.get(self.symbols.find(name), ()))))

    def value_ids(self, name: str) -> list[int]:
        """Symbol ids of a label's values."""
        return list(self._postings.get(self.symbols.find(name), ()))

    def posting(self, name: str, value: str) -> I32:
        """Ids of the series with `name="value"`, ascending; value must not be empty."""
        by_value = self._postings.get(self.symbols.find(name), {})
        found = by_value.get(self.symbols.find(value))
        # by way of bytes: while numpy copies from the array itself, `intern` in another thread cannot make it grow
        return np.frombuffer(found.tobytes(), np.int32) if found is not None else np.empty(0, np.int32)

    def size_bytes(self) -> int:
        """Memory held, estimated from what was added."""
        columns = (
            self._pairs, self._pair_off, self._hash, self._run_of, self._arena,
            self._run_hash, self._run_start, self._run_length, self._run_sid, self._run_tag,
        )  # fmt: skip
        held = sum(c.length * c.data[:1].nbytes for c in columns)
        return int(held) + self._slots.nbytes + self._postings_bytes + self.symbols.size_bytes()

    # -- inside

    def _runs(self) -> tuple[I32, int, U64, I64, I32, U8]:
        # the count first: columns read after it hold at least that many runs
        known, slots = self._run_tag.length, self._slots
        return slots, known, self._run_hash.data, self._run_start.data, self._run_length.data, self._arena.data

    def _find(self, raw: bytes) -> int:
        buf = np.frombuffer(raw, np.uint8)
        start, length = np.zeros(1, np.int64), np.array([len(raw)], np.int64)
        return int(find_runs(*self._runs(), buf, start, length, self.hash_seed)[0])

    def _add(self, labels: Labels, raw: bytes) -> int:
        sid = len(self)
        intern = self.symbols.intern
        pairs = [(intern(name), intern(value)) for name, value in labels]
        if pairs:
            self._pairs.extend(pairs, len(pairs))
        self._pair_off.extend(self._pairs.length, 1)
        run = self._append_run(raw, sid, 0)
        self._run_of.extend(run, 1)
        for name, value in pairs:
            ids = self._postings.setdefault(name, {}).setdefault(value, array("i"))
            self._postings_bytes += 4 if ids else 180
            ids.append(sid)
        self._hash.extend(self._run_hash.data[run], 1)
        # last, so that a `lookup` in another thread finds the series only when all else knows it
        self._place_run(run)
        return sid

    def _append_run(self, raw: bytes, sid: int, tag: int) -> int:
        run = self._run_sid.length
        buf = np.frombuffer(raw, np.uint8)
        start = self._arena.length
        self._arena.extend(buf, len(raw))
        self._run_start.extend(start, 1)
        self._run_length.extend(len(raw), 1)
        self._run_hash.extend(hash_run(buf, 0, len(raw), self.hash_seed), 1)
        self._run_sid.extend(sid, 1)
        self._run_tag.extend(tag, 1)
        return run

    def _place_run(self, run: int) -> None:
        if 2 * (run + 1) > len(self._slots):
            slots = np.full(4 * len(self._slots), -1, np.int32)
            place_runs(slots, self._run_hash.data, 0, run + 1)
            self._slots = slots
        else:
            place_runs(self._slots, self._run_hash.data, run, run + 1)
