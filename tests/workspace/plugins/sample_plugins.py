"""Small distributions, good and broken, as an author would write them. Each notes in a file that it was imported."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

__all__ = ["SAMPLES", "SamplePlugin", "write_workspace"]

NOTE_IMPORT = """
import os
if os.environ.get("NOTED_IMPORTS"):
    with open(os.environ["NOTED_IMPORTS"], "a", encoding="utf-8") as file:
        file.write(__name__ + "\\n")
"""

IMPORTS = "from ace.plugins import *\n"
HEAD = f"{IMPORTS}ACE_API = 1\n"


@dataclass(frozen=True)
class SamplePlugin:
    """One distribution with one entry point."""

    package: str
    """The import package; the distribution has hyphens instead."""
    name: str
    """The name of the entry point."""
    hooks: str
    """The source of the hook module, behind the head."""
    files: dict[str, str] = field(default_factory=dict)
    """Further modules."""
    head: str = HEAD
    version: str = "1.0"

    @property
    def distribution(self) -> str:
        return self.package.replace("_", "-")


def runner_hook(name: str, target: str = "ace.runners:TraceAnalyser", requires: str = "()") -> str:
    return dedent(f"""
        @hookimpl
        def ace_runners():
            yield RunnerSpec(name={name!r}, target={target!r}, requires={requires})
    """)


GOOD = SamplePlugin(
    "sample_good",
    "good_one",
    dedent("""
        @hookimpl
        def ace_execute_steps():
            yield ExecuteStepSpec(name="good_one", target="sample_good.steps:GoodExecuteStep", requires=("pluggy>=1",))

        @hookimpl
        def ace_trace_converters():
            yield TraceConverterSpec(name="good_one", target="sample_good.steps:GoodToTrace",
                                     recognises="sample_good.recognise:score")

        @hookimpl
        def ace_llm_clients():
            yield LLMClientSpec(name="good_one", target="sample_good.llm:GoodLLMClient")

        @hookimpl
        def ace_commands():
            yield CommandSpec(name="good_one", target="sample_good.cli:command", summary="Say what is good")
    """),
    {
        "steps": dedent("""
            class GoodExecuteStep:
                requires, provides = frozenset({"sample", "skillbook"}), frozenset({"trace"})

                def __init__(self, agent):
                    self.agent = agent

                def __call__(self, ctx):
                    return ctx.replace(trace=["good", ctx.sample, self.agent(ctx.sample, ctx.skillbook.as_prompt())])

            class GoodToTrace:
                requires = provides = frozenset({"trace"})

                def __call__(self, ctx):
                    record = ctx.trace
                    if hasattr(record, "read_text"):
                        record = ["good", *record.read_text(encoding="utf-8").split("|")[1:]]
                    _, thing, answer = record
                    question = f"What is the secret of {thing}?"
                    return ctx.replace(trace={"question": question, "answer": answer,
                                              "ground_truth": f"value-of-{thing}"})
        """),
        "llm": dedent("""
            import json
            import urllib.request

            class GoodLLMClient:
                def __init__(self, address, max_tokens=100, temperature=None):
                    self.address, self.max_tokens = address, max_tokens

                def complete_structured(self, prompt, response_model, **settings):
                    body = {
                        "model": "good", "max_tokens": self.max_tokens,
                        "messages": [{"role": "user", "content": prompt}],
                        "response_format": {"type": "json_schema", "json_schema": response_model.model_json_schema()},
                    }
                    url = f"{self.address}/chat/completions"
                    headers = {"Content-Type": "application/json"}
                    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
                    with urllib.request.urlopen(request) as answer:
                        content = json.load(answer)["choices"][0]["message"]["content"]
                    return response_model.model_validate_json(content)
        """),
        "recognise": dedent("""
            def score(record):
                if isinstance(record, bytes):
                    return 0.9 if record.startswith(b"good|") else 0.0
                return 0.8 if isinstance(record, list) and record[:1] == ["good"] else 0.0
        """),
        "cli": dedent('''
            def command(what: str = "everything"):
                """Say what is good."""
                print(f"{what} is good")
        '''),
    },
)
CALLER = SamplePlugin(
    "sample_caller",
    "caller",
    dedent("""
        @hookimpl
        def ace_commands():
            yield CommandSpec(name="caller", target="sample_caller.cli:app", summary="Call the model")
    """),
    {
        "cli": dedent('''
            from __future__ import annotations

            from ace.cli import CommandContext
            from cyclopts import App

            app = App(name="caller")

            @app.command
            def ask(question: str, *, model: str | None = None, context: CommandContext) -> int:
                """Ask the model with the skills in the prompt."""
                settings = context.settings(model=model)
                with context.skillbook(settings) as book, context.model(settings) as client:
                    print(client.complete(f"{book.as_prompt()}\\n\\n{question}").text)
                return 0

            @app.command
            async def where(*, context: CommandContext | None = None) -> None:
                """Say what the settings are."""
                settings = context.settings()
                print(context.name, settings.model, settings.origins["model"].rpartition("/")[2])

            @app.command
            def fail(*, with_error: str):
                """Fail."""
                raise {"value": ValueError, "key": KeyError, "bare": ZeroDivisionError}[with_error]("the tank is empty")
        '''),
    },
)

NOISY = SamplePlugin(
    "sample_noisy",
    "noisy",
    dedent("""
        import os

        if os.environ.get("NOISE"):
            print("noise of the hook module")

        @hookimpl
        def ace_trace_converters():
            yield TraceConverterSpec(name="noisy", target="sample_noisy.steps:NoisyToTrace",
                                     recognises="sample_noisy.steps:score")

        @hookimpl
        def ace_observers():
            yield ObserverSpec(name="noisy", target="sample_noisy.steps:observe")
    """),
    {
        "steps": dedent("""
            import os

            def make_noise(of):
                if os.environ.get("NOISE"):
                    print(f"noise of the {of}")

            make_noise("import")

            class NoisyToTrace:
                requires = provides = frozenset({"trace"})

                def __call__(self, ctx):
                    raise ValueError("nothing is claimed")

            def score(record):
                make_noise("recogniser")
                return 0.0

            def observe(event):
                make_noise("observer")
        """),
    },
)

SAMPLES = (
    GOOD,
    NOISY,
    CALLER,
    SamplePlugin(
        "sample_learn",
        "learn",
        "@hookimpl\ndef ace_commands():\n"
        '    yield CommandSpec(name="learn", target="sample_learn.cli:command", summary="Learn")\n',
        {"cli": "def command(): print('mine')\n"},
    ),
    SamplePlugin(
        "sample_interrupts",
        "interrupts",
        "import os\nif os.environ.get('INTERRUPT'): raise KeyboardInterrupt\n" + runner_hook("interrupts"),
    ),
    SamplePlugin("sample_raises", "raises", "1 / 0\n" + runner_hook("raises")),
    SamplePlugin(
        "sample_too_old", "too_old", "ACE_API = 0\n" + runner_hook("too_old"), head="from ace.plugins import *\n"
    ),
    SamplePlugin("sample_other_name", "other_name", runner_hook("another")),
    SamplePlugin("sample_bad_name", "Bad-Name", runner_hook("bad_name")),
    SamplePlugin("sample_twin_one", "twin", runner_hook("twin")),
    SamplePlugin("sample_twin_two", "twin", runner_hook("twin"), version="2.0"),
    SamplePlugin("sample_stranger", "langchain", runner_hook("langchain")),
    SamplePlugin(
        "sample_no_framework",
        "no_framework",
        runner_hook("no_framework", "sample_no_framework.nothing:Runner", '("sample-framework>=2,<3",)'),
    ),
    SamplePlugin("sample_old_framework", "old_framework", runner_hook("old_framework", requires='("pluggy>=99",)')),
    SamplePlugin(
        "sample_undeclared",
        "undeclared",
        runner_hook("undeclared", "sample_undeclared.runner:Runner"),
        {"runner": "import sample_framework\n"},
    ),
    SamplePlugin("sample_lost", "lost", runner_hook("lost", "sample_lost.nowhere:Runner")),
    SamplePlugin(
        "sample_lost_name", "lost_name", runner_hook("lost_name", "sample_lost_name.runner:Ruunner"), {"runner": ""}
    ),
    SamplePlugin(
        "sample_bad_command",
        "bad_command",
        '@hookimpl\ndef ace_commands():\n    yield CommandSpec(name="bad_command", '
        'target="sample_bad_command.cli:command", summary="Fail")\n',
        {"cli": "raise RuntimeError('the disk is made of cheese')\n"},
    ),
)


def write_workspace(folder: Path) -> None:
    """Write the sources of all samples as one workspace, which one command builds."""
    members = ", ".join(f'"{sample.package}"' for sample in SAMPLES)
    (folder / "pyproject.toml").write_text(f"[tool.uv.workspace]\nmembers = [{members}]\n", encoding="utf-8")
    for sample in SAMPLES:
        _write(sample, folder / sample.package)


def _write(sample: SamplePlugin, folder: Path) -> None:
    package = folder / "src" / sample.package
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(NOTE_IMPORT, encoding="utf-8")
    (package / "plugin.py").write_text(sample.head + sample.hooks, encoding="utf-8")
    for name, source in sample.files.items():
        (package / f"{name}.py").write_text(source, encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        dedent(f"""
            [project]
            name = "{sample.distribution}"
            version = "{sample.version}"
            description = "The sample {sample.name}."

            [project.entry-points."ace.plugins"]
            {sample.name} = "{sample.package}.plugin"

            [build-system]
            requires = ["uv_build>=0.13.6,<0.14"]
            build-backend = "uv_build"
        """),
        encoding="utf-8",
    )
