"""The checks that need separate environments. `make test-all` runs all of them; `nox --list` lists them."""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nox
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

nox.needs_version = ">=2026.10.20"
nox.options.default_venv_backend = "uv"
nox.options.download_python = "never"
nox.options.error_on_missing_interpreters = True

ROOT = Path(__file__).parent
WORKSPACE: dict[str, Any] = nox.project.load_toml(ROOT / "pyproject.toml")
DISTRIBUTIONS: list[str] = WORKSPACE["tool"]["uv"]["workspace"]["members"]
PINNED = ("--constraint", "requirements/dev.txt")

# The tests of what a wheel, or another release of a dependency, can break; `make test` runs all tests on the sources.
TESTS_OF_WHEELS: dict[str, list[str]] = {
    "ace-core": [
        "tests/workspace/test_startup.py",
        "tests/core/cli/test_app.py",
        "tests/core/cli/test_train.py",
        "tests/core/deduplication/test_detector.py",
        "tests/core/deduplication/test_imports.py",
        "tests/core/plugins/test_discovery.py",
        "tests/core/plugins/test_specs.py",
        "tests/core/providers/test_answer_schemas.py",
        "tests/core/providers/test_async_calls.py",
        "tests/core/providers/test_cached_tokens.py",
        "tests/core/providers/test_direct_requests.py",
        "tests/core/providers/test_imports.py",
        "tests/core/providers/test_instructor.py",
        "tests/core/providers/test_litellm_client.py",
        "tests/core/providers/test_litellm_embedder.py",
        "tests/core/providers/test_model_table.py",
        "tests/core/providers/test_server_quirks.py",
        "tests/core/providers/test_structured_answers.py",
        "tests/core/runners/test_integration.py",
        "tests/core/runners/test_ace_litellm.py",
        "tests/core/skillbook/test_imports.py",
        "tests/core/skillbook/test_json_refusals.py",
        "tests/core/skillbook/test_store.py",
        "tests/core/skillbook/test_store_files.py",
        "tests/core/skillbook/test_store_vectors.py",
        "tests/core/steps/test_files.py",
        "tests/core/loop/test_archive.py",
    ],
    "ace-beads": ["tests/beads/test_client.py", "tests/beads/test_hook.py"],
    "ace-browser-use": [
        "tests/browser_use/test_learning.py",
        "tests/browser_use/test_plugin.py",
        "tests/browser_use/test_recursive_reflector.py",
        "tests/browser_use/test_to_trace.py",
        "tests/browser_use/test_without_framework.py",
    ],
    "ace-claude-code": [
        "tests/claude_code/test_conformance.py",
        "tests/claude_code/test_project_skills.py",
        "tests/claude_code/test_to_trace.py",
    ],
    "ace-langchain": [
        "tests/langchain/test_caller.py",
        "tests/langchain/test_conformance.py",
        "tests/langchain/test_deepagents.py",
        "tests/langchain/test_failures.py",
        "tests/langchain/test_history.py",
        "tests/langchain/test_interrupts.py",
        "tests/langchain/test_learning.py",
        "tests/langchain/test_llm_client.py",
        "tests/langchain/test_middleware.py",
        "tests/langchain/test_recording.py",
        "tests/langchain/test_recursive_reflector.py",
        "tests/langchain/test_search.py",
        "tests/langchain/test_shapes.py",
        "tests/langchain/test_streaming.py",
        "tests/langchain/test_to_trace.py",
        "tests/langchain/test_without_framework.py",
    ],
    "ace-mcp": ["tests/mcp/test_http.py", "tests/mcp/test_tools.py"],
    "ace-openclaw": [
        "tests/openclaw/test_conformance.py",
        "tests/openclaw/test_runner.py",
        "tests/openclaw/test_to_trace.py",
    ],
    "ace-opik": ["tests/opik/test_conformance.py", "tests/opik/test_connection.py", "tests/opik/test_opik.py"],
    "ace-otel": [
        "tests/otel/test_command_line.py",
        "tests/otel/test_conformance.py",
        "tests/otel/test_cost.py",
        "tests/otel/test_spans.py",
    ],
    "ace-postgres": [
        "tests/postgres/test_command_line.py",
        "tests/postgres/test_conformance.py",
        "tests/postgres/test_locations.py",
    ],
    "ace-proxy": ["tests/proxy/test_command.py", "tests/proxy/test_sdks.py"],
    "ace-server": [
        "tests/server/test_access.py",
        "tests/server/test_answers.py",
        "tests/server/test_batches.py",
        "tests/server/test_database.py",
        "tests/server/test_feedback.py",
        "tests/server/test_lists.py",
        "tests/server/test_proxy.py",
        "tests/server/test_quick_start.py",
        "tests/server/test_seal.py",
        "tests/server/test_start.py",
    ],
    "ace-sleep": ["tests/sleep/test_nightly.py", "tests/sleep/test_sandbox.py"],
}

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
def newest(session: nox.Session, distribution: str) -> None:
    """A distribution's wheel, with only its declared dependencies in their newest releases, on the newest Python."""
    dependencies = all_dependencies(distribution)
    install_wheel(session, distribution, *dependencies)
    installed_before = installed(session)
    # Where the releases that the other tools are pinned to do not fit, the tested dependencies decide.
    session.install(*test_tools(distribution))
    fail_if_changed(session, installed_before, dependencies)
    fail_if_held_back(session, dependencies)
    run_tests_on_installed(session, distribution)


