"""Federated calibration with Flower: each client replies with the numbers of its site.

Needs ``pip install "flwr[simulation]"``.
"""

import time

import numpy as np
from flwr.app import Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation
from numpy.typing import NDArray

from metapac import MetaPS
from metapac.fewshot import NormalFamily

SITES = 30
client = ClientApp()
server = ServerApp()


def agree() -> MetaPS:
    """Return the guarantee, which every client knows and no server can choose.

    A server that could choose it could ask repeatedly and learn one score after another.
    """
    return MetaPS(epsilon=0.1, alpha=0.2, delta=0.1)


def score_examples(site: int) -> NDArray[np.float64]:
    """Return the score of the true label of each example at a site; stands in for your model."""
    family = NormalFamily(classes=5)
    scores = family.draw_scores(family.draw_tasks(1, rng=site), 80, rng=SITES + site)
    return np.asarray(scores[0])


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    """Reply with the numbers of this site. Nothing else leaves it."""
    scores = score_examples(int(context.node_config["partition-id"]))
    thresholds = agree().task_threshold(scores)
    metrics = MetricRecord({"thresholds": thresholds.tolist(), "examples": len(scores)})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def combine_replies(replies: list[Message]) -> MetaPS:
    """Return the predictor that all sites together give."""
    failed = sum(reply.has_error() for reply in replies)
    if failed or len(replies) < SITES:
        # Sites may fail because their data are difficult: without them, the guarantee is not valid.
        raise RuntimeError(f"only {len(replies) - failed} of {SITES} sites replied; ask again")
    metrics = {reply.metadata.src_node_id: reply.content["metrics"] for reply in replies}
    thresholds = {site: numbers["thresholds"] for site, numbers in metrics.items()}
    sizes = {site: numbers["examples"] for site, numbers in metrics.items()}
    return agree().combine(thresholds, sizes=sizes)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Ask every site once, combine the replies, and compare with all scores in one place."""
    while len(nodes := list(grid.get_node_ids())) < SITES:
        time.sleep(0.1)
    requests = [Message(RecordDict(), node, MessageType.EVALUATE) for node in nodes]
    predictor = combine_replies(list(grid.send_and_receive(requests)))

    scores = np.concatenate([score_examples(site) for site in range(SITES)])
    pooled = agree().calibrate(scores, np.repeat(np.arange(SITES), 80))
    assert predictor.threshold_ == pooled.threshold_
    print(f"threshold {predictor.threshold_:.4f} from {SITES} clients, as from all scores together")


if __name__ == "__main__":
    run_simulation(
        server,
        client,
        num_supernodes=SITES,
        backend_config={
            "init_args": {"num_cpus": 2},  # two processes
            "client_resources": {"num_cpus": 1},
        },
    )
