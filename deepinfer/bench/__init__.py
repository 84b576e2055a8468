"""Measurements behind `deepinfer bench`. Medians of alternating runs, never asserted by tests."""
