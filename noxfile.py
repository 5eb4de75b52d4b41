"""The checks that need separate environments. `make test-all` runs all of them; `nox --list` lists them."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nox
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
WORKSPACE: dict[str, Any] = nox.project.load_toml(ROOT / "pyproject.toml")
DISTRIBUTIONS: list[str] = WORKSPACE["tool"]["uv"]["workspace"]["members"]
PINNED = ("--constraint", "requirements/dev.txt")

# Fails unless the package is from the wheel of this version, and all its modules can be imported.
IMPORT_ALL = """
import importlib, importlib.metadata, pkgutil, sys, sysconfig
name, distribution, version = sys.argv[1:]
package = importlib.import_module(name)
installed = importlib.metadata.version(distribution)
print(f"{package.__file__}, {distribution} {installed}, on Python {sys.version.split()[0]}")
assert package.__file__.startswith(sysconfig.get_path("purelib")), "this is not the installed wheel"
assert installed == version, f"this is not the version that was built: {version}"
for module in pkgutil.walk_packages(package.__path__, f"{name}."):
    # The conformance kit needs pytest, which its users install: its extra. The sessions `template` and `acme` test it.
    if not module.name.endswith(".__main__") and not module.name.startswith("ace.testing."):
        importlib.import_module(module.name)
