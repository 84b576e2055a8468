"""Every block against the naive float64 reference, and the whole model with every mechanism in use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from deepinfer.model import presets
from deepinfer.model.config import ModelConfig, Yarn
from deepinfer.model.hyper import collapse, spread
from deepinfer.model.presets import tiny
from deepinfer.model.rope import frequencies, rotaries, rotate
from deepinfer.model.selection import ascending, best, candidate_mask
from deepinfer.model.trace import Trace
from tests.model import reference
from tests.model.support import IMAGE, TOKEN_MAP, Runner, lively, relative_error, tokens, weights_of

LIMIT = 1e-5


def normal(*shape: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_mixes_of_hyper_connections() -> None:
    model = lively()
    layer, weights = model.layers[2], weights_of(model)
    streams, output = normal(11, 4, 64), normal(11, 64, seed=4)
    mix = layer.attention_mix(streams)
    for row in range(11):
        pre, post, c = reference.mix(streams[row].double().numpy(), weights, "layers.2.hc_attn", model.config)
        assert relative_error(mix.pre[row], pre) < LIMIT
        assert relative_error(mix.post[row], post) < LIMIT
        assert relative_error(mix.streams[row].T, c) < LIMIT
        assert np.allclose(c.sum(0), 1.0, atol=1e-4)
        wanted = reference.spread(post, c, output[row].double().numpy(), streams[row].double().numpy())
        assert relative_error(spread(mix, output, streams)[row], wanted) < LIMIT
        assert relative_error(collapse(mix.pre, streams)[row], pre @ streams[row].double().numpy()) < LIMIT


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("position", [0, 1, 7, 255, 1023, 1024, 4000])
def test_rotary_positions(compressed: bool, position: int) -> None:
    config = tiny()
    rotary = rotaries(config)[compressed]
    values = normal(2, 3, 32)
    angles = rotary.angles(torch.tensor([position, 2 * position % 4096]))
    turned = rotate(values, angles)
    for head in range(3):
        wanted = reference.rotate(values[0, head].double().numpy(), position, config, compressed=compressed)
        assert relative_error(turned[0, head], wanted) < LIMIT
    assert torch.allclose(rotate(turned, angles, inverse=True), values, atol=1e-6)


def test_stretching_changes_the_slow_frequencies_only() -> None:
    width, theta, yarn = (
        64,
        160000.0,
        replace(tiny().rope_scaling or pytest.fail(), original_max_position_embeddings=65536),
    )
    plain = [reference.frequency(pair, width, theta, None) for pair in range(32)]
    stretched = [reference.frequency(pair, width, theta, yarn) for pair in range(32)]
    ratios = [a / b for a, b in zip(plain, stretched, strict=True)]
    assert ratios[0] == 1.0
    assert ratios[-1] == pytest.approx(16.0)
    assert ratios == sorted(ratios)


def test_experts() -> None:
    model = lively()
    weights = weights_of(model)
    rows = normal(9, 64) * 4  # Large enough for the clamps to matter.
    images = torch.tensor([row % 3 == 0 for row in range(9)])
    found = model.layers[3].ffn(rows * 3, images, None)
    for row in range(9):
        wanted = reference.experts(
            rows[row].double().numpy() * 3, weights, "layers.3.ffn", model.config, image=row % 3 == 0
        )
        assert relative_error(found[row], wanted) < LIMIT


def test_equal_scores_choose_the_lower_expert() -> None:
    model = lively()
    gate = model.layers[0].ffn.gate
    gate.weight.data[:] = gate.weight.data[0]
    gate.bias.data.zero_()
    chosen, weights = model.layers[0].ffn.route(normal(5, 64), None)
    assert chosen.tolist() == [[0, 1]] * 5
    assert torch.allclose(weights, torch.full((5, 2), 0.75))


def test_selection_prefers_the_lower_of_equals() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        scores = torch.randint(0, 4, (3, 13), generator=generator).float() - 1.0
        scores[:, 9:] = -torch.inf
        scores *= torch.where(torch.rand(3, 13, generator=generator) < 0.5, -1.0, 1.0).where(scores == 0, 1.0)
        mask = candidate_mask(scores, block=2, limit=3)
        for row, values in enumerate(scores.tolist()):
            wanted = reference.top(values, range(9), 4)
            assert ascending(best(scores, 4), 4)[row].tolist() == wanted
            visible = reference.candidates(values[:9], 2, 3)
            assert {j for j in range(9) if mask[row, j]} == visible & set(range(9))


def test_fewer_entries_than_wanted() -> None:
    scores = torch.tensor([[1.0, -torch.inf, 2.0], [-torch.inf] * 3])
    assert ascending(best(scores, 5), 5).tolist() == [[0, 2, -1, -1, -1], [-1] * 5]
    assert not candidate_mask(scores[1:], block=2, limit=1).any()


@pytest.mark.parametrize("layer", [0, 1, 2, 4, 6])
def test_attention_of_every_role(layer: int) -> None:
    """The inputs that each layer has in the model are given to the reference, as the layers share their entries."""
    model = lively()
    found, wanted = Trace(), reference.Reference(model.config, weights_of(model), TOKEN_MAP)
    inputs: list[torch.Tensor] = []
    for each in model.layers:
        each.attn.register_forward_pre_hook(lambda _, values: inputs.append(values[0]))
    runner = Runner(model)
    runner.run(tokens(41), trace=found)
    plans = {plan.layer: plan for plan in model.config.plans}
    for number in range(layer + 1):
        outputs = wanted.attention([row.double().numpy() for row in inputs[number]], plans[number])
    assert relative_error(found.last("attn_out", layer), np.stack(outputs)) < LIMIT
    if plans[layer].kv_source == layer:
        caches = runner.cache.compressed[layer], runner.cache.index_keys[layer]
        for cache, entries in zip(caches, wanted.entries[layer], strict=True):
            assert relative_error(cache[: len(entries)], np.stack(entries)) < LIMIT
    if plans[layer].index_source == layer:
        scored = found.last("index_scores", layer)
        places = [
            (row, j)
            for row, scores in enumerate(wanted.scores[layer])
            for j in range(len(scores))
            if not plans[layer].obeys_candidates or j in wanted.candidates[row]
        ]
        right = np.array([wanted.scores[layer][row][j] for row, j in places])
        assert relative_error(torch.stack([scored[place] for place in places]), right) < LIMIT
        rows = found.last("index_sel", layer).tolist()
        assert [[entry for entry in row if entry >= 0] for row in rows] == wanted.selected[layer]


def test_engram_rows_and_gate() -> None:
    model = lively()
    weights, ids = weights_of(model), tokens(30)
    ids[4] = ids[17] = IMAGE
    trace = Trace()
    Runner(model).run(ids, trace=trace)
    streams = normal(30, 4, 64)
    for layer in (1, 2):
        found = trace.last("engram_rows", layer).tolist()
        assert found == [reference.engram_rows(ids, p, layer, model.config, TOKEN_MAP) for p in range(30)]
        block = model.layers[layer].engram
        assert block is not None
        recalled = block(streams, _ids(ids), None, None)
        for p in range(30):
            wanted = reference.engram(
                streams[p].double().numpy(), found[p], weights, f"layers.{layer}.engram", model.config
            )
            assert relative_error(recalled[p], wanted) < LIMIT


def _ids(ids: list[int]) -> torch.Tensor:
    """Compressed ids of each position's last three tokens."""
    rows = []
    for p in range(len(ids)):
        row, broken = [], False
        for t in range(3):
            broken = broken or p - t < 0 or ids[p - t] == IMAGE
            row.append(TOKEN_MAP[2] if broken else TOKEN_MAP[ids[p - t]])
        rows.append(row[::-1])
    return torch.tensor(rows)


