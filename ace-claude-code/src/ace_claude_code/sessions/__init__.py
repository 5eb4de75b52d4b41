"""Learning from every session of Claude Code: the plugin, its hooks, the queue and the learner behind them."""
