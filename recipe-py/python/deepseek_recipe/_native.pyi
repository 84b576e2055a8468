"""Types of the compiled half of the package. `python -m mypy.stubtest deepseek_recipe` keeps it true."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, final

from typing_extensions import Buffer, disjoint_base

__all__ = [
    "Constraint",
    "Decoder",
    "Difference",
    "Encoded",
    "Event",
    "Grammar",
    "Image",
    "Options",
    "Parsing",
    "Part",
    "RequestError",
    "Sampling",
    "Span",
    "TokenIds",
    "Tokenizer",
    "Turn",
    "__version__",
    "count_tokens",
    "diff",
    "diff_sequence",
    "encode",
    "encode_conversation",
    "eos_token_id",
    "error_body",
    "explain",
]

__version__: str

_Body = bytes | str | dict[str, Any]
_Lookup = Callable[[str], _Body | list[Any] | None]
# What functions take is any string, checked when called, so that names may come from configuration.
_Protocol = str
_Version = str

class RequestError(ValueError):
    """A request that cannot be served, and why.

    `status_code` is the HTTP status, `code` a stable word of `docs/errors.md`, `param` the JSON path of the field at
    fault (None for the body as a whole), `body` the protocol's own error JSON.
    """

    status_code: int
    code: str
    param: str | None
    body: bytes

def encode(
    body: _Body, protocol: _Protocol, *, options: Options | None = None, lookup: _Lookup | None = None
) -> Encoded:
    """Turns a request body into token ids. `protocol` is "chat_completions", "responses" or "messages".

    `lookup` finds what a Responses request goes on from, by the id of a response or of an item: a list of items (all
    that was said up to and including the response), a response with `output` and, if kept, `input` and
    `previous_response_id` (which is looked up in turn), one item, or None if there is nothing. What it raises comes out
    of here as it is.

    Raises `RequestError` for a body that cannot be served, `TypeError` or `ValueError` for a wrong argument.
    """

def encode_conversation(conversation: _Body, *, version: _Version, options: Options | None = None) -> Encoded:
    """Turns a conversation, in the form of `schemas/conversation.json`, into token ids of version "v4" or "v4.1".

    Raises `RequestError`.
    """

def count_tokens(
    body: _Body, protocol: _Protocol, *, options: Options | None = None, lookup: _Lookup | None = None
) -> int:
    """Number of tokens of a request's prompt. Raises `RequestError`."""

def eos_token_id(name: _Version) -> int:
    """Id of the token that ends a turn of the model."""

def error_body(protocol: _Protocol, *, status: int, code: str, message: str, param: str | None = None) -> bytes:
    """The protocol's own envelope of an error that a server around the codec found."""

def explain(
    body: _Body, protocol: _Protocol, *, options: Options | None = None, lookup: _Lookup | None = None
) -> list[Span]:
    """Tells which field of the request each token of its prompt comes from: spans without gaps, in order.

    A token of several fields counts to the first of them. `lookup` is that of `encode`; what it finds counts to the
    field that names it. Raises `RequestError`.
    """

def diff(
    first: _Body,
    second: _Body,
    protocol: _Protocol,
    *,
    options: Options | None = None,
    lookup: _Lookup | None = None,
) -> Difference:
    """Tells where the prompts of two requests part; `str()` of the result is a sentence. `lookup` is that of `encode`.

    Raises `RequestError`.
    """

def diff_sequence(
    requests: Sequence[_Body], protocol: _Protocol, *, options: Options | None = None, lookup: _Lookup | None = None
) -> list[Turn]:
    """Tells how much of each prompt of a sequence a cache of all earlier ones would have held.

    `lookup` is that of `encode`. Raises `RequestError`.
    """

@final
class Span:
    """Tokens in a row that come from one field of a request."""

    @property
    def start(self) -> int:
        """The first token."""

    @property
    def end(self) -> int:
        """The token after the last."""

    @property
    def path(self) -> str | None:
        """JSON path of the field in the request body; None for the format itself."""

    @property
    def text(self) -> str:
        """Text of the tokens. A character that several tokens share belongs to the first of them."""

