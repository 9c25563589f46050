"""A small target to scrape: counters with resets, gauges of many values, odd numbers, and series that come and go."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

ROOMS = 240
FLOORS = ("cellar", "ground", "roof")
FLAPS_EVERY, RESETS_EVERY = 4, 9
HELP = "How warm it is."


@dataclass
class Shop:
    """What has been counted so far; each scrape is one more step."""

    scrapes: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def exposition(self) -> str:
        with self.lock:
            step, self.scrapes = self.scrapes, self.scrapes + 1
        return "\n".join([*_temperatures(step), *_requests(step), *_odd(step), *_flapping(step), *_new(step), ""])


def _temperatures(step: int) -> Iterator[str]:
    yield f"# HELP shop_temperature_celsius {HELP}"
    yield "# TYPE shop_temperature_celsius gauge"
    draw = np.random.default_rng(step)
    for room, value in enumerate(draw.normal(20, 8, ROOMS).tolist()):
        floor = f'floor="{FLOORS[room % 3]}",' if room % 10 else ""
        yield f'shop_temperature_celsius{{{floor}room="r{room:03}"}} {value!r}'


def _requests(step: int) -> Iterator[str]:
    yield "# TYPE shop_requests_total counter"
    for k, (code, path) in enumerate((c, p) for c in ("200", "404", "500") for p in ("/a", "/b", "/c")):
        # large from the start: the rules for extrapolating to zero differ between versions
        since_reset = step % (RESETS_EVERY + k) if path == "/c" else step
        yield f'shop_requests_total{{code="{code}",path="{path}"}} {1000 + since_reset * (3 + k) + step % 3}'


def _odd(step: int) -> Iterator[str]:
    yield "# TYPE shop_odd gauge"
    for kind, value in (("nan", "NaN"), ("inf", "+Inf"), ("ninf", "-Inf"), ("zero", "0"), ("tiny", "5e-324")):
        yield f'shop_odd{{kind="{kind}"}} {value}'


def _flapping(step: int) -> Iterator[str]:
    yield "# TYPE shop_flapping gauge"
    if step // FLAPS_EVERY % 2 == 0:
        yield f'shop_flapping{{part="sometimes"}} {step}'
    yield f'shop_flapping{{part="always"}} {step}'


def _new(step: int) -> Iterator[str]:
    """A counter that would have been zero 0.8 scrapes before the first one."""
    yield "# TYPE shop_new_total counter"
    yield f"shop_new_total {8 + 10 * step}"


@contextmanager
def open_shop() -> Iterator[tuple[str, Shop]]:
    """host:port of a running target, and what it counts."""
    shop = Shop()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = shop.exposition().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    serving.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}", shop
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
