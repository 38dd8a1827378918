"""How much to draft, step by step, and when not to: whatever gives the most tokens a second.

The pilot remembers recent guesses (:mod:`engine.calibration.outlook`) and times (:mod:`engine.calibration.timing`),
asks what other sizes would have brought, and now and then drafts a larger tree to know
about that too.

Drafting that loses is stopped early, by what it has cost so far and by what the next step
would cost if nothing of it were accepted (:mod:`engine.calibration.ledger`). It is tried again after
a pause, twice as long each time that it still does not pay, and only when that can be afforded.
Texts differ: what was too hard to guess in one reply may be easy in the next, so a new reply
ends a pause early. A new try begins with small trees, which cost little if nothing comes of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from time import perf_counter

from engine.calibration.experience import ENOUGH, KEPT, Learned
from engine.calibration.ledger import CAP, RETRY, Ledger
from engine.calibration.outlook import Outlook, View
from engine.calibration.timing import Clock, Timing, sample_of
from engine.calibration.tuning import Tuning, Tunings
from engine.drafting.drafter import Options, TreeLimits
from engine.tree import DraftTree

EVERY = 32
"""Steps from one choice of sizes to the next."""
EXPLORE, EXPLORE_LATER, LATER = 12, 24, 96
"""Every so many steps, a tree that is larger than the best known one; less often from a number on."""
PLAIN_FIRST, PLAIN_EVERY = 4, 64
"""A plain step at the very first, so that its cost is known, then after so many steps, ever more seldom."""
LUCK = 1.15
"""Gain from which a run of losses is taken for bad luck, once."""
HOPELESS = 0.95
"""Promised gain below which drafting does not even begin."""
HORIZON = 64
"""Tokens within which reading the prompt must have paid."""
PAUSE, LONGEST_PAUSE = 24, 768
"""Tokens of plain decoding before the first new try, and at most where it can be afforded."""
FRESH = 6
"""Tokens of plain decoding at the beginning of a reply that ends a pause."""
HICCUP = 1.5
"""A pass or a proposal that takes more than so many times what it should met one."""
FAILURES = 3
"""Attempts in a row that may fail before new replies count for less."""
PROBES, PROBE_NODES, PROBE_DEPTH = 3, 4, 3
"""Steps of a first or new try with a small tree, and its sizes."""
_NODES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64)
_WORTH = (0.0, 0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4)
_DEPTHS = tuple(range(1, 11))


@dataclass(frozen=True, slots=True)
class Freedom:
    """Which sizes are the pilot's to choose; the others were asked for."""

    nodes: bool
    depth: bool
    worth: bool

    @classmethod
    def of(cls, weighs: bool, options: Options) -> Freedom:
        """The sizes that the method has and the user left open; whether its drafter ``weighs`` nodes."""
        nodes = "nodes" in options and options["nodes"] is None
        return cls(nodes, "depth" in options and options["depth"] is None, nodes and weighs)


