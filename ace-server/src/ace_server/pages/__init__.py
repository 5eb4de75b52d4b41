"""The pages: what a skillbook has learned, from which traces, and what became of it."""
