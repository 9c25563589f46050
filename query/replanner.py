"""Plans again what is kept, from what queries asked, and puts it in force.

    something is repeated that was not     at the next run: planned with all else, from the cardinalities known
    each interval                          all cardinalities are measured anew

What a pinned aggregation serves is not planned for; what finds no series here waits for the next interval. An
aggregation that no plan has wanted for `retire_ms` is let go of, and before if another, which answers all that it does,
has come to hold all of its panes. If queries were given it in that time it stays for its older panes, as far as the
budget goes beside all else.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from precompute.aggregations import Aggregation
from precompute.catalog import Coverage, cover
from precompute.clock import Clock
from precompute.definitions import Kept
from precompute.errors import LimitExceeded
from precompute.in_force import MOST, PlanInForce
from precompute.pane_book import NONE
from precompute.planner.cost import FREE, Cost
from precompute.planner.demand import Demand, Member
from precompute.planner.finer import answers_all
from precompute.planner.measured import Measured
from precompute.planner.plan import Plan, PlannerSettings, over, plan
from precompute.planner.report import lines
from precompute.stores.base import StoreError
from query.tracker import Tracker

logger = logging.getLogger(__name__)

_LOGGED = 40
"""Lines of a plan in the log at most."""


@dataclass(frozen=True)
class ReplanOptions:
    """interval_ms: between plans of all. retire_ms: how long what is wanted no longer is kept."""

    interval_ms: int
    retire_ms: int


class Replanner:
    """`run` is called by one thread, at each tick; all else by any."""

    def __init__(
        self, tracker: Tracker, in_force: PlanInForce, settings: PlannerSettings, measured: Measured,
        options: ReplanOptions, clock: Clock,
    ) -> None:  # fmt: skip
        self.tracker, self.made, self.plans, self.waiting = tracker, Plan((), ()), 0, 0
        self._in_force, self._settings, self._measured = in_force, settings, measured
        self._options, self._clock = options, clock
        self._changes, self._whole_ms = 0, clock.now_ms()
        self._unwanted_ms: dict[str, int] = {}
        self._costs: dict[str, Cost] = {}

    def stop(self) -> None:
        """Make a plan under way end soon, with Stopped, and change nothing."""
        self._measured.stop()

    def run(self) -> None:
        """Plan if there is a reason to. Raises Stopped after `stop`."""
        self._retire()
        changes, now_ms = self.tracker.changes, self._clock.now_ms()
        whole = now_ms - self._whole_ms >= self._options.interval_ms
        if not whole and changes == self._changes:
            return
        if whole:
            self._measured.forget()
            self._whole_ms = now_ms
        going_on = {one.aggregation.id for one in self._in_force.kept if self._goes_on(one)}
        made = plan(self._open_demands(), self._settings, self._measured, going_on)
        self._changes = changes if self._put_in_force(made, now_ms) else -1
        self._tell(made)
        self.made, self.plans = made, self.plans + 1

    def _open_demands(self) -> list[Demand]:
        """What is repeated, finds series here, and is not served by what is pinned."""
        pinned = [one.aggregation for one in self._in_force.kept if one.pinned and not one.suspended]
        demands = [left for demand in self.tracker.demands() if (left := _unserved(demand, pinned)) is not None]
        self._measured.only(4 * len(demands) + 64)
        found = [demand for demand in demands if self._measured.series(demand.finest.normal.expr) != 0]
        self.waiting = len(demands) - len(found)
        return found

    def _put_in_force(self, made: Plan, now_ms: int) -> bool:
        """Whether it is; if not, it is tried again at the next run."""
        kept, wanted = {one.aggregation.id: one for one in self._in_force.kept}, made.aggregations
        others = kept.keys() - {a.id for a in wanted}
        self._unwanted_ms = {name: self._unwanted_ms.get(name, now_ms) for name in others}
        self._costs = {**{name: cost for name, cost in self._costs.items() if name in kept}, **made.costs}
        staying = {name for name, one in kept.items() if one.stays}
        new = {a.id: a for a in (*wanted, *self._leaving(kept, made, now_ms))}
        chosen = [a for name, a in new.items() if name not in staying][: max(0, MOST - len(staying))]
        same = {a.id for a in chosen} == kept.keys() - staying
        if same and all(a.retention_ms <= kept[a.id].aggregation.retention_ms for a in chosen):
            return True
        return self._switch(chosen)

    def _switch(self, chosen: Sequence[Aggregation]) -> bool:
        try:
            self._in_force.switch(chosen)
        except (StoreError, LimitExceeded) as error:
            logger.error("the new plan is not in force; it is tried again: %s", error)
            return False
        return True

    def _retire(self) -> None:
        """Let go of what no plan wants and another has taken over."""
        going = [one for one in self._in_force.kept if not one.stays]
        heirs = [one.aggregation for one in self._in_force.kept if self._goes_on(one) and not one.suspended]
        left = [one.aggregation for one in going if self._goes_on(one) or not self._taken_over(one.aggregation, heirs)]
        if len(left) < len(going):
            self._switch(left)

    def _goes_on(self, one: Kept) -> bool:
        return one.aggregation.id not in self._unwanted_ms or one.stays

    def _taken_over(self, old: Aggregation, heirs: Sequence[Aggregation]) -> bool:
        """Whether one of them, in service, answers all that it does and has all of its panes."""
        engine = self._in_force.engine
        ends = engine.ends(old)
        return any(answers_all(heir, old) and bool((engine.seen(heir, ends) != NONE).all()) for heir in heirs)

    def _leaving(self, kept: dict[str, Kept], made: Plan, now_ms: int) -> list[Aggregation]:
        """What no plan wants any more, but not for long; and what is still read, the last first, within the budget."""
        since_ms = now_ms - self._options.retire_ms
        going = [name for name in self._unwanted_ms if not kept[name].stays]
        left = [name for name in going if self._unwanted_ms[name] > since_ms]
        read = {name: self.tracker.used_ms(name) or 0 for name in going if name not in left}
        used = sum(map(self._cost, left), made.cost)
        for name in sorted(read, key=read.__getitem__, reverse=True):
            after = used + self._cost(name)
            if read[name] > since_ms and not over(after, self._settings):
                left, used = [*left, name], after
        return [kept[name].aggregation for name in left]

    def _cost(self, name: str) -> Cost:
        """As of the last plan that wanted it; nothing where none has since the start."""
        return self._costs.get(name, FREE)

    def _tell(self, made: Plan) -> None:
        """What was decided, and was not decided so before."""
        before = set(lines(_without_figures(self.made)))
        new = [line for line in lines(_without_figures(made)) if line not in before and line[0] != " "]
        for line in new[:_LOGGED]:
            logger.info("planner: %s", line)
        if len(new) > _LOGGED:
            logger.info("planner: and %d more decisions", len(new) - _LOGGED)


def _without_figures(made: Plan) -> Plan:
    """Figures change with every plan, and are no decisions."""
    return Plan(
        tuple(replace(one, weight=None) for one in made.kept), tuple(replace(one, detail="") for one in made.refused)
    )


def _unserved(demand: Demand, pinned: Sequence[Aggregation]) -> Demand | None:
    """What of it pinned aggregations do not serve; None where they serve all."""
    members = tuple(member for member in demand.members if not _served(member, pinned))
    return replace(demand, members=members) if members else None


def _served(member: Member, pinned: Sequence[Aggregation]) -> bool:
    """Whether pinned aggregations have a pane at each of its steps."""
    return isinstance(cover(member.requirement, [a for a in pinned if member.step_ms % a.width_ms == 0]), Coverage)
