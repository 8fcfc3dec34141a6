"""From a run and frames to maps: members in chunks, rollouts, assimilation, and questions to the maps."""
