"""How far apart the target's logits of some tokens lie at one place of a reply, and how much of that
is rounding.

Two replies to one prompt should be the same wherever a row's result does not depend on the rows
beside it. Where it does (kernels of a GPU choose another order of summation for other sizes), a
near-tie can fall the other way. Whether a difference was such a tie cannot be told from the
logits alone: so the last rows before the place are run several times, one by one as in plain
decoding and several at a time as in checking a tree, and what changes is the arithmetic's noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.errors import PromptError
from engine.generation import PREFILL_ROWS, Session
from engine.protocol import MarginMeasured, MeasureMargin
from engine.sampling import Sampler

TAIL = 24
"""Rows before the place that are run again in every size."""
SIZES = (1, 3, 8, TAIL)
"""Rows of a pass; the first is plain decoding, whose logits are reported."""


@torch.inference_mode()
def measure_margin(
    session: Session, prompt: Sequence[int], command: MeasureMargin, token_text: Callable[[int], str]
) -> MarginMeasured:
    """Answer ``command`` for a prompt of these token ids; the session then stands at the place.

    Raises :class:`PromptError` for tokens that the model does not have, and for more of them than
    the context holds. After any error the session must not be used again.
    """
    vocabulary = session.decoder.config.vocab_size
    tokens = [*prompt, *command.token_ids]
    if not command.candidates or any(not 0 <= token < vocabulary for token in (*tokens, *command.candidates)):
        raise PromptError(
            "The margin was asked of a token that the model does not have.", "Compare with the same model again."
        )
    if len(tokens) > session.context:
        raise PromptError(
            f"The place is at token {len(tokens):,}, the context holds {session.context:,}.",
            "Compare a shorter reply.",
        )
    sampler = Sampler(command.settings, len(prompt))
    wanted = torch.tensor(command.candidates)
    rows = [sampler.processed(row, tokens, ()) for row in _passes(session, tokens)]
    plain = rows[0]
    values = plain[wanted]
    # The processors have been at work already: a second time, penalties would count twice.
    if command.settings.temperature > 0:
        chances = sampler.filtered(plain)[wanted]
    else:
        chances = torch.softmax(plain.double(), -1)[wanted]
    best = int(plain.argmax())
    return MarginMeasured(
        request_id=command.request_id,
        logits=tuple(values.tolist()),
        probabilities=tuple(chances.tolist()),
        texts=tuple(token_text(token) for token in command.candidates),
        noise=_noise([row[wanted] for row in rows]),
        best=best,
        best_text=token_text(best),
        best_logit=float(plain[best]),
    )


def _passes(session: Session, tokens: Sequence[int]) -> list[Tensor]:
    """The logits [vocab] after all tokens, once for each of :data:`SIZES`."""
    begin = max(0, len(tokens) - TAIL)
    session.drafter = None  # as in plain decoding: none of them sees these rows
    known = session.reuse(tokens[: begin + 1])
    _run(session, tokens[:begin], known, PREFILL_ROWS)
    found = []
    for size in SIZES:
        session.cache.truncate(begin)
        hidden = _run(session, tokens, begin, size)
        found.append(session.decoder.logits(hidden[-1:])[0].float().cpu())
    session.tokens = list(tokens)
    return found


def _run(session: Session, tokens: Sequence[int], begin: int, size: int) -> Tensor:
    """Run and keep the tokens from ``begin`` on, ``size`` rows at a time; the last pass's states."""
    hidden = torch.empty(0)
    for start in range(begin, len(tokens), size):
        part = torch.tensor(tokens[start : start + size])
        positions = torch.arange(start, start + part.numel())
        hidden, _ = session.decoder.forward(part, positions, session.cache, None, ())
        session.cache.keep(part.numel())
    return hidden


def _noise(rows: Sequence[Tensor]) -> float:
    """See :attr:`MarginMeasured.noise`. ``rows``: logits [candidates], plain decoding's first."""
    stacked = torch.stack([row.double() for row in rows])
    finite = stacked[:, torch.isfinite(stacked).all(0)]
    if finite.shape[1] < 2:
        return 0.0
    differences = finite[:, :, None] - finite[:, None, :]
    moved = float((differences - differences[0]).abs().max())
    return max(2 * moved, _step(finite[0]))


def _step(logits: Tensor) -> float:
    """Distance of neighbouring numbers around the largest logit, in the type that they were kept in."""
    largest = float(logits.abs().max())
    for kind in (torch.bfloat16, torch.float16):
        if bool((logits.to(kind).double() == logits).all()):
            return float(torch.finfo(kind).eps) * largest
    return 0.0
