"""The stages of ``python -m engine train``, each from files to files in the work folder.

``WORK/replies`` holds the target's replies and hidden states, ``WORK/run`` the
vocabulary, checkpoints and measurements of a training run. The finished head is
written in the public format with its card.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.errors import EngineError
from engine.heads.checkpoint import write_eagle3
from engine.heads.config import Eagle3Config
from engine.models.config import DecoderConfig
from engine.models.demo import demo_folder, demo_licence
from engine.models.loading import TensorSource
from engine.models.weights import EMBEDDING
from engine.prompting import DEMO, ChatFormat
from engine.tokenizing import Tokenizer
from engine.training.batches import state_scale
from engine.training.card import CURVES, draw_curves, read_metrics, write_card
from engine.training.draft_vocabulary import DraftVocabulary, choose, count
from engine.training.features import FeatureStore
from engine.training.loop import METRICS, Trainer, TrainSettings
from engine.training.prompts import encode_prompts, read_prompts, reply_end
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


def default_taps(layers: int) -> tuple[int, int, int]:
    """EAGLE-3's choice: the hidden states 2, L // 2 and L - 3."""
    return (2, layers // 2, layers - 3)


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
    taps = arguments.taps or default_taps(target.config.num_layers)
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
        raise EngineError(f"Nothing was trained in {arguments.work / RUN} yet.", "Run the train stage first.")
    out = arguments.out or arguments.work / "head"
    metrics = read_metrics(trainer.folder / METRICS)
    head = trainer.exported(training_facts(trainer))
    write_eagle3(out, head)
    curves = draw_curves(metrics, out / CURVES)
    if not curves:
        report("matplotlib is not installed, the card goes without curves")
    terms = demo_licence()[0] if arguments.model == DEMO else ""
    write_card(out, head.config, metrics[-1], curves, terms)
    report(f"The head is in {out}")


def make_trainer(arguments: argparse.Namespace, report: Report) -> Trainer:
    """The trainer as the options and the work folder say; resumes from its checkpoint."""
    folder = model_folder(arguments.model)
    config = DecoderConfig.from_folder(folder)
    taps = arguments.taps or default_taps(config.num_layers)
    store = FeatureStore(arguments.work / REPLIES, taps)
    ends = ChatFormat.load(DEMO if arguments.model == DEMO else folder).eos_token_ids
    vocabulary, scale = _vocabulary(arguments, store, config.vocab_size, ends, report)
    with TensorSource(folder) as source:
        embedding = source.get(EMBEDDING).to(torch.bfloat16)
    head = Eagle3Config(
        hidden_size=config.hidden_size,
        target_hidden_size=config.hidden_size,
        intermediate_size=arguments.intermediate_size,
        num_attention_heads=arguments.heads,
        num_key_value_heads=arguments.kv_heads,
        head_dim=arguments.head_dim,
        draft_vocab_size=len(vocabulary.ids),
        vocab_size=config.vocab_size,
        taps=taps,
        target_model_type=config.model_type,
        target_name=DEMO_TARGET if arguments.model == DEMO else folder.name,
    )
    settings = TrainSettings(
        steps=arguments.steps,
        batch_rows=arguments.batch_rows,
        fractions=arguments.unroll,
        learning_rate=arguments.learning_rate,
        matrix_learning_rate=arguments.matrix_learning_rate,
        evaluate_every=arguments.evaluate_every,
    )
    return Trainer(head, settings, store, vocabulary, scale, embedding, arguments.work / RUN, report)


def training_facts(trainer: Trainer) -> dict[str, object]:
    """What the card and ``config.json`` tell about a run."""
    store, settings = trainer.store, trainer.settings
    rows = store.rows(store.training)
    made = store.made_with
    facts: dict[str, object] = {}
    if "temperatures" in made:
        facts["temperatures of the replies"] = made["temperatures"]
        facts["tokens that replies were written with"] = made.get("reply_vocabulary") or trainer.config.vocab_size
    return facts | {
        "reply tokens": rows,
        "replies": len(store.training),
        "steps": trainer.step,
        "passes over the data": round(trainer.step * settings.batch_rows / max(rows, 1), 1),
        "unrolled depths": len(settings.fractions),
        "draft tokens' share of the target's probability": f"{trainer.coverage:.2%}",
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
