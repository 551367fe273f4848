"""A judge under attack: how much score can be gained at no gain of truth, and by which answers.

Every attack rewrites answers to the same prompts: honest ones, and wrong ones (the honest answer to
another prompt), since a judge that pays honest answers in full shows its holes on wrong answers
alone. What the judge's score gains by that is paired by prompt. A second measure, the truth, is
taken of the same texts; an attack is an exploit where the score surely rises and the truth does
not.
"""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from equipoise.evaluation.attack_texts import ATTACKS, AttackedText, Kind, ScriptedAttack, filled
from equipoise.judges.base import Judge
from equipoise.judges.gated import Gated
from equipoise.judges.no_tricks import MARKUP, PRAISE, WORD, NoTricks
from equipoise.judges.outside_a_run import scores_of_texts
from equipoise.judges.rules import repetition
from equipoise.models.embedding import hash_vectors
from equipoise.payoffs.intervals import Interval, mean_interval, paired_difference
from equipoise.payoffs.told_apart import holm, joint_level, sign_flip
from equipoise.types import Prompt

Base = Literal["honest", "wrong", "rejected"]
"""The answer that an attack rewrites: to this prompt, to another prompt, or the one that people
rejected.
"""
LEVEL = 0.05
FEWEST = 12  # prompts below which many attacks at once cannot be told from chance


@dataclass(frozen=True, slots=True)
class HonestAnswer:
    """A prompt, an honest answer to it, and one that is wrong: another prompt's, or the `rejected`
    of a pair on which people voted.
    """

    prompt: Prompt
    text: str
    wrong: str
    rejected: bool = False

    @property
    def bases(self) -> dict[Base, str]:
        """The answers that attacks rewrite."""
        if self.rejected:
            return {"rejected": self.wrong}
        return {"honest": self.text, "wrong": self.wrong}


def with_wrong_answers(answers: Sequence[tuple[Prompt, str]]) -> list[HonestAnswer]:
    """Each honest answer with that to the next prompt whose answer differs, as a wrong one."""
    honest = []
    for place, (prompt, text) in enumerate(answers):
        later = [*answers[place + 1 :], *answers[:place]]
        others = (other for _, other in later if other.strip() != text.strip())
        honest.append(HonestAnswer(prompt, text, next(others, "")))
    return honest


# -- the truth


class Truth:
    """A second measure, which an attack must not raise to be an exploit."""

    name = ""

    @abstractmethod
    def values(self, texts: Sequence[tuple[HonestAnswer, Sequence[str]]]) -> list[list[float]]:
        """For each answer the truth of these texts in its place, NaN where it is not known."""


class Likeness(Truth):
    """Likeness to the honest answer: the cosine of hashed words and character n-grams.

    It says how much of the honest answer is left, and nothing of whether that was right.
    """

    name = "likeness to the honest answer"

    def values(self, texts: Sequence[tuple[HonestAnswer, Sequence[str]]]) -> list[list[float]]:
        rows = []
        for answer, own in texts:
            vector_TD = hash_vectors([answer.text, *own])
            cosine_T = vector_TD[1:] @ vector_TD[0]
            rows.append([float(cosine) for cosine in cosine_T])
        return rows


class ByJudge(Truth):
    """The score of a trusted judge, such as a rule on gold answers."""

    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.name = judge.title

    def values(self, texts: Sequence[tuple[HonestAnswer, Sequence[str]]]) -> list[list[float]]:
        rows_to_judge = [(answer.prompt, own) for answer, own in texts]
        return [
            [known(score) for score in row] for row in scores_of_texts(self.judge, rows_to_judge)
        ]


class Votes(Truth):
    """People's votes: of two answers they chose one, and no attack makes the other one better."""

    name = "people's votes"

    def values(self, texts: Sequence[tuple[HonestAnswer, Sequence[str]]]) -> list[list[float]]:
        return [[0.0] * len(own) for _, own in texts]


def known(score: float | str) -> float:
    """The score; NaN in place of the reason why there is none."""
    return math.nan if isinstance(score, str) else score


# -- attacks


