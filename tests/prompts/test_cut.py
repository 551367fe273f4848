"""Cutting long prompts: the last message only, and what is left makes the identity."""

import json

from equipoise.prompts.prompt_files import Files


def test_the_last_message_is_cut_and_nothing_else(tmp_path):
    chats = [
        [{"role": "system", "content": "be brief"}, {"role": "user", "content": text}]
        for text in ("abcdef", "abcxyz")
    ]
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": chat, "n": i}) + "\n" for i, chat in enumerate(chats))
    )
    first, second = Files.model_validate({"path": str(path), "cut_at": 3}).load().training
    assert [message.content for message in first.messages] == ["be brief", "abc"]
    assert first.id == second.id and first.facts == {"n": 0}
    whole, _ = Files.model_validate({"path": str(path), "cut_at": 6}).load().training
    assert whole == Files.model_validate({"path": str(path)}).load().training[0]
