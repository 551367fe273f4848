"""Which models a run offers, who answers for a name, and whom the mixture draws."""

import asyncio
import shutil

import pytest

from equipoise.errors import ConfigError, RunError
from equipoise.models.resources import Resources
from equipoise.planning.new_run import new_run
from equipoise.players.local import Local
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory
from equipoise.serve import server
from equipoise.serve.catalogue import Catalogue, OfferedModel
from equipoise.serve.engine import (
    EngineRequest,
    Extension,
    ExtensionRequest,
    Refused,
    extension_offers,
)
from equipoise.serve.protocol import Problem
from equipoise.serve.settings import (
    ChatSettings,
    ServeSettings,
    catalogue_of,
    game_of,
    with_extensions,
)
from equipoise.types import View, user


@pytest.fixture
def folder(tmp_path, model_folder, adapter_folder):
    """A run of a tiny model, as after three generations of which the second was not kept."""
    settings = [
        f"policy.model={model_folder('llama')}",
        "policy.lora={r: 2, alpha: 4}",
        "policy.max_new_tokens=8",
    ]
    with new_run(recipe_loader.load("quickstart", settings), tmp_path / "run") as run:
        for generation in (1, 3):
            shutil.copytree(
                adapter_folder("llama", generation)[1],
                run.folder / "players/policy" / str(generation),
            )
        run.ledger.finish("0/measure", 0, "measure", {"mixture": {"policy@0": 1.0}}, 0.0)
        mixture = {"policy@0": 0.0, "policy@1": 0.25, "policy@3": 0.75}
        run.ledger.finish("3/measure", 3, "measure", {"mixture": mixture}, 0.0)
    return tmp_path / "run"


async def said(catalogue: Catalogue, model: str, seed: int) -> tuple[str, str]:
    found = await catalogue.find(model, seed)
    question = EngineRequest((user("Why?"),), seed=seed, max_tokens=found.defaults.max_tokens)
    return found.name, "".join([piece.text async for piece in found.engine.generate(question)])


@pytest.mark.long
def test_a_run_offers_every_kept_generation(folder):
    catalogue = Catalogue.of_run(folder)
    assert catalogue.names == ["policy@0", "policy@1", "policy@3", "policy", "mixture"]
    catalogue.warm()

    async def ask() -> dict[str, tuple[str, str]]:
        found = {name: await said(catalogue, name, 5) for name in catalogue.names}
        await catalogue.close()
        return found

    found = asyncio.run(ask())
    with RunDirectory.read(folder) as run:
        player = run.config.players["policy"]
    for generation in (0, 1, 3):
        weights = folder / "players/policy" / str(generation) if generation else None
        move = player.open(weights, Resources()).act([View((user("Why?"),))], [5])[0]
        assert found[f"policy@{generation}"] == (f"policy@{generation}", move.text)
    assert found["policy"] == found["policy@3"]
    assert found["mixture"] in (found["policy@1"], found["policy@3"])


@pytest.mark.long
def test_settings_change_the_players_of_a_run(folder):
    catalogue = catalogue_of(str(folder), {"temperature": 0.5})
    assert catalogue.names == Catalogue.of_run(folder).names
    assert {offer.player.temperature for offer in catalogue.offers.values()} == {0.5}
    with pytest.raises(ConfigError, match="did you mean 'temperature'"):
        catalogue_of(str(folder), {"tempurature": 0.5})


@pytest.mark.long
def test_the_mixture_is_drawn_by_the_requests_seed(folder):
    catalogue = Catalogue.of_run(folder)

    async def draw() -> list[str]:
        return [(await catalogue.find("mixture", seed)).name for seed in range(2000)]

    drawn = asyncio.run(draw())
    assert drawn == asyncio.run(draw())
    assert set(drawn) == {"policy@1", "policy@3"}
    assert drawn.count("policy@3") / 2000 == pytest.approx(0.75, abs=0.04)


