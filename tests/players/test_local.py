"""The local player: it acts, it scores, its generations share one base, and one bad prompt does not
stop a batch.
"""

import math
import subprocess
import sys

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from equipoise.errors import DataError, ModelError
from equipoise.models.adapters import Lora
from equipoise.models.loading import load_model
from equipoise.models.logprobs import answer_logprobs
from equipoise.models.resources import Resources
from equipoise.players.base import Player, Scorer
from equipoise.players.local import Local
from equipoise.types import Message, Prompt, View, user

FAMILIES = ["llama", "qwen3", "gemma3"]
LORA = Lora(r=2, alpha=4)
CHATS = [
    (user("Yes or no?"),),
    (user("How much is three and four? Then say why."),),
    (user("Why?"),),
]
VIEWS = [View(chat) for chat in CHATS]


def player(folder, **settings) -> Local:
    return Local(**{"model": str(folder), "max_new_tokens": 12, **settings})


@pytest.mark.parametrize("family", FAMILIES)
def test_it_answers_in_order_with_all_that_a_move_tells(model_folder, family):
    actor = player(model_folder(family)).open(None, Resources())
    encoding = actor.player.encoding()
    moves = actor.act(VIEWS, [1, 2, 3])
    for chat, move in zip(CHATS, moves, strict=True):
        assert move.prompt_tokens == len(encoding.prompt_ids(chat))
        assert move.text == encoding.decode(move.token_ids)
        assert move.text
        assert len(move.token_ids) == len(move.logprobs) <= 12
        assert max(move.logprobs) <= 0
        assert (move.finish == "stop") == (move.token_ids[-1] in encoding.stop_ids)
    assert actor.act(VIEWS[::-1], [3, 2, 1])[::-1] == moves


@pytest.mark.long
def test_what_it_samples_is_what_it_scores(model_folder):
    """The log-probabilities of an answer that ended are found again when its text is scored."""
    actor = player(model_folder("qwen3"), max_new_tokens=6, batch_size=2500).open(None, Resources())
    assert isinstance(actor, Scorer)
    encoding = actor.player.encoding()
    moves = actor.act([VIEWS[0]] * 2500, range(2500))
    same = [move for move in moves if tuple(encoding.answer_ids(move.text)) == move.token_ids]
    assert len(same) >= 5, "answers that are tokenised as they were sampled"
    scores = actor.logprobs([CHATS[0]] * len(same), [move.text for move in same])
    for move, (total, count) in zip(same, scores, strict=True):
        assert count == len(move.token_ids)
        assert total == pytest.approx(sum(move.logprobs), abs=1e-3)


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_a_plain_forward_pass(model_folder, family):
    actor = player(model_folder(family)).open(None, Resources())
    encoding, model = actor.player.encoding(), load_model(str(model_folder(family)))
    texts = ["no", "It is seven, I think.", ""]
    cut = [False, True, False]
    scores = actor.logprobs(CHATS, texts, cut=cut)
    for chat, text, was_cut, (total, count) in zip(CHATS, texts, cut, scores, strict=True):
        start = len(encoding.prompt_ids(chat))
        ids = encoding.join(chat, text)[0][
            : start + len(encoding.text_ids(text)) + 9 * (not was_cut)
        ]
        with torch.no_grad():
            logprob_TV = model(torch.tensor([ids])).logits[0, :-1].log_softmax(-1)
        expected = logprob_TV.gather(1, torch.tensor(ids)[1:, None])[start - 1 :].sum()
        assert (count, total) == (len(ids) - start, pytest.approx(float(expected), abs=1e-3))


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_many_adapters_share_one_base(model_folder, adapter_folder, family):
    folder, resources = model_folder(family), Resources()
    configured = player(folder, lora=LORA)
    before = configured.open(None, resources).act(VIEWS, [1, 2, 3])
    base = load_model(str(folder)).num_parameters()
    adapters = [adapter_folder(family, n) for n in range(3)]
    actors = [
        configured.open(None, resources),
        *(configured.open(place, resources) for _, place in adapters),
    ]
    encoding = configured.encoding()
    joined = [encoding.join(chat, "It is seven.") for chat in CHATS]
    ids, starts = [ids for ids, _ in joined], [start for _, start in joined]
    for _ in range(2):  # in turns, so that each has to find its own adapter again
        for actor, model in zip(
            actors, [load_model(str(folder)), *(model for model, _ in adapters)], strict=True
        ):
            expected = answer_logprobs(model, ids, starts, encoding.pad_id)
            found = actor.logprobs(CHATS, ["It is seven."] * 3)
            assert [total for total, _ in found] == pytest.approx(
                [total for total, _ in expected], abs=1e-3
            )
    assert actors[0].act(VIEWS, [1, 2, 3]) == before, "the model as given is what it was"
    assert len({tuple(move.text for move in actor.act(VIEWS, [1, 2, 3])) for actor in actors}) == 4
    size = sum(
        parameter.numel()
        for name, parameter in adapters[0][0].named_parameters()
        if "lora_" in name
    )
    with actors[0]._model() as model:
        assert sum(parameter.numel() for parameter in model.parameters()) == base + 3 * size


