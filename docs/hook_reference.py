"""Writes `reference/plugin-hooks.md` from the source of the hooks: `python docs/hook_reference.py`."""

import inspect
import textwrap
from pathlib import Path

from ace.plugins import hooks

PAGE = Path(__file__).parent / "reference" / "plugin-hooks.md"

HEAD = """\
# Plugin hooks

This page is generated from the source by `python docs/hook_reference.py`.

A hook module is a module with some of these functions. It only imports the standard library and `ace.plugins`, sets
`ACE_API = 1`, and defines the hooks that it needs. A hook takes no arguments and yields specs, whose fields are
documented in [`ace.plugins`](plugins.md). The target of a spec is imported when it is first used.

```python
from ace.plugins import {imports}

ACE_API = 1
```
"""

TAIL = """\
## All hooks together

A module with these hooks is a plugin. This example registers it temporarily:

```python
import sys
from ace.plugins import list_plugins, temporary

with temporary(sys.modules[__name__], name="acme"):
    [acme] = [plugin for plugin in list_plugins() if plugin.name == "acme"]
    print(acme.status, *acme.kinds, sep="\\n")
```

```text output
ok
{kinds}
```
"""


def page() -> str:
    """The page that the source of the hooks yields."""
    imports = "(\n    " + ",\n    ".join([*sorted(hooks.HOOKS.values()), "hookimpl"]) + ",\n)"
    parts = [HEAD.format(imports=imports)]
    parts += [hook_section(f"ace_{kind}", spec) for kind, spec in hooks.HOOKS.items()]
    parts.append(TAIL.format(kinds="\n".join(hooks.HOOKS)))
    return "\n".join(parts)


def hook_section(name: str, spec: str) -> str:
    """The part on one hook: its signature, a sentence, a sample."""
    text = inspect.getdoc(getattr(hooks, name)) or ""
    sentence, found, sample = text.partition("\n\nExample:\n")
    if not found or f"def {name}():" not in sample:
        raise ValueError(f"the hook {name} has no example in its docstring")
    code = textwrap.dedent(sample).rstrip()
    return f"## {name}\n\n`{name}() -> Iterable[{spec}]`\n\n{sentence}\n\n```python\n{code}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
