"""`python -m ace_mcp` is `ace mcp`, for clients that start the server with an interpreter."""

from ace_mcp.commands import main

if __name__ == "__main__":
    main()
