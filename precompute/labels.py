"""Series and their labels.

A SeriesTable gives each label set an int32 id, dense from 0. Labels are kept once, in columns:

    symbols        every label name and value, once, as a string with an int32 id; id 0 is ""
    pairs          per series its (name id, value id) pairs, sorted by name, one after another
    canonical      per series the labels as protobuf Label messages sorted by name, which is what
                   Prometheus sends; bytes -> id by a hash table (`lookup`)
    postings       (name id, value id) -> ids of the series that have the pair, ascending

The label hash is a seeded 64-bit hash of the canonical bytes. The shard is the hash's place on the ring,
`hash * shards >> 64`, so an order by hash is also an order by shard.

`intern`, `intern_runs` and `alias` are called by one thread at a time; everything else may run beside them.
"""

from array import array
from collections.abc import Iterable

import numpy as np

from precompute.kernels.bytes import count_labels, label_spans
from precompute.kernels.labels import label_columns, mark_names
from precompute.runs import Column, RunTable, SymbolTable
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


class SeriesTable:
    """All label sets known to one head, log writer or reader; see the module's text."""

    def __init__(self, hash_seed: int = 0, shards: int = 16) -> None:
        self.hash_seed, self.shards = hash_seed, shards
        self.symbols = SymbolTable()
        self._pairs, self._pair_off = Column(np.int32, 2), Column(np.int64)
        self._pair_off.extend(0, 1)
        self._series, self._aliases = RunTable(hash_seed), RunTable(hash_seed)
        self._alias_sid, self._alias_tag = Column(np.int32), Column(np.int32)
        self._postings: dict[int, dict[int, array[int]]] = {}
        self._postings_bytes = 0

    def __len__(self) -> int:
        return self._pair_off.length - 1

    # -- from labels or bytes to ids

    def intern(self, labels: Labels) -> int:
        """Id of a label set (sorted, unique names, no empty values), new or known."""
        raw = canonical_bytes(labels)
        return int(self.intern_runs(*_whole(raw))[0])

    def intern_runs(self, buf: U8, start: I64, length: I64) -> I32:
        """Ids of n label sets that stand in `buf` as canonical bytes, int32[n], new or known.

        Raises ValueError for bytes that are none.
        """
        sids = self._series.find(buf, start, length)
        unknown = np.flatnonzero(sids < 0)
        if len(unknown):
            first = self._series.distinct(buf, start[unknown], length[unknown])
            new = unknown[np.unique(first)]
            sids[new] = self._add(buf, start[new], length[new])
            sids[unknown] = sids[unknown[first]]
        return sids

    def lookup(self, buf: U8, start: I64, length: I64) -> tuple[I32, I32]:
        """Ids and tags, int32[n] each, of n raw runs `buf[start:start+length]`; id -1 where not known."""
        if not len(self._aliases):
            return self._series.find(buf, start, length), np.zeros(len(start), np.int32)
        runs = self._aliases.find(buf, start, length)
        sids, tags = self._alias_sid.data[runs], self._alias_tag.data[runs]
        plain = np.flatnonzero(runs < 0)
        sids[plain], tags[plain] = self._series.find(buf, start[plain], length[plain]), 0
        return sids, tags

    def alias(self, raw: bytes, sid: int, tag: int = 0) -> None:
        """Let `lookup` answer (sid, tag) for another writing of a series' labels. Replaces an earlier alias.

        `intern` is not affected: what are the canonical bytes of another series stays that series there.
        """
        known = self._aliases.find_one(raw)
        if known >= 0:
            self._alias_sid.data[known], self._alias_tag.data[known] = sid, tag
        else:
            self._alias_tag.extend(tag, 1)
            self._alias_sid.extend(sid, 1)
            self._aliases.add_one(raw)

    # -- from ids to labels

    def labels_of(self, sid: int) -> Labels:
        first, last = self._pair_off.data[sid], self._pair_off.data[sid + 1]
        texts = self.symbols.texts(self._pairs.data[first:last].ravel().tolist())
        return tuple(zip(texts[::2], texts[1::2], strict=True))

    def canonical(self, sids: I32) -> tuple[U8, I64]:
        """Canonical bytes of these series, one after another, and their offsets int64[n + 1]."""
        return self._series.bytes_of(sids)

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

    def pair_counts(self) -> tuple[I32, I32, I64]:
        """Every label pair in use: its name and value as symbols, int32[p] each, and how many series have it.

        In order of names, then values.
        """
        last = int(self._pair_off.data[len(self)])
        pairs = self._pairs.data[:last].astype(np.int64)
        keys, counts = np.unique(pairs[:, 0] << 32 | pairs[:, 1], return_counts=True)
        return (keys >> 32).astype(np.int32), keys.astype(np.int32), counts

    def metric_ids(self, sids: I32) -> I32:
        """Symbol id of each series' metric name; 0 where it has none."""
        return self.columns(sids, (METRIC_NAME,))[:, 0]

    def hashes(self, sids: I32) -> U64:
        """Label hashes uint64[n]."""
        return self._series.hash_of(sids)

    def shard_of(self, sids: I32) -> I32:
        """Shards int32[n]."""
        high = (self.hashes(sids) >> np.uint64(32)) * np.uint64(self.shards)
        return np.asarray(high >> np.uint64(32), np.int32)

    def in_hash_order(self, sids: I32) -> I32:
        """The same series by shard, then label hash; ties by canonical bytes."""
        hashes = self.hashes(sids)
        order = np.argsort(hashes, kind="stable")
        hashes, sids = hashes[order], sids[order]
        if len(sids) > 1 and (hashes[1:] == hashes[:-1]).any():
            keyed = zip(hashes.tolist(), map(self.labels_of, sids.tolist()), sids.tolist(), strict=True)
            return np.array([sid for _, _, sid in sorted(keyed)], np.int32)
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

    def label_bytes(self) -> I64:
        """By series how long its canonical bytes are, int64[n]; of those that are complete by now."""
        return self._series.length_of(np.arange(len(self._series), dtype=np.int32))

    def size_bytes(self) -> int:
        """Memory held, estimated from what was added."""
        columns = self._pairs, self._pair_off, self._alias_sid, self._alias_tag
        tables = self._series, self._aliases, self.symbols
        return sum(part.size_bytes() for part in (*columns, *tables)) + self._postings_bytes

    # -- inside

    def _add(self, buf: U8, start: I64, length: I64) -> I32:
        """Ids of n new label sets that differ from one another. What `lookup` finds is complete by then."""
        first, count = len(self), len(start)
        sids = np.arange(first, first + count, dtype=np.int32)
        labels = count_labels(buf, start, length)
        if (labels < 0).any():
            raise ValueError("not the canonical bytes of a label set")
        spans = label_spans(buf, start, length, int(labels.sum()))
        pairs = self.symbols.intern_runs(buf, *spans).reshape(-1, 2)
        ends = self._pairs.length + np.cumsum(labels)
        self._pairs.extend(pairs, len(pairs))
        self._post(pairs, np.repeat(sids, labels))
        self._pair_off.extend(ends, count)
        return self._series.add(buf, start, length)

    def _post(self, pairs: I32, sids: I32) -> None:
        """Add series to the postings of their pairs; sids int32[p], ascending, one per pair."""
        keys = pairs[:, 0].astype(np.int64) << 32 | pairs[:, 1]
        order = np.argsort(keys, kind="stable")
        cuts = np.flatnonzero(np.diff(keys[order])) + 1
        bounds = [0, *cuts.tolist(), len(order)] if len(order) else [0]
        sorted_sids, firsts = sids[order], pairs[order[bounds[:-1]]].tolist()
        for (name, value), lo, hi in zip(firsts, bounds[:-1], bounds[1:], strict=True):
            ids = self._postings.setdefault(name, {}).setdefault(value, array("i"))
            self._postings_bytes += 4 * (hi - lo) + (0 if ids else 180)
            ids.frombytes(sorted_sids[lo:hi].tobytes())


def _whole(raw: bytes) -> tuple[U8, I64, I64]:
    return np.frombuffer(raw, np.uint8), np.zeros(1, np.int64), np.array([len(raw)], np.int64)
