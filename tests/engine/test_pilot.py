"""How much is drafted, and when it stops: in a simulated machine where the best is known by trying everything."""

from __future__ import annotations

import itertools
from dataclasses import replace
from statistics import fmean

import pytest

from engine.calibration.ledger import CAP
from engine.calibration.pilot import FRESH, PAUSE, PROBE_DEPTH, PROBE_NODES, PROBES, Freedom
from engine.calibration.timing import Clock, Timing, sample_of
from engine.drafting.drafter import TreeLimits
from engine.drafting.tree_shapes import EAGLE_MC_SIM_7B_63
from engine.tree import DraftTree
from tests.engine.simulated_machine import Machine, Pilot

BEGIN = TreeLimits(nodes=12, depth=8, top_k=3, worth=0.1)
ALL = Freedom(nodes=True, depth=True, worth=True)
FIXED = Freedom(nodes=False, depth=False, worth=False)


MACHINES = {
    "rows are cheap": Machine(row=0.01, base=0.05, level=0.05, low=0.4, high=0.95),
    "rows are dear": Machine(row=0.15, base=0.05, level=0.03, low=0.3, high=0.9),
    "the head is slow": Machine(row=0.04, base=0.1, level=0.25, low=0.4, high=0.9),
    "the machine is noisy": Machine(row=0.05, base=0.05, level=0.05, low=0.3, high=0.9, noise=1.0),
}


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_the_choice_is_near_the_best_of_all(machine: Machine) -> None:
    sweep = {}
    for nodes, depth, worth in itertools.product((4, 8, 12, 24), (2, 5, 8), (0.0, 0.1, 0.2)):
        limits = TreeLimits(nodes, depth, 3, worth=worth)
        sweep[limits] = replace(machine, seed=1).fixed(limits, 300)
    best = max(sweep, key=lambda limits: sweep[limits])
    goal = replace(machine, seed=2).fixed(best, 1500)
    # From a fair guess, and from a wrong one; both have to learn on the way.
    for begin, share in ((BEGIN, 0.95), (TreeLimits(4, 2, 3, worth=0.2), 0.92)):
        several = [replace(machine, seed=seed) for seed in range(3, 11 if machine.noise else 5)]
        rate = fmean(ours.piloted(Pilot(ours.timing(12), "m", begin, ALL), 3000) for ours in several)
        assert rate > share * goal, (begin, best, rate / goal)


class FixedShape(Machine):
    """Drafts along a tree of fixed shape: sure of itself or not, every row of it is there."""

    def step(self, limits: TreeLimits | None) -> tuple[DraftTree | None, tuple[int, ...], int, float, float]:
        if limits is None:
            return super().step(None)
        sure = self.random.uniform(self.low, self.high)
        shape = EAGLE_MC_SIM_7B_63.cut(limits.nodes, limits.depth)
        place: dict[tuple[int, ...], int] = {(): 0}
        parents, shares = [-1], [1.0]
        for path in sorted(shape.paths, key=lambda path: (len(path), path)):
            parent = place[path[:-1]]
            place[path] = len(parents)
            parents.append(parent)
            shares.append(shares[parent] * sure * (1 - sure) ** path[-1])
        found: list[int] = []
        path: tuple[int, ...] = ()
        while True:
            rank = 0
            while self.random.random() > sure and rank < 50:
                rank += 1
            path = (*path, rank)
            if path not in place:
                break
            found.append(place[path])
        tree = DraftTree(tuple(range(len(parents))), tuple(parents), tuple(shares), tuple(shares))
        draft, rest = self.base + self.level * tree.depth, self.cost(len(tree))
        self._pass_by(draft + rest, 1 + len(found))
        return tree, tuple(found), 1 + len(found), draft, rest


@pytest.mark.parametrize("row", (0.03, 0.1))
def test_sizes_of_a_fixed_shape_are_judged_in_its_own_order(row: float) -> None:
    """Cut smaller, such a tree does not keep its likeliest guesses but its first ones, likely or not."""
    machine = FixedShape(row=row, base=0.15, level=0.05, low=0.1, high=0.8)
    sizes = itertools.product((2, 4, 6, 8, 12, 20, 26), (1, 2, 3, 5))
    sweep = {size: replace(machine, seed=1).fixed(TreeLimits(*size, 3), 600) for size in sizes}
    best = max(sweep, key=lambda size: sweep[size])
    wide = TreeLimits(26, 5, 3)
    samples = []
    for _ in range(60):
        tree, path, *_ = machine.step(wide)
        samples.append(sample_of(tree, path, wide, weighs=False))
    timing = replace(machine.timing(), samples={"m": tuple(samples)})
    pilot = Pilot(timing, "m", replace(BEGIN, worth=0.0), replace(ALL, worth=False), weighs=False)
    chosen = pilot.limits.nodes, pilot.limits.depth
    speed = replace(machine, seed=1).fixed(TreeLimits(*chosen, 3), 600)
    assert speed > 0.96 * sweep[best], (chosen, best, speed, sweep[best])
    assert pilot.gain == pytest.approx(speed, rel=0.1)  # and no more is promised than comes
    ours = [replace(machine, seed=seed) for seed in (3, 4)]
    begin = replace(BEGIN, worth=0.0), replace(ALL, worth=False)
    rate = fmean(each.piloted(Pilot(timing, "m", *begin, weighs=False), 2000) for each in ours)
    assert rate > 0.93 * sweep[best], (best, rate, sweep[best])


