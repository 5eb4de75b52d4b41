"""A benchmark of learning: what does an agent answer to new questions after a person has corrected it?

`python -m benchmarks.learning_quality` learns from recorded chats and asks questions that they decide; see README.md.
"""
