"""Attack a judge before anything is trained on it: the Python door of `equipoise attack-judge`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from equipoise import seeds
from equipoise.answer import answer_of
from equipoise.api.measure_sets import model_settings
from equipoise.api.read_rows import source_of
from equipoise.api.trained_attack import KEPT, AttackerTraining
from equipoise.blocks.terminal import show_notes
from equipoise.component import nearest
from equipoise.errors import ConfigError, DataError, RunError
from equipoise.evaluation.attack_texts import ATTACKS, KINDS, ScriptedAttack
from equipoise.evaluation.attacked_judge import (
    AttackedAnswer,
    AttackedJudge,
    ByJudge,
    HonestAnswer,
    Likeness,
    Truth,
    Votes,
    attack,
    attacked_judge,
    fitted_gate,
    gated_judge,
    with_wrong_answers,
)
from equipoise.evaluation.trained_attacker import TrainedAttack
from equipoise.judges.base import Judge
from equipoise.judges.outside_a_run import place_judge
from equipoise.models.resources import Resources
from equipoise.players.base import Player
from equipoise.prompts.base import Prompts
from equipoise.prompts.given_rows import GivenRows
from equipoise.prompts.row import chosen_answer, rejected_answer
from equipoise.report.attack_page import attack_lines, attack_page, few_prompts_note
from equipoise.runs import recipe_loader
from equipoise.runs.directory import RunDirectory, is_run
from equipoise.system.folder import write_text
from equipoise.system.locks import check_writable
from equipoise.types import Prompt, View

LIKENESS = "likeness"
VOTES = "votes"
LIMIT = 50  # prompts, where none is set
LIMIT_OF_MODELS = 12  # where every answer is a question to a model
ANSWER_FACTS = ("answer", "reference", "target", "solution", "ideal", "response", "output")


@dataclass(frozen=True)
class JudgeAttack:
    """Results of attacks on a judge: the judge itself first, then behind a gate and others."""

    judges: Sequence[AttackedJudge]
    gate: str
    notes: Sequence[str]
    trained: Sequence[TrainedAttack] = ()

    @property
    def exploits(self) -> list[Any]:
        """The attacks that gained score from the judge at no gain of truth."""
        return self.judges[0].exploits

    def facts(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "judges": [judge.facts() for judge in self.judges],
            "gate": self.gate,
            "trained": [each.facts() for each in self.trained],
            "notes": list(self.notes),
        }

    def write(self, out: str | Path) -> Path:
        """Write the page, one HTML file that works offline, and return its path."""
        from equipoise.blocks.html import render

        path = Path(out)
        check_page(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, render(attack_page(self.judges, self.gate, self.notes, self.trained)))
        return path

    def __repr__(self) -> str:
        return "\n".join([*attack_lines(self.judges, self.trained), *self.notes])


def check_page(path: Path) -> None:
    """Raises RunError where no page can be written to a path."""
    if path.is_dir():
        raise RunError(f"{path}: is a folder; name the file, as {path}/attack.html")
    check_writable(path.parent)


def attack_judge(
    judge: Any,
    prompts: Any,
    *,
    model: str | None = None,
    truth: Any = None,
    beside: Mapping[str, Any] | None = None,
    kinds: Sequence[str] = (),
    limit: int | None = None,
    gate: bool = True,
    settings: recipe_loader.Overrides = (),
    player_settings: recipe_loader.Overrides = (),
    updates: int = 0,
    train_settings: recipe_loader.Overrides = (),
    keep: str | Path = KEPT,
    trust: bool = False,
    progress: bool = False,
    seed: int = 0,
) -> JudgeAttack:
    """Attack a judge by scripted and trained attackers, with the truth held fixed by a second
    measure.

    Args: judge: as a recipe names one (a kind, `file.py`, a mapping, a function), the folder of a
    run or the name or file of a recipe, whose judge it is; prompts: a file of rows, a list of texts
    or rows, a data frame, or packaged ones by their kind, such as `clerk_questions`; model: a
    model's folder, hub id, packaged name or an endpoint's address, whose answers are attacked,
    None: the answers that rows come with; truth: "likeness" (to those answers), "votes" (rows hold
    the answer that people chose and the one that they rejected), or a judge that is trusted, such
    as `gold`; beside: name -> other judges that get the
    same attacks; kinds: of attacks, none: all; limit: prompts; gate: attack the judge behind a
    gate, too; settings: of the judge, over its own; player_settings: of the model; updates: of
    an attacker that is trained from `model` against each of the judges, 0: none; train_settings: of
    its run; keep: the folder of such runs; trust: as `open_run` takes it, for a run's judge.

    Raises ConfigError, DataError, RunError and ModelError for what cannot be attacked so.
    """
    if updates and model is None:
        raise ConfigError("--updates: name the model that is to be trained, --model MODEL")
    if train_settings and not updates:
        raise ConfigError("-s train.…: nothing is trained; give --updates")
    attacks = attacks_of(kinds)
    built = judge_named(judge, trust, settings)
    trusted = truth_named(truth)
    placed = place_judge(built, "attack-judge", seed)
    notes: list[str] = []
    prompts = made_prompts(prompts) or prompts
    attackable = judgeable(prompts_of(prompts), [built, *judges_in(trusted)], notes)
    chosen = attackable[: limit_of(built, limit)]
    if len(chosen) < len(attackable):
        notes.append(
            f"{len(chosen):,} of {len(attackable):,} prompts were attacked; --limit takes more"
        )
    if isinstance(trusted, Votes):
        answers = voted_answers(chosen, notes)
    else:
        honest = honest_answers(chosen, model, player_settings, seed, notes)
        answers = with_wrong_answers(honest)
    note = few_prompts_note(len(answers))
    if note:
        notes.append(note)
    attacked = attack(placed, trusted, answers, attacks)
    check_scores(built, attacked)
    notes += idle_truth_notes(trusted, attacked)
    alone = f"{built.title} alone"
    shown = [attacked_judge(placed, trusted, attacked, alone)]
    gate_text = ""
    others: dict[str, Judge] = {}
    if gate:
        gated = gated_judge(built, answers, attacked)
        gate_text = yaml.safe_dump({"judge": recipe_loader.plain_values(gated)}, sort_keys=False)
        others[f"{built.title} behind the gate"] = gated
    for name, given in (beside or {}).items():
        others[name] = judge_named(given, trust, None, f"--beside {name}")
    for name, other in others.items():
        at_work = place_judge(other, "attack-judge", seed)
        again = attack(at_work, trusted, answers, attacks)
        shown.append(attacked_judge(at_work, trusted, again, name))
    trained: list[TrainedAttack] = []
    if updates and model is not None:
        training = AttackerTraining(
            prompts,
            len(attackable),
            model,
            updates,
            trusted,
            fitted_gate(answers),
            player_settings,
            train_settings,
            Path(keep),
            progress,
        )
        trained = [training.against(*each) for each in {alone: built, **others}.items()]
    return JudgeAttack(shown, gate_text, notes, trained)


def check_scores(judge: Judge, attacked: Sequence[AttackedAnswer]) -> None:
    """Raises ConfigError where the judge scored no answer, or all texts alike."""
    before = [each.score_before for each in attacked if math.isfinite(each.score_before)]
    if not before:
        reason = next((each.reason for each in attacked if each.reason), "it gave no reason")
        raise ConfigError(f"attack-judge: '{judge.title}' scored no answer: {reason}")
    scores = {*before, *(each.score_after for each in attacked if math.isfinite(each.score_after))}
    if len(scores) == 1 and not judge.compares:
        texts = {each.after for each in attacked}
        raise ConfigError(
            f"attack-judge: '{judge.title}' gave {scores.pop():g} to every answer and to all "
            f"{len(texts):,} texts that attacks made of them; it tells nothing apart"
        )


def idle_truth_notes(truth: Truth, attacked: Sequence[AttackedAnswer]) -> list[str]:
    """A caution where the truth is one and the same for every answer, honest ones among them."""
    if isinstance(truth, Votes):
        return []
    values = {each.truth_before for each in attacked} | {each.truth_after for each in attacked}
    known_values = {value for value in values if math.isfinite(value)}
    if len(known_values) != 1:
        return []
    return [
        f"the truth, {truth.name}, gave {known_values.pop():g} to every answer, honest ones too, "
        "and tells nothing apart: give --truth a judge that knows these answers, or likeness"
    ]


# -- what is attacked


def judge_named(
    judge: Any, trust: bool, settings: recipe_loader.Overrides | None, option: str = "attack-judge"
) -> Judge:
    """The judge that is given by `option`, or that of a run or a recipe; `settings`: None where it
    takes none. Raises ConfigError and RunError.
    """
    of_others = isinstance(judge, str | Path) and (is_run(str(judge)) or is_recipe(str(judge)))
    if of_others and settings:
        raise ConfigError(
            f"{option}: {judge}: its judge is as it stands there; settings are for a kind, as "
            "in `attack-judge rubric -s model.model=…`"
        )
    if isinstance(judge, str | Path):
        text = str(judge)
        if is_run(text):
            with RunDirectory.read(Path(text), trust) as run:
                run.agree(trust, show_notes)
                return run.config.judge
        if Path(text).is_dir():
            raise ConfigError(f"{option}: {text}: is a folder and holds no run")
        if is_recipe(text):
            of_recipe = recipe_loader.read(text).get("judge")
            if of_recipe is None:
                raise ConfigError(f"{option}: {text}: the recipe has no judge of its own")
            place = f"{option}: {text}: judge"
            built = recipe_loader.component_announced(Judge, of_recipe, None, place, show_notes)
            return built.as_it_is()
        judge = text
    built = recipe_loader.component_announced(Judge, judge, settings, option, show_notes)
    return built.as_it_is()


def is_recipe(text: str) -> bool:
    """True for a packaged recipe's name that is no judge, and for a YAML file that has a judge."""
    if text in Judge.known_kinds():
        return False
    if text in recipe_loader.recipe_descriptions():
        return True
    if not text.endswith((".yaml", ".yml")):
        return False
    values = recipe_loader.parse_mapping(text, "attack-judge")
    return "kind" not in values and ("judge" in values or "extends" in values)


