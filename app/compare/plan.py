"""Which reply of a comparison comes when. No Qt.

The sides take turns as A B, B A, A B, …: what drifts with time (heat, other programs) then
weighs on both alike, and where a side needs another head, it is loaded once a pair.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from app.compare.comparison import Which
from app.compare.prompts import Prompt
from app.compare.sides import SideChoice
from engine.protocol import GenerationSettings, Load

MOST_REPEATS = 10


@dataclass(frozen=True, slots=True)
class Plan:
    a: SideChoice
    b: SideChoice
    prompts: tuple[Prompt, ...]
    shared: GenerationSettings
    """Temperature, seed, length and all else that both sides have in common."""
    repeats: int = 1
    load: Load = field(default_factory=Load)
    """What is loaded, and is to be loaded again at the end."""

    def side(self, which: Which) -> SideChoice:
        return self.a if which is Which.A else self.b

    @property
    def loads(self) -> int:
        """How often a head is loaded before the last reply."""
        loaded, count = self.load, 0
        for job in jobs_of(len(self.prompts), self.repeats):
            wanted = self.side(job.which).load(self.load)
            if wanted is not None and wanted != loaded:
                loaded, count = wanted, count + 1
        return count


@dataclass(frozen=True, slots=True)
class Job:
    """One reply."""

    prompt: int
    """Numbers count from 0."""
    repeat: int
    which: Which


def jobs_of(prompts: int, repeats: int) -> list[Job]:
    """All replies in their order: a prompt's repeats follow each other, so that its reading is kept."""
    made: list[Job] = []
    first = Which.A
    for prompt in range(prompts):
        for repeat in range(repeats):
            made += [Job(prompt, repeat, first), Job(prompt, repeat, first.other)]
            first = first.other
    return made
