"""The output head under FSDP: two processes that hold half of every weight each."""

import subprocess
import sys

import pytest

SHARDED = """
import sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import AutoModelForCausalLM
from equipoise.models.packing import PromptAnswers, pack, shares_prompts
from equipoise.models.output_head import AnswerHead

torch.set_num_threads(1)
dist.init_process_group("gloo")
batch = [PromptAnswers([5, 6, 7, 8], [[9, 10, 11], [12, 13]]), PromptAnswers([15, 6, 7], [[9, 11], [12, 13, 4, 5]])]
whole, sharded = (AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32) for _ in range(2))
mesh = init_device_mesh("cpu", (2,))
for part in (*sharded.model.layers, sharded):
    fully_shard(part, mesh=mesh)
sums = []
for model in (whole, sharded):
    head = AnswerHead(model, 3)
    assert shares_prompts(head, model, batch[0], 20)
    sums.append(pack(batch, 0, shared=True).sums(head, model))
    (sums[-1] * torch.arange(4.0)).sum().backward()
torch.testing.assert_close(*sums)
for first, second in zip(whole.parameters(), sharded.parameters(), strict=True):
    torch.testing.assert_close(second.grad.full_tensor(), first.grad)
dist.barrier()  # neither leaves while the other still needs it
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_sharded_weights_give_the_same_sums_and_gradients(model_folder, tmp_path):
    script = tmp_path / "sharded.py"
    script.write_text(SHARDED)
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node",
        "2",
        str(script),
    ]
    done = subprocess.run(
        [*command, str(model_folder("llama"))],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
