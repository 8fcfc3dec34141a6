"""From pairs to a run: one visible loop, its batches, its budget and its processes."""
