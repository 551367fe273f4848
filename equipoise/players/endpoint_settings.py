"""The settings of a player behind an OpenAI-compatible endpoint, checked without asking it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator

from equipoise.component import Settings
from equipoise.errors import ConfigError, DataError
from equipoise.models.thought_marks import SWITCHES
from equipoise.players.base import Player
from equipoise.players.sent_messages import chat_fields
from equipoise.system.addresses import KeyVariable, check_address, key_of, of_the_machine
from equipoise.system.effects import NOTHING, Text, Url
from equipoise.system.http_bounds import LONGEST_REPLY
from equipoise.types import Prompt

# Fields of the request that settings fill, so that `extra_body` may not: field -> setting.
SETTING_OF_FIELD = {
    "model": "model",
    "temperature": "temperature",
    "top_p": "top_p",
    "max_tokens": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "stop": "stop",
    "seed": "send_seed",
    "response_format": "structured",
    "logprobs": "logprobs",
}
TEMPLATE_VARIABLES = "chat_template_kwargs"
"""The field of a request with variables for the server's chat template."""
# Fields that the player fills itself: it needs one whole answer to the view it was given.
RESERVED_FIELDS = ("messages", "n", "stream", "stream_options")


class Prices(Settings):
    """Prices of tokens; those of one run are in one currency."""

    input: float = Field(
        ge=0, allow_inf_nan=False, description="money per million tokens of the question"
    )
    output: float = Field(
        ge=0,
        allow_inf_nan=False,
        description="money per million tokens of the answer with its reasoning",
    )
    currency: Text = Field(
        "USD", min_length=1, description="the currency of these prices, shown beside amounts"
    )


class Budget(Settings):
    """The most that an account may spend in one run, which then stops resumable; null: no limit."""

    calls: int | None = Field(
        None, ge=0, description="requests that are sent, each attempt and time-out for itself"
    )
    tokens: int | None = Field(
        None,
        ge=0,
        description="tokens of questions and answers together; a time-out counts as the most that "
        "it can have taken",
    )
    money: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="in the currency of the prices, time-outs as with tokens",
    )


