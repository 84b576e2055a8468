"""Script files: what they choose, and what they say about mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

import deepinfer.demo
import deepseek_recipe as recipe
from deepinfer.backends.scripted import Script
from deepinfer.core import FinishReason, Request, SamplingParams
from deepinfer.errors import EngineError
from deepinfer.launch import build_engine
from deepinfer.offline.script_file import RuleBook, ScriptFileError, last_part, load_script_file
from deepinfer.settings import ServeSettings

VERSION: Final = "v4.1"


def load(path: Path, text: str) -> RuleBook:
    file = path / "rules.toml"
    file.write_text(text, encoding="utf-8")
    return load_script_file(file, recipe_version=VERSION)


def choose(rules: RuleBook, prompt: str) -> Script:
    token_ids = recipe.Tokenizer.built_in(VERSION).encode(prompt, special=True)
    return rules.choose(Request(request_id="r", token_ids=token_ids, sampling=SamplingParams(max_tokens=1)))


def text_of(script: Script) -> str:
    return recipe.Tokenizer.built_in(VERSION).decode(script.token_ids)


def test_the_first_rule_that_matches_answers(tmp_path: Path) -> None:
    rules = load(
        tmp_path,
        """
        [[rule]]
        match = "wea.her"
        output = "sun"
        [[rule]]
        match = "weather|time"
        output = "noon"
        tokens_per_step = 3
        delay_seconds = 0.5
        finish = "length"
        [[rule]]
        output = "else"
        """,
    )
    assert text_of(choose(rules, "the weather")).startswith("sun")
    timed = choose(rules, "the time")
    assert text_of(timed) == "noon"
    assert (timed.tokens_per_step, timed.delay_seconds, timed.finish_reason) == (3, 0.5, FinishReason.LENGTH)
    assert text_of(choose(rules, "hello")).startswith("else")


def test_an_answer_that_stops_ends_with_the_end_token(tmp_path: Path) -> None:
    rules = load(tmp_path, '[[rule]]\noutput = "x"')
    assert choose(rules, "hello").token_ids[-1] == recipe.eos_token_id(VERSION)


def test_control_spellings_become_control_tokens(tmp_path: Path) -> None:
    rules = load(tmp_path, '[[rule]]\noutput = "thought</think>answer"')
    (close,) = recipe.Tokenizer.built_in(VERSION).encode("</think>", special=True)
    assert close in choose(rules, "hello").token_ids


def test_texts_of_a_list_have_tokens_of_their_own(tmp_path: Path) -> None:
    tokenizer = recipe.Tokenizer.built_in(VERSION)
    script = choose(load(tmp_path, '[[rule]]\noutput = ["Unbel", "ievable!"]'), "hello")
    end = recipe.eos_token_id(VERSION)
    assert list(script.token_ids) == [*tokenizer.encode("Unbel"), *tokenizer.encode("ievable!"), end]
    assert list(script.token_ids) != [*tokenizer.encode("Unbelievable!"), end]


def test_a_rule_sees_the_last_part_only_unless_it_asks_for_all(tmp_path: Path) -> None:
    prompt = "<｜User｜>weather<｜Assistant｜>sun<｜User｜>thanks<｜Assistant｜>"
    last = load(tmp_path, '[[rule]]\nmatch = "weather"\noutput = "a"\n[[rule]]\noutput = "b"')
    assert text_of(choose(last, prompt)).startswith("b")
    whole = load(tmp_path, '[[rule]]\nmatch = "weather"\nin = "whole"\noutput = "a"\n[[rule]]\noutput = "b"')
    assert text_of(choose(whole, prompt)).startswith("a")
    assert "thanks" in last_part(prompt) and "weather" not in last_part(prompt)


def test_a_prompt_that_no_rule_matches_is_the_clients_fault(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no rule") as caught:
        choose(load(tmp_path, '[[rule]]\nmatch = "x"\noutput = "y"'), "hello")
    assert caught.value.client_fault


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]", "not valid TOML"),
        ("", "there is no rule"),
        ("rule = 3", "there is no rule"),
        ("rule = [3]", "rule 1: must be a"),
        ("other = 1\n[[rule]]\noutput = 'x'", "unknown entry 'other'"),
        ("kept_sequences = -1\n[[rule]]\noutput = 'x'", "kept_sequences is -1; it must be a whole number, at least 0"),
        ("kept_sequences = true\n[[rule]]\noutput = 'x'", "kept_sequences is True"),
        ("[[rule]]\nmatch = 'x'", "rule 1: output is missing"),
        ("[[rule]]\noutput = 3", "rule 1: output is 3; it must be a string"),
        ("[[rule]]\noutput = ['x', 3]", "rule 1: output[1] is 3; it must be a string"),
        ("[[rule]]\noutput = []\nfinish = 'length'", "rule 1: output is empty"),
        ("[[rule]]\noutput = 'x'\nmatsch = 'y'", "rule 1: matsch is not a known field"),
        ("[[rule]]\noutput = 'x'\nmatch = '('", "rule 1: match is not a valid regular expression"),
        ("[[rule]]\noutput = 'x'\nin = 'first'", "rule 1: in is 'first'; it must be one of last, whole"),
        ("[[rule]]\noutput = 'x'\nfinish = 'abort'", "rule 1: finish is 'abort'"),
        ("[[rule]]\noutput = 'x'\ntokens_per_step = 0", "rule 1: tokens_per_step is 0; it must be a whole number"),
        ("[[rule]]\noutput = 'x'\ntokens_per_step = 1.5", "rule 1: tokens_per_step is 1.5"),
        ("[[rule]]\noutput = 'x'\ntokens_per_step = true", "rule 1: tokens_per_step is True"),
        ("[[rule]]\noutput = 'x'\ndelay_seconds = -1", "rule 1: delay_seconds is -1; it must be a number"),
        ("[[rule]]\noutput = 'x'\ndelay_seconds = nan", "rule 1: delay_seconds is nan"),
        ("[[rule]]\noutput = ''\nfinish = 'length'", "rule 1: output is empty"),
        ("[[rule]]\noutput = 'x'\n[[rule]]\noutput = 'y'", "rule 1: match is missing"),
    ],
)
def test_a_mistake_names_file_rule_and_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ScriptFileError) as caught:
        load(tmp_path, text)
    assert words in str(caught.value)
    assert str(tmp_path / "rules.toml") in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScriptFileError, match=r"nowhere\.toml"):
        load_script_file(tmp_path / "nowhere.toml", recipe_version=VERSION)


@pytest.mark.parametrize(
    ("entry", "place", "cached"),
    [("", 36, 2), ("", 35, 0), ("kept_sequences = 0", 99, 0), ("kept_sequences = 900", 0, 2)],
)
async def test_as_many_sequences_are_kept_as_the_file_says(tmp_path: Path, entry: str, place: int, cached: int) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(f"{entry}\n[[rule]]\noutput = 'x'", encoding="utf-8")
    engine = build_engine(ServeSettings(engine="scripted", script=str(file)))
    await engine.start()
    # All prompts but the last differ from the first id on.
    for first_id in (*range(100), place):
        request = Request(request_id="r", token_ids=[first_id, 5, 6], sampling=SamplingParams(max_tokens=1))
        found = [output.cached_tokens async for output in engine.submit(request)]
    assert found == [cached]


def test_the_shipped_example_loads() -> None:
    example = Path(deepinfer.demo.__file__).with_name("weather.toml")
    rules = load_script_file(example, recipe_version=VERSION)
    assert "get_weather" in text_of(choose(rules, "How is the weather?"))
