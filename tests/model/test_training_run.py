"""Two minutes of training on generated sentences, by `make test-training`. `docs/model.md` records the losses."""

from __future__ import annotations

import random
import time

import pytest
import torch

from deepinfer.model.initial import randomize
from deepinfer.model.presets import tiny
from deepinfer.model.training import balance, losses
from deepinfer.model.transformer import Transformer

SECONDS = 120
LENGTH, SEQUENCES = 64, 4
ANIMALS = ("cat", "dog", "owl", "fox", "hen")
COLOURS = ("red", "grey", "white", "black")


def sentences(generator: random.Random) -> list[int]:
    """Bytes of sentences, in which the animal that is asked for was named before."""
    text = ""
    while len(text) < LENGTH:
        animal, colour, count = generator.choice(ANIMALS), generator.choice(COLOURS), generator.randint(2, 9)
        text += f"{count} {colour} {animal}s sat. how many {animal}s? {count}. "
    return list(text[:LENGTH].encode())


@pytest.mark.training
@pytest.mark.timeout(1800)
def test_two_minutes_of_training() -> None:
    model = randomize(Transformer(tiny()), seed=0, logit_deviation=0.1)
    model.set_batch_invariant(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=3e-3)
    generator = random.Random(0)
    began, step, history = time.process_time(), 0, []
    while (elapsed := time.process_time() - began) < SECONDS:
        found = losses(model, [sentences(generator) for _ in range(SEQUENCES)], draft_at=generator.randrange(8, 56))
        optimizer.zero_grad()
        torch.autograd.backward(found.total)
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        balance(model, found.trace, 1e-3)
        parts = [part.item() for part in (found.tokens, found.index, found.draft, found.confidence)]
        history.append(parts)
        if step % 50 == 0:
            print(f"{elapsed:5.0f} s, step {step:4}: " + ", ".join(f"{part:.3f}" for part in parts), flush=True)
        step += 1
    first, last = (torch.tensor(part).mean(0) for part in (history[:10], history[-10:]))
    print(f"{step} steps; first ten {first.tolist()}, last ten {last.tolist()}")
    assert last[0] < 0.4 * first[0]
    assert last[2] < 0.6 * first[2]
