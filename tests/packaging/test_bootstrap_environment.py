"""The stamp, the stages of an installation, and what happens to a broken one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import bootstrap_install
import pytest
from bootstrap_command import Console
from bootstrap_environment import (
    LOCK,
    ROOT,
    STAMP,
    Environment,
    Stamp,
    installed_torch,
    python_of,
    read_requirements,
)
from bootstrap_install import Installation
from bootstrap_process import BootstrapError, Result, Runner, child_environment, reachable
from bootstrap_torch import Gpu

from tests.packaging.fake_runner import FakeRunner

NEEDS = read_requirements()


@pytest.fixture
def environment(folder: Path, runner: FakeRunner) -> Environment:
    return Environment(folder, runner, {"PATH": "/usr/bin"})


@pytest.fixture
def installation(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """On a machine without a GPU, offline but for what pip is configured with."""
    monkeypatch.setattr(bootstrap_install, "find_gpu", lambda: None)
    monkeypatch.setattr(bootstrap_install, "reachable", lambda url: "Name or service not known")
    monkeypatch.setattr(bootstrap_install.system, "free_space", lambda folder: 10**12)
    monkeypatch.setattr(bootstrap_install.sys, "platform", "linux")
    monkeypatch.setattr(bootstrap_install.platform, "machine", lambda: "x86_64")
    return Installation(environment, NEEDS, Console())


def install(installation: Installation, *extras: str, repair: bool = False) -> Stamp:
    return installation.install(extras, None, repair, widgets=True)


# --------------------------------------------------------------------------- stamp


def write_project(root: Path, dependency: str = "torch>=2", pins: str = "torch==2.13.0\n", demo: str = "") -> str:
    (root / "packaging").mkdir(parents=True, exist_ok=True)
    text = f'[project]\nname = "x"\ndependencies = ["{dependency}"]\n[project.optional-dependencies]\ntest = ["pytest"]\n'
    (root / "pyproject.toml").write_text(text, encoding="utf-8")
    (root / "packaging" / "constraints.txt").write_text(pins, encoding="utf-8")
    (root / "packaging" / "demo.txt").write_text(demo, encoding="utf-8")
    return read_requirements(root).digest


def test_digest_changes_with_whatever_decides_what_is_installed(tmp_path: Path) -> None:
    digests = [
        write_project(tmp_path),
        write_project(tmp_path, dependency="torch>=2.1"),
        write_project(tmp_path, pins="torch==2.13.0\nnumpy==2\n"),
        write_project(tmp_path, demo="model==1"),
        write_project(tmp_path / "moved"),
    ]
    assert len(set(digests)) == len(digests)
    assert write_project(tmp_path) == digests[0]


def test_other_settings_leave_the_digest_alone(tmp_path: Path) -> None:
    digest = write_project(tmp_path)
    with open(tmp_path / "pyproject.toml", "a", encoding="utf-8") as file:
        file.write("[tool.ruff]\nline-length = 99\n")
    assert read_requirements(tmp_path).digest == digest


def test_lock_without_torch_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BootstrapError, match="pin torch exactly once"):
        write_project(tmp_path, pins="numpy==2\n")


def test_lock_agrees_with_the_project() -> None:
    """Every requirement of pyproject.toml is pinned, and the demo package is left to its hashes."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "packaging" / "constraints.txt").read_text("utf-8").splitlines()
    pins = {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines) if version}
    everything = [Requirement(text) for text in NEEDS.select([extra for extra in NEEDS.extras if extra != "demo"])]
    assert everything
    for requirement in everything:
        assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement
    assert all(f"{text} " in (ROOT / "packaging" / "demo.txt").read_text("utf-8") for text in NEEDS.extras["demo"])


def test_stamp_covers_only_what_it_was_written_for() -> None:
    stamp = Stamp("d", "3.12.4", "cpu", ("test",), ())
    assert stamp.covers("d", "3.12.4", [], None)
    assert stamp.covers("d", "3.12.4", ["test"], "cpu")
    assert not stamp.covers("other", "3.12.4", [], None)
    assert not stamp.covers("d", "3.13.0", [], None)
    assert not stamp.covers("d", "3.12.4", ["test", "dev"], None)
    assert not stamp.covers("d", "3.12.4", [], "cu130")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"digest": "d"}'])
def test_unreadable_stamp_counts_as_none(environment: Environment, text: str) -> None:
    environment.folder.mkdir(parents=True)
    (environment.folder / STAMP).write_text(text)
    assert environment.stamp() is None


