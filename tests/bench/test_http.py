"""The load of `make bench-http` sees where an answer ends."""

import pytest

from tests.bench.http_load import body_of, is_whole

SIZED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\ncontent-length: 4\r\n\r\n1234"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n12\r\r\nA\r\n34567890ab\r\n0\r\n\r\n"


@pytest.mark.parametrize("answer", [SIZED, CHUNKED])
def test_an_answer_is_whole_only_with_its_last_byte(answer: bytes) -> None:
    assert is_whole(bytearray(answer))
    assert not any(is_whole(bytearray(answer[:end])) for end in range(len(answer)))


def test_a_body_is_put_together_from_its_chunks() -> None:
    assert body_of(SIZED) == b"1234"
    assert body_of(CHUNKED) == b"12\r34567890ab"


def test_an_answer_that_is_none_ends_the_measurement() -> None:
    with pytest.raises(AssertionError, match="503"):
        body_of(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n")
