"""Queries and parameters that are meant to hurt: too deep, too long, too large, not text, not HTTP's idea of a form."""

import random
import urllib.parse
from collections.abc import Iterator

from tests.e2e.hostile import Request, form, posted

DEEP = 20_000
NOW_S = 1_700_000_000

TEXTS = (
    "(" * DEEP + "1" + ")" * DEEP, "(" * DEEP, ")" * DEEP, "-" * DEEP + "1", "1" + "+1" * DEEP, "{" * DEEP, "[" * DEEP,
    "sum(" * DEEP + "x" + ")" * DEEP, "x and " * DEEP + "x", "x" + "[1m:1m]" * 500, "x offset 1m" * 500, "a" * 70_000,
    "x{" + ",".join(f'l{k}="v"' for k in range(5000)) + "}", 'x{a=~"' + "(a|b)*" * 9000 + '"}', "!" * 1000,
    "x == " * 99, 'x{a=~"(a+)+$"}', 'x{a=~"(((a{1,100}){1,100}){1,100}){1,100}"}', 'x{a=~"a{1001}"}', 'x{a=~"["}',
    'x{a=~"(?=a)"}', 'x{a=~"(?P<n>a)\\\\1"}', 'x{a=~"\\xff"}', 'x{a=~"' + "a?" * 3000 + "a" * 3000 + '"}',
    'x{a=~".*.*.*.*.*=.*"}', "9" * 10_000, "1e999999999", "-1e-999999", "0x" + "f" * 5000, "0b1", "1_000", "Inf - Inf",
    "NaN", "1e308 * 1e308", "x[99999999999999y]", "x[1ms]", "rate(x[9223372036854775807ms])", "x offset -9999999y",
    "x offset 292y", "x[0s]", "rate(x[290y])", "rate(x[290y] offset 290y)", "x @ 1e300", "x @ inf", "x @ nan",
    "x @ -9223372036854775807", "x @ 9223372036854775", "sum(rate(x[1m])) @ end()", "x @ start() offset 1y",
    "quantile(1e308, x)", "quantile(NaN, x)", "quantile_over_time(-Inf, x[1h])",
    "sum by (" + ",".join("abc") + ") (x)", "sum by () (x)", "sum without () (x)", "sum by (__name__) (x)",
    "x{__name__='y'}", "{}", "{a=''}", "{a=~'.*'}", '{__name__=~".+"}', "", " ", "\n", "#", "''", '"\\xff"',
    '"\\ud800"', '"' + "a" * 60_000 + '"', "`" + "b" * 60_000 + "`", '"unterminated', "x\x00y", "x{a='\x00'}",
    "\ue0000\ue001", '{a="\ue0000\ue001"}', "\U0010ffff", "ł", "x{ł='ł'}", '{"ł"="ł"}', '{"a b"}', "x{a==~'b'}", "@",
    "@ 1", "topk(99999999999, x)", "count_values('', x)", "label_replace(x, '', '', '', '')",
    "holt_winters(x[5m], 0, 0)", "histogram_quantile(0.9, x)", "x * on (a) group_left (b) y", "x and y", "x atan2 y",
    "x % 0", "0 % 0", "0 / 0", "-x ^ -x", "x[5m]", "x[5m:1ms]", "max_over_time(x[1y:1ms])", "absent(x)", "time()",
    "vector(1)", "nofunc(x)", "rate(x)", "sum(1)", "by (a) sum", "sum sum", "bool", "x > bool y", "1 > 2",
    "x fill (0) + y", "step()", "info(x)", "limitk(1, x)",
)  # fmt: skip
TIMES = (
    "", "0", "-1", "abc", "NaN", "Inf", "-Inf", "1e300", "-1e300", "9223372036854775807", "-9223372036854775808",
    "1e18", "9999-12-31T23:59:59Z", "0000-00-00T00:00:00Z", "2023-02-30T00:00:00Z", "-292273086-05-16T16:47:06Z",
    "1_000", " 1 ", "292277025-08-18T07:12:54.999999999Z", "1" * 5000, "\x00", "٣", "1.7e9", "0x10", "8796093022207",
    "-8796093022207",
)  # fmt: skip
STEPS = ("0", "-1", "NaN", "Inf", "1e-9", "0.001", "1ms", "1e300", "99999999999y", "1h1h", "m", "", "0s", "9" * 400)
PATHS = (
    "/api/v1/label/%00/values", "/api/v1/label/%ff/values", "/api/v1/label/U__110000_/values",
    "/api/v1/label/U__/values", "/api/v1/label/U___d800_/values", "/api/v1/label//values",
    "/api/v1/label/a%2Fb/values", "/api/v1/" + "a" * 8000, "/api/v1/../../etc/passwd", "/api/v1/query%00", "//",
    "/%ff", "/api/v1/series", "/api/v1/series?match[]=%ff", "/api/v1/series?match[]={}",
    "/api/v1/series?match[]=x[5m]", "/api/v1/series?" + "match[]=x&" * 3000, "/api/v1/labels?match[]=" + "(" * 5000,
    "/api/v1/labels?start=NaN", "/api/v1/labels?limit=-1", "/api/v1/query?query", "/api/v1/labels?limit=" + "9" * 30,
    "/api/v1/metadata?limit=x", "/api/v1/metadata?metric=%ff%00", "/api/v1/query?%00", "/api/v1/query?query=%ff%fe",
    "/api/v1/query?query=%ed%a0%80", "/api/v1/query?query=%", "/api/v1/query?query=%zz",
    "/api/v1/query?query=1;query=2", "/api/v1/query?" + "&" * 20_000, "/api/v1/query?query=1&" + "a=1&" * 12_000,
    "/api/v1/query?query=up&lookback_delta=1y", "/api/v1/query?query=1&timeout=-1",
    "/api/v1/query?query=1&timeout=NaN", "/api/v1/query?query=1&timeout=1e300", "/api/v1/query?query=1&limit=1e9",
    "/api/v1/query?query=x&stats=all", "/api/v1/rules", "/api/v1/alerts", "/api/v1/query_exemplars?query=x",
    "/api/v1/targets", "/api/v1/admin/tsdb/snapshot", "/receive", "/api/v1/write?query=1", "/metrics?%ff", "/-/ready/",
    "/-/quit",
)  # fmt: skip
METHODS = ("PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "FOO", "get")
WORDS = (
    "sum", "by", "without", "(", ")", "{", "}", "[", "]", "x", "1", "5m", ":", ",", "=~", "=", "!=", '"a"', "offset",
    "@", "and", "on", "group_left", "rate", "quantile", "-", "^", "bool", "inf", "end", "()", "ignoring", "\u00e9",
    "'", "`", ">",
)  # fmt: skip


def queries(draw: random.Random, soups: int) -> Iterator[Request]:
    """Fixed ones in every place, then as many random ones."""
    yield from _texts()
    yield from _times()
    yield from (Request(path) for path in PATHS)
    yield from (Request(path, method=method) for method in METHODS for path in ("/api/v1/query", "/api/v1/write", "/x"))
    yield from _forms()
    for _ in range(soups):
        yield _soup(draw)


def _texts() -> Iterator[Request]:
    for text in TEXTS:
        yield posted("/api/v1/query", form(query=text))
        yield posted("/api/v1/query_range", form(query=text, start=str(NOW_S), end=str(NOW_S + 600), step="15"))
        if len(text) < 4000:
            yield Request("/api/v1/query?" + urllib.parse.urlencode({"query": text}))
            yield Request("/api/v1/series?" + urllib.parse.urlencode({"match[]": text}))


def _times() -> Iterator[Request]:
    for time in TIMES:
        yield posted("/api/v1/query", form(query="sum(rate(x[5m]))", time=time))
        for end in TIMES[::4]:
            yield posted("/api/v1/query_range", form(query="x", start=time, end=end, step="15"))
    for step in STEPS:
        for first, last in ((NOW_S, NOW_S + 31_536_000), (NOW_S, NOW_S + 1), (NOW_S, NOW_S), (NOW_S + 1, NOW_S)):
            yield posted("/api/v1/query_range", form(query="sum(x)", start=str(first), end=str(last), step=step))


def _forms() -> Iterator[Request]:
    huge = b"query=" + b"1" * (2 << 20)
    yield posted("/api/v1/query", huge)
    yield posted("/api/v1/query", b"&".join(b"a%d=1" % k for k in range(20_000)))
    yield posted("/api/v1/query", b"query=%ff%00\xff\xfe")
    yield posted("/api/v1/query", b'{"query": "up"}', "application/json")
    for kind in (
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/form-data; boundary=x",
        "x/" + "y" * 9000,
    ):
        yield posted("/api/v1/query", b'--x\r\nContent-Disposition: form-data; name="query"\r\n\r\nup\r\n--', kind)
    yield posted("/api/v1/query", b"query=up", "application/x-www-form-urlencoded; charset=nonsense")
    yield posted("/api/v1/query", b"query=up", "application/x-www-form-urlencoded; charset=utf-16")


def _soup(draw: random.Random) -> Request:
    """Words of the language in any order; sometimes bytes in their place."""
    text = draw.choice(("", " ")).join(draw.choice(WORDS) for _ in range(draw.randrange(1, 30)))
    body = b"query=" + urllib.parse.quote(text).encode()
    if draw.random() < 0.2:
        body = b"query=" + draw.randbytes(draw.randrange(40))
    return posted("/api/v1/query", body)