def test_a_pause_is_told_of_and_ends() -> None:
    bad = Machine(row=0.2, base=0.5, level=0.3, low=0.0, high=0.1)
    pilot = Pilot(bad.timing(), "m", replace(BEGIN, nodes=4, depth=2), FIXED, "EAGLE-3")
    notices = []
    while not pilot.paused:
        notices.append(bad.guided(pilot))
    assert not any(notices[:-1])
    assert notices[-1].startswith("EAGLE-3 pauses") and "slower" in notices[-1]
    told = int(notices[-1].split()[-2])  # after so many tokens
    assert told >= PAUSE
    before = bad.tokens
    while pilot.paused:
        assert pilot.plan() is None and bad.guided(pilot) == ""
    assert told - 1 <= bad.tokens - before <= told
    good = Machine(row=0.02, base=0.02, level=0.02, low=0.8, high=0.95)
    assert good.guided(pilot) == "EAGLE-3 is tried again."
    good.piloted(pilot, 300)
    assert not pilot.paused
    # A good past does not pay for a bad present.
    before = bad.time - bad.tokens
    while not pilot.paused:
        bad.guided(pilot)
    assert bad.time - bad.tokens - before < 2 * CAP


def test_long_pauses_follow_repeated_failures() -> None:
    bad = Machine(row=0.2, base=0.2, level=0.1, low=0.0, high=0.1)
    pilot = Pilot(bad.timing(), "m", replace(BEGIN, nodes=3, depth=2), FIXED)
    drafted = []
    for _ in range(3000):
        before = bad.read
        bad.guided(pilot)
        drafted.append(bad.read > before)
    tries = [step for step in range(1, 3000) if drafted[step] and not drafted[step - 1]]
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert len(tries) > 3 and gaps[-1] > 5 * gaps[1] and sum(drafted) < 80


def test_a_new_reply_ends_a_pause_early_and_is_tried_with_small_trees() -> None:
    machine = Machine(row=0.06, base=0.1, level=0.04, low=0.5, high=0.9, seed=1)
    pilot = Pilot(machine.timing(24), "m", BEGIN, ALL)
    machine.piloted(pilot, 60)  # something to pay with
    machine.mood = lambda _: (0.0, 0.05)
    while not pilot.paused:
        machine.guided(pilot)
    for _ in range(4):
        machine.guided(pilot)  # the text is still the one that the pause is for
    assert pilot.paused
    machine.mood = None
    pilot.begin_reply()
    begin = machine.tokens
    while pilot.paused:
        machine.guided(pilot)
    assert machine.tokens - begin == FRESH < PAUSE - 4
    sizes = []
    while len(sizes) < PROBES + 4:
        planned = pilot.plan(machine.tokens - machine.read)
        sizes += [(planned.nodes, planned.depth)] if planned is not None else []
        pilot.learn(*machine.step(planned), planned)
    assert all(nodes <= PROBE_NODES and depth <= PROBE_DEPTH for nodes, depth in sizes[:PROBES])
    assert max(sizes[PROBES:]) > (PROBE_NODES, PROBE_DEPTH)
    left = pilot.limits
    pilot.begin_reply()
    assert pilot.limits == left and not pilot.paused  # nothing to end


def test_a_new_reply_ends_no_pause_that_the_chat_cannot_afford() -> None:
    bad = Machine(row=0.2, base=0.5, level=0.3, low=0.0, high=0.1)
    pilot = Pilot(bad.timing(), "m", BEGIN, FIXED)
    pilot.begin_reply()
    gaps = []
    while bad.tokens < 2000:
        before, drafted = bad.tokens, bad.read
        while bad.read == drafted and bad.tokens < 2000:
            if bad.tokens % 20 == 0:
                pilot.begin_reply()
            bad.guided(pilot)
        gaps.append(bad.tokens - before)
    assert max(gaps[:-1]) > 60 and bad.plain / bad.time > 0.97


