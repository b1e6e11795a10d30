"""Autoencoders of images, videos and sound, and what makes sound of spectrograms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.architectures.diffusers_models import _diffusers
from benchmarks.architectures.table import Built, add, library

PICTURE, FILM, WAVE = (1, 3, 16, 16), (1, 3, 5, 16, 16), (1, 1, 640)
CODECS: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {  # of diffusers: (class, what it reads, configuration)
    "asymmetric_autoencoder": (
        "AsymmetricAutoencoderKL",
        PICTURE,
        {
            "down_block_types": ("DownEncoderBlock2D",),
            "down_block_out_channels": (16,),
            "up_block_types": ("UpDecoderBlock2D",),
            "up_block_out_channels": (16,),
            "layers_per_down_block": 1,
            "layers_per_up_block": 1,
            "norm_num_groups": 4,
        },
    ),
    "deep_compression_autoencoder": (
        "AutoencoderDC",
        PICTURE,
        {
            "latent_channels": 4,
            "attention_head_dim": 2,
            "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
            "encoder_block_out_channels": (8, 8),
            "decoder_block_out_channels": (8, 8),
            "encoder_layers_per_block": (1, 1),
            "decoder_layers_per_block": (1, 1),
            "encoder_qkv_multiscales": ((), (5,)),
            "decoder_qkv_multiscales": ((), (5,)),
        },
    ),
    "cogvideox_autoencoder": (
        "AutoencoderKLCogVideoX",
        (1, 3, 4, 16, 16),
        {
            "down_block_types": ("CogVideoXDownBlock3D",) * 2,
            "up_block_types": ("CogVideoXUpBlock3D",) * 2,
            "block_out_channels": (8, 8),
            "latent_channels": 4,
            "layers_per_block": 1,
            "norm_num_groups": 2,
            "temporal_compression_ratio": 2,
        },
    ),
    "oobleck": (
        "AutoencoderOobleck",
        (1, 2, 64),
        {
            "encoder_hidden_size": 12,
            "decoder_channels": 12,
            "decoder_input_channels": 6,
            "audio_channels": 2,
            "downsampling_ratios": [2, 4],
            "channel_multiples": [1, 2],
        },
    ),
    "wan_autoencoder": ("AutoencoderKLWan", FILM, {"base_dim": 3, "dim_mult": [1, 1, 1, 1], "num_res_blocks": 1}),
}
SOUND: dict[str, tuple[str, tuple[int, ...], dict[str, Any]]] = {  # of transformers
    "dac": (
        "Dac",
        WAVE,
        {
            "encoder_hidden_size": 8,
            "decoder_hidden_size": 32,
            "downsampling_ratios": [4, 2],
            "upsampling_ratios": [2, 4],
            "n_codebooks": 2,
            "codebook_size": 16,
            "codebook_dim": 4,
            "hidden_size": 32,
        },
    ),
    "speecht5_hifigan": (
        "SpeechT5HifiGan",
        (1, 10, 16),
        {
            "model_in_dim": 16,
            "upsample_initial_channel": 32,
            "upsample_rates": [2, 2],
            "upsample_kernel_sizes": [4, 4],
            "resblock_kernel_sizes": [3],
            "resblock_dilation_sizes": [[1, 3]],
        },
    ),
}


def _codec(model: str, shape: tuple[int, ...], config: dict[str, Any]) -> Callable[[Any, Any], Built]:
    def build(torch: Any, d: Any) -> Built:
        net = getattr(d, model)(**config)
        for part in net.modules():
            if hasattr(part, "weight_g"):  # a module with such a norm cannot be copied
                torch.nn.utils.remove_weight_norm(part)
        return Built(net, (torch.randn(*shape),))

    return build


def _sound(model: str, shape: tuple[int, ...], config: dict[str, Any]) -> Built:
    import torch

    transformers = library("transformers")

    net = getattr(transformers, model if model.endswith("Gan") else f"{model}Model")
    return Built(net(getattr(transformers, f"{model}Config")(**config)).eval(), (torch.randn(*shape),))


for _name, _row in CODECS.items():
    _diffusers(_name, _codec(*_row))
for _name, _row in SOUND.items():
    add("transformers", _name, lambda r=_row: _sound(*r))  # type: ignore[misc]
