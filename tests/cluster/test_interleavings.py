"""Whatever the order of appends, ticks, kills, stolen leases and trims: no pane is wrong, and no final one changes."""

from random import Random

import pytest

from tests.cluster.shard_story import Story
from tests.servers import RedisServer


@pytest.mark.parametrize("seed", range(20))
def test_every_pane_is_exactly_what_was_accepted_in_its_reach(redis: RedisServer, seed: int) -> None:
    story = Story(redis.url, Random(seed))
    for _ in range(400):
        story.step()
    story.calm()
    assert story.wrong() == []
    state = story.shard.state()
    assert state is not None
    assert state.final_ms == state.floor_ms
    assert len(story.final) > 5
    story.shards.close()
