"""`make shapes`: how much of the code runs in one mode alone, as a single node or as a cluster, in the same story."""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.cluster.roles import Counts, cluster, ground
from tests.running import asap
from tests.shapes.counted import counts, files
from tests.shapes.measured import MODES, all_lines, measured
from tests.shapes.page import PAGE, written
from tests.shapes.story import CONFIG, Shop, first_half, second_half


def as_a_single_node(folder: Path) -> None:
    """The story told to one process, which is started twice."""
    shop = Shop()
    with asap(folder, CONFIG) as one:
        first_half(one, one, shop)
        assert one.stop() == 0, one.log()[-2000:]
    with asap(folder, CONFIG) as one:
        second_half(one, one, shop)
        assert one.stop() == 0, one.log()[-2000:]


def as_a_cluster(folder: Path) -> None:
    """The same, told to roles that are started twice; the second worker joins late."""
    shop = Shop()
    with ExitStack() as stack:
        below = stack.enter_context(ground("everysec", "everysec"))
        many = stack.enter_context(cluster(folder, below, CONFIG, Counts(1, 1, 1, 2)))
        first_half(many.ingests[0].running, many.query_engines[0].running, shop)
        for role in many.roles:
            assert role.stop() == 0, role.log[-2000:]
            role.start()
        many.await_ready()
        second_half(many.ingests[0].running, many.query_engines[0].running, shop)
        for role in many.roles:
            assert role.stop() == 0, role.log[-2000:]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for mode, tell in zip(MODES, (as_a_single_node, as_a_cluster), strict=True):
            print(f"shapes: {mode}", file=sys.stderr, flush=True)
            with measured(folder / "lines", mode):
                tell(folder / mode.replace(" ", "-"))
        found = files(all_lines(folder / "lines"))
    PAGE.write_text(written(PAGE.read_text("utf-8"), found))
    print(f"{counts(found).share:.1%} of all lines ran in one mode alone: {PAGE}")


if __name__ == "__main__":
    main()
