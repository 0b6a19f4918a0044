"""A variant by the names of the levers that together make it: what a person types, and a preset holds."""

from collections.abc import Sequence
from dataclasses import replace

from workbench.errors import SettingsError, unknown_name
from workbench.experiments.gap.levers import VARIANTS, combined
from workbench.experiments.gap.variant import AS_LOADED, Variant

NAMES = tuple(name for name, each in VARIANTS.items() if each.dtype is None and each.threads is None)
"""Levers that a run is given by name: dtype and threads are settings of their own."""


def variant_named(names: Sequence[str]) -> Variant:
    """All these levers together; raises SettingsError for a name that is none, and for two that exclude each other."""
    whole = AS_LOADED
    for name in names:
        if name in VARIANTS and name not in NAMES:
            raise SettingsError(
                f"{name} is set by the dtype or the threads of a run, and not by name among its levers."
            )
        if name not in NAMES:
            raise SettingsError(unknown_name("lever", name, NAMES))
        if not whole.goes_with(VARIANTS[name]):
            raise SettingsError(f"{name} can't be had with {whole}: leave one out.")
        whole = combined([whole, VARIANTS[name]])
    return whole


def names_of(variant: Variant) -> tuple[str, ...]:
    """The levers that make what a variant changes besides dtype and threads, none that another one implies."""
    changes = replace(variant, dtype=None, threads=None).changes
    parts = {name: VARIANTS[name].changes for name in NAMES if VARIANTS[name].changes.items() <= changes.items()}
    return tuple(
        name for name, part in parts.items() if not any(part.items() < other.items() for other in parts.values())
    )