def test_what_cannot_win_is_not_even_tried() -> None:
    """A drafter as dear as the model: what was measured at load is enough to know."""
    slow = Machine(row=0.05, base=0.05, level=1.0, low=0.6, high=0.9)
    pilot = Pilot(slow.timing(12), "m", BEGIN, ALL, "Draft model")
    assert pilot.paused and "Draft model" in pilot.notice and "slower" in pilot.notice
    assert slow.guided(pilot) == pilot.notice  # told with the first step
    assert slow.piloted(pilot, PAUSE) == 1.0


def test_a_drafter_that_was_timed_in_a_bad_moment_is_seen_to_be_quick() -> None:
    """At load its proposals took many times what they take: it begins paused, and one try is enough."""
    machine = Machine(row=0.05, base=0.1, level=0.04, low=0.3, high=0.8, seed=2)
    timing = machine.timing(12)
    pilot = Pilot(replace(timing, draft={"m": (2.2, 0.0)}), "m", BEGIN, ALL)
    assert pilot.paused
    while not machine.read:
        machine.guided(pilot)
    assert machine.tokens < 2 * PAUSE and not pilot.paused
    assert pilot.clock.drafting(2) < 0.3
    time, tokens = machine.time, machine.tokens
    machine.piloted(pilot, 400)
    assert (machine.tokens - tokens) / (machine.time - time) > 1.15


def test_sizes_that_were_asked_for_stay() -> None:
    machine = Machine(row=0.03, base=0.05, level=0.05, low=0.6, high=0.9)
    pilot = Pilot(machine.timing(), "m", replace(BEGIN, nodes=30), Freedom(False, True, False))
    seen = set()
    for _ in range(200):
        planned = pilot.plan()
        if planned is not None:
            seen.add((planned.nodes, planned.worth))
        pilot.learn(*machine.step(planned), planned)
    assert seen == {(30, 0.1)}


def test_the_first_draft_of_a_reply_is_no_measure() -> None:
    """It reads the prompt; a long prompt must not look like a slow drafter."""
    machine = Machine(row=0.02, base=0.02, level=0.02, low=0.7, high=0.9)
    pilot = Pilot(machine.timing(12), "m", BEGIN, ALL)
    machine.guided(pilot)  # a plain one
    planned = pilot.plan(5000)
    tree, path, emitted, _, rest = machine.step(planned)
    assert pilot.learn(tree, path, emitted, 20.0, rest, planned, 5000) == ""
    assert not pilot.paused and pilot.clock.drafting(3) < 1
    assert pilot.clock.reading(5000) == pytest.approx(20, rel=0.1)


def test_a_machine_that_slows_down_is_no_reason_to_pause() -> None:
    """Another program takes the processor for a while, again and again: forty times in these chats."""
    pauses = 0
    for seed in range(5):
        machine = Machine(row=0.06, base=0.05, level=0.03, low=0.4, high=0.9, noise=0.3, seed=seed)
        pilot = Pilot(machine.timing(12), "m", BEGIN, ALL)
        for step in range(600):
            slow = 2.5 if step // 25 % 3 == 1 else 1.0
            pauses += "pauses" in machine.guided(pilot, slow)
    assert pauses <= 1  # bad luck with the text may meet it once


def test_the_clock_tells_a_slow_machine_from_dear_rows() -> None:
    clock = Clock(Timing(((1, 1.0), (8, 2.0), (16, 4.0)), {"m": (0.1, 0.2)}, {}), "m")
    assert clock.passing(8) == 2.0 and clock.passing(12) == 3.0 and clock.passing(32) == 8.0
    assert clock.drafting(3) == pytest.approx(0.7)
    for rows in (8, 16, 1) * 4:  # everything is slower now
        clock.saw_pass(rows, 1.5 * (1.0, 2.0, 4.0)[(1, 8, 16).index(rows)])
        clock.saw_draft(2, 1.5)
    assert [clock.passing(rows) for rows in (1, 8, 16)] == pytest.approx([1.5, 3.0, 6.0])
    assert clock.drafting(2) == pytest.approx(1.5) and clock.drafting(3) == pytest.approx(1.8)
    clock.saw_pass(8, 300.0)  # one hiccup
    assert clock.passing(1) == pytest.approx(1.5)
    for _ in range(12):  # sixteen rows are dearer than the table says
        clock.saw_pass(1, 1.5)
        clock.saw_pass(16, 9.0)
    assert clock.passing(16) / clock.passing(1) == pytest.approx(6, rel=0.15)
    assert clock.since_plain == 1 and clock.plain_passes == 16
