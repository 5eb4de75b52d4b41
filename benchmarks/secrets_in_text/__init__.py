"""What redaction finds in texts of agents, and what it takes for secret although it is not.

The first set was written before the finder, which was changed until it did well on it. The next two were written after
that, and the finder learned the classes of what it had missed in them. The last set was written after the finder and run
once: its numbers say what to expect of other texts.

A planted text counts as found if all of what was planted is covered. An innocent text counts as false if anything in it
is found. `python -m benchmarks.secrets_in_text` prints what was missed or false, and the table of
`docs/explanation/security.md`, which a test compares.
"""