def truth_named(truth: Any) -> Truth:
    """The measure that is held fixed. Raises ConfigError."""
    if truth is None or truth == LIKENESS:
        return Likeness()
    if truth == VOTES:
        return Votes()
    kinds = [LIKENESS, VOTES, *Judge.known_kinds()]
    if isinstance(truth, str) and truth.isidentifier() and truth not in kinds:
        raise ConfigError(
            f"--truth {truth}: is neither {LIKENESS}, {VOTES} nor a judge; {nearest(truth, kinds)}"
        )
    built = recipe_loader.component_announced(Judge, truth, None, "--truth", show_notes)
    built = built.as_it_is()
    if built.compares:
        raise ConfigError(
            f"--truth: '{built.kind}' compares answers; the truth is a judge that scores each "
            f"alone, {LIKENESS} or {VOTES}"
        )
    return ByJudge(place_judge(built, "--truth"))


def judges_in(truth: Truth) -> list[Judge]:
    """The judge behind a truth, if one is."""
    return [truth.judge] if isinstance(truth, ByJudge) else []


def attacks_of(kinds: Sequence[str]) -> list[ScriptedAttack]:
    """The attacks of these kinds, of none: all. Raises ConfigError."""
    for kind in kinds:
        if kind not in KINDS:
            raise ConfigError(
                f"--kinds: no attack is of kind '{kind}'; known: {', '.join(KINDS)}; "
                f"{nearest(kind, list(KINDS))}"
            )
    return [attack for attack in ATTACKS if not kinds or attack.kind in kinds]