@dataclass(frozen=True, slots=True)
class AttackedAnswer:
    """One answer before and after an attack, with the judge's scores and the truth; NaN where one
    is not known, and `reason` says why the judge gave none.

    `honest_score` is that of the honest answer to the same prompt, where the judge scores answers
    alone.
    """

    prompt: Prompt
    attack: ScriptedAttack
    base: Base
    before: str
    after: str
    score_before: float
    score_after: float
    honest_score: float
    truth_before: float
    truth_after: float
    reason: str

    @property
    def gain(self) -> float:
        """The score that the attack gained; on a rejected answer, of beating the chosen one."""
        if self.base == "rejected":
            after = beats(self.score_after, self.honest_score)
            return after - beats(self.score_before, self.honest_score)
        return self.score_after - self.score_before

    @property
    def truth_gain(self) -> float:
        """The gain of the truth."""
        return self.truth_after - self.truth_before


def beats(score: float, other: float) -> float:
    """1 where a score is higher than another, ½ where it is the same, 0 below; NaN if unknown."""
    if math.isnan(score) or math.isnan(other):
        return math.nan
    return 0.5 * (1 + math.copysign(score != other, score - other))


def attack(
    judge: Judge,
    truth: Truth,
    answers: Sequence[HonestAnswer],
    attacks: Sequence[ScriptedAttack] = ATTACKS,
    utility: str = "score",
) -> list[AttackedAnswer]:
    """Every attack on every answer, judged; the judge works outside a run or in one."""
    rubric = str(getattr(judge, "criteria", ""))
    texts: list[list[str]] = []  # of each answer: base and attacked, base by base
    for answer in answers:
        own = []
        for base in answer.bases.values():
            own.append(base)
            given = AttackedText(answer.prompt, base, rubric)
            own += [each.write(given) for each in attacks]
        texts.append(own)
    scores = scores_under_attack(judge, answers, texts, len(attacks) + 1, utility)
    truths = truth.values(list(zip(answers, texts, strict=True)))
    attacked = []
    for answer, own, row, true in zip(answers, texts, scores, truths, strict=True):
        for place, base in enumerate(answer.bases):
            first = place * (len(attacks) + 1)
            for number, each in enumerate(attacks, 1):
                before, after = row.pairs[first + number - 1 - place]
                attacked.append(
                    AttackedAnswer(
                        answer.prompt,
                        each,
                        base,
                        own[first],
                        own[first + number],
                        known(before),
                        known(after),
                        row.honest,
                        true[first],
                        true[first + number],
                        after if isinstance(after, str) else "",
                    )
                )
    return attacked


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """The scores (before, after) of each attack on one prompt, and the honest answer's; where the
    judge compares, those of the two side by side, and NaN.
    """

    pairs: Sequence[tuple[float | str, float | str]]
    honest: float


def scores_under_attack(
    judge: Judge,
    answers: Sequence[HonestAnswer],
    texts: Sequence[Sequence[str]],
    stride: int,
    utility: str,
) -> list[ScoredRow]:
    """The scores of every base and its attacked texts; each base begins a stride of `texts`."""
    if not judge.compares:
        rows_to_judge = []
        for answer, own in zip(answers, texts, strict=True):
            rows_to_judge.append((answer.prompt, [answer.text, *own]))
        rows = []
        for honest, *own in scores_of_texts(judge, rows_to_judge, utility):
            pairs = []
            for place, score in enumerate(own):
                if place % stride:
                    pairs.append((own[place - place % stride], score))
            rows.append(ScoredRow(pairs, known(honest)))
        return rows
    if any(answer.rejected for answer in answers):
        return scores_beside_chosen(judge, answers, texts, stride, utility)
    duels = []
    for answer, own in zip(answers, texts, strict=True):
        for place, text in enumerate(own):
            if place % stride:
                duels.append((answer.prompt, [own[place - place % stride], text]))
    scored = iter(scores_of_texts(judge, duels, utility))
    rows = []
    for own in texts:
        attacked = len(own) - len(own) // stride
        pairs = []
        for _ in range(attacked):
            before, after = next(scored)
            pairs.append((before, after))
        rows.append(ScoredRow(pairs, math.nan))
    return rows


