"""One prompt, decoded plainly and by every variant in turn, so that ratios are taken within minutes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.bench.prompts import BenchPrompt
from engine.bench.rows import Row
from engine.bench.variants import PLAIN, Variant
from engine.drafting.drafter import Drafter
from engine.generation import Session, Switches
from engine.loaded import LoadedModel
from engine.looping import is_looping
from engine.protocol import Event, Generate, GenerationSettings, Message, ReplyStats, Role
from engine.reply import run_reply


@dataclass(frozen=True, slots=True)
class Answer:
    """One reply in one way of decoding."""

    token_ids: tuple[int, ...]
    stats: ReplyStats


class Bench:
    """Runs prompts through a loaded model. Each temperature keeps a session of its own, in which the
    variants adapt as they would in a chat."""

    def __init__(self, model: LoadedModel, variants: Sequence[Variant], settings: GenerationSettings) -> None:
        """``settings`` give all but method and temperature."""
        self.model = model
        self.variants = tuple(variants)
        self.settings = settings
        self.drafters: dict[Variant, Drafter] = {}
        """Of the variants that have answered; in the state of their last reply."""
        self._sessions: dict[float, Session] = {}

    def session(self, temperature: float) -> Session:
        if temperature not in self._sessions:
            # What earlier chats brought is left out: a bench is to find the same whenever it runs.
            self._sessions[temperature] = self.model.session(experienced=False)
        return self._sessions[temperature]

    def prompt_ids(self, prompt: BenchPrompt) -> list[int]:
        return self.model.prompt([Message(Role.USER, prompt.text)])

    def ask(self, prompt: BenchPrompt, temperature: float, turn: int, repeat: int = 0) -> list[Row]:
        """Plain decoding and every variant, with one seed; ``turn`` says who begins, which cancels drift.
        ``repeat`` is which answer to this prompt it is."""
        plain = Variant(PLAIN)
        ways = [plain, *self.variants]
        first = turn % len(ways)
        answers = {way: self.answer(prompt, way, temperature, turn) for way in ways[first:] + ways[:first]}
        truth = answers[plain].token_ids
        return [
            Row.of(
                prompt.name,
                prompt.category,
                temperature,
                way.label,
                answers[way].stats,
                identical=answers[way].token_ids == truth,
                looping=is_looping(truth),
                repeat=repeat,
            )
            for way in ways
        ]

    def answer(self, prompt: BenchPrompt, way: Variant, temperature: float, turn: int = 0) -> Answer:
        model = self.model
        seed = (self.settings.seed or 0) + turn
        settings = way.settings(replace(self.settings, temperature=temperature, seed=seed))
        session = self.session(temperature)
        finished = run_reply(
            session,
            model.tokenizer,
            Generate("bench", (), settings),
            self.prompt_ids(prompt),
            stop_strings=model.chat.stop_strings,
            end_tokens=model.chat.eos_token_ids,
            switches=Switches(settings.eagle),
            send=_ignore,
            trees=False,
        )
        if session.drafter is not None:
            self.drafters[way] = session.drafter
        return Answer(finished.token_ids, finished.stats)


def _ignore(_event: Event) -> None:
    pass