def test_a_missing_package_breaks_the_stamp(installation: Installation, environment: Environment) -> None:
    environment.create()
    probed = environment.probe()
    assert probed is not None
    package = probed[1] / "qasync"
    package.mkdir()
    install(installation)
    assert environment.ready(NEEDS.digest, [], None) is not None
    (probed[1] / "added-by-the-user").mkdir()
    assert environment.ready(NEEDS.digest, [], None) is not None
    package.rmdir()
    assert environment.ready(NEEDS.digest, [], None) is None


def test_a_python_that_is_gone_breaks_the_stamp(installation: Installation, environment: Environment) -> None:
    install(installation)
    python_of(environment.folder).unlink()
    assert environment.ready(NEEDS.digest, [], None) is None


# --------------------------------------------------------------------------- stages


def test_stages_in_order(installation: Installation, runner: FakeRunner, environment: Environment) -> None:
    stamp = install(installation)
    torch, chosen, libraries, demo = runner.pip()
    assert torch[:7] == ["--no-deps", "--dry-run", "--retries", "0", "--timeout", "10", "torch==2.13.0+cpu"]
    assert chosen[:2] == ["--no-deps", "torch==2.13.0+cpu"]
    assert libraries[:2] == ["-c", str(ROOT / "packaging" / "constraints.txt")]
    assert "torch>=2.10,<3" in libraries
    assert not any("gemma" in argument or "pytest" in argument for argument in libraries)
    assert demo[:3] == ["--no-deps", "--require-hashes", "-r"]
    assert stamp == environment.stamp()
    assert (stamp.torch_build, stamp.python, stamp.extras, stamp.warning) == ("cpu", "3.12.4", (), "")


def test_reachable_index_is_asked_first(
    installation: Installation, runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap_install, "reachable", lambda url: "")
    monkeypatch.setattr(bootstrap_install, "find_gpu", lambda: Gpu((580, 65, 6), ("RTX 4090",), ((8, 9),)))
    stamp = install(installation)
    assert runner.pip()[0][:4] == [
        "--no-deps",
        "--index-url",
        "https://download.pytorch.org/whl/cu130",
        "torch==2.13.0+cu130",
    ]
    assert len(runner.pip()) == 3
    assert "GPU is not used" in stamp.warning  # the trial import of this test finds no GPU


def test_plain_pypi_is_the_last_resort(
    installation: Installation, runner: FakeRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    runner.answers.append(lambda command: Result(1) if "torch==2.13.0+cpu" in command else None)
    install(installation)
    assert [one[:2] for one in runner.pip()][1] == ["--no-deps", "torch==2.13.0"]
    said = capsys.readouterr().out
    assert "https://download.pytorch.org/whl/cpu cannot be reached (Name or service not known)" in said
    assert "3 GB" in said


def test_pip_that_fails_offline_says_so(installation: Installation, runner: FakeRunner, folder: Path) -> None:
    runner.answers.append(lambda command: Result(1) if "-c" in command and "pip" in command else None)
    with pytest.raises(BootstrapError, match=r"pip cannot reach https://pypi\.org/simple .*HTTPS_PROXY"):
        install(installation)
    assert not (folder / STAMP).exists()


def test_full_disk_is_said_before_anything_is_made(
    installation: Installation, runner: FakeRunner, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap_install.system, "free_space", lambda folder: 10**9)
    with pytest.raises(BootstrapError, match=r"About 2\.5 GB are needed"):
        install(installation)
    assert not folder.exists()
    assert runner.pip() == []


def test_environment_that_does_not_import_is_rebuilt_once(
    installation: Installation, runner: FakeRunner, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(command: list[str]) -> Result | None:
        return Result(1, "Traceback\nModuleNotFoundError: No module named 'qasync'") if "torch.cuda" in command[-1] else None

    runner.answers.insert(0, broken)
    with pytest.raises(BootstrapError, match="No module named 'qasync'"):
        install(installation)
    assert [command[1:3] for command in runner.commands].count(["-m", "venv"]) == 2
    assert "Rebuilding" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("ImportError: libEGL.so.1: cannot open shared object file: No such file", "system library is missing: .*libEGL"),
        ("OSError: [WinError 126] The specified module could not be found. c10.dll", r"vc_redist\.x64"),
    ],
)
def test_missing_system_library_is_named_and_nothing_rebuilt(
    installation: Installation, runner: FakeRunner, error: str, said: str
) -> None:
    runner.answers.insert(0, lambda command: Result(1, error) if "torch.cuda" in command[-1] else None)
    with pytest.raises(BootstrapError, match=said):
        install(installation)
    assert [command[1:3] for command in runner.commands].count(["-m", "venv"]) == 1


