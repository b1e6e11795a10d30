"""Encoders, and encoders with decoders, of transformers, that read text or sound."""

from __future__ import annotations

from typing import Any

from benchmarks.architectures.table import Built, add, ids, library

SMALL: dict[str, Any] = {
    "vocab_size": 100,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
TEXT: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertConfig", {}),
    "roberta": ("RobertaConfig", {"pad_token_id": 1}),
    "xlm_roberta": ("XLMRobertaConfig", {"pad_token_id": 1}),
    "distilbert": ("DistilBertConfig", {"dim": 32, "hidden_dim": 64, "n_layers": 2, "n_heads": 4}),
    "albert": ("AlbertConfig", {"embedding_size": 16}),
    "electra": ("ElectraConfig", {"embedding_size": 16}),
    "deberta": ("DebertaConfig", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "max_relative_positions": -1}),
    "deberta_v2": ("DebertaV2Config", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_buckets": 8}),
    "mpnet": ("MPNetConfig", {"pad_token_id": 1}),
    "mobilebert": ("MobileBertConfig", {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16}),
    "squeezebert": ("SqueezeBertConfig", {"embedding_size": 32}),
    "convbert": ("ConvBertConfig", {"embedding_size": 32, "head_ratio": 2, "conv_kernel_size": 3}),
    "funnel": ("FunnelConfig", {"block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 64, "num_decoder_layers": 1}),
    "fnet": ("FNetConfig", {}),
    "nystromformer": ("NystromformerConfig", {"num_landmarks": 4, "segment_means_seq_len": 12}),
    "roformer": ("RoFormerConfig", {"embedding_size": 32}),
    "rembert": ("RemBertConfig", {"input_embedding_size": 16, "output_embedding_size": 16}),
    "esm": ("EsmConfig", {"position_embedding_type": "rotary", "pad_token_id": 1, "mask_token_id": 4}),
    "xlnet": ("XLNetConfig", {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64}),
    "modernbert": ("ModernBertConfig", {"local_attention": 8}),
    "longformer": ("LongformerConfig", {"attention_window": [4, 4]}),
    "big_bird": ("BigBirdConfig", {"attention_type": "original_full"}),
    "ibert": ("IBertConfig", {"pad_token_id": 1}),
    "canine": ("CanineConfig", {"downsampling_rate": 4, "num_hash_buckets": 64, "local_transformer_stride": 16}),
    "layoutlm": ("LayoutLMConfig", {}),
    "camembert": ("CamembertConfig", {"pad_token_id": 1}),
    "flaubert": ("FlaubertConfig", {"emb_dim": 32, "n_layers": 2, "n_heads": 4}),
    "xlm": ("XLMConfig", {"emb_dim": 32, "n_layers": 2, "n_heads": 4}),
    "megatron_bert": ("MegatronBertConfig", {}),
    "roberta_prelayernorm": ("RobertaPreLayerNormConfig", {"pad_token_id": 1}),
    "xlm_roberta_xl": ("XLMRobertaXLConfig", {"pad_token_id": 1}),
    "xmod": ("XmodConfig", {"pad_token_id": 1, "languages": ["en_XX"], "default_language": "en_XX"}),
    "roc_bert": (
        "RoCBertConfig",
        {"pronunciation_vocab_size": 100, "pronunciation_embed_dim": 8, "shape_vocab_size": 100, "shape_embed_dim": 8},
    ),
    "yoso": ("YosoConfig", {"use_expectation": True}),
    "nomic_bert": ("NomicBertConfig", {}),
    "eurobert": ("EuroBertConfig", {}),
    "luke": ("LukeConfig", {"entity_vocab_size": 10, "entity_emb_size": 8, "pad_token_id": 1}),
    "tapas": ("TapasConfig", {}),
    "splinter": ("SplinterConfig", {}),
    "lilt": ("LiltConfig", {"hidden_size": 48, "pad_token_id": 1}),
    "markuplm": ("MarkupLMConfig", {"xpath_unit_hidden_size": 8}),
    "data2vec_text": ("Data2VecTextConfig", {"pad_token_id": 1}),
    "bert_generation": ("BertGenerationConfig", {}),
    "gte": ("GteConfig", {}),
    "jina_embeddings_v3": ("JinaEmbeddingsV3Config", {}),
    "ernie": ("ErnieConfig", {}),
}
PAIRS: dict[str, tuple[str, dict[str, Any]]] = {
    "mvp": ("MvpConfig", {}),
    "plbart": ("PLBartConfig", {}),
    "blenderbot_small": ("BlenderbotSmallConfig", {}),
    "pegasus_x": ("PegasusXConfig", {"num_global_tokens": 4, "block_size": 4}),
    "bigbird_pegasus": ("BigBirdPegasusConfig", {"attention_type": "original_full"}),
    "t5": ("T5Config", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}),
    "flan_t5": ("T5Config", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "feed_forward_proj": "gated-gelu"}),
    "mt5": ("MT5Config", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}),
    "umt5": ("UMT5Config", {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}),
    "bart": ("BartConfig", {}),
    "mbart": ("MBartConfig", {}),
    "pegasus": ("PegasusConfig", {}),
    "marian": ("MarianConfig", {"decoder_vocab_size": 100}),
    "m2m_100": ("M2M100Config", {}),
    "blenderbot": ("BlenderbotConfig", {}),
    "prophetnet": (
        "ProphetNetConfig",
        {
            "num_encoder_layers": 2,
            "num_decoder_layers": 2,
            "num_encoder_attention_heads": 4,
            "num_decoder_attention_heads": 4,
            "encoder_ffn_dim": 64,
            "decoder_ffn_dim": 64,
        },
    ),
    "switch_transformers": (
        "SwitchTransformersConfig",
        {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "num_experts": 4},
    ),
}
BART: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "vocab_size": 100,
    "decoder_start_token_id": 2,
    "pad_token_id": 1,
    "bos_token_id": 0,
    "eos_token_id": 2,
}
FEATURES: dict[str, Any] = {
    "conv_dim": (16, 16),
    "conv_stride": (4, 2),
    "conv_kernel": (8, 4),
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
}
SOUND: dict[str, tuple[str, dict[str, Any]]] = {
    "wav2vec2": ("Wav2Vec2Config", FEATURES),
    "wav2vec2_layer_norm": ("Wav2Vec2Config", {**FEATURES, "feat_extract_norm": "layer", "do_stable_layer_norm": True}),
    "hubert": ("HubertConfig", FEATURES),
    "wavlm": ("WavLMConfig", FEATURES),
    "unispeech": ("UniSpeechConfig", FEATURES),
    "sew": ("SEWConfig", {**FEATURES, "squeeze_factor": 2, "feat_extract_norm": "layer"}),
    "sew_d": ("SEWDConfig", {**FEATURES, "squeeze_factor": 2, "max_position_embeddings": 64, "position_buckets": 8}),
    "unispeech_sat": ("UniSpeechSatConfig", FEATURES),
    "wav2vec2_conformer": ("Wav2Vec2ConformerConfig", {**FEATURES, "position_embeddings_type": "rotary", "conv_depthwise_kernel_size": 3}),
    "wav2vec2_conformer_relative": (
        "Wav2Vec2ConformerConfig",
        {**FEATURES, "position_embeddings_type": "relative", "conv_depthwise_kernel_size": 3},
    ),
    "data2vec_audio": ("Data2VecAudioConfig", {**FEATURES, "num_conv_pos_embeddings": 2, "conv_pos_kernel_size": 5}),
}


