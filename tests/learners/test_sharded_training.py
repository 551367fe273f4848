"""The Trainer under FSDP2: two processes that hold half of every weight each learn what one process
does.
"""

from pathlib import Path

import pytest
from test_launch import assert_same, learner, moved, training_batch, weights_of

from equipoise.learners.launch import Launch
from equipoise.learners.process_group import ProcessGroup

# accelerate shards on accelerators alone. Here a process on the CPU says that it has one.
ON_CPU = """
import sys, torch
from pathlib import Path
from accelerate import PartialState
from equipoise.learners import answer_trainer, training_worker

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
def backend(self, cpu=False, *args, **kwargs):
    from accelerate.utils import DistributedType
    return "gloo", DistributedType.MULTI_GPU
def device(self):
    self.device = torch.device("cpu")
PartialState._prepare_backend, PartialState.set_device = backend, device

def sharded(self, *args, **kwargs):
    from torch.distributed.tensor import DTensor
    assert self.is_fsdp_enabled, "accelerate divides no weights"
    # The layers; after the last pass forward the root's own weights lie whole.
    whole = [
        name
        for name, weight in self.model.named_parameters()
        if "layers" in name and not isinstance(weight, DTensor)
    ]
    assert not whole, f"not divided: {whole}"
    return save(self, *args, **kwargs)
save = answer_trainer.AnswerTrainer.save_whole
answer_trainer.AnswerTrainer.save_whole = sharded
training_worker.main(Path(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "lora"), [("qwen3", {"r": 4}), ("qwen3", None)], ids=["lora", "full"]
)
def test_sharded_processes_learn_what_one_does(model_folder, tmp_path, family, lora):
    model = model_folder(family)
    one, two = (training_batch(model, tmp_path / name, lora=lora) for name in ("one", "two"))
    facts = learner("preference").learn(one)
    script = tmp_path / "on_cpu.py"
    script.write_text(ON_CPU)
    some = learner("preference", batch_size=4, launch={"config": "fsdp2"})

    class OnCpu(Launch):
        def command(self, folder: Path) -> list[str]:
            return [*super().command(folder)[:-3], str(script), str(folder)]

    launch = OnCpu.model_validate(some.launch.model_dump())
    with ProcessGroup(launch, two.scratch / "launch") as group:
        assert group.learn(some, two) == {
            name: pytest.approx(value, rel=5e-4, abs=1e-9) for name, value in facts.items()
        }
    assert {file.name for file in one.output.iterdir()} == {
        file.name for file in two.output.iterdir()
    }
    assert_same(one.output, two.output, atol=1e-5)
    for file in one.output.glob("config.json"):
        assert file.read_text() == (two.output / file.name).read_text()
    assert {w.dtype for w in weights_of(one.output).values()} == {
        w.dtype for w in weights_of(two.output).values()
    }
    assert lora is not None or moved(two.output, model) > 1e-3