def scores_beside_chosen(
    judge: Judge,
    answers: Sequence[HonestAnswer],
    texts: Sequence[Sequence[str]],
    stride: int,
    utility: str,
) -> list[ScoredRow]:
    """The scores of rejected answers and what attacks make of them, each beside the chosen one."""
    duels = []
    for answer, own in zip(answers, texts, strict=True):
        duels += [(answer.prompt, [answer.text, text]) for text in own]
    scored = iter(scores_of_texts(judge, duels, utility))
    rows = []
    for own in texts:
        leads: list[float | str] = []
        for _ in own:
            chosen, rejected = next(scored)
            if isinstance(chosen, str) or isinstance(rejected, str):
                leads.append(str(rejected))
            else:
                leads.append(rejected - chosen)
        rows.append(ScoredRow([(leads[0], lead) for lead in leads[1:]], 0.0))
    return rows


# -- what they show


@dataclass(frozen=True, slots=True)
class AttackResult:
    """Result of one attack on one kind of answers.

    `gain` is the mean of the score's gain with its own 95 % interval, `together` the wider one that
    holds with those of all other attacks; `adjusted` is the sign-flip test's p-value after Holm's
    correction; `kind` is what the gain is owed to: the attack's, or length, where empty sentences
    gain as much by the same length. `truth` is the truth's gain, at the level of `together`.

    `beats_honest` is the share of prompts on which the text scores above the honest answer, ties
    counting half. `hollow`, of texts that hold nothing of an answer, is the share of prompts on
    which the text scores as high as the honest answer does, and above the least that any text there
    scores. `unjudged` texts have no score and are in no mean. `texts` are the single answers, those
    that gain most first.
    """

    attack: ScriptedAttack
    base: Base
    kind: Kind
    gain: Interval
    together: Interval
    adjusted: float
    truth: Interval
    beats_honest: Interval | None
    hollow: Interval | None
    unjudged: int
    texts: Sequence[AttackedAnswer]

    @property
    def name(self) -> str:
        """The attack and what it rewrote."""
        return f"{self.attack.name}, {self.base}"

    @property
    def gains(self) -> bool:
        """True if the score surely rises."""
        return self.adjusted < LEVEL and is_above_zero(self.together)

    @property
    def is_exploit(self) -> bool:
        """True if the score surely rises and the truth is not shown to."""
        return self.gains and not is_above_zero(self.truth)

    @property
    def is_hollow(self) -> bool:
        """True if a text without an answer surely scores as high as most honest answers do."""
        return self.hollow is not None and self.hollow.low > 0.5

    @property
    def word(self) -> str:
        """The verdict in a word or two."""
        if not self.gain.n:
            return "not judged"
        if self.is_exploit:
            return "exploit"
        if self.is_hollow:
            return "hollow"
        return "better, too" if self.gains else "no gain shown"

    def facts(self) -> dict[str, Any]:
        """Plain JSON values."""
        example = self.texts[0]
        return {
            "attack": self.attack.name,
            "kind": self.kind,
            "on": self.base,
            "verdict": self.word,
            "gain": bounds(self.gain),
            "together": bounds(self.together),
            "adjusted_p": finite(self.adjusted),
            "truth": bounds(self.truth),
            "beats_honest": None if self.beats_honest is None else bounds(self.beats_honest),
            "as_good_as_honest": None if self.hollow is None else bounds(self.hollow),
            "unjudged": self.unjudged,
            "example": {
                "prompt": example.prompt.id,
                "before": example.before,
                "after": example.after,
                "score_before": finite(example.score_before),
                "score_after": finite(example.score_after),
                "truth_before": finite(example.truth_before),
                "truth_after": finite(example.truth_after),
            },
        }


def is_above_zero(interval: Interval) -> bool:
    """True if a mean is surely above 0: by its interval, or because all its values are alike."""
    if interval.n > 1 and math.isnan(interval.low):
        return interval.mean > 0
    return interval.low > 0


def bounds(interval: Interval) -> dict[str, float | int | None]:
    """An interval as plain JSON values."""
    return {
        "mean": finite(interval.mean),
        "low": finite(interval.low),
        "high": finite(interval.high),
        "n": interval.n,
    }