def test_killed_installation_is_gone_over_again(installation: Installation, runner: FakeRunner, folder: Path) -> None:
    install(installation, "test")

    def killed(command: list[str]) -> Result | None:
        if "--require-hashes" in command:
            raise KeyboardInterrupt
        return None

    runner.answers.insert(0, killed)
    with pytest.raises(KeyboardInterrupt):
        install(installation, "dev")
    assert not (folder / STAMP).exists()
    runner.answers.remove(killed)
    assert install(installation, "test").extras == ("test",)


def test_repair_starts_from_an_empty_folder(installation: Installation, folder: Path) -> None:
    install(installation, "test")
    (folder / "leftover").touch()
    stamp = install(installation, repair=True)
    assert not (folder / "leftover").exists()
    assert stamp.extras == ("test",)


# --------------------------------------------------------------------------- the folder


def test_foreign_folders_are_left_alone(environment: Environment, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "thesis.txt").write_text("years of work")
    with pytest.raises(BootstrapError, match="left alone"):
        environment.clear()
    with pytest.raises(BootstrapError, match="no virtual environment"), environment.locked(lambda: None):
        pass
    assert [each.name for each in folder.iterdir()] == ["thesis.txt"]


def test_another_tools_environment_may_be_used_but_not_cleared(environment: Environment, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\nprompt = 'work'\n")
    with environment.locked(lambda: None):
        assert (folder / LOCK).exists()
    with pytest.raises(BootstrapError, match="left alone"):
        environment.clear()


def test_project_is_linked_whatever_its_path(tmp_path: Path) -> None:
    site, root = tmp_path / "site", tmp_path / "夢 \"quoted'"
    (root / "eyrie_linked").mkdir(parents=True)
    (root / "eyrie_linked" / "__init__.py").touch()
    site.mkdir()
    Environment(tmp_path, FakeRunner(), {}).link_project(site, root)
    code = f"import site; site.addsitedir({str(site)!r}); import eyrie_linked, json; print(json.dumps(eyrie_linked.__file__))"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert Path(json.loads(done.stdout)).parent.parent == root


def test_lock_keeps_a_second_bootstrap_out(folder: Path) -> None:
    first, second = (Environment(folder, FakeRunner(), {}) for _ in range(2))
    waited, entered = threading.Event(), threading.Event()

    def enter() -> None:
        with second.locked(waited.set):
            entered.set()

    with first.locked(lambda: None):
        thread = threading.Thread(target=enter)
        thread.start()
        assert waited.wait(5)
        assert not entered.is_set()
    thread.join(5)
    assert entered.is_set()


def test_torch_is_recognised_by_its_metadata(tmp_path: Path) -> None:
    assert installed_torch(tmp_path) == ""
    (tmp_path / "torchvision-0.29.0.dist-info").mkdir()
    assert installed_torch(tmp_path) == ""
    (tmp_path / "torch-2.13.0+cu130.dist-info").mkdir()
    assert installed_torch(tmp_path) == "2.13.0+cu130"


# --------------------------------------------------------------------------- processes


def test_children_see_no_foreign_python_settings() -> None:
    environment = child_environment({"PYTHONPATH": "/ros", "PYTHONHOME": "/x", "HTTPS_PROXY": "p", "PIP_USER": "1"})
    assert "PYTHONPATH" not in environment
    assert "PYTHONHOME" not in environment
    assert (environment["HTTPS_PROXY"], environment["PIP_USER"]) == ("p", "0")


def test_runner_reports_status_and_output() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(5)"
    result = Runner().run([sys.executable, "-c", code], os.environ, capture=True)
    assert result.code == 5
    assert sorted(result.output.split()) == ["err", "out"]
    assert Runner().run(["/does/not/exist"]).code == 127


def test_reachable_tells_why_not() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(200 if self.path == "/cpu/torch/" else 404)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert reachable(f"{url}/cpu/torch/") == ""
        assert reachable(f"{url}/cu999/torch/") == "HTTP status 404"
        server.shutdown()
        thread.join()
    assert reachable(f"{url}/cpu/torch/", seconds=2)
    assert "unknown url type" in reachable("not a url")
