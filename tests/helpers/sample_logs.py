"""Sample logs as lm-evaluation-harness writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# Written by lm_eval 0.4.13 with its dummy model, but for the question itself.
REAL_LINE = (
    '{"doc_id": 0, "doc": {"question": "What is 0 plus algebra é?", "subject": "algebra0", '
    '"choices": ["answer 0 xxxxxx", "answer 1 ", "answer 2 xxxx", "answer 3 xxxxxxxx"], '
    '"answer": 3}, "target": "3", "arguments": {"gen_args_0": {"arg_0": "What is 0 plus algebra '
    'é?\\nAnswer:", "arg_1": " answer 0 xxxxxx"}, "gen_args_1": {"arg_0": "What is 0 plus algebra '
    'é?\\nAnswer:", "arg_1": " answer 1 "}, "gen_args_2": {"arg_0": "What is 0 plus algebra é?\\n'
    'Answer:", "arg_1": " answer 2 xxxx"}, "gen_args_3": {"arg_0": "What is 0 plus algebra é?\\n'
    'Answer:", "arg_1": " answer 3 xxxxxxxx"}}, "resps": [[["-0.05805094382649867", "False"]], '
    '[["-0.6762017842993783", "False"]], [["-0.8454245937016164", "False"]], '
    '[["-0.342312541078584", "False"]]], "filtered_resps": [["-0.05805094382649867", "False"], '
    '["-0.6762017842993783", "False"], ["-0.8454245937016164", "False"], ["-0.342312541078584", '
    '"False"]], "filter": "none", "metrics": ["acc", "acc_norm", "acc_bytes"], "doc_hash": '
    '"90573b98", "prompt_hash": "c58617b9", "target_hash": "4e074085", "acc": 0.0, "acc_norm": '
    '0.0, "acc_bytes": 0.0}\n'
)
NAME = "samples_mmlu_law_2026-01-31T12-34-56.789012.jsonl"


def sample(
    log_likelihoods: Sequence[float] = (-3.0, -1.0, -2.0),
    label: int = 1,
    choices: Sequence[str] | None = None,
    *,
    doc_id: Any = 0,
    delimiter: str = " ",
    by_text: bool = False,
    **more: Any,
) -> dict[str, Any]:
    """Return a sample of a task of output_type multiple_choice, with the harness's accuracies."""
    texts = list(choices or [f"choice {i}" for i in range(len(log_likelihoods))])
    values = np.array(log_likelihoods)
    lengths = {
        "acc": [1] * len(texts),
        "acc_norm": [len(text) for text in texts],
        "acc_bytes": [len(text.encode()) for text in texts],
    }
    arguments = {
        f"gen_args_{i}": {"arg_0": f"Question {doc_id}\nAnswer:", "arg_1": f"{delimiter}{text}"}
        for i, text in enumerate(texts)
    }
    responses = [[str(float(value)), "False"] for value in log_likelihoods]
    return {
        "doc_id": doc_id,
        "doc": {"subject": "law", "year": 2020, "more": {"deep": "x"}},
        "target": texts[label] if by_text else str(label),
        "arguments": arguments,
        "resps": [[response] for response in responses],
        "filtered_resps": responses,
        "filter": "none",
        "prompt_hash": f"hash {doc_id}",
        **{
            name: float(int(np.argmax(values / np.array(length))) == label)
            for name, length in lengths.items()
            if 0 not in length
        },
        **more,
    }


def write_log(folder: Path, samples: Iterable[dict[str, Any]], name: str = NAME) -> Path:
    """Write samples to a log and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(sample, ensure_ascii=False) + "\n" for sample in samples)
    path.write_text("".join(lines), encoding="utf-8")
    return path
