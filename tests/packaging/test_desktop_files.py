"""The desktop entry, the AppStream file and the icon agree with each other and with the application."""

from __future__ import annotations

import ast
import configparser
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtGui import QImage
from PySide6.QtSvg import QSvgRenderer

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
ICONS = ROOT / "resources" / "icons"


def application_constant(name: str) -> object:
    """A constant of app/application.py, read without importing the whole application."""
    for node in ast.parse((ROOT / "app" / "application.py").read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"app/application.py has no {name}")


def metainfo() -> ElementTree.Element:
    return ElementTree.parse(next(PACKAGING.glob("*.metainfo.xml"))).getroot()


def project() -> dict[str, object]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"])


def test_every_name_is_the_application_id() -> None:
    name = metainfo().findtext("id")
    assert name == application_constant("DESKTOP_ID")
    assert (PACKAGING / f"{name}.metainfo.xml").is_file()
    assert (PACKAGING / f"{name}.desktop").is_file()
    assert metainfo().findtext("launchable") == f"{name}.desktop"


def test_desktop_entry_starts_what_the_project_installs() -> None:
    entry = configparser.ConfigParser(interpolation=None)
    entry.optionxform = str  # type: ignore[method-assign, assignment]
    entry.read(next(PACKAGING.glob("*.desktop")), encoding="utf-8")
    section = entry["Desktop Entry"]
    assert section["Type"] == "Application"
    assert section["Icon"] == metainfo().findtext("id")
    scripts = project()["gui-scripts"]
    assert isinstance(scripts, dict)
    assert section["Exec"] in scripts
    assert all(section[key].endswith(";") for key in ("Categories", "Keywords"))


def test_metainfo_agrees_with_the_project() -> None:
    release = metainfo().find("releases/release")
    assert release is not None
    assert release.get("version") == project()["version"]
    assert metainfo().findtext("project_license") == project()["license"]


@pytest.mark.usefixtures("qapp")
def test_icon_renders_and_its_pictures_have_their_sizes() -> None:
    assert QSvgRenderer(str(ICONS / "eyrie.svg")).isValid()
    pictures = sorted(ICONS.glob("eyrie-*.png"))
    assert len(pictures) >= 4
    for picture in pictures:
        size = int(picture.stem.removeprefix("eyrie-"))
        image = QImage(str(picture))
        assert (image.width(), image.height()) == (size, size)
        assert image.pixelColor(size // 2, size // 2).alpha() == 255
        assert image.pixelColor(0, 0).alpha() == 0
