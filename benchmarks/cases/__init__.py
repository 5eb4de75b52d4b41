"""The cases about the engine's own cost, a file for each kind of them."""
