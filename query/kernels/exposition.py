"""The kernel that writes series in Prometheus' text exposition format."""

from precompute.kernels import kernel
from query.api.json_kernels import copy, token_end, write_integer, write_value

_COMMA, _SPACE, _NEWLINE, _MINUS, _CLOSE = 44, 32, 10, 45, 125

ROW_BYTES = 60
"""Room for a row beside its texts: a value has up to 33 bytes, a time up to 20."""


@kernel
def write_lines(out, metrics, codes, texts, t_ms, values, numbers):
    """A line per row, before the first of each metric its head; where writing stopped.

    metrics  int32[n]: which metric a row is of; equal ones follow each other
    codes    int32[n, k]: the row's label values, one column per label, -1 where it is absent; each row has one
    texts    four arenas, each bytes and offsets: heads and beginnings of lines per metric, `name=` per column,
             `"value"` per code
    t_ms     int64[n]; values float64[n]; numbers uint8[]: the values as `encode.numbers` writes them
    """
    heads, begins, names, label_values = texts
    at = 0
    token = 1
    for row in range(len(metrics)):
        metric = metrics[row]
        if row == 0 or metrics[row - 1] != metric:
            at = copy(out, at, heads[0], heads[1][metric], heads[1][metric + 1])
        at = copy(out, at, begins[0], begins[1][metric], begins[1][metric + 1])
        for k in range(codes.shape[1]):
            code = codes[row, k]
            if code >= 0:
                at = copy(out, at, names[0], names[1][k], names[1][k + 1])
                at = copy(out, at, label_values[0], label_values[1][code], label_values[1][code + 1])
                out[at] = _COMMA
                at += 1
        out[at - 1] = _CLOSE
        # a value is written between quotes, in whose places blanks belong here
        mantissa, end = token_end(numbers, token)
        begin = at
        at = write_value(out, at, values[row], numbers, token, mantissa, end)
        out[begin], out[at - 1] = _SPACE, _SPACE
        token = end + 1
        time = t_ms[row]
        if time < 0:
            out[at] = _MINUS
            at += 1
            time = -time
        at = write_integer(out, at, time)
        out[at] = _NEWLINE
        at += 1
    return at
