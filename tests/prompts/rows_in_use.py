"""Small files as people have them, each with its right reading, written from the schemas' descriptions.

A case's `read` is the conversation (one text a message, its role's first letter in front), then the
answers as (text, chosen). `stops` is a word of the refusal, `left` a word of the reason of a row
that is counted as left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Case:
    """A file's rows, how it is read, and what is right."""

    name: str
    task: str
    rows: Any
    chat: tuple[str, ...] = ()
    answers: tuple[tuple[str, bool | None], ...] = ()
    scores: tuple[float | None, ...] | None = None
    stops: str | None = None
    left: str | None = None
    suffix: str = "jsonl"


def said(role: str, content: str, **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


PEAR = said("user", "Name a fruit.")
YES = said("assistant", "Pear i")
NO = said("assistant", "Brick j")
SHORT = said("system", "Be short.")
QUESTION = ("u:Name a fruit.",)
PAIR = (("Pear i", True), ("Brick j", False))

CASES = [
    # Other spellings of columns.
    Case(
        "spelled_chosen_response",
        "pairs",
        [
            {
                "question": "Name a fruit.",
                "chosen_response": "Pear i",
                "rejected_response": "Brick j",
            }
        ],
        QUESTION,
        PAIR,
    ),
    Case(
        "spelled_capitals",
        "pairs",
        [{"Prompt": "Name a fruit.", "Chosen": "Pear i", "Rejected": "Brick j"}],
        QUESTION,
        PAIR,
    ),
    Case(
        "spelled_accepted",
        "pairs",
        [
            {
                "instruction": "Name a fruit.",
                "response_accepted": "Pear i",
                "response_rejected": "Brick j",
            }
        ],
        QUESTION,
        PAIR,
    ),
    Case(
        "spelled_user_assistant",
        "sft",
        [{"user": "Name a fruit.", "assistant": "Pear i"}],
        QUESTION,
        (("Pear i", None),),
    ),
    Case(
        "spelled_question_answer_system",
        "sft",
        [{"system_prompt": "Be short.", "question": "Name a fruit.", "answer": "Pear i"}],
        ("s:Be short.", *QUESTION),
        (("Pear i", None),),
    ),
    # TRL's stepwise supervision: the steps joined by a separator are one answer.
    Case(
        "stepwise_good",
        "sft",
        [
            {
                "prompt": "Which is larger?",
                "completions": ["First.", "So b."],
                "labels": [True, True],
            }
        ],
        ("u:Which is larger?",),
        (("First.\nSo b.", None),),
    ),
    Case(
        "stepwise_wrong",
        "sft",
        [
            {"prompt": "Name a fruit.", "completions": ["Pear i"], "labels": [True]},
            {
                "prompt": "Which is larger?",
                "completions": ["First.", "So a."],
                "labels": [True, False],
            },
        ],
        QUESTION,
        (("Pear i", None),),
        left="wanted",
    ),
    # Tools as JSON text.
    Case(
        "tools_as_text",
        "sft",
        [
            {
                "tools": json.dumps([{"type": "function", "function": {"name": "shop"}}]),
                "messages": [PEAR, YES],
            }
        ],
        QUESTION,
        (("Pear i", None),),
    ),
    # The system message within and beside.
    Case(
        "system_beside_same",
        "sft",
        [{"system": "Be short.", "messages": [SHORT, PEAR, YES]}],
        ("s:Be short.", *QUESTION),
        (("Pear i", None),),
    ),
    Case(
        "system_beside_other",
        "sft",
        [{"system": "Be long.", "messages": [SHORT, PEAR, YES]}],
        stops="system",
    ),
    Case(
        "system_beside_pair",
        "pairs",
        [{"system": "Be short.", "chosen": [PEAR, YES], "rejected": [PEAR, NO]}],
        ("s:Be short.", *QUESTION),
        PAIR,
    ),
    Case(
        "two_systems",
        "sft",
        [{"messages": [SHORT, said("system", "Be kind."), PEAR, YES]}],
        ("s:Be short.", "s:Be kind.", *QUESTION),
        (("Pear i", None),),
    ),
    # Histories.
    Case(
        "history_pairs",
        "pairs",
        [
            {
                "prompt": "Name a fruit.",
                "history": [["Hi", "Hello"], ["Who?", "Me"]],
                "chosen": "Pear i",
                "rejected": "Brick j",
            }
        ],
        ("u:Hi", "a:Hello", "u:Who?", "a:Me", *QUESTION),
        PAIR,
    ),
    Case(
        "history_messages",
        "prompts",
        [{"prompt": "Name a fruit.", "history": [said("user", "Hi"), said("assistant", "Hello")]}],
        ("u:Hi", "a:Hello", *QUESTION),
    ),
    # ShareGPT with a system, tools and calls.
    Case(
        "sharegpt_calls",
        "sft",
        [
            {
                "conversations": [
                    {"from": "system", "value": "Be short."},
                    {"from": "human", "value": "What costs a pear?"},
                    {
                        "from": "function_call",
                        "value": '{"name": "shop", "arguments": {"of": "pear"}}',
                    },
                    {"from": "observation", "value": '{"price": 3}'},
                    {"from": "gpt", "value": "Three i"},
                ],
                "tools": '[{"name": "shop", "description": "Says a price.", "parameters": {}}]',
            }
        ],
        ("s:Be short.", "u:What costs a pear?", "a:", 't:{"price": 3}'),
        (("Three i", None),),
    ),
    Case(
        "sharegpt_system_column",
        "sft",
        [
            {
                "system": "Be short.",
                "conversations": [
                    {"from": "human", "value": "Name a fruit."},
                    {"from": "gpt", "value": "Pear i"},
                ],
            }
        ],
        ("s:Be short.", *QUESTION),
        (("Pear i", None),),
    ),
    # OpenAI's preference file with a system message.
    Case(
        "openai_preference_system",
        "pairs",
        [
            {
                "input": {"messages": [SHORT, PEAR], "tools": [], "parallel_tool_calls": True},
                "preferred_output": [YES],
                "non_preferred_output": [NO],
            }
        ],
        ("s:Be short.", *QUESTION),
        PAIR,
    ),
    # Nectar: rank 1 is the best.
    Case(
        "nectar",
        "pairs",
        [
            {
                "prompt": "\n\nHuman: Name a fruit.\n\nAssistant: ",
                "answers": [
                    {"answer": "Middle k", "model": "b", "rank": 2.0},
                    {"answer": "Brick j", "model": "c", "rank": 3.0},
                    {"answer": "Pear i", "model": "a", "rank": 1.0},
                ],
                "turns": 1,
                "num_responses": 3,
                "source": ["x"],
                "good_natured": True,
            }
        ],
        QUESTION,
        (("Pear i", True), ("Brick j", False)),
        (-1.0, -3.0),
    ),
    # UltraFeedback with scores that are texts.
    Case(
        "ultrafeedback_text_scores",
        "pairs",
        [
            {
                "source": "x",
                "instruction": "Name a fruit.",
                "models": ["a", "b"],
                "completions": [
                    {
                        "model": "b",
                        "response": "Brick j",
                        "overall_score": "2.5",
                        "annotations": {},
                    },
                    {"model": "a", "response": "Pear i", "overall_score": "8.0", "annotations": {}},
                ],
                "correct_answers": ["None"],
                "incorrect_answers": ["None"],
            }
        ],
        QUESTION,
        PAIR,
        (8.0, 2.5),
    ),
    # HelpSteer 2's preference file: a negative strength prefers the first.
    Case(
        "helpsteer2_preference",
        "pairs",
        [
            {
                "split": "train",
                "prompt": "Name a fruit.",
                "response_1": "Brick j",
                "response_2": "Pear i",
                "preference_strength": 2,
                "preference_statement": "The second is a fruit.",
            }
        ],
        QUESTION,
        PAIR,
    ),
    Case(
        "helpsteer2_preference_first",
        "pairs",
        [
            {
                "prompt": "Name a fruit.",
                "response_1": "Pear i",
                "response_2": "Brick j",
                "preference_strength": -3,
            }
        ],
        QUESTION,
        PAIR,
    ),
    # Argilla's exports.
    Case(
        "argilla_flat",
        "sft",
        [
            {
                "id": "7a",
                "status": "completed",
                "_server_id": "b8",
                "instruction": "Name a fruit.",
                "response": "Pear i",
                "label.responses": ["yes"],
                "label.responses.users": ["u1"],
                "label.responses.status": ["submitted"],
            }
        ],
        QUESTION,
        (("Pear i", None),),
    ),
    Case(
        "argilla_fields",
        "sft",
        [
            {
                "fields": {"instruction": "Name a fruit.", "response": "Pear i"},
                "responses": [{"status": "submitted", "values": {"quality": {"value": 4}}}],
                "metadata": {},
            }
        ],
        QUESTION,
        (("Pear i", None),),
    ),
    # LMArena's battles.
    Case(
        "arena_bothbad",
        "pairs",
        [
            {
                "question_id": "q1",
                "model_a": "m",
                "model_b": "n",
                "winner": "model_b",
                "conversation_a": [PEAR, NO],
                "conversation_b": [PEAR, YES],
                "turn": 1,
            },
            {
                "question_id": "q2",
                "model_a": "m",
                "model_b": "n",
                "winner": "tie (bothbad)",
                "conversation_a": [PEAR, NO],
                "conversation_b": [PEAR, YES],
                "turn": 1,
            },
        ],
        QUESTION,
        PAIR,
        left="no answer is preferred",
    ),
    # OASST's flat rows: one message a line, joined by parent_id.
    Case(
        "oasst_flat",
        "pairs",
        [
            {
                "message_id": "m1",
                "parent_id": None,
                "message_tree_id": "m1",
                "text": "Name a fruit.",
                "role": "prompter",
                "rank": None,
            },
            {
                "message_id": "m2",
                "parent_id": "m1",
                "message_tree_id": "m1",
                "text": "Brick j",
                "role": "assistant",
                "rank": 1.0,
            },
            {
                "message_id": "m3",
                "parent_id": "m1",
                "message_tree_id": "m1",
                "text": "Pear i",
                "role": "assistant",
                "rank": 0.0,
            },
        ],
        stops="of a tree",
    ),
    # CSV as spreadsheets write it.
    Case(
        "csv_bom",
        "pairs",
        "\ufeffprompt,chosen,rejected,score_chosen,score_rejected\n"
        "Name a fruit.,Pear i,Brick j,8.5,3.25\n",
        QUESTION,
        PAIR,
        (8.5, 3.25),
        suffix="csv",
    ),
    Case(
        "csv_empty_scores",
        "pairs",
        "prompt,chosen,rejected,score_chosen,score_rejected\n"
        "Name a fruit.,Pear i,Brick j,8.5,3.25\n"
        "Name a tree.,Elm i,Stone j,,\n",
        QUESTION,
        PAIR,
        (8.5, 3.25),
        left="score",
        suffix="csv",
    ),
    Case(
        "csv_nan",
        "pairs",
        "prompt,chosen,rejected,score_chosen,score_rejected\n"
        "Name a fruit.,Pear i,Brick j,8.5,3.25\n"
        "Name a tree.,Elm i,Stone j,NaN,2\n",
        QUESTION,
        PAIR,
        (8.5, 3.25),
        left="finite",
        suffix="csv",
    ),
    Case(
        "csv_decimal_comma",
        "pairs",
        'prompt,chosen,rejected,score_chosen,score_rejected\nName a fruit.,Pear i,Brick j,"1,5","0,5"\n',
        stops="1,5",
        suffix="csv",
    ),
    Case(
        "csv_semicolon",
        "pairs",
        "prompt;chosen;rejected\nName a fruit.;Pear i;Brick j\n",
        QUESTION,
        PAIR,
        suffix="csv",
    ),
    Case(
        "csv_empty_prompt",
        "pairs",
        "prompt,chosen,rejected\nName a fruit.,Pear i,Brick j\n,Elm i,Stone j\n",
        stops="the prompt is empty",
        suffix="csv",
    ),
    Case(
        "csv_word_nan",
        "pairs",
        "prompt,chosen,rejected\nName a fruit.,Pear i,NaN\n",
        QUESTION,
        (("Pear i", True), ("NaN", False)),
        suffix="csv",
    ),
    Case("csv_literal_null", "prompts", "prompt,context\nName a fruit.,\n", QUESTION, suffix="csv"),
    # Parquet with nested lists and nulls.
    Case(
        "parquet_nested",
        "pairs",
        [
            {
                "prompt": [{"role": "user", "content": "Name a fruit.", "name": None}],
                "chosen": [{"role": "assistant", "content": "Pear i", "name": None}],
                "rejected": [{"role": "assistant", "content": "Brick j", "name": None}],
                "score_chosen": 8.5,
                "score_rejected": 3.25,
                "system": None,
                "history": None,
            }
        ],
        QUESTION,
        PAIR,
        (8.5, 3.25),
        suffix="parquet",
    ),
    Case(
        "parquet_tool_nulls",
        "sft",
        [
            {
                "messages": [
                    {
                        "role": "user",
                        "content": "Name a fruit.",
                        "tool_calls": None,
                        "weight": None,
                    },
                    {"role": "assistant", "content": "Pear i", "tool_calls": [], "weight": 1},
                ],
                "tools": None,
            }
        ],
        QUESTION,
        (("Pear i", None),),
        suffix="parquet",
    ),
    # Labels in their spellings.
    *[
        Case(
            f"kto_{name}",
            "sft",
            [
                {"prompt": "Name a fruit.", "completion": "Pear i", "label": good},
                {"prompt": "Name a fruit.", "completion": "Brick j", "label": bad},
            ],
            QUESTION,
            (("Pear i", None),),
            left="wanted",
        )
        for name, good, bad in [
            ("texts", "true", "false"),
            ("numbers", 1, 0),
            ("words", "good", "bad"),
            ("thumbs", "👍", "👎"),
            ("yes_no", "yes", "no"),
            ("signs", 1, -1),
            ("halves", 1.0, 0.0),
        ]
    ],
    Case(
        "label_is_a_class",
        "sft",
        [
            {"prompt": "Name a fruit.", "completion": "Pear i", "label": 1},
            {"prompt": "Name a tree.", "completion": "Elm i", "label": 3},
        ],
        stops="label",
    ),
    Case(
        "label_is_a_class_of_a_prompt",
        "prompts",
        [{"prompt": "Name a fruit.", "label": 3}],
        QUESTION,
    ),
    # Scores and answers that contradict each other.
    Case(
        "scores_swapped",
        "pairs",
        [
            {"prompt": "Name a fruit.", "chosen": "Pear i", "rejected": "Brick j", "margin": 5.25},
            {"prompt": "Name a tree.", "chosen": "Elm i", "rejected": "Stone j", "margin": -5.25},
        ],
        QUESTION,
        PAIR,
        left="lower",
    ),
    Case(
        "scores_swapped_winner",
        "pairs",
        [
            {
                "prompt": "Name a fruit.",
                "response_a": "Brick j",
                "response_b": "Pear i",
                "winner": "b",
                "score_a": 3.25,
                "score_b": 8.5,
            },
            {
                "prompt": "Name a tree.",
                "response_a": "Elm i",
                "response_b": "Stone j",
                "winner": "a",
                "score_a": 3.25,
                "score_b": 8.5,
            },
        ],
        QUESTION,
        PAIR,
        (8.5, 3.25),
        left="lower",
    ),
    Case(
        "identical",
        "pairs",
        [
            {"prompt": "Name a fruit.", "chosen": "Pear i", "rejected": "Brick j"},
            {"prompt": "Name a tree.", "chosen": "Elm i", "rejected": "Elm i"},
        ],
        QUESTION,
        PAIR,
        left="identical",
    ),
    Case(
        "blank_rejected",
        "pairs",
        [
            {"prompt": "Name a fruit.", "chosen": "Pear i", "rejected": "Brick j"},
            {"prompt": "Name a tree.", "chosen": "Elm i", "rejected": " \n"},
        ],
        QUESTION,
        PAIR,
        left="blank",
    ),
    Case(
        "rejected_null",
        "pairs",
        [
            {"prompt": "Name a fruit.", "chosen": "Pear i", "rejected": "Brick j"},
            {"prompt": "Name a tree.", "chosen": "Elm i", "rejected": None},
        ],
        QUESTION,
        PAIR,
        left="one answer",
    ),
    # Chats.
    Case(
        "ends_with_user_prompts",
        "prompts",
        [{"messages": [PEAR, YES, said("user", "And a tree?")]}],
        ("u:Name a fruit.", "a:Pear i", "u:And a tree?"),
    ),
    Case(
        "ends_with_user_sft",
        "sft",
        [{"messages": [PEAR, YES, said("user", "And a tree?")]}],
        QUESTION,
        (("Pear i", None),),
    ),
    Case(
        "pair_ends_with_user",
        "pairs",
        [{"chosen": [PEAR, YES, said("user", "Thanks")], "rejected": [PEAR, NO]}],
        stops="not the assistant's",
    ),
    Case(
        "prompt_chat_as_text",
        "pairs",
        [{"prompt": json.dumps([SHORT, PEAR]), "chosen": "Pear i", "rejected": "Brick j"}],
        ("s:Be short.", *QUESTION),
        PAIR,
    ),
    Case(
        "prompt_chat_as_python_text",
        "prompts",
        [{"prompt": str([SHORT, PEAR])}],
        ("s:Be short.", *QUESTION),
    ),
    Case(
        "chosen_leads_with_system",
        "pairs",
        [{"prompt": "Name a fruit.", "chosen": [SHORT, PEAR, YES], "rejected": [SHORT, PEAR, NO]}],
        ("s:Be short.", *QUESTION),
        PAIR,
    ),
    Case(
        "one_side_has_system",
        "pairs",
        [{"prompt": "Name a fruit.", "chosen": [SHORT, PEAR, YES], "rejected": [PEAR, NO]}],
        stops="differ",
    ),
    Case(
        "prompt_ends_with_assistant",
        "pairs",
        [
            {
                "prompt": "\n\nHuman: Name a fruit.\n\nAssistant:",
                "chosen": " Pear i",
                "rejected": " Brick j",
            }
        ],
        QUESTION,
        PAIR,
    ),
    Case(
        "first_turns_differ",
        "pairs",
        [{"chosen": [PEAR, YES], "rejected": [said("user", "Name a brick."), NO]}],
        stops="differ",
    ),
    Case(
        "messages_beside_prompt_same",
        "sft",
        [{"prompt": "Name a fruit.", "prompt_id": "ab12", "messages": [PEAR, YES]}],
        QUESTION,
        (("Pear i", None),),
    ),
    Case(
        "messages_beside_prompt_other",
        "sft",
        [{"prompt": "Name a brick.", "messages": [PEAR, YES]}],
        stops="differ",
    ),
    Case(
        "messages_beside_pair",
        "pairs",
        [
            {
                "prompt": "Name a fruit.",
                "prompt_id": "ab12",
                "chosen": [PEAR, YES],
                "rejected": [PEAR, NO],
                "messages": [PEAR, YES],
                "score_chosen": 8.5,
                "score_rejected": 3.25,
            }
        ],
        QUESTION,
        PAIR,
        (8.5, 3.25),
    ),
    # Weights of messages.
    Case(
        "weight_null",
        "sft",
        [{"messages": [PEAR, said("assistant", "Pear i", weight=None)]}],
        QUESTION,
        (("Pear i", None),),
    ),
    Case(
        "weight_half",
        "sft",
        [{"messages": [PEAR, said("assistant", "Pear i", weight=0.5)]}],
        stops="weight",
    ),
    Case(
        "weight_text_zero",
        "sft",
        [
            {"messages": [PEAR, said("assistant", "Pear i", weight="1")]},
            {"messages": [PEAR, said("assistant", "Insult", weight="0")]},
        ],
        QUESTION,
        (("Pear i", None),),
        left="weight",
    ),
    # Letters, and empty and null inputs.
    Case(
        "unicode",
        "pairs",
        [
            {
                "prompt": "Ünïcode 数字?",
                "chosen": "Bir\u0065\u0301 🍐",
                "rejected": "\u200bZiegel\u00a0j",
            }
        ],
        ("u:Ünïcode 数字?",),
        (("Bir\u0065\u0301 🍐", True), ("\u200bZiegel\u00a0j", False)),
    ),
    Case(
        "input_empty",
        "sft",
        [{"instruction": "Name a fruit.", "input": "", "output": "Pear i"}],
        QUESTION,
        (("Pear i", None),),
    ),
    Case(
        "input_null",
        "sft",
        [{"instruction": "Name a fruit.", "input": None, "output": "Pear i"}],
        QUESTION,
        (("Pear i", None),),
    ),
    Case(
        "input_given",
        "sft",
        [{"instruction": "Name one of them.", "input": "pear, brick", "output": "Pear i"}],
        ("u:Name one of them.\n\npear, brick",),
        (("Pear i", None),),
    ),
    Case(
        "several_turns",
        "sft",
        [{"messages": [SHORT, PEAR, YES, said("user", "And a tree?"), said("assistant", "Elm k")]}],
        ("s:Be short.", "u:Name a fruit.", "a:Pear i", "u:And a tree?"),
        (("Elm k", None),),
    ),
    Case(
        "developer_role",
        "sft",
        [{"messages": [said("developer", "Be short."), PEAR, YES]}],
        ("s:Be short.", *QUESTION),
        (("Pear i", None),),
    ),
    Case(
        "content_parts",
        "sft",
        [
            {
                "messages": [
                    said("user", [{"type": "text", "text": "Name a fruit."}]),
                    said("assistant", [{"type": "text", "text": "Pear i"}]),
                ]
            }
        ],
        QUESTION,
        (("Pear i", None),),
    ),
    # More of what other programs write.
    Case(
        "response_and_rejected_response",
        "pairs",
        [
            {
                "system": "Be short.",
                "history": [["Hi", "Hello"]],
                "query": "Name a fruit.",
                "response": "Pear i",
                "rejected_response": "Brick j",
            }
        ],
        ("s:Be short.", "u:Hi", "a:Hello", *QUESTION),
        PAIR,
    ),
    Case(
        "judged_on_its_first_turn",
        "pairs",
        [
            {
                "question_id": 81,
                "model_a": "m",
                "model_b": "n",
                "winner": "model_a",
                "judge": "expert_1",
                "conversation_a": [
                    PEAR,
                    YES,
                    said("user", "And a tree?"),
                    said("assistant", "Elm k"),
                ],
                "conversation_b": [
                    PEAR,
                    NO,
                    said("user", "And a tree?"),
                    said("assistant", "Oak l"),
                ],
                "turn": 1,
            }
        ],
        QUESTION,
        PAIR,
    ),
    Case(
        "chat_in_capitals",
        "sft",
        [
            {
                "chat": "USER: What costs a pear?\n\n\nASSISTANT: I ask. <|endoftext|>\n\n\n"
                "FUNCTION RESPONSE: 3\n\n\nASSISTANT: Three i <|endoftext|>\n\n\n"
            }
        ],
        ("u:What costs a pear?", "a:I ask.", "t:3"),
        (("Three i", None),),
    ),
    Case(
        "transcript_with_ends",
        "pairs",
        [
            {
                "prompt": "<|im_start|>user\nName a fruit.<|im_end|>\n<|im_start|>assistant\n",
                "chosen": "Pear i<|im_end|>",
                "rejected": "Brick j<|im_end|>\n",
            }
        ],
        QUESTION,
        PAIR,
    ),
    Case(
        "ranks_of_two",
        "pairs",
        [
            {
                "prompt": "Name a fruit.",
                "response_1": "Brick j",
                "response_2": "Pear i",
                "rank_1": 2,
                "rank_2": 1,
            }
        ],
        QUESTION,
        PAIR,
        (-1.0, -2.0),
    ),
    # Chats that a template has written into one text.
    Case(
        "llama_2_text",
        "sft",
        [
            {
                "text": "<s>[INST] <<SYS>>\nBe short.\n<</SYS>>\n\nName a fruit. [/INST] Fig. </s>"
                "<s>[INST] Another. [/INST] Pear i </s>"
            }
        ],
        ("s:Be short.", "u:Name a fruit.", "a:Fig.", "u:Another."),
        (("Pear i", None),),
    ),
    Case(
        "llama_2_prompt",
        "pairs",
        [{"prompt": "[INST] Name a fruit. [/INST]", "chosen": "Pear i</s>", "rejected": "Brick j"}],
        QUESTION,
        PAIR,
    ),
    Case(
        "gemma_text",
        "sft",
        [
            {
                "text": "<start_of_turn>user\nName a fruit.<end_of_turn>\n"
                "<start_of_turn>model\nPear i<end_of_turn>\n"
            }
        ],
        QUESTION,
        (("Pear i", None),),
    ),
    # What was found of an answer is its label.
    Case(
        "an_unsafe_answer",
        "sft",
        [
            {"prompt": "Name a fruit.", "response": "Pear i", "is_safe": True},
            {"prompt": "Name a fruit.", "response": "Brick j", "is_safe": False},
        ],
        QUESTION,
        (("Pear i", None),),
        left="its label says that the answer is not wanted",
    ),
    Case(
        "a_wrong_answer",
        "sft",
        [
            {"question": "1 + 1?", "response": "3", "is_correct": 0},
            {"question": "1 + 1?", "response": "2", "is_correct": 1},
        ],
        ("u:1 + 1?",),
        (("2", None),),
        left="its label says that the answer is not wanted",
    ),
    Case(
        "a_verdict_that_is_none",
        "sft",
        [{"prompt": "Name a fruit.", "response": "Pear i", "is_safe": "perhaps"}],
        stops="is_safe",
    ),
    Case(
        "thoughts_as_a_part",
        "sft",
        [
            {
                "messages": [
                    PEAR,
                    said(
                        "assistant",
                        [
                            {"type": "thinking", "thinking": "Hm."},
                            {"type": "text", "text": "Pear i"},
                        ],
                    ),
                ]
            }
        ],
        stops="thoughts beside an answer",
    ),
    Case(
        "labels_beside_a_list",
        "pairs",
        [
            {
                "prompt": "Name a fruit.",
                "responses": ["Brick j", "Pear i", "?"],
                "labels": [0, 1, None],
            }
        ],
        QUESTION,
        PAIR,
    ),
    Case(
        "labels_within_a_list",
        "pairs",
        [
            {
                "prompt": "Name a fruit.",
                "completions": [
                    {"text": "Brick j", "is_correct": False},
                    {"text": "Pear i", "is_correct": True},
                ],
            }
        ],
        QUESTION,
        PAIR,
    ),
    Case(
        "labels_of_another_length",
        "pairs",
        [{"prompt": "Name a fruit.", "responses": ["Brick j", "Pear i"], "labels": [1]}],
        stops="2 labels",
    ),
    Case(
        "a_whole_text_and_an_answer",
        "sft",
        [{"text": "Name a fruit.", "completion": "Pear i"}],
        stops="an answer is in completion",
    ),
]
