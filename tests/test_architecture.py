"""Properties of the code base itself; which room may import which is import-linter's business."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import homespec

ROOT = Path(homespec.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


def imported_by(code: str) -> set[str]:
    """Names of the top-level packages that a fresh interpreter has imported after some code."""
    report = "import json; print(json.dumps(sorted({n.split('.')[0] for n in sys.modules})))"
    script = f"import sys\n{code}\n{report}"
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True).stdout
    return set(json.loads(output.splitlines()[-1]))


HELP = """
from homespec.cli.main import main
try: main({arguments!r})
except SystemExit as end: assert end.code in (0, None), end.code
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["run", "--help"],
        ["models", "--help"],
        ["bench", "--help"],
        ["chat", "--help"],
        ["sessions", "--help"],
        ["--version"],
    ],
)
def test_help_is_light(arguments: list[str]) -> None:
    heavy = {"llama_cpp", "numpy", "rich", "huggingface_hub", "gguf", "prompt_toolkit", "markdown_it"}
    assert not imported_by(HELP.format(arguments=arguments)) & heavy


def test_listing_models_imports_no_model_code() -> None:
    assert not imported_by(HELP.format(arguments=["models", "list"])) & {"llama_cpp", "numpy"}


def test_listing_conversations_imports_no_model_code() -> None:
    assert not imported_by(HELP.format(arguments=["sessions", "list"])) & {"llama_cpp", "numpy"}


def test_planning_imports_no_model_code(tiny_target: Path) -> None:
    arguments = ["plan", str(tiny_target), "--json"]
    assert not imported_by(HELP.format(arguments=arguments)) & {"llama_cpp", "numpy"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_stay_small(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert source.count("\n") < 400
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno < 60, node.name


def test_public_names_are_sorted_and_exist() -> None:
    assert sorted(homespec.__all__) == homespec.__all__
    for name in homespec.__all__:
        assert getattr(homespec, name) is not None


def test_every_error_is_in_its_modules_table() -> None:
    import homespec.errors as errors

    classes = [
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.HomespecError)
    ]
    assert all(name in (errors.__doc__ or "") for name in classes)


def test_ctypes_stays_in_the_binding() -> None:
    for path in MODULES:
        if path.relative_to(ROOT).parts[0] != "runtime":
            assert "import ctypes" not in path.read_text(encoding="utf-8"), path


def test_matplotlib_stays_in_the_plots() -> None:
    for path in MODULES:
        if path.relative_to(ROOT) != Path("benchmark", "plots.py"):
            source = path.read_text(encoding="utf-8")
            assert "import matplotlib" not in source, path
            assert "from matplotlib" not in source, path