@final
class Difference:
    """Where the prompts of two requests part."""

    @property
    def shared(self) -> int:
        """Number of tokens that both begin with."""

    @property
    def first_tokens(self) -> int: ...
    @property
    def second_tokens(self) -> int: ...
    @property
    def first_share(self) -> float:
        """What part of the first prompt is shared, from 0 to 1."""

    @property
    def second_share(self) -> float: ...
    @property
    def first(self) -> Part | None:
        """The first token of the first prompt that differs; None if the prompt ends before."""

    @property
    def second(self) -> Part | None: ...
    @property
    def path(self) -> str | None:
        """The field at which the prompts part, on whichever side there is one."""

@final
class Part:
    """The first token of a prompt that differs from another's."""

    @property
    def token_id(self) -> int: ...
    @property
    def path(self) -> str | None:
        """JSON path of its field; None for the format itself."""

    @property
    def text(self) -> str:
        """Text from the token on, as far as the field goes, shortened."""

@final
class Turn:
    """One request of a sequence, against those before it."""

    @property
    def tokens(self) -> int: ...
    @property
    def shared(self) -> int:
        """Number of tokens that a cache of all earlier prompts would have held."""

    @property
    def share(self) -> float:
        """What part of the prompt that is, from 0 to 1."""

    @property
    def earlier(self) -> int | None:
        """Which earlier request has the longest beginning in common with it; None for the first."""

    @property
    def difference(self) -> Difference | None:
        """Where it parts from that request."""

@final
class Options:
    """Settings of the codec: made once, used for any number of requests.

    `models` maps served names to prompt versions. `missing_reasoning` says what becomes of assistant messages without
    reasoning ("fill" or "reject"), `*_web_search` of tools that only a server could run ("drop" or "reject").
    `max_tokens_bounds` are the highest `max_tokens` with thinking on and off (393216 both). `special_tokens` respells
    control tokens by name (`{"image": "<｜image｜>"}`), `tokenizers` replaces the embedded tokenizers by version.
    `required_choice_while_thinking` says whether a call may be required of a model that thinks ("constrain": it thinks
    freely, the answer after it is constrained; "reject": refused, as the model's own service does). `show_tool_errors`
    shows the model `is_error` of tool results, `show_text_documents` the text of plain-text documents (both Messages).
    `history_key`, a secret of at least 16 bytes, switches token-faithful history on (`docs/history.md`).
    `threads` is how many threads a prompt of more than 64 KiB may use, the caller's among them; the others stay and are
    shared by all requests. `range_cache_bytes` keeps the ids of texts between control tokens, up to so many bytes for
    each version, for requests that send them again; 0 keeps none.
    """

    def __new__(
        cls,
        *,
        models: Mapping[str, _Version] | None = None,
        default_thinking: bool = True,
        missing_reasoning: Literal["fill", "reject"] = "fill",
        responses_web_search: Literal["drop", "reject"] = "drop",
        messages_web_search: Literal["drop", "reject"] = "drop",
        max_tokens_bounds: tuple[int, int] = ...,
        special_tokens: Mapping[str, str] | None = None,
        tokenizers: Mapping[str, Tokenizer] | None = None,
        required_choice_while_thinking: Literal["constrain", "reject"] = "constrain",
        show_tool_errors: bool = False,
        show_text_documents: bool = False,
        history_key: bytes | None = None,
        threads: int = 1,
        range_cache_bytes: int = 0,
    ) -> Options: ...
    def with_models(self, models: Mapping[str, _Version]) -> Options:
        """The same options for other names of models. Range caches are shared."""

    @property
    def range_cache(self) -> dict[str, int]:
        """Of the range caches: `hits`, `misses`, `hit_bytes`, `missed_bytes`, `held_bytes`, `bound`."""

