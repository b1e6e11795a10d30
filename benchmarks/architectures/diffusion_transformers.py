"""Transformers of diffusers that denoise images, videos and sound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.architectures.diffusers_models import _diffusers
from benchmarks.architectures.table import Built

HEADS = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 1}
IMAGE = {"in_channels": 4, "out_channels": 4}


def _row(name: str, model: str, config: dict[str, Any], arguments: Callable[[Any], tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
    """`arguments` of torch: the positional ones, and those by name."""

    def build(torch: Any, d: Any) -> Built:
        net = getattr(d, model)(**config)
        return Built(net, *arguments(torch))

    _diffusers(name, build)


def _read(torch: Any, *shape: int, step: float = 7) -> tuple[Any, Any, Any]:
    """What is denoised, a text of five tokens, the step."""
    return torch.randn(*shape), torch.randn(1, 5, 16), torch.tensor([step])


def _sizes(torch: Any) -> tuple[Any, Any, Any]:
    """An image's original size, what is aimed at, where it was cut."""
    return torch.tensor([[8.0, 8.0]]), torch.tensor([[8.0, 8.0]]), torch.tensor([[0.0, 0.0]])


_row(
    "aura_flow",
    "AuraFlowTransformer2DModel",
    {
        **IMAGE,
        "sample_size": 8,
        "patch_size": 2,
        "num_mmdit_layers": 1,
        "num_single_dit_layers": 1,
        "attention_head_dim": 16,
        "num_attention_heads": 2,
        "joint_attention_dim": 16,
        "caption_projection_dim": 32,
        "pos_embed_max_size": 16,
    },
    lambda torch: (_read(torch, 1, 4, 8, 8, step=0.5), {}),
)
_row(
    "sana",
    "SanaTransformer2DModel",
    {
        **HEADS,
        **IMAGE,
        "num_layers": 2,
        "num_cross_attention_heads": 2,
        "cross_attention_head_dim": 16,
        "cross_attention_dim": 32,
        "caption_channels": 16,
        "mlp_ratio": 2.0,
        "sample_size": 8,
        "patch_size": 1,
    },
    lambda torch: (_read(torch, 1, 4, 8, 8), {}),
)
_row(
    "cogview3",
    "CogView3PlusTransformer2DModel",
    {**HEADS, **IMAGE, "patch_size": 2, "text_embed_dim": 16, "time_embed_dim": 16, "condition_dim": 4, "pos_embed_max_size": 16},
    lambda torch: ((*_read(torch, 1, 4, 8, 8), *_sizes(torch)), {}),
)
_row(
    "cogview4",
    "CogView4Transformer2DModel",
    {**HEADS, **IMAGE, "patch_size": 2, "text_embed_dim": 16, "time_embed_dim": 8, "condition_dim": 4},
    lambda torch: ((*_read(torch, 1, 4, 8, 8), *_sizes(torch)), {}),
)
_row(
    "latte",
    "LatteTransformer3DModel",
    {
        **HEADS,
        "in_channels": 4,
        "out_channels": 8,
        "cross_attention_dim": 32,
        "attention_bias": True,
        "sample_size": 8,
        "patch_size": 2,
        "activation_fn": "gelu-approximate",
        "num_embeds_ada_norm": 16,
        "norm_type": "ada_norm_single",
        "norm_elementwise_affine": False,
        "norm_eps": 1e-6,
        "caption_channels": 16,
        "video_length": 4,
    },
    lambda torch: ((torch.randn(1, 4, 4, 8, 8),), {"timestep": torch.tensor([7]), "encoder_hidden_states": torch.randn(1, 5, 16)}),
)
_row(
    "wan",
    "WanTransformer3DModel",
    {
        **HEADS,
        **IMAGE,
        "patch_size": (1, 2, 2),
        "attention_head_dim": 12,
        "text_dim": 16,
        "freq_dim": 32,
        "ffn_dim": 32,
        "rope_max_seq_len": 32,
    },
    lambda torch: ((torch.randn(1, 4, 2, 8, 8), torch.tensor([7]), torch.randn(1, 5, 16)), {}),
)
_row(
    "ltx_video",
    "LTXVideoTransformer3DModel",
    {**HEADS, "in_channels": 8, "out_channels": 8, "cross_attention_dim": 32, "caption_channels": 16},
    lambda torch: ((*_read(torch, 1, 8, 8), torch.ones(1, 5).bool()), {"num_frames": 2, "height": 2, "width": 2}),
)
_row(
    "flux2",
    "Flux2Transformer2DModel",
    {
        **HEADS,
        "patch_size": 1,
        "in_channels": 4,
        "num_single_layers": 1,
        "joint_attention_dim": 32,
        "timestep_guidance_channels": 16,
        "axes_dims_rope": (4, 4, 4, 4),
    },
    lambda torch: (
        (torch.randn(1, 16, 4),),
        {
            "encoder_hidden_states": torch.randn(1, 5, 32),
            "timestep": torch.tensor([0.5]),
            "img_ids": torch.zeros(1, 16, 4),
            "txt_ids": torch.zeros(1, 5, 4),
            "guidance": torch.tensor([1.0]),
        },
    ),
)
_row(
    "stable_audio",
    "StableAudioDiTModel",
    {
        **IMAGE,
        "sample_size": 4,
        "num_layers": 1,
        "attention_head_dim": 8,
        "num_attention_heads": 4,
        "num_key_value_attention_heads": 2,
        "cross_attention_dim": 16,
        "time_proj_dim": 8,
        "global_states_input_dim": 8,
        "cross_attention_input_dim": 16,
    },
    lambda torch: (
        (torch.randn(1, 4, 8), torch.tensor([0.5])),
        {"encoder_hidden_states": torch.randn(1, 5, 16), "global_hidden_states": torch.randn(1, 1, 8), "rotary_embedding": None},
    ),
)
_row(
    "qwen_image",
    "QwenImageTransformer2DModel",
    {**HEADS, "patch_size": 2, "in_channels": 16, "out_channels": 4, "joint_attention_dim": 16, "axes_dims_rope": (8, 4, 4)},
    lambda torch: (
        (torch.randn(1, 16, 16),),
        {
            "encoder_hidden_states": torch.randn(1, 5, 16),
            "encoder_hidden_states_mask": torch.ones(1, 5).long(),
            "timestep": torch.tensor([0.5]),
            "img_shapes": [(1, 4, 4)],
        },
    ),
)
_row(
    "hunyuan_video",
    "HunyuanVideoTransformer3DModel",
    {
        **HEADS,
        **IMAGE,
        "attention_head_dim": 10,
        "num_single_layers": 1,
        "num_refiner_layers": 1,
        "patch_size": 1,
        "patch_size_t": 1,
        "guidance_embeds": True,
        "text_embed_dim": 16,
        "pooled_projection_dim": 8,
        "rope_axes_dim": (2, 4, 4),
    },
    lambda torch: (
        (torch.randn(1, 4, 2, 4, 4), torch.tensor([7]), torch.randn(1, 5, 16), torch.ones(1, 5).bool(), torch.randn(1, 8)),
        {"guidance": torch.tensor([6.0])},
    ),
)