@pytest.mark.long
def test_a_generation_of_full_weights_is_its_own_model(model_folder, tmp_path):
    folder, resources = model_folder("gemma3"), Resources()
    model = load_model(str(folder))
    with torch.no_grad():
        model.get_input_embeddings().weight.add_(0.05)
    model.save_pretrained(tmp_path)
    start, learned = (player(folder).open(weights, resources) for weights in (None, tmp_path))
    assert start.encoding == learned.encoding, "the encoding is the base's"
    assert start.act(VIEWS, [1, 2, 3]) != learned.act(VIEWS, [1, 2, 3])
    texts = ["yes"] * 3
    assert start.logprobs(CHATS, texts) != learned.logprobs(CHATS, texts)
    with learned._model() as one, player(folder).open(tmp_path, resources)._model() as two:
        assert one is two


def test_a_prompt_without_room_is_an_error_move_beside_good_ones(model_folder):
    actor = player(model_folder("llama"), max_length=60).open(None, Resources())
    moves = actor.act([VIEWS[0], View((user("Why? " * 60),)), View(()), VIEWS[2]], [1, 2, 3, 4])
    assert [move.finish == "error" for move in moves] == [False, True, True, False]
    assert "max_length = 60" in moves[1].error
    assert not moves[1].text
    assert not moves[1].token_ids
    for n, view, seed in ((0, VIEWS[0], 1), (3, VIEWS[2], 4)):
        assert moves[n].token_ids == actor.act([view], [seed])[0].token_ids
    assert actor.act([], []) == []
    with pytest.raises(DataError, match="leaves no room"):
        actor.logprobs([(user("Why? " * 60),)], ["yes"])


@pytest.mark.long
def test_logits_that_are_no_numbers_are_an_error_move_beside_good_ones(model_folder):
    for settings in ({}, {"temperature": 0.0, "max_new_tokens": 4}, {"top_p": 0.5}):
        local, resources = player(model_folder("llama"), **settings), Resources()
        actor = local.open(None, resources)
        expected = actor.act(VIEWS, [1, 2, 3])
        (poison,) = local.encoding().text_ids("#")

        def spoil(module, inputs, hidden, poison=poison):
            spoilt = (inputs[0] == poison)[..., None]
            return hidden.masked_fill(spoilt, float("nan"))

        embeddings = local.base(None, resources)[0].model.get_input_embeddings()
        with embeddings.register_forward_hook(spoil):
            spoilt = View((user("a # b"),))
            moves = actor.act([*VIEWS, spoilt], [1, 2, 3, 4])
        assert moves[3].finish == "error"
        assert "not numbers" in moves[3].error
        texts = [(move.text, move.finish) for move in expected]
        assert [(move.text, move.finish) for move in moves[:3]] == texts


def test_an_answer_stops_where_the_context_ends(model_folder):
    length = len(player(model_folder("llama")).encoding().prompt_ids(CHATS[0]))
    actor = player(model_folder("llama"), max_length=length + 2, max_new_tokens=50).open(
        None, Resources()
    )
    move = actor.act(VIEWS[:1], [5])[0]
    assert len(move.token_ids) <= 2
    assert move.finish == "length" or len(move.token_ids) < 3


def test_temperature_nought_is_greedy_whatever_the_seed(model_folder):
    actor = player(model_folder("qwen3"), temperature=0).open(None, Resources())
    greedy = actor.act(VIEWS, [4, 5, 6])
    assert actor.act(VIEWS, [1, 2, 3]) == greedy
    actor = player(model_folder("qwen3"), temperature=1e-300).open(None, Resources())
    assert actor.act(VIEWS, [1, 2, 3]) == greedy


def test_players_of_other_templates_do_not_share_an_encoding(model_folder):
    resources = Resources()
    think, hush = (
        player(model_folder("qwen3"), template_options=options).open(None, resources)
        for options in ({}, {"enable_thinking": False})
    )
    assert think.encoding != hush.encoding
    with think._model() as one, hush._model() as two:
        assert one is two, "the model they do share"


def test_want_of_memory_names_the_setting(model_folder, monkeypatch):
    actor = player(model_folder("llama")).open(None, Resources())

    def fail(*_args, **_settings):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr("equipoise.sampling.sampling.sample", fail)
    with pytest.raises(ModelError, match="batch_size = 64 and up to 256 tokens"):
        actor.act(VIEWS, [1, 2, 3])


