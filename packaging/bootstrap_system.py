"""What the machine itself must bring: disk space, a display, and on Linux a few libraries.

The libraries are those that Qt's wheels link to and do not carry (read off
``ldd`` of QtWidgets and of the xcb and wayland platform plugins of Qt 6.12).
They are looked for the way Qt will: by loading them.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

GIGABYTE = 10**9
CPU_SPACE = int(2.5 * GIGABYTE)
"""Measured: 2.0 GB of packages, and the largest wheel unpacked from a copy beside it."""
CUDA_SPACE = 8 * GIGABYTE


@dataclass(frozen=True)
class Library:
    """A shared library and the package that brings it, by package manager."""

    soname: str
    apt: str
    dnf: str
    pacman: str
    zypper: str


@dataclass(frozen=True)
class PackageManager:
    name: str
    install: tuple[tuple[str, ...], ...]
    """Commands to run in turn; packages are appended to the last one."""


BASE_LIBRARIES = (
    Library("libEGL.so.1", "libegl1", "libglvnd-egl", "libglvnd", "libglvnd"),
    Library("libGL.so.1", "libgl1", "libglvnd-glx", "libglvnd", "libglvnd"),
    Library("libxkbcommon.so.0", "libxkbcommon0", "libxkbcommon", "libxkbcommon", "libxkbcommon0"),
    Library("libfontconfig.so.1", "libfontconfig1", "fontconfig", "fontconfig", "fontconfig"),
    Library("libdbus-1.so.3", "libdbus-1-3", "dbus-libs", "dbus", "libdbus-1-3"),
    Library("libgthread-2.0.so.0", "libglib2.0-0", "glib2", "glib2", "libgthread-2_0-0"),
)
"""Needed to import Qt's widgets at all, with or without a display."""

XCB_LIBRARIES = (
    Library("libX11-xcb.so.1", "libx11-xcb1", "libX11-xcb", "libx11", "libX11-xcb1"),
    Library("libxcb-cursor.so.0", "libxcb-cursor0", "xcb-util-cursor", "xcb-util-cursor", "libxcb-cursor0"),
    Library("libxcb-icccm.so.4", "libxcb-icccm4", "xcb-util-wm", "xcb-util-wm", "libxcb-icccm4"),
    Library("libxcb-image.so.0", "libxcb-image0", "xcb-util-image", "xcb-util-image", "libxcb-image0"),
    Library("libxcb-keysyms.so.1", "libxcb-keysyms1", "xcb-util-keysyms", "xcb-util-keysyms", "libxcb-keysyms1"),
    Library("libxcb-randr.so.0", "libxcb-randr0", "libxcb", "libxcb", "libxcb-randr0"),
    Library(
        "libxcb-render-util.so.0",
        "libxcb-render-util0",
        "xcb-util-renderutil",
        "xcb-util-renderutil",
        "libxcb-render-util0",
    ),
    Library("libxcb-shape.so.0", "libxcb-shape0", "libxcb", "libxcb", "libxcb-shape0"),
    Library("libxcb-sync.so.1", "libxcb-sync1", "libxcb", "libxcb", "libxcb-sync1"),
    Library("libxcb-xfixes.so.0", "libxcb-xfixes0", "libxcb", "libxcb", "libxcb-xfixes0"),
    Library("libxcb-xkb.so.1", "libxcb-xkb1", "libxcb", "libxcb", "libxcb-xkb1"),
    Library("libxkbcommon-x11.so.0", "libxkbcommon-x11-0", "libxkbcommon-x11", "libxkbcommon-x11", "libxkbcommon-x11-0"),
)
WAYLAND_LIBRARIES = (
    Library("libwayland-client.so.0", "libwayland-client0", "libwayland-client", "wayland", "libwayland-client0"),
    Library("libwayland-cursor.so.0", "libwayland-cursor0", "libwayland-cursor", "wayland", "libwayland-cursor0"),
)
FONT = Library("a font", "fonts-dejavu-core", "dejavu-sans-fonts", "ttf-dejavu", "dejavu-fonts")
"""Not a library: without a single font Qt draws empty boxes."""