@final
class Encoded:
    """A request in the model's own terms."""

    @property
    def token_ids(self) -> TokenIds: ...
    @property
    def prompt(self) -> str: ...
    @property
    def special_ranges(self) -> list[tuple[int, int]]:
        """Where the control tokens stand in `prompt`, in code points: start and end of each."""

    @property
    def images(self) -> list[Image]: ...
    @property
    def image_token_id(self) -> int | None:
        """The id that stands in the prompt once for each image; None if the vocabulary has none."""

    @property
    def protocol(self) -> Literal["chat_completions", "responses", "messages"] | None: ...
    @property
    def model(self) -> str: ...
    @property
    def model_version(self) -> Literal["v4", "v4.1"]: ...
    @property
    def thinking(self) -> bool: ...
    @property
    def thinking_budget(self) -> int | None:
        """Most tokens of reasoning, if the model thinks and the request says."""

    @property
    def stream(self) -> bool: ...
    @property
    def include_usage(self) -> bool | None: ...
    @property
    def choices(self) -> int: ...
    @property
    def sampling(self) -> Sampling: ...
    @property
    def constraint(self) -> Constraint | None: ...
    @property
    def grammar(self) -> Grammar | None:
        """What an engine enforces while the model writes; None if any answer will do. Made when it is first asked for.

        Raises `RequestError` for a strict schema, a response format, a regular expression or a grammar that cannot be
        enforced exactly.
        """

    @property
    def parsing(self) -> Parsing: ...
    @property
    def echo(self) -> str | None:
        """Responses: the request's settings that the answer repeats, as JSON text."""

    @property
    def custom_tools(self) -> list[str]: ...
    @property
    def namespace_tools(self) -> dict[str, tuple[str, str]]:
        """Name of a tool in the prompt → its namespace and its name there."""

    @property
    def warnings(self) -> list[str]:
        """What was left out of the request because the model has no use for it."""

    def resolve_max_tokens(self, context_length: int, prompt_tokens: int | None = None) -> int:
        """Most tokens to generate.

        Raises `RequestError` (`context_length_exceeded`) where prompt and answer do not fit.
        """

    def decoder(
        self, *, id: str, created: int, seed: bytes, signature: str | None = None, model: str | None = None
    ) -> Decoder:
        """The decoder of the answer to this request. `model` is the name it reports, if not the request's own."""

@final
class TokenIds:
    """Ids of a prompt: a read-only buffer of uint32 (`memoryview(ids)`, `numpy.asarray(ids)`), and a sequence."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def tolist(self) -> list[int]: ...

@final
class Sampling:
    """Sampling settings of a request, as the model's service would use them."""

    @property
    def max_tokens(self) -> int | None: ...
    @property
    def temperature(self) -> float: ...
    @property
    def top_p(self) -> float: ...
    @property
    def top_k(self) -> int | None: ...
    @property
    def frequency_penalty(self) -> float: ...
    @property
    def presence_penalty(self) -> float: ...
    @property
    def logit_bias(self) -> dict[int, float]: ...
    @property
    def seed(self) -> int | None: ...
    @property
    def logprobs(self) -> bool: ...
    @property
    def top_logprobs(self) -> int | None: ...

@final
class Constraint:
    """What an answer must match."""

    @property
    def kind(self) -> Literal["tool_call", "tool_call_required", "json", "regex", "grammar", "choice"]: ...
    @property
    def text(self) -> str | None:
        """Declarations of the tools (JSON), schema of the JSON, regular expression or grammar; None for a choice."""

    @property
    def allowed_tools(self) -> list[str] | None:
        """Names of the tools that may be called; None for all of them."""

    @property
    def single_call(self) -> bool:
        """Whether there may be one call at most."""

    @property
    def after_thinking(self) -> bool:
        """Whether the constraint holds only once the model has stopped thinking."""

