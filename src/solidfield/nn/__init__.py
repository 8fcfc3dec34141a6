"""Networks and their pieces: no data, no objectives, no randomness of their own but dropout's."""
