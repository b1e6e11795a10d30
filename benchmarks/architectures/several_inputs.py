"""Models of transformers that read videos, spectrograms, time series, or several things at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.architectures.encoders import BART
from benchmarks.architectures.encoders import SMALL as READING
from benchmarks.architectures.table import Built, add, ids, image, library

TOWER: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
LOOKING: dict[str, Any] = {**TOWER, "image_size": 32, "patch_size": 8}
SPECTRUM: dict[str, Any] = {"num_mel_bins": 16, "subsampling_conv_channels": 8, "conv_kernel_size": 5}


def _film(torch: Any) -> dict[str, Any]:
    return {"pixel_values": torch.randn(1, 4, 3, 32, 32)}


def _boxes(torch: Any) -> dict[str, Any]:
    return {"input_ids": ids(12), "bbox": torch.randint(0, 100, (2, 12, 4)).sort(-1).values, "pixel_values": image(32, batch=2)}


def _objects(torch: Any) -> dict[str, Any]:
    return {"input_ids": ids(8), "visual_feats": torch.randn(2, 4, 16), "visual_pos": torch.rand(2, 4, 4)}


def _steps(torch: Any) -> dict[str, Any]:
    return {
        "states": torch.randn(1, 4, 17),
        "actions": torch.randn(1, 4, 4),
        "rewards": torch.randn(1, 4, 1),
        "returns_to_go": torch.randn(1, 4, 1),
        "timesteps": torch.arange(4)[None],
        "attention_mask": torch.ones(1, 4),
    }


def _series(torch: Any) -> dict[str, Any]:
    return {
        "past_values": torch.rand(2, 19),
        "past_time_features": torch.randn(2, 19, 2),
        "past_observed_mask": torch.ones(2, 19),
        "future_values": torch.rand(2, 4),
        "future_time_features": torch.randn(2, 4, 2),
        "use_cache": False,
    }


def _patches(torch: Any) -> dict[str, Any]:
    return {
        "pixel_values": torch.randn(1, 16, 192),
        "pixel_attention_mask": torch.ones(1, 16).long(),
        "spatial_shapes": torch.tensor([[4, 4]]),
    }


def _prompted(torch: Any) -> dict[str, Any]:
    return {"pixel_values": image(32), "prompt_pixel_values": image(32), "prompt_masks": image(32)}


PAIR = {k: v for k, v in BART.items() if k.startswith(("d_", "encoder", "decoder_l", "decoder_a", "decoder_f"))}
MODELS: dict[str, tuple[str, Callable[[Any], dict[str, Any]], dict[str, Any]]] = {  # name: (class, inputs, configuration)
    "timesformer": ("TimesformerModel", _film, {**LOOKING, "num_frames": 4}),
    "vivit": ("VivitModel", _film, {**TOWER, "image_size": 32, "num_frames": 4, "tubelet_size": [2, 8, 8]}),
    "layoutlmv3": (
        "LayoutLMv3Model",
        _boxes,
        {**READING, "input_size": 32, "patch_size": 8, "coordinate_size": 6, "shape_size": 4, "max_2d_position_embeddings": 128},
    ),
    "visual_bert": (
        "VisualBertModel",
        lambda torch: {"input_ids": ids(8), "visual_embeds": torch.randn(2, 4, 16)},
        {**READING, "visual_embedding_dim": 16},
    ),
    "lxmert": (
        "LxmertModel",
        _objects,
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "l_layers": 1,
            "x_layers": 1,
            "r_layers": 1,
            "visual_feat_dim": 16,
            "max_position_embeddings": 64,
        },
    ),
    "decision_transformer": ("DecisionTransformerModel", _steps, {"hidden_size": 32, "n_layer": 2, "n_head": 4, "max_ep_len": 16}),
    "time_series_transformer": (
        "TimeSeriesTransformerModel",
        _series,
        {**PAIR, "prediction_length": 4, "context_length": 12, "num_time_features": 2},
    ),
    "siglip2_vision": ("Siglip2VisionModel", _patches, {**TOWER, "num_patches": 16, "patch_size": 8}),
    "seggpt": (
        "SegGptModel",
        _prompted,
        {
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": [64, 32],
            "patch_size": 8,
            "pretrain_image_size": 32,
            "intermediate_hidden_state_indices": [0, 1],
            "merge_index": 0,
            "mlp_dim": 64,
            "decoder_hidden_size": 8,
        },
    ),
    "wav2vec2_bert": (
        "Wav2Vec2BertModel",
        lambda torch: {"input_features": torch.randn(1, 20, 16)},
        {
            **TOWER,
            "feature_projection_input_dim": 16,
            "position_embeddings_type": "relative_key",
            "conv_depthwise_kernel_size": 5,
        },
    ),
    "parakeet": ("ParakeetEncoder", lambda torch: {"input_features": torch.randn(1, 40, 16)}, {**TOWER, **SPECTRUM}),
    "lasr": ("LasrEncoder", lambda torch: {"input_features": torch.randn(1, 40, 16)}, {**TOWER, **SPECTRUM, "num_key_value_heads": 4}),
    "moonshine": (
        "MoonshineModel",
        lambda torch: {"input_values": torch.randn(1, 4000), "decoder_input_ids": ids(5, 1), "use_cache": False},
        {
            "vocab_size": 100,
            "hidden_size": 32,
            "intermediate_size": 64,
            "encoder_num_hidden_layers": 2,
            "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 4,
            "decoder_num_attention_heads": 4,
            "max_position_embeddings": 64,
        },
    ),
    "clap_audio": (
        "ClapAudioModel",
        lambda torch: {"input_features": torch.randn(1, 1, 64, 16), "is_longer": torch.zeros(1, 1).bool()},
        {
            "spec_size": 64,
            "window_size": 4,
            "patch_size": 4,
            "patch_stride": [4, 4],
            "num_mel_bins": 16,
            "patch_embeds_hidden_size": 16,
            "depths": [1, 1],
            "num_attention_heads": [2, 4],
            "hidden_size": 32,
            "num_classes": 4,
        },
    ),
}


def _built(model: str, inputs: Callable[[Any], dict[str, Any]], config: dict[str, Any]) -> Built:
    import torch

    transformers = library("transformers")

    net = getattr(transformers, model)
    return Built(net(net.config_class(**config)).eval(), (), inputs(torch))


for _name, _row in MODELS.items():
    add("transformers", _name, lambda r=_row: _built(*r))  # type: ignore[misc]
