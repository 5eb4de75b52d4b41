"""The architecture page draws the layers that the import contract enforces."""

from pathlib import Path

from docs.layer_drawing import PAGE, SOURCES, first_sentence, layers, page


def test_the_drawing_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m docs.layer_drawing`"


def test_every_public_package_and_module_of_ace_is_drawn() -> None:
    drawn = {name for layer in layers() for name in layer}
    assert drawn == {name for name in map(importable_name, SOURCES.iterdir()) if not name.startswith("_")}


def importable_name(path: Path) -> str:
    """The name under which a package or module is imported; one with an underscore for anything else."""
    if path.is_dir():
        return path.name if (path / "__init__.py").exists() else f"_{path.name}"
    return path.stem if path.suffix == ".py" else f"_{path.name}"


def test_what_a_layer_is_comes_from_its_docstring() -> None:
    assert first_sentence("steps") == "The steps of the learning core."
    assert first_sentence("skillbook").startswith("The skillbook: ")
