"""EAGLE as published, plainly and slowly: everything is computed anew for every node and every step.

Works on the tensors of a file under the file's own names and on transformers' own
target. Sources: EAGLE (arXiv 2401.15077), EAGLE-2 (2406.16858, section 4), EAGLE-3
(2503.01840), and the variants' flags in speculators.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tests.engine.described_heads import Described


@dataclass(frozen=True)
class Step:
    """One round: the drafted paths with their probabilities, and what the target made of them."""

    tree: dict[tuple[int, ...], float]
    accepted: tuple[int, ...]
    bonus: int


class PublishedHead:
    def __init__(self, described: Described, target: Any) -> None:
        self.plain = described.plain
        self.t = described.tensors
        self.target = target
        embedding = self.t.get("embed_tokens.weight")
        self.embedding = target.get_input_embeddings().weight.detach() if embedding is None else embedding
        self.frequencies, self.magnitude = self._rope()

    def _rope(self) -> tuple[Tensor, float]:
        plain = self.plain
        dim = plain.head_dim
        base = 1.0 / plain.theta ** (torch.arange(0, dim, 2).float() / dim)
        if not plain.yarn:
            return base, 1.0
        from transformers import LlamaConfig
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        config = LlamaConfig(
            hidden_size=plain.heads * dim,
            num_attention_heads=plain.heads,
            head_dim=dim,
            max_position_embeddings=2048,
            rope_parameters={
                "rope_type": "yarn",
                "rope_theta": plain.theta,
                "factor": plain.yarn["factor"],
                "original_max_position_embeddings": int(plain.yarn["original"]),
                "beta_fast": plain.yarn["fast"],
            },
        )
        frequencies, magnitude = ROPE_INIT_FUNCTIONS["yarn"](config, torch.device("cpu"))
        return frequencies, float(magnitude)

    def norm(self, x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.plain.eps) * self.t[f"{name}.weight"]

    def linear(self, x: Tensor, name: str) -> Tensor:
        return functional.linear(x, self.t[f"{name}.weight"], self.t.get(f"{name}.bias"))

    def layer(self, name: str, x: Tensor, residual: Tensor) -> Tensor:
        """Llama's layer over one causal sequence; ``x`` is what its attention reads."""
        plain, rows = self.plain, len(x)
        angles = torch.arange(rows)[:, None].float() * self.frequencies
        cos = (torch.cat((angles, angles), -1).cos() * self.magnitude)[:, None]
        sin = (torch.cat((angles, angles), -1).sin() * self.magnitude)[:, None]

        def turned(letter: str, count: int) -> Tensor:
            v = self.linear(x, f"{name}.self_attn.{letter}_proj").view(rows, count, plain.head_dim)
            if f"{name}.self_attn.{letter}_norm.weight" in self.t:
                v = self.norm(v, f"{name}.self_attn.{letter}_norm")
            half = plain.head_dim // 2
            return v * cos + torch.cat((-v[..., half:], v[..., :half]), -1) * sin

        query, key = turned("q", plain.heads), turned("k", plain.kv_heads)
        value = self.linear(x, f"{name}.self_attn.v_proj").view(rows, plain.kv_heads, plain.head_dim)
        outs = []
        for head in range(plain.heads):
            source = head * plain.kv_heads // plain.heads
            scores = query[:, head] @ key[:, source].T / math.sqrt(plain.head_dim)
            scores = scores.masked_fill(torch.ones(rows, rows).triu(1).bool(), float("-inf"))
            outs.append(scores.softmax(-1) @ value[:, source])
        hidden = residual + self.linear(torch.cat(outs, -1), f"{name}.self_attn.o_proj")
        y = self.norm(hidden, f"{name}.post_attention_layernorm")
        gate = functional.silu(self.linear(y, f"{name}.mlp.gate_proj"))
        return hidden + self.linear(gate * self.linear(y, f"{name}.mlp.up_proj"), f"{name}.mlp.down_proj")

    def features(self, tokens: list[int]) -> Tensor:
        """What the target gives the head for every token."""
        out = self.target(torch.tensor([tokens]), output_hidden_states=True)
        if self.plain.version == 1:
            return out.hidden_states[-1][0]  # behind the final norm
        return torch.cat([out.hidden_states[tap][0] for tap in self.plain.taps], -1)

    def fuse(self, features: Tensor) -> Tensor:
        if self.plain.version == 1:
            return features
        if self.plain.fc_norm:
            parts = features.chunk(3, -1)
            features = torch.cat([self.norm(part, f"fc_norm.{i}") for i, part in enumerate(parts)], -1)
        if self.plain.norm_before_fc:
            features = self.norm(features, "input_norm")
        return self.linear(features, "fc")

    def outputs(self, states: Tensor, tokens: list[int]) -> Tensor:
        """States and the tokens that follow them, from the start: the head's state for each."""
        embedded = self.embedding[torch.tensor(tokens)]
        first = self.plain.first
        if self.plain.version == 1:
            x = self.linear(torch.cat((embedded, states), -1), "fc")
            return self.layer(first, x, x)
        normed = self.norm(states, f"{first}.hidden_norm")
        x = torch.cat((self.norm(embedded, f"{first}.input_layernorm"), normed), -1)
        hidden = self.layer(first, x, normed if self.plain.norm_before_residual else states)
        for index in range(1, self.plain.layers):
            name = f"layers.{index}"
            hidden = self.layer(name, self.norm(hidden, f"{name}.input_layernorm"), hidden)
        return self.norm(hidden, "norm") if self.plain.norm_output else hidden

    def log_probabilities(self, output: Tensor) -> Tensor:
        """[vocab]; minus infinity for tokens that cannot be drafted."""
        if self.plain.version == 1:
            if "lm_head.weight" in self.t:
                return self.linear(output, "lm_head").log_softmax(-1)
            return self.target.get_output_embeddings()(output).log_softmax(-1)
        normed = output if self.plain.norm_output else self.norm(output, "norm")
        logs = self.linear(normed, "lm_head").log_softmax(-1)
        if "d2t" not in self.t:
            return logs
        vocabulary = len(self.target.get_input_embeddings().weight)
        spread = torch.full((vocabulary,), float("-inf"))
        spread[torch.arange(len(logs)) + self.t["d2t"]] = logs
        return spread


