"""Threads that help with long texts: in the child of a fork, among many callers, and when the process ends."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

import deepseek_recipe as recipe

TEXT = "def main():\n    return 12  # 深度求索，模型。 The quick brown fox\n" * 6000
TASKS = pathlib.Path("/proc/self/task")

needs_tasks = pytest.mark.skipif(not TASKS.exists(), reason="counts threads as Linux lists them")


def exit_code(child: int, seconds: float = 30) -> int:
    """How a child ended, which is killed when it does not."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the child hangs")


def helpers_of_two() -> bool:
    """Whether this process comes to have two helpers; a thread that was just started may be without its name."""
    for _ in range(100):
        if [path.read_text() for path in TASKS.glob("*/comm")].count("recipe\n") == 2:
            return True
        time.sleep(0.01)
    return False


def run(program: str) -> list[str]:
    """Words that a program of its own prints, which is to end well."""
    command = [sys.executable, "-c", f"text = {TEXT[:64]!r} * 6000\n" + program]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_encodes_with_threads_of_its_own() -> None:
    tokenizer = recipe.Tokenizer.built_in("v4")
    expected = tokenizer.encode(TEXT)
    assert tokenizer.encode(TEXT, threads=2) == expected
    for _ in range(5):
        child = os.fork()
        if child == 0:
            same = all(tokenizer.encode(TEXT, threads=threads) == expected for threads in (2, 3))
            os._exit(0 if same and (helpers_of_two() or not TASKS.exists()) else 1)
        assert tokenizer.encode(TEXT, threads=2) == expected
        assert exit_code(child) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_while_other_threads_encode_leaves_nothing_locked() -> None:
    program = """
import os, threading, deepseek_recipe as recipe
options = recipe.Options(range_cache_bytes=1 << 26, threads=2)
def body(turn):
    messages = [{"role": "user", "content": f"{turn} {part} {text[:150]}"} for part in range(100)]
    return {"model": "DeepSeek-V4-Pro", "messages": messages}
bodies = [body(turn) for turn in range(50)]
def encode(body):
    return recipe.encode(body, "chat_completions", options=options).token_ids.tolist()
expected = encode(bodies[0])
def work():
    while True:
        for body in bodies:
            encode(body)
for _ in range(2):
    threading.Thread(target=work, daemon=True).start()
for _ in range(150):
    child = os.fork()
    if child == 0:
        os._exit(0 if encode(bodies[0]) == expected else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
os._exit(0)
"""
    assert run(program) == ["0"] * 150


@needs_tasks
def test_threads_are_started_for_long_texts_only_and_shared_by_all_callers() -> None:
    program = """
import pathlib, threading, time, deepseek_recipe as recipe
def count():
    time.sleep(0.1)
    return [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")].count("recipe\\n")
tokenizer = recipe.Tokenizer.built_in("v4")
tokenizer.encode(text[:40_000], threads=8)
tokenizer.encode(text, threads=1)
print(count())
work = lambda: [tokenizer.encode(text, threads=3) for _ in range(3)]
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
options = recipe.Options(threads=3)
body = {"model": "DeepSeek-V4.1-Flash", "messages": [{"role": "user", "content": text}]}
recipe.encode(body, "chat_completions", options=options)
print(count())
"""
    assert run(program) == ["0", "2"]


@pytest.mark.parametrize("daemon", [False, True], ids=["helpers asleep", "helpers at work"])
def test_the_process_ends_whatever_helpers_do(daemon: bool) -> None:
    program = """
import os, threading, time, deepseek_recipe as recipe
tokenizer = recipe.Tokenizer.built_in("v4")
def work():
    while True:
        tokenizer.encode_to_buffer(text, threads=3)
        os.write(1, b"encoded\\n")
        if not daemon:
            return
threads = [threading.Thread(target=work, daemon=daemon) for _ in range(3)]
[thread.start() for thread in threads]
time.sleep(0.3)
"""
    assert "encoded" in run(f"daemon = {daemon}\n" + program)


def test_many_callers_with_threads_get_the_ids_of_one() -> None:
    options = recipe.Options(threads=2, range_cache_bytes=1 << 20)
    messages = [{"role": "user", "content": TEXT[start : start + 3000]} for start in range(0, 150_000, 3000)]
    messages.append({"role": "user", "content": TEXT})
    body = {"model": "DeepSeek-V4-Pro", "messages": messages}
    expected = recipe.encode(body, "chat_completions").token_ids.tolist()
    found: list[bool] = []

    def work() -> None:
        for _ in range(3):
            found.append(recipe.encode(body, "chat_completions", options=options).token_ids.tolist() == expected)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 12
