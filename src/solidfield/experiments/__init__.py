"""Studies against what is known, on real data, and the paper's; the rest of the library never imports them."""