def finite(value: float) -> float | None:
    """The number, None where there is none."""
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True, slots=True)
class AttackedJudge:
    """One judge and all that attacks on it showed, the greatest gain first.

    `level` is that of intervals that hold together; `unjudged` are honest answers without a score.
    """

    title: str
    truth: str
    results: Sequence[AttackResult]
    level: float
    prompts: int
    unjudged: int
    is_share: bool

    @property
    def exploits(self) -> list[AttackResult]:
        """The attacks that gain score at no gain of truth."""
        return [result for result in self.results if result.is_exploit]

    @property
    def hollow(self) -> list[AttackResult]:
        """The attacks whose texts hold no answer and score as high as honest ones."""
        return [result for result in self.results if result.is_hollow]

    @property
    def greatest(self) -> AttackResult | None:
        """The exploit that gains most; None without one."""
        return next(iter(self.exploits), None)

    @property
    def open_kinds(self) -> list[str]:
        """Kinds of attack with an exploit, or that pass without an answer."""
        open_ones = [each for each in self.results if each.is_exploit or each.is_hollow]
        return list(dict.fromkeys(result.kind for result in open_ones))

    def facts(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "judge": self.title,
            "truth": self.truth,
            "prompts": self.prompts,
            "unjudged_honest": self.unjudged,
            "level": self.level,
            "exploits": len(self.exploits),
            "hollow": len(self.hollow),
            "open_kinds": self.open_kinds,
            "attacks": [result.facts() for result in self.results],
        }


def attacked_judge(
    judge: Judge, truth: Truth, attacked: Sequence[AttackedAnswer], title: str = ""
) -> AttackedJudge:
    """Results of attacks on a judge, corrected for how many they are."""
    groups: dict[tuple[str, Base], list[AttackedAnswer]] = {}
    for answer in attacked:
        groups.setdefault((answer.attack.name, answer.base), []).append(answer)
    of_group = list(groups.values())
    least: dict[str, float] = {}  # prompt -> the least score of any text
    for answer in attacked:
        lowest = np.nanmin([answer.score_before, answer.score_after, answer.honest_score, math.inf])
        least[answer.prompt.id] = min(least.get(answer.prompt.id, math.inf), float(lowest))
    gain_PK = np.array([[answer.gain for answer in group] for group in of_group]).T
    truth_PK = np.array([[answer.truth_gain for answer in group] for group in of_group]).T
    limits = judge.score_range
    is_share = limits is not None and limits[0] >= 0 and limits[1] <= 1
    votes = any(answer.base == "rejected" for answer in attacked)
    level = joint_level(gain_PK) if gain_PK.size else 0.95
    p_K = [sign_flip(column[np.isfinite(column)]) for column in gain_PK.T]
    adjusted_K = holm(p_K)
    results = []
    for number, group in enumerate(of_group):
        gain_P = gain_PK[:, number]
        share = is_share or votes
        gain_P = gain_P[np.isfinite(gain_P)]
        true_P = truth_PK[:, number]
        true_P = true_P[np.isfinite(true_P)]
        group.sort(key=lambda answer: -answer.gain if math.isfinite(answer.gain) else math.inf)
        results.append(
            AttackResult(
                group[0].attack,
                group[0].base,
                group[0].attack.kind,
                paired_difference(gain_P, share=share),
                paired_difference(gain_P, level=level, share=share),
                float(adjusted_K[number]),
                paired_difference(true_P, level=level),
                share_above_honest(group),
                share_as_good(group, least, level),
                sum(math.isnan(answer.score_after) for answer in group),
                group,
            )
        )
    results.sort(
        key=lambda result: (
            not result.is_exploit,
            not result.is_hollow,
            -nan_last(result.gain.mean),
        )
    )
    results = [owed_to_length(judge, result, level) for result in results]
    first = of_group[0] if of_group else []
    unjudged = sum(math.isnan(answer.score_before) for answer in first)
    return AttackedJudge(
        title or judge.title, truth.name, results, level, len(first), unjudged, is_share or votes
    )


