"""The solver, by which rivals answer what the model was asked, and the scorer, which lets a judge
of Equipoise say who did better.
"""

# pyright: reportMissingImports=false

import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import anyio
from inspect_ai import Task, task, task_with
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ModelOutput, get_model
from inspect_ai.scorer import Score, Scorer, Target, scorer
from inspect_ai.solver import Generate, Solver, TaskState, chain, solver
from inspect_ai.util import collect

from equipoise import trl
from inspect_equipoise.metrics import league, rating, results, win_rate

RIVALS = "inspect_equipoise:rivals"
"""The key of the sample's store below which the rivals' answers lie."""


def model_names(models: str | Sequence[str]) -> list[str]:
    """Names of models, separated by commas on a command line."""
    return models.split(",") if isinstance(models, str) else list(models)


@solver
def pairwise(rivals: str | Sequence[str]) -> Solver:
    """Have each of the `rivals`, models by Inspect's names, answer the last question, too.

    It stands behind a task's own solver; without one the model is asked as it is.
    """
    names = model_names(rivals)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        if str(state.model) in {str(get_model(name)) for name in names}:
            raise PrerequisiteError(f"pairwise: {state.model} is evaluated and is a rival, too")
        if not any(isinstance(each, ChatMessageAssistant) for each in state.messages):
            state = await generate(state)
        chat = asked(state.messages)
        outputs = await collect(*(get_model(name).generate(chat) for name in names))
        answers = {
            str(get_model(name)): answer_of(output)
            for name, output in zip(names, outputs, strict=True)
        }
        state.store.set(RIVALS, answers)
        return state

    return solve


def answer_of(output: ModelOutput) -> str | None:
    """What a model answered; None where its server refused a prompt that does not fit, which
    Inspect takes for the answer.
    """
    refused = output.stop_reason == "model_length" and output.usage is None
    return None if refused or output.error else output.completion


def asked(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """The chat before its last answer."""
    last = max(i for i, each in enumerate(messages) if isinstance(each, ChatMessageAssistant))
    return list(messages[:last])


@scorer(metrics=[win_rate(), rating(), league()])
def preference(
    judge: str | dict[str, Any], utility: str = "score", target: str = "answer", seed: int = 0
) -> Scorer:
    """The share of the rivals that the model beats by a judge, a tie counting as half.

    `judge`: of Equipoise, by its kind, YAML or settings; the answers are the seats of one match,
    the sample's metadata the prompt's facts, and its target the fact `target`. A sample that the
    model or every rival did not answer, or on which the judge says nothing, is unscored, with the
    reason.
    """
    heard = threading.local()  # each sample is judged in a thread
    rewards = trl.reward(
        judge, utility=utility, seed=seed, say=lambda text: heard.said.append(text)
    )

    async def score(state: TaskState, goal: Target) -> Score:
        answers = {str(state.model): answer_of(state.output), **state.store.get(RIVALS, {})}
        if len(answers) < 2:
            raise PrerequisiteError("preference: no rival has answered; add the solver pairwise")
        chat = [{"role": each.role, "content": each.text} for each in asked(state.messages)]
        facts = {**state.metadata, target: goal.text}
        texts = {name: text for name, text in answers.items() if text is not None}
        columns = {key: [value] * len(texts) for key, value in facts.items()}

        def judged() -> tuple[list[float | None], list[str]]:
            heard.said = []
            values = rewards([chat] * len(texts), list(texts.values()), **columns)
            return values, heard.said

        why = [f"{name} got no answer to this prompt" for name in answers if name not in texts]
        scores: dict[str, float | None] = dict.fromkeys(answers)
        if len(texts) > 1 and str(state.model) in texts:
            values, said = await anyio.to_thread.run_sync(judged)
            scores, why = scores | dict(zip(texts, values, strict=True)), [*why, *said]
        won = [result for _, result in results(scores, str(state.model))]
        facts = {"model": str(state.model), "scores": scores, "answers": answers}
        if not won:
            reason = "; ".join(why) or "the judge gave no score"
            return Score.unscored(
                reason="scoring_failed",
                explanation=reason,
                answer=state.output.completion,
                metadata=facts,
            )
        return Score(
            value=sum(won) / len(won),
            answer=state.output.completion,
            explanation="\n".join(f"{name}: {value}" for name, value in scores.items()),
            metadata=facts,
        )

    return score


@task
def versus(
    task: str,
    rivals: str | Sequence[str],
    judge: str | dict[str, Any],
    options: dict[str, Any] | None = None,
    utility: str = "score",
    target: str = "answer",
) -> Task:
    """Another task's samples and solver, with `pairwise` behind it and `preference` as scorer.

    Args: task: module:function that makes it; options: its arguments; the others as of the two.
    """
    module, _, name = task.partition(":")
    try:
        given = getattr(import_module(module), name)(**options or {})
    except (ImportError, AttributeError, ValueError) as error:
        raise PrerequisiteError(f"versus: task={task} cannot be made: {error}") from error
    return task_with(
        given,
        solver=chain(given.solver, pairwise(rivals)),
        scorer=preference(judge, utility, target),
        metrics=None,
        epochs=1,
        name=f"{name}_versus",
    )
