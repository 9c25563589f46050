"""Threads that look while a test writes."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(count: int, look: Callable[[], None]) -> Iterator[None]:
    """Call `look` over and over in `count` threads until the block ends; what one of them raises is raised then."""
    finished, raised = threading.Event(), []

    def repeat() -> None:
        try:
            while not finished.is_set():
                look()
        except BaseException as error:  # noqa: BLE001  # raised again where the test sees it
            raised.append(error)

    threads = [threading.Thread(target=repeat) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        finished.set()
        for thread in threads:
            thread.join()
    if raised:
        raise raised[0]
