"""Training-time test against a reference that spells out what each draft may see."""

from __future__ import annotations

import torch
from torch import Tensor

from engine.heads.config import Eagle3Config
from engine.heads.eagle3 import Eagle3Head, rotate
from engine.training.batches import Batch, Prefix
from engine.training.loss import soft_cross_entropy
from engine.training.unroll import unroll

CONFIG = Eagle3Config(
    hidden_size=16,
    target_hidden_size=12,
    intermediate_size=24,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    draft_vocab_size=20,
    vocab_size=50,
    taps=(1, 2, 3),
)


def make_batch(lengths: list[tuple[int, int]], past: int) -> Batch:
    """Sequences of (prompt rows, reply rows) with random content."""
    rows = sum(a + b for a, b in lengths)
    left = [n for asked, said in lengths for n in [0] * asked + list(range(said, 0, -1))]
    return Batch(
        states=torch.randn(rows, 3 * CONFIG.target_hidden_size),
        tokens=torch.randint(50, (rows,)),
        next=torch.randint(50, (rows,)),
        positions=torch.cat([past + torch.arange(a + b) for a, b in lengths]),
        sequence=torch.cat([torch.full((a + b,), i) for i, (a, b) in enumerate(lengths)]),
        left=torch.tensor(left),
        ids=torch.zeros(rows, 1, dtype=torch.long),
        probabilities=torch.ones(rows, 1),
        usable=torch.ones(rows, dtype=torch.bool),
        greedy=torch.ones(rows, dtype=torch.bool),
    )


def reference(head: Eagle3Head, prefix: Prefix, batch: Batch, table: Tensor, row: int, depth: int) -> Tensor:
    """Draft from ``row`` by hand, one token after the other, and return the output at ``depth``."""
    config = head.config
    share = config.num_attention_heads // config.num_key_value_heads
    start = min(i for i in range(len(batch.tokens)) if batch.sequence[i] == batch.sequence[row])

    def project(state: Tensor, token: int, position: int) -> tuple[Tensor, Tensor, Tensor]:
        layer = head.midlayer
        x = torch.cat([layer.input_layernorm(table[token]), layer.hidden_norm(state)])[None]
        place = torch.tensor([position])
        query = rotate(layer.self_attn.q_proj(x).view(1, -1, config.head_dim), place, config.rope_theta)[0]
        key = rotate(layer.self_attn.k_proj(x).view(1, -1, config.head_dim), place, config.rope_theta)[0]
        return query, key, layer.self_attn.v_proj(x).view(-1, config.head_dim)

    seen = []  # keys and values of every true pair up to the row
    for i in range(len(prefix.tokens)):
        seen.append(project(head.fc(prefix.states[i]), int(prefix.tokens[i]), i)[1:])
    for i in range(start, row + 1):
        seen.append(project(head.fc(batch.states[i]), int(batch.tokens[i]), int(batch.positions[i]))[1:])
    state = head.fc(batch.states[row])
    for k in range(depth + 1):
        query, key, value = project(state, int(batch.tokens[row + k]), int(batch.positions[row + k]))
        if k:
            seen.append((key, value))  # the head's own drafts follow the true pairs
        attended = []
        for h in range(config.num_attention_heads):
            scores = torch.stack([query[h] @ key[h // share] for key, _ in seen]) / config.head_dim**0.5
            values = torch.stack([value[h // share] for _, value in seen])
            attended.append(scores.softmax(0) @ values)
        x = state + head.midlayer.self_attn.o_proj(torch.cat(attended))
        state = x + head.midlayer.mlp(head.midlayer.post_attention_layernorm(x))
    return state


def test_every_level_equals_drafting_by_hand() -> None:
    torch.manual_seed(0)
    head, table = Eagle3Head(CONFIG), torch.randn(50, 16)
    past = 5
    prefix = Prefix(torch.randn(past, 36), torch.randint(50, (past,)))
    batch = make_batch([(3, 6), (1, 2), (4, 5)], past)
    checked = 0
    for level in unroll(head, prefix, batch, table, [1.0] * 4, torch.zeros(len(batch.tokens))):
        for index, row in enumerate(level.rows.tolist()):
            expected = reference(head, prefix, batch, table, row, level.depth)
            torch.testing.assert_close(level.out[index], expected, rtol=1e-4, atol=1e-5)
            checked += 1
    assert checked == (6 + 2 + 5) + (5 + 1 + 4) + (4 + 0 + 3) + (3 + 0 + 2)


def test_a_subset_of_rows_is_unrolled_as_in_the_whole() -> None:
    torch.manual_seed(1)
    head, table = Eagle3Head(CONFIG), torch.randn(50, 16)
    prefix = Prefix(torch.randn(4, 36), torch.randint(50, (4,)))
    batch = make_batch([(2, 8), (3, 7)], 4)
    draw = torch.rand(len(batch.tokens))
    whole = list(unroll(head, prefix, batch, table, [1.0] * 3, torch.zeros(len(draw))))
    part = list(unroll(head, prefix, batch, table, [0.8, 0.6, 0.3], draw))
    assert len(part[2].rows) < len(whole[2].rows)
    for few, many in zip(part, whole, strict=True):
        index = [many.rows.tolist().index(row) for row in few.rows.tolist()]
        torch.testing.assert_close(few.out, many.out[index], rtol=1e-4, atol=1e-5)


def test_the_module_alone_agrees_with_step_zero() -> None:
    torch.manual_seed(2)
    head, table = Eagle3Head(CONFIG), torch.randn(50, 16)
    prefix = Prefix(torch.randn(4, 36), torch.randint(50, (4,)))
    batch = make_batch([(2, 5)], 4)
    states = head.fuse(torch.cat([prefix.states, batch.states]))
    tokens = torch.cat([prefix.tokens, batch.tokens])
    causal = torch.ones(len(tokens), len(tokens), dtype=torch.bool).tril()
    out = head(states, table[tokens], torch.arange(len(tokens)), causal)
    level = next(iter(unroll(head, prefix, batch, table, [1.0], torch.zeros(7))))
    torch.testing.assert_close(level.out, out[4 + level.rows], rtol=1e-4, atol=1e-5)


def test_loss_and_gradients_equal_those_of_plain_autograd() -> None:
    torch.manual_seed(3)
    hidden, table = torch.randn(300, 8, requires_grad=True), torch.randn(40, 8, requires_grad=True)
    ids = torch.stack([torch.randperm(40)[:5] for _ in range(300)])
    probabilities, weights = torch.rand(300, 5).softmax(-1), torch.rand(300)
    loss = soft_cross_entropy(hidden, table, ids, probabilities, weights)
    (loss * 2).backward()
    found = hidden.grad, table.grad
    hidden.grad = table.grad = None
    target = torch.zeros(300, 40).scatter_(1, ids, probabilities)
    expected = -(target * (hidden @ table.T).log_softmax(-1)).sum(-1) @ weights
    (expected * 2).backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(found, (hidden.grad, table.grad), rtol=1e-4, atol=1e-5)
