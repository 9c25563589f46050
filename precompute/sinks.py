"""Where an engine's results go."""

from precompute.engines.base import Output
from precompute.stores.base import SummaryStore


class DirectSink:
    """Into a store of the same process."""

    def __init__(self, store: SummaryStore) -> None:
        self._store = store

    def send(self, output: Output) -> None:
        self._store.commit(output)
