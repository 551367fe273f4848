"""Rows that stand in for published data are read as those are, label and all."""

import json

from benchmarks import __main__ as every
from benchmarks import stand_ins
from equipoise.prompts.prompt_files import Files

# File -> the fact that a benchmark reads, "" where there is none.
FACTS = {
    "gtalign/wildguard/train.parquet": "harmful",
    "gtalign/wildguard/test.parquet": "harmful",
    "gtalign/ambig_qa/train.parquet": "ambiguous",
    "gtalign/ambig_qa/test.parquet": "ambiguous",
    "gpo/train.json": "",
    "gpo/test.json": "",
    "sparta/gsm8k_scored.json#dev": "answer",
    "sparta/gsm8k_scored.json#test": "answer",
    "sparta/gsm8k_questions.json": "",
    "sparta/culturebench_scored.json#dev": "question_id",
    "sparta/culturebench_scored.json#test": "answer",
}


def test_stand_ins_are_read_as_the_published_files_are(tmp_path):
    stand_ins.write(tmp_path, 40)
    for name, fact in FACTS.items():
        prompts = Files.model_validate({"path": str(tmp_path / name)}).load().training
        assert len({prompt.id for prompt in prompts}) >= 2, name
        values = {json.dumps(prompt.facts.get(fact)) for prompt in prompts}
        assert not fact or (len(values) >= 2 and "null" not in values), name


def test_every_benchmark_that_reads_data_has_stand_ins(tmp_path):
    stand_ins.write(tmp_path, 8)
    assert every.DATA.keys() <= every.SHORT.keys()
    assert all((tmp_path / folder).is_dir() for folder in every.DATA.values())
