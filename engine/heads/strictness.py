"""What every reader of heads insists on: each tensor there, used, of its shape and kind, and finite.

A head with a missing or misnamed tensor still runs; it only drafts nonsense, and the
user sees a model that became slower for no reason.

One thing no file shows: a square matrix that was stored transposed (a query projection
where heads times their width is the hidden size, a Medusa block) has the right shape and
finite numbers. Such a head only shows when it drafts, which is why loading measures
(:func:`engine.heads.choosing.worse_than_a_guess`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from engine.errors import HeadError
from engine.heads.files import Stored

AGAIN = "Download the head again, or choose one whose config.json belongs to its weights."
FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_KINDS = {"d2t": torch.int64, "t2d": torch.bool}


def verify_names(shapes: Mapping[str, object], found: Mapping[str, object], source: str, kind: str) -> None:
    """Raise HeadError for tensors of ``shapes`` that were not found, and for found ones that are not in it."""
    missing = sorted(set(shapes) - set(found))
    extra = sorted(set(found) - set(shapes))
    if missing:
        instead = f" (it holds {few(extra)} instead)" if extra else ""
        raise HeadError(f"{source} lacks the tensor {few(missing)}{instead}.", AGAIN)
    if extra:
        raise HeadError(
            f"{source} holds the tensor {few(extra)}, which {kind} of this kind does not have.",
            "Choose another head: this variant is not supported.",
        )


def verify_tensors(
    shapes: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor], source: str, kind: str
) -> None:
    """Check names, shapes, types and values of all tensors (raises HeadError naming the tensor)."""
    verify_names(shapes, tensors, source, kind)
    for name, shape in shapes.items():
        tensor = tensors[name]
        verify_shape(name, tuple(tensor.shape), shape, source)
        wanted = _KINDS.get(name)
        if tensor.dtype != wanted if wanted else tensor.dtype not in FLOATS:
            expected = str(wanted).removeprefix("torch.") if wanted else "floating point (16 or 32 bits)"
            raise HeadError(f"{source}: {name} holds {tensor.dtype}, expected {expected}.", AGAIN)
        if wanted is None and not bool(torch.isfinite(tensor).all()):
            raise HeadError(f"{source}: {name} holds values that are not finite numbers.", AGAIN)


def verify_header(
    shapes: Mapping[str, tuple[int, ...]], stored: Mapping[str, Stored], source: str = "The file"
) -> None:
    """Check names, shapes and types by a file's header alone (raises HeadError naming the tensor)."""
    present = {name: entry for name, entry in stored.items() if not name.endswith("rotary_emb.inv_freq")}
    verify_names(shapes, present, source, "a head")
    for name, shape in shapes.items():
        verify_shape(name, present[name].shape, shape, source)
        wanted = {"d2t": ("I64",), "t2d": ("BOOL",)}.get(name, ("F16", "BF16", "F32"))
        if present[name].dtype not in wanted:
            raise HeadError(f"{source}: {name} is of the type {present[name].dtype}.", AGAIN)


def verify_shape(name: str, found: tuple[int, ...], wanted: tuple[int, ...], source: str) -> None:
    if found != wanted:
        turned = " (it is transposed)" if found == wanted[::-1] else ""
        raise HeadError(f"{source}: {name} has shape {list(found)}, expected {list(wanted)}{turned}.", AGAIN)


def few(names: list[str]) -> str:
    """The first three of ``names``, quoted, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
