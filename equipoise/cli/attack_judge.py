"""`equipoise attack-judge JUDGE`: how much score can be gained at no gain of truth."""

from pathlib import Path
from typing import Annotated

import typer

from equipoise.errors import ConfigError
from equipoise.system.command_options import Json, Trust, override, say, show

PAGE = "attack.html"
PLAYER = "player."
TRAIN = "train."

JudgeToAttack = Annotated[
    str,
    typer.Argument(
        metavar="JUDGE",
        help="myjudge.py, a judge's kind, YAML, a YAML file, a recipe or a run",
        show_default=False,
    ),
]
PromptFile = Annotated[
    str,
    typer.Option(
        "--prompts",
        help="rows of prompts with honest answers: JSONL, JSON, CSV, Parquet, a folder, a hub set; "
        "or packaged prompts by their kind",
        show_default=False,
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="a model's folder, hub id, packaged name or an endpoint's address, whose answers are "
        "attacked",
        show_default="the answers in the rows",
    ),
]
TruthOption = Annotated[
    str,
    typer.Option(
        "--truth",
        help="what must not rise: a trusted judge such as gold; votes: of the chosen and rejected "
        "answers in the rows; likeness: to the honest answer",
    ),
]
Beside = Annotated[
    list[str],
    typer.Option(
        metavar="NAME=JUDGE", help="another judge that gets the same attacks; may be given again"
    ),
]
KindsOption = Annotated[
    list[str],
    typer.Option("--kinds", help="attack so alone; may be given again", show_default="all"),
]
Limit = Annotated[
    int | None, typer.Option(min=2, help="prompts", show_default="50; 12 where a model judges")
]
NoGate = Annotated[bool, typer.Option("--no-gate", help="do not attack it behind a gate, too")]
Updates = Annotated[
    int, typer.Option(min=0, help="also train an attacker from the model, so many updates")
]
Settings = Annotated[
    list[str],
    override(
        "a setting of the judge: threshold=0.5; of the model: player.max_new_tokens=64; of the "
        "attacker's run: train.learner.learning_rate=1e-4"
    ),
]
Out = Annotated[Path, typer.Option(metavar="PAGE", help="where to write the page")]


def attack_judge(
    judge: JudgeToAttack,
    prompts: PromptFile = "",
    model: Model = "",
    truth: TruthOption = "likeness",
    beside: Beside = [],  # noqa: B006
    kinds: KindsOption = [],  # noqa: B006
    limit: Limit = None,
    no_gate: NoGate = False,
    updates: Updates = 0,
    set: Settings = [],  # noqa: B006
    out: Out = Path(PAGE),
    trust: Trust = False,
    json: Json = False,
) -> None:
    """Attack a judge before anything is trained on it.

    Scripted attackers rewrite honest and wrong answers, and a second measure says whether they got
    better. The page shows every exploit as an answer to read, and the judge behind a gate. With
    --updates a copy of the model is trained for the judge's score alone, too.
    """
    from equipoise.api.attacking_judges import attack_judge as attack
    from equipoise.api.attacking_judges import check_page
    from equipoise.blocks.terminal import terminal
    from equipoise.report.attack_page import attack_lines

    if not prompts:
        raise ConfigError(
            "attack-judge: name the prompts and honest answers, as in "
            f"`equipoise attack-judge {judge} --prompts prompts.jsonl`"
        )
    of_training = [text.removeprefix(TRAIN) for text in set if text.startswith(TRAIN)]
    check_page(out)
    others = dict(named_judge(text) for text in beside)
    of_player = [text.removeprefix(PLAYER) for text in set if text.startswith(PLAYER)]
    if of_player and not model:
        raise ConfigError(
            f"-s {PLAYER}{of_player[0]}: is of the model, and none is named (--model)"
        )
    attacked = attack(
        judge,
        prompts,
        model=model or None,
        truth=truth,
        beside=others,
        kinds=kinds,
        limit=limit,
        gate=not no_gate,
        settings=[text for text in set if not text.startswith((PLAYER, TRAIN))],
        player_settings=of_player,
        updates=updates,
        train_settings=of_training,
        progress=not json,
        trust=trust,
    )
    page = attacked.write(out)
    if json:
        show({**attacked.facts(), "page": str(page)})
        return
    console = terminal()
    for line in attack_lines(attacked.judges, attacked.trained):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    for note in attacked.notes:
        console.print(f"note: {note}", style="dim", markup=False, soft_wrap=True)
    say(f"page: {page}")


def named_judge(text: str) -> tuple[str, str]:
    """(name, judge) of NAME=JUDGE. Raises ConfigError."""
    name, equals, judge = text.partition("=")
    if not equals or not name or not judge:
        raise ConfigError(f"--beside {text}: give NAME=JUDGE, as in --beside panel=panel.yaml")
    return name, judge