def test_a_gate_of_zero_keeps_the_sign_of_its_bit() -> None:
    model = lively()
    block = model.layers[1].engram
    assert block is not None
    streams = torch.zeros(1, 4, 64)
    added = block(streams, torch.tensor([[5, 6, 7]]), None, None)
    value = block.wkv(block.embed(block.table.rows(torch.tensor([[5, 6, 7]]))).flatten(1))[:, -64:]
    gate = 1.0 / (1.0 + np.exp(-1e-3))
    ratios = (added[0] / value[0]).numpy()
    assert np.allclose(np.where(ratios > 0.5, ratios, 1.0 - ratios), gate, atol=1e-6)


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(presets.tester(), id="tester"),
        pytest.param(presets.fixture(), id="fixture"),
        pytest.param(None, id="every-mechanism"),
        pytest.param(
            replace(
                tiny(),
                compress_ratios=(2, 2, 2, 4, 4, 1, 1, 1),
                kv_source_layer_ids=(0, 3, 5),
                index_source_layer_ids=(0, 2, 3, 5, 6, 7),
                candidate_source_layer_id=5,
                gate_temp=0.7,
                n_shared_experts=2,
            ),
            id="three-ratios",
        ),
    ],
)
def test_whole_model(config: ModelConfig | None) -> None:
    model = lively(config)
    token_map = model.token_map.tolist()
    ids = tokens(45, below=model.config.vocab_size)
    if model.config.image_token_id is not None:
        ids[20] = ids[21] = IMAGE
    trace = Trace()
    found = Runner(model).run(ids, trace=trace)
    wanted = reference.Reference(model.config, weights_of(model), token_map)
    assert relative_error(found, wanted.forward(ids)) < 1e-4
    for layer, rows in wanted.selected.items():
        kept = [[entry for entry in row if entry >= 0] for row in trace.last("index_sel", layer).tolist()]
        assert kept == rows
    if config is None:
        assert any(len(allowed & set(range(p + 1))) < p + 1 for p, allowed in enumerate(wanted.candidates))


