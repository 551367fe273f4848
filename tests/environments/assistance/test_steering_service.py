"""A steered assistant over HTTP: the packaged assistant of the built-in world, asked by the
official client.
"""

import pytest
from openai import BadRequestError, NotFoundError, OpenAI

from equipoise.environments.assistance.responses import response_action
from equipoise.environments.assistance.steering import Steering
from equipoise.environments.assistance.steering_extension import SteeringExtension
from equipoise.players.local import Local
from equipoise.serve.catalogue import Catalogue

ASK = {
    "model": "assistant",
    "messages": [{"role": "user", "content": "What is 7 plus?"}],
    "temperature": 0,
    "seed": 1,
}
NO_QUESTIONS = {"pricing": {"kind": "costs", "user": {"CQ": 6}}, "by": "sum", "question": "VQ"}


@pytest.fixture(scope="module")
def assistant():
    """The clerk behind a server's catalogue, its blocks hidden."""
    base = Steering.model_validate({"mode": "strip"})
    extensions = {"steering": SteeringExtension(base)}
    return Catalogue.of_player("assistant", Local(model="builtin/assistant"), extensions)


@pytest.mark.long
def test_the_official_client_steers_by_name_and_by_field(serving, assistant):
    with (
        serving(assistant) as address,
        OpenAI(base_url=address.url, api_key="secret", max_retries=0) as client,
    ):
        plain = client.chat.completions.create(**ASK)
        assert plain.choices[0].message.content == "Plus what?"
        assert "equipoise" not in (plain.choices[0].message.model_extra or {})
        # the hidden blocks count
        assert plain.usage is not None
        assert plain.usage.completion_tokens > 40

        wanted = {"steering": NO_QUESTIONS, "equipoise": {"blocks": True}}
        steered = client.chat.completions.create(**ASK, extra_body=wanted).choices[0].message
        hidden = (steered.model_extra or {})["equipoise"]
        assert hidden["chosen"] == "VQ_AQ"
        assert hidden["steered"]
        assert response_action(steered.content or "") == "AQ"
        assert hidden["edited"]["VQ_CQ"]["user"] == pytest.approx(
            hidden["written"]["VQ_CQ"]["user"] - 6
        )
        assert hidden["thinking"].startswith("VQ")
        assert "<" not in (steered.content or "")

        chunks = list(client.chat.completions.create(**ASK, extra_body=wanted, stream=True))
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == steered.content
        assert (chunks[-1].choices[0].delta.model_extra or {})["equipoise"] == hidden
        assert all(
            "equipoise" not in (chunk.choices[0].delta.model_extra or {}) for chunk in chunks[:-1]
        )

        named = client.chat.completions.create(**{**ASK, "model": "assistant:none"})
        assert named.model == "assistant:none"
        assert named.choices[0].message.content == "Plus what?"
        raw = (
            client.chat.completions.create(**{**ASK, "model": "assistant:off"})
            .choices[0]
            .message.content
        )
        assert raw is not None
        assert raw.startswith("<thinking>")

        with pytest.raises(NotFoundError, match="did you mean 'subscription'"):
            client.chat.completions.create(**{**ASK, "model": "assistant:subscripton"})
        for wish in ({"text": "/etc/passwd"}, {"kind": "os:system"}, "os:system", 7):
            with pytest.raises(BadRequestError) as caught:
                client.chat.completions.create(**ASK, extra_body={"steering": wish})
            assert caught.value.param == "steering"
        reply = address.post({**ASK, "equipoise": {"blocks": "all of them"}})
        assert reply.status_code == 400
        assert reply.json()["error"]["param"] == "equipoise.blocks"
