"""The house's rules, read off the source: who imports whom, and where time comes from."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("precompute", "ingest", "query", "asap_project")

MAY_IMPORT = {
    "precompute": {"precompute"},
    "ingest": {"ingest", "precompute"},
    "query": {"query", "precompute"},
    "asap_project": {"asap_project", "ingest", "query", "precompute"},
}

FRAMEWORKS = {"django", "rest_framework", "celery", "kombu", "redis", "confluent_kafka", "granian"}

ADAPTERS = {
    "precompute/cluster/server.py",
    "precompute/stores/database.py",
    "precompute/stores/asking.py",
    "precompute/stores/definitions.py",
}
"""Modules that hide a framework from everything above them; one per framework and purpose."""

BORDER_FILES = {"views.py", "urls.py", "tasks.py", "models.py", "apps.py"}
BORDER_FOLDERS = {"migrations", "management", "api", "ui"}

CLOCK = "precompute/clock.py"
WALL_CLOCK = {"time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}


def sources(*folders: str) -> list[str]:
    """Paths of all modules below these folders, relative to the root."""
    return sorted(str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).rglob("*.py"))


def tree_of(path: str) -> ast.Module:
    return ast.parse((ROOT / path).read_text("utf-8"), path)


def imported(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every module name that is imported anywhere in a module, in functions too, and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute here"
            yield node.module or "", node.lineno


def calls(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Every call written as a.b(…) or a.b.c(…), as its last two names, imported names resolved, and its line."""
    origin = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            yield ".".join(origin.get(name, name).split(".")[-2:]), node.lineno


def is_border(path: str) -> bool:
    """Whether frameworks may be imported in this module of a package that is not asap_project."""
    *folders, file = path.split("/")
    return path in ADAPTERS or file in BORDER_FILES or bool(BORDER_FOLDERS.intersection(folders))


@pytest.mark.parametrize("path", sources(*PACKAGES))
def test_imports_run_one_way(path: str) -> None:
    allowed = MAY_IMPORT[path.split("/")[0]]
    for module, line in imported(tree_of(path)):
        package = module.split(".")[0]
        assert package not in set(PACKAGES) - allowed, f"{path}:{line} imports {module}"
        assert package != "tests", f"{path}:{line} imports the tests"


@pytest.mark.parametrize("path", [path for path in sources("precompute", "ingest", "query") if not is_border(path)])
def test_frameworks_stay_at_the_border(path: str) -> None:
    for module, line in imported(tree_of(path)):
        assert module.split(".")[0] not in FRAMEWORKS, f"{path}:{line} imports {module}"


@pytest.mark.parametrize("path", [path for path in sources(*PACKAGES, "tests") if path != CLOCK])
def test_the_wall_clock_is_read_in_one_module(path: str) -> None:
    for name, line in calls(tree_of(path)):
        assert name not in WALL_CLOCK, f"{path}:{line} calls {name}; take a Clock"


@pytest.mark.parametrize("path", sources("precompute", "ingest", "query", "tests"))
def test_nothing_sleeps(path: str) -> None:
    for name, line in calls(tree_of(path)):
        assert name != "time.sleep", f"{path}:{line} sleeps"


def test_every_named_module_is_there() -> None:
    for path in {CLOCK, *ADAPTERS}:
        assert (ROOT / path).is_file(), path
