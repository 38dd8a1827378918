"""The CPU path gives a row the same bits whatever stands beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.models.attention import exact_attention
from engine.models.decoder import Decoder, rms_factor
from engine.models.experts import Router
from engine.models.linear import RowwiseInt8Linear, body_weight_levels
from engine.models.output_head import Int8Head, OutputHead, int8_head
from engine.models.rounding import quantise_rows
from engine.models.wide_int8 import WideInt8Linear, rows_stand_alone, wide_linear
from engine.tree import DraftTree
from tests.engine import tiny


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return tiny.int8_decoder(tiny.save(tiny.reference(), tmp_path_factory.mktemp("tiny")))


@pytest.mark.parametrize("fine", [False, True])
def test_int8_rows_do_not_depend_on_their_neighbours(fine: bool) -> None:
    torch.manual_seed(0)
    linear = RowwiseInt8Linear(*quantise_rows(torch.randn(640, 320), body_weight_levels()), fine=fine)
    x = torch.randn(33, 320) * torch.logspace(-2, 2, 33)[:, None]
    together = linear(x)
    for row in range(33):
        assert torch.equal(linear(x[row : row + 1])[0], together[row])


def test_int8_is_close_to_float() -> None:
    torch.manual_seed(0)
    weight, x = torch.randn(200, 320), torch.randn(20, 320)
    integers, scale = quantise_rows(weight, body_weight_levels())
    expected = x @ weight.T
    coarse = (RowwiseInt8Linear(integers, scale)(x) - expected).pow(2).mean()
    assert coarse < 1e-3 * expected.pow(2).mean()
    rounded = x @ (integers.float() * scale[:, None]).T  # rounded weights, exact activations
    fine = (RowwiseInt8Linear(integers, scale, fine=True)(x) - rounded).pow(2).mean()
    assert fine < 1e-8 * expected.pow(2).mean()


def test_pairs_of_products_do_not_saturate() -> None:
    """Worst case on AVX2: every product at its limit, in 16-bit pairs."""
    linear = RowwiseInt8Linear(*quantise_rows(torch.ones(16, 64), body_weight_levels()))
    assert torch.allclose(linear(torch.ones(1, 64)), torch.full((1, 16), 64.0), rtol=1e-3)


@torch.inference_mode()
def test_exact_attention_does_not_depend_on_order_or_company() -> None:
    torch.manual_seed(0)
    query = torch.randn(12, 64).mul(400).round()
    keys = torch.randn(300, 64).mul(400).round()
    values = torch.randn(300, 64).mul(600).round().clamp(-2047, 2047)
    scale = torch.tensor(1e-6)
    expected = exact_attention(query, keys, values, scale, None)
    order = torch.randperm(300)
    assert torch.equal(exact_attention(query, keys[order], values[order], scale, None), expected)
    for row in range(12):
        assert torch.equal(exact_attention(query[row : row + 1], keys, values, scale, None)[0], expected[row])
    # Masked keys between the others leave no trace.
    wide_keys = torch.cat((keys[:100], torch.full((37, 64), 999.0), keys[100:]))
    wide_values = torch.cat((values[:100], torch.full((37, 64), 999.0), values[100:]))
    bias = torch.zeros(12, 337)
    bias[:, 100:137] = float("-inf")
    assert torch.equal(exact_attention(query, wide_keys, wide_values, scale, bias), expected)
    plain = torch.softmax((query @ keys.T) * scale, -1) @ values
    assert (expected - plain).abs().max() < 0.02 * plain.abs().max()


@torch.inference_mode()
def test_exact_attention_holds_across_the_change_of_accumulator() -> None:
    """Beside 2,048 slots the sum moves to float64; a row at the border must not notice."""
    torch.manual_seed(0)
    query, keys = torch.randn(4, 64).mul(400).round(), torch.randn(2040, 64).mul(400).round()
    values = torch.randn(2040, 64).mul(600).round().clamp(-2047, 2047)
    scale = torch.tensor(1e-9)  # nearly uniform: the largest sums
    expected = exact_attention(query, keys, values, scale, None)
    bias = torch.zeros(4, 2060)
    bias[:, 2040:] = float("-inf")
    more = torch.full((20, 64), 7.0)
    wide = exact_attention(query, torch.cat((keys, more)), torch.cat((values, more)), scale, bias)
    assert torch.equal(wide, expected)


@pytest.mark.parametrize("width", [64, 640, 2048])
def test_elementwise_parts_do_not_depend_on_position(width: int) -> None:
    """exp, gelu, silu, tanh and the norm's sum could differ by lane or by thread; they must not."""
    torch.manual_seed(0)
    x = torch.randn(40, width) * 3
    whole = torch.exp(-x.abs()), torch.nn.functional.gelu(x, approximate="tanh"), rms_factor(x, 1e-6)
    for begin, end in ((0, 1), (3, 4), (5, 12), (1, 18)):
        part = x[begin:end]
        assert torch.equal(torch.exp(-part.abs()), whole[0][begin:end])
        assert torch.equal(torch.nn.functional.gelu(part, approximate="tanh"), whole[1][begin:end])
        assert torch.equal(rms_factor(part, 1e-6), whole[2][begin:end])
        half = part[:, : width // 2], x[:, : width // 2]  # as the gated MLP cuts them
        assert torch.equal(torch.nn.functional.silu(half[0]), torch.nn.functional.silu(half[1])[begin:end])
        assert torch.equal(torch.tanh(part), torch.tanh(x)[begin:end])


@torch.inference_mode()
@pytest.mark.parametrize("past", [4, 60])
def test_a_tree_node_has_the_bits_of_plain_decoding(decoder: Decoder, past: int) -> None:
    ids = torch.randint(2, tiny.VOCABULARY, (past,))
    parents = (-1, 0, 0, 1, 1, 2, 3, 6, 7)
    tokens = tuple(20 + node for node in range(len(parents)))
    tree = DraftTree(tokens, parents, (1.0,) * len(parents), (1.0,) * len(parents))

    def start() -> tuple[object, object]:
        cache = decoder.new_cache()
        decoder.forward(ids, torch.arange(past), cache)
        cache.keep(past)
        return cache, None

    cache, _ = start()
    hidden, _ = decoder.forward(torch.tensor(tokens), tree.positions(past), cache, tree.mask())  # type: ignore[arg-type]
    logits = decoder.logits(hidden)
    for node in range(len(tree)):
        plain_cache, _ = start()
        for step, ancestor in enumerate(tree.path(node)):
            last, _ = decoder.forward(
                torch.tensor([tokens[ancestor]]),
                torch.tensor([past + step]),
                plain_cache,  # type: ignore[arg-type]
            )
            plain_cache.keep(1)  # type: ignore[attr-defined]
        assert torch.equal(decoder.logits(last)[0], logits[node]), f"node {node}"
        assert torch.equal(decoder.argmax(last)[0], decoder.argmax(hidden)[node])


@pytest.mark.parametrize("make", [Int8Head, int8_head])
@torch.inference_mode()
def test_the_int8_head_finds_the_largest_logit(make: Callable[[Tensor, Tensor], OutputHead]) -> None:
    torch.manual_seed(0)
    weight = torch.randn(40_000, 32)
    head = make(*quantise_rows(weight, 127))  # three blocks, the last one short
    x = torch.randn(37, 32)
    scale = torch.rand(37, 1) + 0.5
    logits = head.logits(x, scale)
    assert logits.shape == (37, 40_000)
    assert torch.equal(head.argmax(x, scale), logits.argmax(-1))
    torch.testing.assert_close(logits, (x * scale) @ weight.T, rtol=0, atol=0.4)
    for row in (0, 20, 36):  # the same bits in any company
        assert torch.equal(head.logits(x[row : row + 1], scale[row : row + 1])[0], logits[row])


@torch.inference_mode()
def test_a_wide_layer_that_lets_rows_touch_is_found_out() -> None:
    weight, scale = quantise_rows(torch.randn(300, 64, generator=torch.Generator().manual_seed(1)), 127)
    layer = wide_linear(weight, scale)
    if layer is None:
        pytest.skip("this processor has no exact wide layer")
    assert rows_stand_alone(layer, range(1, 33))

    class Leaky(WideInt8Linear):
        def unit_call(self, unit: Tensor) -> Tensor:
            out = super().unit_call(unit)
            return out * (1 + 2**-23) if len(unit) in (5, 12) else out

    assert not rows_stand_alone(Leaky(weight, scale), (1, 4, 12))


@torch.inference_mode()
def test_a_router_chooses_the_same_for_a_row_in_any_company() -> None:
    torch.manual_seed(0)
    weight = torch.randn(8, 256)
    weight[5] = weight[2] * (1 + 1e-7)  # as good as equal: only exact sums keep their order
    router = Router(weight, 2)
    x = torch.randn(30, 256) * torch.logspace(-2, 2, 30)[:, None]
    chosen, share = router(x)
    for row in range(30):
        alone = router(x[row : row + 1])
        assert torch.equal(alone[0][0], chosen[row])
        assert torch.equal(alone[1][0], share[row])
    logits = torch.softmax(x @ weight.T, -1)
    best = logits.topk(2, -1).values
    torch.testing.assert_close(share, best / best.sum(-1, True), atol=1e-4, rtol=1e-3)
