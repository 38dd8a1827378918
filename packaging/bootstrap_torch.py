"""Which build of torch this machine should get, and where it comes from.

PyPI carries one build per platform: without CUDA on Windows, with 3 GB of CUDA
on Linux. The others lie on download.pytorch.org, one index per build. Which
builds exist for a release is listed there; which driver and GPU a build needs is
told by NVIDIA's CUDA compatibility guide (minor-version compatibility: any
driver from 525.60 runs CUDA 12.x, any from 580.65 runs CUDA 13.x) and by
PyTorch's RELEASE.md (CUDA 13 leaves out GPUs before Turing; CUDA 12.6 has no
code for Blackwell).
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

INDEX = "https://download.pytorch.org/whl"

Version = tuple[int, ...]


@dataclass(frozen=True)
class Gpu:
    """The NVIDIA driver and the GPUs it serves."""

    driver: Version
    names: tuple[str, ...] = ()
    capabilities: tuple[Version, ...] = ()
    """Compute capability of each GPU; empty when an old driver does not tell."""


@dataclass(frozen=True)
class CudaBuild:
    name: str
    linux_driver: Version
    windows_driver: Version
    oldest_gpu: Version
    newest_gpu: Version


BUILDS = (
    CudaBuild("cu130", (580, 65), (580, 0), (7, 5), (12, 9)),
    CudaBuild("cu126", (525, 60), (528, 33), (5, 0), (9, 9)),
)
"""The CUDA builds of the torch release in constraints.txt, preferred first."""


@dataclass(frozen=True)
class Attempt:
    """One thing to ask pip for. ``index`` is empty for the places that pip is configured with."""

    requirement: str
    index: str = ""
    last_resort: str = ""
    """What the user should know when it comes to this attempt."""


@dataclass(frozen=True)
class TorchPlan:
    build: str
    """"cpu", "cu126", …, or "pypi" where PyPI's only build is the right one."""
    reason: str
    attempts: tuple[Attempt, ...]
    warning: str = ""

    @property
    def wanted(self) -> str:
        """The version string that an environment holding the right build shows."""
        return self.attempts[0].requirement.removeprefix("torch==")

    @property
    def cuda(self) -> bool:
        return self.build.startswith("cu")


# --------------------------------------------------------------------------- what is there


def parse_version(text: str) -> Version:
    """``"580.65.06"`` as ``(580, 65, 6)``; ``()`` when no number leads."""
    match = re.match(r"\s*(\d+(?:\.\d+)*)", text)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def parse_query(output: str) -> Gpu | None:
    """Read ``nvidia-smi --query-gpu=driver_version,compute_cap,name --format=csv,noheader``."""
    rows = [line.split(",", 2) for line in output.splitlines() if line.count(",") >= 2]
    rows = [[cell.strip() for cell in row] for row in rows]
    rows = [row for row in rows if parse_version(row[0])]
    if not rows:
        return None
    capabilities = tuple(parse_version(row[1]) for row in rows)
    return Gpu(
        driver=parse_version(rows[0][0]),
        names=tuple(row[2] for row in rows),
        capabilities=capabilities if all(capabilities) else (),
    )


def parse_banner(output: str) -> Gpu | None:
    """Read the table of a plain ``nvidia-smi``, which drivers too old for the query still print."""
    match = re.search(r"Driver Version:\s*(\d+(?:\.\d+)+)", output)
    return Gpu(driver=parse_version(match.group(1))) if match else None


def parse_proc(text: str) -> Gpu | None:
    """Read ``/proc/driver/nvidia/version`` of the proprietary or the open kernel module."""
    match = re.search(r"NVRM version:.*?(\d{3,}\.\d+(?:\.\d+)*)", text)
    return Gpu(driver=parse_version(match.group(1))) if match else None


def _nvidia_smi() -> str | None:
    usual = (
        r"C:\Windows\System32\nvidia-smi.exe",
        r"C:\Program Files\NVIDIA Corporation\NVSMI\nvidia-smi.exe",
        "/usr/lib/wsl/lib/nvidia-smi",
    )
    return shutil.which("nvidia-smi") or next((path for path in usual if Path(path).is_file()), None)


def _ask_nvidia_smi(executable: str, *arguments: str) -> str:
    try:
        done = subprocess.run(
            [executable, *arguments], capture_output=True, timeout=15, encoding="utf-8", errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def _ask_nvml() -> Gpu | None:
    """The driver's own library, for machines without nvidia-smi on the PATH."""
    try:
        nvml = ctypes.CDLL("nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1")
        if nvml.nvmlInit_v2() != 0:
            return None
        try:
            return _read_nvml(nvml)
        finally:
            nvml.nvmlShutdown()
    except (OSError, AttributeError):  # no library, or one without these functions
        return None


def _read_nvml(nvml: ctypes.CDLL) -> Gpu | None:
    text = ctypes.create_string_buffer(96)
    count = ctypes.c_uint()
    if nvml.nvmlSystemGetDriverVersion(text, len(text)) or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):
        return None
    driver = parse_version(text.value.decode("ascii", "replace"))
    names: list[str] = []
    capabilities: list[Version] = []
    for index in range(count.value):
        device, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            continue
        if not nvml.nvmlDeviceGetName(device, text, len(text)):
            names.append(text.value.decode("utf-8", "replace"))
        if not nvml.nvmlDeviceGetCudaComputeCapability(device, ctypes.byref(major), ctypes.byref(minor)):
            capabilities.append((major.value, minor.value))
    return Gpu(driver, tuple(names), tuple(capabilities)) if driver and count.value else None


