"""Models that run in the tests. They are fetched beforehand, with `ace models pull NAME --yes`."""

from ace.providers.local import LocalModelError, catalogued_model, check_runtime, model_file
from tests.requirement import missing


def needed_model(name: str) -> str:
    """Return the name of a model that can be used here; skip the test where it cannot."""
    try:
        check_runtime()
        return model_file(catalogued_model(name).name).name
    except LocalModelError as error:
        missing("model", str(error))