@nox.session(python=PYTHONS[OLDEST])
@nox.parametrize("distribution", DISTRIBUTIONS)
def oldest(session: nox.Session, distribution: str) -> None:
    """A distribution's wheel, with its dependencies in their oldest declared releases, on the oldest Python."""
    dependencies = own_dependencies(distribution)
    if not dependencies:
        session.skip(f"{distribution} declares no dependencies but ours")
    # Listed explicitly, they are direct requirements; for the requirements of a wheel, uv would choose the newest.
    install_wheel(session, distribution, "--resolution=lowest-direct", *dependencies)
    installed_before = installed(session)
    session.install(*test_tools("ace-core"))
    # The newest releases of these tools would require newer releases of the tested dependencies.
    if own := [tool for tool in test_tools(distribution) if tool not in test_tools("ace-core")]:
        session.install("--resolution=lowest-direct", *own)
    fail_if_changed(session, installed_before, dependencies)
    run_tests_on_installed(session, distribution)


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
        install_core_with_kit(session)
        session.run("ace", "plugins", "new", "night-owl", "--output", name)
        test_plugin_from_its_wheel(session, folder / "ace-night-owl")
        session.run("ace", "plugins", "new", "day-owl", "--with", "command,observer,runner", "--output", name)
        test_plugin_from_its_wheel(session, folder / "ace-day-owl")


@nox.session(python=PYTHONS[OLDEST])
def acme(session: nox.Session) -> None:
    """The example of a third-party plugin: its wheel and that of ace-core, and its tests with the conformance kit."""
    with tempfile.TemporaryDirectory(prefix="ace-acme-") as name:
        folder = Path(name)
        install_core_with_kit(session)
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
def agents(session: nox.Session) -> None:
    """The integrations and the readers of logs, from their sources, with the newest releases of the agents."""
    install_for_development(session)
    with tempfile.TemporaryDirectory(prefix="ace-agents-") as name:
        folder = Path(name)  # its tools are found before those of the checkout
        for path in ("pyproject.toml", "README.md", "docs", "examples", "tests", "ace-claude-code", "ace-openclaw"):
            copy(Path(path), folder)
        session.run(str(ROOT / ".ci/agents"), str(folder / ".tools"), "latest", external=True)
        claude = folder / ".tools/claude/node_modules/.bin/claude"
        with session.chdir(folder):
            tests = ("tests/claude_code", "tests/openclaw", "tests/core/logs/test_real_agents.py")
            env = {"ACE_REQUIRE": "claude,codex,gemini,openclaw,opencode,qwen", "ACE_CLAUDE_BINARY": str(claude)}
            session.run("python", "-m", "pytest", "-n", "2", *tests, *session.posargs, env=env)


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
    session.run("python", "-m", "benchmarks.logs", "--quick")
    session.run("python", "-m", "benchmarks.similarity")
    session.run("python", "-m", "benchmarks.reflection", "--quick")
    session.run("python", "-m", "benchmarks.tracing", "--quick")
    session.run("python", "-m", "benchmarks.sleep", "--seeds", "1")
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


def own_dependencies(distribution: str) -> list[str]:
    """The requirements that a distribution declares, without those from this repository."""
    declared: list[str] = project_table(distribution)["dependencies"]
    return [entry for entry in declared if Requirement(entry).name not in DISTRIBUTIONS]


def all_dependencies(distribution: str) -> list[str]:
    """The requirements that a distribution and those of ours that it needs declare, its own first.

    Of two that cannot both be at their newest, the resolver prefers the first.
    """
    return [entry for name in with_ours_that_it_needs(distribution) for entry in own_dependencies(name)]


def import_package(distribution: str) -> str:
    """The name under which a distribution is imported."""
    uv = nox.project.load_toml(ROOT / distribution / "pyproject.toml")["tool"]["uv"]
    name: str = uv["build-backend"]["module-name"]
    return name


def install_for_development(session: nox.Session) -> None:
    """Install the contents of `.venv`: the pinned requirements, and all distributions from their sources."""
    session.install("--require-hashes", "--requirement", "requirements/dev.txt")
    session.install("--no-deps", *(f"--editable=./{distribution}" for distribution in DISTRIBUTIONS))