def test_it_is_configured_as_any_component(model_folder):
    adapter = TypeAdapter(Player)
    made = adapter.validate_python(
        {"kind": "local", "model": "a/b", "lora": {"r": 8}, "learns": True}
    )
    assert isinstance(made, Local)
    assert made.lora == Lora(r=8)
    assert adapter.validate_python(made.settings()) == made
    for wrong in (
        {"temprature": 1},
        {"temperature": -1},
        {"top_p": 0},
        {"dtype": "int8"},
        {"lora": {"rank": 2}},
    ):
        with pytest.raises(ValidationError):
            adapter.validate_python({"kind": "local", **wrong})
    with pytest.raises(ModelError, match="does not exist"):
        player("/no/such/folder").open(None, Resources())


@pytest.mark.long
def test_its_configuration_loads_no_torch():
    code = "import sys, equipoise.players.local; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_system_message_reaches_the_model(model_folder):
    actor = player(model_folder("llama")).open(None, Resources())
    plain, told = actor.logprobs(
        [CHATS[0], (Message("system", "Say no."), *CHATS[0])], ["no", "no"]
    )
    assert plain != told


def test_other_settings_keep_the_model_and_have_their_own_limits(model_folder):
    actor = player(model_folder("llama")).open(None, Resources())
    room = len(actor.player.encoding().prompt_ids(CHATS[0])) + 2
    shorter = actor.with_settings(player(model_folder("llama"), max_length=room))
    assert shorter.limits([[0] * (room - 2)]) == [2]
    assert actor.limits([[0] * (room - 2)]) == [12]
    assert shorter.adapted is actor.adapted
    assert shorter.encoding != actor.encoding


def test_the_longest_prompts_are_read_before_a_run(model_folder):
    """Thirty-two of them, at most, and the longest is the one that is named."""
    prompts = [Prompt(str(n), (user("a" + " why" * (60 + n)),)) for n in range(34)]
    (fault,) = player(model_folder("llama"), max_length=100).faults_of_prompts(prompts)
    assert fault.endswith("(so do 31 more)")
    longest = player(model_folder("llama"), max_length=100).faults_of_prompts(prompts[-1:])
    assert fault.startswith(next(longest))
    assert not [*player(model_folder("llama")).faults_of_prompts(prompts[:1])]


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_products_in_bfloat16_cast_weights_once_and_give_them_back(model_folder, family):
    own = player(model_folder(family), device="cpu", precision="bf16").open(None, Resources())
    plain = player(model_folder(family), device="cpu").open(None, Resources())
    with own._model() as model:
        layers = [layer for layer in model.modules() if type(layer) is torch.nn.Linear]
        assert {layer.weight.dtype for layer in layers} == {torch.bfloat16}
        assert model.get_input_embeddings().weight.dtype == torch.float32
        with torch.profiler.profile(record_shapes=True) as found:
            own.act(VIEWS, [1, 2, 3])
    copied = {
        str(event.input_shapes) for event in found.events() or () if event.name == "aten::copy_"
    }
    wide = [str(list(layer.weight.shape)) for layer in layers]
    assert not any(shape in copy for shape in wide for copy in copied)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    with torch.autocast("cpu", torch.bfloat16):
        expected = plain.act(VIEWS, [1, 2, 3])
        scores = plain.token_sums([[3, 4], [5, 6]], [[7, 8], [9]])
    assert own.act(VIEWS, [1, 2, 3]) == expected != plain.act(VIEWS, [1, 2, 3])
    assert own.token_sums([[3, 4], [5, 6]], [[7, 8], [9]]) == scores
    head = model.get_output_embeddings().weight
    with pytest.raises(ZeroDivisionError), own._model():
        raise ZeroDivisionError
    assert model.get_output_embeddings().weight is head
    if model.config.tie_word_embeddings:
        assert head is model.get_input_embeddings().weight


@pytest.mark.long
def test_grades_up_to_ten_take_one_reading(monkeypatch, model_folder):
    actor = player(model_folder("llama")).open(None, Resources())
    calls = []
    monkeypatch.setattr(type(actor), "token_sums", lambda *_: calls.append("again"))
    views = [View((user("1 and 2"),)), View((user("3"),))]
    words = [str(grade) for grade in range(1, 11)]
    readings = actor.word_probabilities(views, words)
    lengths = {len(actor._encoding.text_ids(word)) for word in words}
    assert lengths == {1, 2}
    assert calls == []
    monkeypatch.undo()
    prompts, _ = actor.read(views)
    ten = actor._encoding.text_ids("10")
    sums = actor.token_sums(list(prompts.values()), [ten, ten])
    for reading, total in zip(readings, sums, strict=True):
        assert reading.probabilities[-1] == pytest.approx(math.exp(total), rel=1e-3)
