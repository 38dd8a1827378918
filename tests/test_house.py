"""The house rules: who may import whom, and what never stands in the source.

Each rule is a function over source text or over a tree of packages, so that the
tests can also show it failing on a planted violation.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LONGEST_FILE = 400
PROTOCOLS = ("engine.protocol",)
"""Plain data that crosses the process boundary: all that ``app`` may see of ``engine``."""
VAGUE_NAMES = {"utils", "util", "helpers", "helper", "manager", "misc", "common"}
QT = ("PySide6", "shiboken6", "qasync", "pytestqt")
MODELS = ("torch", "transformers", "tokenizers", "bitsandbytes", "safetensors", "gguf")

IMPORT_ALL = """
import importlib, pathlib, sys
root, package, blocked = sys.argv[1], sys.argv[2], sys.argv[3].split(",")

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ImportError(f"{name} is not allowed in {package}")

sys.meta_path.insert(0, Blocked())
sys.path.insert(0, root)
files = sorted(pathlib.Path(root, package).rglob("*.py"))
assert files, package
failures = 0
for path in files:
    parts = path.relative_to(root).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    try:
        importlib.import_module(name)
    except ImportError as error:
        failures += 1
        print(f"{name}: {error}")
sys.exit(failures > 0)
"""
"""Imports every module of a package in a fresh interpreter where some packages are out of reach."""


def import_all(root: Path, package: str, blocked: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", IMPORT_ALL, str(root), package, ",".join(blocked)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", cwd=root, check=False)


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def imported_names(source: str) -> Iterator[str]:
    """Every absolute import anywhere in ``source``; a relative one cannot leave its package."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_of(source: str, packages: tuple[str, ...]) -> list[str]:
    """Imports of ``packages``, those included that are guarded by a ``try`` or stand in a function."""
    return sorted({name for name in imported_names(source) if name.partition(".")[0] in packages})


def reaches_into_engine(source: str) -> list[str]:
    """Imports of the engine other than its protocol."""
    reached = {name for name in imported_names(source) if name.partition(".")[0] == "engine"}
    allowed = {name for name in reached if any(f"{name}.".startswith(f"{each}.") for each in PROTOCOLS)}
    if allowed:
        reached.discard("engine")  # the ``engine`` of ``from engine import protocol``
    return sorted(reached - allowed)


