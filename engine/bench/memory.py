"""What a method keeps in memory beside the target: its weights, its caches and its pools.

Counted from what is there rather than from the process's size, which moves with the
allocator: tensors and packed matrices by their bytes, collections by what Python says of them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Protocol, cast

import torch
from torch import Tensor

from engine.drafting.drafter import Drafter

_NO_DATA = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType, torch._ops.OpOverload)
_MANY = (list, tuple, set, frozenset, deque)
_PLAIN = (*_MANY, dict, int, float, str)


class _Owner(Protocol):
    def memory_bytes(self) -> int: ...


def memory_added(drafter: Drafter, *shared: object) -> int:
    """Bytes that ``drafter`` refers to; what ``shared`` refer to, as the target, is not its own."""
    seen = {id(each) for each in shared}
    storages: set[int] = set()
    for each in shared:
        storages |= {_storage(tensor) for tensor in _tensors(each)}
    return _size(drafter, seen, storages)


def _size(value: object, seen: set[int], storages: set[int]) -> int:
    if value is None or isinstance(value, _NO_DATA) or id(value) in seen:
        return 0
    seen.add(id(value))
    if _packed(value):
        return 0  # its owner tells the size
    if isinstance(value, Tensor):
        place = _storage(value)
        if place in storages:
            return 0
        storages.add(place)
        return value.untyped_storage().nbytes()
    parts = list(_parts(value))
    size = sum(_size(part, seen, storages) for part in parts)
    if any(_packed(part) for part in parts):
        size += cast(_Owner, value).memory_bytes()
    return size + (sys.getsizeof(value) if isinstance(value, _PLAIN) else 0)


def _packed(value: object) -> bool:
    """A matrix in a layout of the kernel's own, which has no storage to look at."""
    return isinstance(value, torch.ScriptObject) or (isinstance(value, Tensor) and value.is_mkldnn)


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, _MANY):
        yield from value
    else:
        yield from getattr(value, "__dict__", {}).values()
        for kind in type(value).__mro__:
            for name in getattr(kind, "__slots__", ()):
                yield getattr(value, name, None)


def _tensors(value: object) -> Iterator[Tensor]:
    """Every tensor that ``value`` refers to."""
    waiting, seen = [value], set()
    while waiting:
        each = waiting.pop()
        if each is None or isinstance(each, _NO_DATA) or id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Tensor):
            if not _packed(each):
                yield each
        else:
            waiting += _parts(each)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
