"""A run's records, read once, and the `Sheet` of each of its players that a comparison needs."""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from equipoise.answer import answer_of
from equipoise.blocks.section import Curve, Curves
from equipoise.component import fixed_settings
from equipoise.errors import UserError
from equipoise.evaluation.compared_arms import Measured, Sheet, Shown, Usage
from equipoise.evaluation.measures import curves
from equipoise.evaluation.role_cross_play import has_roles
from equipoise.judges.base import Judge
from equipoise.judges.base import Recorded as RecordedJudge
from equipoise.ledger.benchmark_results import RecordedResult, recorded_results
from equipoise.ledger.item_scores import BenchmarkResult, ItemScores
from equipoise.ledger.ledger import MEETING
from equipoise.payoffs.table import Meeting, preference
from equipoise.players.scripted import Recorded
from equipoise.prompts.split import content
from equipoise.report.history import history
from equipoise.runs.consent import changed_parts, newest_files
from equipoise.runs.directory import RunDirectory
from equipoise.runs.first_generation import first_step_of
from equipoise.runs.named_sets.recorded_answers import PART, answers_of
from equipoise.types import Judgement, Match, Message, PlayerId, Prompt

HELD_OUT = "held_out"
IMPORTED = "train"  # the part of matches that were imported
HARMLESS = {"seed", "limit", "part", "varied", "path", "prompts", "standard_errors", "answers"}
"""Settings of a set that may differ between two sides of a comparison without a word."""


