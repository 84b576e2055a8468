"""Shapes of known models: the release, test sizes, the embedded model, the bench. Imports no torch."""

from __future__ import annotations

from dataclasses import replace

from deepinfer.model.config import ModelConfig, Quantization, Yarn


def release() -> ModelConfig:
    """DeepSeek-V4.1-Flash, its text model and draft layers."""
    return ModelConfig(
        vocab_size=129280,
        hidden_size=5120,
        num_hidden_layers=40,
        num_attention_heads=64,
        head_dim=512,
        qk_rope_head_dim=64,
        q_lora_rank=1280,
        o_groups=8,
        o_lora_rank=1024,
        sliding_window=128,
        compress_ratios=(0,) * 2 + (2,) * 18 + (1,) * 20,
        kv_source_layer_ids=(2, 8, 14, 20),
        index_source_layer_ids=(2, 8, 14, 20, 24, 28, 32, 36),
        candidate_source_layer_id=20,
        candidate_topk_blocks=2048,
        candidate_block_size=8,
        index_n_heads=32,
        index_head_dim=128,
        index_topk=512,
        rope_scaling=Yarn(factor=16.0, original_max_position_embeddings=65536),
        moe_intermediate_size=2304,
        n_routed_experts=384,
        num_experts_per_tok=6,
        engram_layer_ids=(1, 14),
        engram_num_embeddings=(384_006_168, 384_016_682),
        num_nextn_predict_layers=3,
        dspark_noise_token_id=128799,
        dspark_target_layer_ids=(37, 38, 39),
        image_token_id=129264,
        quantization=Quantization(caches=True, activations=True),
    )


def tester() -> ModelConfig:
    """The size that the public pull request of transformers tests with."""
    return ModelConfig(
        vocab_size=128,
        hidden_size=64,
        num_hidden_layers=5,
        num_attention_heads=4,
        head_dim=32,
        qk_rope_head_dim=8,
        q_lora_rank=32,
        o_groups=2,
        o_lora_rank=16,
        sliding_window=8,
        compress_ratios=(0, 2, 2, 1, 1),
        kv_source_layer_ids=(1, 3),
        index_source_layer_ids=(1, 3),
        candidate_source_layer_id=3,
        candidate_topk_blocks=4,
        candidate_block_size=4,
        index_n_heads=2,
        index_head_dim=32,
        index_topk=2,
        max_position_embeddings=4096,
        moe_intermediate_size=64,
        n_routed_experts=4,
        num_experts_per_tok=2,
        hc_mult=2,
        hc_sinkhorn_iters=3,
    )


def fixture() -> ModelConfig:
    """The size of the public test data of fastllm, as far as it is described; the rest is as in `tester`."""
    return replace(
        tester(),
        hidden_size=128,
        index_source_layer_ids=(1, 3, 4),
        n_routed_experts=2,
        engram_layer_ids=(1, 4),
        engram_max_ngram_size=3,
        engram_n_heads=2,
        engram_head_dim=32,
        engram_vocab_size=64,
    )


def tiny() -> ModelConfig:
    """Every mechanism at the smallest size at which each one bites, draft layers, Engram and YaRN included."""
    return ModelConfig(
        vocab_size=256,
        hidden_size=64,
        num_hidden_layers=8,
        num_attention_heads=4,
        head_dim=32,
        qk_rope_head_dim=8,
        q_lora_rank=32,
        o_groups=2,
        o_lora_rank=16,
        sliding_window=8,
        compress_ratios=(0, 2, 2, 2, 1, 1, 1, 1),
        kv_source_layer_ids=(1, 4),
        index_source_layer_ids=(1, 4, 6),
        candidate_source_layer_id=4,
        candidate_topk_blocks=5,
        candidate_block_size=2,
        index_n_heads=2,
        index_head_dim=32,
        index_topk=4,
        rope_scaling=Yarn(factor=16.0, original_max_position_embeddings=256),
        max_position_embeddings=4096,
        moe_intermediate_size=32,
        n_routed_experts=8,
        num_experts_per_tok=2,
        engram_layer_ids=(1, 2),
        engram_max_ngram_size=3,
        engram_n_heads=2,
        engram_head_dim=32,
        engram_vocab_size=101,
        num_nextn_predict_layers=2,
        dspark_block_size=3,
        dspark_noise_token_id=3,
        dspark_target_layer_ids=(6, 7),
        dspark_markov_rank=8,
        dspark_n_routed_experts=4,
        dspark_num_experts_per_tok=2,
    )


def embedded(vocab_size: int = 129280) -> ModelConfig:
    """The model that is served without a checkpoint: small enough for two cores, in DeepSeek's vocabulary."""
    return ModelConfig(
        vocab_size=vocab_size,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        head_dim=32,
        qk_rope_head_dim=16,
        q_lora_rank=32,
        o_groups=2,
        o_lora_rank=32,
        sliding_window=32,
        compress_ratios=(2, 1),
        kv_source_layer_ids=(0, 1),
        index_source_layer_ids=(0, 1),
        index_n_heads=2,
        index_head_dim=32,
        index_topk=32,
        moe_intermediate_size=64,
        n_routed_experts=4,
        num_experts_per_tok=1,
        hc_mult=2,
        hc_sinkhorn_iters=4,
    )


def bench() -> ModelConfig:
    """About ten million parameters besides embeddings, with a compact vocabulary: the size that the bench reports."""
    return ModelConfig(
        vocab_size=1024,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=8,
        head_dim=64,
        qk_rope_head_dim=32,
        q_lora_rank=128,
        o_groups=2,
        o_lora_rank=128,
        sliding_window=64,
        compress_ratios=(0, 2, 1, 1),
        kv_source_layer_ids=(1, 2),
        index_source_layer_ids=(1, 2, 3),
        candidate_source_layer_id=2,
        candidate_topk_blocks=16,
        candidate_block_size=8,
        index_n_heads=4,
        index_head_dim=64,
        index_topk=64,
        moe_intermediate_size=192,
        n_routed_experts=15,
        num_experts_per_tok=2,
        hc_mult=4,
        hc_sinkhorn_iters=20,
    )
