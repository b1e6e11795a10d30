"""Language models of transformers that go from left to right: two layers, 32 wide, without a cache."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.table import Built, add, ids, library

SMALL: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ALL_HEADS = {"num_key_value_heads": 4}
EXPERTS = {"moe_intermediate_size": 16, "num_experts_per_tok": 2}
ROUTED = {**EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}
LATENT = {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, **ALL_HEADS}
INDEXED = {"index_topk": 4, "index_head_dim": 16, "index_n_heads": 8}  # with few heads scores are 0 and tie, which torch leaves open
LINEAR = {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {  # name: (its configuration's class, what is not as in SMALL)
    "llama": ("LlamaConfig", {}),
    "llama_long_context": (
        "LlamaConfig",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 5e5,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            }
        },
    ),
    "mistral": ("MistralConfig", {"sliding_window": 8}),
    "ministral": ("MinistralConfig", {"sliding_window": 8}),
    "qwen2": ("Qwen2Config", {}),
    "qwen3": ("Qwen3Config", {}),
    "qwen3_next": (
        "Qwen3NextConfig",
        {
            "num_experts": 4,
            **EXPERTS,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "shared_expert_intermediate_size": 16,
        },
    ),
    "gemma": ("GemmaConfig", {}),
    "gemma2": ("Gemma2Config", {"query_pre_attn_scalar": 8, "sliding_window": 8}),
    "gemma3": ("Gemma3TextConfig", {"query_pre_attn_scalar": 8, "sliding_window": 8}),
    "phi": ("PhiConfig", ALL_HEADS),
    "phi3": ("Phi3Config", {}),
    "phimoe": ("PhimoeConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "gpt_neo": ("GPTNeoConfig", {"num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 8}),
    "gpt_neox": ("GPTNeoXConfig", {}),
    "gptj": ("GPTJConfig", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4}),
    "gpt_bigcode": ("GPTBigCodeConfig", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "gpt_oss": ("GptOssConfig", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8}),
    "codegen": ("CodeGenConfig", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 4}),
    "opt": ("OPTConfig", {"ffn_dim": 64, "word_embed_proj_dim": 32}),
    "bloom": ("BloomConfig", {"n_layer": 2, "n_head": 4}),
    "falcon": ("FalconConfig", {"new_decoder_architecture": False, "alibi": False}),
    "falcon_alibi": ("FalconConfig", {"new_decoder_architecture": True, "alibi": True, "num_kv_heads": 2}),
    "mpt": ("MptConfig", {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64}),
    "stablelm": ("StableLmConfig", ALL_HEADS),
    "olmo": ("OlmoConfig", {}),
    "olmo2": ("Olmo2Config", {}),
    "olmoe": ("OlmoeConfig", {"num_experts": 4, "num_experts_per_tok": 2}),
    "cohere": ("CohereConfig", {}),
    "cohere2": ("Cohere2Config", {"sliding_window": 8}),
    "granite": ("GraniteConfig", {}),
    "granitemoe": ("GraniteMoeConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "glm": ("GlmConfig", {}),
    "glm4": ("Glm4Config", {}),
    "starcoder2": ("Starcoder2Config", {}),
    "nemotron": ("NemotronConfig", {}),
    "persimmon": ("PersimmonConfig", ALL_HEADS),
    "smollm3": ("SmolLM3Config", {}),
    "exaone4": ("Exaone4Config", {"sliding_window": 8}),
    "helium": ("HeliumConfig", {}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "qwen2_moe": ("Qwen2MoeConfig", {"num_experts": 4, **EXPERTS, "shared_expert_intermediate_size": 16}),
    "qwen3_moe": ("Qwen3MoeConfig", {"num_experts": 4, **EXPERTS}),
    "dbrx": (
        "DbrxConfig",
        {
            "d_model": 32,
            "n_heads": 4,
            "n_layers": 2,
            "max_seq_len": 64,
            "resid_pdrop": 0.0,
            "attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0},
            "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
        },
    ),
    "deepseek_v2": (
        "DeepseekV2Config",
        {
            **EXPERTS,
            "n_routed_experts": 4,
            "n_shared_experts": 1,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "first_k_dense_replace": 1,
            **ALL_HEADS,
        },
    ),
    "deepseek_v3": (
        "DeepseekV3Config",
        {
            **EXPERTS,
            "n_routed_experts": 4,
            "n_group": 2,
            "topk_group": 1,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 8,
            "v_head_dim": 8,
            "first_k_dense_replace": 1,
            **ALL_HEADS,
        },
    ),
    "mamba": ("MambaConfig", {"state_size": 4, "time_step_rank": 4}),
    "mamba2": ("Mamba2Config", {"num_heads": 8, "head_dim": 8, "n_groups": 2, "state_size": 8, "chunk_size": 8}),
    "falcon_mamba": ("FalconMambaConfig", {"state_size": 4, "time_step_rank": 4}),
    "jamba": (
        "JambaConfig",
        {
            "num_experts": 2,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 4,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
    ),
    "zamba": (
        "ZambaConfig",
        {
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "mamba_d_state": 4,
            "mamba_dt_rank": 4,
            "n_mamba_heads": 2,
            "use_mamba_kernels": False,
            "attention_hidden_size": 64,
            "attention_head_dim": 16,
            **ALL_HEADS,
        },
    ),
    "bamba": ("BambaConfig", {"attn_layer_indices": [1], "mamba_n_heads": 8, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8}),
    "rwkv": ("RwkvConfig", {"context_length": 64, "attention_hidden_size": 32}),
    "recurrent_gemma": ("RecurrentGemmaConfig", {"num_hidden_layers": 3, "lru_width": 32, "attention_window_size": 16}),
    "xlstm": ("xLSTMConfig", {"num_heads": 4, "chunk_size": 8, "embedding_dim": 32}),
    "lfm2": ("Lfm2Config", {"layer_types": ["conv", "full_attention"]}),
    "openai_gpt": ("OpenAIGPTConfig", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "xglm": ("XGLMConfig", {"d_model": 32, "ffn_dim": 64, "num_layers": 2, "attention_heads": 4}),
    "ctrl": ("CTRLConfig", {"n_embd": 32, "dff": 64, "n_layer": 2, "n_head": 4, "n_positions": 64}),
    "biogpt": ("BioGptConfig", ALL_HEADS),
    "bitnet": ("BitNetConfig", {}),
    "modernbert_decoder": ("ModernBertDecoderConfig", {}),
    "seed_oss": ("SeedOssConfig", {}),
    "hunyuan_dense": ("HunYuanDenseV1Config", {}),
    "ernie4_5": ("Ernie4_5Config", {}),
    "arcee": ("ArceeConfig", {}),
    "apertus": ("ApertusConfig", {}),
    "olmo3": ("Olmo3Config", {"sliding_window": 8}),
    "diffllama": ("DiffLlamaConfig", {}),
    "doge": ("DogeConfig", {}),
    "jais2": ("Jais2Config", ALL_HEADS),
    "nanochat": ("NanoChatConfig", {}),
    "vaultgemma": ("VaultGemmaConfig", {"query_pre_attn_scalar": 8, "sliding_window": 8}),
    "ministral3": ("Ministral3Config", {}),
    "granitemoeshared": ("GraniteMoeSharedConfig", {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 16}),
    "granitemoehybrid": (
        "GraniteMoeHybridConfig",
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "shared_intermediate_size": 16,
            "layer_types": ["mamba", "attention"],
            "mamba_n_heads": 8,
            "mamba_d_head": 8,
            "mamba_d_state": 8,
            "mamba_chunk_size": 8,
        },
    ),
    "dots1": ("Dots1Config", {**EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 2, "topk_group": 1}),
    "glm4_moe": ("Glm4MoeConfig", {**EXPERTS, "n_routed_experts": 4, "n_shared_experts": 1, "first_k_dense_replace": 1}),
    "ernie4_5_moe": ("Ernie4_5_MoeConfig", {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 16, "moe_layer_start_index": 1}),
    "flex_olmo": ("FlexOlmoConfig", {"num_experts": 4, "num_experts_per_tok": 2}),
    "hunyuan_moe": ("HunYuanMoEV1Config", {"num_experts": 4, "moe_topk": 2}),
    "jetmoe": ("JetMoeConfig", {"kv_channels": 8, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "lfm2_moe": ("Lfm2MoeConfig", {**EXPERTS, "num_experts": 4, "num_dense_layers": 1, "layer_types": ["conv", "full_attention"]}),
    "llama4_text": ("Llama4TextConfig", {"num_local_experts": 4, "intermediate_size_mlp": 64, "attention_chunk_size": 8}),
    "minimax": ("MiniMaxConfig", {"num_local_experts": 4, "num_experts_per_tok": 2, "block_size": 8}),
    "minimax_m2": ("MiniMaxM2Config", {"num_local_experts": 4, "num_experts_per_tok": 2}),
    "afmoe": ("AfmoeConfig", {**EXPERTS, "num_experts": 4, "num_dense_layers": 1, "sliding_window": 8}),
    "falcon_h1": (
        "FalconH1Config",
        {"mamba_d_ssm": 32, "mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8, "mamba_n_groups": 1},
    ),
    "zamba2": (
        "Zamba2Config",
        {
            "mamba_d_state": 8,
            "n_mamba_heads": 8,
            "mamba_headdim": 8,
            "mamba_ngroups": 1,
            "chunk_size": 8,
            "layers_block_type": ["mamba", "hybrid"],
            "attention_hidden_size": 64,
            "attention_head_dim": 16,
            "adapter_rank": 8,
            "use_mamba_kernels": False,
            **ALL_HEADS,
        },
    ),
    "nemotron_h": (
        "NemotronHConfig",
        {
            "layers_block_type": ["mamba", "attention", "moe"],
            "num_hidden_layers": 3,
            "ssm_state_size": 8,
            "mamba_num_heads": 8,
            "mamba_head_dim": 8,
            "n_groups": 2,
            "chunk_size": 8,
            "n_routed_experts": 4,
            "moe_intermediate_size": 16,
            "moe_shared_expert_intermediate_size": 16,
            "num_experts_per_tok": 2,
            "use_mamba_kernels": False,
        },
    ),
    "qwen3_5": (
        "Qwen3_5TextConfig",
        {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8},
    ),
    "gemma3n": (
        "Gemma3nTextConfig",
        {
            "vocab_size_per_layer_input": 100,
            "hidden_size_per_layer_input": 8,
            "sliding_window": 8,
            "num_kv_shared_layers": 0,
            "laurel_rank": 4,
            "altup_num_inputs": 2,
            "activation_sparsity_pattern": [0.5, 0.0],
            "layer_types": ["sliding_attention", "full_attention"],
        },
    ),
    "blenderbot_small_decoder": (
        "BlenderbotSmallConfig",
        {"d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 64},
    ),
    "gpt_neox_japanese": ("GPTNeoXJapaneseConfig", {"intermediate_multiple_size": 2}),
    "reformer": (
        "ReformerConfig",
        {
            "attn_layers": ["local", "local"],
            "local_attn_chunk_length": 4,
            "axial_pos_shape": [3, 4],
            "axial_pos_embds_dim": [16, 16],
            "is_decoder": True,
            "attention_head_size": 8,
            "feed_forward_size": 64,
        },
    ),
    "exaone": ("ExaoneConfig", {}),
    "exaone_moe": (
        "ExaoneMoeConfig",
        {**EXPERTS, "num_experts": 4, "num_shared_experts": 1, "n_group": 1, "topk_group": 1, "sliding_window": 8},
    ),
    "gemma4_text": (
        "Gemma4TextConfig",
        {
            "sliding_window": 8,
            "vocab_size_per_layer_input": 100,
            "hidden_size_per_layer_input": 8,
            "num_kv_shared_layers": 0,
            "layer_types": ["sliding_attention", "full_attention"],
            "global_head_dim": 16,
        },
    ),
    "glm4_moe_lite": ("Glm4MoeLiteConfig", {**ROUTED, **LATENT}),
    "glm_moe_dsa": ("GlmMoeDsaConfig", {**ROUTED, **LATENT, **INDEXED}),
    "granitemoe_swa": ("GraniteMoeSWAConfig", {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 8}),
    "hunyuan_v3": ("HYV3Config", {**EXPERTS, "num_experts": 4}),
    "hunyuan_v4": ("HYV4Config", {**EXPERTS, "num_experts": 4}),
    "internlm3": ("InternLM3Config", {}),
    "kimi_linear": ("KimiLinearConfig", {**ROUTED, **LATENT, "num_experts": 4}),
    "laguna": ("LagunaConfig", {**EXPERTS, "num_experts": 4}),
    "mimo_v2_flash": ("MiMoV2FlashConfig", {**ROUTED, "sliding_window": 8}),
    "minicpm3": ("MiniCPM3Config", LATENT),
    "olmo_hybrid": ("OlmoHybridConfig", {**LINEAR, "layer_types": ["linear_attention", "full_attention"]}),
    "qwen3_5_moe": ("Qwen3_5MoeTextConfig", {**EXPERTS, **LINEAR, "num_experts": 4, "shared_expert_intermediate_size": 16}),
    "qwen4_exp": ("Qwen4ExpTextConfig", {**EXPERTS, **LINEAR, "num_experts": 4}),
    "sarvam_mla": ("SarvamMLAConfig", {**ROUTED, **LATENT, "num_experts": 4}),
    "sarvam_moe": ("SarvamMoEConfig", {**EXPERTS, "num_experts": 4}),
    "solar_open": ("SolarOpenConfig", ROUTED),
    "youtu": ("YoutuConfig", LATENT),
    "zaya": ("ZayaConfig", {}),
    "cohere2_moe": ("Cohere2MoeConfig", {"sliding_window": 8, "num_experts": 4, "num_experts_per_tok": 2}),
    "deepseek_v3_2": ("DeepseekV32Config", {**ROUTED, **LATENT, **INDEXED}),
    "deepseek_v4": ("DeepseekV4Config", {**ROUTED, **LATENT}),
    "axk1": ("AXK1Config", {**ROUTED, **LATENT}),
    "bailing_hybrid": ("BailingHybridConfig", {**ROUTED, **LATENT, "num_experts": 4}),
    "mellum": ("MellumConfig", {**EXPERTS, "num_experts": 4, "sliding_window": 8}),
    "hrm": ("HrmTextConfig", {}),
    "lfm3": ("Lfm3Config", {"layer_types": ["conv", "full_attention"]}),
    "flint": ("FlintConfig", {}),
    "dory": ("DoryConfig", {}),
    "dots3_note": ("Dots3NoteTextConfig", {**ROUTED, **ALL_HEADS}),
}

NO_HEAD_DIM = ("FalconConfig",)


def _decoder(config: str, over: dict[str, Any], attention: str = "", length: int = 12) -> Built:
    transformers = library("transformers")

    fixed = ("head_dim",) if config in NO_HEAD_DIM else ()
    given = {k: v for k, v in SMALL.items() if k not in fixed}
    made = getattr(transformers, config)(**{**given, **over, "use_cache": False})
    more = {"attn_implementation": attention} if attention else {}
    return Built(transformers.AutoModelForCausalLM.from_config(made, **more).eval(), (ids(length),))


for _name, (_config, _over) in MODELS.items():
    add("transformers", _name, lambda c=_config, o=_over: _decoder(c, o))  # type: ignore[misc]
for _name in ("llama", "gpt2", "gemma2", "mistral"):
    _config, _over = MODELS[_name]
    add("transformers", f"{_name}_eager", lambda c=_config, o=_over: _decoder(c, o, "eager"))  # type: ignore[misc]


def _masked(attention: str = "sdpa") -> Built:
    """Two prompts, of which the shorter one is filled up on the left."""
    import torch

    built = _decoder(*MODELS["llama"], attention)
    mask = torch.ones_like(built.args[0])
    mask[1, :4] = 0
    return Built(built.module, (), {"input_ids": built.args[0], "attention_mask": mask})


add("transformers", "llama_masked", _masked)
