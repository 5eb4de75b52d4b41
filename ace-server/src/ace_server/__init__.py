"""Serves answers with learned skills over HTTP, and learns from the feedback on them: `ace server run`."""
