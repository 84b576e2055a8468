"""One layer: attention, then experts, each between a mix of the streams and a spread back onto them."""

from __future__ import annotations

from torch import Tensor, nn

from deepinfer.cache.pool import ModelCache
from deepinfer.model.attention import Attention, Shared
from deepinfer.model.batch import Batch
from deepinfer.model.config import LayerPlan, ModelConfig
from deepinfer.model.engram import Engram
from deepinfer.model.hyper import HyperConnection, Mix, collapse, spread
from deepinfer.model.moe import MixtureOfExperts
from deepinfer.model.norm import RmsNorm
from deepinfer.model.rope import Rotary
from deepinfer.model.trace import Trace
from deepinfer.model.weights import weight


class Layer(nn.Module):
    """The two sublayers and their hyper-connections. Module and parameter names are the checkpoint's."""

    def __init__(self, config: ModelConfig, plan: LayerPlan) -> None:
        super().__init__()
        self.plan = plan
        self.attn_norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.attn = Attention(config, plan)
        self.ffn_norm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.ffn = MixtureOfExperts(config, plan.layer)
        self.hyper = HyperConnection(config)
        # Set by the model for the layers that have one.
        self.engram: Engram | None = None
        n = config.hc_mult
        coefficients, inputs = 2 * n + n * n, n * config.hidden_size
        self.hc_attn_fn, self.hc_ffn_fn = weight(coefficients, inputs), weight(coefficients, inputs)
        self.hc_attn_base, self.hc_ffn_base = weight(coefficients), weight(coefficients)
        self.hc_attn_scale, self.hc_ffn_scale = weight(3), weight(3)

    def forward(
        self,
        streams: Tensor,
        pre: Tensor,
        angles: tuple[Tensor, Tensor],
        batch: Batch,
        cache: ModelCache,
        rotary: Rotary,
        shared: Shared,
        images: Tensor | None,
        trace: Trace | None,
    ) -> tuple[Tensor, Tensor]:
        """Map `streams` [rows, n, hidden] and the mix `pre` [rows, n] of this layer's input to those of the next."""
        mix = self.attention_mix(streams)
        rows = self.attn_norm(collapse(pre, streams))
        output = self.attn(rows, angles, batch, cache, rotary, shared, trace)
        streams = spread(mix, output, streams)
        streams, pre = self.feed_forward(streams, mix.pre, images, trace)
        if trace is not None:
            trace.add("attn_out", self.plan.layer, output)
            trace.add("streams", self.plan.layer, streams)
            trace.add("pre", self.plan.layer, pre)
        return streams, pre

    def attention_mix(self, streams: Tensor) -> Mix:
        """Mix of the attention sublayer, read off the streams that enter it."""
        return self.hyper.mix(streams, self.hc_attn_fn, self.hc_attn_base, self.hc_attn_scale)

    def feed_forward(
        self, streams: Tensor, pre: Tensor, images: Tensor | None, trace: Trace | None
    ) -> tuple[Tensor, Tensor]:
        """Run the second sublayer, whose input is mixed by `pre`; returns the streams and the next input's mix."""
        mix = self.hyper.mix(streams, self.hc_ffn_fn, self.hc_ffn_base, self.hc_ffn_scale)
        output = self.ffn(self.ffn_norm(collapse(pre, streams)), images, trace)
        if trace is not None:
            trace.add("ffn_out", self.plan.layer, output)
        return spread(mix, output, streams), mix.pre
