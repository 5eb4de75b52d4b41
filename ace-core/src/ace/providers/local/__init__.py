"""Language models that run on this machine and do not need a key.

They need the extra `ace-core[local]`, and the weights of a model: `ace models pull`, or any GGUF file.
"""

from ace.providers.local.catalogue import CATALOGUE, DEFAULT_MODEL, CataloguedModel, WeightPackage, catalogued_model
from ace.providers.local.client import LocalLLMClient
from ace.providers.local.errors import LocalModelError, ModelNotPulledError, RuntimeMissingError
from ace.providers.local.model_files import ModelFile, model_file, models_folder
from ace.providers.local.pull import pull_model
from ace.providers.local.server import check_runtime, close_servers

__all__ = [
    "CATALOGUE",
    "DEFAULT_MODEL",
    "CataloguedModel",
    "LocalLLMClient",
    "LocalModelError",
    "ModelFile",
    "ModelNotPulledError",
    "RuntimeMissingError",
    "WeightPackage",
    "catalogued_model",
    "check_runtime",
    "close_servers",
    "model_file",
    "models_folder",
    "pull_model",
]
