"""From sparse frames to sparse pairs: what is kept aside, what is known everywhere, and the store of pairs."""
