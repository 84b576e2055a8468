"""Compiling grammars: what is refused and how, what hostile ones cost, and that control tokens stay out of texts."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from deepinfer.errors import EngineError
from deepinfer.structured import check as check_module
from deepinfer.structured import compiler as compiler_module
from deepinfer.structured.check import Checker
from deepinfer.structured.compiler import GrammarCompiler
from deepinfer.structured.guidance import Guidance
from deepinfer.structured.limits import MAX_TEXT_BYTES
from tests.structured.support import (
    END,
    MARK,
    OTHER,
    THINK_END,
    allowed,
    control,
    full_vocabulary,
    small_vocabulary,
    tokenizer,
)


@pytest.fixture(scope="module")
def compiler() -> Iterator[GrammarCompiler]:
    compiler = GrammarCompiler(small_vocabulary())
    compiler.warm()
    yield compiler
    compiler.close()


@pytest.fixture(scope="module")
def full() -> Guidance:
    return Guidance(full_vocabulary())


def schema(value: Any) -> str:
    return f"start: %json {json.dumps(value)}"


def nested(depth: int) -> Any:
    return {"type": "array", "items": nested(depth - 1)} if depth else {"type": "string"}


def chain(length: int) -> Any:
    """Each definition has a property that refers to the next one."""
    links = {
        f"d{place}": {"type": "object", "properties": {"next": {"$ref": f"#/$defs/d{place + 1}"}}}
        for place in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": {"type": "null"}}}


def fault_of(compiler: GrammarCompiler, text: str) -> EngineError | None:
    fault = compiler.compile(text).exception()
    assert fault is None or isinstance(fault, EngineError), fault
    return fault


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("start: foo", ("1(8)", "foo")),
        ('start: "a"\nother: (', ("2(", "Expected")),
        ("start: /(/", ("1(8)", "regex")),
        ("start: <other>", ("1(8)", "<other>")),
        (schema({"type": "strin"}), ("strin",)),
        (schema({"enum": []}), ("Unsatisfiable",)),
        (schema({"type": "integer", "minimum": 5, "maximum": 3}), ("minimum (5)", "maximum (3)")),
        (schema({"$ref": "http://example.com/schema"}), ("example.com",)),
        (schema({"not": {}}), ("not",)),
        ("", ("Empty",)),
        ('start: "\ud800"', ("surrogate",)),
    ],
)
def test_a_grammar_that_cannot_be_compiled_is_refused_with_why_and_where(
    compiler: GrammarCompiler, text: str, words: tuple[str, ...]
) -> None:
    fault = fault_of(compiler, text)
    assert fault is not None
    assert (fault.code, fault.client_fault) == ("invalid_grammar", True)
    assert all(word in str(fault) for word in words), fault
    assert len(str(fault)) < 600


@pytest.mark.parametrize(
    "text",
    [
        "start: " + "(" * 20_000 + '"a"' + ")" * 20_000,
        'start: r0\nr10000: "a"\n' + "\n".join(f"r{n}: r{n + 1} r{n + 1}" for n in range(10_000)),
        'start: R0\nR5000: "a"\n' + "\n".join(f'R{n}: "a" R{n + 1}' for n in range(5_000)),
        schema(chain(2_500)),
        "start: %json " + '{"type":"array","items":' * 5_000 + "{}" + "}" * 5_000,
        'start: "' + "a" * MAX_TEXT_BYTES + '"',
        schema(
            {
                "allOf": [
                    {"anyOf": [{"properties": {f"p{n}{m}": {"type": "string"}}} for m in range(8)]} for n in range(8)
                ]
            }
        ),
    ],
    ids=["parentheses", "rules", "terminals", "references", "schemas", "length", "product"],
)
def test_a_grammar_beyond_a_limit_is_refused(compiler: GrammarCompiler, text: str) -> None:
    fault = fault_of(compiler, text)
    assert fault is not None
    assert (fault.code, fault.client_fault) == ("grammar_too_complex", True), fault
    # And what comes next is served.
    assert fault_of(compiler, f'start: "after {len(text)}"') is None


@pytest.mark.parametrize(
    "text",
    [
        "start: X\nX: " + " & ".join(f"/.*{letter}.*/" for letter in "abcdefghijklmnopqrst"),
        "start: /" + "(a|b)?" * 500 + "/",
    ],
    ids=["conjunctions", "options"],
)
def test_a_lexer_beyond_a_limit_is_refused(full: Guidance, text: str) -> None:
    """What the words of a whole vocabulary make of it."""
    with pytest.raises(EngineError) as refusal:
        full.compile(text)
    assert refusal.value.code == "grammar_too_complex", refusal.value


@pytest.mark.parametrize(
    "text",
    [
        schema({"enum": [f"value number {number} of many" for number in range(5_000)]}),
        schema(chain(50)),
        schema(nested(50)),
        schema(
            {
                "$ref": "#/$defs/tree",
                "$defs": {
                    "tree": {
                        "type": "object",
                        "properties": {"left": {"$ref": "#/$defs/tree"}, "right": {"$ref": "#/$defs/tree"}},
                    }
                },
            }
        ),
        r"start: /(a{1,1000}){1,1000}/",
        r"start: /(.*a){30}/",
        r"start: /(a|aa)*b.{200}/",
        r"start: /((a+)+)+b/",
        'start: start start | "a"',
        'start: a{1000}\na: b{1000}\nb: c{1000}\nc: "x" | "y"',
        schema({"type": "array", "minItems": 100_000, "items": {"type": "integer"}}),
        schema({"type": "string", "maxLength": 1_000_000}),
    ],
    ids=[
        "5000-names",
        "references",
        "nesting",
        "recursion",
        "counts-of-counts",
        "stars",
        "ambiguity",
        "catastrophe",
        "left-recursion",
        "powers",
        "items",
        "characters",
    ],
)
def test_large_and_twisted_grammars_are_served(compiler: GrammarCompiler, text: str) -> None:
    assert fault_of(compiler, text) is None


@pytest.mark.parametrize(
    "text",
    ["start: X\nX: /ab/ & /ac/", schema({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}), "start: start"],
)
def test_a_grammar_that_nothing_matches_is_refused(compiler: GrammarCompiler, text: str) -> None:
    fault = fault_of(compiler, text)
    assert fault is not None
    assert (fault.code, fault.client_fault) == ("grammar_dead_end", True)


def test_a_grammar_that_takes_too_long_is_refused() -> None:
    compiler = GrammarCompiler(small_vocabulary(), check_seconds=0.02)
    try:
        names = {f"field_{number}": {"type": "string"} for number in range(1_000)}
        fault = fault_of(compiler, schema({"type": "object", "properties": names}))
        assert fault is not None and fault.code == "grammar_too_complex"
        assert "longer than 0.02 s" in str(fault)
    finally:
        compiler.close()


def test_a_check_that_computes_for_too_long_is_ended_by_the_system() -> None:
    """Far before the limit on waiting."""
    compiler = GrammarCompiler(small_vocabulary(), check_seconds=60)
    try:
        fault = fault_of(compiler, "start: /" + "(a|b)?" * 30_000 + "/")
        assert fault is not None and fault.code == "grammar_too_complex"
        assert "more than 2 s of processor time" in str(fault)
    finally:
        compiler.close()


def test_a_checking_process_that_was_killed_is_replaced(compiler: GrammarCompiler) -> None:
    for checker in compiler._checkers:
        assert checker._process is not None
        checker._process.kill()
        checker._process.wait()
    assert fault_of(compiler, 'start: "after the kill"') is None


def test_a_machine_that_starts_no_process_fails_the_request_only(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(small_vocabulary())
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    fault = fault_of(compiler, 'start: "a"')
    assert fault is not None
    assert (fault.code, fault.client_fault) == ("grammar_failed", False)
    monkeypatch.undo()
    assert fault_of(compiler, 'start: "a"') is None
    compiler.close()


@pytest.mark.parametrize("moment", ["before there is a checker", "before its process", "while it checks"])
def test_a_compiler_that_is_closed_leaves_no_process(moment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reached, go_on, processes = threading.Event(), threading.Event(), list[subprocess.Popen[bytes]]()
    compiler = GrammarCompiler(small_vocabulary(), check_seconds=60)
    new_checker, running, ask = compiler._new_checker, Checker._running, check_module._ask

    def wait() -> None:
        reached.set()
        assert go_on.wait(20)

    def late() -> Checker:
        wait()
        return new_checker()

    def watched(checker: Checker) -> subprocess.Popen[bytes]:
        if moment == "before its process":
            wait()
        processes.append(process := running(checker))
        return process

    def asking(process: subprocess.Popen[bytes], text: str) -> bytes | None:
        reached.set()
        return ask(process, text)

    if moment == "before there is a checker":
        monkeypatch.setattr(compiler, "_new_checker", late)
    monkeypatch.setattr(Checker, "_running", watched)
    monkeypatch.setattr(check_module, "_ask", asking)
    compiled = compiler.compile("start: /" + "(a|b)?" * 30_000 + "/")
    assert reached.wait(20)
    compiler.close()
    go_on.set()
    fault = compiled.exception(20)
    assert isinstance(fault, EngineError) and fault.code == "engine_stopped"
    assert len(processes) == (moment == "while it checks")
    assert all(process.returncode is not None for process in processes)


def test_grammars_are_kept_by_content(compiler: GrammarCompiler) -> None:
    first = compiler.compile('start: "kept"')
    assert compiler.compile('start: "kept"') is first
    refused = compiler.compile("start: unknown")
    assert refused.exception() is not None
    assert compiler.compile("start: unknown") is refused
    assert compiler.compile('start: "other"') is not first


def test_the_cache_is_bounded(compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_module, "_CACHED", 2)
    first = compiler.compile('start: "1"')
    compiler.compile('start: "2"')
    assert compiler.compile('start: "1"') is first
    compiler.compile('start: "3"')
    assert compiler.compile('start: "1"') is first, "the one that was used last stays"
    compiler.compile('start: "4"')
    compiler.compile('start: "5"')
    again = compiler.compile('start: "1"')
    assert again is not first
    assert again.exception() is None


def test_a_grammar_that_waits_too_long_is_told_to_come_back(
    compiler: GrammarCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(compiler_module, "_QUEUE_SECONDS", -1.0)
        fault = fault_of(compiler, 'start: "late"')
        assert fault is not None
        assert (fault.code, fault.client_fault) == ("engine_overloaded", False)
    assert fault_of(compiler, 'start: "late"') is None, "a refusal that says nothing of the grammar is not kept"


def test_answers_from_one_grammar_do_not_see_each_other(compiler: GrammarCompiler) -> None:
    grammar = compiler.compile('start: "ab" | "ac"').result()
    one, other = grammar.matcher(), grammar.matcher()
    one.accept(ord("a"))
    assert allowed(one) == {ord("b"), ord("c")}
    assert allowed(other) == allowed(grammar.matcher()) == {ord("a")}


def test_a_place_where_nothing_may_follow_is_a_dead_end(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile('start: "a" X\nX: /bc/ & /bd/').result().matcher()
    matcher.accept(ord("a"))
    with pytest.raises(EngineError, match="nothing may follow") as failure:
        allowed(matcher)
    assert (failure.value.code, failure.value.client_fault) == ("grammar_dead_end", True)


@pytest.mark.parametrize(
    "text", ["start: /.*/", "start: /(.|\\n)*/", schema({"type": "string"}), schema({}), 'start: T\nT: ~"x"']
)
def test_control_tokens_are_barred_from_texts(compiler: GrammarCompiler, full: Guidance, text: str) -> None:
    """Among them the mark of tool calls, which the tokenizer does not flag."""
    matcher = compiler.compile(text).result().matcher()
    assert not (allowed(matcher) or set()) & {THINK_END, MARK, OTHER}
    matcher = full.compile(text).matcher()
    vocabulary = full_vocabulary()
    assert control("｜DSML｜") in vocabulary.control_ids
    for token_id in tokenizer().encode('"<'):
        found = allowed(matcher, len(vocabulary.token_bytes)) or set()
        assert len(found) > 1
        assert not found & (vocabulary.control_ids - {vocabulary.end_token_id})
        matcher.accept(token_id)


def test_a_control_token_is_open_where_the_grammar_asks_for_it(full: Guidance) -> None:
    mark, end = control("｜DSML｜"), full_vocabulary().end_token_id
    matcher = full.compile(f'start: "<" <[{mark}]> "x"').matcher()
    for token_id in (*tokenizer().encode("<"), mark, *tokenizer().encode("x"), end):
        assert allowed(matcher, len(full_vocabulary().token_bytes)) == {token_id}
        matcher.accept(token_id)


@pytest.mark.parametrize("asked", ["<[*]>", "<[^65]>", 'T\nT: ~"x"'])
def test_control_tokens_must_be_asked_for_by_id(compiler: GrammarCompiler, asked: str) -> None:
    matcher = compiler.compile(f"start: {asked}").result().matcher()
    found = allowed(matcher) or set()
    assert found and not found & {THINK_END, OTHER}
    with pytest.raises(EngineError, match="no place"):
        matcher.accept(OTHER)


def test_control_tokens_may_be_asked_for_by_range(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile("start: <[97,257-258]>").result().matcher()
    assert allowed(matcher) == {97, THINK_END, MARK}


def test_the_end_comes_only_where_the_grammar_ends(compiler: GrammarCompiler) -> None:
    matcher = compiler.compile('start: "a" "b"?').result().matcher()
    assert END not in (allowed(matcher) or set())
    with pytest.raises(EngineError, match="no place"):
        matcher.accept(END)


def test_text_without_choice_is_written_as_the_tokenizer_writes_it(full: Guidance) -> None:
    text = "The quick brown fox"
    matcher = full.compile(f'start: "{text}"').matcher()
    for token_id in tokenizer().encode(text):
        assert allowed(matcher, len(full_vocabulary().token_bytes)) == {token_id}
        matcher.accept(token_id)
