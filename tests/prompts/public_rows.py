"""Three rows of each of many public data sets, made up from what their cards say of their columns,
with the conversation and the answers that they hold. Nothing here is a row of these sets.

A case is (rows, the first row's conversation, its answers as (text, score, chosen)). Texts of a
conversation begin with the role's first letter: s, u, a or t.
"""


def numbered(make):
    """The rows that `make` gives for 0, 1 and 2."""
    return [make(i) for i in range(3)]


def chat(*turns):
    return [{"role": role, "content": content} for role, content in turns]


def sharegpt(*turns):
    return [{"from": role, "value": value} for role, value in turns]


def hh(i, answer):
    return f"\n\nHuman: Name a tree.\n\nAssistant: Tall or small?\n\nHuman: Tall {i}.\n\nAssistant: {answer}"


HH_CHAT = ("u Name a tree.", "a Tall or small?", "u Tall 0.")

PUBLIC = {
    "Anthropic/hh-rlhf": (
        numbered(lambda i: {"chosen": hh(i, f"Oak {i}"), "rejected": hh(i, "No.")}),
        HH_CHAT,
        [("Oak 0", None, True), ("No.", None, False)],
    ),
    "openbmb/UltraFeedback": (
        numbered(
            lambda i: {
                "source": "evol_instruct",
                "instruction": f"Name tree {i}.",
                "models": ["alpaca-7b", "bard"],
                "completions": [
                    {
                        "annotations": {"helpfulness": {"Rating": "2", "Rationale": "…"}},
                        "custom_system_prompt": "Be helpful.",
                        "model": "alpaca-7b",
                        "response": f"Stone {i}",
                        "critique": "…",
                        "fine-grained_score": 1.25,
                        "overall_score": 2.0,
                    },
                    {
                        "annotations": {"helpfulness": {"Rating": "5", "Rationale": "…"}},
                        "custom_system_prompt": "Be helpful.",
                        "model": "bard",
                        "response": f"Oak {i}",
                        "critique": "…",
                        "fine-grained_score": 4.75,
                        "overall_score": 8.5,
                    },
                ],
                "correct_answers": ["None"],
                "incorrect_answers": ["None"],
            }
        ),
        ("u Name tree 0.",),
        [("Stone 0", 2.0, False), ("Oak 0", 8.5, True)],
    ),
    "HuggingFaceH4/ultrafeedback_binarized": (
        numbered(
            lambda i: {
                "prompt": f"Name tree {i}.",
                "prompt_id": "f0e3",
                "chosen": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "rejected": chat(("user", f"Name tree {i}."), ("assistant", f"Stone {i}")),
                "messages": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "score_chosen": 8.5,
                "score_rejected": 7.25,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", 8.5, True), ("Stone 0", 7.25, False)],
    ),
    "trl-lib/ultrafeedback_binarized": (
        numbered(
            lambda i: {
                "chosen": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "rejected": chat(("user", f"Name tree {i}."), ("assistant", f"Stone {i}")),
                "score_chosen": 8.0,
                "score_rejected": 6.5,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", 8.0, True), ("Stone 0", 6.5, False)],
    ),
    "argilla/ultrafeedback-binarized-preferences-cleaned": (
        numbered(
            lambda i: {
                "source": "sharegpt",
                "prompt": f"Name tree {i}.",
                "chosen": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "chosen-rating": 4.5,
                "chosen-model": "gpt-4",
                "rejected": chat(("user", f"Name tree {i}."), ("assistant", f"Stone {i}")),
                "rejected-rating": 2.75,
                "rejected-model": "mpt-30b-chat",
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", 4.5, True), ("Stone 0", 2.75, False)],
    ),
    "argilla/distilabel-capybara-dpo-7k-binarized": (
        numbered(
            lambda i: {
                "source": "Airoboros",
                "conversation": [
                    {"input": f"Name tree {i}.", "output": "Tall or small?"},
                    {"input": "Tall.", "output": f"Oak {i}"},
                ],
                "original_response": f"Oak {i}",
                "generation_prompt": None,
                "raw_generation_responses": None,
                "new_generations": ["Stone", "Rock", "Sand"],
                "prompt": "Tall.",
                "chosen": chat(
                    ("user", f"Name tree {i}."),
                    ("assistant", "Tall or small?"),
                    ("user", "Tall."),
                    ("assistant", f"Oak {i}"),
                ),
                "rejected": chat(
                    ("user", f"Name tree {i}."),
                    ("assistant", "Tall or small?"),
                    ("user", "Tall."),
                    ("assistant", f"Stone {i}"),
                ),
                "rating_chosen": 5,
                "rating_rejected": 2,
                "chosen_model": "original",
                "rejected_model": "nous",
                "turns": 2,
            }
        ),
        ("u Name tree 0.", "a Tall or small?", "u Tall."),
        [("Oak 0", 5.0, True), ("Stone 0", 2.0, False)],
    ),
    "argilla/distilabel-intel-orca-dpo-pairs": (
        numbered(
            lambda i: {
                "system": "Think of trees.",
                "input": f"Name tree {i}.",
                "chosen": f"Oak {i}",
                "rejected": f"Stone {i}",
                "generations": [f"Stone {i}", f"Oak {i}"],
                "order": ["rejected", "chosen"],
                "labelling_model": "gpt-4-1106-preview",
                "labelling_prompt": chat(("system", "You judge."), ("user", "…")),
                "raw_labelling_response": "3 9",
                "rating": [3.0, 9.0],
                "rationale": "…",
                "status": "swapped",
                "original_chosen": f"Oak {i}",
                "original_rejected": f"Stone {i}",
                "chosen_score": 9.0,
                "in_gsm8k_train": False,
            }
        ),
        ("s Think of trees.", "u Name tree 0."),
        [("Oak 0", 9.0, True), ("Stone 0", 3.0, False)],
    ),
    "argilla/dpo-mix-7k": (
        numbered(
            lambda i: {
                "dataset": "argilla/distilabel-capybara-dpo-9k-binarized",
                "chosen": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "rejected": chat(("user", f"Name tree {i}."), ("assistant", f"Stone {i}")),
                "chosen_rating": 5.0,
                "rejected_rating": 4.0,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", 5.0, True), ("Stone 0", 4.0, False)],
    ),
    "Intel/orca_dpo_pairs": (
        numbered(
            lambda i: {
                "system": "",
                "question": f"Name tree {i}.",
                "chosen": f"Oak {i}",
                "rejected": f"Stone {i}",
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, True), ("Stone 0", None, False)],
    ),
    "nvidia/HelpSteer2": (
        numbered(
            lambda i: {
                "prompt": f"Name tree {i}.",
                "response": f"Oak {i}",
                "helpfulness": 3,
                "correctness": 4,
                "coherence": 4,
                "complexity": 1,
                "verbosity": 0,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", 3.0, None)],
    ),
    "nvidia/HelpSteer2 (preference)": (
        numbered(
            lambda i: {
                "split": "train",
                "prompt": f"Name a tree.\n\n<extra_id_1>Assistant\nTall?\n<extra_id_1>User\nYes {i}.",
                "response_1": f"Stone {i}",
                "response_2": f"Oak {i}",
                "preference_strength": 2,
                "preference_statement": "The second is a tree.",
                "preference_elaboration": "…",
                "three_most_similar_preferences": [],
                "all_preferences_unprocessed": [],
            }
        ),
        ("u Name a tree.", "a Tall?", "u Yes 0."),
        [("Stone 0", 0.0, False), ("Oak 0", 2.0, True)],
    ),
    "nvidia/HelpSteer3": (
        numbered(
            lambda i: {
                "domain": "general",
                "language": "english",
                "context": chat(
                    ("user", "Name a tree."), ("assistant", "Tall?"), ("user", f"{i}!")
                ),
                "response1": f"Oak {i}",
                "response2": f"Stone {i}",
                "overall_preference": -3,
                "individual_preference": [{"score": -3, "reasoning": "…", "feedback1": "…"}],
            }
        ),
        ("u Name a tree.", "a Tall?", "u 0!"),
        [("Oak 0", 3.0, True), ("Stone 0", 0.0, False)],
    ),
    "berkeley-nest/Nectar": (
        numbered(
            lambda i: {
                "prompt": f"\n\nHuman: Name tree {i}.\n\nAssistant: ",
                "answers": [
                    {"answer": f"Oak {i}", "model": "gpt-4", "rank": 1.0},
                    {"answer": f"Bush {i}", "model": "llama", "rank": 2.0},
                    {"answer": f"Stone {i}", "model": "mistral", "rank": 3.0},
                ],
                "turns": 1,
                "num_responses": 3,
                "source": ["lmsys-chat-1m"],
                "good_natured": True,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", -1.0, True), ("Bush 0", -2.0, None), ("Stone 0", -3.0, False)],
    ),
    "allenai/llama-3.1-tulu-3-8b-preference-mixture": (
        numbered(
            lambda i: {
                "id": f"x{i}",
                "source": "ultrafeedback",
                "prompt": f"Name tree {i}.",
                "chosen": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "rejected": chat(("user", f"Name tree {i}."), ("assistant", f"Stone {i}")),
                "chosen_rating": None,
                "rejected_rating": None,
                "chosen_model": "tulu",
                "rejected_model": "yi",
                "models": None,
                "completions": None,
                "best_of_n": None,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, True), ("Stone 0", None, False)],
    ),
    "allenai/tulu-3-sft-mixture": (
        numbered(
            lambda i: {
                "id": f"oasst1_{i}",
                "messages": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "source": "ai2-adapt-dev/oasst1_converted",
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, None)],
    ),
    "Skywork/Skywork-Reward-Preference-80K-v0.2": (
        numbered(
            lambda i: {
                "chosen": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "rejected": chat(("user", f"Name tree {i}."), ("assistant", f"Stone {i}")),
                "source": "magpie_ultra",
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, True), ("Stone 0", None, False)],
    ),
    "PKU-Alignment/PKU-SafeRLHF": (
        numbered(
            lambda i: {
                "prompt": f"Name tree {i}.",
                "response_0": f"Stone {i}",
                "response_1": f"Oak {i}",
                "prompt_source": "…",
                "is_response_0_safe": False,
                "is_response_1_safe": True,
                "better_response_id": 1,
                "safer_response_id": 1,
            }
        ),
        ("u Name tree 0.",),
        [("Stone 0", None, False), ("Oak 0", None, True)],
    ),
    "stanfordnlp/SHP": (
        numbered(
            lambda i: {
                "post_id": "p",
                "domain": "askbaking_train",
                "history": f"Name tree {i}.",
                "human_ref_A": f"Oak {i}",
                "human_ref_B": f"Stone {i}",
                "labels": 1,
                "score_A": 34,
                "score_B": 12,
                "score_ratio": 2.83,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", 34.0, True), ("Stone 0", 12.0, False)],
    ),
    "openai/webgpt_comparisons": (
        numbered(
            lambda i: {
                "question": {"dataset": "eli5", "id": "1", "full_text": f"Name tree {i}."},
                "quotes_0": {"title": [], "extract": []},
                "answer_0": f"Stone {i}",
                "tokens_0": {"prefix": [], "completion": []},
                "score_0": -0.5,
                "quotes_1": {"title": [], "extract": []},
                "answer_1": f"Oak {i}",
                "tokens_1": {"prefix": [], "completion": []},
                "score_1": 0.5,
            }
        ),
        ("u Name tree 0.",),
        [("Stone 0", -0.5, False), ("Oak 0", 0.5, True)],
    ),
    "lvwerra/stack-exchange-paired": (
        numbered(
            lambda i: {
                "qid": 7,
                "question": f"Name tree {i}.",
                "date": "2010/07/22",
                "metadata": ["https://…"],
                "response_j": f"Oak {i}",
                "response_k": f"Stone {i}",
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, True), ("Stone 0", None, False)],
    ),
    "lmsys/chatbot_arena_conversations": (
        numbered(
            lambda i: {
                "question_id": "q",
                "model_a": "alpaca",
                "model_b": "vicuna",
                "winner": "model_b",
                "judge": "arena_user_9",
                "conversation_a": chat(("user", f"Name tree {i}."), ("assistant", f"Stone {i}")),
                "conversation_b": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "turn": 1,
                "anony": True,
                "language": "English",
                "tstamp": 1682351591.1,
            }
        ),
        ("u Name tree 0.",),
        [("Stone 0", None, False), ("Oak 0", None, True)],
    ),
    "lmarena-ai/arena-human-preference-55k": (
        numbered(
            lambda i: {
                "id": "30192",
                "model_a": "gpt-4",
                "model_b": "llama",
                "prompt": f'["Name tree {i}."]',
                "response_a": f'["Oak {i}"]',
                "response_b": f'["Stone {i}"]',
                "winner_model_a": 1,
                "winner_model_b": 0,
                "winner_tie": 0,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, True), ("Stone 0", None, False)],
    ),
    "lmsys/lmsys-chat-1m": (
        numbered(
            lambda i: {
                "conversation_id": "c",
                "model": "vicuna-13b",
                "conversation": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "turn": 1,
                "language": "English",
                "openai_moderation": [{"flagged": False}],
                "redacted": False,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, None)],
    ),
    "allenai/WildChat-1M": (
        numbered(
            lambda i: {
                "conversation_hash": "h",
                "model": "gpt-3.5-turbo",
                "timestamp": "2023-04-09",
                "conversation": [
                    {
                        "content": f"Name tree {i}.",
                        "role": "user",
                        "country": "Norway",
                        "hashed_ip": "x",
                        "language": "English",
                        "redacted": False,
                        "timestamp": None,
                        "toxic": False,
                        "turn_identifier": 2010,
                    },
                    {
                        "content": f"Oak {i}",
                        "role": "assistant",
                        "country": None,
                        "language": "English",
                        "redacted": False,
                        "timestamp": "2023",
                        "toxic": False,
                        "turn_identifier": 2010,
                    },
                ],
                "turn": 1,
                "language": "English",
                "toxic": False,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, None)],
    ),
    "Open-Orca/SlimOrca": (
        numbered(
            lambda i: {
                "conversations": [
                    {"from": "system", "value": "Be brief.", "weight": None},
                    {"from": "human", "value": f"Name tree {i}.", "weight": 0.0},
                    {"from": "gpt", "value": f"Oak {i}", "weight": 1.0},
                ]
            }
        ),
        ("s Be brief.", "u Name tree 0."),
        [("Oak 0", None, None)],
    ),
    "Open-Orca/OpenOrca": (
        numbered(
            lambda i: {
                "id": "niv.1",
                "system_prompt": "Be brief.",
                "question": f"Name tree {i}.",
                "response": f"Oak {i}",
            }
        ),
        ("s Be brief.", "u Name tree 0."),
        [("Oak 0", None, None)],
    ),
    "teknium/OpenHermes-2.5": (
        numbered(
            lambda i: {
                "conversations": sharegpt(("human", f"Name tree {i}."), ("gpt", f"Oak {i}")),
                "source": "airoboros2.2",
                "category": "orca",
                "skip_prompt_formatting": None,
                "system_prompt": None,
                "custom_instruction": None,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, None)],
    ),
    "HuggingFaceH4/ultrachat_200k": (
        numbered(
            lambda i: {
                "prompt": f"Name tree {i}.",
                "prompt_id": "p",
                "messages": chat(
                    ("user", f"Name tree {i}."),
                    ("assistant", "Tall or small?"),
                    ("user", "Tall."),
                    ("assistant", f"Oak {i}"),
                ),
            }
        ),
        ("u Name tree 0.", "a Tall or small?", "u Tall."),
        [("Oak 0", None, None)],
    ),
    "HuggingFaceH4/no_robots": (
        numbered(
            lambda i: {
                "prompt": f"Name tree {i}.",
                "prompt_id": "p",
                "messages": chat(
                    ("system", "Be brief."), ("user", f"Name tree {i}."), ("assistant", f"Oak {i}")
                ),
                "category": "Generation",
            }
        ),
        ("s Be brief.", "u Name tree 0."),
        [("Oak 0", None, None)],
    ),
    "stingning/ultrachat": (
        numbered(lambda i: {"id": "0", "dialog": [f"Name tree {i}.", "Tall?", "Yes.", f"Oak {i}"]}),
        ("u Name tree 0.", "a Tall?", "u Yes."),
        [("Oak 0", None, None)],
    ),
    "databricks/databricks-dolly-15k": (
        numbered(
            lambda i: {
                "instruction": f"Name tree {i} of the text.",
                "context": "Oaks are trees.",
                "response": f"Oak {i}",
                "category": "closed_qa",
            }
        ),
        ("u Name tree 0 of the text.\n\nOaks are trees.",),
        [("Oak 0", None, None)],
    ),
    "tatsu-lab/alpaca": (
        numbered(
            lambda i: {
                "instruction": "Name the tree.",
                "input": f"quercus {i}",
                "output": f"Oak {i}",
                "text": "Below is an instruction …",
            }
        ),
        ("u Name the tree.\n\nquercus 0",),
        [("Oak 0", None, None)],
    ),
    "timdettmers/openassistant-guanaco": (
        numbered(
            lambda i: {
                "text": f"### Human: Name tree {i}.### Assistant: Tall?### Human: Yes."
                f"### Assistant: Oak {i}"
            }
        ),
        ("u Name tree 0.", "a Tall?", "u Yes."),
        [("Oak 0", None, None)],
    ),
    "OpenAssistant/oasst1 (trees)": (
        numbered(
            lambda i: {
                "message_tree_id": "m",
                "tree_state": "ready_for_export",
                "prompt": {
                    "message_id": "m",
                    "text": f"Name tree {i}.",
                    "role": "prompter",
                    "lang": "en",
                    "replies": [
                        {"text": f"Stone {i}", "role": "assistant", "rank": 1, "replies": []},
                        {"text": f"Oak {i}", "role": "assistant", "rank": 0, "replies": []},
                    ],
                },
            }
        ),
        ("u Name tree 0.",),
        [("Stone 0", -1.0, False), ("Oak 0", 0.0, True)],
    ),
    "trl-lib/kto-mix-14k": (
        numbered(
            lambda i: {
                "prompt": chat(("user", f"Name tree {i}.")),
                "completion": chat(("assistant", f"Oak {i}")),
                "label": i != 1,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, None)],
    ),
    "trl-lib/math_shepherd": (
        numbered(
            lambda i: {
                "prompt": f"How much is {i} + 1?",
                "completions": ["Step 1: add.", f"Step 2: it is {i + 1}."],
                "labels": [True, True],
            }
        ),
        ("u How much is 0 + 1?",),
        [("Step 1: add.\nStep 2: it is 1.", None, None)],
    ),
    "openai/gsm8k": (
        numbered(lambda i: {"question": f"{i} + 1?", "answer": f"Add.\n#### {i + 1}"}),
        ("u 0 + 1?",),
        [("Add.\n#### 1", None, None)],
    ),
    "meta-math/MetaMathQA": (
        numbered(
            lambda i: {
                "type": "GSM_Rephrased",
                "query": f"Name tree {i}.",
                "original_question": "Which tree?",
                "response": f"Oak {i}",
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, None)],
    ),
    "AI-MO/NuminaMath-CoT": (
        numbered(
            lambda i: {
                "source": "orca_math",
                "problem": f"Name tree {i}.",
                "solution": f"Oak {i}",
                "messages": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, None)],
    ),
    "Magpie-Align/Magpie-Pro": (
        numbered(
            lambda i: {
                "uuid": "u",
                "model": "llama",
                "gen_input_configs": {"temperature": 1.0},
                "instruction": f"Name tree {i}.",
                "response": f"Oak {i}",
                "conversations": sharegpt(("human", f"Name tree {i}."), ("gpt", f"Oak {i}")),
                "task_category": "Info",
                "reward": -8.25,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", -8.25, None)],
    ),
    "UCLA-AGI/SPIN_iter0": (
        numbered(
            lambda i: {
                "real": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "generated": chat(("user", f"Name tree {i}."), ("assistant", f"Stone {i}")),
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, True), ("Stone 0", None, False)],
    ),
    "LLaMA-Factory dpo_en_demo": (
        numbered(
            lambda i: {
                "conversations": sharegpt(("human", f"Name tree {i}.")),
                "chosen": {"from": "gpt", "value": f"Oak {i}"},
                "rejected": {"from": "gpt", "value": f"Stone {i}"},
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, True), ("Stone 0", None, False)],
    ),
    "LLaMA-Factory kto_en_demo": (
        numbered(
            lambda i: {
                "messages": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "label": i == 0,
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, None)],
    ),
    "ms-swift rlhf": (
        numbered(
            lambda i: {
                "messages": chat(
                    ("system", "Be brief."), ("user", f"Name tree {i}."), ("assistant", f"Oak {i}")
                ),
                "rejected_response": f"Stone {i}",
            }
        ),
        ("s Be brief.", "u Name tree 0."),
        [("Oak 0", None, True), ("Stone 0", None, False)],
    ),
    "ms-swift query-response": (
        numbered(
            lambda i: {
                "system": "Be brief.",
                "query": f"And tree {i}?",
                "response": f"Oak {i}",
                "history": [["Name a bush.", "Gorse."]],
            }
        ),
        ("s Be brief.", "u Name a bush.", "a Gorse.", "u And tree 0?"),
        [("Oak 0", None, None)],
    ),
    "MNPO scored": (
        numbered(
            lambda i: {
                "prompt": f"Name tree {i}.",
                "all_generated_responses": [f"Stone {i}", f"Oak {i}", f"Bush {i}"],
                "all_rm_scores": [0.25, 8.5, 3.0],
                "chosen": chat(("user", f"Name tree {i}."), ("assistant", f"Oak {i}")),
                "rejected": chat(("user", f"Name tree {i}."), ("assistant", f"Stone {i}")),
            }
        ),
        ("u Name tree 0.",),
        [("Stone 0", 0.25, False), ("Oak 0", 8.5, True), ("Bush 0", 3.0, None)],
    ),
    "SPARTA preference_pairs": (
        numbered(
            lambda i: {
                "instruction": f"Name tree {i}.",
                "chosen": f"Oak {i}",
                "rejected": f"Stone {i}",
            }
        ),
        ("u Name tree 0.",),
        [("Oak 0", None, True), ("Stone 0", None, False)],
    ),
}