@functools.cache
def built_wheels() -> dict[str, Path]:
    """The wheels of all distributions by name, built once for all sessions."""
    folder = tempfile.mkdtemp(prefix="ace-wheels-")
    atexit.register(shutil.rmtree, folder)
    subprocess.run(["uv", "build", "--quiet", "--all-packages", "--wheel", "--out-dir", folder], cwd=ROOT, check=True)
    return {path.name.partition("-")[0].replace("_", "-"): path for path in Path(folder).glob("*.whl")}


def install_wheel(session: nox.Session, distribution: str, *options: str) -> None:
    """Install the wheel of a distribution with its dependencies, and import all its modules.

    Dependencies in this repository are installed from their wheels, because their names belong to other projects on
    the public index. The modules are imported before the test tools are installed, which may have undeclared
    dependencies of the distribution as their own.
    """
    session.install(*options, *(str(built_wheels()[name]) for name in with_ours_that_it_needs(distribution)))
    import_all(session, distribution)


def install_core_with_kit(session: nox.Session) -> None:
    """Install the wheel of ace-core with its extra `testing`, and nothing else."""
    session.install(f"ace-core[testing] @ {built_wheels()['ace-core'].as_uri()}", *PINNED)


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


def installed(session: nox.Session) -> dict[str, Version]:
    """The releases in the session's environment, by name."""
    return releases(session.run("uv", "pip", "freeze", external=True, silent=True))


def releases(printed: object) -> dict[str, Version]:
    """The lines `NAME==VERSION` of what uv has printed."""
    pairs = (line.split("==") for line in str(printed).splitlines() if "==" in line)
    return {canonicalize_name(name): Version(version) for name, version in pairs}


def fail_if_changed(session: nox.Session, before: Mapping[str, Version], dependencies: list[str]) -> None:
    """Fail if the test tools have replaced releases that are to be tested.

    What these bring along, such as an older OpenAI client than LiteLLM would choose, may change.
    """
    after = installed(session)
    names = [canonicalize_name(Requirement(entry).name) for entry in dependencies]
    if changed := [f"{name} {before[name]} -> {after[name]}" for name in names if before[name] != after[name]]:
        session.error(f"the test tools need other releases than those under test: {', '.join(changed)}")


def fail_if_held_back(session: nox.Session, dependencies: list[str]) -> None:
    """Fail if our lower bounds keep users from a newer release of a dependency.

    A resolver does not complain about that: it takes an older release, as long as there is one that fits.
    """
    with tempfile.TemporaryDirectory(prefix="ace-bounds-") as folder:
        names = Path(folder, "requirements.in")
        names.write_text("\n".join(map(without_lower_bound, dependencies)))
        command = ("uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header", str(names))
        free = releases(session.run(*command, external=True, silent=True))
    ours = installed(session)
    names_of_dependencies = [canonicalize_name(Requirement(entry).name) for entry in dependencies]
    if older := [f"{name} {ours[name]} < {free[name]}" for name in names_of_dependencies if ours[name] < free[name]]:
        session.error(f"our lower bounds exclude newer releases: {', '.join(older)}")


def without_lower_bound(entry: str) -> str:
    """A requirement without `>=`, but with its extras and its upper bound."""
    requirement = Requirement(entry)
    requirement.specifier = SpecifierSet(",".join(str(one) for one in requirement.specifier if one.operator != ">="))
    return str(requirement)


def with_ours_that_it_needs(distribution: str) -> list[str]:
    """A distribution and its direct and indirect dependencies in the workspace."""
    names = [distribution]
    for name in names:
        declared = {Requirement(entry).name for entry in project_table(name)["dependencies"]}
        names += [ours for ours in DISTRIBUTIONS if ours in declared and ours not in names]
    return names


def run_tests_on_installed(session: nox.Session, distribution: str) -> None:
    """Run a distribution's tests of wheels in a folder from which our sources cannot be imported."""
    chosen = TESTS_OF_WHEELS[distribution]
    folders = {Path(*Path(test).parts[:2]) for test in chosen}
    with tempfile.TemporaryDirectory(prefix="ace-tests-") as name:
        folder = Path(name)
        shared = [Path("tests/conftest.py"), Path("tests/requirement.py"), Path("tests/support"), Path("examples")]
        for path in (Path("pyproject.toml"), *shared, *folders):
            copy(path, folder)
        with session.chdir(folder):
            session.run("python", "-m", "pytest", *chosen, *session.posargs)


def copy(path: Path, folder: Path) -> None:
    """Copy a file or folder of the project to the same place below another folder."""
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / path).is_dir():
        shutil.copytree(ROOT / path, folder / path, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(ROOT / path, folder / path)