"""


def interpreters() -> dict[tuple[int, int], str]:
    """The supported Python versions on this machine, each with a working interpreter."""
    found: dict[tuple[int, int], str] = {}
    for candidate in interpreter_candidates():
        # A command of that name may exist without working: version managers create such shims.
        asked = subprocess.run(
            [candidate, "-c", "import sys; print(*sys.version_info[:2], sys.executable)"],
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode == 0:
            major, minor, executable = asked.stdout.strip().split(" ", 2)
            if (version := (int(major), int(minor))) >= (3, 11):
                found.setdefault(version, executable)
    return dict(sorted(found.items()))


def interpreter_candidates() -> Iterator[str]:
    """Commands on the path, then the installations of pyenv, as far as they exist."""
    for minor in range(11, 20):
        if command := shutil.which(f"python3.{minor}"):
            yield command
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from (str(path) for path in sorted(pyenv.glob("versions/3.*/bin/python")))


PYTHONS = interpreters()
OLDEST, NEWEST = min(PYTHONS), max(PYTHONS)


@nox.session(python=PYTHONS[OLDEST])
def tests(session: nox.Session) -> None:
    """All tests on the sources, as in `make test`. Arguments after `--` are passed to pytest."""
    install_for_development(session)
    session.run("pytest", *session.posargs)


@nox.session(python=PYTHONS[NEWEST])
@nox.parametrize("distribution", DISTRIBUTIONS)
def wheels(session: nox.Session, distribution: str) -> None:
    """The tests of a distribution on its wheel, with only its declared dependencies, on the newest Python."""
    install_wheel(session, distribution)
    session.install(*test_tools(distribution), *PINNED)
    run_tests_on_installed(session, test_folder(distribution))


@nox.session(python=PYTHONS[OLDEST])
@nox.parametrize("distribution", DISTRIBUTIONS)
def oldest(session: nox.Session, distribution: str) -> None:
    """The tests of a distribution on its wheel, with the oldest declared dependencies, on the oldest Python."""
    dependencies = [
        entry for entry in project_table(distribution)["dependencies"] if Requirement(entry).name not in DISTRIBUTIONS
    ]
    if not dependencies:
        session.skip(f"{distribution} declares no dependencies but ours")
    # Listed explicitly, they are direct requirements; for the requirements of a wheel, uv would choose the newest.
    install_wheel(session, distribution, "--resolution=lowest-direct", *dependencies)
    before = installed(session)
    session.install(*test_tools("ace-core"))
    # The newest releases of these tools would require newer releases of the tested dependencies.
    if own := [tool for tool in test_tools(distribution) if tool not in test_tools("ace-core")]:
        session.install("--resolution=lowest-direct", *own)
    # What these bring along, such as an older OpenAI client than LiteLLM would choose, may change.
    names = {canonicalize_name(Requirement(dependency).name) for dependency in dependencies}
    if newer := {
        requirement
        for requirement in before - installed(session)
        if canonicalize_name(requirement.partition("==")[0]) in names
    }:
        session.error(f"the test tools need newer releases than {distribution} declares: {', '.join(newer)}")
    run_tests_on_installed(session, test_folder(distribution))


@nox.session(python=PYTHONS[OLDEST], venv_backend="venv")
def install(session: nox.Session) -> None:
    """The installation as described in the READMEs, for all distributions together: plain pip on the checkout."""
    session.run("python", "-m", "pip", "install", "--quiet", *(f"./{distribution}" for distribution in DISTRIBUTIONS))
    session.run("python", "-m", "pip", "check")
    for distribution in DISTRIBUTIONS:
        import_all(session, distribution)


@nox.session(python=PYTHONS[OLDEST])
def template(session: nox.Session) -> None:
    """The plugin written by `ace plugins new`: its wheel and that of ace-core, and its unedited tests."""
    with tempfile.TemporaryDirectory(prefix="ace-template-") as name:
        folder = Path(name)
        install_core_with_kit(session, folder)
        session.run("ace", "plugins", "new", "night-owl", "--output", name)
        test_plugin_from_its_wheel(session, folder / "ace-night-owl")
        session.run("ace", "plugins", "new", "day-owl", "--with", "command,observer,runner", "--output", name)
        test_plugin_from_its_wheel(session, folder / "ace-day-owl")


@nox.session(python=PYTHONS[OLDEST])
def acme(session: nox.Session) -> None:
    """The example of a third-party plugin: its wheel and that of ace-core, and its tests with the conformance kit."""
    with tempfile.TemporaryDirectory(prefix="ace-acme-") as name:
        folder = Path(name)
        install_core_with_kit(session, folder)
        for distribution in ("acme-agent", "ace-acme"):
            ignored = shutil.ignore_patterns("__pycache__", "dist")
            shutil.copytree(ROOT / "examples" / distribution, folder / distribution, ignore=ignored)
        install_plugin(session, folder / "acme-agent")
        test_plugin_from_its_wheel(session, folder / "ace-acme")
        session.run("ace", "plugins", "--check", "acme")
        session.run("python", "-c", "import ace.plugins; print(ace.plugins.get_runner('acme'))")


@nox.session(python=PYTHONS[OLDEST])
def tutorial(session: nox.Session) -> None:
    """The commands of the tutorial on plugins, in an empty folder, with plain pip."""
    session.install(*test_tools("ace-core"), *PINNED)
    session.run("python", "-m", "pytest", "tests/tutorial", *session.posargs, env={"ACE_REQUIRE": "registry"})


@nox.session(python=PYTHONS[OLDEST])
def startup(session: nox.Session) -> None:
    """The start-up tests on the wheel of ace-core, with only its declared dependencies."""
    install_wheel(session, "ace-core")
    session.install(*test_tools("ace-core"), *PINNED)
    run_tests_on_installed(session, Path("tests/workspace/test_startup.py"))


@nox.session(python=PYTHONS[OLDEST])
def docs(session: nox.Session) -> None:
    """The examples in the documentation, and its site, built with warnings as errors."""
    install_for_development(session)
    session.run("pytest", "tests/docs", "ace-core/src")
    session.run("sphinx-build", "--fail-on-warning", "--keep-going", "--quiet", "docs", "build/docs")


@nox.session(python=PYTHONS[OLDEST])
def bench(session: nox.Session) -> None:
    """The benchmarks. They fail on a wrong result, never on time."""
    install_for_development(session)
    session.run("python", "-m", "benchmarks", *session.posargs)
    session.run("python", "-m", "benchmarks.skillbook")
    session.run("python", "-m", "benchmarks.learning", "--quick")
    session.run("python", "-m", "benchmarks.learning_workers", "--quick")
    session.run("python", "-m", "benchmarks.loop", "--quick")
    session.run("python", "-m", "benchmarks.update_groups", "--quick")
    session.run("python", "-m", "benchmarks.service_scale", "--quick")
    session.run("python", "-m", "benchmarks.first_result", "--quick")
    session.run("python", "-m", "benchmarks.transcripts", "--quick")
    session.run("python", "-m", "benchmarks.similarity")
    session.run("python", "-m", "benchmarks.reflection", "--quick")
    session.run("python", "-m", "benchmarks.tracing", "--quick")
    session.run("python", "-m", "benchmarks.comparison")


def project_table(distribution: str) -> dict[str, Any]:
    """The `[project]` table of a distribution."""
    table: dict[str, Any] = nox.project.load_toml(ROOT / distribution / "pyproject.toml")["project"]
    return table


def test_tools(distribution: str) -> tuple[str, ...]:
    """The requirements of a distribution's tests: the common tools and those of its own group, if it has one."""
    own = f"test-{distribution}"
    groups = ["test", *([own] if own in WORKSPACE["dependency-groups"] else [])]
    return nox.project.dependency_groups(WORKSPACE, *groups)


