"""The EAGLE-1 head as a module: what is trained, and the reference that faster code is compared with.

Embedding and final state of the target go side by side through one matrix into a decoder
layer without a norm before its attention; what comes out stands for the next final
state, raw, and the target's own output table turns it into tokens (EAGLE, arXiv
2401.15077; ``cnets1.py`` of SafeAILab/EAGLE). EAGLE-2 uses the same heads. Row ``t`` pairs
the state of token ``t`` with the embedding of token ``t + 1``, as in :mod:`engine.heads.eagle3`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engine.heads.checkpoint import Eagle1Checkpoint
from engine.heads.config import Eagle1Config
from engine.heads.eagle3 import MLP, Attention, RMSNorm


class Eagle1Layer(nn.Module):
    """The decoder layer; its attention reads the mixed row as it is."""

    def __init__(self, config: Eagle1Config) -> None:
        super().__init__()
        self.self_attn = Attention(config, config.hidden_size)
        self.mlp = MLP(config.hidden_size, config.intermediate_size)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Eagle1Head(nn.Module):
    """An EAGLE-1 head of one layer in the parts that training unrolls."""

    def __init__(self, config: Eagle1Config) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=config.fc_bias)
        self.midlayer = Eagle1Layer(config)

    def to_checkpoint(self, dtype: torch.dtype = torch.float16) -> Eagle1Checkpoint:
        """Public tensors of this head; embedding and output table are the target's."""
        tensors = {name: parameter.detach().to(dtype) for name, parameter in self.state_dict().items()}
        return Eagle1Checkpoint(self.config, tensors)

    def fuse(self, states: Tensor) -> Tensor:
        """The target's final states ``[rows, hidden]`` are the head's own kind of state."""
        return states

    def mix(self, state: Tensor, embedding: Tensor) -> Tensor:
        """What the layer reads, ``[rows, hidden]``: embedding first, state second, through one matrix."""
        mixed: Tensor = self.fc(torch.cat([embedding.to(state.dtype), state], -1))
        return mixed

    def queries(self, mixed: Tensor, positions: Tensor) -> Tensor:
        """``[rows, heads, dim]``, rotated."""
        return self.midlayer.self_attn.queries(mixed, positions)

    def keys_values(self, mixed: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Each ``[rows, kv heads, dim]``; keys are rotated."""
        return self.midlayer.self_attn.keys_values(mixed, positions)

    def finish(self, state: Tensor, mixed: Tensor, attended: Tensor) -> Tensor:
        """From attention output ``[rows, heads, dim]`` to the predicted final state ``[rows, hidden]``."""
        x = mixed + self.midlayer.self_attn.o_proj(attended.flatten(-2))
        out: Tensor = x + self.midlayer.mlp(self.midlayer.post_attention_layernorm(x))
        return out

    def recur(self, out: Tensor) -> Tensor:
        """The state at the next draft level: the prediction itself."""
        return out