@final
class Grammar:
    """What an engine enforces while the model writes."""

    @property
    def text(self) -> str:
        """The grammar, in llguidance's dialect of Lark; the answer ends where it ends. Control tokens are `<[id]>`."""

    @property
    def start_after(self) -> int | None:
        """Id of the mark that ends the thinking: until it was written anything goes. None: from the first token."""

    @property
    def trigger(self) -> int | None:
        """Id of the mark that wakes the grammar, which describes what follows it. None: it is awake at once."""

    @property
    def binding(self) -> bool:
        """Whether an answer that the grammar did not see to its end breaks the request."""

@final
class Image:
    """Source of an image of the prompt."""

    @property
    def kind(self) -> Literal["url", "base64"]: ...
    @property
    def data(self) -> str: ...
    @property
    def media_type(self) -> str | None: ...
    @property
    def detail(self) -> Literal["low", "high", "original", "auto"]: ...
    @property
    def path(self) -> str: ...

_Stage = Literal["content", "reasoning_start", "reasoning_continuation", "content_continuation"]

@final
class Parsing:
    """How an answer is to be read. Made by `encode`, or by hand for a bare decoder.

    `declared_tools` None means that the tools are not known, and every name counts as declared. `quoted_calls` says
    what a block of calls inside a closed code fence is: "text" or "calls".
    """

    def __new__(
        cls,
        *,
        initial_stage: _Stage = "content",
        parse_tool_calls: bool = False,
        starts_in_tool_calls: bool = False,
        parse_json_output: bool = False,
        stop_sequences: Sequence[str] = ...,
        declared_tools: Sequence[str] | None = None,
        top_logprobs: int | None = None,
        quoted_calls: Literal["text", "calls"] = "text",
    ) -> Parsing: ...
    @property
    def initial_stage(self) -> _Stage: ...
    @property
    def parse_tool_calls(self) -> bool: ...
    @property
    def starts_in_tool_calls(self) -> bool: ...
    @property
    def parse_json_output(self) -> bool: ...
    @property
    def stop_sequences(self) -> list[str]: ...
    @property
    def declared_tools(self) -> list[str] | None: ...
    @property
    def top_logprobs(self) -> int | None: ...

@final
class Tokenizer:
    """Text ↔ ids, exactly as the model's own tokenizer. `Tokenizer(data)` reads the text of a `tokenizer.json`."""

    def __new__(cls, tokenizer_json: bytes) -> Tokenizer: ...
    @staticmethod
    def built_in(name: _Version) -> Tokenizer:
        """The embedded tokenizer of a version."""

    def encode(self, text: str, *, special: bool = False, threads: int = 1) -> list[int]:
        """Ids of `text`; with `special`, spelled control tokens become control ids. `threads` as in `Options`."""

    def encode_to_buffer(self, text: str, *, special: bool = False, threads: int = 1) -> TokenIds:
        """The same as a buffer of 32-bit ids, without an object for each."""

    def decode(self, ids: Buffer | Sequence[int]) -> str:
        """Text of `ids`; bytes that are not UTF-8 become U+FFFD. Raises `ValueError` for an unknown id."""

    def decode_bytes(self, ids: Buffer | Sequence[int]) -> bytes:
        """Bytes of `ids`. Raises `ValueError` for an unknown id."""

    def special_id(self, spelling: str) -> int | None:
        """Id of the control token spelled so, or None."""

    @property
    def vocabulary_size(self) -> int: ...

_Logprob = tuple[float, Sequence[tuple[int, float]]]