class ScoredRun:
    """A run whose players are compared; what their sheets share is read once, when it is needed."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run

    @cached_property
    def trained(self) -> set[str]:
        """The contents of all training prompts."""
        return {content(prompt) for prompt in self.run.ledger.prompts("train")}

    @cached_property
    def held_out(self) -> list[Match]:
        """The matches on held-out prompts."""
        return self.run.ledger.matches(HELD_OUT)

    @cached_property
    def results(self) -> list[RecordedResult]:
        """All results on named sets."""
        return recorded_results(self.run.ledger, every=True)

    @cached_property
    def courses(self) -> list[Curves]:
        """The course of every quantity that has one."""
        measured = history(self.run)
        return [curves(measured, each) for each in measured.rows() if each.has_curve]

    @cached_property
    def judged_matches(self) -> dict[PlayerId, list[Match]]:
        """Player -> its matches that measure: those on held-out prompts, of imported runs all."""
        imported = is_imported(self.run)
        by_player: dict[PlayerId, list[Match]] = defaultdict(list)
        for match in self.run.ledger.matches(IMPORTED) if imported else self.held_out:
            for player in set(match.seats.values()):
                by_player[player].append(match)
        return by_player

    @cached_property
    def measured_answers(self) -> tuple[Counter[PlayerId], Counter[PlayerId]]:
        """(player -> its measured answers, player -> their tokens)."""
        answers: Counter[PlayerId] = Counter()
        tokens: Counter[PlayerId] = Counter()
        for match in (*self.held_out, *self.run.ledger.matches(PART)):
            if match.game == MEETING:
                continue
            for turn in match.turns:
                player = match.seats[turn.seat]
                answers[player] += 1
                tokens[player] += turn.move.tokens
        return answers, tokens


def notes_on_training(
    scored: ScoredRun, player: PlayerId, answers: Mapping[str, Shown]
) -> Iterator[str]:
    """Say how many of the prompts that a player answered its run had trained on."""
    if not player.generation or not answers:
        return
    answered = [content(Prompt(item, shown.prompt)) for item, shown in answers.items()]
    seen = sum(each in scored.trained for each in answered)
    if seen:
        yield (
            f"{seen:,} of the {len(answered):,} prompts are training prompts of its run, so that "
            "it may have learned their answers"
        )


def sheet_of(
    scored: ScoredRun, player: PlayerId, results: Collection[BenchmarkResult] | None = None
) -> Sheet:
    """Everything recorded of the player; `results`: only these, None: all, and what is held out."""
    run = scored.run
    key = key_of(run, player)
    measures: dict[str, Measured] = {}
    answers: dict[str, Shown] = {}
    notes: list[str] = []
    meetings: dict[str, list[Meeting]] = {}
    titles = dict(run.config.judge_titles)
    if results is None:
        matches = scored.judged_matches.get(player, [])
        measures, meetings = held_out_scores(run, player, matches)
        answers = held_out_answers(run, player, matches)
        for judge, title in run.config.judge_titles.items():
            titles[held_out_title(run, judge)] = held_out_title(run, title)
    for stage, result in reversed(scored.results):
        if result.player != str(player) or (results is not None and result not in results):
            continue
        scores = run.ledger.benchmark_scores(stage)
        name = set_title(result)
        titles[name] = set_title(result, judge_title(run, result))
        if not scores:
            notes.append(f"{titles[name]}: only its mean is recorded, and so it cannot be paired")
            continue
        newest = measures.get(name)
        measures[name] = with_earlier(newest, set_scores(result, scores))
        if newest is not None:
            more = len(measures[name].scores) - len(newest.scores)
            if more:
                notes.append(f"{titles[name]}: {more:,} prompts of an earlier measurement count")
        shown, note = set_answers(run, result)
        answers = {**shown, **answers}
        notes += [note] if note else []
    for name in [set_title(result) for _, result in scored.results]:  # in the order of their sets
        if name in measures:
            measures[name] = measures.pop(name)
    notes += notes_on_training(scored, player, answers)
    notes += [str(each) for each in changed_parts(run.ledger)]
    step = None
    if player.name in run.config.learning and player.generation:
        step = first_step_of(run.config, player.name)
    return Sheet(
        key=key,
        measures=measures,
        seed=str(run.config.seed),
        answers=answers,
        meetings=meetings,
        curves=learning_curves(scored, player),
        usage=usage_of(scored, player),
        notes=tuple(notes),
        method=method_of(run, player),
        first_step=step.text() if step else "",
        titles=titles,
        parts=newest_files(run.ledger),
    )


def key_of(run: RunDirectory, player: PlayerId) -> str:
    """Folder and player, by which a comparison knows them."""
    return f"{run.folder.resolve()}@{player}"


def method_of(run: RunDirectory, player: PlayerId) -> str:
    """The kind of the loss that the player learned by, "" where it learned by none."""
    if player.name not in run.config.learning:
        return ""
    loss = run.config.loss_at(player.name, 0)
    return "" if loss is None else loss.kind


# -- held-out prompts


def held_out_scores(
    run: RunDirectory, player: PlayerId, matches: Sequence[Match]
) -> tuple[dict[str, Measured], dict[str, list[Meeting]]]:
    """(title -> scores by the prompt's id; judge -> meetings with other players), of the player's
    matches.
    """
    utility = run.config.utility
    samples = answers_measured(run)
    compares = {judge.name: judge.compares for judge in judges_of(run)}
    given: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in run.ledger.every_judgement_of(match.id for match in matches):
        given[judgement.match].append(judgement)
    scores: dict[str, dict[str, list[float | None]]] = {}
    meetings: dict[str, list[Meeting]] = {}
    judged = [(match, judgement) for match in matches for judgement in given[match.id]]
    for match, judgement in judged:
        judge = judgement.judge
        several = len(set(match.seats.values())) > 1
        if several and is_comparison(match, run):
            chances = compares.get(judge, False)
            of_judge = meetings.setdefault(judge, [])
            for meeting in meetings_in(run, match, judgement, chances):
                if meeting.first == key_of(run, player):
                    of_judge.append(meeting)
            continue
        if match.game == MEETING:
            continue
        title = held_out_title(run, judge)
        of_prompt = scores.setdefault(title, {}).setdefault(match.prompt, [])
        for seat, seated in match.seats.items():
            if seated == player and len(of_prompt) < samples:
                of_prompt.append(judgement.score(seat, utility))
    measures = {}
    for title, by_prompt in scores.items():
        known = {}
        missing = 0
        for prompt, values in by_prompt.items():
            known[prompt] = [value for value in values if value is not None]
            missing += len(values) - len(known[prompt])
        measures[title] = Measured(known, missing)
    return measures, meetings


def held_out_title(run: RunDirectory, judge: str) -> str:
    """The name of the measure that a judge takes on held-out prompts."""
    return f"held-out {run.config.utility} by {judge}"


def answers_measured(run: RunDirectory) -> float:
    """The answers to a prompt that the run itself measures; more may have been played, since a
    match has several seats.
    """
    if has_roles(run.config.game):
        return math.inf
    return getattr(run.config.evaluate, "samples", math.inf)


def judges_of(run: RunDirectory) -> list[Judge]:
    """The judges that the run's configuration knows."""
    config = run.config
    named = [config.judge_of(name) for name in config.players]
    if config.evaluate.judge:
        named.append(config.evaluate.judge)
    return named


def is_imported(run: RunDirectory) -> bool:
    """True if the run's matches were played by another program."""
    return isinstance(run.config.judge, RecordedJudge) and all(
        isinstance(player, Recorded) for player in run.config.players.values()
    )


def is_comparison(match: Match, run: RunDirectory) -> bool:
    """True for answers side by side, and for imported matches."""
    return match.game == MEETING or is_imported(run)


def meetings_in(
    run: RunDirectory, match: Match, judgement: Judgement, chances: bool
) -> list[Meeting]:
    """The meetings of every two players of a match.

    `chances`: the first's score is its chance to win.
    """
    utility = run.config.utility
    seats = list(match.seats.items())
    meetings = []
    for i, (seat, first) in enumerate(seats):
        for other_seat, second in seats[i + 1 :]:
            if first == second:
                continue
            own = judgement.score(seat, utility)
            other = judgement.score(other_seat, utility)
            value = preference(own, other)
            if chances and own is not None:
                value = 2 * own - 1
            keys = (key_of(run, first), key_of(run, second))
            meetings.append(Meeting(*keys, value, match.prompt))
    return meetings


def held_out_answers(
    run: RunDirectory, player: PlayerId, matches: Sequence[Match]
) -> dict[str, Shown]:
    """Prompt's id -> what the player answered in its matches."""
    chats: dict[str, tuple[Message, ...]] = {}
    texts: dict[str, list[str]] = {}
    for match in matches:
        if match.game == MEETING:
            continue
        for seat, turn in match.last_turns().items():
            if match.seats[seat] != player:
                continue
            text = turn.move.text
            if not run.config.game.raw_moves:
                text = answer_of(turn.move).text
            chats.setdefault(match.prompt, turn.view.messages)
            texts.setdefault(match.prompt, []).append(text)
    return {prompt: Shown(chats[prompt], tuple(of_prompt)) for prompt, of_prompt in texts.items()}


# -- named sets


def set_title(result: BenchmarkResult, judge: str = "") -> str:
    """The measure's name: the set's, its headline metric, and the judge's where one scored."""
    judge = judge or result.judge
    by = f" by {judge}" if judge else ""
    return f"{result.name}: {result.headline.replace('_', ' ')}{by}"


def judge_title(run: RunDirectory, result: BenchmarkResult) -> str:
    """The judge of a set as readers call it; its name in the ledger where it cannot be built."""
    settings = result.settings.get("judge")
    if not result.judge or not isinstance(settings, dict):
        return result.judge
    try:
        return run.recorded_part(Judge, settings, f"the judge of {result.name}").title
    except UserError:
        return result.judge


def with_earlier(newest: Measured | None, earlier: Measured) -> Measured:
    """The newest scores, with those of other items that were measured earlier in the same way."""
    if newest is None:
        return earlier
    if newest.settings != earlier.settings:
        return newest
    return replace(newest, scores={**earlier.scores, **newest.scores})


def set_scores(result: BenchmarkResult, scores: Sequence[ItemScores]) -> Measured:
    """The headline's values by item."""
    by_item: dict[str, list[float]] = {}
    missing = 0
    for row in scores:
        if result.headline not in row.values:
            continue
        value = row.values[result.headline]
        of_item = by_item.setdefault(row.item, [])
        if value is None:
            missing += 1
        else:
            of_item.append(value)
    return Measured(
        by_item,
        missing,
        result.headline not in result.lower_is_better,
        {
            name: value
            for name, value in fixed_settings(result.settings).items()
            if name not in HARMLESS
        },
    )


def set_answers(run: RunDirectory, result: BenchmarkResult) -> tuple[dict[str, Shown], str]:
    """(item -> what the player answered, a note where that cannot be read again)."""
    if not result.source.startswith("equipoise "):
        return {}, ""
    try:
        items, answers = answers_of(run, result)
    except UserError as error:
        return {}, f"{result.name}: its answers cannot be shown ({error})"
    shown = {}
    for item in items:
        texts = tuple(answer.text for answer in answers[item.id])
        shown[item.id] = Shown(item.prompt.messages, texts)
    return shown, ""


# -- the course of learning, and what it took


def learning_curves(scored: ScoredRun, player: PlayerId) -> dict[str, Curve]:
    """Title -> the player's course over the generations, of every quantity that has one."""
    courses = {}
    for group in scored.courses:
        for curve in group.curves:
            if curve.name in ("", player.name) and len(curve.x) > 1:
                courses[group.name] = replace(curve, unit=group.unit)
    return courses


def usage_of(scored: ScoredRun, player: PlayerId) -> Usage:
    """The tokens of the player's measured answers, and its run's money and seconds."""
    run = scored.run
    answers, tokens = scored.measured_answers
    money = sum(spent.money for spent in run.ledger.accounts().values())
    seconds = sum(stage.seconds for stage in run.ledger.stages())
    currency, generation = run.config.currency, player.generation
    return Usage(answers[player], tokens[player], money, currency, seconds, generation)