@torch.no_grad()
def draft(
    head: PublishedHead, tokens: list[int], nodes: int, levels: int, top_k: int
) -> dict[tuple[int, ...], float]:
    """EAGLE-2's tree under ``tokens[-1]``: paths (the root left out) with their probabilities."""
    fused = head.fuse(head.features(tokens[:-1]))

    def children(path: tuple[int, ...]) -> Tensor:
        states, following = fused, tokens[1:]
        for token in path:
            states = torch.cat((states, head.outputs(states, following)[-1:]))
            following = [*following, token]
        return head.log_probabilities(head.outputs(states, following)[-1])

    candidates: dict[tuple[int, ...], float] = {}
    beam: list[tuple[int, ...]] = [()]
    for _ in range(levels):
        fresh = []
        for path in beam:
            logs, ids = children(path).topk(top_k)
            for log, token in zip(logs.tolist(), ids.tolist(), strict=True):
                longer = (*path, token)
                candidates[longer] = candidates.get(path, 0.0) + log
                fresh.append(longer)
        beam = sorted(fresh, key=lambda path: -candidates[path])[:top_k]
    kept = sorted(candidates, key=lambda path: -candidates[path])[: nodes - 1]
    return {path: math.exp(candidates[path]) for path in kept}


@torch.no_grad()
def generate(
    head: PublishedHead, prompt: list[int], steps: int, nodes: int, levels: int, top_k: int
) -> tuple[list[Step], list[int]]:
    """Greedy rounds of drafting and verifying; the steps and all tokens."""

    def choice(tokens: list[int]) -> int:
        return int(head.target(torch.tensor([tokens])).logits[0, -1].argmax())

    tokens = [*prompt, choice(prompt)]
    done = []
    for _ in range(steps):
        tree = draft(head, tokens, nodes, levels, top_k)
        path: tuple[int, ...] = ()
        while (token := choice([*tokens, *path])) is not None and (*path, token) in tree:
            path = (*path, token)
        done.append(Step(tree, path, token))
        tokens = [*tokens, *path, token]
    return done, tokens
