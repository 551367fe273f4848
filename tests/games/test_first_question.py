"""What a game asks first stands for a prompt without a text."""

from equipoise.games.answers import Answers
from equipoise.types import Prompt


class Over(Answers):
    """Ends before anybody is asked."""

    kind: str = "over"

    def referee(self, prompt):
        return
        yield


def test_a_match_that_ends_before_anybody_is_asked_leaves_the_prompt_as_it_is():
    prompt = Prompt("p", ())
    assert Over().first_question(prompt) is prompt
