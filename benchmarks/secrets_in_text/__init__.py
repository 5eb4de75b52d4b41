"""What redaction finds in texts of agents, and what it takes for secret although it is not.

The first set was written before the finder was changed for it. Each of the others was written when the finder did well
on those before, and run; then the finder learned the classes of what it had missed. So what was found at first says
what to expect of other texts, and what is found now says that nothing was unlearned.

A planted text counts as found if all of what was planted is covered. An innocent text counts as false if anything in it
is found. `python -m benchmarks.secrets_in_text` prints what was missed or false, and the table of
`docs/explanation/security.md`, which a test compares.
"""
