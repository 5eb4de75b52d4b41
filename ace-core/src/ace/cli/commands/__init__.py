"""The built-in commands, one module each. A module exposes `command`, a typed function, or `app`, a cyclopts `App`."""
