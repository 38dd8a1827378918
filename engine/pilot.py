"""How much to draft, step by step, and when not to: whatever gives the most tokens a second.

The pilot remembers recent guesses (:mod:`engine.outlook`) and times (:mod:`engine.timing`),
asks what other sizes would have brought, and now and then drafts a larger tree to know
about that too.

Drafting that loses is stopped early by a balance, in units of one plain step: what each
step gained or lost against plain decoding, never above a cap, so that a good past does
not pay for a bad present. When it is used up, drafting pauses, twice as long each time
that it still does not pay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from engine.drafting.drafter import Drafter, Options, TreeLimits
from engine.outlook import Memory, Outlook, View
from engine.timing import Clock, Timing, sample_of
from engine.tree import DraftTree

EVERY = 32
"""Steps from one choice of sizes to the next."""
EXPLORE, EXPLORE_LATER, LATER = 12, 24, 96
"""Every so many steps, a tree that is larger than the best known one; less often from a number on."""
PLAIN_FIRST, PLAIN_EVERY = 4, 64
"""After so many steps a plain one, so that its cost is known: soon at first, then ever more seldom."""
BALANCE, CAP, RETRY = 3.0, 6.0, 1.5
"""Plain steps that may be lost: at first, ever, and after a pause."""
LUCK = 1.15
"""Gain from which a run of losses is taken for bad luck, once."""
PAUSE, LONGEST_PAUSE = 48, 768
"""Tokens of plain decoding before the first new try, and at most."""
_NODES = (2, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_WORTH = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
_DEPTHS = tuple(range(1, 11))


@dataclass(frozen=True, slots=True)
class Freedom:
    """Which sizes are the pilot's to choose; the others were asked for."""

    nodes: bool
    depth: bool
    worth: bool

    @classmethod
    def of(cls, drafter: Drafter, options: Options) -> Freedom:
        """The sizes that the method has and the user left open."""
        nodes = "nodes" in options and options["nodes"] is None
        return cls(nodes, "depth" in options and options["depth"] is None, nodes and drafter.weighs)


class Pilot:
    """For one method in one session."""

    def __init__(self, timing: Timing, method: str, limits: TreeLimits, freedom: Freedom) -> None:
        """``limits`` hold what was asked for, and where to begin with the rest."""
        self.method = method
        self.clock = Clock(timing, method)
        self.limits = limits
        self._freedom = freedom
        self._memory = Memory(timing.samples.get(method, ()))
        self._real = 0
        self._planned = limits
        self._asked = False
        self._balance = BALANCE
        self._pause = PAUSE
        self._lucky = True
        """Whether a bad run may still be taken for bad luck."""
        self._left = 0
        """Tokens until the end of the pause; 0 while drafting."""
        self.outlook: Outlook | None = None
        self.notice = ""
        """What was said last of a pause or its end; empty while there is nothing to say."""
        if len(self._memory):
            self._choose()

    @property
    def paused(self) -> bool:
        return self._left > 0

    def view(self) -> View:
        """What is remembered, at present costs."""
        return self._memory.view(self.clock)

    def plan(self) -> TreeLimits | None:
        """Limits of the next tree; None for a plain step."""
        plain_due = min(PLAIN_EVERY, PLAIN_FIRST << min(self.clock.plain_passes, 8))
        self._asked = not self.paused and self.clock.since_plain < plain_due
        if not self._asked:
            return None
        self._planned = self.limits
        every = EXPLORE if self._real < LATER else EXPLORE_LATER
        if self._real % every == every - 1:
            self._planned = self._larger(self.limits)
        return self._planned

    def learn(
        self,
        tree: DraftTree | None,
        path: tuple[int, ...],
        emitted: int,
        draft: float,
        rest: float,
        first: bool,
    ) -> str:
        """After a step of ``draft`` + ``rest`` seconds; a sentence for the user when drafting pauses.

        ``first`` marks a reply's first draft, in which the drafter also reads the prompt.
        """
        rows = len(tree) if tree is not None else 1
        self.clock.saw_pass(rows, rest)
        if self.paused:
            self._left -= min(emitted, self._left)
            return ""
        if not self._asked:
            return ""
        levels = tree.depth if tree is not None else 0
        if first:
            draft = self.clock.drafting(levels)
        else:
            self.clock.saw_draft(levels, draft)
        self._remember(tree, path)
        # A hiccup is nobody's loss, nor is a machine that slows down as a whole.
        rest = min(rest, 1.5 * self.clock.passing(rows))
        self._balance = min(CAP, self._balance + emitted - (draft + rest) / self.clock.passing(1))
        if self._balance >= BALANCE:
            self._pause, self._lucky = PAUSE, True
        if self._balance < 0:
            return self._stop()
        if self._real % EVERY == 0:
            self._choose()
        return ""

    def _remember(self, tree: DraftTree | None, path: tuple[int, ...]) -> None:
        self._memory.add(sample_of(tree, path, self._planned))
        self._real += 1

    def _stop(self) -> str:
        """Pause, or go on once more where all that is remembered says that this was bad luck."""
        self._choose()
        if self._lucky and self.outlook is not None and self.outlook.gain > LUCK:
            self._lucky, self._balance = False, RETRY
            return ""
        self._left = self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._balance = RETRY
        self.notice = (
            f"Drafting pauses: it makes the reply slower here. It is tried again after {self._left} tokens."
        )
        return self.notice

    # ------------------------------------------------------------------ sizes

    def _choose(self) -> None:
        """The sizes with the best rate: nodes and worth together, since each bounds the other, then
        depth, and once more."""
        view = self.view()
        present = self.limits
        best = view.outlook(present, present)
        for _ in range(2):
            for candidates in self._candidates(best.limits if best else present):
                for candidate in candidates:
                    found = view.outlook(candidate, present)
                    if found is not None and (best is None or found.gain > best.gain * self._margin(best)):
                        best = found
        if best is not None:
            self.limits, self.outlook = best.limits, best

    def _margin(self, best: Outlook) -> float:
        """A change must promise something; what is less is within the noise."""
        return 1.02 if best.limits == self.limits else 1.0

    def _candidates(self, around: TreeLimits) -> Iterator[list[TreeLimits]]:
        nodes = _NODES if self._freedom.nodes else (around.nodes,)
        worths = _WORTH if self._freedom.worth else (around.worth,)
        yield [replace(around, nodes=n, worth=worth) for n in nodes for worth in worths]
        if self._freedom.depth:
            yield [replace(around, depth=depth) for depth in _DEPTHS]

    def _larger(self, limits: TreeLimits) -> TreeLimits:
        free = self._freedom
        return replace(
            limits,
            nodes=min(_NODES[-1], limits.nodes + limits.nodes // 2 + 2) if free.nodes else limits.nodes,
            depth=min(_DEPTHS[-1], limits.depth + 2) if free.depth else limits.depth,
            worth=limits.worth / 2 if free.worth else limits.worth,
        )
