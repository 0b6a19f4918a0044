"""The settings of the language model in a config.json: its own, or those nested in a multi-modal model's."""

from collections.abc import Mapping

from workbench.models.config.class_defaults import NESTED_DEFAULTS
from workbench.models.config.figures import Config

TEXT_SETTINGS = ("text_config", "llm_config", "language_config", "thinker_config", "decoder")
"""Where a multi-modal model's settings hold those of its language model."""


def text_config(config: Config) -> Config:
    """The settings of the language model inside a multi-modal one's, or the settings themselves."""
    for key in TEXT_SETTINGS:
        inner = config.get(key)
        if isinstance(inner, Mapping):
            missing = {k: config[k] for k in ("tie_word_embeddings", "model_type") if k in config}
            inner = text_config(inner)
            return {**missing, **NESTED_DEFAULTS.get(str(inner.get("model_type")), {}), **inner}
    return config