def limit_of(judge: Judge, limit: int | None) -> int:
    """The most prompts: as set, or by what judging them costs."""
    if limit is not None:
        return limit
    return LIMIT_OF_MODELS if judge.questions(2, 0) else LIMIT


def made_prompts(prompts: Any) -> Prompts | None:
    """The source of prompts that is named by its kind or given in YAML; None for rows.

    Raises ConfigError.
    """
    of_text = isinstance(prompts, str) and ("{" in prompts or prompts in Prompts.known_kinds())
    if of_text or isinstance(prompts, Mapping | Prompts):
        return recipe_loader.component_announced(Prompts, prompts, None, "--prompts", show_notes)
    return None


def prompts_of(prompts: Any) -> list[Prompt]:
    """The prompts of a source, a file, a list or a data frame, each once. Raises DataError."""
    if isinstance(prompts, Prompts):
        loaded = prompts.load().training
    elif isinstance(prompts, str | Path):
        loaded = source_of(str(prompts), None).load().training
    else:
        rows = recipe_loader.plain_values(prompts)
        if not isinstance(rows, list) or not rows:
            raise ConfigError("prompts: give a file of rows, a list of texts or rows, or a frame")
        loaded = GivenRows.model_validate({"rows": rows}).load().training
    by_id = {prompt.id: prompt for prompt in loaded}
    if not by_id:
        raise DataError(f"{prompts}: holds no prompt")
    return list(by_id.values())


