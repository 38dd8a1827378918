"""A tiny random target with Gemma 3's true architecture, and a random head for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from engine.drafting.drafter import TreeLimits
from engine.drafting.method import Equipment
from engine.drafting.registry import methods_for
from engine.generation import Session
from engine.heads.checkpoint import Eagle3Checkpoint
from engine.heads.config import Eagle3Config
from engine.heads.eagle3 import Eagle3Head
from engine.heads.eagle3_inference import Eagle3Inference
from engine.heads.projections import dense_linear
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder
from engine.models.loading import TensorSource
from engine.models.quantise import int8_weights, quantise
from engine.models.weights import float_weights

VOCABULARY = 96
WINDOW = 16
BYTES = 260
"""Vocabulary of :func:`save_with_tokenizer`."""
LIMITS = TreeLimits(nodes=8, depth=3, top_k=3)


def reference(kv_heads: int = 1, seed: int = 0, vocabulary: int = VOCABULARY) -> Any:
    """transformers' own model, float32, with sharp enough logits to be decided."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(seed)
    config = Gemma3TextConfig(
        vocab_size=vocabulary,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=7,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        head_dim=16,
        query_pre_attn_scalar=16,
        sliding_window=WINDOW,
        max_position_embeddings=1024,
        attn_implementation="eager",
        bos_token_id=2,
        eos_token_id=1,
        pad_token_id=0,
    )
    model = Gemma3ForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.normal_(0, 0.2)
            else:
                parameter.normal_(0, 0.25)
    return model


def save(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def float_decoder(folder: Path) -> Decoder:
    config = DecoderConfig.from_folder(folder)
    return Decoder(config, float_weights(config, TensorSource(folder)))


def int8_decoder(folder: Path) -> Decoder:
    config = DecoderConfig.from_folder(folder)
    weights = float_weights(config, TensorSource(folder))
    generator = torch.Generator().manual_seed(5)
    text = torch.randint(2, VOCABULARY, (300,), generator=generator)
    with torch.inference_mode():
        return Decoder(config, int8_weights(config, quantise(config, weights, text), weights.embedding))


def save_with_tokenizer(folder: Path) -> Path:
    """A whole model folder: 256 bytes and a few special tokens as vocabulary, and a chat template."""
    return write_tokenizer(save(reference(vocabulary=BYTES), folder))


def write_tokenizer(folder: Path) -> Path:
    """The tokenizer of :func:`save_with_tokenizer` beside any model of at least :data:`BYTES` tokens."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Backend

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {name: index for index, name in enumerate(["<pad>", "<eos>", "<bos>", "<unk>", *alphabet])}
    backend = Backend(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(name, special=True) for name in ("<pad>", "<eos>", "<bos>", "<unk>")])
    backend.save(str(folder / "tokenizer.json"))
    template = "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    settings = {"bos_token": "<bos>", "eos_token": "<eos>", "chat_template": template}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def checkpoint(
    seed: int = 1, draft_vocabulary: int = 48, vocabulary: int = VOCABULARY
) -> Eagle3Checkpoint:
    torch.manual_seed(seed)
    config = Eagle3Config(
        hidden_size=64,
        target_hidden_size=64,
        intermediate_size=80,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        draft_vocab_size=draft_vocabulary,
        vocab_size=vocabulary,
        taps=(2, 4, 6),
    )
    head = Eagle3Head(config)
    with torch.no_grad():
        for name, parameter in head.named_parameters():
            if "norm" in name:
                parameter.normal_(1, 0.2)
            else:
                parameter.normal_(0, 0.15)
    ids = torch.randperm(vocabulary)[:draft_vocabulary].sort().values
    return head.to_checkpoint(ids, torch.float32)


def head(decoder: Decoder, seed: int = 1) -> Eagle3Inference:
    return Eagle3Inference(checkpoint(seed), decoder.weights.embedding, dense_linear)


def session(decoder: Decoder, with_head: bool = True, limits: TreeLimits = LIMITS, context: int = 256) -> Session:
    equipment = Equipment(decoder, context, head(decoder) if with_head else None)
    return Session(decoder, methods_for(equipment), limits, context)
