"""Figures: scenes as maps, and how far their uncertainty can be trusted.

Each function returns a matplotlib Figure that the caller saves; no global state of pyplot is used.
"""
