"""The probe: what is timed to find B and C. With `engines` and `experiments` the only place that imports torch."""
