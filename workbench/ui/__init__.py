"""The terminal app: the only place that imports textual and plotext."""
