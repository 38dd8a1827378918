"""A second device for machines that have none: its tensors hold real numbers and refuse to meet the CPU's.

torch calls the device "meta", but nothing is left out here: each of its tensors wraps one of
the CPU, and every operation runs on what is wrapped. As on a GPU, an operation that mixes
tensors of both devices fails; excepted are tensors without dimensions, copies, and CPU
indices into tensors of the device. What is read back is counted, since on a GPU each such
read waits for all work before it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")
_COPIES = {"aten::_to_copy", "aten::copy_"}
_INDEXED = {"aten::index.Tensor", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_"}


class _Elsewhere(Tensor):
    """A tensor of the device; ``held`` are its numbers."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> _Elsewhere:
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made  # type: ignore[no-any-return]

    def tolist(self) -> Any:
        return self.cpu().tolist()  # torch has no list of a subclass

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError(f"{func} on the second device, which is not switched on here")


class SecondDevice(TorchDispatchMode):
    """While it is entered, ``torch.device("meta")`` is a device with memory."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        """Tensors that were copied from the device to the CPU."""

    def __enter__(self) -> SecondDevice:
        make = self._make = torch.tensor

        def tensor(data: Any, *, device: Any = None, **more: Any) -> Tensor:
            made = make(data, **more)
            return made if device is None else made.to(device)

        torch.tensor = tensor  # it alone goes past the dispatcher
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        torch.tensor = self._make
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # A tensor made under inference mode cannot be a view of one made before.
        with torch.inference_mode(False), torch.no_grad():
            return self._run(func, args, dict(kwargs or {}))

    def _run(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = func.name() if hasattr(func, "name") else str(func)
        flat = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
        if any(each.device.type == DEVICE.type and not isinstance(each, _Elsewhere) for each in flat):
            # torch makes the index of ``x[list]`` past the dispatcher: it would hold whatever was in memory.
            raise RuntimeError(f"{name}: a tensor without numbers; index with a tensor in the place of a list")
        theirs = [each for each in flat if isinstance(each, _Elsewhere)]
        ours = [each for each in flat if not isinstance(each, _Elsewhere)]
        asked = kwargs.get("device")
        there = bool(theirs)
        if asked is not None:
            there = torch.device(asked).type == DEVICE.type
            kwargs["device"] = torch.device("cpu")
        if theirs and name not in _COPIES:
            self._refuse_mixture(name, args, ours)
        if name == "aten::copy_":
            there = isinstance(args[0], _Elsewhere)
        if theirs and (not there or name == "aten::_local_scalar_dense"):
            self.reads += 1
        held_args, held_kwargs = tree_map(_unwrapped, (args, kwargs))
        found = func(*held_args, **held_kwargs)
        if name.rpartition("::")[2].partition(".")[0].endswith("_") and flat and flat[0] is args[0]:
            return args[0]  # in place
        if not there:
            # On one machine a copy to the CPU may be the tensor itself: a device never shares memory.
            return tree_map(lambda each: each.clone() if isinstance(each, Tensor) and theirs else each, found)
        return tree_map(lambda each: _Elsewhere(each) if isinstance(each, Tensor) else each, found)

    @staticmethod
    def _refuse_mixture(name: str, args: Any, ours: list[Tensor]) -> None:
        if name in _INDEXED:
            table, indices = args[0], args[1]
            allowed = {id(each) for each in indices if each is not None} if isinstance(table, _Elsewhere) else set()
            ours = [each for each in ours if id(each) not in allowed]
        if any(each.ndim for each in ours):
            shapes = [tuple(each.shape) for each in ours if each.ndim]
            raise RuntimeError(f"{name}: tensors of two devices; of the CPU {shapes}")


def _unwrapped(each: Any) -> Any:
    return each.held if isinstance(each, _Elsewhere) else each
