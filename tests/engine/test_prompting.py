from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.errors import ModelError, PromptError
from engine.prompting import ChatFormat
from engine.protocol import Message, Role

CHATML = (
    "{{ bos_token }}{% for message in messages %}"
    "<|{{ message['role'] }}|>{{ message['content'] | trim }}{{ eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def user(text: str) -> Message:
    return Message(Role.USER, text)


def assistant(text: str) -> Message:
    return Message(Role.ASSISTANT, text)


def system(text: str) -> Message:
    return Message(Role.SYSTEM, text)


def write_model(folder: Path, template: object = CHATML, **files: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    settings: dict[str, object] = {
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "special": True},
        "added_tokens_decoder": {"1": {"content": "<s>"}, "2": {"content": "</s>"}},
    }
    if template is not None:
        settings["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


# --------------------------------------------------------------------------- the demo


def test_the_demo_prompt_shows_examples_and_waits_for_an_answer() -> None:
    chat = ChatFormat.load("demo")
    prompt = chat.render([user("  What is the capital of Italy? \n")])
    assert prompt.startswith("<bos>The following is a conversation")
    assert prompt.endswith("\n\nUser: What is the capital of Italy?\nAssistant:")
    assert prompt.count("\nUser: ") == prompt.count("\nAssistant:") == 5
    assert "```python\ndef add_up(numbers):\n    total = 0\n" in prompt
    assert chat.eos_token_ids == (1,)
    assert not chat.add_bos


@pytest.mark.parametrize(
    "reply", [" Rome.", "Rome.", "\nRain falls.\n", " ```python\nx = 1\n```", "", "\u00a0é"]
)
def test_a_later_demo_turn_only_appends(reply: str) -> None:
    chat = ChatFormat.load("demo")
    turns = [user("One?")]
    before = chat.render(turns)
    after = chat.render([*turns, assistant(reply), user("Two?")])
    generated = reply if not reply or reply[0] in " \n" else " " + reply
    assert after == before + generated + "\n\nUser: Two?\nAssistant:"


def test_a_demo_reply_stops_before_the_next_turn() -> None:
    chat = ChatFormat.load("demo")
    drifted = " Rome.\n\nUser: And of Spain?\nAssistant: Madrid."
    starts = [drifted.find(stop) for stop in chat.stop_strings if stop in drifted]
    assert drifted[: min(starts)] == " Rome."


def test_the_demo_takes_a_system_message() -> None:
    prompt = ChatFormat.load("demo").render([system("Answer in one word. "), user("Hi")])
    assert "precise assistant. Answer in one word.\n\nUser: Hello!" in prompt


def test_what_people_write_is_never_run_as_a_template() -> None:
    text = "{{ 7 * 7 }} {% for x in range(9) %}{{ x }}{% endfor %} {# gone #} {{ ''.__class__.__mro__ }}"
    chat = ChatFormat.load("demo")
    assert f"User: {text}\nAssistant:" in chat.render([user(text)])
    assert f"Assistant: {text}\n\nUser: Go on" in chat.render([user("a"), assistant(text), user("Go on")])


# --------------------------------------------------------------------------- model folders


def test_a_model_brings_its_own_template(tmp_path: Path) -> None:
    chat = ChatFormat.load(write_model(tmp_path / "model", generation_config={"eos_token_id": [7, 9]}))
    text = chat.render([system("Be kind."), user(" Hi "), assistant("Hello"), user("Bye")])
    assert text == "<s><|system|>Be kind.</s><|user|>Hi</s><|assistant|>Hello</s><|user|>Bye</s><|assistant|>"
    assert chat.eos_token_ids == (7, 9, 2)
    assert not chat.add_bos
    assert chat.stop_strings == ()


def test_the_template_file_wins_and_named_templates_have_a_default(tmp_path: Path) -> None:
    named = [
        {"name": "tool_use", "template": "no"},
        {"name": "default", "template": "yes {{ messages[0].content }}"},
    ]
    folder = write_model(tmp_path / "model", named, config={"text_config": {"eos_token_id": 5}})
    assert ChatFormat.load(folder).render([user("x")]) == "yes x"
    assert ChatFormat.load(folder).eos_token_ids == (5, 2)
    (folder / "chat_template.jinja").write_text("file {{ messages[0].content }}é", encoding="utf-8")
    assert ChatFormat.load(folder).render([user("x")]) == "file xé"


def test_stop_strings_come_from_the_generation_settings(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "model", generation_config={"stop_strings": ["END"], "eos_token_id": 3})
    chat = ChatFormat.load(folder)
    assert (chat.stop_strings, chat.eos_token_ids) == (("END",), (3, 2))
    (folder / "chat_format.json").write_text('{"stop_strings": ["\\nQuestion:"]}', encoding="utf-8")
    assert ChatFormat.load(folder).stop_strings == ("\nQuestion:",)


def test_a_template_without_system_turns_gets_it_in_the_first_message(tmp_path: Path) -> None:
    template = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        + CHATML
    )
    chat = ChatFormat.load(write_model(tmp_path / "model", template))
    assert chat.render([system("Be kind."), user("Hi")]) == "<s><|user|>Be kind.\n\nHi</s><|assistant|>"


def test_turns_of_one_role_are_joined(tmp_path: Path) -> None:
    chat = ChatFormat.load(write_model(tmp_path / "model"))
    assert chat.render([user("a"), user("b")]) == "<s><|user|>a\n\nb</s><|assistant|>"


def test_the_tags_and_filters_of_public_templates_work(tmp_path: Path) -> None:
    template = (
        "{% set ns = namespace(count=0) %}{% for m in messages %}{% if m.role == 'assistant' %}{% continue %}{% endif %}"
        "{% generation %}{{ m | tojson }}{% endgeneration %}{% set ns.count = ns.count + 1 %}{% endfor %}"
        "{{ ns.count }} {{ strftime_now('%Y') | length }}"
    )
    chat = ChatFormat.load(write_model(tmp_path / "model", template))
    assert chat.render([user("é"), assistant("b"), user("c")]) == (
        '{"role": "user", "content": "é"}{"role": "user", "content": "c"}2 4'
    )


@pytest.mark.parametrize("begun", ["Hello", " Hello", "Hello, I\n", "<think>so</think>Hello"])
def test_a_reply_is_written_on_where_it_ended(tmp_path: Path, begun: str) -> None:
    chat = ChatFormat.load(write_model(tmp_path / "model"))
    turns = [user("One?"), assistant("Two."), user("Hi")]
    assert chat.render([*turns, assistant(begun)]) == chat.render(turns) + begun.lstrip()
    joined = "" if begun[0] == " " else " "
    demo = ChatFormat.load("demo")
    assert demo.render([*turns, assistant(begun)]) == demo.render(turns) + joined + begun


def test_a_thought_that_the_template_leaves_out_is_written_on(tmp_path: Path) -> None:
    template = CHATML.replace("| trim", "| replace('<think>a</think>', '') | trim")
    chat = ChatFormat.load(write_model(tmp_path / "model", template))
    assert chat.render([user("Hi"), assistant("<think>a</think>b")]).endswith("<|assistant|><think>a</think>b")


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    "template",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{{ namespace(__class__=1) }}",
        "{{ cycler.__init__.__globals__.os.popen('echo pwned').read() }}",
        "{{ raise_exception.__globals__['jinja2'] }}",
        "{{ 1 // 0 }}",
        "{{ missing.field }}",
        "{% for a in range(99999999) %}x{% endfor %}",
        "{{ raise_exception('roles must alternate') }}",
    ],
)
def test_hostile_or_failing_templates_raise_an_error_for_people(tmp_path: Path, template: str) -> None:
    chat = ChatFormat.load(write_model(tmp_path / "model", template))
    with pytest.raises(PromptError, match="The chat template of model") as caught:
        chat.render([system("s"), user("Hi")])
    assert caught.value.next_step


def test_a_broken_template_is_refused_at_loading(tmp_path: Path) -> None:
    with pytest.raises(PromptError, match="line 2"):
        ChatFormat.load(write_model(tmp_path / "model", "{{ bos_token }}\n{% for %}"))


@pytest.mark.parametrize("messages", [[], [system("only")], [assistant("b")]])
def test_there_must_be_something_to_answer(messages: list[Message]) -> None:
    with pytest.raises(PromptError, match="no user message"):
        ChatFormat.load("demo").render(messages)


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"tokenizer_config\.json is missing"):
        ChatFormat.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelError, match=r"tokenizer_config\.json cannot be read"):
        ChatFormat.load(tmp_path)
