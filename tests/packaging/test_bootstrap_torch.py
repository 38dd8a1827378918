"""Reading the NVIDIA driver and choosing a build of torch."""

from __future__ import annotations

import pytest
from bootstrap_environment import read_requirements
from bootstrap_torch import (
    BUILDS,
    INDEX,
    Attempt,
    Gpu,
    choose_build,
    parse_banner,
    parse_proc,
    parse_query,
    parse_version,
    plan_torch,
)

BANNER = """\
Mon Nov 30 10:00:00 2026
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 470.256.02   Driver Version: 470.256.02   CUDA Version: 11.4     |
|-------------------------------+----------------------+----------------------+
"""
PROC = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)
PROC_OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@host)\n"


def gpu(driver: str, *capabilities: str) -> Gpu:
    return Gpu(parse_version(driver), tuple("GPU" for _ in capabilities), tuple(map(parse_version, capabilities)))


def test_query_of_two_gpus() -> None:
    found = parse_query("580.65.06, 8.9, NVIDIA GeForce RTX 4090\n580.65.06, 6.1, NVIDIA GeForce GTX 1080, 8 GB\n")
    assert found == Gpu(
        (580, 65, 6), ("NVIDIA GeForce RTX 4090", "NVIDIA GeForce GTX 1080, 8 GB"), ((8, 9), (6, 1))
    )


def test_query_of_a_gpu_that_hides_its_capability() -> None:
    found = parse_query("535.54.03, [N/A], GRID A100\n")
    assert found == Gpu((535, 54, 3), ("GRID A100",), ())


@pytest.mark.parametrize(
    "output", ["", "No devices were found\n", "Field \"compute_cap\" is not a valid field to query.\n"]
)
def test_query_that_found_nothing(output: str) -> None:
    assert parse_query(output) is None


def test_banner_and_proc() -> None:
    assert parse_banner(BANNER) == Gpu((470, 256, 2))
    assert parse_banner("NVIDIA-SMI has failed because it couldn't communicate with the driver.") is None
    assert parse_proc(PROC) == Gpu((535, 183, 1))
    assert parse_proc(PROC_OPEN) == Gpu((580, 65, 6))
    assert parse_proc("") is None


@pytest.mark.parametrize(
    ("driver", "capabilities", "platform", "build"),
    [
        ("580.65.06", ["8.9"], "linux", "cu130"),
        ("580.65.06", ["7.5"], "linux", "cu130"),
        ("581.15", ["12.0"], "win32", "cu130"),
        ("580.65.06", [], "linux", "cu130"),
        ("580.65.06", ["6.1"], "linux", "cu126"),  # Pascal: CUDA 13 has no code for it
        ("580.65.06", ["6.1", "8.6"], "linux", "cu126"),  # the build that serves both
        ("580.65.06", ["6.1", "12.0"], "linux", "cu130"),  # none serves both: the preferred one that serves any
        ("570.133.07", ["8.9"], "linux", "cu126"),
        ("535.183.01", ["8.6"], "linux", "cu126"),
        ("528.33", ["8.6"], "win32", "cu126"),
        ("525.60.13", [], "linux", "cu126"),
    ],
)
def test_build_for_a_driver(driver: str, capabilities: list[str], platform: str, build: str) -> None:
    assert choose_build(gpu(driver, *capabilities), platform) == (build, "")


@pytest.mark.parametrize(
    ("driver", "capabilities", "platform", "said"),
    [
        ("470.256.02", [], "linux", "525.60 or newer"),
        ("527.56", ["8.6"], "win32", "528.33 or newer"),
        ("570.133.07", ["12.0"], "linux", "580.65 or later instead of 570.133.7"),
        ("580.65.06", ["3.5"], "linux", "compute capability 3.5"),
    ],
)
def test_driver_or_gpu_that_no_build_serves(
    driver: str, capabilities: list[str], platform: str, said: str
) -> None:
    build, why = choose_build(gpu(driver, *capabilities), platform)
    assert build is None
    assert said in why


MODERN = gpu("581.15", "8.9")


def test_linux_without_a_gpu_avoids_the_cuda_build_of_pypi() -> None:
    plan = plan_torch("2.13.0", "linux", "x86_64", None)
    assert plan.wanted == "2.13.0+cpu"
    assert [(one.requirement, one.index) for one in plan.attempts] == [
        ("torch==2.13.0+cpu", f"{INDEX}/cpu"),
        ("torch==2.13.0+cpu", ""),
        ("torch==2.13.0", ""),
    ]
    assert "3 GB" in plan.attempts[-1].last_resort
    assert not plan.cuda


def test_windows_with_a_gpu_needs_the_index_of_pytorch() -> None:
    plan = plan_torch("2.13.0", "win32", "AMD64", MODERN)
    assert plan.attempts[0] == Attempt("torch==2.13.0+cu130", f"{INDEX}/cu130")
    assert "GPU will not be used" in plan.attempts[-1].last_resort
    assert plan.cuda


def test_windows_without_a_gpu_and_macos_take_pypi() -> None:
    for platform, machine in (("win32", "AMD64"), ("darwin", "arm64")):
        plan = plan_torch("2.13.0", platform, machine, None)
        assert plan.attempts == (Attempt("torch==2.13.0"),)
        assert plan.wanted == "2.13.0"


def test_pypi_serves_linux_with_the_newest_cuda_as_well() -> None:
    assert plan_torch("2.13.0", "linux", "x86_64", MODERN).attempts[-1].last_resort == ""
    older = plan_torch("2.13.0", "linux", "x86_64", gpu("535.183.01", "8.6"))
    assert "GPU may not be used" in older.attempts[-1].last_resort


def test_old_driver_gets_the_cpu_build_and_a_warning() -> None:
    plan = plan_torch("2.13.0", "linux", "x86_64", gpu("470.256.02"))
    assert plan.build == "cpu"
    assert "too old" in plan.warning


def test_a_build_can_be_insisted_on() -> None:
    plan = plan_torch("2.13.0", "linux", "x86_64", MODERN, "cpu")
    assert plan.wanted == "2.13.0+cpu"
    assert not plan.warning


def test_builds_are_those_of_the_locked_release() -> None:
    """Raising torch means looking up which CUDA builds the new release has."""
    assert read_requirements().torch_version == "2.13.0"
    assert [build.name for build in BUILDS] == ["cu130", "cu126"]