class EndpointSettings(Player):
    """The server's address, the content of a request, and the budget."""

    model_config = ConfigDict(hide_input_in_errors=True)

    kind: Literal["endpoint"] = "endpoint"
    base_url: Url = Field(
        description="where the server answers, up to /chat/completions: "
        "http://127.0.0.1:8000/v1; a list: the first, and its `replicas`"
    )
    replicas: tuple[Url, ...] = Field(
        (),
        description="further addresses of the same model; questions are divided among all, "
        "equal ones go to one, and to the next where that fails",
    )
    model: Text = Field(min_length=1, description="the model's name there")
    api_key_env: KeyVariable = None
    temperature: float | None = Field(
        1.0, ge=0, allow_inf_nan=False, description="of sampling; null: not sent"
    )
    top_p: float | None = Field(
        1.0, gt=0, le=1, description="sample from the fewest tokens that hold this; null: not sent"
    )
    max_new_tokens: int = Field(
        256, ge=1, description="most tokens of an answer with its reasoning"
    )
    enable_thinking: bool | None = Field(
        None,
        description="let the model think before it answers, by its chat template's switch, which "
        "vLLM and SGLang pass on (chat_template_kwargs); null: nothing is sent",
    )
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = Field(
        "max_tokens", description="the server's name of max_new_tokens"
    )
    stop: tuple[Text, ...] = Field((), description="texts that end an answer, and are not in it")
    send_seed: bool = Field(
        True, description="send each row's seed (31 bits); some services refuse it"
    )
    logprobs: bool = Field(False, description="ask for log-probabilities of the answer's tokens")
    extra_body: Annotated[dict[str, Any], NOTHING] = Field(
        default_factory=dict, description="more fields of the request: top_k, reasoning_effort"
    )
    structured: Literal["auto", "json_schema", "json_object", "none"] = Field(
        "auto", description="form of a JSON schema; auto: the strictest that the server takes"
    )
    concurrency: int = Field(16, ge=1, description="requests in flight at most")
    timeout: float = Field(
        300.0, gt=0, allow_inf_nan=False, description="seconds that one request may take"
    )
    retries: int = Field(
        6, ge=0, description="more attempts after a time-out, a broken connection, 429 or 5xx"
    )
    longest_reply: int = Field(
        LONGEST_REPLY,
        ge=1,
        description="bytes of a reply, uncompressed; a longer one fails its row",
    )
    prices: Prices | None = Field(None, description="prices of tokens; null: costs are not counted")
    budget: Budget = Field(
        default_factory=lambda: Budget.model_validate({}),
        description="what the account may spend in one run",
    )
    account: Text | None = Field(
        None, description="players of one account share its spending; null: the model"
    )

    @model_validator(mode="before")
    @classmethod
    def _without_proxy(cls, given: Any) -> Any:
        return of_the_machine(given, {"proxy": "proxy", "trust_env": "proxy"})

    @model_validator(mode="before")
    @classmethod
    def _a_list_is_a_pool(cls, given: Any) -> Any:
        urls = given.get("base_url") if isinstance(given, Mapping) else None
        if not isinstance(urls, list | tuple) or not urls or given.get("replicas"):
            return given
        return {**given, "base_url": urls[0], "replicas": tuple(urls[1:])}

    @field_validator("replicas")
    @classmethod
    def _are_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(cls._address, urls))

    @field_validator("base_url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        return cls._address(url)

    @staticmethod
    def _address(url: str) -> str:
        return check_address(url).removesuffix("/chat/completions")

    @field_validator("extra_body")
    @classmethod
    def _repeats_no_setting(cls, body: dict[str, Any]) -> dict[str, Any]:
        for field in body:
            if field in RESERVED_FIELDS:
                raise ValueError(f"'{field}' cannot be changed")
            if field in SETTING_OF_FIELD:
                setting = SETTING_OF_FIELD[field]
                raise ValueError(f"'{field}' has a setting of its own: {setting}")
        if not isinstance(body.get(TEMPLATE_VARIABLES, {}), Mapping):
            raise ValueError(f"'{TEMPLATE_VARIABLES}' must be a mapping of variables")
        json.dumps(body, allow_nan=False)  # raises ValueError
        return body

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        given = self.extra_body.get(TEMPLATE_VARIABLES, {})
        for switch in SWITCHES:
            if self.enable_thinking is not None and given.get(switch, self.enable_thinking) != (
                self.enable_thinking
            ):
                raise ValueError(
                    f"enable_thinking is {self.enable_thinking}, but extra_body says {switch}: "
                    f"{given[switch]}; leave one of them out"
                )
        if self.learns:
            raise ValueError(
                "an endpoint cannot learn, for its weights are not here; let a 'local' player learn"
            )
        if self.budget.money is not None and self.prices is None:
            raise ValueError("budget.money needs prices: {input: …, output: …}")
        return self

    def faults(self) -> Iterator[str]:
        try:
            self.key()
        except ConfigError as error:
            yield str(error)

    def faults_of_prompts(self, prompts: Sequence[Prompt]) -> Iterator[str]:
        """A message about the first chat that the protocol cannot carry."""
        for prompt in prompts:
            try:
                chat_fields(prompt.messages)
            except DataError as error:
                yield f"a prompt cannot be sent: {error} (prompt {prompt.id})"
                return

    @property
    def address(self) -> tuple[str, str]:
        """Where the model answers, and its name there."""
        return self.base_url, self.model

    def cost(self, prompt_tokens: float, completion_tokens: float) -> float:
        """The price of so many tokens; 0 without prices."""
        if self.prices is None:
            return 0.0
        return (prompt_tokens * self.prices.input + completion_tokens * self.prices.output) / 1e6

    @property
    def most_requests(self) -> int:
        """The most requests that one question can take: attempts, and formats of a schema."""
        return 1 + self.retries + 2 * (self.structured == "auto")

    def key(self) -> str | None:
        """The key from the environment; None if none is needed. Raises ConfigError."""
        return key_of(self.api_key_env, self.base_url)
