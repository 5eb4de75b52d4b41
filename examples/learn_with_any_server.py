"""An agent learns the rules of a company from its own mistakes, with the model of any OpenAI-compatible server.

This works with Ollama, vLLM, llama.cpp, LM Studio or a hosted service that supports OpenAI's chat completions. Requests
are only sent to the given address. Run it from the root of the checkout:

    python -m examples.learn_with_any_server --api-base http://127.0.0.1:11434/v1 --model qwen2.5

A key, if the server requires one, is read from the environment variable OPENAI_API_KEY.
"""

from __future__ import annotations

import argparse
import sys

from ace import ACE, LiteLLMClient, SimpleEnvironment
from examples.house_rules import SAMPLES, print_report


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn the rules of a house with the model of any server.")
    parser.add_argument("--api-base", required=True, help="the address of the server, mostly ending in /v1")
    parser.add_argument("--model", required=True, help="the name that the server has for the model")
    parser.add_argument("--epochs", type=int, default=3, help="how often to go through the samples (default: 3)")
    parser.add_argument("--skillbook", help="keep the skills in this file: .json, or .db for a store with history")
    return parser.parse_args()


def main() -> int:
    options = arguments()
    # "openai/" names the protocol, not the company.
    client = LiteLLMClient(f"openai/{options.model}", api_base=options.api_base, max_tokens=2048)
    runner = ACE.from_client(client, environment=SimpleEnvironment(), skillbook_path=options.skillbook)
    results = runner.run(SAMPLES, epochs=options.epochs, max_in_flight=1)
    print_report(results, runner.skillbook, client.usage)
    return 1 if runner.failures else 0


if __name__ == "__main__":
    sys.exit(main())
