"""A program as the adapters of other methods are: learns by one call, and asks the model each question."""

import json
import urllib.request

from benchmarks.learning_quality.programs.job import Answerer, Job, carry_out


def learn(job: Job) -> tuple[Answerer, str]:
    """Ask once to learn, then answer with all corrections in the prompt."""

    def ask(text: str) -> str:
        body = json.dumps({"model": "local", "messages": [{"role": "user", "content": text}], "max_tokens": 50})
        request = urllib.request.Request(f"{job.api_base}/chat/completions", data=body.encode())
        with urllib.request.urlopen(request) as response:
            return str(json.load(response)["choices"][0]["message"]["content"])

    corrections = "\n".join(example.correction for example in job.examples)
    ask(f"LEARN {corrections}")
    return (lambda question: ask(f"{corrections}\n# Question\n{question}")), corrections


if __name__ == "__main__":
    carry_out(learn)
