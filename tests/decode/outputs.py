"""Outputs of a model, made up: thinking, text, calls in good and bad shape, cut anywhere, in pushes of any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hypothesis import strategies as st

import deepseek_recipe as recipe
from tests.decode.sdk_server import Prepared

Finish = Literal["stop", "length", "content_filter"]

MODEL = "DeepSeek-V4.1-Flash"
STOP = "###"
FINISHES: list[Finish | None] = ["stop", "stop", "length", "content_filter", None]
TOOLS = ("get_weather", "search")
# Texts that are most likely to be mistaken: newlines, quotes, separators of lines, fences, beginnings of markup.
PARTS = [
    "a",
    "Paris ",
    "\n",
    "\n\n",
    '"',
    "\\",
    "\u2028",
    "😀",
    "é",
    "<",
    "</",
    "｜",
    "```\n",
    "##",
    "{",
    "}",
    "data: ",
]

TEXT = st.one_of(st.text(st.sampled_from("ab \n<{\"'é")), st.lists(st.sampled_from(PARTS), max_size=8).map("".join))
VALUES = st.one_of(
    TEXT.map(lambda text: ("true", text)),
    st.sampled_from(["1", "[1, 2]", "null", "oops", ""]).map(lambda text: ("false", text)),
)


@dataclass
class Output:
    """An output, and how it arrives."""

    text: str
    finish: Finish | None
    sizes: list[int]

    def chunks(self, tokenizer: recipe.Tokenizer) -> list[list[int]]:
        """The output's ids, push by push."""
        ids = tokenizer.encode(self.text, special=True)
        chunks: list[list[int]] = []
        while ids:
            size = self.sizes[len(chunks) % len(self.sizes)]
            chunks.append(ids[:size])
            ids = ids[size:]
        return chunks


def parameter(item: tuple[str, tuple[str, str]]) -> str:
    """Markup of one parameter."""
    name, (string, value) = item
    return f'<｜DSML｜ parameter name="{name}" string="{string}">{value}</｜DSML｜ parameter>\n'


@st.composite
def calls(draw: st.DrawFn, names: Sequence[str]) -> str:
    """A block of calls."""
    block = "\n\n<｜DSML｜ calls>\n"
    for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)):
        keys = ["input"] if name == "apply_patch" else draw(st.lists(st.sampled_from(["a", "b c", "é"]), max_size=3))
        parameters = "".join(parameter((key, draw(VALUES))) for key in keys)
        block += f'<｜DSML｜ invoke name="{name}">\n{parameters}</｜DSML｜ invoke>\n'
    return block + "</｜DSML｜ calls>"


@st.composite
def outputs(draw: st.DrawFn, thinking: bool, names: Sequence[str] = TOOLS) -> Output:
    """An output of a model that may think and may call tools."""
    text = draw(TEXT) + "</think>" if thinking else ""
    parts = st.one_of(TEXT, calls(names)) if names else TEXT
    text += "".join(draw(st.lists(parts, max_size=4)))
    text += draw(st.sampled_from(["", "", STOP + " more", "<｜end▁of▁sentence｜>"]))
    if draw(st.booleans()):
        text = text[: draw(st.integers(0, len(text)))]
    finish = draw(st.sampled_from(FINISHES))
    return Output(text, finish, draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))


def prepared(
    request: dict[str, Any], protocol: str, choices: Sequence[Output], *, keep_alive: bool = False
) -> Prepared:
    """The answer to a request, one output for each choice, their pushes taking turns."""
    encoded = recipe.encode(request, protocol)
    decoder = decoder_of(encoded, len(choices))
    tokenizer = recipe.Tokenizer.built_in(encoded.model_version)
    sent = decoder.keep_alive() if keep_alive else b""
    sent += decoder.start(prompt_tokens=len(encoded.token_ids), cached_tokens=2, fingerprint="fp")
    pending = [(choice, output.chunks(tokenizer)) for choice, output in enumerate(choices)]
    while pending:
        for choice, chunks in list(pending):
            if chunks:
                ids = chunks.pop(0)
                sent += decoder.push(ids, logprobs(ids) if encoded.sampling.logprobs else None, choice=choice)
            else:
                sent += decoder.finish(choices[choice].finish, choice=choice)
                pending.remove((choice, chunks))
        if keep_alive:
            sent += decoder.keep_alive()
    return Prepared(sent, decoder.response())


def decoder_of(encoded: recipe.Encoded, choices: int) -> recipe.Decoder:
    """The decoder of a request; several choices are the business of a server that offers them."""
    if choices == 1:
        return encoded.decoder(id="answer-1", created=1_700_000_000, seed=b"sdk")
    return recipe.Decoder(
        "chat_completions",
        encoded.parsing,
        id="answer-1",
        model=encoded.model,
        created=1_700_000_000,
        seed=b"sdk",
        thinking=encoded.thinking,
        include_usage=bool(encoded.include_usage),
        choices=choices,
        tokenizer=encoded.model_version,
    )


def logprobs(ids: list[int]) -> list[tuple[float, list[tuple[int, float]]]]:
    """Log probabilities of some ids, each with two alternatives."""
    return [(-0.5, [(id, -0.5), (id + 1, -1.5)]) for id in ids]
