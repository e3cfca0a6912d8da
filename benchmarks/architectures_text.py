"""Architectures of transformers that read text, sound and series."""

from __future__ import annotations

from functools import partial

from architectures import D_MODEL, EXPERTS, GROUPED, HEADS, LEFT_OUT, WIDTH, WORDS, Architecture, hugging_face

causal = partial(hugging_face, kind="next word")
reader = partial(hugging_face, kind="category")
translator = partial(hugging_face, kind="translation")
HEAD = {"head_dim": 8}
UNBOUNDED, STACKED = {"max_position_embeddings": LEFT_OUT}, {"num_hidden_layers": LEFT_OUT}
MAMBA = {"state_size": 4, "time_step_rank": 2, "expand": 2, "conv_kernel": 3}

DECODERS = [
    causal("GPT2LMHeadModel"),
    causal("OpenAIGPTLMHeadModel"),
    causal("GPTNeoForCausalLM", num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=HEADS),
    causal("GPTJForCausalLM", rotary_dim=4),
    causal("GPTNeoXForCausalLM"),
    causal("GPTBigCodeForCausalLM"),
    causal("CodeGenForCausalLM", rotary_dim=4, n_head=4, num_attention_heads=4),
    causal("CTRLLMHeadModel", dff=32),
    causal("OPTForCausalLM", ffn_dim=32, word_embed_proj_dim=WIDTH),
    causal("BloomForCausalLM", n_head=HEADS, n_layer=2),
    causal("MptForCausalLM", d_model=WIDTH, n_heads=HEADS, n_layers=2, max_seq_len=32, expansion_ratio=2),
    causal("FalconForCausalLM"),
    causal("LlamaForCausalLM", **GROUPED),
    causal("MistralForCausalLM", **GROUPED, sliding_window=4),
    causal("Qwen2ForCausalLM", **GROUPED),
    causal("Qwen3ForCausalLM", **GROUPED, **HEAD),
    causal("GemmaForCausalLM", **GROUPED, **HEAD),
    causal("Gemma2ForCausalLM", **GROUPED, **HEAD, sliding_window=4),
    causal("Gemma3ForCausalLM", **GROUPED, **HEAD, sliding_window=4),
    causal("PhiForCausalLM"),
    causal("Phi3ForCausalLM", **GROUPED),
    causal("StableLmForCausalLM", **GROUPED),
    causal("Starcoder2ForCausalLM", **GROUPED),
    causal("CohereForCausalLM", **GROUPED),
    causal("OlmoForCausalLM"),
    causal("Olmo2ForCausalLM"),
    causal("GraniteForCausalLM", **GROUPED),
    causal("NemotronForCausalLM", **GROUPED),
    causal("GlmForCausalLM", **GROUPED, **HEAD),
    causal("PersimmonForCausalLM"),
    causal("BioGptForCausalLM"),
    causal("XGLMForCausalLM", d_model=WIDTH, num_layers=2, attention_heads=HEADS, ffn_dim=32),
    causal("SmolLM3ForCausalLM", **GROUPED),
    causal("HeliumForCausalLM", **GROUPED, **HEAD),
    causal("DiffLlamaForCausalLM", num_key_value_heads=2),
    causal("XLNetLMHeadModel", kind="every word", d_model=WIDTH, n_layer=2, n_head=HEADS, d_inner=32, **UNBOUNDED),
]
STATE_SPACE = [
    causal("MambaForCausalLM", kind="next word, no mask", **MAMBA),
    causal("Mamba2ForCausalLM", kind="next word, no mask", **MAMBA, num_heads=4, head_dim=8, n_groups=1, chunk_size=4),
    causal("FalconMambaForCausalLM", kind="next word, no mask", **MAMBA),
    causal("RwkvForCausalLM", kind="next word, no mask", attention_hidden_size=WIDTH),
    causal("RecurrentGemmaForCausalLM", **GROUPED, lru_width=WIDTH, attention_window_size=4, **HEAD),
    causal("BambaForCausalLM", **GROUPED, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=4, mamba_n_groups=1,
           mamba_chunk_size=4, attn_layer_indices=[1]),
]  # fmt: skip
MIXTURES = [
    causal("MixtralForCausalLM", **EXPERTS),
    causal("Qwen2MoeForCausalLM", **EXPERTS, moe_intermediate_size=8, shared_expert_intermediate_size=8),
    causal("Qwen3MoeForCausalLM", **EXPERTS, **HEAD, moe_intermediate_size=8),
    causal("OlmoeForCausalLM", **EXPERTS),
    causal("GraniteMoeForCausalLM", **EXPERTS),
    causal("JambaForCausalLM", **EXPERTS, mamba_d_state=4, mamba_dt_rank=2, attn_layer_period=2, attn_layer_offset=1,
           expert_layer_period=1, expert_layer_offset=0, use_mamba_kernels=False),
    causal("PhimoeForCausalLM", **EXPERTS),
    causal("DeepseekV2ForCausalLM", num_key_value_heads=2, n_routed_experts=4, num_experts_per_tok=2, kv_lora_rank=4,
           q_lora_rank=4, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8, moe_intermediate_size=8,
           first_k_dense_replace=1, n_shared_experts=1, n_group=1, topk_group=1),
    causal("DeepseekV3ForCausalLM", num_key_value_heads=2, n_routed_experts=4, num_experts_per_tok=2, kv_lora_rank=4,
           q_lora_rank=4, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8, moe_intermediate_size=8,
           first_k_dense_replace=1, n_shared_experts=1, n_group=1, topk_group=1),
    causal("GptOssForCausalLM", **EXPERTS, **HEAD, sliding_window=4),
    translator("SwitchTransformersForConditionalGeneration", d_model=WIDTH, d_kv=8, d_ff=32, num_layers=2,
               num_decoder_layers=2, num_heads=HEADS, num_experts=4, num_sparse_encoder_layers=1,
               num_sparse_decoder_layers=1, decoder_start_token_id=0),
]  # fmt: skip
T5 = {"d_model": WIDTH, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": HEADS, "decoder_start_token_id": 0}
TRANSLATORS = [
    translator("T5ForConditionalGeneration", **T5),
    translator("MT5ForConditionalGeneration", **T5),
    translator("UMT5ForConditionalGeneration", **T5),
    translator("LongT5ForConditionalGeneration", **T5, local_radius=3),
    translator("BartForConditionalGeneration", **D_MODEL),
    translator("MBartForConditionalGeneration", **D_MODEL),
    translator("PegasusForConditionalGeneration", **D_MODEL),
    translator("MarianMTModel", **D_MODEL),
    translator("BlenderbotForConditionalGeneration", **D_MODEL),
    translator("M2M100ForConditionalGeneration", **D_MODEL),
    translator("LEDForConditionalGeneration", **D_MODEL, attention_window=8),
    translator("ProphetNetForConditionalGeneration", **STACKED, num_encoder_layers=1, num_decoder_layers=1,
               num_encoder_attention_heads=HEADS, num_decoder_attention_heads=HEADS, encoder_ffn_dim=32,
               decoder_ffn_dim=32, ngram=2, decoder_start_token_id=1),
]  # fmt: skip
READERS = [
    reader("BertForSequenceClassification"),
    reader("BertForMaskedLM", kind="every word"),
    reader("RobertaForSequenceClassification"),
    reader("XLMRobertaForSequenceClassification"),
    reader("CamembertForSequenceClassification"),
    reader("DistilBertForSequenceClassification", dim=WIDTH, n_layers=2, n_heads=HEADS, hidden_dim=32),
    reader("AlbertForSequenceClassification", embedding_size=8),
    reader("ElectraForSequenceClassification", embedding_size=8),
    reader("DebertaForSequenceClassification", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    reader("DebertaV2ForSequenceClassification", relative_attention=True, pos_att_type=["c2p", "p2c"]),
    reader("MPNetForSequenceClassification"),
    reader("MobileBertForSequenceClassification", embedding_size=8, true_hidden_size=8, intra_bottleneck_size=8),
    reader("SqueezeBertForSequenceClassification", embedding_size=WIDTH),
    reader("ConvBertForSequenceClassification", embedding_size=8, num_attention_heads=4),
    reader("FNetForSequenceClassification", kind="category, no mask"),
    reader("NystromformerForSequenceClassification", kind="category, no mask", num_landmarks=2,
           segment_means_seq_len=6),
    reader("RoFormerForSequenceClassification", embedding_size=WIDTH),
    reader("ErnieForSequenceClassification"),
    reader("MegatronBertForSequenceClassification"),
    reader("ModernBertForSequenceClassification", local_attention=4),
    reader("LongformerForSequenceClassification", attention_window=4),
    reader("BigBirdForSequenceClassification", attention_type="original_full"),
    reader("FunnelForSequenceClassification", d_model=WIDTH, n_head=HEADS, d_head=8, d_inner=32, block_sizes=[1, 1],
           **STACKED),
    reader("FlaubertForSequenceClassification", emb_dim=WIDTH, n_layers=2, n_heads=HEADS, n_words=WORDS),
    reader("XLMForSequenceClassification", emb_dim=WIDTH, n_layers=2, n_heads=HEADS, n_words=WORDS),
    reader("XLNetForSequenceClassification", d_model=WIDTH, n_layer=2, n_head=HEADS, d_inner=32, **UNBOUNDED),
    reader("PerceiverForSequenceClassification", num_latents=4, d_latents=8, d_model=WIDTH, num_blocks=1,
           num_self_attends_per_block=1, num_self_attention_heads=2, num_cross_attention_heads=2),
    reader("LlamaForSequenceClassification", **GROUPED),
    reader("GPT2ForSequenceClassification"),
]  # fmt: skip
SPEECH = {
    "conv_dim": [8, 8], "conv_stride": [4, 4], "conv_kernel": [8, 4], "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 8, "layerdrop": 0.0,
    "apply_spec_augment": False,
}  # fmt: skip
SERIES = {**D_MODEL, "prediction_length": 4, "context_length": 12, "lags_sequence": [1, 2, 4], "num_time_features": 1}
OTHERS = [
    hugging_face("Wav2Vec2ForSequenceClassification", "sound", **SPEECH),
    hugging_face("HubertForSequenceClassification", "sound", **SPEECH),
    hugging_face("WavLMForSequenceClassification", "sound", **SPEECH),
    hugging_face("UniSpeechForSequenceClassification", "sound", **SPEECH),
    hugging_face("ASTForAudioClassification", "hearing", max_length=32, num_mel_bins=16, patch_size=8,
                 frequency_stride=8, time_stride=8),
    hugging_face("WhisperForConditionalGeneration", "listening", **D_MODEL, num_mel_bins=16, max_source_positions=16,
                 max_target_positions=16, suppress_tokens=None, begin_suppress_tokens=None),
    hugging_face("TimeSeriesTransformerForPrediction", "forecast", **SERIES),
    hugging_face("InformerForPrediction", "forecast", **SERIES, distil=False),
    hugging_face("AutoformerForPrediction", "forecast", **SERIES, label_length=2, moving_average=3),
    hugging_face("PatchTSTForPrediction", "window", d_model=WIDTH, num_input_channels=1, context_length=16,
                 prediction_length=4, patch_length=4, patch_stride=4, ffn_dim=32, norm_type="layernorm"),
    hugging_face("PatchTSTForPrediction", "window", d_model=WIDTH, num_input_channels=1, context_length=16,
                 prediction_length=4, patch_length=4, patch_stride=4, ffn_dim=32),
    hugging_face("PatchTSMixerForPrediction", "window", d_model=WIDTH, num_input_channels=1, context_length=16,
                 prediction_length=4, patch_length=4, patch_stride=4),
]  # fmt: skip
TEXT: list[Architecture] = DECODERS + STATE_SPACE + MIXTURES + TRANSLATORS + READERS + OTHERS
