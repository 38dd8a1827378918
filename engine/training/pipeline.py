"""The stages of ``python -m engine train``, each from files to files in the work folder.

``WORK/replies`` holds the target's replies and hidden states, ``WORK/run`` the
vocabulary, checkpoints and measurements of a training run; other kinds than EAGLE-3 have
their runs beside it. The finished head is written in the public format with its card.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.errors import EngineError
from engine.heads.config import Eagle1Config, Eagle3Config, usual_taps
from engine.heads.medusa import MedusaConfig
from engine.heads.writing import write_head
from engine.models.config import DecoderConfig
from engine.models.demo import demo_folder, demo_licence
from engine.models.loading import TensorSource
from engine.models.weights import EMBEDDING
from engine.prompting import DEMO, ChatFormat
from engine.tokenizing import Tokenizer
from engine.training.batches import state_scale
from engine.training.card import CURVES, draw_curves, read_metrics, write_card
from engine.training.cli import EAGLE1, EAGLE3, MEDUSA
from engine.training.draft_vocabulary import DraftVocabulary, choose, count
from engine.training.eagle1 import Eagle1Recipe
from engine.training.eagle3 import Eagle3Recipe
from engine.training.features import FeatureStore
from engine.training.final_state import FinalState
from engine.training.loop import METRICS, Trainer, TrainSettings
from engine.training.medusa import MedusaRecipe
from engine.training.prompts import encode_prompts, read_prompts, reply_end
from engine.training.recipe import Recipe
from engine.training.replies import ReplySettings, ReplyWriter
from engine.training.target import BatchTarget

Report = Callable[[str], None]

REPLIES = "replies"
RUN = "run"
VOCABULARY = "vocabulary.safetensors"
DEMO_TARGET = "Gemma 3 270M"


def model_folder(model: str) -> Path:
    """Folder of the target; the demo model is prepared when needed."""
    return demo_folder() if model == DEMO else Path(model).expanduser()


def _named(arguments: argparse.Namespace, name: str) -> str:
    return name if arguments.kind == EAGLE3 else f"{name}-{arguments.kind}"


def taps_of(arguments: argparse.Namespace, layers: int) -> tuple[int, ...]:
    """The states that the head reads: those asked for; else EAGLE-3's usual three, or the last layer's
    output for the kinds that begin where the target ends."""
    if arguments.kind == EAGLE3:
        return arguments.taps or usual_taps(layers)
    if arguments.taps not in (None, (layers,)):
        raise EngineError(
            f"--taps does not go with --kind {arguments.kind}, which reads the last layer's output.",
            f"Leave it out, or name {layers} alone.",
        )
    return (layers,)


def write_replies(arguments: argparse.Namespace, report: Report) -> None:
    """Let the target answer the prompts; shards that exist are kept."""
    if arguments.prompts is None:
        raise EngineError("The replies stage needs prompts.", "Name a file with --prompts.")
    folder = model_folder(arguments.model)
    chat = ChatFormat.load(DEMO if arguments.model == DEMO else folder)
    tokenizer = Tokenizer.load(folder)
    encoded = encode_prompts(read_prompts(arguments.prompts), chat, tokenizer)
    report(f"{len(encoded.prompts)} prompts behind a prefix of {len(encoded.prefix)} tokens")
    target = BatchTarget.load(folder)
    if arguments.reply_vocabulary is not None:
        target.write_with(_ids(arguments.reply_vocabulary))
    taps = arguments.taps or taps_of(arguments, target.config.num_layers)
    settings = ReplySettings(max_new_tokens=arguments.reply_tokens)
    writer = ReplyWriter(target, encoded.prefix, taps, reply_end(chat, tokenizer), settings)
    writer.run(arguments.work / REPLIES, encoded.prompts, report, arguments.part, arguments.parts)


def train(arguments: argparse.Namespace, report: Report) -> None:
    """Train, or go on training, until the schedule or the time is over."""
    trainer = make_trainer(arguments, report)
    head = sum(parameter.numel() for parameter in trainer.head.parameters())
    report(f"{head / 1e6:.1f} M parameters, {trainer.store.rows(trainer.store.training):,} reply tokens to learn from")
    trainer.run(arguments.max_minutes)


def export(arguments: argparse.Namespace, report: Report) -> None:
    """Write the averaged head with its card and curves."""
    trainer = make_trainer(arguments, report)
    if not trainer.step:
        raise EngineError(f"Nothing was trained in {trainer.folder} yet.", "Run the train stage first.")
    out = arguments.out or arguments.work / _named(arguments, "head")
    metrics = read_metrics(trainer.folder / METRICS)
    head = trainer.exported(training_facts(trainer))
    write_head(out, head)
    curves = draw_curves(metrics, out / CURVES)
    if not curves:
        report("matplotlib is not installed, the card goes without curves")
    terms = demo_licence()[0] if arguments.model == DEMO else ""
    write_card(out, head, trainer.recipe, metrics[-1], curves, terms)
    report(f"The head is in {out}")


def make_trainer(arguments: argparse.Namespace, report: Report) -> Trainer[Any]:
    """The trainer as the options and the work folder say; resumes from its checkpoint."""
    folder = model_folder(arguments.model)
    config = DecoderConfig.from_folder(folder)
    store = FeatureStore(arguments.work / REPLIES, taps_of(arguments, config.num_layers))
    name = DEMO_TARGET if arguments.model == DEMO else folder.name
    if arguments.kind == EAGLE3:
        recipe: Recipe[Any] = _eagle3(arguments, store, folder, config, name, report)
    elif arguments.kind == EAGLE1:
        recipe = _eagle1(arguments, store, folder, config, name)
    else:
        recipe = _medusa(arguments, store, folder, config, name)
    unroll = (1.0,) * arguments.medusa_heads if arguments.kind == MEDUSA else arguments.unroll
    settings = TrainSettings(
        steps=arguments.steps,
        batch_rows=arguments.batch_rows,
        fractions=unroll,
        learning_rate=arguments.learning_rate,
        matrix_learning_rate=arguments.matrix_learning_rate,
        evaluate_every=arguments.evaluate_every,
    )
    return Trainer(recipe, settings, store, arguments.work / _named(arguments, RUN), report)


def _layer(arguments: argparse.Namespace, config: DecoderConfig, name: str) -> dict[str, Any]:
    """What the layer of an EAGLE head of either version is like."""
    return {
        "hidden_size": config.hidden_size,
        "target_hidden_size": config.hidden_size,
        "intermediate_size": arguments.intermediate_size,
        "num_attention_heads": arguments.heads,
        "num_key_value_heads": arguments.kv_heads,
        "head_dim": arguments.head_dim,
        "vocab_size": config.vocab_size,
        "target_model_type": config.model_type,
        "target_name": name,
    }


def _eagle3(
    arguments: argparse.Namespace, store: FeatureStore, folder: Path, config: DecoderConfig, name: str, report: Report
) -> Eagle3Recipe:
    ends = ChatFormat.load(DEMO if arguments.model == DEMO else folder).eos_token_ids
    vocabulary, scale = _vocabulary(arguments, store, config.vocab_size, ends, report)
    taps = taps_of(arguments, config.num_layers)
    layer = _layer(arguments, config, name)
    head = Eagle3Config(**layer, draft_vocab_size=len(vocabulary.ids), taps=taps)
    return Eagle3Recipe(head, store, vocabulary, scale, _embedding(folder))


def _eagle1(
    arguments: argparse.Namespace, store: FeatureStore, folder: Path, config: DecoderConfig, name: str
) -> Eagle1Recipe:
    final = _final_state(folder, config)
    head = Eagle1Config(**_layer(arguments, config, name), fc_bias=True)
    # The prefix is the same in every run, so the scale is too.
    scale = float(final.of(store.prefix_states).square().mean().sqrt())
    return Eagle1Recipe(head, store, scale, _embedding(folder), final)


def _medusa(
    arguments: argparse.Namespace, store: FeatureStore, folder: Path, config: DecoderConfig, name: str
) -> MedusaRecipe:
    heads = MedusaConfig(config.hidden_size, config.vocab_size, arguments.medusa_heads, 1, name)
    return MedusaRecipe(heads, store, _final_state(folder, config))


def _embedding(folder: Path) -> Tensor:
    with TensorSource(folder) as source:
        return source.get(EMBEDDING).to(torch.bfloat16)


def _final_state(folder: Path, config: DecoderConfig) -> FinalState:
    with TensorSource(folder) as source:
        return FinalState.load(config, source)


def training_facts(trainer: Trainer[Any]) -> dict[str, object]:
    """What the card and ``config.json`` tell about a run."""
    store, settings = trainer.store, trainer.settings
    rows = store.rows(store.training)
    made = store.made_with
    facts: dict[str, object] = {}
    if "temperatures" in made:
        facts["temperatures of the replies"] = made["temperatures"]
        facts["tokens that replies were written with"] = made.get("reply_vocabulary") or trainer.recipe.config.vocab_size
    return facts | {
        "reply tokens": rows,
        "replies": len(store.training),
        "steps": trainer.step,
        "passes over the data": round(trainer.step * settings.batch_rows / max(rows, 1), 1),
        "depths": len(settings.fractions),
        "draft tokens' share of the target's probability": f"{trainer.recipe.vocabulary.coverage:.2%}",
        "minutes": round(trainer.seconds / 60),
    }


def _vocabulary(
    arguments: argparse.Namespace, store: FeatureStore, vocab_size: int, ends: tuple[int, ...], report: Report
) -> tuple[DraftVocabulary, Tensor]:
    """Draft vocabulary and scale of the states: chosen once per run, then kept, since checkpoints depend on them."""
    path = arguments.work / RUN / VOCABULARY
    if path.exists():
        kept = load_file(path)
        return DraftVocabulary(kept["ids"], float(kept["coverage"]), vocab_size), kept["scale"]
    chosen = choose(count(store.shards, vocab_size), arguments.draft_vocabulary, ends)
    scale = state_scale(store)
    report(f"{len(chosen.ids)} draft tokens cover {chosen.coverage:.2%} of what the target says")
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    save_file({"ids": chosen.ids, "scale": scale, "coverage": torch.tensor(chosen.coverage)}, part)
    part.replace(path)
    return chosen, scale


def _ids(path: Path) -> list[int]:
    try:
        ids = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"{path} cannot be read as JSON: {error}.", "Name a file with a list of token ids.") from error
    if not isinstance(ids, list) or not ids or not all(isinstance(i, int) for i in ids):
        raise EngineError(f"{path} holds no list of token ids.", "Name a file with a list of token ids.")
    return ids
