"""Kinds, models and adapters that the built-in world adds to the rooms."""

from collections.abc import Mapping

KINDS: Mapping[str, Mapping[str, str]] = {
    "Judge": {
        "clerk": "equipoise.environments.clerk.judge:ClerkJudge",
        "clerk_assistance": ("equipoise.environments.clerk.judge:ClerkAssistanceJudge"),
        "clerk_guard": "equipoise.environments.clerk.judge:ClerkGuard",
    },
    "Prompts": {
        "clerk_questions": "equipoise.environments.clerk.clerk_prompts:ClerkQuestions",
        "clerk_requests": "equipoise.environments.clerk.clerk_prompts:ClerkRequests",
    },
}
MODELS: Mapping[str, str] = {
    "builtin": "model",
    "builtin/beginner": "beginner_model",
    "builtin/pool": "pool/base",
    "builtin/expert": "expert_model",
    "builtin/red_team": "red_team_model",
    "builtin/assistant": "assistance_model",
    "builtin/assistant_beginner": "assistance_beginner_model",
}
ADAPTERS: Mapping[str, str] = {
    "builtin/asker": "pool/asker",
    "builtin/guard": "pool/guard",
    "builtin/helper": "pool/helper",
    "builtin/novice": "pool/novice",
    "builtin/sums": "pool/sums",
    "builtin/veteran": "pool/veteran",
}
TEACHERS: Mapping[str, Mapping[str, str]] = {
    "clerk": {"kind": "scripted", "call": "equipoise.environments.clerk.assistance_players:teacher"}
}
