"""Unmodified Hugging Face models, and adapters on one, against the loop over examples."""

import pytest
import torch
import torch.nn.functional as F

from tacit.train.clip import Clipper
from train_zoo import furthest, naive, trainable

pytestmark = [pytest.mark.needs("transformers"), pytest.mark.filterwarnings("ignore")]
SMALL = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
WORDS = {"vocab_size": 50, "max_position_embeddings": 16, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}


def next_word(model, batch):
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits
    losses = F.cross_entropy(logits[:, :-1].transpose(1, 2), batch["ids"][:, 1:], reduction="none")
    return (losses * batch["mask"][:, 1:]).mean(1)


def category(model, batch):
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"]).logits
    return F.cross_entropy(logits, batch["ids"][:, 0] % 2, reduction="none")


def translation(model, batch):
    logits = model(input_ids=batch["ids"], attention_mask=batch["mask"], decoder_input_ids=batch["ids"]).logits
    return F.cross_entropy(logits.transpose(1, 2), batch["ids"], reduction="none").mean(1)


def picture(model, batch):
    return F.cross_entropy(model(pixel_values=batch["pixels"]).logits, batch["y"], reduction="none")


def make(name: str):
    import transformers as hf

    if name == "gpt2":
        config = hf.GPT2Config(
            vocab_size=50, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2
        )
        return hf.GPT2LMHeadModel(config), next_word
    if name == "gpt2 with adapters":
        import peft

        model, loss = make("gpt2")
        wanted = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
        return peft.get_peft_model(model, wanted), loss
    if name == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**SMALL, **WORDS, num_key_value_heads=1)), next_word
    if name == "bert":
        return hf.BertForSequenceClassification(hf.BertConfig(**SMALL, **WORDS)), category
    if name == "t5":
        config = hf.T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
        return hf.T5ForConditionalGeneration(config), translation
    return hf.ViTForImageClassification(hf.ViTConfig(**SMALL, image_size=8, patch_size=4)), picture


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2", "gpt2 with adapters", "llama", "bert", "t5", "vit"])
def test_unmodified_models_are_clipped_exactly(name: str) -> None:
    torch.manual_seed(0)
    model, loss = make(name)
    model.eval()
    ids = torch.randint(3, 50, (5, 7))
    mask = torch.ones_like(ids)
    mask[:2, 5:] = 0
    batch = {"ids": ids, "mask": mask}
    if name == "vit":
        batch = {"pixels": torch.randn(5, 3, 8, 8), "y": torch.tensor([0, 1, 0, 1, 1])}
    clipper = Clipper(model, loss, trainable(model), 0.5)
    found = clipper(batch, torch.ones(5, dtype=torch.bool))
    sums, norms = naive(model, loss, batch, 0.5)
    torch.testing.assert_close(found.norms.double(), norms, rtol=1e-5, atol=1e-7)
    assert furthest(found.sums, sums) < 1e-5
    assert all(structure.checked for structure in clipper.structures.values())
