import resource

import cramjam
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.decoders.compression import decompress, unpacked_bytes
from ingest.errors import BadBody, TooLarge, UnsupportedType
from tests.ingest.wire import snappy, varint, zstd

LIMIT = 1 << 20
encodings = pytest.mark.parametrize(("encoding", "pack"), [("snappy", snappy), ("zstd", zstd)])


def peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def zstd_without_size(body: bytes) -> bytes:
    """A frame written in a stream, so its header names no content size."""
    stream = cramjam.zstd.Compressor()
    for at in range(0, len(body), 1 << 16):
        stream.compress(body[at : at + (1 << 16)])
    return bytes(stream.finish())


@encodings
@given(body=st.binary(max_size=2000))
def test_what_was_packed_is_unpacked(encoding: str, pack: object, body: bytes) -> None:
    assert decompress(pack(body), encoding, LIMIT).tobytes() == body  # type: ignore[operator]


@encodings
def test_a_body_at_the_limit_is_taken_and_one_above_is_not(encoding: str, pack: object) -> None:
    assert len(decompress(pack(bytes(LIMIT)), encoding, LIMIT)) == LIMIT  # type: ignore[operator]
    with pytest.raises(TooLarge, match="max_body"):
        decompress(pack(bytes(LIMIT + 1)), encoding, LIMIT)  # type: ignore[operator]


def test_a_zstd_stream_without_a_size_is_bounded_too() -> None:
    assert len(decompress(zstd_without_size(bytes(LIMIT)), "zstd", LIMIT)) == LIMIT
    with pytest.raises(TooLarge):
        decompress(zstd_without_size(bytes(LIMIT + 1)), "zstd", LIMIT)


def test_a_second_zstd_frame_does_not_pass_the_limit() -> None:
    with pytest.raises(TooLarge):
        decompress(zstd(bytes(LIMIT)) + zstd(b"x"), "zstd", LIMIT)


@encodings
def test_the_most_that_is_unpacked_is_known_before(encoding: str, pack: object) -> None:
    assert unpacked_bytes(pack(bytes(500)), encoding, LIMIT) == 500  # type: ignore[operator]
    assert unpacked_bytes(pack(bytes(LIMIT + 1)), encoding, LIMIT) == LIMIT  # type: ignore[operator]


def test_what_a_zstd_body_does_not_say_counts_as_the_limit() -> None:
    for body in (zstd_without_size(bytes(500)), zstd(bytes(500)) + zstd(bytes(500))):
        assert unpacked_bytes(body, "zstd", LIMIT) == LIMIT


def test_bombs_take_no_memory() -> None:
    bomb = zstd_without_size(bytes(400 << 20))
    claim = varint((1 << 32) - 1) + bytes(10)
    before = peak_kib()
    for body, encoding in ((bomb, "zstd"), (claim, "snappy")):
        with pytest.raises(TooLarge):
            decompress(body, encoding, LIMIT)
    with pytest.raises(BadBody):
        decompress(varint(200 << 20) + bytes(10), "snappy", 256 << 20)
    assert peak_kib() - before < 50 << 10


@encodings
def test_a_cut_body_is_refused(encoding: str, pack: object) -> None:
    body = pack(np.random.default_rng(1).bytes(500))  # type: ignore[operator]
    for size in range(len(body)):
        with pytest.raises(BadBody):
            decompress(body[:size], encoding, LIMIT)


def test_a_snappy_length_above_32_bits_is_refused() -> None:
    with pytest.raises(BadBody):
        decompress(b"\xff" * 10, "snappy", LIMIT)


def test_other_encodings_are_refused() -> None:
    with pytest.raises(UnsupportedType, match="gzip"):
        decompress(b"", "gzip", LIMIT)