@pytest.mark.long
def test_a_mixture_of_what_is_not_kept_is_not_offered(folder):
    shutil.rmtree(folder / "players/policy/1")
    catalogue = Catalogue.of_run(folder)
    assert "mixture" not in catalogue.names
    assert "policy@1" in catalogue.notes[0]


@pytest.mark.long
def test_what_is_not_served_is_told_before_it_is_served(folder, command, monkeypatch):
    shutil.rmtree(folder / "players/policy/1")
    served = []
    monkeypatch.setattr(server, "serve", lambda catalogue, *_: served.append(catalogue.names))
    result = command("serve", folder, "--port", "0", "--no-token")
    assert result.code == 0
    assert served == [["policy@0", "policy@3", "policy"]]
    assert "note: the mixture is not served: policy@1 is not kept" in result.err


def test_players_that_are_no_language_model_are_not_offered(tmp_path):
    with new_run(recipe_loader.load("rock_paper_scissors"), tmp_path / "run"):
        pass
    with pytest.raises(RunError, match="no player of this run is a language model"):
        Catalogue.of_run(tmp_path / "run")


def test_players_beside_a_language_model_are_named_with_their_kind(tmp_path):
    recipe = {
        "name": "mixed",
        "generations": 0,
        "players": {
            "model": {"kind": "local", "model": "builtin"},
            "poet": {"kind": "scripted", "text": "O"},
            "far": {"kind": "endpoint", "base_url": "http://127.0.0.1:9/v1", "model": "far"},
            "clerk": {"kind": "scripted", "text": "It is 3."},
        },
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": "answers",
        "judge": "shorter",
        "evaluate": "sets",
    }
    with new_run(recipe_loader.load(recipe), tmp_path / "run"):
        pass
    catalogue = Catalogue.of_run(tmp_path / "run")
    assert catalogue.names == ["model@0", "model"]
    scripted = "is not served: its kind is scripted, which is no language model"
    assert [note for note in catalogue.notes if "is not served" in note] == [
        f"poet {scripted}",
        "far is not served: another server has it; ask http://127.0.0.1:9/v1 yourself",
        f"clerk {scripted}",
    ]


def test_the_mixture_is_that_of_the_last_measurement(tmp_path):
    local = {"kind": "local", "model": "builtin"}
    recipe = {
        "name": "two",
        "generations": 0,
        "players": {"ann": local, "ben": {**local, "temperature": 0.5}},
        "prompts": {"kind": "blank", "per_generation": 1, "held_out": 0},
        "game": "answers",
        "judge": "shorter",
        "evaluate": "sets",
    }
    mixtures = [{"ann@0": 1.0}, {"ann@0": 0.25, "ben@0": 0.75}, {"ben@0": 0.625, "ann@0": 0.375}]
    with new_run(recipe_loader.load(recipe), tmp_path / "run") as run:
        for t, mixture in enumerate(mixtures):
            run.ledger.finish(f"{t}/measure", t, "measure", {"mixture": mixture}, 0.0)
    assert Catalogue.of_run(tmp_path / "run").mixture == mixtures[-1]


@pytest.mark.parametrize("way", ["find", "find_text"])
def test_what_a_client_leaves_open_is_set_as_its_own_model_has_it(way, fake_engine, fake_catalogue):
    """Of three models with other settings, of which the last is the newest."""
    catalogue = fake_catalogue({name: fake_engine() for name in ("old", "middle", "new")})
    sampling = {"old": (0.25, 11), "middle": (0.5, 13), "new": (0.75, 17)}
    catalogue.offers = {
        name: OfferedModel(Local(temperature=temperature, max_new_tokens=tokens))
        for name, (temperature, tokens) in sampling.items()
    }
    catalogue.aliases = {"middling": "middle"}

    async def ask() -> dict[str, tuple[str, float, int]]:
        found = {}
        for name in (*sampling, "middling"):
            served = await getattr(catalogue, way)(name, 0)
            defaults = served.defaults
            found[name] = (served.name, defaults.temperature, defaults.max_tokens)
        return found

    own = {name: (name, *of_name) for name, of_name in sampling.items()}
    assert asyncio.run(ask()) == {**own, "middling": own["middle"]}


