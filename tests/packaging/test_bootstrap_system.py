"""Display, system libraries, disk space, old systems, unsupported Pythons."""

from __future__ import annotations

import sys
from pathlib import Path

import bootstrap
import bootstrap_system as system
import pytest
from bootstrap_environment import venv_problem


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ""}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {"QT_QPA_PLATFORM": "vnc"}, True),
        ("win32", {}, True),
        ("darwin", {}, True),
    ],
)
def test_display(platform: str, environment: dict[str, str], expected: bool) -> None:
    assert system.has_display(platform, environment) is expected


def test_only_libraries_that_do_not_load_are_missing() -> None:
    absent = {"libEGL.so.1", "libxcb-cursor.so.0", "libwayland-client.so.0"}

    def missing(window: bool, **environment: str) -> list[str]:
        found = system.missing_libraries(
            environment, window, loads=lambda name: name not in absent, has_font=lambda: True
        )
        return [each.soname for each in found]

    assert missing(window=False, DISPLAY=":0") == ["libEGL.so.1"]
    assert missing(window=True, DISPLAY=":0") == ["libEGL.so.1", "libxcb-cursor.so.0"]
    assert missing(window=True, WAYLAND_DISPLAY="w") == ["libEGL.so.1", "libwayland-client.so.0"]


def test_a_machine_without_fonts_gets_one(tmp_path: Path) -> None:
    assert not system.has_font([tmp_path / "absent", tmp_path])
    found = system.missing_libraries({}, False, loads=lambda name: True, has_font=lambda: False)
    assert found == [system.FONT]
    (tmp_path / "truetype").mkdir()
    (tmp_path / "truetype" / "Some.TTF").touch()
    assert system.has_font([tmp_path])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sonames are Linux's")
def test_loading_is_really_tried() -> None:
    assert system.loads("libc.so.6")
    assert not system.loads("libeyrie-does-not-exist.so.0")


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (
            "apt-get",
            "sudo apt-get update && sudo apt-get install -y --no-install-recommends libegl1 libxcb-randr0 libxcb-xkb1",
        ),
        ("dnf", "sudo dnf install -y libglvnd-egl libxcb"),
        ("pacman", "sudo pacman -S --needed libglvnd libxcb"),
        ("zypper", "sudo zypper install libglvnd libxcb-randr0 libxcb-xkb1"),
    ],
)
def test_command_to_type(program: str, line: str) -> None:
    everything = {each.soname: each for each in (*system.BASE_LIBRARIES, *system.XCB_LIBRARIES)}
    wanted = [everything[name] for name in ("libEGL.so.1", "libxcb-randr.so.0", "libxcb-xkb.so.1")]
    manager = system.package_manager(lambda name: f"/usr/bin/{name}" if name == program else None)
    assert system.by_hand(manager, wanted) == line


def test_unknown_package_manager_gets_the_names() -> None:
    assert "libEGL.so.1" in system.by_hand(system.package_manager(lambda name: None), system.BASE_LIBRARIES)


def test_space() -> None:
    assert system.space_problem(Path("/x"), cuda=False, free=3 * 10**9) == ""
    said = system.space_problem(Path("/x"), cuda=True, free=3 * 10**9)
    assert "8.0 GB" in said
    assert "3.0 GB are free" in said
    assert "EYRIE_VENV" in said


def test_space_of_a_folder_that_does_not_exist_yet(tmp_path: Path) -> None:
    assert system.free_space(tmp_path / "a" / "b") > 0


@pytest.mark.parametrize(
    ("libc", "platform", "said"),
    [
        (("glibc", "2.36"), "linux", ""),
        (("glibc", "2.34"), "linux", ""),
        (("glibc", "2.31"), "linux", "has glibc 2.31"),
        (("", ""), "linux", "musl"),
        (("", ""), "darwin", ""),
    ],
)
def test_old_system(libc: tuple[str, str], platform: str, said: str) -> None:
    problem = system.old_system_problem(libc, platform)
    assert said in problem
    assert bool(problem) is bool(said)


def test_missing_venv_names_the_package_of_debian() -> None:
    def without_ensurepip(name: str) -> object:
        return None if name == "ensurepip" else object()

    assert venv_problem((3, 12), without_ensurepip, lambda name: "/usr/bin/apt-get") == "python3.12-venv"
    assert "ensurepip" in venv_problem((3, 12), without_ensurepip, lambda name: None)
    assert venv_problem((3, 12), lambda name: object()) == ""


@pytest.mark.parametrize(
    ("version", "implementation", "bits", "said"),
    [
        ((3, 11, 0), "cpython", 64, ""),
        ((3, 13, 9), "cpython", 64, ""),
        ((3, 10, 14), "cpython", 64, "3.10 is too old"),
        ((2, 7, 18), "cpython", 64, "2.7 is too old"),
        ((3, 14, 0), "cpython", 64, "3.14 is too new"),
        ((3, 12, 1), "cpython", 32, "32-bit"),
        ((3, 11, 9), "pypy", 64, "pypy"),
    ],
)
def test_python_that_cannot_run_it(version: tuple[int, ...], implementation: str, bits: int, said: str) -> None:
    problem = bootstrap.problem_with(version, implementation, bits)
    assert said in problem
    assert bool(problem) is bool(said)


def test_unsupported_python_hands_over_to_a_supported_one(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "problem_with", lambda *found: "Python 3.14 is too new.")
    monkeypatch.setattr(
        bootstrap.shutil, "which", lambda name: f"/shims/{name}" if name in ("python3.13", "python3.12") else None
    )
    monkeypatch.setattr(bootstrap, "runs", lambda command: command == ["/shims/python3.12"])
    monkeypatch.setattr(bootstrap.subprocess, "call", lambda command: called.append(command) or 7)
    monkeypatch.setattr(sys, "argv", ["bootstrap.py", "test", "-k", "tree"])
    assert bootstrap.start() == 7
    assert called == [["/shims/python3.12", bootstrap.os.path.abspath(bootstrap.__file__), "test", "-k", "tree"]]


def test_a_python_that_does_not_start_is_no_python(tmp_path: Path) -> None:
    assert bootstrap.runs([sys.executable])
    assert not bootstrap.runs([str(tmp_path / "python3.12")])
    assert not bootstrap.runs([sys.executable, "--no-such-option"])


def test_unsupported_python_alone_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bootstrap, "problem_with", lambda *found: "Python 3.10 is too old.")
    monkeypatch.setattr(bootstrap.shutil, "which", lambda name: None)
    assert bootstrap.start() == 1
    said = capsys.readouterr().err
    assert "Python 3.10 is too old." in said
    assert "Install Python 3.13" in said


def test_first_file_can_be_read_by_an_old_python() -> None:
    """It must get as far as saying that the Python is too old; 3.7 is the oldest grammar ``ast`` checks."""
    import ast

    source = Path(bootstrap.__file__).read_text("utf-8")
    ast.parse(source, feature_version=(3, 7))
    assert "__future__" not in source
