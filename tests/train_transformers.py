"""Small models of transformers with a loss per example."""

from __future__ import annotations

import torch.nn.functional as F

SMALL = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
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


def make(name: str, attention: str = "sdpa", layers: int = 2):
    import transformers as hf

    how = {"attn_implementation": attention}
    small = {**SMALL, "num_hidden_layers": layers}
    if name == "gpt2":
        config = hf.GPT2Config(
            vocab_size=50, n_positions=16, n_embd=16, n_layer=layers, n_head=2, bos_token_id=1, eos_token_id=2, **how
        )
        return hf.GPT2LMHeadModel(config), next_word
    if name == "gpt2 with adapters":
        import peft

        model, loss = make("gpt2")
        wanted = peft.LoraConfig(r=2, target_modules=["c_attn"], fan_in_fan_out=True)
        return peft.get_peft_model(model, wanted), loss
    if name == "llama":
        return hf.LlamaForCausalLM(hf.LlamaConfig(**small, **WORDS, **how, num_key_value_heads=1)), next_word
    if name == "bert":
        return hf.BertForSequenceClassification(hf.BertConfig(**small, **WORDS, **how)), category
    if name == "t5":
        config = hf.T5Config(vocab_size=50, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2)
        return hf.T5ForConditionalGeneration(config), translation
    return hf.ViTForImageClassification(hf.ViTConfig(**small, image_size=8, patch_size=4)), picture