@final
class Decoder:
    """Decodes one answer: every call returns the bytes that are ready to be sent, empty where there are none.

    `tools` are the names of the declared tools (None: as `parsing` says), `seed` is what call ids are made from (equal
    seeds give equal ids), `echo` is JSON text of the request settings that a Responses answer repeats, `tokenizer` a
    version's name or a `Tokenizer`, `special_tokens` and `history_key` are as in `Options`.
    """

    def __new__(
        cls,
        protocol: _Protocol,
        parsing: Parsing,
        *,
        id: str,
        model: str,
        created: int,
        seed: bytes,
        thinking: bool = True,
        tools: Sequence[str] | None = None,
        custom_tools: Sequence[str] = ...,
        namespace_tools: Mapping[str, tuple[str, str]] = ...,
        echo: str | None = None,
        include_usage: bool = True,
        choices: int = 1,
        top_logprobs: int | None = None,
        signature: str | None = None,
        tokenizer: _Version | Tokenizer | None = None,
        special_tokens: Mapping[str, str] | None = None,
        history_key: bytes | None = None,
    ) -> Decoder: ...
    def start(self, *, prompt_tokens: int = 0, cached_tokens: int = 0, fingerprint: str | None = None) -> bytes:
        """Starts the answer, once the backend knows the prompt's cost."""

    def set_cached_tokens(self, cached_tokens: int) -> None:
        """Sets how many of the prompt's tokens were found in a cache, where that is known only after the start."""

    def set_time(self, seconds: int) -> None:
        """Sets the time that closing events report, in seconds since 1970; the time of creation unless set."""

    def push(
        self, token_ids: Buffer | Sequence[int], logprobs: Sequence[_Logprob] | None = None, choice: int = 0
    ) -> bytes:
        """Takes tokens, with (logprob, [(id, logprob), …]) for each if asked for.

        Raises `RequestError` for an unknown id.
        """

    def push_text(self, text: str, token_count: int | None = None, choice: int = 0) -> bytes:
        """Takes text that stands for `token_count` tokens."""

    def finish(self, reason: str | None, choice: int = 0) -> bytes:
        """Ends a choice: "stop", "length", "content_filter", or None where the backend ended without a word."""

    def fail(self, error: str | Exception) -> bytes:
        """Ends the answer with an error."""

    def keep_alive(self) -> bytes:
        """Bytes that only keep the connection alive."""

    def response(self) -> bytes:
        """The body of the response that is not streamed: the fold of the same events."""

    def events(self) -> list[Event]:
        """Typed events of the latest `push`, `push_text` or `finish`."""

    def is_finished(self, choice: int = 0) -> bool:
        """Whether a choice has ended: by `finish`, or by a stop sequence."""

    @property
    def stop_sequence(self) -> str | None: ...
    @property
    def usage(self) -> tuple[int, int, int]:
        """Tokens of the prompt, of these from the cache, and of all answers so far."""

@disjoint_base
class Event:
    """One step of an answer; always an instance of one of the classes below."""

    @final
    class Reasoning(Event):
        __match_args__ = ("text",)
        def __new__(cls, text: str) -> Event.Reasoning: ...
        @property
        def text(self) -> str: ...

    @final
    class Text(Event):
        __match_args__ = ("text",)
        def __new__(cls, text: str) -> Event.Text: ...
        @property
        def text(self) -> str: ...

    @final
    class CallStart(Event):
        __match_args__ = ("index", "name")
        def __new__(cls, index: int, name: str) -> Event.CallStart: ...
        @property
        def index(self) -> int: ...
        @property
        def name(self) -> str: ...

    @final
    class CallArguments(Event):
        __match_args__ = ("index", "fragment")
        def __new__(cls, index: int, fragment: str) -> Event.CallArguments: ...
        @property
        def index(self) -> int: ...
        @property
        def fragment(self) -> str: ...

    @final
    class CallParameterDropped(Event):
        __match_args__ = ("index", "name", "value")
        def __new__(cls, index: int, name: str, value: str) -> Event.CallParameterDropped: ...
        @property
        def index(self) -> int: ...
        @property
        def name(self) -> str: ...
        @property
        def value(self) -> str: ...

    @final
    class CallEnd(Event):
        __match_args__ = ("index", "complete")
        def __new__(cls, index: int, complete: bool) -> Event.CallEnd: ...
        @property
        def index(self) -> int: ...
        @property
        def complete(self) -> bool: ...

    @final
    class Finish(Event):
        __match_args__ = ("reason", "stop_sequence")
        def __new__(cls, reason: str, stop_sequence: str | None) -> Event.Finish: ...
        @property
        def reason(self) -> str: ...
        @property
        def stop_sequence(self) -> str | None: ...
