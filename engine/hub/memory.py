"""What memory this machine has and what of it is free, without opening the GPU; and the disk.

Asking torch would start a CUDA context, which itself takes some hundred megabytes of
the memory in question; the driver's own tool tells without one.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]

from engine.protocol.hub import Machine

MIB = 1 << 20


def machine() -> Machine:
    """The first NVIDIA GPU, else main memory."""
    return gpu() or main_memory()


def main_memory() -> Machine:
    memory = psutil.virtual_memory()
    return Machine("main memory", False, int(memory.total), int(memory.available))


def gpu() -> Machine | None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized():
        free, total = torch.cuda.mem_get_info()
        return Machine(str(torch.cuda.get_device_name()), True, int(total), int(free))
    told = _ask_driver("--query-gpu=name,memory.total,memory.free")
    return None if told is None else parse_tool(told)


def held(pid: int, machine: Machine) -> int | None:
    """Bytes that a process holds where models would run: what its end frees. None where nobody tells."""
    if machine.is_gpu:
        return _held_on_gpu(pid)
    try:
        info = psutil.Process(pid).memory_info()
    except psutil.Error:
        return None
    # Files that it only maps are free for others already.
    return int(getattr(info, "private", 0) or info.rss - getattr(info, "shared", 0))


def _held_on_gpu(pid: int) -> int | None:
    told = _ask_driver("--query-compute-apps=pid,used_memory")
    found = None
    for line in (told or "").splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 2 and fields[0] == str(pid) and fields[1].isdecimal():  # Windows says [N/A]
            found = (found or 0) + int(fields[1]) * MIB
    return found


def _ask_driver(query: str) -> str | None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    try:
        return subprocess.run(
            [tool, query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def parse_tool(text: str) -> Machine | None:
    """The first line of ``name, total, free`` in MiB; None where it is anything else."""
    fields = [field.strip() for field in text.strip().splitlines()[:1][0].split(",")] if text.strip() else []
    try:
        name, total, free = fields
        return Machine(name, True, int(total) * MIB, int(free) * MIB)
    except ValueError:
        return None


def free_disk(folder: Path) -> int:
    """Bytes free where the cache is, or will be."""
    for each in (folder, *folder.parents):
        try:
            return shutil.disk_usage(each).free
        except OSError:
            continue
    return 0
