"""Commands of the few-shot wing: data, train, score, study, reproduce, demo."""
