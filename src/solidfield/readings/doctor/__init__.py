"""The data doctor: what is wrong with a table of readings, which grid suits it, what can be learned from it."""