def find_gpu() -> Gpu | None:
    """The NVIDIA driver at work on this machine; ``None`` without one (or on macOS)."""
    if sys.platform == "darwin":
        return None
    executable = _nvidia_smi()
    if executable:
        query = _ask_nvidia_smi(
            executable, "--query-gpu=driver_version,compute_cap,name", "--format=csv,noheader"
        )
        found = parse_query(query) or parse_banner(_ask_nvidia_smi(executable))
        if found:
            return found
    found = _ask_nvml()
    proc = Path("/proc/driver/nvidia/version")
    if found is None and proc.is_file():
        found = parse_proc(proc.read_text(encoding="utf-8", errors="replace"))
    return found


# --------------------------------------------------------------------------- what to install


def dotted(version: Version) -> str:
    return ".".join(str(part) for part in version)


def choose_build(gpu: Gpu, platform: str) -> tuple[str | None, str]:
    """The CUDA build for a driver and its GPUs, or ``None`` and what the user should do.

    With several GPUs a build that serves them all is preferred, else one that serves any.
    """
    windows = platform == "win32"
    driver_fits = [
        build
        for build in BUILDS
        if gpu.driver >= (build.windows_driver if windows else build.linux_driver)
    ]
    if not driver_fits:
        oldest = BUILDS[-1].windows_driver if windows else BUILDS[-1].linux_driver
        return None, (
            f"The NVIDIA driver {dotted(gpu.driver)} is too old for any CUDA build of torch: "
            f"{dotted(oldest)} or newer is needed. Update it (https://www.nvidia.com/drivers or your "
            "distribution's package), then run this again with --repair."
        )
    if not gpu.capabilities:
        return driver_fits[0].name, ""
    for serves in (all, any):
        for build in driver_fits:
            if serves(build.oldest_gpu <= each <= build.newest_gpu for each in gpu.capabilities):
                return build.name, ""
    name = gpu.names[0] if gpu.names else "This GPU"
    if max(gpu.capabilities) > driver_fits[0].newest_gpu and driver_fits[0] is not BUILDS[0]:
        newest = BUILDS[0].windows_driver if windows else BUILDS[0].linux_driver
        return None, (
            f"{name} needs a newer driver: {dotted(newest)} or later instead of {dotted(gpu.driver)}. "
            "Update it, then run this again with --repair."
        )
    return None, f"{name} (compute capability {dotted(max(gpu.capabilities))}) is not served by torch."


def plan_torch(
    version: str, platform: str, machine: str, gpu: Gpu | None, forced: str | None = None
) -> TorchPlan:
    """Decide on a build of torch ``version`` and the places to ask, best first.

    ``platform`` is ``sys.platform``, ``machine`` is ``platform.machine()``; ``forced`` is
    ``"cpu"`` or the name of a CUDA build the user insists on.
    """
    pypi = Attempt(f"torch=={version}")
    if platform == "darwin":
        return TorchPlan("pypi", "macOS has one build", (pypi,))
    warning = ""
    build: str | None = forced
    if forced:
        reason = "asked for"
    elif gpu is None:
        build, reason = "cpu", "no NVIDIA driver was found"
    else:
        named = f"{gpu.names[0]}, " if gpu.names else ""
        build, warning = choose_build(gpu, platform)
        reason = f"{named}driver {dotted(gpu.driver)}"
    build = build or "cpu"
    if build == "cpu" and platform == "win32" and machine.lower() in ("amd64", "x86_64"):
        return TorchPlan("pypi", reason, (pypi,), warning)
    exact = f"torch=={version}+{build}"
    if platform == "win32":
        loss = "PyPI's build for Windows has no CUDA: the GPU will not be used."
    elif build == "cpu":
        loss = "PyPI's build for Linux brings CUDA along: about 3 GB to download. It runs without a GPU too."
    elif build == BUILDS[0].name:
        loss = ""
    else:
        loss = f"PyPI's build needs a driver from {dotted(BUILDS[0].linux_driver)}: the GPU may not be used."
    attempts = (
        Attempt(exact, f"{INDEX}/{build}"),
        Attempt(exact),
        Attempt(pypi.requirement, last_resort=loss),
    )
    return TorchPlan(build, reason, attempts, warning)
