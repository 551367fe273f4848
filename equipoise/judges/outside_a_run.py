"""A judge at work without a run: its context, and the matches that hold single texts."""

from collections.abc import Mapping, Sequence

from equipoise import seeds
from equipoise.errors import ConfigError
from equipoise.games.answers import Answers
from equipoise.judges.base import Judge, JudgeContext
from equipoise.models.resources import Resources
from equipoise.players.base import Actor, Player
from equipoise.types import Match, Move, PlayerId, Prompt, Turn, View, record_id


def place_judge(
    judge: Judge, purpose: str, seed: int = 0, resources: Resources | None = None
) -> Judge:
    """The judge in a context of its own, where no players of a run are.

    Args: purpose: begins the message where it asks such players; seed: of what it leaves to
    chance; resources: keep the models that it opens, None: its own. Raises ConfigError, DataError
    or ModelError for a judge that cannot work so.
    """
    kept = Resources() if resources is None else resources

    def actor(player: Player | PlayerId) -> Actor:
        if isinstance(player, PlayerId):
            raise ConfigError(f"{purpose}: '{judge.kind}' asks players of a run; here are none")
        return kept.get(player.model_dump_json(), lambda: player.open(player.start, kept))

    return judge.at(JudgeContext(Answers(samples=2), seed, [], {}, kept, actor))


def match_of_moves(prompt: Prompt, moves: Sequence[Move], origin: str, seed: int = 0) -> Match:
    """A match in which the seats 1, 2, … answered the prompt with these moves."""
    turns = []
    for place, move in enumerate(moves, 1):
        turns.append(Turn(str(place), View(prompt.messages), move))
    texts = [move.text for move in moves]
    match = record_id(origin, prompt.id, *texts)
    seats = {turn.seat: PlayerId("policy") for turn in turns}
    child = seeds.child(seed, "match", match)
    return Match(match, 0, "train", "answers", prompt.id, seats, child, tuple(turns))


def scores_of_texts(
    judge: Judge, answers: Sequence[tuple[Prompt, Sequence[str]]], utility: str = "score"
) -> list[list[float | str]]:
    """For each prompt the scores of its texts, or why there is none.

    A judge that scores alone gets each text in a match of its own, and a text only once; one that
    compares gets all texts of a prompt in one match.
    """
    by_id: dict[str, Prompt] = {}
    matches: dict[str, Match] = {}
    wanted: list[list[tuple[str, str]]] = []
    for prompt, texts in answers:
        by_id[prompt.id] = prompt
        groups = [[text] for text in texts]
        if judge.compares:
            groups = [list(texts)]
        places = []
        for group in groups:
            match = match_of_moves(prompt, [Move(text) for text in group], "texts")
            matches[match.id] = match
            places += [(match.id, seat) for seat in match.seats]
        wanted.append(places)
    judged = judge.checked_judgements(list(matches.values()), by_id)
    judgements = {judgement.match: judgement for judgement in judged}
    return [[_score(judgements, place, utility) for place in places] for places in wanted]


def _score(judgements: Mapping, place: tuple[str, str], utility: str) -> float | str:
    match, seat = place
    judgement = judgements[match]
    score = judgement.score(seat, utility)
    if score is not None:
        return score
    return judgement.reason or f"no '{utility}' was given"
