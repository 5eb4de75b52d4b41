"""Tasks that depend on the conventions of a company: how it sends parcels, rounds prices and writes lengths.

No model can know these conventions, and no prompt states them. They are only visible in the right answers, so they must
be learned, and then also apply to new parcels, prices and lengths.
"""

from __future__ import annotations

import math
from decimal import Decimal

from ace import Sample

CARRIERS = {"glass": "courier", "iron": "freight", "orchids": "balloon"}
"""The rules of the company. Only the samples and the environment know them."""

PARCELS = {
    "glass": ["vase", "mirror", "carafe", "lamp", "bowl"],
    "iron": ["anvil", "railing", "stove", "kettle", "gate"],
    "orchids": ["bouquet", "wreath", "corsage", "garland", "basket"],
    "paper": ["novel", "atlas", "diary", "poster", "calendar"],
}
"""The items, by material."""

PRICES = ["12.30", "7.10", "45.60", "3.20", "18.40", "29.10", "64.70", "5.30", "80.20", "9.40"]
LENGTHS = ["1.84", "0.95", "2.10", "3.07", "1.25", "0.62", "4.40", "2.73", "1.06", "0.38"]


def samples() -> list[Sample]:
    """All tasks, alternating between the kinds."""
    kinds = [
        [parcel(item, material) for items in zip(*PARCELS.values(), strict=True) for item, material in named(items)],
        [price(amount) for amount in PRICES],
        [length(metres) for metres in LENGTHS],
    ]
    ranked = [(place / len(kind), sample) for kind in kinds for place, sample in enumerate(kind)]
    return [sample for _, sample in sorted(ranked, key=lambda pair: pair[0])]


def named(items: tuple[str, ...]) -> list[tuple[str, str]]:
    return list(zip(items, PARCELS, strict=True))


def parcel(item: str, material: str) -> Sample:
    question = (
        f"Which carrier takes this parcel of our house: a {item}, made of {material}? "
        "Answer with one word: post, courier, freight or balloon. If no rule of the house is known, it is post."
    )
    return Sample(question, ground_truth=CARRIERS.get(material, "post"), id=f"parcel {item}")


def price(amount: str) -> Sample:
    question = f"What stands on the price tag of our house for an item of {amount} euros? Answer with the number alone."
    return Sample(question, ground_truth=str(math.ceil(Decimal(amount))), id=f"price {amount}")


def length(metres: str) -> Sample:
    question = (
        f"How does our house write the length {metres} metres in its catalogue? Answer with number and unit alone."
    )
    return Sample(question, ground_truth=f"{int(Decimal(metres) * 100)} cm", id=f"length {metres}")
