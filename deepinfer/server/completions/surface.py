"""Bodies of text completions, made ready for the engine."""

from __future__ import annotations

import time
from typing import Final
from uuid import uuid4

import deepseek_recipe as recipe
from deepinfer.core import Request, SamplingParams
from deepinfer.server.bridge import choice_seed
from deepinfer.server.completions.decoder import CompletionDecoder, CompletionForm
from deepinfer.server.completions.request import CompletionRequest, prompts_of, read_completion
from deepinfer.server.errors import HttpError
from deepinfer.server.protocols import ProtocolName
from deepinfer.server.reading import off_the_loop
from deepinfer.server.services import Services
from deepinfer.server.work import Work

_DEFAULT_TOKENS: Final = 16


class CompletionSurface:
    """`/v1/completions`."""

    packed = True
    protocol: ProtocolName = "chat_completions"

    async def read(self, body: bytes, client: str, services: Services) -> Work:
        """Read a body, in a thread if it is long. Raises `HttpError`."""
        return await off_the_loop(len(body), self._work, body, services)

    def _work(self, body: bytes, services: Services) -> Work:
        request = read_completion(body, services)
        prompts = [prompt for prompt in prompts_of(request, services) for _ in range(request.n or 1)]
        answer_id = f"cmpl-{uuid4().hex}"
        form = CompletionForm(
            id=answer_id,
            model=request.model,
            created=int(time.time()),
            prompts=[prompt.ids for prompt in prompts],
            echoed=[prompt.text() if request.echo else "" for prompt in prompts],
            stops=request.stops,
            stream=bool(request.stream),
            include_usage=request.stream_options is not None and request.stream_options.include_usage,
            usage_in_all=request.stream_options is not None and request.stream_options.continuous_usage_stats,
            with_logprobs=request.logprobs is not None,
            with_ids=bool(request.return_token_ids),
            with_prompt_ids=bool(request.return_token_ids) and request.return_prompt_token_ids,
            ids_for_texts=bool(request.return_tokens_as_token_ids),
        )
        return Work(
            answer_id=answer_id,
            model=request.model,
            stream=form.stream,
            requests=[
                Request(
                    request_id=f"{answer_id}/{choice}",
                    token_ids=prompt.ids,
                    sampling=_sampling(request, choice, len(prompt.ids), services),
                    grammar=request.grammar,
                    thinking_limit=request.thinking_limit,
                )
                for choice, prompt in enumerate(prompts)
            ],
            decoder=lambda: CompletionDecoder(form, services.tokenizer),
            prompt_tokens=sum(len(prompt.ids) for prompt in prompts) // (request.n or 1),
            prompt=lambda: "\n".join(prompt.text() for prompt in prompts),
        )


def _sampling(request: CompletionRequest, choice: int, prompt_tokens: int, services: Services) -> SamplingParams:
    return SamplingParams(
        max_tokens=_max_tokens(request, prompt_tokens, services.model.context_length),
        temperature=1.0 if request.temperature is None else request.temperature,
        top_p=1.0 if request.top_p is None else request.top_p,
        # 0 and -1 stand for all tokens.
        top_k=request.top_k if request.top_k is not None and request.top_k > 0 else None,
        min_p=request.min_p or 0.0,
        presence_penalty=request.presence_penalty or 0.0,
        frequency_penalty=request.frequency_penalty or 0.0,
        repetition_penalty=1.0 if request.repetition_penalty is None else request.repetition_penalty,
        logit_bias=request.logit_bias or {},
        seed=choice_seed(request.seed, choice),
        stop_token_ids=_stop_token_ids(request, services),
        top_logprobs=request.logprobs,
    )


def _stop_token_ids(request: CompletionRequest, services: Services) -> tuple[int, ...]:
    end = recipe.eos_token_id(services.model.recipe_version)
    return (end, *(id for id in request.stop_token_ids or () if id != end))


def _max_tokens(request: CompletionRequest, prompt_tokens: int, limit: int) -> int:
    wish = request.max_tokens or max(1, min(_DEFAULT_TOKENS, limit - prompt_tokens))
    if prompt_tokens + wish > limit:
        message = (
            f"This model's maximum context length is {limit} tokens. However, you requested {prompt_tokens + wish} "
            f"tokens ({prompt_tokens} in the prompt, {wish} in the completion). Shorten the prompt or the completion."
        )
        raise HttpError(400, "context_length_exceeded", message)
    return wish