def owed_to_length(judge: Judge, result: AttackResult, level: float) -> AttackResult:
    """The result of an exploit, as one of length where empty sentences behind the same answers, as
    many words in all, gain as much.
    """
    if not result.is_exploit or result.base == "rejected":
        return result
    beside = []
    for answer in result.texts:
        if len(answer.after) > len(answer.before):
            control = filled(answer.before, answer.after)
            beside.append((answer.prompt, [answer.after, control]))
    more = []
    for own, control in scores_of_texts(judge, beside):
        if not isinstance(own, str) and not isinstance(control, str):
            more.append(own - control)
    if not more:
        return result
    if is_above_zero(paired_difference(more, level=level)):
        return result
    return replace(result, kind="length")


def nan_last(value: float) -> float:
    """A value to sort by, the least of all in place of NaN."""
    return -math.inf if math.isnan(value) else value


def share_above_honest(group: Sequence[AttackedAnswer]) -> Interval | None:
    """The share of texts that score above the honest answer; None where that is not known."""
    wins = [beats(answer.score_after, answer.honest_score) for answer in group]
    decided = [win for win in wins if not math.isnan(win)]
    return mean_interval(decided, share=True) if decided else None


def share_as_good(
    group: Sequence[AttackedAnswer], least: Mapping[str, float], level: float
) -> Interval | None:
    """The share of texts without an answer that score as high as the honest one, and above the
    least of all texts; None for other texts.
    """
    first = group[0]
    if first.attack.keeps or first.base != "honest":
        return None
    known_honest = [answer for answer in group if math.isfinite(answer.honest_score)]
    as_good = []
    for answer in known_honest:
        reached = answer.score_after >= answer.honest_score
        as_good.append(float(reached and answer.score_after > least[answer.prompt.id]))
    return mean_interval(as_good, level=level, share=True) if as_good else None


# -- the same judge behind a gate


def fitted_gate(answers: Sequence[HonestAnswer]) -> NoTricks:
    """The gate that honest answers pass: each limit as it is by default, or as far as they need."""
    longest = 30
    shortest = math.inf
    repeats = 0.0
    praise = 0
    markup = 0.0
    default = NoTricks()
    for answer in answers:
        count = len(WORD.findall(answer.text))
        longest = max(longest, math.ceil(1.25 * count))
        shortest = min(shortest, count / 2)
        repeats = max(repeats, repetition(answer.text))
        praise = max(praise, len(PRAISE.findall(answer.text)))
        if count and len(MARKUP.findall(answer.text)) > 2:
            markup = max(markup, len(MARKUP.findall(answer.text)) / count)
    fitted = NoTricks(
        most_words=longest,
        least_words=max(1, math.floor(shortest)) if answers else 1,
        repeats=round(min(1.0, max(default.repeats, repeats + 0.001)), 3),
        praise=max(default.praise, praise),
        markup=round(max(default.markup, markup + 0.001), 3),
    )
    spoken = sum("verdict" in fitted.tricks(answer.prompt, answer.text) for answer in answers)
    return fitted.model_copy(update={"verdicts": spoken > len(answers) / 20})


def gated_judge(
    judge: Judge, answers: Sequence[HonestAnswer], attacked: Sequence[AttackedAnswer]
) -> Gated:
    """The judge behind a gate that honest answers pass.

    What fails gets the least score that the judge can give or, where that is not known, the least
    that it gave to an answer that nobody had attacked.
    """
    floor = None
    limits = judge.score_range
    if not judge.compares and (limits is None or not math.isfinite(limits[0])):
        plain = [answer.score_before for answer in attacked]
        plain += [answer.honest_score for answer in attacked]
        floor = min((score for score in plain if math.isfinite(score)), default=0.0)
    return Gated(judge_of_answers=judge, gate=fitted_gate(answers), floor=floor)


def tricks_shown(answers: Sequence[tuple[Prompt, str]], gate: NoTricks) -> Iterator[str]:
    """The tricks that each text shows, by name; "none" where it shows none."""
    for prompt, text in answers:
        shown = gate.tricks(prompt, text)
        yield from shown or ["none"]