def test_folder(distribution: str) -> Path:
    """The folder with the tests of a distribution, from the root."""
    return Path("tests") / distribution.removeprefix("ace-").replace("-", "_")


def import_package(distribution: str) -> str:
    """The name under which a distribution is imported."""
    uv = nox.project.load_toml(ROOT / distribution / "pyproject.toml")["tool"]["uv"]
    name: str = uv["build-backend"]["module-name"]
    return name


def install_for_development(session: nox.Session) -> None:
    """Install the contents of `.venv`: the pinned requirements, and all distributions from their sources."""
    session.install("--require-hashes", "--requirement", "requirements/dev.txt")
    session.install("--no-deps", *(f"--editable=./{distribution}" for distribution in DISTRIBUTIONS))


def install_wheel(session: nox.Session, distribution: str, *options: str) -> None:
    """Build all wheels, install one with its dependencies, and import all its modules.

    Dependencies in this repository are installed from the new wheels, because their names belong to other projects on
    the public index. The modules are imported before the test tools are installed, which may have undeclared
    dependencies of the distribution as their own.
    """
    with tempfile.TemporaryDirectory(prefix="ace-wheels-") as folder:
        session.run("uv", "build", "--quiet", "--all-packages", "--wheel", "--out-dir", folder, external=True)
        built = {path.name.partition("-")[0].replace("_", "-"): str(path) for path in Path(folder).glob("*.whl")}
        session.install(*options, *(built[name] for name in with_ours_that_it_needs(distribution)))
    import_all(session, distribution)


def install_core_with_kit(session: nox.Session, folder: Path) -> None:
    """Install the wheel of ace-core with its extra `testing`, and nothing else."""
    session.run("uv", "build", "--quiet", "--wheel", "--out-dir", str(folder), "ace-core", external=True)
    [wheel] = folder.glob("ace_core-*.whl")
    session.install(f"ace-core[testing] @ {wheel.as_uri()}", *PINNED)


def install_plugin(session: nox.Session, source: Path) -> None:
    """Build the wheel of a plugin outside the workspace, and install it without its dependencies."""
    session.run("uv", "build", "--quiet", "--wheel", "--out-dir", str(source / "dist"), str(source), external=True)
    session.install("--no-index", *map(str, (source / "dist").glob("*.whl")))


def test_plugin_from_its_wheel(session: nox.Session, source: Path) -> None:
    """Install the wheel of a plugin and run the tests that come with its source."""
    install_plugin(session, source)
    with session.chdir(source):
        session.run("python", "-m", "pytest", *session.posargs)


def import_all(session: nox.Session, distribution: str) -> None:
    """Import every module of a distribution, and check that they are the installed ones."""
    version = project_table(distribution)["version"]
    session.run("python", "-c", IMPORT_ALL, import_package(distribution), distribution, version)


def installed(session: nox.Session) -> set[str]:
    """All distributions in the session's environment, each with its version."""
    printed = session.run("uv", "pip", "freeze", external=True, silent=True)
    return set(str(printed).splitlines())


def with_ours_that_it_needs(distribution: str) -> list[str]:
    """A distribution and its direct and indirect dependencies in the workspace."""
    names = [distribution]
    for name in names:
        declared = {Requirement(entry).name for entry in project_table(name)["dependencies"]}
        names += [ours for ours in DISTRIBUTIONS if ours in declared and ours not in names]
    return names


def run_tests_on_installed(session: nox.Session, tests: Path) -> None:
    """Run tests on installed distributions, in a folder from which our sources cannot be imported."""
    with tempfile.TemporaryDirectory(prefix="ace-tests-") as name:
        folder = Path(name)
        shared = [Path("tests/conftest.py"), Path("tests/requirement.py"), Path("tests/support"), Path("examples")]
        for path in (Path("pyproject.toml"), *shared, tests):
            copy(path, folder)
        with session.chdir(folder):
            session.run("python", "-m", "pytest", "-n", "2", "-m", "not thorough", str(tests), *session.posargs)


def copy(path: Path, folder: Path) -> None:
    """Copy a file or folder of the project to the same place below another folder."""
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / path).is_dir():
        shutil.copytree(ROOT / path, folder / path, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(ROOT / path, folder / path)
