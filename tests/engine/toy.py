"""A toy language, a target that speaks it, the trainer's files of it, and heads of every kind that learned it.

The language is one period over and over; what follows depends on the last two or three
tokens, so a head has something to learn, and learns it in seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from engine.drafting.drafter import Drafter, TreeLimits
from engine.heads.checkpoint import Checkpoint, Eagle1Checkpoint, Eagle3Checkpoint
from engine.heads.choosing import Answer, answer
from engine.heads.config import Eagle1Config, Eagle3Config
from engine.heads.medusa import MedusaCheckpoint, MedusaConfig
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder
from engine.models.loading import TensorSource
from engine.training.draft_vocabulary import choose, count
from engine.training.eagle1 import Eagle1Recipe
from engine.training.eagle3 import Eagle3Recipe
from engine.training.features import FeatureStore, Prompt, Reply, write_prefix, write_shard
from engine.training.final_state import FinalState
from engine.training.loop import Trainer, TrainSettings
from engine.training.medusa import MedusaRecipe
from engine.training.recipe import Recipe
from engine.tree import DraftTree
from engine.verification import verify
from tests.engine import tiny

PREFIX = [1, 2, 3]
SETTINGS = TrainSettings(
    steps=40,
    batch_rows=160,
    fractions=(1.0, 0.8, 0.6),
    learning_rate=1e-2,
    matrix_learning_rate=2e-2,
    warmup=5,
    average=0.9,
    evaluate_every=1000,
)
"""Enough for a language of a dozen words."""


def write_store(
    folder: Path,
    taps: Sequence[int],
    states: Callable[[list[int]], Tensor],
    shards: Sequence[Sequence[Sequence[int]]],
    vocabulary: int,
    asked: int = 4,
) -> None:
    """What the trainer reads, as its replies stage writes it. ``states`` gives those of a whole text,
    prefix included [tokens, taps * hidden]; the first ``asked`` tokens of a text are its prompt."""
    folder.mkdir()
    write_prefix(folder, PREFIX, states(PREFIX).bfloat16(), taps)
    row = 0
    for number, texts in enumerate(shards):
        prompts, replies = [], []
        for index, text in enumerate(texts):
            tokens = torch.tensor(list(text))
            given = states([*PREFIX, *text])[len(PREFIX) :].bfloat16()
            prompts.append(Prompt(row, tokens[:asked], given[:asked]))
            said, following = tokens[asked:-1], tokens[asked + 1 :]
            top = torch.stack([following, (following + 1) % vocabulary], 1)
            logs = torch.tensor([[0.9, 0.1]]).log().expand(len(said), 2)
            replies.append(Reply(index, said, following, given[asked:-1], top, logs, float(index % 2)))
            row += 1
        write_shard(folder / f"shard-{number:04d}.safetensors", prompts, replies)


# --------------------------------------------------------------------------- a target

VOCABULARY, HIDDEN, LAYERS, TAPS = 32, 32, 2, (0, 1, 2)
PERIOD = [4, 9, 7, 12, 4, 9, 5, 12, 7, 4, 5, 9, 12, 5, 7]
KNOWN = 4
"""After this many tokens it is clear where in the period a text stands."""


def text(start: int, length: int) -> list[int]:
    return [*PREFIX, *(PERIOD[(start + i) % len(PERIOD)] for i in range(length))]


def trained_target() -> Any:
    """transformers' Llama of two layers, taught the language."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=64,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sequences = torch.tensor([text(start, 30) for start in range(len(PERIOD))])
    known = len(PREFIX) + KNOWN
    for _ in range(200):
        logits = model(sequences).logits[:, known:-1]
        loss = functional.cross_entropy(logits.flatten(0, 1), sequences[:, known + 1 :].flatten())
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        if loss < 0.01:
            return model.eval()
    raise AssertionError(f"the target did not learn the language: {loss}")


def states_of(target: Any) -> Callable[[list[int]], Tensor]:
    """The target's states at :data:`TAPS`. The last of transformers' own is behind the final norm, ours before."""

    @torch.no_grad()
    def states(tokens: list[int]) -> Tensor:
        last: list[Tensor] = []
        hook = target.model.norm.register_forward_pre_hook(lambda _module, inputs: last.append(inputs[0]))
        out = target.model(torch.tensor([tokens]), output_hidden_states=True)
        hook.remove()
        return torch.cat([*(out.hidden_states[tap][0] for tap in TAPS[:-1]), last[0][0]], -1)

    return states


LAYER = dict[str, Any](
    hidden_size=HIDDEN,
    target_hidden_size=HIDDEN,
    intermediate_size=48,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    vocab_size=VOCABULARY,
    target_name="toy",
)
EAGLE3 = Eagle3Config(**LAYER, draft_vocab_size=8, taps=TAPS)


