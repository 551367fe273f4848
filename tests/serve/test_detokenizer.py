"""Streamed text: whole characters, nothing of what ends it, and all of it together is the decoded
answer.
"""

import random

import pytest

from equipoise.models.loading import load_encoding
from equipoise.serve.detokenizer import Detokenizer, StopTexts

TEXTS = ["naïve café — 12 €, 日本語 🙂👩‍👩‍👧 fin", "  two  spaces\n\n\tand tabs ", "🙂", "a\ufffdb"]


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3", "plain"])
def test_pieces_are_whole_characters_and_make_the_decoded_text(model_folder, family):
    encoding = load_encoding(str(model_folder(family)))
    dice = random.Random(5)
    ids_of = [encoding.text_ids(text) for text in TEXTS]
    plain = [i for i in range(len(encoding.tokenizer)) if i not in encoding.stop_ids]
    ids_of += [dice.choices(plain, k=dice.randint(1, 60)) for _ in range(60)]
    for ids in ids_of:
        decoder = Detokenizer(encoding.tokenizer)
        pieces = [decoder.add(token) for token in ids]
        assert "".join(pieces) + decoder.end() == encoding.decode(ids)
        if ids in ids_of[:3]:
            assert not any("\ufffd" in piece for piece in pieces)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
def test_an_answer_goes_on_from_its_beginning(model_folder, family):
    encoding = load_encoding(str(model_folder(family)))
    for text in ("It is seven", "", "€🙂"):
        before, after = encoding.text_ids(text), encoding.text_ids(" and that is 8 €.")
        decoder = Detokenizer(encoding.tokenizer, before)
        said = "".join([decoder.add(token) for token in after]) + decoder.end()
        assert encoding.decode(before) + said == encoding.decode(before + after)


@pytest.mark.parametrize(
    ("texts", "pieces", "expected", "stopped"),
    [
        (["</payoff>"], ["a </pay", "off", "> b"], "a ", True),
        (["</payoff>"], ["a </pay", "ment>"], "a </payment>", False),
        (["ab", "b"], ["xa", "b"], "x", True),
        (["aab"], ["a", "a", "a", "b", "c"], "a", True),
        (["\n\n"], ["one\n", "two\n", "\nthree"], "one\ntwo", True),
        ([], ["as it is"], "as it is", False),
    ],
)
def test_what_ends_an_answer_is_never_shown(texts, pieces, expected, stopped):
    stops, said = StopTexts(texts), ""
    for piece in pieces:
        text, ended = stops.add(piece)
        said += text
        if ended:
            break
    else:
        ended, said = False, said + stops.end()
    assert (said, ended) == (expected, stopped)


def test_only_what_may_begin_an_ending_is_kept_back():
    assert StopTexts(["</x>"]).add("hello <") == ("hello ", False)
    assert StopTexts(["</x>"]).add("hello < ") == ("hello < ", False)


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_whole_characters_are_told_as_soon_as_they_come(model_folder, family):
    encoding = load_encoding(str(model_folder(family)))
    ids = encoding.text_ids("It is seven, and the train leaves at eight.")
    decoder, told = Detokenizer(encoding.tokenizer), ""
    for n, token in enumerate(ids, 1):
        told += decoder.add(token)
        assert told == encoding.decode(ids[:n])
    assert decoder.end() == ""
