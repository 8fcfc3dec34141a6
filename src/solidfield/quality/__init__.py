"""Sensors out of line with the others."""