@dataclass(frozen=True)
class Toy:
    """The target and what was written of it; heads are trained when they are first asked for."""

    folder: Path
    """Holds ``target`` and ``data``."""
    decoder: Decoder

    @classmethod
    def make(cls, folder: Path) -> Toy:
        target = trained_target()
        tiny.save(target, folder / "target")
        texts = [text(start, 28)[len(PREFIX) :] for start in range(45)]
        write_store(folder / "data", TAPS, states_of(target), [texts], VOCABULARY, KNOWN)
        return cls(folder, tiny.float_decoder(folder / "target"))

    @property
    def table(self) -> Tensor:
        return self.decoder.weights.embedding

    @cached_property
    def prompts(self) -> tuple[list[int], ...]:
        return tuple(text(start, 6) for start in (2, 7))

    @cached_property
    def answers(self) -> tuple[Answer, ...]:
        """The target's own replies, which acceptance is measured on."""
        return tuple(answer(self.decoder, prompt, TAPS) for prompt in self.prompts)

    @cached_property
    def eagle3(self) -> Eagle3Checkpoint:
        return _are(self.trained(self.recipe("eagle3")), Eagle3Checkpoint)

    @cached_property
    def eagle3_variant(self) -> Eagle3Checkpoint:
        """Shaped like Qwen3, with the residual behind the norm."""
        recipe = self.recipe("eagle3", qk_norm=True, norm_before_residual=True)
        return _are(self.trained(recipe), Eagle3Checkpoint)

    @cached_property
    def eagle3_normed(self) -> Eagle3Checkpoint:
        """EAGLE-3.1: every norm that can stand in one head, and the norm behind the output in the recurrence."""
        norms = {"norm_before_residual": True, "norm_before_fc": True, "norm_output": True}
        return _are(self.trained(self.recipe("eagle3", qk_norm=True, **norms)), Eagle3Checkpoint)

    @cached_property
    def eagle3_tap_norms(self) -> Eagle3Checkpoint:
        """A norm for each tapped state, which excludes one over all of them."""
        return _are(self.trained(self.recipe("eagle3", fc_norm=True, norm_output=True)), Eagle3Checkpoint)

    @cached_property
    def eagle1(self) -> Eagle1Checkpoint:
        return _are(self.trained(self.recipe("eagle1")), Eagle1Checkpoint)

    @cached_property
    def medusa(self) -> MedusaCheckpoint:
        return _are(self.trained(self.recipe("medusa")), MedusaCheckpoint)

    def random(self, kind: str) -> Checkpoint:
        """A head of the same shape that has learned nothing."""
        recipe = self.recipe(kind)
        module = recipe.new()
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.ndim == 2:
                    parameter.normal_(0, 0.2, generator=generator)
        return recipe.checkpoint(module, {})

    def store(self, kind: str) -> FeatureStore:
        return FeatureStore(self.folder / "data", TAPS if kind == "eagle3" else (LAYERS,), held_out_every=5)

    def recipe(self, kind: str, **changes: Any) -> Recipe[Any]:
        store = self.store(kind)
        with TensorSource(self.folder / "target") as source:
            final = FinalState.load(DecoderConfig.from_folder(self.folder / "target"), source)
        table = self.table.bfloat16()
        if kind == "eagle3":
            config = replace(EAGLE3, **changes)
            vocabulary = choose(count(store.shards, VOCABULARY), config.draft_vocab_size)
            return Eagle3Recipe(config, store, vocabulary, torch.full((3 * HIDDEN,), 1.5), table)
        if kind == "eagle1":
            return Eagle1Recipe(Eagle1Config(**LAYER, **changes), store, 1.5, table, final)
        return MedusaRecipe(MedusaConfig(HIDDEN, VOCABULARY, 3, 1, "toy"), store, final)

    def trainer(self, recipe: Recipe[Any], folder: Path, settings: TrainSettings = SETTINGS) -> Trainer[Any]:
        kind = "eagle3" if isinstance(recipe, Eagle3Recipe) else "other"
        return Trainer(recipe, settings, self.store(kind), folder, lambda _text: None)

    def trained(self, recipe: Recipe[Any]) -> Checkpoint:
        number = len(list(self.folder.glob("run*")))
        trainer = self.trainer(recipe, self.folder / f"run{number}")
        trainer.run()
        return trainer.exported({"steps": trainer.step})


Kind = TypeVar("Kind")


def _are(checkpoint: Checkpoint, kind: type[Kind]) -> Kind:
    assert isinstance(checkpoint, kind)
    return checkpoint


# --------------------------------------------------------------------------- drafting with it


@dataclass(frozen=True)
class Stepped:
    tree: DraftTree
    path: tuple[int, ...]
    bonus: int


@torch.inference_mode()
def decode(
    decoder: Decoder, drafter: Drafter, prompt: Sequence[int], steps: int, limits: TreeLimits
) -> list[Stepped]:
    """Greedy decoding over one cache: the tree of each step, what of it was accepted, and the bonus token."""
    room = len(prompt) + steps * (limits.depth + 1) + limits.nodes
    cache = decoder.new_cache(room)

    def forward(tokens: Sequence[int], positions: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        hidden, tapped = decoder.forward(torch.tensor(tokens), positions, cache, mask, drafter.taps)
        return hidden, torch.cat(tapped, -1) if tapped else hidden

    hidden, features = forward(prompt, torch.arange(len(prompt)), None)
    cache.keep(len(prompt))
    drafter.observe(features)
    tokens = [*prompt, int(decoder.argmax(hidden[-1:])[0])]
    found = []
    for _ in range(steps):
        tree = drafter.propose(tokens, limits)
        hidden, features = forward(tree.tokens, tree.positions(cache.length), tree.mask())
        outcome = verify(tree, _Rows(decoder.argmax(hidden).tolist()))  # type: ignore[arg-type]
        rows = torch.tensor([0, *outcome.path])
        cache.keep(rows)
        drafter.observe(features[rows])
        tokens += [*(tree.tokens[node] for node in outcome.path), outcome.bonus]
        found.append(Stepped(tree, tuple(outcome.path), outcome.bonus))
    return found


@dataclass(frozen=True)
class _Rows:
    """The target's most likely token after each row of a tree."""

    best: list[int]

    def choose(self, node: int) -> int:
        return self.best[node]


def tokens_a_step(steps: Sequence[Stepped]) -> float:
    return 1 + sum(len(step.path) for step in steps) / len(steps)
