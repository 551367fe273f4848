"""Four fields of short questions, and members who each know one of them."""

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Judge": {"likely_peers": "equipoise.environments.fields.likely_peers:LikelyPeers"},
    "Measure": {"field_share": "equipoise.environments.fields.field_measures:FieldShare"},
    "Prompts": {"field_questions": "equipoise.environments.fields.field_questions:FieldQuestions"},
    "WarmStart": {"fields": "equipoise.environments.fields.field_start:FieldStart"},
}
