"""Which generations stay on the disk, and how a player is asked in another way."""

import pytest

from equipoise.errors import RunError
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.players.population import Population, with_decoding
from equipoise.types import PlayerId


def test_the_newest_generations_stay_by_their_number(tmp_path):
    for generation in (2, 9, 10, 11):
        (tmp_path / "policy" / str(generation)).mkdir(parents=True)
    (tmp_path / "policy" / "notes").mkdir()
    population = Population({}, tmp_path)
    population.forget("policy", 2, spared=[PlayerId("policy", 2)])
    left = sorted(path.name for path in (tmp_path / "policy").iterdir())
    assert left == ["10", "11", "2", "notes"]


def test_settings_of_sampling_are_changed_where_they_are_given():
    player = Player.build({"kind": "local", "model": "builtin", "temperature": 0.7})
    greedy = with_decoding(player, temperature=0.0, max_new_tokens=3)
    assert (greedy.temperature, greedy.max_new_tokens) == (0.0, 3)
    assert with_decoding(player) == player
    assert with_decoding(player, whole_context=True).max_length == 256
    scripted = Player.build({"kind": "scripted", "text": "a"})
    assert with_decoding(scripted, temperature=0.0, whole_context=True) == scripted


def test_a_whole_context_is_the_models_own_however_long(tmp_path):
    from transformers import LlamaConfig

    LlamaConfig(max_position_embeddings=8192).save_pretrained(tmp_path)
    for own in (None, 64, 4096):
        player = Player.build({"kind": "local", "model": str(tmp_path), "max_length": own})
        assert with_decoding(player, whole_context=True).max_length == 8192


def scripted(text, **more):
    return Player.build({"kind": "scripted", "text": text, **more})


def test_actors_are_opened_once_with_their_weights_and_closed(tmp_path):
    opened, closed = [], []

    class Open:
        def __init__(self, player, weights, resources):
            opened.append((player, weights, resources))

        def close(self):
            closed.append(self)

    ann, guest = scripted("a"), scripted("b")
    resources = Resources()
    kept = resources.get("kept", object)
    population = Population({"ann": ann}, tmp_path, resources=resources, open_actor=Open)
    first = PlayerId("ann", 1)
    with pytest.raises(RunError, match="the weights of ann@1 are gone; `keep` decides"):
        population.actor(first)
    population.home(first).mkdir(parents=True)
    actors = [population.actor(who) for who in (PlayerId("ann"), first, guest, first)]
    assert actors[1] is actors[3]
    assert population.actor(scripted("b")) is actors[2]
    folders = [(player, weights) for player, weights, _ in opened]
    assert folders == [(ann, None), (ann, tmp_path / "ann" / "1"), (guest, None)]
    assert all(each is resources for *_, each in opened)
    population.release(keep=["kept"])
    assert closed == actors[:3]
    assert resources.get("kept", object) is kept
    assert population.actor(first) is not actors[1]
    population.release()
    assert resources.get("kept", list) == [] or resources.get("kept", list) is kept


def test_a_learner_in_memory_plays_itself_and_is_adjusted(tmp_path):
    class Live:
        def __init__(self, settings=None):
            self.settings = settings

        def act(self, views, seeds):
            return []

        def close(self):
            pass

        def with_settings(self, settings):
            return Live(settings)

    live, opened = Live(), []

    def open_actor(player, weights, resources):
        opened.append(player)
        return Live(player)

    player = Player.build(
        {"kind": "local", "model": "builtin", "temperature": 0.7, "max_length": 64}
    )
    population = Population(
        {"ann": player, "ben": player},
        tmp_path,
        live=lambda who: live if who.name == "ann" else None,
        open_actor=open_actor,
    )
    ann, ben = PlayerId("ann"), PlayerId("ben")
    assert population.actor(ann) is live
    assert opened == []
    assert population.actor_with(ann, whole_context=False) is live
    adjusted = population.actor_with(ann, 0.0)
    assert (adjusted.settings.temperature, adjusted.settings.max_length) == (0.0, 256)
    colder = population.actor_with(ben, 0.0, 3)
    assert colder is population.actor_with(ben, 0.0, 3) is not population.actor_with(ben, 0.5, 3)
    assert [(p.temperature, p.max_new_tokens) for p in opened] == [(0.0, 3), (0.5, 3)]
    assert population.actor_with(ben, whole_context=False) is population.actor(ben)


def test_every_generation_decodes_by_its_own_weights(tmp_path):
    """Asked in one way, each is another actor, in whichever order they are asked for."""
    opened = []

    def open_actor(player, weights, resources):
        opened.append((player.temperature, weights))
        return object()

    player = Player.build({"kind": "local", "model": "builtin", "temperature": 0.7})
    population = Population({"ann": player, "ben": player}, tmp_path, open_actor=open_actor)
    everybody = [PlayerId("ann", 2), PlayerId("ben"), PlayerId("ann"), PlayerId("ann", 1)]
    for who in everybody:
        if who.generation:
            population.home(who).mkdir(parents=True)
    actors = [population.actor_with(who, 0.25) for who in everybody]
    assert opened == [
        (0.25, tmp_path / "ann" / "2"),
        (0.25, None),
        (0.25, None),
        (0.25, tmp_path / "ann" / "1"),
    ]
    assert len(set(map(id, actors))) == 4
    assert [population.actor_with(who, 0.25) for who in everybody] == actors


def test_generations_that_are_kept_are_counted_from_the_start(tmp_path):
    for name in ("2", "10", "1x", "state"):
        (tmp_path / "ann" / name).mkdir(parents=True)
    population = Population({"ann": scripted("a")}, tmp_path)
    assert population.kept("ann") == [0, 2, 10]
    assert population.kept("ben") == [0]
    assert population.weights(PlayerId("ann")) is None
