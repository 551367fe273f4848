"""Short answers in one of three forms, which a majority prefers in a circle."""

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Judge": {"form_order": "equipoise.environments.forms.form_judge:FormOrder"},
    "Measure": {
        "form_exploitability": "equipoise.environments.forms.form_measures:FormExploitability",
        "form_share": "equipoise.environments.forms.form_measures:FormShare",
    },
    "Prompts": {"topic_questions": "equipoise.environments.forms.topic_questions:TopicQuestions"},
    "WarmStart": {"forms": "equipoise.environments.forms.form_start:FormStart"},
}
