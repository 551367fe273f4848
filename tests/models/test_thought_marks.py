"""The marks of thoughts by chat templates: of the kinds of Qwen3, DeepSeek-R1, GPT-OSS and GLM."""

from pathlib import Path

import pytest

from equipoise.answer import answer_of, parse_answer
from equipoise.models.chat_encoding import Encoding
from equipoise.models.loading import load_encoding
from equipoise.types import Marks, Message, Move, user

QWEN3 = """
{%- for message in messages -%}
  {{- '<|im_start|>' + message.role + '\\n' -}}
  {%- if message.role == 'assistant' and loop.last -%}
    {{- '<think>\\n' + (message.reasoning_content or '') + '\\n</think>\\n\\n' -}}
  {%- endif -%}
  {{- message.content.split('</think>')[-1].lstrip('\\n') + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant\\n' -}}
  {%- if enable_thinking is defined and enable_thinking is false -%}
    {{- '<think>\\n\\n</think>\\n\\n' -}}
  {%- endif -%}
{%- endif -%}
"""
DEEPSEEK_R1 = """
{%- for message in messages -%}
  {%- if message.role == 'assistant' -%}
    {{- '<|im_start|>assistant' + message.content.split('</think>')[-1] + '<|im_end|>' -}}
  {%- else -%}
    {{- '<|im_start|>' + message.role + message.content -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant<think>\\n' -}}{%- endif -%}
"""
GPT_OSS = """
{%- for message in messages -%}
  {%- if message.role == 'assistant' and message.thinking is defined and loop.last -%}
    {{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' -}}
  {%- endif -%}
  {%- if message.role == 'assistant' -%}
    {{- '<|start|>assistant<|channel|>final<|message|>' + message.content -}}
    {{- '<|return|>' if loop.last else '<|end|>' -}}
  {%- else -%}
    {{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|start|>assistant' -}}{%- endif -%}
"""
GLM = """
{%- for message in messages -%}
  {%- if message.role == 'assistant' -%}
    {{- '<|im_start|>assistant' -}}
    {%- if message.reasoning_content is string -%}
      {{- '\\n<think>' + message.reasoning_content.strip() + '</think>' -}}
    {%- else -%}
      {{- '\\n<think></think>' -}}
    {%- endif -%}
    {{- '\\n' + message.content.strip() -}}
  {%- else -%}
    {{- '<|im_start|>' + message.role + '\\n' + message.content -}}
    {{- '/nothink' if enable_thinking is defined and not enable_thinking else '' -}}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|im_start|>assistant' -}}
  {{- '\\n<think></think>' if enable_thinking is defined and not enable_thinking else '' -}}
{%- endif -%}
"""
MARKS = {
    "qwen3": (QWEN3, Marks("<think>\n", "\n</think>\n\n")),
    "deepseek_r1": (DEEPSEEK_R1, Marks("<think>", "\n</think>\n\n", opened=True)),
    "gpt_oss": (
        GPT_OSS,
        Marks(
            "<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"
        ),
    ),
    "glm": (GLM, Marks("\n<think>", "</think>\n")),
}
CHANNELS = ["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>"]


@pytest.fixture
def encoding_of(model_folder, tmp_path: Path):
    """encoding_of(template, options) -> the tiny Qwen3 model's tokenizer with that template."""

    def make(template: str, control: tuple[str, ...] = (), **options) -> Encoding:
        path = tmp_path / "template.jinja"
        path.write_text(template)
        folder = str(model_folder("qwen3"))
        tokenizer = load_encoding(folder, 200).tokenizer
        if control:
            tokenizer.add_special_tokens({"additional_special_tokens": list(control)})
        return Encoding(tokenizer, 200, path, options)

    return make


@pytest.mark.parametrize("name", MARKS)
def test_a_template_says_between_which_marks_its_model_thinks(encoding_of, name: str) -> None:
    template, marks = MARKS[name]
    assert encoding_of(template).marks == marks


@pytest.mark.parametrize("name", MARKS)
def test_what_is_sampled_in_them_is_parted(encoding_of, name: str) -> None:
    template, marks = MARKS[name]
    opening = "" if marks.opened else marks.opening
    move = Move(f"{opening}9? No.{marks.closing}It is 10.", marks=encoding_of(template).marks)
    assert answer_of(move).text == "It is 10."
    cut = Move(f"{opening}It may be 10", "length", marks=encoding_of(template).marks)
    assert answer_of(cut).unfinished


@pytest.mark.parametrize("name", ["qwen3", "glm"])
def test_a_model_that_is_kept_from_thinking_has_begun_no_thought(encoding_of, name: str) -> None:
    encoding = encoding_of(MARKS[name][0], enable_thinking=False)
    assert encoding.marks is not None
    assert not encoding.marks.opened
    assert answer_of(Move("It is 10.", marks=encoding.marks)).text == "It is 10."


def test_a_template_without_thoughts_has_no_marks(model_folder) -> None:
    assert load_encoding(str(model_folder("llama")), 200).marks is None


def test_marks_that_are_control_tokens_are_read_and_written(encoding_of) -> None:
    encoding = encoding_of(GPT_OSS, control=tuple(CHANNELS))
    assert encoding.marks is not None
    text = f"{encoding.marks.opening}nine{encoding.marks.closing}ten"
    ids = encoding.answer_ids(text)
    assert encoding.decode(ids) == text
    vocabulary = encoding.tokenizer.get_vocab()
    assert ids[0] == vocabulary["<|channel|>"]
    assert ids[-1] == vocabulary["<|return|>"]
    assert parse_answer(encoding.decode(ids), encoding.marks).text == "ten"
    # Control tokens that are no marks of thoughts stay ordinary text.
    assert vocabulary["<|im_end|>"] not in encoding.answer_ids("nine<|im_end|>ten")


def test_the_tokens_of_thoughts_are_counted_with_their_marks(encoding_of) -> None:
    encoding = encoding_of(QWEN3)
    thoughts, answer = "<think>\nnine? no\n</think>\n\n", "ten"
    ids = encoding.answer_ids(thoughts + answer)
    counted = encoding.thought_tokens(ids)
    assert encoding.decode(ids[:counted]) == thoughts
    assert encoding.decode(ids[counted:]) == answer
    assert encoding.thought_tokens(encoding.answer_ids("ten")) == 0
    cut = encoding.text_ids("<think>\nnine")
    assert encoding.thought_tokens(cut) == len(cut)


def test_a_template_that_drops_earlier_thoughts_reads_the_same_chat(encoding_of) -> None:
    encoding = encoding_of(QWEN3)
    whole = "<think>\nnine\n</think>\n\nten"
    again = (user("and now?"),)
    with_thoughts = (user("a"), Message("assistant", whole), *again)
    without = (user("a"), Message("assistant", "ten"), *again)
    assert encoding.prompt_ids(with_thoughts) == encoding.prompt_ids(without)


@pytest.mark.parametrize(
    ("name", "opening", "opened"),
    [
        ("qwen3", "<think>\n", False),
        ("qwen3_5_think", "<think>\n", True),
        ("deepseek_r1_distill", "<think>", True),
        ("gptoss", "<|channel|>analysis<|message|>", False),
        ("glm4moe", "\n<think>", False),
        ("gemma4", "<|channel>thought", False),
    ],
)
def test_released_templates(released_template, encoding_of, name, opening, opened) -> None:
    marks = encoding_of(released_template(name)).marks
    assert (marks.opening, marks.opened) == (opening, opened)