def unsafe_calls(source: str) -> list[str]:
    """Calls that load code or skip a check: pickles, ``trust_remote_code``, ``strict=False`` on a model."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        keywords = {each.arg: each.value for each in node.keywords if each.arg}
        constants = {name: value.value for name, value in keywords.items() if isinstance(value, ast.Constant)}
        if constants.get("strict") is False and called != "zip":
            found.append(f"line {node.lineno}: {called}(strict=False)")
        if "trust_remote_code" in keywords and constants.get("trust_remote_code") is not False:
            found.append(f"line {node.lineno}: {called}(trust_remote_code=…)")
        if called in ("pickle.load", "pickle.loads", "pickle.Unpickler"):
            found.append(f"line {node.lineno}: {called}")
        if called == "torch.load" and constants.get("weights_only") is not True:
            found.append(f"line {node.lineno}: torch.load without weights_only=True")
    return found


def badly_named(path: Path) -> bool:
    return path.stem.lower() in VAGUE_NAMES


# --------------------------------------------------------------------------- the rules on this project


def test_engine_imports_without_qt_or_app() -> None:
    done = import_all(ROOT, "engine", (*QT, "app"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_app_imports_without_torch_or_transformers() -> None:
    done = import_all(ROOT, "app", MODELS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("package", "strangers"), [("engine", (*QT, "app")), ("app", MODELS)])
def test_no_import_of_strangers_is_hidden(package: str, strangers: tuple[str, ...]) -> None:
    found = {str(path): imports_of(path.read_text("utf-8"), strangers) for path in sources(package)}
    assert {path: names for path, names in found.items() if names} == {}


def test_app_sees_only_the_protocol() -> None:
    reached = {str(path.relative_to(ROOT)): reaches_into_engine(path.read_text("utf-8")) for path in sources("app")}
    assert {path: names for path, names in reached.items() if names} == {}


def test_files_stay_short() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text("utf-8").splitlines())
        for path in sources("engine", "app", "packaging", "tests", "resources")
    }
    assert {path: length for path, length in lengths.items() if length > LONGEST_FILE} == {}


def test_files_have_telling_names() -> None:
    files = sources("engine", "app", "packaging", "tests", "resources")
    assert [path for path in files if badly_named(path) or badly_named(path.parent)] == []


def test_nothing_is_loaded_unsafely() -> None:
    found = {
        str(path.relative_to(ROOT)): unsafe_calls(path.read_text("utf-8"))
        for path in sources("engine", "app", "packaging", "resources")
    }
    assert {path: calls for path, calls in found.items() if calls} == {}


# --------------------------------------------------------------------------- the rules can fail


def plant(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")


def test_a_blocked_import_is_found_deep_inside_a_package(tmp_path: Path) -> None:
    plant(tmp_path, "house/__init__.py", "")
    plant(tmp_path, "house/room/__init__.py", "")
    plant(tmp_path, "house/room/good.py", "import json\n")
    assert import_all(tmp_path, "house", QT).returncode == 0

    plant(tmp_path, "house/room/bad.py", "from PySide6 import QtCore\n")
    done = import_all(tmp_path, "house", QT)
    assert done.returncode == 1
    assert "house.room.bad: PySide6 is not allowed in house" in done.stdout


def test_a_blocked_import_is_found_in_a_package_that_hides_it(tmp_path: Path) -> None:
    plant(tmp_path, "house/__init__.py", "")
    plant(tmp_path, "house/room/__init__.py", "import torch\n")
    done = import_all(tmp_path, "house", MODELS)
    assert done.returncode == 1
    assert "torch is not allowed" in done.stdout


def test_a_guarded_import_is_found() -> None:
    source = "try:\n    import torch.nn\nexcept ImportError:\n    pass\nimport torchlight"
    assert imports_of(source, MODELS) == ["torch.nn"]


@pytest.mark.parametrize(
    ("source", "reached"),
    [
        ("from engine.protocol import Step", []),
        ("from engine import protocol", []),
        ("import engine.protocol as p", []),
        ("from engine.protocol.hub_messages import Fetch", []),
        ("from engine.protocols import Fetch", ["engine.protocols", "engine.protocols.Fetch"]),
        ("import engine", ["engine"]),
        ("from engine.worker import Worker", ["engine.worker", "engine.worker.Worker"]),
        ("from engine import protocol, tree", ["engine.tree"]),
        ("def later():\n    import engine.models.cache", ["engine.models.cache"]),
        ("import engineering", []),
    ],
)
def test_reaching_into_the_engine(source: str, reached: list[str]) -> None:
    assert reaches_into_engine(source) == reached


@pytest.mark.parametrize(
    "source",
    [
        "model.load_state_dict(state, strict=False)",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
        "AutoModel.from_pretrained(name, trust_remote_code=flag)",
        "pickle.load(file)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
    ],
)
def test_an_unsafe_call_is_found(source: str) -> None:
    assert len(unsafe_calls(f"def f():\n    return {source}")) == 1


@pytest.mark.parametrize(
    "source",
    [
        "torch.load(path, weights_only=True)",
        "model.load_state_dict(state, strict=True)",
        "zip(a, b, strict=False)",
        "AutoTokenizer.from_pretrained(name, trust_remote_code=False)",
        "'torch.load(path)'",
    ],
)
def test_a_safe_call_is_not_found(source: str) -> None:
    assert unsafe_calls(source) == []


def test_a_vague_name_is_found() -> None:
    assert badly_named(Path("engine/Utils.py"))
    assert not badly_named(Path("engine/sampling.py"))
