"""All schemas of rows, in the order in which a row is tried."""

from equipoise.component import nearest
from equipoise.errors import DataError
from equipoise.prompts.schemas.chats import CHAT_SCHEMAS, TEXT_SCHEMA
from equipoise.prompts.schemas.compared import COMPARED_SCHEMAS
from equipoise.prompts.schemas.published_schemas import PUBLISHED_SCHEMAS
from equipoise.prompts.schemas.questions import QUESTION_SCHEMAS
from equipoise.prompts.schemas.schema import Schema

SCHEMAS: tuple[Schema, ...] = (
    *PUBLISHED_SCHEMAS,
    QUESTION_SCHEMAS[0],  # stepwise, before lists of answers
    *COMPARED_SCHEMAS,
    *CHAT_SCHEMAS,
    *QUESTION_SCHEMAS[1:],
    TEXT_SCHEMA,
)


def schema_named(name: str, where: str) -> Schema:
    """The schema of that name. Raises DataError for an unknown one."""
    for schema in SCHEMAS:
        if schema.name == name:
            return schema
    names = [schema.name for schema in SCHEMAS]
    raise DataError(f"{where}: no schema '{name}'; {nearest(name, names)}")