APT = PackageManager("apt", (("apt-get", "update"), ("apt-get", "install", "-y", "--no-install-recommends")))
MANAGERS = (
    APT,
    PackageManager("dnf", (("dnf", "install", "-y"),)),
    PackageManager("pacman", (("pacman", "-S", "--needed"),)),
    PackageManager("zypper", (("zypper", "install"),)),
)


def has_display(platform: str, environment: Mapping[str, str]) -> bool:
    """Whether a window can open. A Qt platform chosen by hand (vnc, offscreen) counts as one."""
    if not platform.startswith("linux"):
        return True
    return any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"))


def loads(soname: str) -> bool:
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True


def has_font(folders: Iterable[Path] | None = None) -> bool:
    if folders is None:
        home = Path.home()
        folders = (
            Path("/usr/share/fonts"),
            Path("/usr/local/share/fonts"),
            home / ".local/share/fonts",
            home / ".fonts",
            Path("/run/current-system/sw/share/X11/fonts"),
        )
    endings = (".ttf", ".otf", ".ttc", ".pfb")
    return any(
        name.lower().endswith(endings)
        for folder in folders
        for _, _, names in os.walk(folder)
        for name in names
    )


def missing_libraries(
    environment: Mapping[str, str],
    window: bool,
    loads: Callable[[str], bool] = loads,
    has_font: Callable[[], bool] = has_font,
) -> list[Library]:
    """What Qt would miss on this Linux: the base, and for a ``window`` those of its display."""
    needed = list(BASE_LIBRARIES)
    if window and environment.get("WAYLAND_DISPLAY"):
        needed += WAYLAND_LIBRARIES
    if window and environment.get("DISPLAY"):
        needed += XCB_LIBRARIES
    missing = [library for library in needed if not loads(library.soname)]
    return missing if has_font() else [*missing, FONT]


def package_manager(which: Callable[[str], str | None] = shutil.which) -> PackageManager | None:
    for manager in MANAGERS:
        if which(manager.install[-1][0]):
            return manager
    return None


def install_commands(manager: PackageManager, packages: Iterable[str]) -> list[list[str]]:
    """The commands that install ``packages`` (each named once, in order)."""
    commands = [list(command) for command in manager.install]
    commands[-1] += dict.fromkeys(packages)
    return commands


def packages_for(manager: PackageManager, libraries: Iterable[Library]) -> list[str]:
    names = (str(getattr(library, manager.name)) for library in libraries)
    return list(dict.fromkeys(names))


def may_install(manager: PackageManager | None) -> bool:
    """Only as root and with apt: other systems are told the command instead."""
    return manager is APT and sys.platform != "win32" and os.geteuid() == 0


def by_hand(manager: PackageManager | None, libraries: Iterable[Library]) -> str:
    """The command for a person to type, or the bare names where the system is unknown."""
    libraries = list(libraries)
    if manager is None:
        return "install with your system's package manager: " + ", ".join(each.soname for each in libraries)
    commands = install_commands(manager, packages_for(manager, libraries))
    return " && ".join("sudo " + shlex.join(command) for command in commands)


def free_space(folder: Path) -> int:
    """Bytes free on the disk that holds ``folder``, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def space_problem(folder: Path, cuda: bool, free: int) -> str:
    """Say that the disk is too full for a first installation; empty when it is not."""
    needed = CUDA_SPACE if cuda else CPU_SPACE
    if free >= needed:
        return ""
    return (
        f"About {needed / GIGABYTE:.1f} GB are needed in {folder}, and {free / GIGABYTE:.1f} GB are free. "
        "Free some space, or set EYRIE_VENV to a folder on a larger disk, and run this again."
    )


def old_system_problem(libc: tuple[str, str], platform: str) -> str:
    """Qt's wheels need glibc 2.34; say so before anything is downloaded."""
    if not platform.startswith("linux"):
        return ""
    name, version = libc
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    if name == "glibc" and numbers >= (2, 34):
        return ""
    found = f"{name} {version}" if name else "another C library (musl?)"
    return (
        f"Eyrie's libraries need glibc 2.34 or newer, and this system has {found}. "
        "Ubuntu 22.04, Debian 12, Fedora 35 and anything newer will do."
    )
