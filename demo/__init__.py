"""The main job on real work: ``make demo``."""
