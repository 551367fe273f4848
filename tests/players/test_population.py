"""Which generations stay on the disk, and how a player is asked in another way."""

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
    player = Player.build({"kind": "local", "model": "m", "temperature": 0.7})
    greedy = with_decoding(player, temperature=0.0, max_new_tokens=3)
    assert (greedy.temperature, greedy.max_new_tokens) == (0.0, 3)
    assert with_decoding(player) == player
    scripted = Player.build({"kind": "scripted", "text": "a"})
    assert with_decoding(scripted, temperature=0.0, whole_context=True) == scripted
