from pathlib import Path

from numba.core.registry import CPUDispatcher

from ingest.kernels import labels, write_request
from ingest.kernels.warm import warm
from tests.ingest.node import NOW_MS, make_node
from tests.ingest.wire import encode_labels, encode_sample, encode_write_request, field, zstd


def compiled() -> int:
    kernels = [k for module in (labels, write_request) for k in vars(module).values() if isinstance(k, CPUDispatcher)]
    return sum(len(kernel.signatures) for kernel in kernels)


def test_after_warming_no_request_compiles_a_kernel(tmp_path: Path) -> None:
    warm()
    before = compiled()
    node = make_node(tmp_path)
    name, job = (("__name__", "x"),), (("job", "a"),)
    apart = field(1, encode_labels(name) + encode_sample(NOW_MS, 1.0) + encode_labels(job) + field(4, b"h"))
    node.send(apart + encode_write_request([(name, [(NOW_MS, 1.0)]), (job, [(NOW_MS, 1.0)])]))
    node.remote_write.write(zstd(apart), "", "zstd")
    assert compiled() == before > 0
