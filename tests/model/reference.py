"""The architecture again, from its formulas: float64, one token and one head at a time, no caches, no cleverness.

Independent of `deepinfer.model`: it shares the configuration and the checkpoint's names, nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from deepinfer.model.config import ModelConfig

Array: TypeAlias = npt.NDArray[Any]
Weights: TypeAlias = Mapping[str, Array]


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def rms(x: Array, weight: Array, epsilon: float) -> Array:
    result: Array = weight * x / math.sqrt(float(np.mean(x * x)) + epsilon)
    return result


# Rotary positions


def frequency(pair: int, width: int, theta: float, yarn: Any) -> float:
    plain = float(theta ** (-2.0 * pair / width))
    if yarn is None:
        return plain

    def d(rotations: float) -> float:
        return (
            width * math.log(yarn.original_max_position_embeddings / (2 * math.pi * rotations)) / (2 * math.log(theta))
        )

    low, high = max(0, math.floor(d(yarn.beta_fast))), min(width - 1, math.ceil(d(yarn.beta_slow)))
    ramp: float = min(max((pair - low) / max(high - low, 1e-3), 0.0), 1.0)
    return plain * (ramp / float(yarn.factor) + 1 - ramp)


def rotate(x: Array, position: int, config: ModelConfig, *, compressed: bool) -> Array:
    width = config.qk_rope_head_dim
    theta = config.compress_rope_theta if compressed else config.rope_theta
    yarn = config.rope_scaling if compressed else None
    result = x.copy()
    tail = len(x) - width
    for pair in range(width // 2):
        angle = position * frequency(pair, width, theta, yarn)
        first, second = x[tail + 2 * pair], x[tail + 2 * pair + 1]
        result[tail + 2 * pair] = first * math.cos(angle) - second * math.sin(angle)
        result[tail + 2 * pair + 1] = first * math.sin(angle) + second * math.cos(angle)
    return result


# Hyper-connections


def mix(streams: Array, w: Weights, name: str, config: ModelConfig) -> tuple[Array, Array, Array]:
    """(pre [n], post [n], C [n, n]) of streams [n, hidden]."""
    n, epsilon = config.hc_mult, config.hc_eps
    x = streams.reshape(-1)
    m = w[f"{name}_fn"] @ x / math.sqrt(float(np.mean(x * x)) + config.rms_norm_eps)
    scale, base = w[f"{name}_scale"], w[f"{name}_base"]
    pre = sigmoid(scale[0] * m[:n] + base[:n]) + epsilon
    post = 2 * sigmoid(scale[1] * m[n : 2 * n] + base[n : 2 * n])
    c = (scale[2] * m[2 * n :] + base[2 * n :]).reshape(n, n)
    for i in range(n):
        e = np.exp(c[i] - c[i].max())
        c[i] = e / e.sum() + epsilon
    for j in range(n):
        c[:, j] = c[:, j] / (c[:, j].sum() + epsilon)
    for _ in range(config.hc_sinkhorn_iters - 1):
        for i in range(n):
            c[i] = c[i] / (c[i].sum() + epsilon)
        for j in range(n):
            c[:, j] = c[:, j] / (c[:, j].sum() + epsilon)
    return pre, post, c


def spread(post: Array, c: Array, y: Array, streams: Array) -> Array:
    n = len(streams)
    return np.stack([post[j] * y + sum(c[i, j] * streams[i] for i in range(n)) for j in range(n)])


# Experts


def expert(x: Array, w: Weights, name: str, limit: float) -> Array:
    gate = np.minimum(w[f"{name}.w1.weight"] @ x, limit)
    up = np.clip(w[f"{name}.w3.weight"] @ x, -limit, limit)
    result: Array = w[f"{name}.w2.weight"] @ (gate * sigmoid(gate) * up)
    return result


def experts(x: Array, w: Weights, name: str, config: ModelConfig, *, image: bool = False) -> Array:
    scores = np.sqrt(np.log1p(np.exp(w[f"{name}.gate.weight"] @ x / config.gate_temp)))
    bias = w[f"{name}.gate.bias_vl" if image else f"{name}.gate.bias"]
    chosen = sorted(range(len(scores)), key=lambda e: (-(scores[e] + bias[e]), e))[: config.num_experts_per_tok]
    total = sum(scores[e] for e in chosen) + 1e-20
    y = expert(x, w, f"{name}.shared_experts", config.swiglu_limit)
    for e in chosen:
        weight = scores[e] / total * config.routed_scaling_factor
        y = y + weight * expert(x, w, f"{name}.experts.{e}", config.swiglu_limit)
    return y


# Engram


def next_prime(number: int) -> int:
    number += 1
    while any(number % divisor == 0 for divisor in range(2, math.isqrt(number) + 1)):
        number += 1
    return number


def engram_primes(config: ModelConfig) -> dict[int, list[list[int]]]:
    """Primes [n-gram][head] of each layer."""
    used: set[int] = set()
    result: dict[int, list[list[int]]] = {}
    for layer in config.engram_layer_ids:
        result[layer] = []
        for _ in range(2, config.engram_max_ngram_size + 1):
            current, row = config.engram_vocab_size - 1, []
            for _ in range(config.engram_n_heads):
                current = next_prime(current)
                while current in used:
                    current = next_prime(current)
                used.add(current)
                row.append(current)
            result[layer].append(row)
    return result


def engram_rows(
    ids: Sequence[int], position: int, layer: int, config: ModelConfig, token_map: Sequence[int]
) -> list[int]:
    size = max(token_map) + 1
    high = max(1, (2**63 - 1) // size // 2)
    drawn = np.random.default_rng(10007 * layer).integers(0, high, size=config.engram_max_ngram_size, dtype=np.int64)
    primes = engram_primes(config)[layer]
    pad, r, broken = token_map[config.engram_pad_token_id], 0, False
    rows: list[int] = []
    offset = 0
    for t in range(config.engram_max_ngram_size):
        broken = broken or position - t < 0 or ids[position - t] == config.image_token_id
        token = pad if broken else token_map[ids[position - t]]
        r ^= token * (2 * int(drawn[t]) + 1)
        if t >= 1:
            for prime in primes[t - 1]:
                rows.append(r % prime + offset)
                offset += prime
    return rows


def engram(streams: Array, rows: Sequence[int], w: Weights, name: str, config: ModelConfig) -> Array:
    h, n = config.hidden_size, config.hc_mult
    recalled = w[f"{name}.wkv.weight"] @ np.concatenate([w[f"{name}.embed.weight"][row] for row in rows])
    value = recalled[n * h :]
    result = streams.copy()
    for i in range(n):
        key, x = recalled[i * h : (i + 1) * h], streams[i]
        d = float(np.sum(x * w[f"{name}.q_weight"][i] * w[f"{name}.k_weight"][i] * key))
        d /= math.sqrt(float(np.mean(x * x)) + config.rms_norm_eps)
        d /= math.sqrt(float(np.mean(key * key)) + config.rms_norm_eps) * math.sqrt(h)
        result[i] = x + sigmoid(math.copysign(math.sqrt(max(abs(d), 1e-6)), d)) * value
    return result


# Attention


def compress(hidden: Sequence[Array], w: Weights, name: str, ratio: int, epsilon: float) -> list[Array]:
    """Normalised, not rotated entries of all finished groups."""
    entries = []
    for j in range(len(hidden) // ratio):
        group = hidden[j * ratio : (j + 1) * ratio]
        z = [w[f"{name}.wkv.weight"] @ h for h in group]
        if ratio == 1:
            e = z[0]
        else:
            s = np.stack([w[f"{name}.wgate.weight"] @ h for h in group])
            p = np.exp(s - s.max(0))
            e = sum(p[t] / p.sum(0) * z[t] for t in range(ratio))
        entries.append(rms(e, w[f"{name}.norm.weight"], epsilon))
    return entries


def attend(queries: Array, keys: Sequence[Array], sinks: Array) -> Array:
    """Mixtures [heads, width] of the keys; a sink per head takes weight."""
    mixed = []
    for head, query in enumerate(queries):
        logits = [float(query @ key) / math.sqrt(len(query)) for key in keys]
        top = max([*logits, float(sinks[head])])
        total = math.exp(sinks[head] - top) + sum(math.exp(logit - top) for logit in logits)
        mixed.append(sum(math.exp(logit - top) / total * key for logit, key in zip(logits, keys, strict=True)))
    return np.stack(mixed)


def project(mixed: Array, w: Weights, name: str, config: ModelConfig) -> Array:
    """Grouped projection of mixtures [heads, width]."""
    parts = mixed.reshape(config.o_groups, -1)
    matrices = w[f"{name}.wo_a.weight"].reshape(config.o_groups, config.o_lora_rank, -1)
    result: Array = w[f"{name}.wo_b.weight"] @ np.concatenate([m @ p for m, p in zip(matrices, parts, strict=True)])
    return result


def index_scores(query: Array, weights: Array, keys: Sequence[Array]) -> list[float]:
    scale = 1.0 / math.sqrt(query.shape[1] * query.shape[0])
    return [
        sum(float(weight) * scale * max(0.0, float(q @ key)) for weight, q in zip(weights, query, strict=True))
        for key in keys
    ]


def top(scores: Sequence[float], allowed: Sequence[int], count: int) -> list[int]:
    return sorted(sorted(allowed, key=lambda j: (-scores[j], j))[:count])


def candidates(scores: Sequence[float], block: int, limit: int) -> set[int]:
    """Entries of the best blocks; the block of the newest entry is always kept and counts."""
    if not scores:
        return set()
    blocks = range(-(-len(scores) // block))
    newest = (len(scores) - 1) // block
    value = [math.inf if b == newest else max(scores[b * block : (b + 1) * block]) for b in blocks]
    return {j for b in top(value, list(blocks), limit) for j in range(b * block, (b + 1) * block)}


class Reference:
    """A whole model over one sequence."""

    def __init__(self, config: ModelConfig, weights: Weights, token_map: Sequence[int] | None = None) -> None:
        self.config, self.w = config, weights
        self.token_map = list(range(config.vocab_size)) if token_map is None else token_map
        self.selected: dict[int, list[list[int]]] = {}
        self.candidates: list[set[int]] = []
        # Of each layer that selects, by row: scores of the visible entries.
        self.scores: dict[int, list[list[float]]] = {}
        self.features: list[list[Array]] = []
        # Of each source layer: its compressed entries, and their index keys.
        self.entries: dict[int, tuple[list[Array], list[Array]]] = {}

    def forward(self, ids: Sequence[int]) -> Array:
        """Logits [tokens, vocabulary]; the selections and draft features are kept."""
        config = self.config
        streams = [np.stack([self.w["embed.weight"][i]] * config.hc_mult) for i in ids]
        pre = [np.eye(config.hc_mult)[0] for _ in ids]
        for plan in config.plans:
            name = f"layers.{plan.layer}"
            if plan.layer in config.engram_layer_ids:
                for p, token in enumerate(ids):
                    if token != config.image_token_id:
                        rows = engram_rows(ids, p, plan.layer, config, self.token_map)
                        streams[p] = engram(streams[p], rows, self.w, f"{name}.engram", config)
            if plan.layer in config.dspark_target_layer_ids:
                self.features.append([s.mean(0) for s in streams])
            mixes = [mix(s, self.w, f"{name}.hc_attn", config) for s in streams]
            hidden = [self._norm(f"{name}.attn_norm", w @ s) for w, s in zip(pre, streams, strict=True)]
            outputs = self.attention(hidden, plan)
            streams = [spread(m[1], m[2], y, s) for m, y, s in zip(mixes, outputs, streams, strict=True)]
            after = [mix(s, self.w, f"{name}.hc_ffn", config) for s in streams]
            hidden = [self._norm(f"{name}.ffn_norm", m[0] @ s) for m, s in zip(mixes, streams, strict=True)]
            outputs = [
                experts(h, self.w, f"{name}.ffn", config, image=token == config.image_token_id)
                for h, token in zip(hidden, ids, strict=True)
            ]
            streams = [spread(m[1], m[2], y, s) for m, y, s in zip(after, outputs, streams, strict=True)]
            pre = [m[0] for m in after]
        last = [self._norm("norm", w @ s) for w, s in zip(pre, streams, strict=True)]
        return np.stack([self.w["head.weight"] @ h for h in last])

    def attention(self, hidden: Sequence[Array], plan: Any) -> list[Array]:
        """Outputs of the attention of one layer for its normalised inputs, one per position."""
        config, w, name = self.config, self.w, f"layers.{plan.layer}.attn"
        compressed = plan.ratio > 0
        latents = [self._norm(f"{name}.q_norm", w[f"{name}.wq_a.weight"] @ h) for h in hidden]
        local = [self.window_key(h, p, name, compressed=compressed) for p, h in enumerate(hidden)]
        if plan.kv_source == plan.layer:
            self._store(hidden, plan)
        if plan.index_source == plan.layer:
            self._select(hidden, latents, plan)
        outputs = []
        for p, latent in enumerate(latents):
            keys = list(local[max(0, p + 1 - config.sliding_window) : p + 1])
            if compressed:
                keys += [self.entries[plan.kv_source][0][j] for j in self.selected[plan.index_source][p]]
            outputs.append(self.output(latent, p, keys, name, compressed=compressed))
        return outputs

    def window_key(self, h: Array, position: int, name: str, *, compressed: bool) -> Array:
        key = self._norm(f"{name}.kv_norm", self.w[f"{name}.wkv.weight"] @ h)
        return rotate(key, position, self.config, compressed=compressed)

    def output(self, latent: Array, position: int, keys: Sequence[Array], name: str, *, compressed: bool) -> Array:
        config = self.config
        queries = (self.w[f"{name}.wq_b.weight"] @ latent).reshape(config.num_attention_heads, config.head_dim)
        queries = np.stack([rotate(q, position, config, compressed=compressed) for q in queries])
        mixed = attend(queries, keys, self.w[f"{name}.attn_sink"])
        mixed = np.stack([rotate(o, -position, config, compressed=compressed) for o in mixed])
        return project(mixed, self.w, name, config)

    def _store(self, hidden: Sequence[Array], plan: Any) -> None:
        w, name = self.w, f"layers.{plan.layer}.attn"
        latents = compress(hidden, w, f"{name}.compressor", plan.ratio, self.config.rms_norm_eps)
        keys = [self._norm(f"{name}.indexer.k_norm", w[f"{name}.indexer.wk.weight"] @ c) for c in latents]
        self.entries[plan.layer] = (
            [rotate(c, j * plan.ratio, self.config, compressed=True) for j, c in enumerate(latents)],
            [rotate(k, j * plan.ratio, self.config, compressed=True) for j, k in enumerate(keys)],
        )

    def _select(self, hidden: Sequence[Array], latents: Sequence[Array], plan: Any) -> None:
        config, w, name = self.config, self.w, f"layers.{plan.layer}.attn.indexer"
        keys = self.entries[plan.kv_source][1]
        self.selected[plan.layer] = []
        for p, (h, a) in enumerate(zip(hidden, latents, strict=True)):
            query = (w[f"{name}.wq_b.weight"] @ a).reshape(config.index_n_heads, config.index_head_dim)
            query = np.stack([rotate(q, p, config, compressed=True) for q in query])
            visible = (p + 1) // plan.ratio
            scores = index_scores(query, w[f"{name}.weights_proj.weight"] @ h, keys[:visible])
            self.scores.setdefault(plan.layer, []).append(scores)
            if plan.selects_candidates:
                self.candidates.append(candidates(scores, config.candidate_block_size, config.candidate_topk_blocks))
            allowed = [j for j in range(visible) if not plan.obeys_candidates or j in self.candidates[p]]
            self.selected[plan.layer].append(top(scores, allowed, config.index_topk))

    def draft(self, features: Sequence[Sequence[Array]], last: int, choose: Any) -> tuple[Array, Array]:
        """Logits [block, vocabulary] and confidence [block] after `last`, given features of all positions before it."""
        config, w = self.config, self.w
        ids = [last] + [config.dspark_noise_token_id] * (config.dspark_block_size - 1)
        context = self.draft_context([np.concatenate(rows) for rows in zip(*features, strict=True)])
        streams = [np.stack([w["embed.weight"][i]] * config.hc_mult) for i in ids]
        pre = [np.eye(config.hc_mult)[0] for _ in ids]
        for layer in range(config.draft_config.num_hidden_layers):
            streams, pre = self.draft_stage(layer, context, streams, pre)
        return self.speak([p @ s for p, s in zip(pre, streams, strict=True)], last, choose)

    def draft_context(self, features: Sequence[Array]) -> list[Array]:
        """What the draft layers read of each position, given the joined features of the target layers."""
        return [self._norm("mtp.0.main_norm", self.w["mtp.0.main_proj.weight"] @ row) for row in features]

    def draft_stage(
        self, layer: int, context: Sequence[Array], streams: Sequence[Array], pre: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        """Streams and mixes that leave a draft layer, given those that enter it, one per row of the block."""
        shape = self.config.draft_config
        w = {name.replace("mtp.", "layers."): value for name, value in self.w.items() if name.startswith("mtp.")}
        reference, name, position = Reference(shape, w), f"layers.{layer}", len(context)
        mixes = [mix(s, w, f"{name}.hc_attn", shape) for s in streams]
        hidden = [reference._norm(f"{name}.attn_norm", p @ s) for p, s in zip(pre, streams, strict=True)]
        first = max(0, position - shape.sliding_window)
        keys = [reference.window_key(context[p], p, f"{name}.attn", compressed=False) for p in range(first, position)]
        keys += [reference.window_key(h, position + k, f"{name}.attn", compressed=False) for k, h in enumerate(hidden)]
        latents = [reference._norm(f"{name}.attn.q_norm", w[f"{name}.attn.wq_a.weight"] @ h) for h in hidden]
        outputs = [
            reference.output(a, position + k, keys, f"{name}.attn", compressed=False) for k, a in enumerate(latents)
        ]
        streams = [spread(m[1], m[2], y, s) for m, y, s in zip(mixes, outputs, streams, strict=True)]
        after = [mix(s, w, f"{name}.hc_ffn", shape) for s in streams]
        hidden = [reference._norm(f"{name}.ffn_norm", m[0] @ s) for m, s in zip(mixes, streams, strict=True)]
        outputs = [experts(h, w, f"{name}.ffn", shape) for h in hidden]
        streams = [spread(m[1], m[2], y, s) for m, y, s in zip(after, outputs, streams, strict=True)]
        return streams, [m[0] for m in after]

    def speak(self, hidden: Sequence[Array], last: int, choose: Any) -> tuple[Array, Array]:
        """Logits and confidence of the rows that leave the last draft layer."""
        w, name = self.w, f"mtp.{self.config.num_nextn_predict_layers - 1}"
        logits, confidence, previous = [], [], last
        for eta in hidden:
            bigram = w[f"{name}.markov_head.embed.weight"][previous]
            base = w["head.weight"] @ self._norm(f"{name}.norm", eta)
            logits.append(base + w[f"{name}.markov_head.head.weight"] @ bigram)
            confidence.append(
                float(sigmoid(w[f"{name}.confidence_head.proj.weight"][0] @ np.concatenate([eta, bigram])))
            )
            previous = choose(logits[-1])
        return np.stack(logits), np.array(confidence)

    def _norm(self, name: str, x: Array) -> Array:
        return rms(x, self.w[f"{name}.weight"], self.config.rms_norm_eps)
