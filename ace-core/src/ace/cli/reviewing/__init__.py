"""The screen of `ace review`: one lesson at a time, with its evidence, and a key for each decision."""
