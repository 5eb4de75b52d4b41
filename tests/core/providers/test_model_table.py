"""The entries that are found as text are those of LiteLLM's table, in whatever style it writes them.

Some releases of LiteLLM list further names of a model; such a name has the entry of the model.
"""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import importlib.util, json, pathlib, sys
from ace.providers.litellm_library import is_alias, model_entry
folder = importlib.util.find_spec("litellm").submodule_search_locations[0]
table = json.loads((pathlib.Path(folder) / "model_prices_and_context_window_backup.json").read_bytes())
named = {name: table[entry["alias_of"]] if "alias_of" in entry else entry for name, entry in table.items()}
wrong = [name for name, entry in named.items() if model_entry(name) != entry]
wrong += [name for name, entry in table.items() if is_alias(name) != ("alias_of" in entry)]
print(json.dumps([len(table), wrong, dict(model_entry("nobody/knows-this")), "litellm" in sys.modules]))
"""


def test_every_entry_of_the_table_is_found_without_importing_litellm() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    entries, wrong, unknown, is_imported = json.loads(done.stdout)

    assert entries > 1000
    assert (wrong, unknown, is_imported) == ([], {}, False)