@pytest.mark.parametrize("length", [5, 37])
def test_draft_layers_and_heads(length: int) -> None:
    """Each alone: what enters it in the model is given to the reference."""
    model = lively()
    features: list[torch.Tensor] = []
    model.mtp[0].main_proj.register_forward_pre_hook(lambda _, values: features.append(values[0]))
    steps: list[tuple[torch.Tensor, ...]] = []
    for stage in model.mtp:
        stage.draft = _noted(stage.draft, steps)  # type: ignore[method-assign]
    runner = Runner(model)
    runner.run(tokens(length))
    draft = runner.draft((7, length))
    wanted = reference.Reference(model.config, weights_of(model), TOKEN_MAP)
    context = wanted.draft_context([row.double().numpy() for row in features[0]])
    assert len(steps) == model.config.num_nextn_predict_layers > 1
    for layer, (streams, pre, *found) in enumerate(steps):
        entering = [row.double().numpy() for row in streams], [row.double().numpy() for row in pre]
        for left, right in zip(found, wanted.draft_stage(layer, context, *entering), strict=True):
            assert relative_error(left, np.stack(right)) < LIMIT
    leaving = collapse(steps[-1][3], steps[-1][2]).double().numpy()
    logits, confidence = wanted.speak(list(leaving), 7, lambda values: int(values.argmax()))
    assert relative_error(draft.logits[0], logits) < LIMIT
    assert relative_error(draft.confidence[0], confidence) < LIMIT


def _noted(draft: Any, steps: list[tuple[torch.Tensor, ...]]) -> Any:
    def note(streams: torch.Tensor, pre: torch.Tensor, *rest: Any) -> Any:
        result = draft(streams, pre, *rest)
        steps.append((streams, pre, *result))
        return result

    return note


def test_whole_draft() -> None:
    model = lively()
    ids = tokens(37)
    runner = Runner(model, sequences=2)
    runner.step([(0, 0, ids), (1, 0, ids[:5])])
    last = (7, 9)
    draft = runner.draft((7, 37), (9, 5))
    for row, length in enumerate((37, 5)):
        wanted = reference.Reference(model.config, weights_of(model), TOKEN_MAP)
        wanted.forward(ids[:length])
        logits, confidence = wanted.draft(wanted.features, last[row], lambda values: int(values.argmax()))
        assert relative_error(draft.logits[row], logits) < 1e-4
        assert relative_error(draft.confidence[row], confidence) < 1e-4
        assert draft.token_ids[row].tolist() == logits.argmax(-1).tolist()


@pytest.mark.parametrize(
    ("width", "theta", "original"), [(64, 160000.0, 65536), (8, 160000.0, 256), (8, 10000.0, 10**9), (8, 1e30, 64)]
)
def test_frequencies(width: int, theta: float, original: int) -> None:
    """The last two: the upper end of the ramp is cut off at `width` - 1, and both ends are equal."""
    yarn = Yarn(factor=16.0, original_max_position_embeddings=original)
    wanted = [reference.frequency(pair, width, theta, yarn) for pair in range(width // 2)]
    assert frequencies(width, theta, yarn).tolist() == pytest.approx(wanted, rel=1e-12)
