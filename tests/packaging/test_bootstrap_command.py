"""The command line: what is asked for, and what is started."""

from __future__ import annotations

import sys
from pathlib import Path

import bootstrap_command
import pytest
from bootstrap_command import Console, Wish, carry_out, parse, shell_line
from bootstrap_environment import ROOT, chosen_folder, python_of
from bootstrap_process import BootstrapError, Result

from tests.packaging.fake_runner import FakeRunner, Handover


@pytest.mark.parametrize(
    ("arguments", "wish"),
    [
        ([], Wish()),
        (["--no-launch"], Wish(launch=False)),
        (["run", "--debug", "--no-launch"], Wish(arguments=("--debug", "--no-launch"))),
        (["--", "--debug"], Wish(arguments=("--debug",))),
        (["chat", "run test"], Wish("chat", ("run test",))),
        (["--repair", "--torch", "cpu", "test", "-k", "run"], Wish("test", ("-k", "run"), repair=True, build="cpu")),
    ],
)
def test_arguments(arguments: list[str], wish: Wish) -> None:
    assert parse(arguments) == wish


@pytest.mark.parametrize("arguments", [["--debug"], ["start"], ["--torch", "cu999"]])
def test_unknown_arguments_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(arguments)
    assert stop.value.code == 2
    assert arguments[-1] in capsys.readouterr().err


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(["--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    assert all(f"\n  {command} " in said for command in bootstrap_command.COMMANDS)


@pytest.fixture
def quiet_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own state is other tests' business."""
    monkeypatch.setattr(bootstrap_command, "check_machine", lambda *arguments: None)
    monkeypatch.setattr("bootstrap_install.find_gpu", lambda: None)
    monkeypatch.setattr("bootstrap_install.reachable", lambda url: "Name or service not known")
    monkeypatch.setattr("bootstrap_install.installed_torch", lambda site: "2.13.0+cpu")
    monkeypatch.setattr(bootstrap_command.system, "missing_libraries", lambda *arguments, **options: [])


@pytest.mark.usefixtures("quiet_machine")
class TestStarting:
    def carry(self, runner: FakeRunner, folder: Path, *arguments: str, **variables: str) -> int:
        return carry_out(parse(arguments), runner, Console(), {"EYRIE_VENV": str(folder), **variables})

    def test_window(self, runner: FakeRunner, folder: Path) -> None:
        with pytest.raises(Handover) as handover:
            self.carry(runner, folder, "run", "--debug", DISPLAY=":0")
        assert handover.value.command == [str(python_of(folder)), "-P", "-m", "app", "--debug"]

    def test_chat_needs_no_display(self, runner: FakeRunner, folder: Path) -> None:
        with pytest.raises(Handover) as handover:
            self.carry(runner, folder, "chat", "Hello there")
        assert handover.value.command[1:] == ["-P", "-m", "engine", "chat", "Hello there"]

    def test_no_display_offers_the_command_line(
        self,
        runner: FakeRunner,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(sys, "platform", "linux")
        assert self.carry(runner, folder) == 1
        said = capsys.readouterr().out
        assert "no display" in said
        assert shell_line([str(python_of(folder)), "-m", "engine", "chat", "Hello"]) in said

    def test_no_launch_starts_nothing(self, runner: FakeRunner, folder: Path) -> None:
        assert self.carry(runner, folder, "--no-launch") == 0
        assert not any(command[1:2] == ["-P"] for command in runner.commands)

    def test_second_start_runs_one_small_program(self, runner: FakeRunner, folder: Path) -> None:
        self.carry(runner, folder, "--no-launch")
        first = len(runner.commands)
        self.carry(runner, folder, "--no-launch")
        assert len(runner.commands) == first + 1
        assert "platform.python_version" in runner.commands[-1][-1]

    def test_tests_bring_their_tools_and_run_all_three(self, runner: FakeRunner, folder: Path) -> None:
        self.carry(runner, folder, "--no-launch")
        runner.commands.clear()
        assert self.carry(runner, folder, "test", "-k", "tree") == 0
        assert any("pytest-qt>=4.5,<5" in arguments for arguments in runner.pip())
        python = str(python_of(folder))
        assert runner.commands[-3:] == [
            [python, "-m", "ruff", "check", "."],
            [python, "-m", "mypy"],
            [python, "-m", "pytest", "-k", "tree"],
        ]

    def test_tests_that_watch_the_clock_run_by_themselves(self, runner: FakeRunner, folder: Path) -> None:
        assert self.carry(runner, folder, "test") == 0
        beside, alone = (command[3:] for command in runner.commands[-2:])
        assert beside[0] == "-n" and beside[-2:] == ["-m", "not alone"]
        assert alone == ["-m", "alone"]

    def test_window_after_tests_installs_nothing(self, runner: FakeRunner, folder: Path) -> None:
        self.carry(runner, folder, "test")
        runner.commands.clear()
        self.carry(runner, folder, "--no-launch")
        assert runner.pip() == []

    @pytest.mark.parametrize("failing", ["ruff", "mypy", "pytest"])
    def test_a_failing_check_fails_the_run_and_stops_no_other(
        self, failing: str, runner: FakeRunner, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        runner.answers.append(lambda command: Result(3) if command[1:3] == ["-m", failing] else None)
        assert self.carry(runner, folder, "test", "-x") == 3
        assert [command[2] for command in runner.commands[-3:]] == ["ruff", "mypy", "pytest"]
        assert f"Failed: {failing} (exit status 3)" in capsys.readouterr().out

    def test_insisting_on_another_build_installs_again(self, runner: FakeRunner, folder: Path) -> None:
        self.carry(runner, folder, "--no-launch")
        runner.commands.clear()
        self.carry(runner, folder, "--torch", "cpu", "--no-launch")
        assert runner.pip() == []
        self.carry(runner, folder, "--torch", "cu126", "--no-launch")
        assert ["--no-deps", "torch==2.13.0+cu126"] in [one[:2] for one in runner.pip()]


@pytest.mark.parametrize(
    ("root", "ends"), [(False, "sudo apt-get install python3.12-venv"), (True, "still has no venv module")]
)
def test_missing_venv_module(
    monkeypatch: pytest.MonkeyPatch, runner: FakeRunner, root: bool, ends: str
) -> None:
    monkeypatch.setattr(bootstrap_command.system, "old_system_problem", lambda *arguments: "")
    monkeypatch.setattr(bootstrap_command.system, "may_install", lambda manager: root)
    monkeypatch.setattr(bootstrap_command, "venv_problem", lambda: "python3.12-venv")
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(BootstrapError, match=ends.replace(".", r"\.")):
        bootstrap_command.check_machine(Wish(), Console(), runner, {})
    installs = [command for command in runner.commands if "install" in command]
    assert bool(installs) is root
    assert all(command[-1] == "python3.12-venv" for command in installs)


def test_missing_libraries_are_installed_as_root_and_named_otherwise(
    monkeypatch: pytest.MonkeyPatch, runner: FakeRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    system = bootstrap_command.system
    monkeypatch.setattr(system, "old_system_problem", lambda *arguments: "")
    monkeypatch.setattr(system, "package_manager", lambda: system.APT)
    monkeypatch.setattr(bootstrap_command, "venv_problem", lambda: "")
    monkeypatch.setattr(sys, "platform", "linux")
    absent = [list(system.BASE_LIBRARIES[:1]), []]
    monkeypatch.setattr(system, "missing_libraries", lambda *arguments, **options: absent.pop(0))
    monkeypatch.setattr(system, "may_install", lambda manager: True)
    bootstrap_command.check_machine(Wish("test"), Console(), runner, {})
    assert runner.commands == [
        ["apt-get", "update"],
        ["apt-get", "install", "-y", "--no-install-recommends", "libegl1"],
    ]
    assert runner.environments[-1]["DEBIAN_FRONTEND"] == "noninteractive"

    runner.commands.clear()
    capsys.readouterr()
    absent.append(list(system.BASE_LIBRARIES[:1]))
    monkeypatch.setattr(system, "may_install", lambda manager: False)
    bootstrap_command.check_machine(Wish("test"), Console(), runner, {})
    assert runner.commands == []
    assert "sudo apt-get install -y --no-install-recommends libegl1" in capsys.readouterr().out


def test_folder_of_the_environment(tmp_path: Path) -> None:
    assert chosen_folder({}) == ROOT / ".venv"
    assert chosen_folder({"EYRIE_VENV": " "}) == ROOT / ".venv"
    assert chosen_folder({"EYRIE_VENV": str(tmp_path / "ä b")}) == tmp_path / "ä b"


def test_line_to_paste_is_quoted() -> None:
    command = ["/home/jo smith/.venv/bin/python", "-m", "engine"]
    assert shell_line(command, windows=False) == "'/home/jo smith/.venv/bin/python' -m engine"
    assert shell_line(command, windows=True) == '"/home/jo smith/.venv/bin/python" -m engine'
