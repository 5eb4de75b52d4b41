"""Programs that run other methods. They import nothing of ACE, so that they run in an environment of their own."""