class Pilot:
    """For one method in one session."""

    def __init__(
        self,
        timing: Timing,
        method: str,
        limits: TreeLimits,
        freedom: Freedom,
        name: str = "Drafting",
        tunings: Sequence[Tuning] = (),
        now: Callable[[], float] = perf_counter,
        begin: Tuning | None = None,
        promise: bool = True,
        experienced: bool = False,
        weighs: bool = True,
    ) -> None:
        """``limits`` hold what was asked for, and where to begin with the rest. ``name`` is the
        method's, for people; ``tunings`` are combinations of settings that only trials can judge, of
        which ``begin`` is in use at first; ``now`` tells the seconds that choosing takes. ``promise``:
        the timing's samples are of steps like those to come; ``experienced``: they are even of earlier
        chats, and nothing has to be tried out. ``weighs``: the drafter lets in the likeliest guesses first, see :func:`engine.calibration.timing.sample_of`."""
        self.method = method
        self._now = now
        self.name = name
        self.clock = Clock(timing, method)
        self.limits = limits
        self._freedom = freedom
        self._experienced = experienced
        self._weighs = weighs
        sizes = asdict(limits).items()
        start = next((place for place, tuning in enumerate(tunings) if tuning.items() <= sizes), 0)
        known = begin is not None and begin in tunings
        if begin is not None and known:
            start = list(tunings).index(begin)
        self._tunings = Tunings(tunings, start, timing.samples.get(method, ()))
        self.clock.tuning = start
        self._real = 0
        """Drafted steps so far,"""
        self._chosen_at = -1
        """and how many there were at the last choice."""
        self._pause = PAUSE
        self._failures = self._passed_by = 0
        """Attempts that failed since one that did not, and replies that went by since the last one."""
        self._lucky = promise
        """Whether a bad run may still be taken for bad luck."""
        self._left = 0
        """Tokens until the end of the pause; 0 while drafting."""
        self._resumes = False
        """Whether the next proposal is the first one after a pause."""
        self._probes = 0
        """Steps of a new try that are still to be small."""
        self.outlook: Outlook | None = None
        self._base_gain: float | None = None
        self._known_loss: float | None = None
        self.notice = ""
        """What was said last of a pause or its end; empty while there is nothing to say."""
        self._news = ""
        self.ledger = Ledger()
        if known:
            self.limits = self._with_tuning(limits)
        if len(self._tunings.memory):
            self._choose()
        gain = self.gain
        self.ledger = Ledger(promised=promise and gain is not None and gain > LUCK)
        if gain is not None and gain < HOPELESS and timing.steady:
            self._stop()
        elif not (experienced and timing.steady):
            self._probes = PROBES

    @property
    def paused(self) -> bool:
        return self._left > 0

    @property
    def tuning(self) -> Tuning:
        """Settings of the method, and further limits, that go with the present choice."""
        return self._tunings.values[self._tunings.at]

    @property
    def gain(self) -> float | None:
        """Promised tokens a second over those of plain decoding; None while nothing is known."""
        return self.outlook.gain if self.outlook is not None else None

    @property
    def choice(self) -> tuple[object, ...]:
        """Changes when anything about the choice changes."""
        return self.method, self.limits, self.paused, tuple(self.tuning.items())

    def learned(self) -> Learned | None:
        """What the next chat should know; None while there is too little of it."""
        if self._real < (1 if self._experienced else ENOUGH) or self._tunings.on_trial:
            return None
        count = KEPT if self._experienced else min(KEPT, self._real)  # what was seen at load is no chat
        return Learned(self._tunings.memory.last(count), self.tuning)

    def view(self) -> View:
        """What is remembered, at present costs."""
        return self._tunings.memory.view(self.clock)

    def begin_reply(self) -> None:
        """Another text begins. What is left of a pause was for the last one; but where one text after the
        other was too hard, only every second, fourth, … new one is a reason to try."""
        if not self.paused or not self.ledger.tokens:
            return
        self._passed_by += 1
        if self._passed_by < 1 << min(max(0, self._failures - FAILURES), 6):
            return
        self._pause = PAUSE
        if self.ledger.room >= self._attempt():
            gain = self.gain
            hopeless = gain is not None and gain < HOPELESS
            self._left = min(self._left, max(FRESH, self._left // 2) if hopeless else FRESH)

    def plan(self, unread: int = 1) -> TreeLimits | None:
        """Limits of the next tree; None for a plain step. The drafter has ``unread`` known tokens to
        read before its proposal."""
        if self.paused or self.clock.since_plain >= self._plain_due():
            return None
        reading, room = self._steps(self.clock.reading(unread)), self.ledger.room - self._loss()
        if room < 0 or reading > max(room, self._repaid() - self.ledger.lent):
            self._stop()
            return None
        if self._resumes:
            self._resumes = False
            self.ledger.begin_again(reading)
            self._probes = PROBES
            self._say(f"{self.name} is tried again.")
        if self._probes:
            self._probes -= 1
            return self._smaller(self.limits)
        every = EXPLORE if self._real < LATER else EXPLORE_LATER
        explores = self._real % every == every - 1 and self.ledger.balance >= CAP / 4
        return self._larger(self.limits) if explores else self.limits

    def learn(
        self,
        tree: DraftTree | None,
        path: tuple[int, ...],
        emitted: int,
        draft: float,
        rest: float,
        limits: TreeLimits | None,
        unread: int = 1,
    ) -> str:
        """After a step of ``draft`` + ``rest`` seconds; a sentence for the user when drafting pauses, or
        is tried again.

        ``limits`` are those of the proposal, as planned or tighter; None where there was none.
        ``unread`` is what the drafter had to read for it.
        """
        rows = len(tree) if tree is not None else 1
        self.clock.saw_pass(rows, rest)
        self.ledger.tokens += emitted
        if self.paused:
            self._left -= min(emitted, self._left)
            self._resumes = not self.paused
        if limits is None:
            return self._told()
        reading = self.clock.saw_draft(tree.depth if tree is not None else 1, draft, unread)
        self._tunings.memory.add(sample_of(tree, path, limits, self._weighs))
        self._real += 1
        # A hiccup is nobody's loss, nor is a machine that slows down as a whole.
        rest = min(rest, HICCUP * self.clock.passing(rows))
        if self.clock.knows_drafting:
            draft = min(draft, reading + HICCUP * self.clock.drafting(tree.depth if tree is not None else 1))
        self.ledger.book(emitted, self._steps(draft - reading + rest))
        self.ledger.lend(self._steps(reading))
        if self.ledger.balance >= CAP / 2:
            self._pause, self._lucky, self._failures = PAUSE, True, 0
        if self.ledger.balance < 0:
            self._stop()
        elif self._tunings.step():
            self._try_tunings()
        elif self._real % EVERY == 0:
            self._choose()
        return self._told()

    # ------------------------------------------------------------------ when to stop

    def _steps(self, seconds: float) -> float:
        """In plain steps."""
        return seconds / self.clock.passing(1)

    def _plain_due(self) -> int:
        """Steps that may go by without a plain one."""
        passes = self.clock.plain_passes
        return min(PLAIN_EVERY, PLAIN_FIRST << min(passes - 1, 8)) if passes else 0

    def _loss(self) -> float:
        """What a step costs beyond a plain one if nothing is accepted."""
        if self.outlook is not None:
            self._known_loss = self._steps(self.outlook.seconds) - 1
            return self._known_loss
        if self._known_loss is not None:  # other settings are on trial
            return 2 * self._known_loss
        return self._steps(self.clock.drafting(self.limits.depth) + self.clock.passing(self.limits.nodes)) - 1

    def _attempt(self) -> float:
        """What a new try may cost."""
        return max(RETRY, self._loss())

    def _repaid(self) -> float:
        """What drafting is believed to save soon."""
        gain = self.gain
        return HORIZON * (1 - 1 / gain) if gain is not None and gain > LUCK else 0.0

    def _stop(self) -> None:
        """Pause, or go on once more where all that is remembered says that this was bad luck."""
        if self._real != self._chosen_at:  # choosing takes a good part of a step: never twice on the same
            self._choose()
        gain = self.gain
        if self._tunings.on_trial and self.ledger.room > 0:
            self._tunings.end(gain, self._base_gain)
            self._take_tuning()
            self.ledger.begin_again(0.0)
            return
        if self._lucky and gain is not None and gain > LUCK and self._loss() < self.ledger.room:
            self._lucky = False
            self.ledger.begin_again(0.0)
            return
        self.ledger.close()
        per_token = self._steps(self.clock.reading(LONGEST_PAUSE)) / LONGEST_PAUSE
        wait = self.ledger.wait_for(self._attempt(), per_token)
        self._left = max(self._pause, LONGEST_PAUSE if wait is None else wait)
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        how = "stays switched off" if self._resumes else "pauses"
        self._failures += 1
        self._passed_by = 0
        self._resumes = False
        self._tunings.after_failure(gain)
        self._take_tuning()
        self._say(
            f"{self.name} {how}: it makes the reply slower here. It is tried again after {self._left} tokens."
        )

    def _say(self, words: str) -> None:
        self.notice = self._news = words

    def _told(self) -> str:
        news, self._news = self._news, ""
        return news

    # ------------------------------------------------------------------ settings that need a trial

    def _try_tunings(self) -> None:
        """Begin a trial where what was saved can pay for it, or draw the conclusion from one."""
        if not self._tunings.on_trial:
            if self.ledger.lost < 0 and self.ledger.balance >= CAP / 2:
                self._choose()
                self._base_gain = self.gain
                self._tunings.begin()
                self._take_tuning()
            return
        self._choose()
        self._tunings.end(self.gain, self._base_gain)
        self._take_tuning()

    def _take_tuning(self) -> None:
        if self.clock.tuning == self._tunings.at:
            return
        self.clock.tuning = self._tunings.at
        self.limits = self._with_tuning(self.limits)
        self.outlook = None
        self._choose()

    def _with_tuning(self, limits: TreeLimits) -> TreeLimits:
        sizes = {
            name: value for name, value in self.tuning.items() if name in TreeLimits.__dataclass_fields__
        }
        return replace(limits, **sizes)  # type: ignore[arg-type]

    # ------------------------------------------------------------------ sizes

    def _choose(self) -> None:
        """The sizes with the best rate: nodes and worth together, since each bounds the other, then
        depth, and once more."""
        began = self._now()
        self._chosen_at = self._real
        view = self.view()
        present = self.limits
        best = view.outlook(present, present)
        for _ in range(2):
            before = best
            for candidates in self._candidates(best.limits if best else present):
                for found in view.outlooks(candidates, present):
                    if found is not None and (best is None or found.gain > best.gain * self._margin(best)):
                        best = found
            if best is before:
                break
        if best is not None:
            self.limits, self.outlook = best.limits, best
        self.ledger.charge(self._steps(self._now() - began))

    def _margin(self, best: Outlook) -> float:
        """A change must promise something; what is less is within the noise."""
        return 1.02 if best.limits == self.limits else 1.0

    def _candidates(self, around: TreeLimits) -> Iterator[list[TreeLimits]]:
        nodes = _NODES if self._freedom.nodes else (around.nodes,)
        worths = _WORTH if self._freedom.worth else (around.worth,)
        yield [replace(around, nodes=n, worth=worth) for n in nodes for worth in worths]
        if self._freedom.depth:
            yield [replace(around, depth=depth) for depth in _DEPTHS]

    def _smaller(self, limits: TreeLimits) -> TreeLimits:
        free = self._freedom
        return replace(
            limits,
            nodes=min(PROBE_NODES, limits.nodes) if free.nodes else limits.nodes,
            depth=min(PROBE_DEPTH, limits.depth) if free.depth else limits.depth,
        )

    def _larger(self, limits: TreeLimits) -> TreeLimits:
        free = self._freedom
        return replace(
            limits,
            nodes=min(_NODES[-1], limits.nodes + limits.nodes // 2 + 2) if free.nodes else limits.nodes,
            depth=min(_DEPTHS[-1], limits.depth + 2) if free.depth else limits.depth,
            worth=limits.worth / 2 if free.worth else limits.worth,
        )