class FakeExtension(Extension):
    """Answers with another engine where anything is asked; remembers what was."""

    def __init__(self, other) -> None:
        self.other, self.seen = other, []

    def wrap(self, engine, value=None, *, report=False):
        self.seen.append((value, report))
        if value == "nonsense":
            raise Refused("steering: unknown name 'nonsense'")
        return engine if value is None else self.other


def test_a_name_with_a_suffix_and_a_field_are_steered(fake_engine, fake_catalogue):
    plain, extension = fake_engine(), FakeExtension(fake_engine(words=("steered",)))
    catalogue = fake_catalogue(
        {"policy@1": plain, "qwen:8b": fake_engine()},
        aliases={"policy": "policy@1"},
        extensions={"steering": extension},
    )
    wish = {"steering": ExtensionRequest({"pricing": "latency"}, report=True)}

    async def ask() -> None:
        assert (await catalogue.find("policy", 0)).engine is plain
        found = await catalogue.find("policy:latency", 0)
        assert found.name == "policy@1:latency"
        assert found.engine is not plain
        await catalogue.find("policy@1", 0, wish)
        with pytest.raises(Problem, match="unknown name 'nonsense'") as caught:
            await catalogue.find("policy:nonsense", 0)
        assert caught.value.status == 404
        assert caught.value.param == "model"
        with pytest.raises(Refused):
            await catalogue.find("policy", 0, {"steering": ExtensionRequest("nonsense")})
        assert (await catalogue.find("qwen:8b", 0)).name == "qwen:8b"
        assert (await catalogue.find("qwen:8b:latency", 0)).name == "qwen:8b:latency"
        with pytest.raises(Refused, match="not by both"):
            await catalogue.find("policy:latency", 0, {"steering": ExtensionRequest("user")})
        with pytest.raises(Problem, match="'nobody:latency'"):
            await catalogue.find("nobody:latency", 0)

    asyncio.run(ask())
    assert extension.seen == [
        (None, False),
        ("latency", False),
        ({"pricing": "latency"}, True),
        ("nonsense", False),
        ("nonsense", False),
        (None, False),
        ("latency", False),
    ]


def test_a_server_that_does_not_steer_says_so(fake_engine, fake_catalogue):
    catalogue = fake_catalogue({"policy@1": fake_engine()})
    with pytest.raises(Refused, match="steering"):
        wish = {"steering": ExtensionRequest({"pricing": "latency"})}
        asyncio.run(catalogue.find("policy@1", 0, wish))
    with pytest.raises(Problem, match="policy@1:latency"):
        asyncio.run(catalogue.find("policy@1:latency", 0))


def test_settings_have_a_field_for_each_extension():
    served, chat = with_extensions(ServeSettings), with_extensions(ChatSettings)
    assert served.__name__ == "ServeSettings"
    assert chat.__doc__ == ChatSettings.__doc__
    for name, offer in extension_offers().items():
        assert served.model_fields[name].description == offer.option
        assert offer.report not in served.model_fields
        assert chat.model_validate({name: False}).model_dump()[name] == "off"
        assert chat().model_dump()[name] is None


def test_a_model_is_offered_by_its_folders_name_and_an_address_is_refused(
    model_folder, monkeypatch, tmp_path
):
    folder = model_folder("llama")
    monkeypatch.chdir(folder)
    for target in (str(folder), "."):
        assert catalogue_of(target, {}).names == [folder.name]
    assert catalogue_of("builtin", {}).names == ["builtin"]
    assert game_of(str(folder), trust=False) is None
    with pytest.raises(ConfigError, match=r"127\.0\.0\.1:1/v1: .*put LiteLLM before"):
        catalogue_of("https://127.0.0.1:1/v1", {"model": "far"})
    with pytest.raises(ConfigError, match="-s player"):
        catalogue_of("builtin", {"top_q": 1})


def test_the_game_of_a_run_is_known(recorded_folder):
    game = game_of(str(recorded_folder("people")), trust=False)
    assert game is not None
    assert game.kind == "answers"
