"""Where the next sensor helps most: expected gains from the joint law of a map and of what sensors would read."""
