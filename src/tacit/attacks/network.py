"""The attack network: what Nasr et al. 2019 look at, learned in stages, by five networks that check one another.

Known records lie in five folds; network k learns on four of them and takes the epoch that does best on fold k, and all
five answer together. Each stage sees something new and starts from the answers of the stage before. It may also take
epoch 0, nothing learned, so that seeing more costs little if it tells nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

Parts = dict[str, NDArray[np.floating]]
"""By name, a vector per record (records x d)."""

FOLDS, HIDDEN, DROPOUT = 5, 64, 0.2
EPOCHS, PATIENCE, ENOUGH = 60, 5, 1e-4
"""At most 60 epochs; five in which the mean loss over folds never falls by 1e-4 end the training."""
BATCH, LEARNING_RATE, DECAY = 1024, 2e-3, 1e-2


class Linear(nn.Module):
    """One linear layer for each fold: folds x records x inside -> folds x records x out."""

    def __init__(self, inside: int, out: int, spread: float = 1.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(FOLDS, inside, out).uniform_(-1.0, 1.0) * spread * inside**-0.5)
        self.bias = nn.Parameter(torch.zeros(FOLDS, 1, out))

    def forward(self, x: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, x.expand(FOLDS, *x.shape[-2:]), self.weight)


class Network(nn.Module):
    """An encoder d -> 64 for each part, and 64 -> 1 over all; at first every answer is 0."""

    def __init__(self, widths: Sequence[int]) -> None:
        super().__init__()
        self.widths = list(widths)
        self.encoders = nn.ModuleList([Linear(width, HIDDEN) for width in self.widths])
        self.hidden, self.last = Linear(HIDDEN * len(self.widths), HIDDEN), Linear(HIDDEN, 1, spread=0.0)
        self.drop = nn.Dropout(DROPOUT)

    def forward(self, x: Tensor) -> Tensor:
        """Log-odds, folds x records."""
        parts = torch.split(x, self.widths, dim=-1)
        codes = [encoder(part) for encoder, part in zip(self.encoders, parts, strict=True)]
        code = self.drop(torch.relu(torch.cat(codes, dim=-1)))
        return self.last(self.drop(torch.relu(self.hidden(code))))[..., 0]  # type: ignore[no-any-return]


@torch.inference_mode(False)
def learned(
    stages: Sequence[Sequence[str]], known: Parts, member: NDArray[np.bool_], asked: Sequence[Parts]
) -> NDArray[np.float64]:
    """Log-odds of membership after each stage (stages x records), for records asked about in one or more views.

    `stages` name the parts that a stage sees beyond those of the first; a stage without parts adds nothing. Answers are
    means over views and networks, computed in float64. The start, the folds, the order of batches and dropout are
    fixed: an attack is a pure function.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    told_parts, *views = _standardised(known, asked, device)
    truth = torch.as_tensor(member, dtype=torch.float32, device=device)
    told = torch.zeros(len(truth), dtype=torch.float64, device=device)
    answers = [torch.zeros(len(next(iter(views[0].values()))), dtype=torch.float64, device=device)]
    with torch.random.fork_rng(devices=list(range(torch.cuda.device_count()))):
        torch.manual_seed(0)
        fold = torch.randperm(len(truth)).to(device) % FOLDS
        for k, names in enumerate(stages):
            answers.append(answers[-1])
            if not names:
                continue
            seen = [*stages[0], *names] if k else names
            x = torch.cat([told_parts[name] for name in seen], dim=1)
            network = Network([told_parts[name].shape[1] for name in seen]).to(device, torch.float32)
            _train(network, x, truth, told.float(), fold)
            network.double().eval()
            told = told + _answers(network, x)[fold, torch.arange(len(fold), device=device)]
            for view in views:
                more = _answers(network, torch.cat([view[name] for name in seen], dim=1)).mean(0)
                answers[-1] = answers[-1] + more / len(views)
    return np.asarray(torch.stack(answers[1:]).cpu().numpy())


def _train(network: Network, x: Tensor, truth: Tensor, told: Tensor, fold: Tensor) -> None:
    """The state with the least loss on its own fold, for each of the five."""
    optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE, weight_decay=DECAY, fused=True)
    held = torch.stack([fold == k for k in range(FOLDS)]).float()
    best, state, when = _held_loss(network, x, truth, told, held), _copied(network), 0
    size = min(BATCH, max(len(truth) // 25, 32))
    for epoch in range(1, EPOCHS + 1):
        network.train()
        for rows in torch.split(torch.randperm(len(truth)).to(x.device), size):
            optimizer.zero_grad()
            losses = _losses(network(x[rows]) + told[rows], truth[rows])
            (losses * (1 - held[:, rows])).sum().div(len(rows)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        found = _held_loss(network, x, truth, told, held)
        better = found < best
        for name, value in network.state_dict().items():
            state[name][better] = value[better]
        if float((best - found)[better].sum()) > FOLDS * ENOUGH:
            when = epoch
        best = torch.minimum(found, best)
        if epoch - when >= PATIENCE:
            break
    network.load_state_dict(state)


def _losses(answers: Tensor, truth: Tensor) -> Tensor:
    return nn.functional.binary_cross_entropy_with_logits(answers, truth.expand_as(answers), reduction="none")


def _held_loss(network: Network, x: Tensor, truth: Tensor, told: Tensor, held: Tensor) -> Tensor:
    """Each network's mean loss on its own fold."""
    network.eval()
    with torch.no_grad():
        answers = torch.cat([network(part) for part in torch.split(x, 5000)], dim=1)
    return (_losses(answers + told, truth) * held).sum(1) / held.sum(1)


def _copied(network: Network) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}


def _answers(network: Network, x: Tensor) -> Tensor:
    with torch.no_grad():
        return torch.cat([network(part.double()) for part in torch.split(x, 1000)], dim=1)


def _standardised(known: Parts, asked: Sequence[Parts], device: torch.device) -> list[dict[str, Tensor]]:
    """All parts by the known records' centre and spread; what never varies there is 0."""
    made: list[dict[str, Tensor]] = [{} for _ in range(1 + len(asked))]
    for name, array in known.items():
        values = torch.as_tensor(array, device=device).double()
        centre, spread = values.mean(0), values.std(0, correction=0)
        spread = torch.where(spread > 0, spread, torch.inf)
        for parts, view in zip(made, (known, *asked), strict=True):
            parts[name] = ((torch.as_tensor(view[name], device=device) - centre) / spread).float()
    return made
