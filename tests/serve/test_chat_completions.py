"""Messages as clients write them."""

import pytest

from equipoise.serve.chat_completions import ChatMessage
from equipoise.types import Message


@pytest.mark.parametrize(
    ("role", "read"), [("developer", "system"), ("system", "system"), ("user", "user")]
)
def test_a_developer_speaks_as_the_system(role, read):
    assert ChatMessage(role=role, content="a").read() == Message(read, "a")


def test_parts_of_a_text_are_one_text():
    parts = [{"type": "text", "text": text} for text in ("a ", "b")]
    message = ChatMessage.model_validate({"role": "user", "content": parts})
    assert message.read() == Message("user", "a b")
