"""Frozen bases of 4 or 8 bits a weight, by the packages that transformers and PEFT take for them.

    4bit    NF4 in blocks of 64, whose scales take 8 bits (QLoRA, arXiv 2305.14314): bitsandbytes
    8bit    integers with a scale for each row of a layer's weights: torchao

Linear layers alone are short, without the output head, and are multiplied in the model's dtype. So
a row's numbers are its own: LLM.int8() (bitsandbytes' 8 bits) looks for outliers in a whole batch,
and SmolLM2 gave the same answer .15 nats a token more or less, by the rows beside it.
"""

from importlib.util import find_spec
from typing import Annotated, Any, Literal

from pydantic import Field

Quantization = Annotated[
    Literal["4bit", "8bit"] | None,
    Field(
        description="of weights that are not trained (a learner's base under lora): 4bit by "
        "bitsandbytes, 8bit by torchao; null: as they are"
    ),
]
PACKAGES = {"4bit": "bitsandbytes", "8bit": "torchao"}
BYTES = {"4bit": 0.52, "8bit": 1.0}  # of a weight with its part of the scales


def missing_package(quantization: Quantization) -> str:
    """A message about the package that models are loaded by; "" where it is here."""
    if quantization is None or find_spec(PACKAGES[quantization]) is not None:
        return ""
    return (
        f"quantization: {quantization} is by {PACKAGES[quantization]}, which is not installed; "
        "pip install 'equipoise[quantization]'"
    )


def loading_options(quantization: Quantization, dtype: Any, device: Any) -> dict[str, Any]:
    """The arguments of `from_pretrained` that quantise on `device` for products in `dtype`."""
    from transformers import BitsAndBytesConfig, TorchAoConfig

    if quantization == "4bit":
        config: Any = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        )
    else:
        from torchao.quantization import Int8WeightOnlyConfig  # pyright: ignore[reportMissingImports]

        config = TorchAoConfig(Int8WeightOnlyConfig())
    return {"quantization_config": config, "device_map": {"": device}}


def keep_from_sending(model: Any) -> None:
    """Keep DDP from sending what each process has read and does not train: torchao cannot."""
    from torch.nn.parallel import DistributedDataParallel

    frozen = [name for name, weight in model.named_parameters() if not weight.requires_grad]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, frozen)


def keep_gradients(model: Any) -> None:
    """Keep bitsandbytes from packing weights on a CPU: what is packed passes no gradient on."""
    for layer in model.modules():
        if hasattr(layer, "support_avx512bf16_for_cpu"):
            layer.support_avx512bf16_for_cpu = False