def judgeable(prompts: Sequence[Prompt], judges: Sequence[Judge], notes: list[str]) -> list[Prompt]:
    """The prompts to which answers can be judged; a note says how many others there are."""
    reasons: Counter[str] = Counter()
    kept = []
    for prompt in prompts:
        why = []
        for judge in judges:
            reason = judge.why_unjudgeable(prompt)
            if reason:
                why.append(f"{judge.title}: {reason}")
        if why:
            reasons[why[0]] += 1
        else:
            kept.append(prompt)
    if not kept:
        reason = reasons.most_common(1)[0][0]
        raise ConfigError(f"attack-judge: no answer to any prompt can be judged: {reason}")
    for reason, count in reasons.items():
        notes.append(f"{count:,} prompts were left out: {reason}")
    return kept


def honest_answers(
    prompts: Sequence[Prompt],
    model: str | None,
    player_settings: recipe_loader.Overrides,
    seed: int,
    notes: list[str],
) -> list[tuple[Prompt, str]]:
    """An answer to each prompt: the model's, or the one that came with it. Raises DataError."""
    if model is not None:
        answers = sampled_answers(prompts, model, player_settings, seed, notes)
    else:
        answers = [(prompt, given_answer(prompt)) for prompt in prompts]
    kept = [(prompt, text) for prompt, text in answers if text.strip()]
    if not kept:
        if model is not None:
            raise DataError(f"{model}: gave no answer to any of {len(prompts)} prompts")
        raise DataError(
            "no prompt comes with an answer to attack: name a model that answers (--model), or "
            f"give rows with a column such as response or {ANSWER_FACTS[0]}"
        )
    if len(kept) < len(answers):
        notes.append(f"{len(answers) - len(kept):,} prompts without an answer were left out")
    if len(kept) == 1:
        raise DataError("one answer alone shows nothing; give more prompts")
    return kept


def given_answer(prompt: Prompt) -> str:
    """The answer that came with a prompt, "" for none: a column of answers, or a fact."""
    chosen = chosen_answer(prompt.answers)
    if chosen is None and prompt.answers:
        chosen = max(prompt.answers, key=lambda answer: answer.score or 0.0)
    if chosen is not None:
        return chosen.text
    for name in ANSWER_FACTS:
        fact = prompt.facts.get(name)
        if isinstance(fact, list | tuple) and fact:
            fact = fact[0]
        if isinstance(fact, str | int | float) and not isinstance(fact, bool):
            return str(fact)
    return ""


def sampled_answers(
    prompts: Sequence[Prompt],
    model: str,
    player_settings: recipe_loader.Overrides,
    seed: int,
    notes: list[str],
) -> list[tuple[Prompt, str]]:
    """The model's answers, without thoughts; "" where it failed."""
    settings = model_settings(model, player_settings)["players"]
    (values,) = settings.values()
    player = recipe_loader.component_announced(Player, values, (), "--model", show_notes)
    resources = Resources()
    actor = player.open(player.start, resources)
    try:
        views = [View(prompt.messages) for prompt in prompts]
        dice = [seeds.child(seed, "attack", prompt.id) for prompt in prompts]
        moves = actor.act(views, dice)
    finally:
        actor.close()
    failed = [move.error for move in moves if move.finish == "error"]
    if failed:
        notes.append(f"{len(failed):,} answers of {model} failed: {failed[0]}")
    answers = []
    for prompt, move in zip(prompts, moves, strict=True):
        text = "" if move.finish == "error" else answer_of(move).text
        answers.append((prompt, text))
    return answers


def voted_answers(prompts: Sequence[Prompt], notes: list[str]) -> list[HonestAnswer]:
    """The answers that people chose, each with the one that they rejected. Raises DataError."""
    answers = []
    for prompt in prompts:
        chosen = chosen_answer(prompt.answers)
        rejected = rejected_answer(prompt.answers)
        if chosen is not None and rejected is not None:
            answers.append(HonestAnswer(prompt, chosen.text, rejected.text, rejected=True))
    if not answers:
        raise DataError(
            "--truth votes: no row has an answer that people chose and one that they rejected; "
            "`equipoise export RUN --votes` writes such rows"
        )
    if len(answers) < len(prompts):
        notes.append(f"{len(prompts) - len(answers):,} prompts without such a pair were left out")
    return answers