def _text(config: str, over: dict[str, Any]) -> Built:
    transformers = library("transformers")

    length = 16 if config == "CanineConfig" else 12
    return Built(transformers.AutoModel.from_config(getattr(transformers, config)(**{**SMALL, **over})).eval(), (ids(length),))


def _pair(config: str, over: dict[str, Any]) -> Built:
    transformers = library("transformers")

    made = getattr(transformers, config)(**{**BART, **over, "use_cache": False})
    module = transformers.AutoModelForSeq2SeqLM.from_config(made).eval()
    return Built(module, (), {"input_ids": ids(9), "decoder_input_ids": ids(5)})


def _sound(config: str, over: dict[str, Any]) -> Built:
    import torch

    transformers = library("transformers")

    made = getattr(transformers, config)(**{**SMALL, **over})
    return Built(transformers.AutoModel.from_config(made).eval(), (torch.randn(1, 800),))


def _whisper() -> Built:
    import torch

    transformers = library("transformers")

    made = transformers.WhisperConfig(
        **{**BART, "num_mel_bins": 16, "max_source_positions": 24, "max_target_positions": 24, "use_cache": False}
    )
    net = transformers.WhisperForConditionalGeneration(made).eval()
    return Built(net, (), {"input_features": torch.randn(1, 16, 48), "decoder_input_ids": ids(5, 1)})


def _speech_to_text() -> Built:
    import torch

    transformers = library("transformers")

    made = transformers.Speech2TextConfig(
        **{
            **BART,
            "input_feat_per_channel": 16,
            "max_source_positions": 64,
            "max_target_positions": 24,
            "conv_channels": 32,
            "use_cache": False,
        }
    )
    net = transformers.Speech2TextForConditionalGeneration(made).eval()
    return Built(net, (), {"input_features": torch.randn(1, 40, 16), "decoder_input_ids": ids(5, 1)})


def _spectrogram() -> Built:
    import torch

    transformers = library("transformers")

    made = transformers.ASTConfig(
        **{**SMALL, "num_mel_bins": 32, "max_length": 48, "patch_size": 8, "frequency_stride": 6, "time_stride": 6}
    )
    return Built(transformers.ASTModel(made).eval(), (torch.randn(1, 48, 32),))


def _series(config: str) -> Built:
    import torch

    transformers = library("transformers")

    made = getattr(transformers, config)(
        num_input_channels=2, context_length=32, patch_length=8, patch_stride=8, d_model=16, num_layers=2, prediction_length=8
    )
    return Built(getattr(transformers, config.replace("Config", "ForPrediction"))(made).eval(), (torch.randn(2, 32, 2),))


for _name, (_config, _over) in TEXT.items():
    add("transformers", _name, lambda c=_config, o=_over: _text(c, o))  # type: ignore[misc]
for _name, (_config, _over) in PAIRS.items():
    add("transformers", _name, lambda c=_config, o=_over: _pair(c, o))  # type: ignore[misc]
for _name, (_config, _over) in SOUND.items():
    add("transformers", _name, lambda c=_config, o=_over: _sound(c, o))  # type: ignore[misc]
add("transformers", "whisper", _whisper)
add("transformers", "speech_to_text", _speech_to_text)
add("transformers", "audio_spectrogram_transformer", _spectrogram)
add("transformers", "patchtst", lambda: _series("PatchTSTConfig"))
add("transformers", "patchtsmixer", lambda: _series("PatchTSMixerConfig"))
